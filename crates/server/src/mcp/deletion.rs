//! The tool that deletes a workflow: what would go is told first, and goes when that is confirmed.

use relais_mcp::serving::{Given, Trouble};
use relais_service::Removal;
use relais_service::access::Scope;
use serde_json::json;

use super::Guest;
use super::arguments::{Arguments, WORKFLOW};
use super::attend::Attended;
use super::render::given;
use super::tools::{Effect, Spec, same_as, text, user_id};
use super::trouble::trouble;
use crate::api::views::DeletionView;

pub fn delete_spec() -> Spec {
    Spec {
        name: "delete_workflow",
        title: "Delete a workflow",
        about: "Deletes a workflow for good: its versions, triggers and schedules, and its runs with their outputs and \
                artifacts. Without `confirm` nothing is deleted: the answer says what would go, to show to the person \
                before you call again with `confirm: true`. Refused while runs are active or other workflows call it, \
                unless `force` is true. To stop runs and schedules and keep the workflow use cancel_workflow; to hide \
                it, update_workflow with status \"archived\".\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"confirm\": true}",
        takes: json!({
            "workflow_id": text("Id, alias or name of the workflow; must be given."),
            "id": same_as("workflow_id"),
            "workflowId": same_as("workflow_id"),
            "confirm": { "type": "boolean", "default": false, "description": "Delete it; otherwise only tell what would go." },
            "keep_runs": { "type": "boolean", "default": false, "description": "Its runs, outputs and artifacts stay." },
            "force": { "type": "boolean", "default": false,
                "description": "Cancel its active runs first, and do not mind workflows that call it." },
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Write,
        effect: Effect::Ends,
    }
}

pub async fn delete(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let help = "say which workflow is to be deleted, by id, alias or name; list_workflows lists them";
    let workflow = guest.workflow(&arguments.must(WORKFLOW, help)?).await?.it.id.to_string();
    let mut flag = |name: &str| arguments.flag(name).unwrap_or_default();
    let (confirmed, removal) = (flag("confirm"), Removal { force: flag("force"), keep_runs: flag("keep_runs") });
    let goes = DeletionView::from(guest.service.deletion(&workflow, removal).await.map_err(trouble)?);
    if !confirmed {
        let next = "Nothing was deleted. Call delete_workflow again with `confirm: true` to delete all of this.";
        return Ok(given(json!({ "deleted": false, "would_delete": goes, "next": next })));
    }
    guest.service.delete_workflow(&workflow, removal, None).await.map_err(trouble)?;
    Ok(given(json!({ "deleted": true, "what": goes })))
}
