//! The arguments of a call, taken one by one. Their types were checked against the tool's schema before.

use relais_mcp::serving::Trouble;
use serde_json::{Map, Value};

use super::Guest;
use super::trouble::trouble;

/// The names that an id of a workflow goes by.
pub const WORKFLOW: &[&str] = &["id", "workflow_id", "workflowId"];
/// The names that an id of a run goes by.
pub const RUN: &[&str] = &["id", "run_id", "runId"];
pub const AGENT: &[&str] = &["id", "agent_id", "agentId"];

pub struct Arguments(pub Map<String, Value>);

impl Arguments {
    /// One thing under any of its names; under several it must be the same.
    pub fn one(&mut self, names: &[&str]) -> Result<Option<Value>, Trouble> {
        Ok(self.one_named(names)?.map(|(_, value)| value))
    }

    /// The same with the name that it was given under.
    pub fn one_named<'n>(&mut self, names: &[&'n str]) -> Result<Option<(&'n str, Value)>, Trouble> {
        let given: Vec<(&'n str, Value)> =
            names.iter().filter_map(|name| Some((*name, self.0.remove(*name)?))).collect();
        let mut found: Option<(&'n str, Value)> = None;
        for (name, value) in given.into_iter().filter(|(_, value)| !value.is_null()) {
            match &found {
                Some((first, before)) if *before != value => {
                    let text = format!("`{first}` and `{name}` name the same thing and differ; give one of them.");
                    return Err(Trouble::Invalid(text));
                }
                Some(_) => {}
                None => found = Some((name, value)),
            }
        }
        Ok(found)
    }

    pub fn text(&mut self, names: &[&str]) -> Result<Option<String>, Trouble> {
        Ok(match self.one(names)? {
            Some(Value::String(text)) => Some(text),
            Some(other) => Some(other.to_string()),
            None => None,
        })
    }

    /// A name or an id that must be there; `help` says where to find one.
    pub fn must(&mut self, names: &[&str], help: &str) -> Result<String, Trouble> {
        let found = self.text(names)?.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
        found.ok_or_else(|| Trouble::Invalid(format!("`{}` is missing: {help}.", names[0])))
    }

    pub fn flag(&mut self, name: &str) -> Option<bool> {
        self.0.remove(name).and_then(|value| value.as_bool())
    }

    pub fn number(&mut self, name: &str) -> Option<u64> {
        self.0.remove(name).and_then(|value| value.as_u64())
    }

    /// A user id is accepted from who has it, and never believed in place of the token.
    pub fn check_user(&mut self, guest: &Guest) -> Result<(), Trouble> {
        let Some(user) = self.text(&["user_id", "userId"])? else { return Ok(()) };
        guest.access.check_user_id(&user).map_err(trouble)
    }

    /// Those of these names that were given.
    pub fn fields(&mut self, names: &[&str]) -> Map<String, Value> {
        names.iter().filter_map(|name| Some(((*name).to_owned(), self.0.remove(*name)?))).collect()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_thing_has_several_names() {
        let check = |given: Value, expected: Result<Option<&str>, &str>| {
            let Value::Object(given) = given else { panic!("no object") };
            let found = Arguments(given).text(RUN);
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        };
        check(json!({ "id": "a" }), Ok(Some("a")));
        check(json!({ "runId": "a" }), Ok(Some("a")));
        check(json!({ "run_id": "a", "runId": "a" }), Ok(Some("a")));
        check(json!({ "run_id": "a", "id": null }), Ok(Some("a")));
        check(json!({ "run_id": "a", "runId": "b" }), Err("`run_id` and `runId` name the same thing"));
        check(json!({}), Ok(None));
        assert!(Arguments(Map::new()).must(RUN, "list_runs lists them").unwrap_err().to_string().contains("`id`"));
    }
}
