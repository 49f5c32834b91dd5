//! The filters, tests and functions of the language. The lists are closed: what is not here is refused at load.
//!
//! Most come from minijinja. Those that must agree with how values print and compare here are our own.

use std::sync::OnceLock;

use minijinja::value::{Kwargs, Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, UndefinedBehavior};
use serde_json::Value;

use super::EvalError;
use super::eval::{contains, holds, kind, text_of};
use super::node::Comparison;

pub const FILTERS: &[&str] = &[
    "abs",
    "any",
    "attr",
    "batch",
    "bool",
    "capitalize",
    "chain",
    "contains",
    "count",
    "d",
    "default",
    "dictsort",
    "endswith",
    "first",
    "float",
    "get",
    "groupby",
    "indent",
    "int",
    "items",
    "join",
    "json",
    "jsonpath",
    "keys",
    "last",
    "length",
    "lines",
    "list",
    "lower",
    "map",
    "max",
    "min",
    "reference",
    "reject",
    "rejectattr",
    "replace",
    "reverse",
    "round",
    "select",
    "selectattr",
    "slice",
    "sort",
    "split",
    "startswith",
    "string",
    "sum",
    "title",
    "tojson",
    "trim",
    "unique",
    "upper",
    "values",
    "zip",
];

pub const TESTS: &[&str] = &[
    "!=",
    "<",
    "<=",
    "==",
    ">",
    ">=",
    "boolean",
    "containing",
    "defined",
    "divisibleby",
    "empty",
    "endingwith",
    "eq",
    "equalto",
    "even",
    "false",
    "float",
    "ge",
    "greaterthan",
    "gt",
    "in",
    "int",
    "integer",
    "iterable",
    "le",
    "lessthan",
    "lower",
    "lt",
    "mapping",
    "ne",
    "none",
    "null",
    "number",
    "odd",
    "sameas",
    "sequence",
    "startingwith",
    "string",
    "true",
    "undefined",
    "upper",
];

/// Other words for filters, in the form of a call.
pub const CALLS: &[(&str, &str)] =
    &[("len", "length"), ("str", "string"), ("strip", "trim"), ("sorted", "sort"), ("size", "length")];

/// No filter may make more text than this out of its input.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// Wider indents have no use and would only make text.
const MAX_INDENT: u64 = 1_000;

/// Filters whose result must agree with our own printing and types; `None` leaves it to minijinja.
fn own_filter(name: &str, input: &Value, args: &[Value]) -> Option<Result<Value, EvalError>> {
    Some(match (name, args) {
        ("length" | "count", []) => length(input),
        ("string", []) => Ok(Value::from(text_of(input))),
        ("tojson" | "json", []) => Ok(Value::from(input.to_string())),
        ("tojson" | "json", [_]) => Ok(Value::from(format!("{input:#}"))),
        ("join", []) => join(input, ""),
        ("join", [Value::String(separator)]) => join(input, separator),
        ("contains", [needle]) => contains(input, needle).map(Value::from),
        ("startswith" | "endswith", [Value::String(part)]) => edge(name, input, part),
        ("keys", []) => entries(input, |(key, _)| Value::from(key.as_str())),
        ("values", []) => entries(input, |(_, value)| value.clone()),
        ("get", [Value::String(key)]) => Ok(input.get(key).cloned().unwrap_or(Value::Null)),
        ("get", [Value::String(key), otherwise]) => Ok(input.get(key).unwrap_or(otherwise).clone()),
        ("first" | "last", []) => end_of(name, input),
        ("any", [Value::String(test), args @ ..]) => any(input, test, args),
        ("jsonpath", [Value::String(path)]) => json_path(input, path),
        _ => return None,
    })
}

/// Applies a filter. Named arguments come after the others.
pub fn filter(name: &str, input: &Value, args: &[Value], named: &[(&str, Value)]) -> Result<Value, EvalError> {
    if named.is_empty()
        && let Some(result) = own_filter(name, input, args)
    {
        return result;
    }
    bounded(name, input, args)?;
    let values = borrowed(input, args, named);
    let result = environment().empty_state().apply_filter(name, &values).map_err(|error| refused(name, &error))?;
    if result.is_undefined() {
        return Err(EvalError::Reference(format!("{name} finds nothing in {}", kind(input))));
    }
    serde_json::to_value(&result).map_err(|_| EvalError::Type(format!("{name} gives no JSON value")))
}

