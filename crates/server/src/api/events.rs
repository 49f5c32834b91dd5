//! Events: somebody says that something happened, and runs start or go on.

use relais_service::{Effects, Fate, Happened};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use crate::App;
use crate::body::Json;
use crate::caller::Runs;
use crate::problem::{Problem, Problems};

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(publish))
}

/// Something that happened.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PublishEvent {
    /// What happened; triggers and steps that wait name it.
    #[serde(rename = "type")]
    #[schema(max_length = 255, example = "order.paid")]
    kind: String,
    #[serde(default)]
    #[schema(value_type = Object)]
    data: Value,
    /// The same id again is the same event again: it has its effects once.
    #[schema(max_length = 255)]
    id: Option<String>,
}

/// What an event did.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct EventEffects {
    /// Runs that it starts.
    pub started: Vec<Reaction>,
    /// Triggers for its type that it does not start, and why.
    pub declined: Vec<Reaction>,
    /// Runs that waited for it and go on.
    pub woken: Vec<Uuid>,
    /// Whether an event of this id was published before; then this is what it did.
    pub repeated: bool,
}

/// What a trigger made of it.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
pub struct Reaction {
    pub workflow_id: Uuid,
    /// The name of the workflow; empty where it is gone.
    pub workflow: String,
    pub trigger: Uuid,
    pub reason: String,
    /// Null where nothing starts, or while it waits for the run before it.
    pub run: Option<Uuid>,
}

impl From<Fate> for Reaction {
    fn from(fate: Fate) -> Reaction {
        let Fate { trigger, workflow, name, reason, run, .. } = fate;
        Reaction { workflow_id: workflow, workflow: name, trigger, reason, run }
    }
}

impl From<Effects> for EventEffects {
    fn from(effects: Effects) -> EventEffects {
        let (started, declined): (Vec<Fate>, Vec<Fate>) = effects.fates.into_iter().partition(|fate| fate.starts);
        let reactions = |fates: Vec<Fate>| fates.into_iter().map(Reaction::from).collect();
        let (woken, repeated) = (effects.woken, effects.is_repeated);
        EventEffects { started: reactions(started), declined: reactions(declined), woken, repeated }
    }
}

/// Publish an event: it starts the triggers for its type and wakes the runs that wait for it.
#[utoipa::path(post, path = "/events", operation_id = "publish_event", tag = "events", request_body = PublishEvent,
    responses((status = OK, body = EventEffects), Problems))]
async fn publish(Runs(service): Runs, Json(body): Json<PublishEvent>) -> Result<Json<EventEffects>, Problem> {
    let PublishEvent { kind, data, id } = body;
    Ok(Json(service.publish_event(Happened { kind, data, id }).await?.into()))
}
