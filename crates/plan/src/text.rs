//! Text that is shown to people: it may be long, and it may be anybody's.

use std::borrow::Cow;

/// The first characters, and a sign that there are more.
pub fn cut(text: &str, chars: usize) -> String {
    match text.char_indices().nth(chars) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// Text of anybody, made safe for a terminal: what would move the cursor, change the screen or the clipboard, or turn
/// the direction of reading is shown as JSON writes it (`\u001b`), not sent. Line ends and tabs stay.
pub fn visible(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) && !matches!(c, '\n' | '\t'))
}

/// The same on one line, for a log and for what stands in a row of others: nobody can write a line of his own there.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_hidden(c) || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Is it a name, which stands in lines, logs and addresses? Then it has no control characters.
pub fn is_name(text: &str) -> bool {
    !text.chars().any(|c| is_hidden(c) || matches!(c, '\u{2028}' | '\u{2029}'))
}

/// Control characters of ASCII and of Latin 1, and those that turn the direction of what follows.
fn is_hidden(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, is_shown: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&is_shown) {
        return Cow::Borrowed(text);
    }
    let mut made = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' if is_shown(c) => made.push_str("\\n"),
            '\r' if is_shown(c) => made.push_str("\\r"),
            '\t' if is_shown(c) => made.push_str("\\t"),
            c if is_shown(c) => made.push_str(&format!("\\u{:04x}", c as u32)),
            c => made.push(c),
        }
    }
    Cow::Owned(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_steers_a_terminal_gets_through() {
        let check = |given: &str, shown: &str, line: &str| {
            assert_eq!((visible(given).as_ref(), one_line(given).as_ref()), (shown, line), "{given:?}");
            assert_eq!(is_name(given), given == line, "{given:?}");
        };
        check("plain, ünïcode ✓ 日本語 שלום", "plain, ünïcode ✓ 日本語 שלום", "plain, ünïcode ✓ 日本語 שלום");
        check("a\nb\tc", "a\nb\tc", "a\\nb\\tc");
        check("\u{1b}]52;c;ZXZpbA==\u{7}", "\\u001b]52;c;ZXZpbA==\\u0007", "\\u001b]52;c;ZXZpbA==\\u0007");
        check("no\u{1b}[2K\ryes", "no\\u001b[2K\\ryes", "no\\u001b[2K\\ryes");
        check("\u{9b}31m\u{7f}\u{0}", "\\u009b31m\\u007f\\u0000", "\\u009b31m\\u007f\\u0000");
        check("\u{202e}oN", "\\u202eoN", "\\u202eoN");
        check("a\u{2028}b", "a\u{2028}b", "a\\u2028b");
    }
}