/// Performs a test other than `defined`.
pub fn test(name: &str, input: &Value, args: &[Value]) -> Result<bool, EvalError> {
    match (name, args) {
        ("none" | "null", []) => Ok(input.is_null()),
        ("empty", []) => length(input).map(|length| length == 0),
        ("containing", [needle]) => contains(input, needle),
        ("in", [container]) => contains(container, input),
        (name, [other]) if let Some(op) = comparison(name) => holds(op, input, other),
        ("startingwith" | "endingwith", [Value::String(part)]) => {
            let name = if name == "startingwith" { "startswith" } else { "endswith" };
            edge(name, input, part).map(|found| found == true)
        }
        _ => {
            let values = borrowed(input, args, &[]);
            environment().empty_state().perform_test(name, &values).map_err(|error| refused(name, &error))
        }
    }
}

/// The comparisons that tests are other words for.
fn comparison(name: &str) -> Option<Comparison> {
    Some(match name {
        "eq" | "equalto" | "==" => Comparison::Equal,
        "ne" | "!=" => Comparison::NotEqual,
        "lt" | "lessthan" | "<" => Comparison::Less,
        "le" | "<=" => Comparison::LessOrEqual,
        "gt" | "greaterthan" | ">" => Comparison::Greater,
        "ge" | ">=" => Comparison::GreaterOrEqual,
        _ => return None,
    })
}

fn borrowed(input: &Value, args: &[Value], named: &[(&str, Value)]) -> Vec<minijinja::Value> {
    let convert = |value: &Value| minijinja::Value::from(Serde(value));
    let mut values: Vec<minijinja::Value> = std::iter::once(input).chain(args).map(convert).collect();
    if !named.is_empty() {
        let pairs: Kwargs = named.iter().map(|(name, value)| (*name, convert(value))).collect();
        values.push(pairs.into());
    }
    values
}

fn refused(name: &str, error: &Error) -> EvalError {
    let detail = error.detail().map_or_else(|| error.kind().to_string(), str::to_owned);
    match error.kind() {
        ErrorKind::UndefinedError => EvalError::Reference(format!("{name}: {detail}")),
        _ => EvalError::Type(format!("{name}: {detail}")),
    }
}

/// Refuses the few filters that could make very much out of little.
fn bounded(name: &str, input: &Value, args: &[Value]) -> Result<(), EvalError> {
    let text_length = |value: &Value| value.as_str().map_or(0, str::len);
    let made = match (name, args) {
        ("replace", [_, with, ..]) => (text_length(input) + 1).saturating_mul(text_length(with)),
        ("indent", [width, ..]) if width.as_u64().is_none_or(|width| width > MAX_INDENT) => usize::MAX,
        ("batch" | "slice", [count, ..]) if count.as_u64().is_none_or(|count| count > MAX_TEXT_BYTES as u64) => {
            usize::MAX
        }
        _ => 0,
    };
    if made > MAX_TEXT_BYTES {
        return Err(EvalError::Type(format!("{name} would make more than {MAX_TEXT_BYTES} bytes")));
    }
    Ok(())
}

/// Does any item pass a test? Every item is tested, so that one that cannot be is never overlooked.
fn any(input: &Value, name: &str, args: &[Value]) -> Result<Value, EvalError> {
    let Value::Array(list) = input else {
        return Err(EvalError::Type(format!("any needs a list, got {}", kind(input))));
    };
    if !TESTS.contains(&name) || name == "defined" || name == "undefined" {
        return Err(EvalError::Type(format!("any needs the name of a test, such as 'gt'; `{name}` is none")));
    }
    let mut found = false;
    for item in list {
        found |= test(name, item, args)?;
    }
    Ok(Value::from(found))
}

