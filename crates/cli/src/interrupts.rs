//! What a terminal or a supervisor says to this process.

use tokio::signal::unix::{Signal, SignalKind, signal};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    /// Ctrl-C.
    Stop,
    /// SIGTERM or SIGHUP: let go of what there is.
    Leave,
}

pub struct Interrupts {
    stop: Signal,
    leave: Signal,
    hang_up: Signal,
}

impl Interrupts {
    pub fn listen() -> std::io::Result<Interrupts> {
        let stop = signal(SignalKind::interrupt())?;
        let leave = signal(SignalKind::terminate())?;
        let hang_up = signal(SignalKind::hangup())?;
        Ok(Interrupts { stop, leave, hang_up })
    }

    pub async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.stop.recv() => Interrupt::Stop,
            _ = self.leave.recv() => Interrupt::Leave,
            _ = self.hang_up.recv() => Interrupt::Leave,
        }
    }
}
