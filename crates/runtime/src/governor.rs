//! One governor per provider: bounds how many calls are under way and how fast they start, makes all callers wait
//! together when the provider asks for it, and leaves a provider out for a while that fails again and again. Knows
//! neither models nor HTTP.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as FairMutex, Notify};
use tokio::time::{Instant, sleep_until};

/// Calls under way at once where the settings say nothing: enough for wide fans, below common account limits.
pub const MAX_CONCURRENT: usize = 64;
/// A longer Retry-After is asked about again after this time: quotas are raised and clocks are wrong.
pub const PAUSE_MAX: Duration = Duration::from_secs(3600);
/// First pause after a 429 that names no time; doubles with each one that follows without a success between.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
/// Longest pause of our own making.
const PAUSE_OWN_MAX: Duration = MINUTE;
const MINUTE: Duration = Duration::from_secs(60);
/// After so many failures in a row a provider is left out.
const BREAK_AFTER: u32 = 5;
/// For so long; then one call tries whether it is back.
const COOLDOWN: Duration = Duration::from_secs(30);
/// How far starts may run ahead of an even pace, as a share of a minute: a tenth of the minute's requests at once.
const BURST: Duration = Duration::from_secs(6);

/// The governors of a process, by provider key.
#[derive(Debug, Default)]
pub struct Governors {
    limits: BTreeMap<String, Limits>,
    made: Mutex<BTreeMap<String, Arc<Governor>>>,
}

#[derive(Debug, Clone, Copy)]
pub struct Limits {
    pub max_concurrent: usize,
    pub requests_per_minute: Option<u32>,
    pub tokens_per_minute: Option<u32>,
    /// Failures in a row after which the provider is left out.
    pub break_after: u32,
    pub cooldown: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            max_concurrent: MAX_CONCURRENT,
            requests_per_minute: None,
            tokens_per_minute: None,
            break_after: BREAK_AFTER,
            cooldown: COOLDOWN,
        }
    }
}

impl Governors {
    /// Limits by provider key; a provider that is not named gets the defaults.
    pub fn new(limits: BTreeMap<String, Limits>) -> Governors {
        Governors { limits, made: Mutex::default() }
    }

    pub fn of(&self, provider: &str) -> Arc<Governor> {
        let mut made = lock(&self.made);
        if let Some(governor) = made.get(provider) {
            return governor.clone();
        }
        let limits = self.limits.get(provider).copied().unwrap_or_default();
        let governor = Arc::new(Governor::new(limits));
        made.insert(provider.to_owned(), governor.clone());
        governor
    }

    /// The state of each governor in use, for metrics.
    pub fn gauges(&self) -> Vec<(String, Gauge)> {
        lock(&self.made).iter().map(|(provider, governor)| (provider.clone(), governor.gauge())).collect()
    }
}

#[derive(Debug)]
pub struct Governor {
    limits: Limits,
    /// Whoever holds it is next; tokio's mutex is fair, so callers start in the order they came.
    turnstile: FairMutex<()>,
    state: Mutex<State>,
    /// Wakes the one caller at the turnstile after any change that may let it in.
    changed: Notify,
    /// Callers that wait their turn, for metrics.
    waiting: AtomicUsize,
}

