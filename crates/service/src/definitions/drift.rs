//! Tools that have changed since a version was made: told with each run that is started, or a reason not to start it;
//! and taken for the known ones when somebody says so.

use relais_engine::{ErrorKind, Failure};
use relais_plan::{OnToolDrift, Plan};
use relais_runtime::prepare::{load_plan, tools_of};
use relais_runtime::tool::ToolSpec;
use relais_runtime::tools::{Manifest, drift};
use relais_store::Expect;
use serde_json::Value;

use crate::definitions::workflows::{Version, Workflow};
use crate::kept::{self, At, Read};
use crate::{Checked, Error, Service};

/// Compares the tools that a plan has now with those that its version knew.
pub(crate) fn tell(checked: &mut Checked, name: &str, version: &Version, now: &[ToolSpec]) -> Result<(), Error> {
    let Some(how) = changes(&checked.plan, version, now) else { return Ok(()) };
    let since = format!("the tools of `{name}` have changed since version {} was made: {how}", checked.version);
    if checked.plan.on_tool_drift == OnToolDrift::Fail {
        let text = format!("{since}; look at them, then `relais workflows accept-tools` makes them the known ones");
        return Err(Failure::new(ErrorKind::Config, text).into());
    }
    checked.target.drift = Some(since);
    Ok(())
}

fn changes(plan: &Plan, version: &Version, now: &[ToolSpec]) -> Option<String> {
    let then = &version.manifest;
    let unverified: Vec<&str> = then["unverified"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if then["known"].is_object() {
        return drift::changes(&then["known"], &unverified, now, &tools_of(plan));
    }
    // Of a version that was made before more was kept there is one hash for all of its plans.
    let hash = then["hash"].as_str().filter(|hash| !hash.is_empty())?;
    let is_comparable = unverified.is_empty() && version.branches.is_empty();
    let is_other = Manifest::new(String::new(), now).hash != hash;
    (is_comparable && is_other).then(|| "which of them was not kept then".to_owned())
}

impl Service {
    /// The tools as they are now are the known ones: a new version that says what the newest says. Nothing is changed
    /// where they were known already.
    pub async fn accept_tools(&self, text: &str, revision: Read) -> Result<At<Workflow>, Error> {
        self.amend(&revision, || self.find_workflow(text), |at| self.accepted(at)).await
    }

    async fn accepted(&self, At { it: mut workflow, revision }: At<Workflow>) -> Result<At<Workflow>, Error> {
        let version = self.version_of(&workflow, None).await?;
        if !version.can_run() {
            let text = format!("the workflow `{}` cannot run yet, so it knows no tools", workflow.name);
            return Err(Error::Conflict(text));
        }
        let mut plans = Vec::new();
        for hash in version.plan.iter().chain(version.branches.values()) {
            plans.push(load_plan(self.core.store.as_ref(), hash).await?);
        }
        let manifest = self.manifest_of(plans.iter()).await?;
        if manifest["known"] == version.manifest["known"] && manifest["unverified"] == version.manifest["unverified"] {
            return Ok(At { it: workflow, revision });
        }
        workflow.version += 1;
        workflow.manifest = manifest.clone();
        workflow.updated_at = self.core.clock.now();
        let version = Version { manifest, reason: "tools accepted".to_owned(), ..version };
        let edits = vec![
            self.version_edit(&workflow, &version)?,
            kept::put(self.user(), &workflow, Expect::Revision(revision))?,
        ];
        self.change(edits).await?;
        self.kept(&workflow.id.to_string()).await
    }
}
