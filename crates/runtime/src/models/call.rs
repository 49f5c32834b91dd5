//! One model call as the worker makes it: wait at the governor, try, try again, count what it took.
//!
//! Decides nothing about the run: fallback models, corrections and step retries are the engine's.

use std::time::Duration;

use relais_engine::{Answer, Body, ErrorKind, Failure, Request, Usage};
use tokio::time::{Instant, sleep, timeout};

use super::format::LiveFn;
use super::prices::cost_nanos;
use super::refusal::duration_text;
use super::{Models, Resolved};
use crate::governor::{Governor, Governors, Permit};
use crate::model::{ModelCall, ModelError, Spoken};
use crate::tool::ToolSpec;

/// How long and how often. Tests inject small ones.
#[derive(Debug, Clone)]
pub struct CallLimits {
    /// Longest silence within one try.
    pub stall: Duration,
    /// Longest time of one try; waits at the governor do not count.
    pub whole: Duration,
    /// Tries in all on errors of transport and 5xx. A 429 is not counted: it waits its turn.
    pub tries: u32,
    /// Wait before the second try; doubles with each further one.
    pub backoff: Duration,
    pub backoff_max: Duration,
}

impl Default for CallLimits {
    fn default() -> CallLimits {
        CallLimits {
            stall: Duration::from_secs(60),
            whole: Duration::from_secs(600),
            tries: 4,
            backoff: Duration::from_millis(500),
            backoff_max: Duration::from_secs(30),
        }
    }
}

/// Calls the model that the request names. Dropping the future ends the call wherever it is.
pub async fn call(
    models: &Models,
    governors: &Governors,
    request: &Request,
    tools: &[ToolSpec],
    key: &str,
    live: LiveFn<'_>,
) -> Answer {
    let started = Instant::now();
    let mut usage = Usage { model_calls: 1, ..Usage::default() };
    let body = match models.resolve(&request.model) {
        Ok(resolved) => {
            let call = ModelCall { request, tools, key, live };
            let conversation = Conversation { limits: models.limits(), resolved: &resolved, call: &call };
            conversation.body(&governors.of(&resolved.provider), &mut usage).await
        }
        Err(failure) => {
            // Nothing was called.
            usage.model_calls = 0;
            Body::Failed(failure)
        }
    };
    Answer { body, usage, ms: millis(started.elapsed()) }
}

struct Conversation<'a> {
    limits: &'a CallLimits,
    resolved: &'a Resolved,
    call: &'a ModelCall<'a>,
}

enum Next {
    Wait(Duration),
    /// The governor holds everyone back already.
    Queue,
    GiveUp,
}

impl Conversation<'_> {
    async fn body(&self, governor: &std::sync::Arc<Governor>, usage: &mut Usage) -> Body {
        let mut failures = 0;
        loop {
            let permit = governor.enter().await;
            let outcome = self.one_try().await;
            settle(permit, &outcome);
            let error = match outcome {
                Ok(spoken) => return self.replied(spoken, usage),
                Err(error) => error,
            };
            match self.next(&error, &mut failures) {
                Next::Queue => {}
                Next::Wait(delay) => sleep(delay).await,
                Next::GiveUp => return Body::Failed(failure(error, failures)),
            }
            usage.retries += 1;
        }
    }

    async fn one_try(&self) -> Result<Spoken, ModelError> {
        let ModelCall { request, tools, key, live } = *self.call;
        let attempt = self.resolved.model.call(ModelCall { request, tools, key, live });
        timeout(self.limits.whole, attempt).await.unwrap_or_else(|_| Err(self.took_too_long()))
    }

    fn next(&self, error: &ModelError, failures: &mut u32) -> Next {
        if error.kind == ErrorKind::RateLimit && error.transient {
            return Next::Queue;
        }
        *failures += 1;
        if !error.transient || *failures >= self.limits.tries {
            return Next::GiveUp;
        }
        let asked = error.retry_after.unwrap_or_default().min(self.limits.backoff_max);
        Next::Wait(self.backoff(*failures).max(asked))
    }

    /// Doubles per try, and keeps between half and all of that: the share is a hash, so nothing is random and still
    /// calls that failed together do not come back together.
    fn backoff(&self, failures: u32) -> Duration {
        let doubled = self.limits.backoff.saturating_mul(1 << failures.saturating_sub(1).min(16));
        let hash = blake3::hash(format!("{}#{failures}", self.call.key).as_bytes());
        let share = f64::from(hash.as_bytes()[0]) / 256.0;
        doubled.min(self.limits.backoff_max).mul_f64(0.5 + share / 2.0)
    }

    fn replied(&self, spoken: Spoken, usage: &mut Usage) -> Body {
        let said = spoken.usage;
        usage.add(&Usage { model_calls: 0, retries: 0, ..said });
        if said.usd_nanos == 0 {
            usage.usd_nanos = cost_nanos(&self.resolved.facts, &said).unwrap_or(0);
        }
        let mut reply = spoken.reply;
        if reply.model.is_empty() {
            reply.model = self.resolved.name.clone();
        }
        Body::Replied(reply)
    }

    fn took_too_long(&self) -> ModelError {
        let (name, limit) = (&self.resolved.name, duration_text(self.limits.whole));
        let message = format!("the call to {name} took longer than {limit}");
        ModelError { kind: ErrorKind::Timeout, message, retry_after: None, transient: false }
    }
}