/// One caller that waits, until it is let in or gives up.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Waiting<'a> {
        count.fetch_add(1, Ordering::Relaxed);
        Waiting(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct State {
    /// Present bound on calls under way; halved by a 429, one more with each success.
    width: usize,
    active: usize,
    paused_until: Option<Instant>,
    /// Counts pauses, so that calls which were under way when a pause began do not slow us down once more each.
    pause: u64,
    /// Pauses since the last success.
    pauses_in_a_row: u32,
    /// When the next start would be on an even pace.
    even_start: Option<Instant>,
    /// The same for the tokens that calls are reckoned to take.
    even_tokens: Option<Instant>,
    /// Failures since the last success, of whichever call.
    failures_in_a_row: u32,
    broken_until: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gauge {
    pub active: usize,
    pub waiting: usize,
    pub width: usize,
    pub paused: bool,
    pub failures_in_a_row: u32,
    /// Milliseconds until the provider is asked again, while it is left out.
    pub left_out_ms: u64,
}

/// Why nobody is let in just now, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hold {
    /// The provider asked for a pause.
    Limited(Instant),
    /// It failed so often in a row that it is left out.
    LeftOut(Instant, u32),
}

/// Leave to make one call. Dropping it makes room for the next; say before how the call went.
#[derive(Debug)]
pub struct Permit {
    governor: Arc<Governor>,
    pause: u64,
}

enum Admission {
    /// With the number of the last pause.
    Now(u64),
    At(Instant),
    WhenChanged,
}

impl Governor {
    pub fn new(limits: Limits) -> Governor {
        let limits = Limits { max_concurrent: limits.max_concurrent.max(1), ..limits };
        let state = State {
            width: limits.max_concurrent,
            active: 0,
            paused_until: None,
            pause: 0,
            pauses_in_a_row: 0,
            even_start: None,
            even_tokens: None,
            failures_in_a_row: 0,
            broken_until: None,
        };
        let (turnstile, state) = (FairMutex::new(()), Mutex::new(state));
        Governor { limits, turnstile, state, changed: Notify::new(), waiting: AtomicUsize::new(0) }
    }

    /// Waits its turn, however long that is. Dropping the future gives the place in the queue away, nothing else.
    /// `tokens` is what the call is reckoned to take.
    pub async fn enter(self: &Arc<Governor>, tokens: u64) -> Permit {
        let _waiting = Waiting::new(&self.waiting);
        let _turn = self.turnstile.lock().await;
        loop {
            match self.admit(Instant::now(), tokens) {
                Admission::Now(pause) => return Permit { governor: self.clone(), pause },
                // A pause may be prolonged meanwhile, never cut short: the state is looked at again in any case.
                Admission::At(time) => sleep_until(time).await,
                Admission::WhenChanged => self.changed.notified().await,
            }
        }
    }

    pub fn gauge(&self) -> Gauge {
        let state = lock(&self.state);
        let now = Instant::now();
        let paused = state.paused_until.is_some_and(|until| until > now);
        let left_out = state.broken_until.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        Gauge {
            active: state.active,
            waiting: self.waiting.load(Ordering::Relaxed),
            width: state.width,
            paused,
            failures_in_a_row: state.failures_in_a_row,
            left_out_ms: u64::try_from(left_out.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// What holds everybody back now, the longer of two.
    pub fn hold(&self) -> Option<Hold> {
        let state = lock(&self.state);
        let now = Instant::now();
        let limited = state.paused_until.filter(|until| *until > now);
        let broken = state.broken_until.filter(|until| *until > now);
        match (limited, broken) {
            (Some(limited), broken) if broken.is_none_or(|broken| broken <= limited) => Some(Hold::Limited(limited)),
            (_, Some(broken)) => Some(Hold::LeftOut(broken, state.failures_in_a_row)),
            _ => None,
        }
    }

    fn admit(&self, now: Instant, tokens: u64) -> Admission {
        let mut state = lock(&self.state);
        let held = state.paused_until.max(state.broken_until);
        if let Some(until) = held.filter(|until| *until > now) {
            return Admission::At(until);
        }
        if state.active >= state.width {
            return Admission::WhenChanged;
        }
        if let Some(time) = self.too_early(&state, now) {
            return Admission::At(time);
        }
        let after = |even: Option<Instant>, taken: Duration| even.unwrap_or(now).max(now) + taken;
        state.even_start = self.interval().map(|interval| after(state.even_start, interval));
        state.even_tokens = self.time_for(tokens).map(|taken| after(state.even_tokens, taken));
        state.active += 1;
        Admission::Now(state.pause)
    }

    fn too_early(&self, state: &State, now: Instant) -> Option<Instant> {
        let even = state.even_start.max(state.even_tokens)?;
        (even > now + BURST).then(|| even - BURST)
    }

    fn interval(&self) -> Option<Duration> {
        self.limits.requests_per_minute.map(|per_minute| MINUTE / per_minute.max(1))
    }

    /// How long so many tokens take on an even pace. Even the largest call is let in after a minute.
    fn time_for(&self, tokens: u64) -> Option<Duration> {
        let per_minute = self.limits.tokens_per_minute?.max(1);
        let share = u32::try_from(tokens).unwrap_or(u32::MAX);
        Some((MINUTE / per_minute).saturating_mul(share).min(MINUTE))
    }
}

impl Permit {
    /// The provider answered: another call may be under way at once, up to the limit.
    pub fn succeeded(self) {
        let mut state = lock(&self.governor.state);
        state.width = (state.width + 1).min(self.governor.limits.max_concurrent);
        state.pauses_in_a_row = 0;
        (state.failures_in_a_row, state.broken_until) = (0, None);
    }

    /// The provider did not answer, or answered that it cannot: after several such calls in a row it is left out, and
    /// then one call at a time tries whether it is back.
    pub fn failed(self) {
        let limits = self.governor.limits;
        let mut state = lock(&self.governor.state);
        state.failures_in_a_row = state.failures_in_a_row.saturating_add(1);
        if state.failures_in_a_row >= limits.break_after {
            state.broken_until = Some(Instant::now() + limits.cooldown);
            state.width = 1;
        }
    }

    /// The provider answered 429: everyone waits, then fewer go at once.
    pub fn limited(self, retry_after: Option<Duration>) {
        let mut state = lock(&self.governor.state);
        if self.pause == state.pause {
            state.pause += 1;
            state.pauses_in_a_row = state.pauses_in_a_row.saturating_add(1);
            state.width = (state.width / 2).max(1);
        }
        let wait = retry_after.unwrap_or_else(|| own_pause(state.pauses_in_a_row)).min(PAUSE_MAX);
        let until = Instant::now() + wait;
        state.paused_until = Some(state.paused_until.map_or(until, |other| other.max(until)));
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = lock(&self.governor.state);
        state.active = state.active.saturating_sub(1);
        drop(state);
        self.governor.changed.notify_one();
    }
}

fn own_pause(in_a_row: u32) -> Duration {
    let doublings = in_a_row.saturating_sub(1).min(16);
    PAUSE_FIRST.saturating_mul(1 << doublings).min(PAUSE_OWN_MAX)
}

/// The state is plain numbers, whole after every statement: a panic elsewhere does not spoil it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use futures::FutureExt;

    fn governor(max_concurrent: usize, requests_per_minute: Option<u32>) -> Arc<Governor> {
        Arc::new(Governor::new(Limits { max_concurrent, requests_per_minute, ..Limits::default() }))
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_than_the_limit_at_once() {
        let governor = governor(2, None);
        let first = governor.enter(0).await;
        let _second = governor.enter(0).await;
        assert!(governor.enter(0).now_or_never().is_none());
        drop(first);
        assert!(governor.enter(0).now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn callers_start_in_the_order_they_came() {
        let governor = governor(1, None);
        let held = governor.enter(0).await;
        let order = Arc::new(Mutex::new(Vec::new()));
        let callers: Vec<_> = (0..20)
            .map(|number| {
                let (governor, order) = (governor.clone(), order.clone());
                tokio::spawn(async move {
                    let _permit = governor.enter(0).await;
                    order.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        drop(held);
        futures::future::join_all(callers).await;
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_dropped_waiter_leaves_nothing_behind() {
        let governor = governor(1, None);
        let held = governor.enter(0).await;
        for _ in 0..10 {
            let mut waiting = Box::pin(governor.enter(0));
            assert!(waiting.as_mut().now_or_never().is_none());
            drop(waiting);
        }
        let mut last = Box::pin(governor.enter(0));
        assert!(last.as_mut().now_or_never().is_none());
        drop(held);
        // The wake-up may be meant for a waiter that is gone; the next one still gets in.
        let permit = tokio::time::timeout(Duration::from_secs(1), last).await.unwrap();
        assert_eq!(governor.gauge().active, 1);
        drop(permit);
        assert_eq!(governor.gauge().active, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_dropped_right_after_its_wake_up_passes_it_on() {
        let governor = governor(1, None);
        let held = governor.enter(0).await;
        let mut waiting = Box::pin(governor.enter(0));
        assert!(waiting.as_mut().now_or_never().is_none());
        let mut behind = Box::pin(governor.enter(0));
        assert!(behind.as_mut().now_or_never().is_none());
        drop(held);
        drop(waiting);
        tokio::time::timeout(Duration::from_secs(1), behind).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_429_holds_everyone_until_its_time_and_halves_the_width() {
        let governor = governor(8, None);
        let start = Instant::now();
        let others: Vec<Permit> = futures::future::join_all((0..4).map(|_| governor.enter(0))).await;
        for permit in others {
            permit.limited(Some(Duration::from_secs(7)));
        }
        let gauge = governor.gauge();
        assert_eq!((gauge.active, gauge.width, gauge.paused), (0, 4, true), "one pause halves once");
        let permit = governor.enter(0).await;
        assert_eq!(start.elapsed().as_secs(), 7);
        permit.succeeded();
        assert_eq!(governor.gauge().width, 5);
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_of_our_own_double_up_to_a_minute() {
        let governor = governor(4, None);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let start = Instant::now();
            governor.enter(0).await.limited(None);
            waits.push(start.elapsed().as_secs());
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60]);
        assert_eq!(governor.gauge().width, 1, "never below one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_mad_retry_after_is_bounded() {
        let governor = governor(4, None);
        governor.enter(0).await.limited(Some(Duration::MAX));
        let start = Instant::now();
        drop(governor.enter(0).await);
        assert_eq!(start.elapsed(), PAUSE_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn starts_keep_to_the_rate() {
        let governor = governor(1000, Some(60));
        let start = Instant::now();
        for _ in 0..67 {
            drop(governor.enter(0).await);
        }
        assert_eq!(start.elapsed().as_secs(), 60, "seven at once, then one a second");
    }

    #[tokio::test(start_paused = true)]
    async fn starts_keep_to_the_tokens_of_a_minute() {
        let limits = Limits { tokens_per_minute: Some(6_000), ..Limits::default() };
        let governor = Arc::new(Governor::new(limits));
        let start = Instant::now();
        let mut at = Vec::new();
        for _ in 0..4 {
            drop(governor.enter(1_000).await);
            at.push(start.elapsed().as_secs());
        }
        assert_eq!(at, [0, 4, 14, 24], "ten seconds each, some seconds ahead");
        drop(governor.enter(u64::MAX).await);
        assert_eq!(start.elapsed().as_secs(), 34, "a call that takes more than a minute's tokens gets in, too");
    }

    #[tokio::test(start_paused = true)]
    async fn a_provider_that_fails_in_a_row_is_left_out_until_one_call_finds_it_back() {
        let limits = Limits { break_after: 3, cooldown: Duration::from_secs(20), ..Limits::default() };
        let governor = Arc::new(Governor::new(limits));
        for _ in 0..2 {
            governor.enter(0).await.failed();
        }
        governor.enter(0).await.succeeded();
        for _ in 0..3 {
            assert_eq!(governor.hold(), None, "a success in between begins anew");
            governor.enter(0).await.failed();
        }
        let start = Instant::now();
        assert_eq!(governor.hold(), Some(Hold::LeftOut(start + Duration::from_secs(20), 3)));
        assert_eq!((governor.gauge().left_out_ms, governor.gauge().failures_in_a_row), (20_000, 3));
        let trying = governor.enter(0).await;
        assert_eq!(start.elapsed().as_secs(), 20);
        assert!(governor.enter(0).now_or_never().is_none(), "one tries for all");
        trying.failed();
        assert_eq!(governor.gauge().left_out_ms, 20_000, "left out again at once");
        governor.enter(0).await.succeeded();
        assert_eq!((governor.hold(), governor.gauge().failures_in_a_row), (None, 0));
    }
}
