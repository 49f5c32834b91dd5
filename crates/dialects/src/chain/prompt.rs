//! How outputs reach the next executor's prompt.
//!
//! `$previous_output` and `{previous_output}`, each also with a path behind it (`$previous_output.prices[0].url`,
//! `{previous_output.prices}`), become JSON indented by 2; only a part that is text goes in as it is, without quotes. A dot
//! that no name follows is a full stop. Everything else is text as it stands, and what is put in is never looked at again.
//!
//! What the previous output is:
//! - in the first executor there is none, and the words stay as they are written;
//! - in a `for_each` it is the item at hand;
//! - in a `repeat_until` it is what the executor before gave in the first pass, then what the pass before gave.
//!
//! If a system prompt refers to it, the user message is "Execute your task."; else the user message has all earlier
//! outputs by executor id (and the item or the pass before), and then "Now execute your task.".

use relais_plan::template::escaped;
use relais_plan::{LargeValues, Problem, Span, Template};

use super::looping::Loop;
use crate::reader::Reader;
use crate::values::{output_of, quote};

const TASK: &str = "Execute your task.";
const TASK_AFTER: &str = "Now execute your task.";
const WORD: &str = "previous_output";
/// `$shared.NAME`: a variable that an executor before has set.
const SHARED: &str = "shared";

/// A longer text may be larger than what goes into a prompt.
const MAX_TEXT_LETTERS: usize = 16 * 1024;
/// Values are no deeper than this.
const MAX_SEGMENTS: usize = 64;
/// Further away, a bracket has nothing to do with the word before it.
const MAX_KEY_BYTES: usize = 256;

/// Where a large output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kept {
    File,
    Db,
}

impl Kept {
    /// The filter that shows a value, or where it is kept: `id` is an expression for the step that gave it, `whole`
    /// for all that it gave, where the value is but a part of it.
    fn reference(self, id: &str, whole: &str) -> String {
        let (before, behind) = LargeValues::FILE_NAME;
        match (self, whole) {
            (Kept::File, _) => format!("reference('file', run.files ~ '/{before}' ~ {id} ~ '{behind}')"),
            (Kept::Db, "") => "reference('db')".to_owned(),
            (Kept::Db, whole) => format!("reference('db', {whole})"),
        }
    }
}

/// What an executor has before it.
pub(super) enum Previous<'a> {
    /// It is the first.
    None,
    Output(&'a str),
    /// An item of what this executor gave.
    Item(&'a str),
    /// A pass: the executor before, and the step of a pass.
    Pass(Option<&'a str>, &'a str),
}

pub(super) struct Prompts {
    pub system: Template,
    pub user: Template,
}

impl<'a> Previous<'a> {
    pub fn new(previous: Option<&'a str>, looping: Option<&Loop>, inner: Option<&'a str>) -> Previous<'a> {
        match (looping, inner, previous) {
            (Some(Loop::RepeatUntil { .. }), Some(inner), previous) => Previous::Pass(previous, inner),
            (Some(Loop::ForEach { .. }), _, Some(previous)) => Previous::Item(previous),
            (_, _, Some(previous)) => Previous::Output(previous),
            (_, _, None) => Previous::None,
        }
    }

    /// The source that puts in what lies at a path of the previous output.
    fn put_in(&self, path: &str, written: &str, kept: Kept) -> String {
        let show = |whole: &str, id: &str| match path {
            "" => format!("{{{{ {whole} | {} }}}}", kept.reference(&quote(id), "")),
            _ => part(&format!("{whole}{path}"), &kept.reference(&quote(id), whole)),
        };
        match self {
            Previous::None => escaped(written),
            Previous::Output(id) => show(&output_of(id), id),
            Previous::Item(id) => part(&format!("item{path}"), &kept.reference(&quote(id), &output_of(id))),
            Previous::Pass(before, inner) => {
                let again = show("loop.previous", inner);
                let first = match before {
                    Some(id) => show(&output_of(id), id),
                    None => escaped(written),
                };
                format!("{{% if loop.index > 0 %}}{again}{{% else %}}{first}{{% endif %}}")
            }
        }
    }

    /// The user message of an executor whose prompt refers to nothing.
    fn message(&self, kept: Kept) -> String {
        let all = all_outputs(kept);
        match self {
            Previous::None => TASK.to_owned(),
            Previous::Output(_) => format!("{all}{TASK_AFTER}"),
            Previous::Item(id) => {
                let shown = kept.reference(&quote(id), &output_of(id));
                let count = "{{ index + 1 }} of {{ loop.count }}";
                format!("{all}Current item ({count}):\n{{{{ item | {shown} }}}}\n\n{TASK_AFTER}")
            }
            Previous::Pass(before, inner) => {
                let shown = kept.reference(&quote(inner), "");
                let again = format!("Output of the pass before:\n{{{{ loop.previous | {shown} }}}}\n\n");
                match before {
                    Some(_) => format!("{all}{{% if loop.index > 0 %}}{again}{{% endif %}}{TASK_AFTER}"),
                    None => {
                        format!("{{% if loop.index > 0 %}}{again}{TASK_AFTER}{{% else %}}{TASK}{{% endif %}}")
                    }
                }
            }
        }
    }
}

