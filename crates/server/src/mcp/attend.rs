//! Waiting for a run while the client is told how far it is. A call that is cancelled only stops waiting: the run goes
//! on, and the next call for the same workflow tells of it.

use std::convert::Infallible;
use std::time::Duration;

use relais_engine::RunId;
use relais_mcp::serving::{Cancelled, Progress, Trouble};
use relais_service::narrate::{Notice, What};
use relais_service::{Following, Row, Service};

use super::trouble::trouble;

/// How long a run is waited for where the client does not say: as long as the client waits. A day, so that nothing is
/// waited for that never comes.
pub const MAX_WAIT_S: u64 = 24 * 60 * 60;
/// How often the client is told that the run is still going, where nothing else happens: clients give up what is silent
/// for a minute.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);

/// The client at the other end of a call.
pub struct Attended {
    pub progress: Progress,
    pub cancelled: Cancelled,
}

/// How the run stands when it has ended, waits for somebody, or the time is up.
pub async fn attend(service: &Service, run: RunId, wait_s: Option<u64>, client: &Attended) -> Result<Row, Trouble> {
    let limit = patience(wait_s);
    let mut teller = Teller::new(service, run, &client.progress).await;
    let row = tokio::select! {
        row = service.rested(run, limit) => row,
        () = client.cancelled.wait() => service.row(run).await,
        never = teller.tell() => match never {},
    };
    teller.tell_the_rest().await;
    row.map_err(trouble)
}

/// As long as the client says; where it says nothing, until the run has ended.
fn patience(wait_s: Option<u64>) -> Duration {
    Duration::from_secs(wait_s.unwrap_or(MAX_WAIT_S).min(MAX_WAIT_S))
}

/// Tells the client what happens; whatever goes wrong with it is no trouble of the call.
struct Teller<'a> {
    /// None if the client does not want to know.
    following: Option<Following>,
    progress: &'a Progress,
    told: u32,
}

impl<'a> Teller<'a> {
    async fn new(service: &Service, run: RunId, progress: &'a Progress) -> Teller<'a> {
        let following = if progress.is_wanted() { service.follow(run).await.ok() } else { None };
        Teller { following, progress, told: 0 }
    }

    async fn tell(&mut self) -> Infallible {
        while let Some(following) = &mut self.following {
            match tokio::time::timeout(SIGN_OF_LIFE, following.next()).await {
                Ok(Ok(Some(notices))) => self.say(&notices),
                Ok(Ok(None) | Err(_)) => break,
                Err(_) => self.tell_one("still going"),
            }
        }
        std::future::pending().await
    }

    /// What happened before the run rested comes before the answer.
    async fn tell_the_rest(mut self) {
        if let Some(following) = &mut self.following {
            let notices = following.so_far().await.unwrap_or_default();
            self.say(&notices);
        }
    }

    fn say(&mut self, notices: &[Notice]) {
        for message in notices.iter().filter_map(message) {
            self.tell_one(&message);
        }
    }

    fn tell_one(&mut self, message: &str) {
        self.told = self.told.saturating_add(1);
        self.progress.tell(f64::from(self.told), None, message);
    }
}

/// A line for each thing that a person would want to see.
fn message(notice: &Notice) -> Option<String> {
    Some(match &notice.what {
        What::RunStarted { workflow, .. } => format!("run {} of {workflow} started", notice.run),
        What::StepStarted { step, kind, .. } => format!("{step}: {kind} started"),
        What::StepCompleted { step, ms, .. } => format!("{step}: completed after {ms} ms"),
        What::StepFailed { step, error, .. } => format!("{step}: failed: {}", error.message),
        What::StepSkipped { step } => format!("{step}: skipped"),
        What::StepCancelled { step } => format!("{step}: cancelled"),
        What::ModelCalled { step, model } => format!("{step}: asks {model}"),
        What::ToolCalled { step, tool } => format!("{step}: calls {tool}"),
        What::ChildStarted { step, child, workflow } => format!("{step}: started run {child} of {workflow}"),
        What::Retried { step, attempt } => format!("{step}: attempt {}", attempt + 1),
        What::Corrected { step } => format!("{step}: asks for a correction"),
        What::Asked { step, question, .. } => format!("{step}: asks a person: {question}"),
        What::Waiting { step, what, .. } => format!("{step}: waits for {what}"),
        What::RunEnded { status, .. } => format!("run {} {}", notice.run, status.word()),
        What::ModelAnswered { .. } | What::ToolAnswered { .. } | What::Signalled { .. } => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // keeps A-46
    #[test]
    fn only_a_client_that_says_so_is_answered_before_the_end() {
        assert_eq!(patience(Some(0)), Duration::ZERO);
        assert_eq!(patience(Some(40)), Duration::from_secs(40));
        assert!(patience(None) >= Duration::from_secs(24 * 3_600));
    }
}
