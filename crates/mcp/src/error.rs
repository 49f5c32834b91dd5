//! What can go wrong with a server, and whether the call may have reached it.

/// Of one server; the text names it and ends with what it wrote last.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("MCP server `{server}`: {message}")]
pub struct Error {
    pub server: String,
    pub kind: Kind,
    pub message: String,
    /// The request was handed over and no answer came: it may or may not have been performed.
    pub sent: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The settings are not right: a person must act.
    Config,
    /// It cannot be started or reached, or the connection was lost.
    Unreachable,
    Timeout,
    /// The tool says that it failed, or that the call was wrong.
    Tool,
    /// The server does not keep to the protocol, or needs what this client does not offer.
    Protocol,
}

/// An error before the server's name and last words are put to it.
#[derive(Debug)]
pub(crate) struct Trouble {
    pub kind: Kind,
    pub message: String,
    pub sent: bool,
}

impl Trouble {
    pub fn new(kind: Kind, message: impl Into<String>) -> Trouble {
        Trouble { kind, message: message.into(), sent: false }
    }

    pub fn after_sending(kind: Kind, message: impl Into<String>) -> Trouble {
        Trouble { kind, message: message.into(), sent: true }
    }

    pub fn of(self, server: &str, said: &str) -> Error {
        let message = match said.trim() {
            "" => self.message,
            said => format!("{}; it wrote last: {said}", self.message),
        };
        Error { server: server.to_owned(), kind: self.kind, message, sent: self.sent }
    }
}
