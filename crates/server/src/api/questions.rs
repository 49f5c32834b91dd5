//! What people are asked, over all runs: listed by whoever may answer, and answered.

use axum::http::StatusCode;
use relais_service::Asked;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::{Json, Path, Query};
use crate::caller::{Reads, Runs};
use crate::pages::{Page, Paging};
use crate::problem::{Problem, Problems};
use crate::times::instant;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(get)).routes(routes!(answer))
}

/// A question that waits for you: of a step, or whether a tool may be called.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct OpenQuestionView {
    /// The run and the number of the question, with a dot between.
    pub id: String,
    pub run: Uuid,
    /// Whose run it is.
    pub user: String,
    /// The name of the workflow.
    pub workflow: String,
    /// The id of the workflow, where the run is of a kept one.
    pub workflow_id: Option<String>,
    /// The step that asks.
    pub step: String,
    pub question: String,
    /// What belongs to the question: the arguments of the tool call, for example.
    pub show: Value,
    /// JSON Schema of the answer.
    pub answer: Value,
    /// The tool that waits for a yes. The answer may then also be `{"approve": true, "arguments": {…}}`.
    pub tool: Option<String>,
    #[schema(format = DateTime)]
    pub asked_at: String,
    #[schema(format = DateTime)]
    pub deadline: Option<String>,
    /// How many different people must say yes.
    pub approvals: usize,
    pub approved_by: Vec<ApprovedBy>,
    /// Where the answer is posted: `{"value": …}`.
    pub answer_at: String,
    /// The same on the command line.
    pub answer_with: String,
}

/// Somebody who has said yes where several must.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
pub struct ApprovedBy {
    pub user: String,
    /// The arguments that they said yes to; all must have said yes to the same.
    pub arguments: Value,
}

impl From<Asked> for OpenQuestionView {
    fn from(asked: Asked) -> OpenQuestionView {
        let (id, Asked { open, yes }) = (asked.open.id(), asked);
        let question = open.question;
        let approvals = question.people.needed();
        let approved_by = yes.into_iter().map(|yes| ApprovedBy { user: yes.by, arguments: yes.arguments });
        OpenQuestionView {
            run: open.run,
            user: open.user,
            workflow: open.workflow,
            workflow_id: Some(open.workflow_id).filter(|id| !id.is_empty()),
            step: open.step,
            question: question.question,
            show: question.show,
            answer: question.answer,
            tool: question.approves.map(|call| call.tool),
            asked_at: instant(open.asked_at),
            deadline: question.deadline.map(instant),
            approvals,
            approved_by: approved_by.collect(),
            answer_at: format!("/api/v1/questions/{id}/answer"),
            answer_with: format!("relais answer {id} VALUE"),
            id,
        }
    }
}

/// List everything that you may answer, in all runs; those of the oldest runs first.
#[utoipa::path(get, path = "/questions", operation_id = "list_questions", tag = "questions", params(Paging),
    responses((status = OK, body = Page<OpenQuestionView>), Problems))]
async fn list(Reads(service): Reads, Query(paging): Query<Paging>) -> Result<Json<Page<OpenQuestionView>>, Problem> {
    let (found, next) = service.all_questions(paging.cursor.clone(), paging.limit()).await?;
    Ok(Json(Page { items: found.into_iter().map(OpenQuestionView::from).collect(), next }))
}

/// Read one question.
#[utoipa::path(get, path = "/questions/{id}", operation_id = "get_question", tag = "questions",
    params(("id" = String, Path)), responses((status = OK, body = OpenQuestionView), Problems))]
async fn get(Reads(service): Reads, Path(id): Path<String>) -> Result<Json<OpenQuestionView>, Problem> {
    Ok(Json(service.question(&id).await?.into()))
}

/// What a person says.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Said {
    value: Value,
}

/// The run that goes on with the answer.
#[derive(Debug, Serialize, ToSchema)]
struct AnsweredRun {
    run: Uuid,
}

/// Answer a question, in whosever run it is.
#[utoipa::path(post, path = "/questions/{id}/answer", operation_id = "answer_question", tag = "questions",
    params(("id" = String, Path)), request_body = Said,
    responses((status = ACCEPTED, body = AnsweredRun), Problems))]
async fn answer(
    Runs(service): Runs,
    Path(id): Path<String>,
    Json(said): Json<Said>,
) -> Result<(StatusCode, Json<AnsweredRun>), Problem> {
    let run = service.answer_question(&id, said.value).await?;
    Ok((StatusCode::ACCEPTED, Json(AnsweredRun { run })))
}