/// A part of an output: a text goes in as it is, anything else as JSON.
fn part(value: &str, reference: &str) -> String {
    let is_text = format!("{value} is string and {value} | length <= {MAX_TEXT_LETTERS}");
    format!("{{% if {is_text} %}}{{{{ {value} }}}}{{% else %}}{{{{ {value} | {reference} }}}}{{% endif %}}")
}

/// All earlier outputs as one JSON object, each by itself replaced where it is large. The same few words however many
/// executors there are.
fn all_outputs(kept: Kept) -> String {
    let shown = kept.reference("e.id", "");
    format!(
        "Previous executor outputs:\n{{\n{{% for e in earlier %}}  {{{{ e.id | tojson }}}}: {{{{ e.output | {shown} | \
         indent(2) }}}}{{% if not loop.last %}},{{% endif %}}\n{{% endfor %}}}}\n\n"
    )
}

impl Reader<'_> {
    pub(super) fn prompts(&mut self, text: &str, span: Span, previous: &Previous<'_>, kept: Kept) -> Prompts {
        let (source, refers, shares) = self.filled(text, span, previous, kept);
        let system = match refers || shares {
            true => self.composed(&source, span),
            false => Template::plain(text, span),
        };
        let user = match refers {
            true => TASK.to_owned(),
            false => previous.message(kept),
        };
        Prompts { system, user: self.composed(&user, span) }
    }

    /// The text with its references as template source, and whether there are any to what was before, or to what is
    /// shared.
    fn filled(&mut self, text: &str, span: Span, previous: &Previous<'_>, kept: Kept) -> (String, bool, bool) {
        let mut out = String::with_capacity(text.len());
        let (mut rest, mut refers, mut shares) = (text, false, false);
        while let Some((at, word)) = next_word(rest) {
            let end = at + word.len();
            if word == SHARED {
                let length = shared(&rest[..at], &rest[end..], &mut out);
                shares |= length > 0;
                rest = &rest[end + length..];
                continue;
            }
            let Some(found) = reference(&rest[..at], &rest[end..]) else {
                self.near_miss(&rest[..at], &rest[end..], span);
                out.push_str(&escaped(&rest[..end]));
                rest = &rest[end..];
                continue;
            };
            out.push_str(&escaped(&rest[..at - 1]));
            out.push_str(&previous.put_in(&found.path, &rest[at - 1..end + found.length], kept));
            refers |= !matches!(previous, Previous::None);
            rest = &rest[end + found.length..];
        }
        out.push_str(&escaped(rest));
        (out, refers, shares)
    }

    /// `$previous_outputs` is most likely a slip.
    fn near_miss(&mut self, before: &str, behind: &str, span: Span) {
        if before.ends_with('$') && behind.starts_with(is_name) {
            let longer: String = behind.chars().take_while(|c| is_name(*c)).collect();
            let problem = Problem::warning(span, format!("`${WORD}{longer}` refers to nothing and stays as it is"));
            self.problems.push(problem.help(format!("the output of the executor before is `${WORD}`")));
        }
    }
}

