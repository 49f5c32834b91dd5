//! Server-sent events: bytes in, events out, across any chunking. Knows no provider and does no I/O.

/// A line longer than this is no model's delta; the stream is given up instead of filling memory.
pub const LINE_MAX_BYTES: usize = 8 * 1024 * 1024;

#[derive(Debug, Default, PartialEq)]
pub struct Event {
    /// The `event:` field, empty where the provider names none.
    pub name: String,
    pub data: String,
}

#[derive(Debug, thiserror::Error, PartialEq)]
#[error("a line of the event stream is longer than {LINE_MAX_BYTES} bytes")]
pub struct LineTooLong;

/// Keeps the unfinished line and the unfinished event between chunks.
#[derive(Debug, Default)]
pub struct Parser {
    line: Vec<u8>,
    event: Event,
    has_data: bool,
}

impl Parser {
    /// The events that these bytes complete.
    pub fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, LineTooLong> {
        let mut complete = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            if self.line.len() + piece.len() > LINE_MAX_BYTES {
                return Err(LineTooLong);
            }
            self.line.extend_from_slice(piece);
            if piece.ends_with(b"\n") {
                complete.extend(self.end_line());
            }
        }
        if self.event.data.len() > LINE_MAX_BYTES { Err(LineTooLong) } else { Ok(complete) }
    }

    /// What is left when the connection ends: some servers send no blank line after their last event.
    pub fn finish(mut self) -> Option<Event> {
        let last = if self.line.is_empty() { None } else { self.end_line() };
        last.or_else(|| self.dispatch())
    }

    fn end_line(&mut self) -> Option<Event> {
        let bytes = std::mem::take(&mut self.line);
        let text = String::from_utf8_lossy(&bytes);
        let line = text.trim_end_matches(['\n', '\r']).trim_start_matches('\u{feff}');
        if line.is_empty() {
            return self.dispatch();
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        self.take_field(field, value.strip_prefix(' ').unwrap_or(value));
        None
    }

    fn take_field(&mut self, field: &str, value: &str) {
        match field {
            "event" => self.event.name = value.to_owned(),
            "data" => {
                if self.has_data {
                    self.event.data.push('\n');
                }
                self.event.data.push_str(value);
                self.has_data = true;
            }
            // Comments keep the connection alive; ids and reconnection times mean nothing to a one-shot call.
            _ => {}
        }
    }

    fn dispatch(&mut self) -> Option<Event> {
        let event = std::mem::take(&mut self.event);
        std::mem::take(&mut self.has_data).then_some(event)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8], chunk: usize) -> Vec<(String, String)> {
        let mut parser = Parser::default();
        let mut events = Vec::new();
        for piece in bytes.chunks(chunk) {
            events.extend(parser.push(piece).unwrap());
        }
        events.extend(parser.finish());
        events.into_iter().map(|event| (event.name, event.data)).collect()
    }

    fn check(text: &str, want: &[(&str, &str)]) {
        let want: Vec<_> = want.iter().map(|(name, data)| (name.to_string(), data.to_string())).collect();
        for chunk in [1, 2, 3, 7, 1000] {
            assert_eq!(parse(text.as_bytes(), chunk), want, "in chunks of {chunk}: {text:?}");
        }
    }

    #[test]
    fn events_come_whole_however_the_bytes_are_cut() {
        check("data: {\"a\":1}\n\ndata: [DONE]\n\n", &[("", "{\"a\":1}"), ("", "[DONE]")]);
        check("event: ping\r\ndata: é€\r\n\r\n", &[("ping", "é€")]);
        check(": keep-alive\n\nid: 7\nretry: 10\n\n", &[]);
        check("data: a\ndata: b\n\n", &[("", "a\nb")]);
        check("data:tight\n\ndata\n\n", &[("", "tight"), ("", "")]);
        check("data: last without a blank line", &[("", "last without a blank line")]);
        check("data: last without a blank line\n", &[("", "last without a blank line")]);
        check("", &[]);
    }

    #[test]
    fn an_endless_line_is_given_up() {
        let mut parser = Parser::default();
        let block = vec![b'x'; LINE_MAX_BYTES / 2];
        assert_eq!(parser.push(&block), Ok(vec![]));
        assert_eq!(parser.push(&block), Ok(vec![]));
        assert_eq!(parser.push(b"x"), Err(LineTooLong));
    }

    #[test]
    fn an_endless_event_of_short_lines_is_given_up() {
        let mut parser = Parser::default();
        let block = format!("data: {}\n", "x".repeat(1024 * 1024)).into_bytes();
        assert!((0..20).any(|_| parser.push(&block).is_err()));
    }
}
