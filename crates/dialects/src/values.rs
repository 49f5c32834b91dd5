//! Single values: text, numbers, durations, sizes, words to choose from, expressions, templates, schemas.

use relais_plan::step::Name;
use relais_plan::{Expr, MAX_PASSES, Problem, Schema, Span, Template, time};
use serde_json::Value;

use crate::fields::Field;
use crate::reader::Reader;
use crate::yaml::{Data, Node};

impl Reader<'_> {
    pub(crate) fn text(&mut self, field: Field<'_>) -> Option<String> {
        let text = field.node.as_text().map(str::to_owned);
        if text.is_none() {
            self.wrong(field, "text", &format!("`{}: \"some text\"`", field.key));
        }
        text
    }

    /// Text that is not empty.
    pub(crate) fn name(&mut self, field: Field<'_>) -> Option<String> {
        match field.node.as_text() {
            Some(text) if !text.trim().is_empty() => Some(text.to_owned()),
            _ => {
                self.wrong(field, "a name", &format!("`{}: some-name`", field.key));
                None
            }
        }
    }

    /// One text or a list of texts.
    pub(crate) fn texts(&mut self, field: Field<'_>) -> Vec<String> {
        self.names(field).into_iter().map(|name| name.text).collect()
    }

    pub(crate) fn names(&mut self, field: Field<'_>) -> Vec<Name> {
        let nodes = match &field.node.data {
            Data::List(items) => items.as_slice(),
            Data::Scalar(_) | Data::Map(_) => std::slice::from_ref(field.node),
        };
        let named = |node: &Node| Some(Name { text: node.as_text()?.to_owned(), span: node.span });
        let names: Option<Vec<Name>> = nodes.iter().map(named).collect();
        if names.is_none() {
            self.wrong(field, "a text or a list of texts", &format!("`{}: [one, another]`", field.key));
        }
        names.unwrap_or_default()
    }

    pub(crate) fn flag(&mut self, field: Field<'_>) -> Option<bool> {
        let Data::Scalar(Value::Bool(flag)) = field.node.data else {
            self.wrong(field, "true or false", &format!("`{}: true`", field.key));
            return None;
        };
        Some(flag)
    }

    /// A whole number of at least `least`.
    pub(crate) fn whole(&mut self, field: Field<'_>, least: u32) -> Option<u32> {
        let number = match &field.node.data {
            Data::Scalar(Value::Number(number)) => number.as_u64().and_then(|number| u32::try_from(number).ok()),
            _ => None,
        };
        let number = number.filter(|number| *number >= least);
        if number.is_none() {
            self.wrong(field, &format!("a whole number from {least}"), &format!("`{}: {}`", field.key, least.max(5)));
        }
        number
    }

    /// How often something may go round, or how many items it may take.
    pub(crate) fn passes(&mut self, field: Field<'_>) -> Option<u32> {
        let max = self.whole(field, 1)?;
        if max > MAX_PASSES {
            self.wrong(field, &format!("at most {MAX_PASSES}"), &format!("`{}: 1000`", field.key));
        }
        Some(max.min(MAX_PASSES))
    }

    /// A count or a size such as `200k` or `1.5M`. `k` and `M` are 1000 and 1000000 of whatever is counted.
    pub(crate) fn count(&mut self, field: Field<'_>) -> Option<u64> {
        let count = scaled(field.node, 1_000.0);
        if count.is_none() {
            self.wrong(field, "a whole number, also as `200k` or `1.5M`", &format!("`{}: 200k`", field.key));
        }
        count
    }

    /// Bytes: `64k` is 64 KiB.
    pub(crate) fn size(&mut self, field: Field<'_>) -> Option<u64> {
        let size = scaled(field.node, 1_024.0);
        if size.is_none() {
            self.wrong(field, "a number of bytes, also as `64k` or `1M`", &format!("`{}: 64k`", field.key));
        }
        size
    }

    /// A duration that is not zero, in milliseconds.
    pub(crate) fn duration(&mut self, field: Field<'_>) -> Option<u64> {
        let duration = duration_of(field.node).filter(|ms| *ms > 0);
        if duration.is_none() {
            let expected = "a duration (`90s`, `10m`, `1h30m`, `2d`) or a number of seconds";
            self.wrong(field, expected, &format!("`{}: 10m`", field.key));
        }
        duration
    }

    /// A duration, which may be zero.
    pub(crate) fn pause(&mut self, field: Field<'_>) -> Option<u64> {
        match duration_of(field.node) {
            Some(0) => Some(0),
            Some(_) | None => self.duration(field),
        }
    }

    pub(crate) fn choice<T: Copy>(&mut self, field: Field<'_>, words: &[(&str, T)]) -> Option<T> {
        let written = field.node.as_text();
        let chosen = words.iter().find(|(word, _)| Some(*word) == written).map(|(_, value)| *value);
        if chosen.is_none() {
            let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let example = format!("`{}: {}`", field.key, names.first().copied().unwrap_or_default());
            self.wrong(field, &format!("one of {}", names.join(", ")), &example);
        }
        chosen
    }

    /// A condition or another bare expression; it may also be written as `{{ … }}`.
    pub(crate) fn expression(&mut self, field: Field<'_>) -> Expr {
        let (text, span) = match &field.node.data {
            Data::Scalar(Value::String(text)) => (text.clone(), content_span(field.node, text)),
            Data::Scalar(Value::Bool(value)) => (value.to_string(), field.node.span),
            _ => {
                self.wrong(field, "an expression", &format!("`{}: steps.check.output.score > 3`", field.key));
                return Expr::new("false", field.node.span);
            }
        };
        let (inner, span) = bare(&text, span);
        if inner.trim().is_empty() {
            self.wrong(field, "an expression", &format!("`{}: steps.check.output.score > 3`", field.key));
            return Expr::new("false", span);
        }
        self.parsed(inner, span)
    }

    pub(crate) fn parsed(&mut self, text: &str, span: Span) -> Expr {
        Expr::parse(text, span).unwrap_or_else(|problem| {
            self.problems.push(problem);
            Expr::new("false", span)
        })
    }

    /// Text with references, and only text.
    pub(crate) fn prompt(&mut self, field: Field<'_>) -> Template {
        if field.node.as_text().is_none() {
            self.wrong(field, "text", &format!("`{}: \"Summarise {{{{ input.topic }}}}\"`", field.key));
            return Template::Literal(Value::Null);
        }
        self.template(field)
    }

    /// Any value with references in it.
    pub(crate) fn template(&mut self, field: Field<'_>) -> Template {
        let node = field.node;
        let read = match node.as_text() {
            Some(text) => Template::text(text, content_span(node, text)).map_err(|problem| vec![problem]),
            None => Template::value(&node.to_value(), &|pointer| node.span_at(pointer)),
        };
        read.unwrap_or_else(|problems| {
            self.problems.extend(problems);
            Template::Literal(Value::Null)
        })
    }

    /// A template that a reader has put together from text and references.
    pub(crate) fn composed(&mut self, source: &str, span: Span) -> Template {
        Template::text(source, span).unwrap_or_else(|problem| {
            self.problems.push(problem);
            Template::Literal(Value::Null)
        })
    }

    pub(crate) fn schema(&mut self, field: Field<'_>) -> Option<Schema> {
        match Schema::written(&field.node.to_value()) {
            Ok(schema) => Some(schema),
            Err((pointer, message)) => {
                let message = format!("`{}` is no schema: {message}", field.key);
                let help = "JSON Schema, or the shorthand `{ name: string, tags: [string], note?: string }`";
                self.problems.push(Problem::error(field.node.span_at(&pointer), message).help(help));
                None
            }
        }
    }
}

