//! The two streams: results to stdout, everything else to stderr. Colours only where a person looks.

use std::io::{self, IsTerminal, Write};

/// A result line.
pub fn out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

/// A result line of a run that goes on whether or not somebody still reads.
pub fn out_if_read(text: &str) -> io::Result<()> {
    match out(text) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// Text from a model, a tool or a file, made safe for a terminal: control characters other than line ends and tabs are
/// shown, not sent. A pipe gets the bytes as they are.
pub fn for_terminal(text: &str) -> std::borrow::Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
    if !io::stdout().is_terminal() || text.chars().all(harmless) {
        return text.into();
    }
    text.chars().map(|c| if harmless(c) { c.to_string() } else { c.escape_default().to_string() }).collect()
}

/// A line beside the result. Nobody to read it is no reason to stop.
pub fn note(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(io::stderr().lock(), "{text}{end}");
}

/// A piece of text as it comes, without an end of line.
pub fn piece(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
}

pub fn error(text: &str) {
    note(&format!("{} {text}", Paint::stderr().red("error:")));
}

pub fn warning(text: &str) {
    note(&format!("{} {text}", Paint::stderr().yellow("warning:")));
}

/// Colours, or none.
#[derive(Debug, Clone, Copy)]
pub struct Paint(pub bool);

impl Paint {
    pub fn stdout() -> Paint {
        Paint(io::stdout().is_terminal() && wanted())
    }

    pub fn stderr() -> Paint {
        Paint(io::stderr().is_terminal() && wanted())
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    pub fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub fn green(self, text: &str) -> String {
        self.with("32", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with("33", text)
    }

    pub fn dim(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }
}

/// `NO_COLOR` set to anything means none; so does a terminal that can do nothing.
fn wanted() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty());
    !refused && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}
