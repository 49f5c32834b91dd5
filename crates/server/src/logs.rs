//! What the server writes to stderr: one line per thing worth knowing, as text or JSON. Neither secrets nor bodies get
//! here, because nobody hands them over.

use std::str::FromStr;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;

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
        Format::Text => tracing::subscriber::set_global_default(lines.with_ansi(false).finish()),
        Format::Json => tracing::subscriber::set_global_default(lines.json().flatten_event(true).finish()),
    };
    Ok(())
}

fn level(text: Option<&str>) -> Result<LevelFilter, String> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(LevelFilter::INFO) };
    text.parse().map_err(|_| format!("{VARIABLE}: `{text}` is none of off, error, warn, info, debug and trace"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_formats_are_words() {
        assert_eq!(level(None), Ok(LevelFilter::INFO));
        assert_eq!(level(Some("debug")), Ok(LevelFilter::DEBUG));
        assert!(level(Some("loud")).is_err_and(|error| error.contains("`loud`")));
        assert_eq!("json".parse(), Ok(Format::Json));
        assert!("xml".parse::<Format>().is_err());
    }
}
