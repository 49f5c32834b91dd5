//! The table of tools: which there are, what each says of itself, who may call it, and what does its work.

use relais_mcp::serving::{Given, Offered, Trouble};
use relais_service::access::Scope;
use serde_json::{Map, Value, json};

use super::arguments::Arguments;
use super::attend::Attended;
use super::trouble::trouble;
use super::{Guest, agents, bulk, catalog, deletion, questions, runs, schedules, signals, workflows};

/// What a tool says of itself.
pub struct Spec {
    pub name: &'static str,
    pub title: &'static str,
    /// For a model: when to use it, what comes back, an example.
    pub about: &'static str,
    /// JSON Schema of each argument.
    pub takes: Value,
    pub required: &'static [&'static str],
    pub scope: Scope,
    pub effect: Effect,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Effect {
    Reads,
    /// Makes something new each time.
    Adds,
    /// Overwrites; the same again changes nothing more.
    Sets,
    /// Ends or takes away; the same again changes nothing more.
    Ends,
}

impl Spec {
    pub fn offered(self) -> Offered {
        Offered {
            name: self.name.to_owned(),
            title: Some(self.title.to_owned()),
            description: self.about.to_owned(),
            input_schema: object(self.takes, self.required),
            output_schema: None,
            read_only: self.effect == Effect::Reads,
            destructive: matches!(self.effect, Effect::Sets | Effect::Ends),
            idempotent: self.effect != Effect::Adds,
        }
    }
}

fn object(properties: Value, required: &[&str]) -> Value {
    let mut schema = json!({ "type": "object", "properties": properties });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

macro_rules! tools {
    ($($name:ident = $word:literal, $spec:path, $call:path;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Tool { $($name,)* }

        impl Tool {
            pub const ALL: &[Tool] = &[$(Tool::$name,)*];

            pub fn word(self) -> &'static str {
                match self { $(Tool::$name => $word,)* }
            }

            pub fn spec(self) -> Spec {
                match self { $(Tool::$name => $spec(),)* }
            }

            async fn work(self, guest: &Guest, arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
                match self { $(Tool::$name => $call(guest, arguments, client).await,)* }
            }
        }
    };
}

tools! {
    CreateWorkflow = "create_workflow", workflows::create_spec, workflows::create;
    UpdateWorkflow = "update_workflow", workflows::update_spec, workflows::update;
    GetWorkflow = "get_workflow", workflows::get_spec, workflows::get;
    ListWorkflows = "list_workflows", workflows::list_spec, workflows::list;
    ValidateWorkflow = "validate_workflow", workflows::validate_spec, workflows::validate;
    PlanWorkflow = "plan_workflow", workflows::plan_spec, workflows::plan;
    ScheduleWorkflow = "schedule_workflow", schedules::schedule_spec, schedules::schedule;
    BackfillWorkflow = "backfill_workflow", schedules::backfill_spec, schedules::backfill;
    CancelWorkflow = "cancel_workflow", schedules::cancel_spec, schedules::cancel;
    DeleteWorkflow = "delete_workflow", deletion::delete_spec, deletion::delete;
    RunWorkflow = "run_workflow", runs::run_spec, runs::run;
    ExecuteWorkflow = "execute_workflow", runs::execute_spec, runs::execute;
    GetWorkflowRun = "get_workflow_run", runs::get_workflow_run_spec, runs::get_workflow_run;
    GetRun = "get_run", runs::get_spec, runs::get;
    ListRuns = "list_runs", runs::list_spec, runs::list;
    ListFailedRuns = "list_failed_runs", runs::list_failed_spec, runs::list_failed;
    CancelRun = "cancel_run", runs::cancel_spec, runs::cancel;
    ResumeRun = "resume_run", runs::resume_spec, runs::resume;
    PauseRun = "pause_run", signals::pause_spec, signals::pause;
    RetryRun = "retry_run", signals::retry_spec, signals::retry;
    ForkRun = "fork_run", signals::fork_spec, signals::fork;
    SignalRun = "signal_run", signals::signal_spec, signals::signal;
    BulkRuns = "bulk_runs", bulk::begin_spec, bulk::begin;
    GetBulk = "get_bulk", bulk::get_spec, bulk::get;
    ListQuestions = "list_questions", questions::list_spec, questions::list;
    AnswerRun = "answer_run", runs::answer_spec, runs::answer;
    CreateAgent = "create_agent", agents::create_spec, agents::create;
    UpdateAgent = "update_agent", agents::update_spec, agents::update;
    GetAgent = "get_agent", agents::get_spec, agents::get;
    ListAgents = "list_agents", agents::list_spec, agents::list;
    ListTools = "list_tools", catalog::list_spec, catalog::list;
}

impl Tool {
    pub fn named(name: &str) -> Option<Tool> {
        Tool::ALL.iter().copied().find(|tool| tool.word() == name)
    }

    pub async fn call(self, guest: &Guest, arguments: Map<String, Value>, client: &Attended) -> Result<Given, Trouble> {
        guest.access.may(self.spec().scope).map_err(trouble)?;
        let mut arguments = Arguments(arguments);
        arguments.check_user(guest)?;
        self.work(guest, arguments, client).await
    }
}

/// Arguments that many tools have.
pub fn text(about: &str) -> Value {
    json!({ "type": "string", "description": about })
}

pub fn same_as(name: &str) -> Value {
    text(&format!("The same as `{name}`."))
}

pub fn user_id() -> Value {
    text("Your user id; may be left out. You see and change only what is yours.")
}

pub fn limit(default: u64) -> Value {
    json!({ "type": "integer", "minimum": 1, "maximum": 100, "default": default, "description": "How many at most." })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use relais_engine::{Question, check_answer};
    use relais_plan::Schema;

    use super::*;

    fn example(tool: Tool) -> Value {
        let about = tool.spec().about;
        let (_, example) = about.split_once("Example: ").unwrap();
        serde_json::from_str(example.lines().next().unwrap()).unwrap_or_else(|e| panic!("{}: {e}", tool.word()))
    }

    #[test]
    fn examples_fit() {
        for tool in Tool::ALL {
            let schema = Schema::new(tool.spec().offered().input_schema);
            assert_eq!(schema.check(&example(*tool)), Ok(()), "{}", tool.word());
        }
        let (show, answer) = (Value::Null, json!({ "type": "boolean" }));
        let approval = Question {
            question: "Go on?".into(),
            show,
            answer,
            deadline: None,
            approves: None,
            people: Default::default(),
        };
        assert_eq!(check_answer(&approval, &example(Tool::AnswerRun)["answer"]), Ok(()));
    }

    #[test]
    fn every_tool_says_what_a_model_needs() {
        for tool in Tool::ALL {
            let spec = tool.spec();
            assert_eq!(spec.name, tool.word());
            assert!(spec.about.contains("Example"), "{} has no example", spec.name);
            assert!((120..6_500).contains(&spec.about.len()), "{}: {}", spec.name, spec.about.len());
            let (required, offered) = (spec.required, spec.offered());
            let properties = offered.input_schema["properties"].as_object().unwrap();
            for (name, schema) in properties {
                assert!(schema["description"].is_string(), "{}: `{name}` is not described", offered.name);
            }
            assert!(properties.contains_key("user_id"), "{}", offered.name);
            assert!(required.iter().all(|name| properties.contains_key(*name)), "{}", offered.name);
        }
    }
}