/// Milliseconds of a duration as text or as a number of seconds.
pub(crate) fn duration_of(node: &Node) -> Option<u64> {
    match &node.data {
        Data::Scalar(Value::String(text)) => time::parse_duration(text),
        Data::Scalar(Value::Number(number)) => time::parse_duration(&number.to_string()),
        _ => None,
    }
}

/// A whole number, or one with a `k` or `M` behind it.
fn scaled(node: &Node, thousand: f64) -> Option<u64> {
    let text = match &node.data {
        Data::Scalar(Value::Number(number)) => return number.as_u64(),
        Data::Scalar(Value::String(text)) => text.trim(),
        _ => return None,
    };
    let (digits, factor) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, thousand),
        None => (text.strip_suffix(['m', 'M'])?, thousand * thousand),
    };
    let scaled = digits.trim().parse::<f64>().ok()? * factor;
    // Above 2^53 a float no longer counts exactly.
    (0.0..9.0e15).contains(&scaled).then_some(scaled.round() as u64)
}

/// The place of the text itself, without the quotes around it.
pub(crate) fn content_span(node: &Node, text: &str) -> Span {
    let Span { start, end } = node.span;
    match (end - start) as usize == text.len() + 2 {
        true => Span { start: start + 1, end: end - 1 },
        false => node.span,
    }
}

