//! One model call as the worker makes it: wait at the governor, try, try again, count what it took.
//!
//! Decides nothing about the run: fallback models, corrections and step retries are the engine's.

use std::sync::Arc;
use std::time::Duration;

use relais_engine::{Answer, Body, ErrorKind, Failure, Request, Usage};
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::format::LiveFn;
use super::prices::cost_nanos;
use super::refusal::duration_text;
use super::{Models, Resolved};
use crate::governor::{Governor, Governors, Hold, Permit};
use crate::model::{Live, ModelCall, ModelError, Spoken};
use crate::tool::ToolSpec;

/// With another model at hand, a call is tried once more and no oftener.
const TRIES_WITH_SPARE: u32 = 2;
/// Shorter waits are not the provider's.
const NOTED_WAIT: Duration = Duration::from_millis(100);
/// Shorter waits are not worth a word.
const TOLD_WAIT: Duration = Duration::from_secs(1);
/// So long before a step's time is over a call that only waits says what it waits for.
const MARGIN: Duration = Duration::from_millis(250);

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
            let limits = models.limits(&resolved.provider);
            let deadline = request.time_left_ms.map(|ms| started + before(Duration::from_millis(ms)));
            let conversation = Conversation { limits, resolved: &resolved, call: &call, deadline };
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
    limits: CallLimits,
    resolved: &'a Resolved,
    call: &'a ModelCall<'a>,
    /// When the step's time is nearly over: a moment later nobody would hear what we have to say.
    deadline: Option<Instant>,
}

enum Next {
    Wait(Duration),
    /// The governor holds everyone back already.
    Queue,
    GiveUp,
}

impl Conversation<'_> {
    async fn body(&self, governor: &Arc<Governor>, usage: &mut Usage) -> Body {
        let mut failures = 0;
        loop {
            let permit = match self.admitted(governor, usage).await {
                Ok(permit) => permit,
                Err(failure) => {
                    // Without a try nothing was called.
                    usage.model_calls = usage.retries.min(1);
                    return Body::Failed(failure);
                }
            };
            let outcome = self.one_try().await;
            settle(permit, &outcome);
            let error = match outcome {
                Ok(spoken) => return self.replied(spoken, usage),
                Err(error) => error,
            };
            match self.next(&error, &mut failures) {
                Next::Queue => {}
                Next::Wait(delay) => {
                    self.tell_wait(&error.message, delay);
                    note_wait(usage, delay);
                    sleep(delay).await;
                }
                Next::GiveUp => return Body::Failed(failure(error, failures)),
            }
            usage.retries += 1;
        }
    }

    /// Leave to make the next try, or why there will be none within the step's time.
    async fn admitted(&self, governor: &Arc<Governor>, usage: &mut Usage) -> Result<Permit, Failure> {
        if let Some(hold) = governor.hold() {
            self.bear(hold)?;
        }
        let started = Instant::now();
        let entering = governor.enter(self.call.request.tokens);
        let entered = match self.deadline {
            Some(deadline) => timeout_at(deadline, entering).await.ok(),
            None => Some(entering.await),
        };
        let waited = started.elapsed();
        if waited >= NOTED_WAIT {
            note_wait(usage, waited);
        }
        let (provider, waited) = (&self.resolved.provider, about(waited));
        let late = || {
            format!("{provider} limits how many requests it takes: the step's time was over after {waited} of waiting")
        };
        entered.ok_or_else(|| Failure::new(ErrorKind::RateLimit, late()))
    }

    /// A hold that is not worth waiting for fails the call at once.
    fn bear(&self, hold: Hold) -> Result<(), Failure> {
        let provider = &self.resolved.provider;
        let (until, kind, why) = match hold {
            Hold::Limited(until) => {
                (until, ErrorKind::RateLimit, format!("{provider} limits how many requests it takes (429)"))
            }
            Hold::LeftOut(until, failures) => (
                until,
                ErrorKind::Provider,
                format!("{provider} is left out for a while: it failed {failures} times in a row"),
            ),
        };
        let wait = until.saturating_duration_since(Instant::now());
        let request = self.call.request;
        let given_up = match hold {
            Hold::Limited(_) => request.fails_when_limited,
            Hold::LeftOut(..) => request.has_spare,
        };
        if given_up {
            return Err(Failure::new(kind, format!("{why}; it can be asked again in {}", about(wait))));
        }
        if self.deadline.is_some_and(|deadline| until > deadline) {
            let text = format!("{why} and can be asked again in {}, when the step's time is over", about(wait));
            return Err(Failure::new(kind, text));
        }
        self.tell_wait(&why, wait);
        Ok(())
    }

    /// Whoever watches sees what is waited for.
    fn tell_wait(&self, why: &str, wait: Duration) {
        if wait >= TOLD_WAIT {
            (self.call.live)(Live::Waiting(&format!("{why}; waiting {}", about(wait))));
        }
    }

    async fn one_try(&self) -> Result<Spoken, ModelError> {
        let ModelCall { request, tools, key, live } = *self.call;
        let attempt = self.resolved.model.call(ModelCall { request, tools, key, live });
        timeout(self.limits.whole, attempt).await.unwrap_or_else(|_| Err(self.took_too_long()))
    }

    fn next(&self, error: &ModelError, failures: &mut u32) -> Next {
        if error.kind == ErrorKind::RateLimit && error.transient {
            return if self.call.request.fails_when_limited { Next::GiveUp } else { Next::Queue };
        }
        *failures += 1;
        let tries =
            if self.call.request.has_spare { self.limits.tries.min(TRIES_WITH_SPARE) } else { self.limits.tries };
        if !error.transient || *failures >= tries {
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
        Err(error) if error.transient || error.kind == ErrorKind::Timeout => permit.failed(),
        Err(_) => drop(permit),
    }
}

