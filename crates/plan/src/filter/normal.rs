//! One vocabulary: filters in the words of other formats (`greater_than`, `not_equals`, …) said in the documented ones.

use serde_json::{Map, Value, json};

use super::{ALLOW, DENY};

/// The same filter in the documented words. What cannot be read is left as it is, for `read` to tell.
pub fn normal(filter: &Value) -> Value {
    let Value::Object(fields) = filter else { return filter.clone() };
    let field = |(key, value): (&String, &Value)| {
        let value = match (key.as_str(), value) {
            (ALLOW | DENY, Value::Array(entries)) => entries.iter().map(normal).collect(),
            (ALLOW | DENY, entry) => normal(entry),
            (_, Value::Object(operators)) => Value::Object(renamed(operators)),
            (_, plain) => plain.clone(),
        };
        (key.clone(), value)
    };
    Value::Object(fields.iter().map(field).collect())
}

fn renamed(operators: &Map<String, Value>) -> Map<String, Value> {
    let mut tests = Map::new();
    for (word, operand) in operators {
        let (word, operand) = match (word.as_str(), operand) {
            ("greater_than", limit) => ("greater", limit.clone()),
            ("less_than", limit) => ("less", limit.clone()),
            ("not_equals", value) if !operators.contains_key("not") && !operators.contains_key("not_in") => {
                ("not", json!({ "equals": value }))
            }
            ("not_in", list) if !operators.contains_key("not") && !operators.contains_key("not_equals") => {
                ("not", json!({ "in": list }))
            }
            ("not", Value::Object(inner)) => ("not", Value::Object(renamed(inner))),
            (other, operand) => (other, operand.clone()),
        };
        tests.insert(word.to_owned(), operand);
    }
    tests
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::filter::Filter;

    /// Both forms decide alike, whatever is sent.
    fn check(written: Value, expected: Value) {
        assert_eq!(normal(&written), expected, "{written}");
        let (one, other) = (Filter::parse(&written).unwrap(), Filter::parse(&expected).unwrap());
        for data in [json!({ "a": 1 }), json!({ "a": 5 }), json!({ "a": "x" }), json!({})] {
            assert_eq!(one.decide(&data).starts, other.decide(&data).starts, "{written} {data}");
        }
    }

    #[test]
    fn other_words_are_said_in_the_documented_ones() {
        check(json!({ "a": { "greater_than": 3 } }), json!({ "a": { "greater": 3 } }));
        check(json!({ "a": { "less_than": 3, "greater_than": 0 } }), json!({ "a": { "less": 3, "greater": 0 } }));
        check(json!({ "a": { "not_equals": 5 } }), json!({ "a": { "not": { "equals": 5 } } }));
        check(json!({ "a": { "not_in": [1, "x"] } }), json!({ "a": { "not": { "in": [1, "x"] } } }));
        check(json!({ "allow": [{ "a": { "less_than": 3 } }] }), json!({ "allow": [{ "a": { "less": 3 } }] }));
        check(
            json!({ "a": 1, "deny": { "b": { "not": { "greater_than": 1 } } } }),
            json!({ "a": 1, "deny": { "b": { "not": { "greater": 1 } } } }),
        );
        let both = json!({ "a": { "not_equals": 1, "not_in": [5] } });
        check(both.clone(), both);
    }
}