/// The next word that may be a reference, and where.
fn next_word(text: &str) -> Option<(usize, &'static str)> {
    [WORD, SHARED].into_iter().filter_map(|word| Some((text.find(word)?, word))).min()
}

/// Puts in a shared variable, or the text as it stands; answers the bytes behind the word that belong to it.
fn shared(before: &str, behind: &str, out: &mut String) -> usize {
    match reference(before, behind).filter(|found| !found.path.is_empty()) {
        Some(found) => {
            out.push_str(&escaped(&before[..before.len() - 1]));
            out.push_str(&format!("{{{{ vars{} }}}}", found.path));
            found.length
        }
        None => {
            out.push_str(&escaped(before));
            out.push_str(SHARED);
            0
        }
    }
}

/// A reference, seen from behind its word.
struct Found {
    path: String,
    /// Bytes behind the word that belong to it.
    length: usize,
}

fn reference(before: &str, behind: &str) -> Option<Found> {
    match before.chars().next_back()? {
        '$' if !behind.starts_with(is_name) => {
            let (path, length) = path_of(behind);
            Some(Found { path, length })
        }
        '{' => {
            let (path, length) = path_of(behind);
            behind[length..].starts_with('}').then_some(Found { path, length: length + 1 })
        }
        _ => None,
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The path at the beginning of a text (`.prices[0].url`) as an expression goes on, and its length. A dot that no name
/// follows is not part of it.
pub(super) fn path_of(text: &str) -> (String, usize) {
    let mut path = String::new();
    let mut at = 0;
    for _ in 0..MAX_SEGMENTS {
        let Some((segment, length)) = segment(&text[at..]) else { break };
        path.push_str(&segment);
        at += length;
    }
    (path, at)
}

fn segment(text: &str) -> Option<(String, usize)> {
    if let Some(name) = text.strip_prefix('.') {
        let length = name.find(|c: char| !is_name(c)).unwrap_or(name.len());
        let name = &name[..length];
        let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
        return match is_number {
            true => Some((index(name)?, length + 1)),
            false => (length > 0).then(|| (format!("[{}]", quote(name)), length + 1)),
        };
    }
    let inside = text.strip_prefix('[')?;
    let inside = &inside[..inside.floor_char_boundary(MAX_KEY_BYTES)];
    let (inside, _) = inside.split_once(']')?;
    let length = inside.len() + "[]".len();
    let inner = |mark: char| inside.strip_prefix(mark)?.strip_suffix(mark);
    match inner('"').or_else(|| inner('\'')) {
        Some(key) if !key.is_empty() => Some((format!("[{}]", quote(key)), length)),
        Some(_) => None,
        None => Some((index(inside)?, length)),
    }
}

fn index(digits: &str) -> Option<String> {
    let is_number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| digits.parse::<u32>().ok())?.map(|index| format!("[{index}]"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_end_where_sentences_do() {
        for (text, path, length) in [
            ("", "", 0),
            (".", "", 0),
            (". Then", "", 0),
            (".prices, call", r#"["prices"]"#, 7),
            (".prices.", r#"["prices"]"#, 7),
            (".a.b[0].c d", r#"["a"]["b"][0]["c"]"#, 9),
            (".list.0", r#"["list"][0]"#, 7),
            ("['odd key']!", r#"["odd key"]"#, 11),
            ("[x]", "", 0),
            ("[99999999999]", "", 0),
            ("[", "", 0),
            (".größe", r#"["größe"]"#, 8),
        ] {
            assert_eq!(path_of(text), (path.to_owned(), length), "{text}");
        }
    }
}
