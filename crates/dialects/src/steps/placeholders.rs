//! `<<trigger_output>>` and `<<step_output.UUID>>` in a prompt or another text setting of a step. This is the one place
//! that knows them; all other text is taken as it stands, and so is what they are replaced with.
//!
//! Steps of this format answer in text, which goes in as it is. Data that a run was started with goes in as its
//! markdown if it brings one, as its text if it is a prompt alone, else as JSON.

use relais_plan::problem::nearest;
use relais_plan::template::escaped;
use relais_plan::{Problem, Span, Template};
use serde_json::Value;

use super::conditions::text_literal;
use super::kinds::At;
use crate::fields::Field;
use crate::reader::Reader;
use crate::yaml::Node;

const OPEN: &str = "<<";
const CLOSE: &str = ">>";
const TRIGGER: &str = "trigger_output";
const STEP: &str = "step_output";
const TRIGGER_DATA: &str = "input.markdown_representation if input.markdown_representation is defined and \
                            input.markdown_representation is string else input.prompt if input.prompt is defined \
                            and input.prompt is string and input | length == 1 else input";
/// The same data where a step is run by itself.
const GIVEN_DATA: &str = "input.trigger_output";

impl Reader<'_> {
    /// The system message as a template.
    pub(super) fn steps_prompt(&mut self, field: Field<'_>, at: &At<'_, '_>) -> Template {
        let Some(text) = self.text(field) else { return Template::Literal(Value::Null) };
        let mut source = String::with_capacity(text.len());
        let mut done = 0;
        while let Some((start, end)) = placeholder(&text, done) {
            source.push_str(&escaped(&text[done..start]));
            let span = place(field.node, &text, start, end);
            let inside = &text[start + OPEN.len()..end - CLOSE.len()];
            match self.placeholder_meaning(inside, span, at) {
                Some(expression) => source.push_str(&format!("{{{{ {expression} }}}}")),
                None => source.push_str(&escaped(&text[start..end])),
            }
            done = end;
        }
        source.push_str(&escaped(&text[done..]));
        self.composed(&source, field.node.span)
    }

    /// A text setting with placeholders as an expression; none where it has none. One placeholder alone stands for the
    /// value, among other text for its text.
    pub(super) fn steps_setting(&mut self, field: Field<'_>, at: &At<'_, '_>) -> Option<String> {
        let text = field.node.as_text()?.to_owned();
        let (mut parts, mut done, mut is_reference) = (Vec::new(), 0, false);
        while let Some((start, end)) = placeholder(&text, done) {
            parts.extend((start > done).then(|| text_literal(&text[done..start])));
            let inside = &text[start + OPEN.len()..end - CLOSE.len()];
            let meaning = self.placeholder_meaning(inside, place(field.node, &text, start, end), at);
            is_reference |= meaning.is_some();
            parts.push(meaning.map_or_else(|| text_literal(&text[start..end]), |expression| format!("({expression})")));
            done = end;
        }
        parts.extend((done < text.len()).then(|| text_literal(&text[done..])));
        match parts.as_slice() {
            _ if !is_reference => None,
            // Text that is JSON counts as what it says, as it does where a path looks into it.
            [alone] => Some(format!("({alone} | jsonpath('$') | first)")),
            several => Some(format!("({})", several.join(" ~ "))),
        }
    }

    fn trigger_data(&mut self) -> String {
        let Some(needs) = &mut self.alone else { return TRIGGER_DATA.to_owned() };
        needs.trigger = true;
        let data = TRIGGER_DATA.replace("input", GIVEN_DATA);
        // Whoever runs one step gives any value, not always a map.
        format!("({data}) if {GIVEN_DATA} is mapping else {GIVEN_DATA}")
    }

    /// What a placeholder stands for. Nothing: it is text, or it is wrong and was reported.
    fn placeholder_meaning(&mut self, inside: &str, span: Span, at: &At<'_, '_>) -> Option<String> {
        if inside == TRIGGER {
            return Some(self.trigger_data());
        }
        if let Some(uuid) = inside.strip_prefix(STEP).and_then(|rest| rest.strip_prefix('.')) {
            return self.readable_output(uuid, at.position, span, at.listing);
        }
        if let Some(near) = misspelt(inside) {
            let problem = Problem::error(span, format!("`{OPEN}{inside}{CLOSE}` refers to nothing"));
            self.problems.push(problem.help(format!("did you mean `{OPEN}{near}{CLOSE}`?")));
        }
        None
    }
}

/// The next stretch between `<<` and `>>` with one word between them.
fn placeholder(text: &str, from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let start = at + text[at..].find(OPEN)?;
        let inside = start + OPEN.len();
        let is_word = |c: char| c.is_alphanumeric() || "_-. {}".contains(c);
        let length = text[inside..].find(|c| !is_word(c)).unwrap_or(text.len() - inside);
        let end = inside + length;
        if length > 0 && text[end..].starts_with(CLOSE) {
            return Some((start, end + CLOSE.len()));
        }
        at = start + 1;
    }
}

/// A word that is almost one of the two.
fn misspelt(inside: &str) -> Option<String> {
    let word = inside.trim();
    let (head, uuid) = word.split_once('.').map_or((word, None), |(head, uuid)| (head, Some(uuid)));
    match (nearest(head.trim(), [TRIGGER, STEP])?, uuid) {
        (STEP, Some(uuid)) => Some(format!("{STEP}.{}", uuid.trim())),
        (STEP, None) => Some(format!("{STEP}.UUID")),
        (known, _) => Some(known.to_owned()),
    }
}

/// The place of a stretch of text in quotes. Each letter that JSON must escape takes one more byte in the file; where
/// that does not explain the difference, the whole text is named.
fn place(node: &Node, text: &str, start: usize, end: usize) -> Span {
    let escapes = |text: &str| text.chars().filter(|c| "\n\r\t\"\\".contains(*c)).count();
    let written = (node.span.end - node.span.start) as usize;
    let explained = text.len() + 2 + escapes(text);
    // The parser's end of a text with an escaped quote is one too far.
    if written != explained && written != explained + 1 {
        return node.span;
    }
    let first = node.span.start as usize + 1 + escapes(&text[..start]);
    Span::new(first + start, first + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_words_between_angles() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(placeholder(text, 0).map(|(start, end)| &text[start..end]), expected);
        };
        check("a <<trigger_output>> b", Some("<<trigger_output>>"));
        check("a <<<step_output.1-2>>>", Some("<<step_output.1-2>>"));
        check("cat <<EOF\nx\nEOF >>", None);
        check("1 << 2 and 3 >> 4", Some("<< 2 and 3 >>"));
        check("<<>>", None);
        check("é<<", None);
    }

    #[test]
    fn what_is_almost_a_placeholder_is_told() {
        let check = |inside: &str, expected: Option<&str>| assert_eq!(misspelt(inside).as_deref(), expected);
        check("triger_output", Some("trigger_output"));
        check(" trigger_output ", Some("trigger_output"));
        check("step_ouput.7", Some("step_output.7"));
        check("step_output", Some("step_output.UUID"));
        check("html", None);
    }
}
