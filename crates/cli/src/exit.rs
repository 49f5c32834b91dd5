//! How a command ended, as a number for scripts and a line for people.

use std::process::ExitCode;

use relais_engine::RunStatus;
use relais_service::Error;

use crate::screen;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    Done,
    Failed,
    /// Wrong words, or a file with errors.
    Usage,
    Waiting,
    Cancelled,
    /// SIGTERM: the run was let go, not cancelled.
    LetGo,
}

impl Exit {
    pub fn of(status: RunStatus) -> Exit {
        match status {
            RunStatus::Completed | RunStatus::Stopped => Exit::Done,
            RunStatus::Failed | RunStatus::PartialSuccess => Exit::Failed,
            RunStatus::Cancelled => Exit::Cancelled,
            RunStatus::Pending | RunStatus::Running | RunStatus::Interrupted | RunStatus::Waiting => Exit::Waiting,
        }
    }

    fn number(self) -> u8 {
        match self {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Waiting => 3,
            Exit::Cancelled => 130,
            Exit::LetGo => 143,
        }
    }
}

/// The process's own exit code; an error is told first.
pub fn code(outcome: anyhow::Result<Exit>) -> ExitCode {
    let exit = match outcome {
        Ok(exit) => exit,
        // Whoever read our output has seen enough.
        Err(error) if is_broken_pipe(&error) => Exit::Done,
        Err(error) => {
            screen::error(&format!("{error:#}"));
            blame(&error)
        }
    };
    ExitCode::from(exit.number())
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
}

/// The caller's mistake, or ours and the machine's?
fn blame(error: &anyhow::Error) -> Exit {
    match error.downcast_ref::<Error>() {
        Some(Error::Conflict(_) | Error::Stale(_) | Error::Busy(_) | Error::Unusable(_)) => Exit::Failed,
        Some(Error::Invalid(_) | Error::Findings(_) | Error::NotFound(_) | Error::Forbidden(_)) => Exit::Usage,
        Some(Error::Unauthorized(_) | Error::TooMany { .. }) => Exit::Usage,
        None if error.downcast_ref::<std::io::Error>().is_some() => Exit::Failed,
        None => Exit::Usage,
    }
}
