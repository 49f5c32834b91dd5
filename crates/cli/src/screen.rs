//! The two streams: results to stdout, everything else to stderr. Colours only where a person looks.
//!
//! All that the program says goes through here, and much of it was written by others: models, tools, files, users. What
//! could steer a terminal is shown, not sent (`relais_plan::text::visible`). Colours are ours alone: [`Paint`] writes
//! them with a mark that nobody outside this process knows, and only what stands behind that mark becomes a colour.

use std::borrow::Cow;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, IsTerminal, Write};
use std::sync::LazyLock;

use relais_plan::text::visible;

/// A result for people: a table, a trace, a list.
pub fn out(text: &str) -> io::Result<()> {
    write_out(&shown(text))
}

/// A result for programs, or to be kept: a value, a definition, JSON. A pipe or a file gets it as it is.
pub fn data(text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() { out(text) } else { write_out(text) }
}

/// A result of a run that goes on whether or not somebody still reads.
pub fn data_if_read(text: &str) -> io::Result<()> {
    unless_broken(data(text))
}

/// A line for people of a run that goes on whether or not somebody still reads.
pub fn out_if_read(text: &str) -> io::Result<()> {
    unless_broken(out(text))
}

fn unless_broken(written: io::Result<()>) -> io::Result<()> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn write_out(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

/// A line beside the result. Nobody to read it is no reason to stop.
pub fn note(text: &str) {
    let end = if text.ends_with('\n') { "" } else { "\n" };
    let _ = write!(io::stderr().lock(), "{}{end}", shown(text));
}

/// A piece of text as it comes, without an end of line.
pub fn piece(text: &str) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(shown(text).as_bytes()).and_then(|()| stderr.flush());
}

pub fn error(text: &str) {
    note(&format!("{} {text}", Paint::stderr().red("error:")));
}

pub fn warning(text: &str) {
    note(&format!("{} {text}", Paint::stderr().yellow("warning:")));
}

/// Begins a colour, and is the secret of this process.
static MARK: LazyLock<String> = LazyLock::new(|| format!("\x1b{:016x}[", RandomState::new().build_hasher().finish()));

/// Everything but our own colours made visible.
fn shown(text: &str) -> Cow<'_, str> {
    let mark = MARK.as_str();
    if !text.contains(mark) {
        return visible(text);
    }
    text.split(mark).map(visible).collect::<Vec<_>>().join("\x1b[").into()
}

/// Text that was coloured by a library which let nothing of others through that could steer a terminal.
pub fn colored(text: &str) -> String {
    text.replace("\x1b[", &MARK)
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
        let mark = MARK.as_str();
        if self.0 { format!("{mark}{code}m{text}{mark}0m") } else { text.to_owned() }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_colours_reach_a_terminal() {
        let (paint, evil) = (Paint(true), "\x1b[32mapproved\x1b[0m\r\x1b]52;c;x\x07");
        let harmless = "\\u001b[32mapproved\\u001b[0m\\r\\u001b]52;c;x\\u0007";
        for (text, expected) in [
            (format!("{} {evil}", paint.red("error:")), format!("\x1b[1;31merror:\x1b[0m {harmless}")),
            (paint.bold(evil), format!("\x1b[1m{harmless}\x1b[0m")),
            (evil.to_owned(), harmless.to_owned()),
            (Paint(false).red("x"), "x".to_owned()),
            (colored("\x1b[1mours\x1b[0m"), "\x1b[1mours\x1b[0m".to_owned()),
            ("two\nlines\there".to_owned(), "two\nlines\there".to_owned()),
        ] {
            assert_eq!(shown(&text), expected);
        }
    }
}
