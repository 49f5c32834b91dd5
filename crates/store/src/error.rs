//! What can go wrong with a store, as the layers above tell it apart.

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Somebody else has appended this number: catch up, or let go.
    #[error("run {run} already has entry {seq}")]
    Conflict { run: uuid::Uuid, seq: u64 },
    /// Somebody else has changed or removed it since it was read: nothing was written, read again.
    #[error("{0} is no longer as it was read")]
    Changed(String),
    #[error("there is no {0}")]
    NotFound(String),
    /// Locked or out of reach for now: nothing was written, try again. A store that cannot tell finds out before it
    /// answers.
    #[error("the database is busy: {0}")]
    Busy(String),
    /// No space, no permission, moved away: nothing is written until a person has mended it, then it goes on. The text
    /// says what to do. Whether the last write is kept may show only then; to append the same again is safe.
    #[error("{0}")]
    OutOfReach(String),
    /// Damaged, or written by another program: it does not get better by itself. The text says what to do.
    #[error("{0}")]
    Unusable(String),
    #[error("{0}")]
    Internal(String),
}
