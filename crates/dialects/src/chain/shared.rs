//! Variables that the executors of a chain share.
//!
//! `"set": {"currency": "$output.prices[0].currency"}` writes them when an executor has ended; `$shared.currency` (or
//! `{shared.currency}`) reads them in the prompts behind it. In `set`, `$output` is what the executor itself gave, and a text
//! that is one reference keeps the value's type. They are variables of the run, so its trace shows them.

use relais_plan::Template;
use relais_plan::template::escaped;

use super::prompt::path_of;
use crate::fields::Field;
use crate::reader::Reader;
use crate::values::output_of;
use crate::yaml::Node;

const EXAMPLE: &str = "`\"set\": {\"cheapest\": \"$output.prices[0]\"}`";

impl Reader<'_> {
    /// What the executor with this id writes.
    pub(super) fn shared(&mut self, field: Field<'_>, id: &str) -> Vec<(String, Template)> {
        let Some(fields) = self.open_map(field.node, "`set`", EXAMPLE) else { return Vec::new() };
        if fields.all().next().is_none() {
            self.wrong(field, "at least one variable", EXAMPLE);
        }
        let names: Vec<Field<'_>> = fields.all().collect();
        names.into_iter().map(|field| (self.shared_name(field), self.shared_value(field.node, id))).collect()
    }

    fn shared_name(&mut self, field: Field<'_>) -> String {
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !field.key.starts_with(|c: char| c.is_ascii_alphabetic()) || !field.key.chars().all(is_name) {
            let message = format!("`{}` cannot be the name of a shared variable", field.key);
            let help = "letters, digits and `_`, a letter first; it is read as `$shared.NAME`";
            self.problems.push(relais_plan::Problem::error(field.key_span, message).help(help));
        }
        field.key.to_owned()
    }

    fn shared_value(&mut self, node: &Node, id: &str) -> Template {
        let Some(text) = node.as_text() else { return Template::Literal(node.to_value()) };
        match reference(text, id) {
            Some((source, length)) if length == text.len() => Template::Ref(self.parsed(&source, node.span)),
            _ => {
                let source = filled(text, id);
                self.composed(&source, node.span)
            }
        }
    }
}

/// A reference at the beginning of a text as an expression, and its length.
fn reference(text: &str, id: &str) -> Option<(String, usize)> {
    for (word, root) in [("$output", output_of(id)), ("$shared", "vars".to_owned())] {
        let Some(behind) = text.strip_prefix(word) else { continue };
        let (path, length) = path_of(behind);
        let is_whole = !behind.starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if is_whole && (root != "vars" || !path.is_empty()) {
            return Some((format!("{root}{path}"), word.len() + length));
        }
    }
    None
}

/// Text with the values of its references put in.
fn filled(text: &str, id: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&escaped(&rest[..at]));
        rest = &rest[at..];
        let (put, length) = match reference(rest, id) {
            Some((source, length)) => (format!("{{{{ {source} }}}}"), length),
            None => (escaped("$"), 1),
        };
        out.push_str(&put);
        rest = &rest[length..];
    }
    out.push_str(&escaped(rest));
    out
}