fn settle(permit: Permit, outcome: &Result<Spoken, ModelError>) {
    match outcome {
        Ok(_) => permit.succeeded(),
        Err(error) if error.kind == ErrorKind::RateLimit => permit.limited(error.retry_after),
        Err(_) => drop(permit),
    }
}

fn failure(error: ModelError, failures: u32) -> Failure {
    let tries = if failures > 1 { format!(" (after {failures} tries)") } else { String::new() };
    Failure::new(error.kind, format!("{}{tries}", error.message))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::model::{BoxFuture, Model};
    use crate::settings::Settings;
    use relais_engine::{Finish, Reply};
    use std::collections::VecDeque;
    use std::path::Path;
    use std::sync::{Arc, Mutex};

    /// Fails as told, then answers; with no answer left it is silent for ever.
    #[derive(Default)]
    struct Told {
        errors: Mutex<VecDeque<ModelError>>,
        is_silent: bool,
    }

    impl Model for Told {
        fn call<'a>(&'a self, _call: ModelCall<'a>) -> BoxFuture<'a, Result<Spoken, ModelError>> {
            let next = self.errors.lock().unwrap().pop_front();
            Box::pin(async move {
                match next {
                    Some(error) => Err(error),
                    None if self.is_silent => std::future::pending().await,
                    None => Ok(spoken()),
                }
            })
        }
    }

    fn spoken() -> Spoken {
        let reply = Reply { text: "hi".into(), calls: Vec::new(), finish: Finish::Stop, model: String::new() };
        Spoken { reply, usage: Usage { prompt: 3, ..Usage::default() } }
    }

    fn error(kind: ErrorKind, retry_after_s: Option<u64>, transient: bool) -> ModelError {
        let retry_after = retry_after_s.map(Duration::from_secs);
        ModelError { kind, message: "to order".into(), retry_after, transient }
    }

    async fn run(told: Told, key: &str) -> Answer {
        let mut models = Models::new(&Settings::default(), &|_| None, Path::new(".")).unwrap();
        let told = Arc::new(told);
        models.register("told", Arc::new(move |_| told.clone()));
        let request = Request {
            model: "told/x".into(),
            messages: Vec::new(),
            tools: Vec::new(),
            output_schema: None,
            max_tokens: None,
            temperature: None,
        };
        call(&models, &Governors::default(), &request, &[], key, &|_| {}).await
    }

    fn failing(errors: Vec<ModelError>) -> Told {
        Told { errors: Mutex::new(errors.into()), is_silent: false }
    }

    #[tokio::test(start_paused = true)]
    async fn transport_is_tried_four_times_with_growing_waits() {
        let broken = || error(ErrorKind::Transport, None, true);
        let answer = run(failing(vec![broken(), broken(), broken()]), "k").await;
        assert_eq!((answer.usage.retries, answer.usage.model_calls, answer.usage.prompt), (3, 1, 3));
        // Half to all of 0.5 s, 1 s and 2 s.
        assert!((1750..=3500).contains(&answer.ms), "{} ms", answer.ms);
        let answer = run(failing((0..9).map(|_| broken()).collect()), "k").await;
        let failure = Failure::new(ErrorKind::Transport, "to order (after 4 tries)");
        assert_eq!((answer.body, answer.usage.retries), (Body::Failed(failure), 3));
    }

    #[tokio::test(start_paused = true)]
    async fn waits_differ_by_key_and_repeat_exactly() {
        let mut waits = Vec::new();
        for key in ["a", "a", "b"] {
            let broken = error(ErrorKind::Transport, None, true);
            waits.push(run(failing(vec![broken]), key).await.ms);
        }
        assert!(waits[0] == waits[1] && waits[0] != waits[2], "{waits:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_429_waits_as_long_as_it_is_told_and_as_often() {
        let limited = |wait| error(ErrorKind::RateLimit, Some(wait), true);
        let answer = run(failing((0..20).map(|_| limited(7)).collect()), "k").await;
        assert_eq!((answer.usage.retries, answer.ms), (20, 140_000));
    }

    #[tokio::test(start_paused = true)]
    async fn an_overloaded_provider_is_given_the_time_it_asks_for() {
        let answer = run(failing(vec![error(ErrorKind::Provider, Some(9), true)]), "k").await;
        assert_eq!(answer.ms, 9000);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_final_is_not_tried_again() {
        let answer = run(failing(vec![error(ErrorKind::Provider, None, false)]), "k").await;
        let failure = Failure::new(ErrorKind::Provider, "to order");
        assert_eq!((answer.body, answer.usage.retries, answer.ms), (Body::Failed(failure), 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_ends_after_ten_minutes() {
        let answer = run(Told { is_silent: true, ..Told::default() }, "k").await;
        let failure = Failure::new(ErrorKind::Timeout, "the call to told/x took longer than 600 s");
        assert_eq!((answer.body, answer.ms), (Body::Failed(failure), 600_000));
    }
}