fn failure(error: ModelError, failures: u32) -> Failure {
    let tries = if failures > 1 { format!(" (after {failures} tries)") } else { String::new() };
    Failure::new(error.kind, format!("{}{tries}", error.message))
}

fn note_wait(usage: &mut Usage, waited: Duration) {
    usage.waits += 1;
    usage.wait_ms = usage.wait_ms.saturating_add(millis(waited));
}

/// In whole seconds: nobody waits for milliseconds.
fn about(wait: Duration) -> String {
    format!("{} s", wait.as_millis().div_ceil(1_000))
}

/// A little less than the time that is left.
fn before(left: Duration) -> Duration {
    left.saturating_sub(MARGIN.min(left / 4))
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
    use std::sync::Mutex;

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
        asked(told, Request { model: "told/x".into(), ..Request::default() }, key).await
    }

    async fn asked(told: Told, request: Request, key: &str) -> Answer {
        let mut models = Models::new(&Settings::default(), &|_| None, Path::new(".")).unwrap();
        let told = Arc::new(told);
        models.register("told", Arc::new(move |_| told.clone()));
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
    async fn a_wait_is_counted_with_its_length() {
        let answer = run(failing(vec![error(ErrorKind::RateLimit, Some(7), true)]), "k").await;
        assert_eq!((answer.usage.waits, answer.usage.wait_ms), (1, 7_000));
        let answer = run(failing(vec![error(ErrorKind::Provider, Some(9), true)]), "k").await;
        assert_eq!((answer.usage.waits, answer.usage.wait_ms), (1, 9_000));
        assert_eq!(run(failing(Vec::new()), "k").await.usage.waits, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_limit_that_outlasts_the_step_is_said_to_be_one() {
        let limited = |wait| failing((0..9).map(|_| error(ErrorKind::RateLimit, wait, true)).collect());
        let request = |ms| Request { model: "told/x".into(), time_left_ms: Some(ms), ..Request::default() };
        let check = async |wait: Option<u64>, left_ms: u64, took_ms: u64| {
            let answer = asked(limited(wait), request(left_ms), "k").await;
            let Body::Failed(failure) = &answer.body else { panic!("{answer:?}") };
            assert_eq!((failure.kind, answer.ms), (ErrorKind::RateLimit, took_ms), "{failure}");
            assert!(failure.message.contains("429") && failure.message.contains("step's time"), "{failure}");
        };
        check(Some(60), 20_000, 0).await;
        check(None, 20_000, 15_000).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_step_that_retries_on_rate_limits_waits_by_its_own_rules() {
        let request = Request { model: "told/x".into(), fails_when_limited: true, ..Request::default() };
        let answer = asked(failing(vec![error(ErrorKind::RateLimit, Some(60), true)]), request, "k").await;
        let failure = Failure::new(ErrorKind::RateLimit, "to order");
        assert_eq!((answer.body, answer.usage.retries, answer.ms), (Body::Failed(failure), 0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn with_another_model_at_hand_a_call_is_tried_twice() {
        let request = Request { model: "told/x".into(), has_spare: true, ..Request::default() };
        let broken = || error(ErrorKind::Transport, None, true);
        let answer = asked(failing((0..9).map(|_| broken()).collect()), request, "k").await;
        let failure = Failure::new(ErrorKind::Transport, "to order (after 2 tries)");
        assert_eq!((answer.body, answer.usage.retries), (Body::Failed(failure), 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_is_left_out_is_not_asked_where_another_model_stands_by() {
        let mut models = Models::new(&Settings::default(), &|_| None, Path::new(".")).unwrap();
        let told = Arc::new(failing((0..5).map(|_| error(ErrorKind::Provider, None, true)).collect()));
        models.register("told", Arc::new(move |_| told.clone()));
        let governors = Governors::default();
        let ask = async |has_spare: bool| {
            let request = Request { model: "told/x".into(), has_spare, ..Request::default() };
            call(&models, &governors, &request, &[], "k", &|_| {}).await
        };
        let failed =
            |answer: &Answer| matches!(&answer.body, Body::Failed(failure) if failure.message.contains("to order"));
        assert!(failed(&ask(false).await));
        assert!(
            matches!(ask(true).await.body, Body::Failed(f) if f.message.contains("left out for a while: it failed 5 times"))
        );
        let answer = ask(false).await;
        assert!(matches!(answer.body, Body::Replied(_)) && answer.usage.waits == 1, "{answer:?}");
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
