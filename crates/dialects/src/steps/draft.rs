//! Steps that are still being put together: what is wrong with them, apart from what is only not filled in yet; and one
//! step by itself.
//!
//! A step by itself is given what its placeholders name: `trigger_output`, and `step_outputs` by uuid.

use std::collections::BTreeSet;

use relais_plan::step::Workflow;
use relais_plan::{Problems, Schema, Source};
use serde_json::{Value, json};

use crate::reader::{NoWorkflows, Reader};
use crate::{Format, Loaded, yaml};

/// What was found in steps that are being edited.
#[derive(Debug, Default)]
pub struct Draft {
    /// What would be wrong however it went on.
    pub mistakes: Problems,
    /// What keeps it from running, and nothing else.
    pub unfinished: Problems,
}

/// What a step that is read by itself has to be given.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    pub trigger: bool,
    pub steps: BTreeSet<String>,
}

/// Looks at a workflow of this format that may lack things. `alone`: its steps stand by themselves, and may name
/// others.
pub fn draft(source: &Source, alone: bool) -> Draft {
    match pass(source, alone) {
        Ok((_, draft)) => draft,
        Err(mistakes) => Draft { mistakes, unfinished: Vec::new() },
    }
}

/// A workflow of one step that is given what the step reads of others.
pub fn read_alone(source: &Source) -> Loaded {
    let (workflow, mut problems) = match pass(source, true) {
        Ok((workflow, Draft { mistakes, unfinished })) => (Some(workflow), [mistakes, unfinished].concat()),
        Err(mistakes) => (None, mistakes),
    };
    let plan = workflow.and_then(|workflow| crate::built(workflow, source, &mut problems));
    Loaded { format: Format::Steps, branches: Vec::new(), plan, problems, children: Vec::new() }
}

fn pass(source: &Source, alone: bool) -> Result<(Workflow, Draft), Problems> {
    let root = yaml::parse(source)?;
    let mut none = NoWorkflows;
    let mut reader = Reader::new(&mut none, source.name.clone(), &source.name, None);
    reader.alone = alone.then(Needs::default);
    let mut workflow = super::read(&root, &mut reader);
    crate::normal::workflow(&mut workflow);
    workflow.input_schema = reader.alone.take().map(|needs| Schema::new(needs.schema()));
    Ok((workflow, Draft { mistakes: reader.problems, unfinished: reader.unfinished }))
}

impl Needs {
    fn schema(&self) -> Value {
        let uuids: Vec<&String> = self.steps.iter().collect();
        let named: serde_json::Map<String, Value> = uuids.iter().map(|uuid| ((*uuid).clone(), json!({}))).collect();
        let outputs =
            json!({ "type": "object", "properties": named, "required": uuids, "additionalProperties": false });
        let trigger = self.trigger.then_some("trigger_output");
        let required: Vec<&str> = trigger.into_iter().chain((!uuids.is_empty()).then_some("step_outputs")).collect();
        let properties = json!({ "trigger_output": {}, "step_outputs": outputs });
        json!({ "type": "object", "properties": properties, "required": required })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const FIRST: &str = r#"{ "uuid": "1", "name": "A", "type": "custom_llm", "model": "m", "system_prompt": "" }"#;

    fn of(steps: &[&str]) -> Source {
        let text = format!("{{ \"name\": \"w\", \"steps\": [{}] }}", steps.join(","));
        Source { name: "w".into(), text }
    }

    fn llm(prompt: &str) -> String {
        json!({ "uuid": "2", "name": "B", "type": "custom_llm", "model": "m", "system_prompt": prompt }).to_string()
    }

    #[test]
    fn what_is_missing_is_told_apart_from_what_is_wrong() {
        let check = |steps: &[&str], alone: bool, mistakes: usize, unfinished: usize| {
            let found = draft(&of(steps), alone);
            assert_eq!((found.mistakes.len(), found.unfinished.len()), (mistakes, unfinished), "{found:?}");
        };
        check(&[], false, 0, 1);
        check(&[FIRST], false, 0, 1);
        check(&[FIRST, &llm("x <<step_output.1>>")], false, 0, 1);
        check(&[&llm("x <<step_output.1>>"), FIRST], false, 1, 1);
        check(&[&llm("x <<step_output.9>>")], false, 1, 0);
        check(&[&llm("x <<step_output.9>>")], true, 0, 0);
        check(&[&llm("x <<step_output.2>>")], true, 1, 0);
        check(&[r#"{ "uuid": "3", "name": "C", "type": "stop_checker", "stop_conditions": [] }"#], false, 0, 1);
    }

    #[test]
    fn a_step_alone_asks_for_what_it_names() {
        let loaded = read_alone(&of(&[&llm("<<trigger_output>> and <<step_output.9>>")]));
        let plan = loaded.plan.unwrap();
        assert!(loaded.problems.is_empty(), "{:?}", loaded.problems);
        let schema = plan.input_schema.unwrap();
        assert!(schema.check(&json!({ "trigger_output": 1 })).is_err());
        assert!(schema.check(&json!({ "trigger_output": 1, "step_outputs": { "9": "x" } })).is_ok());
        assert!(schema.check(&json!({ "trigger_output": 1, "step_outputs": { "9": "x", "8": 1 } })).is_err());
    }
}
