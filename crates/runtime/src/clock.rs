//! Where the time comes from. The engine has no clock; whoever drives it brings one.

use relais_engine::Millis;

pub trait Clock: Send + Sync + 'static {
    fn now(&self) -> Millis;
}

/// The machine's clock.
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Millis {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map(|d| d.as_millis() as Millis).unwrap_or(0)
    }
}
