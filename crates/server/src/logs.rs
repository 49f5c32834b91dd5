//! What the server writes to stderr: one line per thing worth knowing, as text or JSON. Neither secrets nor bodies get
//! here, because nobody hands them over. Names and errors do, and were written by others: none of them can begin a line.

use std::fmt::Debug;
use std::str::FromStr;

use relais_plan::text::one_line;
use tracing::field::Field;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use tracing_subscriber::fmt::format::Writer;

/// The variable that says how much is written.
pub const VARIABLE: &str = "RELAIS_LOG";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    #[default]
    Text,
    Json,
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Format, String> {
        match text {
            "text" => Ok(Format::Text),
            "json" => Ok(Format::Json),
            other => Err(format!("`{other}` is no format of logs; there are text and json")),
        }
    }
}

/// From now on, for the whole process. A second call changes nothing.
pub fn start(format: Format) -> Result<(), String> {
    let level = level(std::env::var(VARIABLE).ok().as_deref())?;
    let lines = fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // Only who came first is heard: an embedding program may have its own.
    let _ = match format {
        Format::Text => {
            let fields = fmt::format::debug_fn(field).delimited(" ");
            tracing::subscriber::set_global_default(lines.with_ansi(false).fmt_fields(fields).finish())
        }
        Format::Json => tracing::subscriber::set_global_default(lines.json().flatten_event(true).finish()),
    };
    Ok(())
}

/// One field of a line of text.
fn field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> std::fmt::Result {
    let text = format!("{value:?}");
    let text = one_line(&text);
    match field.name() {
        "message" => writer.write_str(&text),
        name => write!(writer, "{name}={text}"),
    }
}

fn level(text: Option<&str>) -> Result<LevelFilter, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(LevelFilter::INFO) };
    text.parse().map_err(|_| format!("{VARIABLE}: `{text}` is none of off, error, warn, info, debug and trace"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    #[test]
    fn a_name_begins_no_line_of_the_log() {
        let file = tempfile::tempfile().unwrap();
        let (mut read, fields) = (file.try_clone().unwrap(), fmt::format::debug_fn(field).delimited(" "));
        let lines = fmt().with_writer(std::sync::Mutex::new(file)).with_ansi(false).with_target(false);
        tracing::subscriber::with_default(lines.fmt_fields(fields).finish(), || {
            let name = "a\n2026-01-01T00:00:00Z INFO run ended run=1\u{1b}[2K";
            tracing::info!(workflow = %name, ms = 3, text = name, "run {name}");
        });
        let mut text = String::new();
        read.rewind().unwrap();
        read.read_to_string(&mut text).unwrap();
        assert_eq!(text.lines().count(), 1, "{text}");
        assert!(!text.contains('\u{1b}') && text.contains("workflow=a\\n2026") && text.contains(" ms=3"), "{text}");
    }

    #[test]
    fn levels_and_formats_are_words() {
        assert_eq!(level(None), Ok(LevelFilter::INFO));
        assert_eq!(level(Some("debug")), Ok(LevelFilter::DEBUG));
        assert!(level(Some("loud")).is_err_and(|error| error.contains("`loud`")));
        assert_eq!("json".parse(), Ok(Format::Json));
        assert!("xml".parse::<Format>().is_err());
    }
}