/// Takes the braces off a text that is one `{{ … }}`.
pub(crate) fn bare(text: &str, span: Span) -> (&str, Span) {
    let trimmed = text.trim();
    let inner = trimmed.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
    let Some(inner) = inner.filter(|inner| !inner.contains("{{") && !inner.contains("}}")) else {
        return (text, span);
    };
    let inside = inner;
    let inner = inside.trim();
    if (span.end - span.start) as usize != text.len() {
        return (inner, span);
    }
    let blank = (text.len() - text.trim_start().len()) + (inside.len() - inside.trim_start().len());
    let lead = ("{{".len() + blank) as u32;
    (inner, Span { start: span.start + lead, end: span.start + lead + inner.len() as u32 })
}

/// A value as an expression. Text that is one `{{ … }}` stands for what it refers to.
pub(crate) fn literal(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Null => Ok("none".into()),
        Value::String(text) => literal_text(text),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        Value::Array(items) => {
            let items: Result<Vec<String>, _> = items.iter().map(literal).collect();
            Ok(format!("[{}]", items?.join(", ")))
        }
        Value::Object(fields) => {
            let field = |(key, value): (&String, &Value)| Ok(format!("{}: {}", quote(key), literal(value)?));
            let fields: Result<Vec<String>, &str> = fields.iter().map(field).collect();
            Ok(format!("{{{}}}", fields?.join(", ")))
        }
    }
}

fn literal_text(text: &str) -> Result<String, &'static str> {
    let (inner, _) = bare(text, Span::default());
    if inner.len() != text.len() {
        return Ok(format!("({})", inner.trim()));
    }
    if text.contains("{{") || text.contains("{%") {
        return Err("text with `{{ … }}` inside other text cannot stand here");
    }
    Ok(quote(text))
}

/// Text in an expression. Braces in it are no reference, also where the expression is a condition.
pub(crate) fn quote(text: &str) -> String {
    Value::String(text.to_owned()).to_string().replace("{{", "\\u007b\\u007b")
}

/// The output of a step, as an expression.
pub(crate) fn output_of(id: &str) -> String {
    format!("{}.output", step_of(id))
}

/// The expression for a step, whatever letters its id has.
pub(crate) fn step_of(id: &str) -> String {
    let is_plain = id.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && id.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if is_plain { format!("steps.{id}") } else { format!("steps[{}]", quote(id)) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_become_expressions() {
        let check = |value: Value, expected: &str| assert_eq!(literal(&value).unwrap(), expected);
        check(json!(null), "none");
        check(json!("it's \"so\""), r#""it's \"so\"""#);
        check(json!("{{ input.a }}"), "(input.a)");
        check(json!([1, -2.5, true, { "a b": [] }]), r#"[1, -2.5, true, {"a b": []}]"#);
        assert!(literal(&json!("a {{ b }}")).is_err());
    }

    #[test]
    fn braces_come_off_a_whole_expression_only() {
        let check = |text: &str, expected: &str, start: u32| {
            let (inner, span) = bare(text, Span::new(10, 10 + text.len()));
            assert_eq!((inner, span.start), (expected, start));
        };
        check("{{ a.b }}", "a.b", 13);
        check("a == 1", "a == 1", 10);
        check("{{ a }} == {{ b }}", "{{ a }} == {{ b }}", 10);
    }

    #[test]
    fn counts_may_have_a_unit() {
        let check = |value: Value, expected: Option<u64>| {
            let node = Node { span: Span::default(), data: Data::Scalar(value) };
            assert_eq!(scaled(&node, 1_000.0), expected);
        };
        check(json!(7), Some(7));
        check(json!("200k"), Some(200_000));
        check(json!("1.5M"), Some(1_500_000));
        check(json!("1e300M"), None);
        check(json!("-1k"), None);
        check(json!("NaNk"), None);
        check(json!(1.5), None);
        check(json!("many"), None);
    }
}
