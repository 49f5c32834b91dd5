//! The input of a simulated run: what is required and was not given is made up from its schema. The run says so.

use relais_plan::Schema;
use serde_json::{Map, Value};

/// The input with what it lacks, and the names of what was made up: `input.topic`, or `input` as a whole.
pub(super) fn completed(schema: &Schema, input: Value, seed: u64) -> (Value, Vec<String>) {
    if schema.check(&input).is_ok() {
        return (input, Vec::new());
    }
    match (input, schema.sample(seed)) {
        (Value::Object(given), Value::Object(sample)) => with_missing(schema, given, sample),
        (Value::Object(given), sample) if given.is_empty() => (sample, vec!["input".to_owned()]),
        (given, _) => (given, Vec::new()),
    }
}

fn with_missing(schema: &Schema, mut given: Map<String, Value>, sample: Map<String, Value>) -> (Value, Vec<String>) {
    let required = schema.json()["required"].as_array();
    // Where the schema does not say it itself, as with `allOf`, nothing given means that all is wanted.
    let is_wanted = |name: &String| match required {
        Some(names) => names.iter().any(|required| required == name),
        None => given.is_empty(),
    };
    let missing: Vec<(String, Value)> =
        sample.into_iter().filter(|(name, _)| !given.contains_key(name) && is_wanted(name)).collect();
    let names = missing.iter().map(|(name, _)| format!("input.{name}")).collect();
    given.extend(missing);
    (Value::Object(given), names)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_required_and_missing_is_made_up() {
        let two = json!({"type": "object", "properties": {"topic": {"type": "string"}, "n": {"type": "integer"},
            "note": {"type": "string"}}, "required": ["topic", "n"]});
        let all = json!({"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}]});
        for (schema, given, names) in [
            (&two, json!({}), vec!["input.topic", "input.n"]),
            (&two, json!({"n": 3}), vec!["input.topic"]),
            (&two, json!({"topic": "tea", "n": 3}), vec![]),
            (&all, json!({}), vec!["input.a"]),
            (&json!({"type": "string"}), json!({}), vec!["input"]),
        ] {
            let schema = Schema::new(schema.clone());
            let (input, made_up) = completed(&schema, given.clone(), 7);
            assert_eq!(made_up, names, "{given}");
            assert_eq!(schema.check(&input), Ok(()), "{input}");
            assert_eq!(completed(&schema, given.clone(), 7).0, input);
            for (name, value) in given.as_object().into_iter().flatten() {
                assert_eq!(&input[name], value);
            }
        }
    }

    #[test]
    fn what_was_given_wrong_stays_wrong() {
        let schema =
            Schema::new(json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}));
        assert_eq!(completed(&schema, json!({"n": "x"}), 0), (json!({"n": "x"}), Vec::new()));
        assert_eq!(completed(&schema, json!(5), 0), (json!(5), Vec::new()));
    }
}