/// What an RFC 9535 path finds, as a list. Text that is JSON is read first.
fn json_path(input: &Value, path: &str) -> Result<Value, EvalError> {
    let wrong = |error| EvalError::Type(format!("jsonpath: `{path}` is no JSONPath: {error}"));
    let path = serde_json_path::JsonPath::parse(path).map_err(wrong)?;
    let parsed: Option<Value> = input.as_str().and_then(|text| serde_json::from_str(text).ok());
    let found = path.query(parsed.as_ref().unwrap_or(input));
    Ok(Value::Array(found.iter().map(|value| (*value).clone()).collect()))
}

fn length(value: &Value) -> Result<Value, EvalError> {
    let length = match value {
        Value::String(text) => text.chars().count(),
        Value::Array(list) => list.len(),
        Value::Object(map) => map.len(),
        other => return Err(EvalError::Type(format!("{} has no length", kind(other)))),
    };
    Ok(Value::from(length))
}

fn join(value: &Value, separator: &str) -> Result<Value, EvalError> {
    let Value::Array(list) = value else {
        return Err(EvalError::Type(format!("join needs a list, got {}", kind(value))));
    };
    let mut text = String::new();
    for (index, item) in list.iter().enumerate() {
        if index > 0 {
            text.push_str(separator);
        }
        text.push_str(&text_of(item));
        if text.len() > MAX_TEXT_BYTES {
            return Err(EvalError::Type(format!("join would make more than {MAX_TEXT_BYTES} bytes")));
        }
    }
    Ok(Value::from(text))
}

fn edge(name: &str, value: &Value, part: &str) -> Result<Value, EvalError> {
    let Value::String(text) = value else {
        return Err(EvalError::Type(format!("{name} needs a text, got {}", kind(value))));
    };
    Ok(Value::from(if name == "startswith" { text.starts_with(part) } else { text.ends_with(part) }))
}

fn entries(value: &Value, pick: impl Fn((&String, &Value)) -> Value) -> Result<Value, EvalError> {
    match value {
        Value::Object(map) => Ok(Value::Array(map.iter().map(pick).collect())),
        other => Err(EvalError::Type(format!("only an object has keys and values, got {}", kind(other)))),
    }
}

fn end_of(name: &str, value: &Value) -> Result<Value, EvalError> {
    let found = match value {
        Value::Array(list) if name == "first" => list.first().cloned(),
        Value::Array(list) => list.last().cloned(),
        Value::String(text) if name == "first" => text.chars().next().map(|c| Value::from(c.to_string())),
        Value::String(text) => text.chars().next_back().map(|c| Value::from(c.to_string())),
        other => return Err(EvalError::Type(format!("{name} needs a list, got {}", kind(other)))),
    };
    found.ok_or_else(|| EvalError::Reference(format!("{name} of {} that is empty", kind(value))))
}

/// One environment for the process: builtins without what escapes, formats at will or reads its surroundings.
fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        for filter in ["safe", "escape", "e", "format", "pprint"] {
            environment.remove_filter(filter);
        }
        // `select('gt', 3)` compares inside minijinja, which orders unlike types by their kind without a word.
        for (names, accepts) in ORDERINGS {
            for name in names {
                environment
                    .add_test(name, move |a: minijinja::Value, b: minijinja::Value| ordered(&a, &b).map(accepts));
            }
        }
        environment
    })
}

type Accepts = fn(std::cmp::Ordering) -> bool;

const ORDERINGS: [([&str; 3], Accepts); 4] = [
    (["lt", "lessthan", "<"], std::cmp::Ordering::is_lt),
    (["le", "le", "<="], std::cmp::Ordering::is_le),
    (["gt", "greaterthan", ">"], std::cmp::Ordering::is_gt),
    (["ge", "ge", ">="], std::cmp::Ordering::is_ge),
];

fn ordered(a: &minijinja::Value, b: &minijinja::Value) -> Result<std::cmp::Ordering, Error> {
    if a.kind() == b.kind() && matches!(a.kind(), ValueKind::Number | ValueKind::String) {
        return Ok(a.cmp(b));
    }
    let message = format!("cannot order {} and {}", a.kind(), b.kind());
    Err(Error::new(ErrorKind::InvalidOperation, message))
}
