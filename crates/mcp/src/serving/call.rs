//! One call of a tool: found, its arguments checked, done, ended when the client gives it up.

use std::panic::AssertUnwindSafe;
use std::time::Duration;

use futures::FutureExt;
use rmcp::RoleServer;
use rmcp::model::CallToolResult;
use rmcp::service::RequestContext;
use serde_json::{Map, Value};
use tokio_util::sync::CancellationToken;

use super::progress::{self, Cancelled};
use super::{Caller, Given, Offered, Offers, PAGES_MAX, Trouble, arguments, render};

/// How long a call may go on after nobody waits for it: enough to tell a run that it is cancelled.
pub const LAST_TIME: Duration = Duration::from_secs(5);

/// What the model is told, whatever happens. `ended` is set when the client gives it up, if not before.
pub async fn call(
    offers: &dyn Offers,
    caller: &Caller,
    tool: String,
    given: Map<String, Value>,
    context: RequestContext<RoleServer>,
    ended: CancellationToken,
) -> CallToolResult {
    let (progress, notes) = progress::channel(&context.peer, context.meta.get_progress_token());
    let cancelled = Cancelled(ended.clone());
    let work = async {
        let found = offered(offers, caller, &tool).await?;
        let given = arguments::mend(&found, given);
        arguments::check(&found, &given).map_err(Trouble::Invalid)?;
        offers.call(caller, tool.clone(), given, progress, cancelled).await
    };
    // A call that panics must be answered like any other, or its client waits for ever.
    let work = AssertUnwindSafe(work).catch_unwind();
    let outcome = notes.pass_on(until_dropped(work, &context.ct, &ended)).await;
    match outcome {
        Some(Ok(Ok(given))) => render::given(given),
        Some(Ok(Err(trouble))) => render::refused(trouble.to_string()),
        Some(Err(_)) => render::refused(format!("`{tool}` failed by a fault of this server.")),
        None => render::refused(format!("`{tool}` was cancelled.")),
    }
}

type Done = std::thread::Result<Result<Given, Trouble>>;

/// None if it was still at work some time after it was cancelled.
async fn until_dropped(
    work: impl Future<Output = Done>,
    given_up: &CancellationToken,
    ended: &CancellationToken,
) -> Option<Done> {
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return Some(done),
        () = given_up.cancelled() => ended.cancel(),
        () = ended.cancelled() => {}
    }
    tokio::time::timeout(LAST_TIME, work).await.ok()
}

async fn offered(offers: &dyn Offers, caller: &Caller, name: &str) -> Result<Offered, Trouble> {
    match offers.tool(caller, name).await? {
        Some(found) => Ok(found),
        None => Err(Trouble::Invalid(arguments::unknown_tool(name, &names(offers, caller).await?))),
    }
}

async fn names(offers: &dyn Offers, caller: &Caller) -> Result<Vec<String>, Trouble> {
    let mut names = Vec::new();
    let mut cursor = None;
    for _ in 0..PAGES_MAX {
        let page = offers.tools(caller, cursor).await?;
        names.extend(page.items.into_iter().map(|tool| tool.name));
        cursor = page.next;
        if cursor.is_none() {
            break;
        }
    }
    Ok(names)
}
