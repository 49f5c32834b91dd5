//! What a reader hands over: the workflow as a tree of steps, close to what the person wrote.
//!
//! Every reader produces this tree and [`crate::build`] lowers it, so that ids, regions, jumps and blocks are made in
//! one place.

use indexmap::IndexMap;

use crate::plan::*;
use crate::tags::Tags;
use crate::{Expr, Schema, Span, Template};

#[derive(Debug, Clone, Default)]
pub struct Workflow {
    pub name: String,
    pub description: String,
    pub alias: Option<String>,
    pub branch: Option<String>,
    pub steps: Vec<Step>,
    pub exits: Vec<(ExitWhen, Vec<Step>)>,
    pub input_schema: Option<Schema>,
    pub output: Option<Template>,
    pub output_schema: Option<Schema>,
    pub agents: IndexMap<String, Agent>,
    pub tools: IndexMap<String, ToolRule>,
    pub servers: IndexMap<String, McpServer>,
    pub limits: Limits,
    pub on_failure: RunFailure,
    /// What a failed step does to the others that run at the same time, where the top level has `needs`.
    pub on_step_failure: LaneFailure,
    pub on_tool_drift: OnToolDrift,
    pub triggers: Vec<Trigger>,
    /// Its triggers do not fire until somebody says so.
    pub paused: bool,
    pub notify: Notify,
    pub tags: Tags,
}

#[derive(Debug, Clone)]
pub struct Step {
    /// Absent: made from the position, the same on every load.
    pub id: Option<String>,
    /// What people call it, and what they say about it.
    pub name: Option<String>,
    pub description: Option<String>,
    /// What the author called it: `agent`, `if`, ...
    pub word: &'static str,
    pub kind: Kind,
    /// Where the step stands in the text.
    pub span: Span,
    pub when: Option<Expr>,
    /// Any step with `needs` makes its block a DAG. `Some(vec![])` counts as having it.
    pub needs: Option<Vec<Name>>,
    pub run_if_always: bool,
    pub output_key: Option<String>,
    pub retry: Retry,
    pub timeout_ms: Option<u64>,
    pub on_error: StepError,
    pub budget: Budget,
    pub undo: Option<Box<Step>>,
    /// Variables that it writes when it completes; they may read its own output.
    pub save: Vec<(String, Template)>,
    pub on_missing_null: bool,
    /// A repeat gives the output of its last pass alone.
    pub keep_last: bool,
}

/// A name that refers to a step, with its place in the text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    pub text: String,
    pub span: Span,
}

#[derive(Debug, Clone, Default)]
pub enum StepError {
    #[default]
    Fail,
    Continue,
    Value(Template),
    Goto(Name),
}

#[derive(Debug, Clone)]
pub enum Kind {
    Call(Box<Call>),
    /// if and switch; `other` is else/default.
    Choose {
        arms: Vec<Branch>,
        other: Option<Vec<Step>>,
    },
    Parallel {
        lanes: Vec<Step>,
        on_failure: LaneFailure,
        wait_for: Awaited,
        detach: bool,
    },
    /// Steps as one step: a sequence, or a DAG where a step has `needs`.
    Group {
        steps: Vec<Step>,
        on_failure: LaneFailure,
    },
    ForEach {
        items: Expr,
        steps: Vec<Step>,
        at_once: u32,
        max: u32,
        on_limit: OnLimit,
        on_failure: LaneFailure,
    },
    Repeat {
        while_: Option<Expr>,
        until: Option<Expr>,
        delay_ms: u64,
        steps: Vec<Step>,
        max: u32,
        on_limit: OnLimit,
    },
    Wait(Until),
    StopIf(Expr),
    Set(Vec<(String, Template)>),
    /// `max` bounds how often the target may run per cycle.
    Goto {
        to: Name,
        max: Option<u32>,
    },
}

#[derive(Debug, Clone)]
pub struct Branch {
    pub label: String,
    pub when: Expr,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone, Default)]
pub enum Awaited {
    #[default]
    All,
    Lanes(Vec<Name>),
    Count(u32),
}

impl Step {
    pub fn new(word: &'static str, kind: Kind, span: Span) -> Step {
        Step {
            id: None,
            name: None,
            description: None,
            word,
            kind,
            span,
            when: None,
            needs: None,
            run_if_always: false,
            output_key: None,
            retry: Retry::default(),
            timeout_ms: None,
            on_error: StepError::Fail,
            budget: Budget::default(),
            undo: None,
            save: Vec::new(),
            on_missing_null: false,
            keep_last: false,
        }
    }
}
