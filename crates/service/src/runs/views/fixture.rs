//! Runs made by hand, for the tests of the views.

use relais_dialects::{Format, Loader, Options, read};
use relais_engine::*;
use relais_plan::{Plan, Source};
use serde_json::{Value, json};

use super::Shown;
use crate::runs::trace::{CallTrace, StepTrace, Trace};

struct NoFiles;

impl Loader for NoFiles {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Err(format!("there is no {reference}"))
    }
}

pub fn plan(text: &str) -> Plan {
    let source = Source { name: "flow.yaml".into(), text: text.into() };
    let loaded = read(&source, &NoFiles, &Options { format: Some(Format::Native), branch: None });
    assert!(!relais_plan::problem::has_errors(&loaded.problems), "{:?}", loaded.problems);
    loaded.plan.unwrap()
}

/// A step that began at 1 s and ended at 3 s.
pub fn step(plan: &Plan, path: &str, status: StepStatus, output: Value) -> StepTrace {
    let key = path.rsplit('/').next().unwrap_or(path);
    let node = plan.find(key).unwrap();
    StepTrace {
        place: (0, node),
        path: path.into(),
        key: key.into(),
        name: plan.node(node).other_name().map(str::to_owned),
        kind: plan.node(node).kind.clone(),
        depth: path.matches('/').count(),
        status,
        attempts: 1,
        corrections: 0,
        left_at: 0,
        asked: false,
        started_at: 1_000,
        ended_at: (status != StepStatus::Running).then_some(3_000),
        idle_ms: 0,
        note: None,
        output: (!output.is_null()).then_some(Stored::Value(output)),
        text: None,
        error: None,
        tolerated: false,
        vars: Default::default(),
        usage: Usage::default(),
        calls: Vec::new(),
    }
}

pub fn failed(mut step: StepTrace, message: &str) -> StepTrace {
    step.error = Some(Failure::new(ErrorKind::Tool, message));
    step
}

pub fn call(what: &'static str, name: &str, status: &'static str, input: Value, output: Value) -> CallTrace {
    CallTrace {
        id: 1,
        what: what.into(),
        name: name.into(),
        use_id: None,
        position: 0,
        status: status.into(),
        input,
        output,
        error: None,
        usage: Usage::default(),
        asked_at: 1_500,
        answered_at: Some(1_900),
        ms: 400,
        late: false,
        interrupted: 0,
        answers: Vec::new(),
        notes: Vec::new(),
    }
}

/// What a model was told and what it answered.
pub fn model(system: &str, user: &str, answer: &str) -> CallTrace {
    let said = json!([{ "role": "system", "text": system }, { "role": "user", "text": user }]);
    call("model", "sim/one", "success", said, json!({ "text": answer, "calls": [], "model": "one-2026" }))
}

pub fn trace(status: RunStatus, steps: Vec<StepTrace>) -> Trace {
    Trace {
        run: uuid::Uuid::from_u128(7),
        workflow: "flow".into(),
        plan: String::new(),
        status: status.word().into(),
        started_at: 0,
        ended_at: status.is_final().then_some(4_000),
        input: Stored::Value(json!({ "topic": "tea" })),
        output: None,
        large_output: None,
        error: None,
        usage: Usage::default(),
        lost: Reserve::default(),
        user: "ann".into(),
        thread: "t1".into(),
        simulated: false,
        made_up: Vec::new(),
        drift: None,
        forked_from: None,
        parent: None,
        signals: Vec::new(),
        steps,
        tolerated: Vec::new(),
        artifacts: Vec::new(),
    }
}

pub fn shown<'a>(plan: &'a Plan, trace: &'a Trace) -> Shown<'a> {
    let plain = |stored: &Stored| super::plain(stored, &Values::default());
    let outputs = trace.steps.iter().map(|step| step.output.as_ref().map(plain).unwrap_or_default()).collect();
    let output = trace.output.as_ref().map(plain).unwrap_or_default();
    Shown { plan, trace, input: plain(&trace.input), output, outputs, files: "files".into() }
}
