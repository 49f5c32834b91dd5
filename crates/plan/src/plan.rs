//! The plan: a small table of nodes and six ops. Immutable, named by its hash; a run is pinned to it.
//!
//! Control flow is data. `next` may point anywhere in the same region (loops cost nothing), but concurrency is
//! structured: only `Fan` and `Each` open scopes, and they wait for them.

use std::collections::BTreeSet;

use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::tags::Tags;
use crate::{Expr, Schema, Span, Template};

pub type NodeId = u32;
pub type RegionId = u32;

/// The root region of every plan: the main body.
pub const ROOT: RegionId = 0;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// A second name that its author gave the workflow, accepted wherever an id is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alias: Option<String>,
    /// Which graph of a file with several this plan is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    pub nodes: Vec<Node>,
    pub regions: Vec<Region>,
    /// First node of the main body; a plan without steps completes at once.
    pub entry: Option<NodeId>,
    /// `on_exit` sequences in written order, each run in its own region after the body.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exits: Vec<Exit>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Schema>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub agents: IndexMap<String, Agent>,
    /// What the file says about tools, by tool name or pattern (`mcp:shop/*`).
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub tools: IndexMap<String, ToolRule>,
    /// MCP servers that the file declares, by name.
    #[serde(default, skip_serializing_if = "IndexMap::is_empty")]
    pub servers: IndexMap<String, McpServer>,
    pub limits: Limits,
    pub on_failure: RunFailure,
    pub on_tool_drift: OnToolDrift,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub triggers: Vec<Trigger>,
    /// Its author has switched the triggers off: a workflow that is kept begins paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    pub notify: Notify,
    /// Tags of every run.
    #[serde(default, skip_serializing_if = "Tags::is_empty")]
    pub tags: Tags,
}

/// One static line of control: the body, a lane of a `Fan`, the body of an `Each`, an exit or an undo.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The `Fan` or `Each` node whose scope this is; none for the body, exits and undo steps.
    pub opener: Option<NodeId>,
    /// Which lane of the opener; 0 for an `Each` body.
    pub lane: u32,
    /// The region that the opener stands in.
    pub parent: Option<RegionId>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// The step's id, unique in the workflow.
    pub key: String,
    /// What people call the step, and what its author says about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub op: Op,
    pub region: RegionId,
    /// Where control goes when the node has ended; none ends the scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<NodeId>,
    /// The innermost `Choose` (if, switch) of the same region that this node belongs to. Leaving it ends that block.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inside: Option<NodeId>,
    /// Made by the lowering, not written by a person: not shown, not addressable.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub hidden: bool,
    /// What the author called it, for people: `agent`, `if`, `for_each`, ...
    pub kind: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expr>,
    /// How often a jump may enter this node per cycle; the next entry trips it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Retry::is_default")]
    pub retry: Retry,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "OnError::is_default")]
    pub on_error: OnError,
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// First node of the compensating step, in a region of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<NodeId>,
    /// Variables written when the node completes, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assign: Vec<(String, Template)>,
    /// A missing field reads as null instead of being an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_missing_null: bool,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op {
    /// One piece of outside work.
    Call(Box<Call>),
    /// The first true arm is the next node; evaluates, never waits. Without arms it only passes on (set, goto).
    Choose {
        arms: Vec<Arm>,
        other: Option<Jump>,
    },
    /// Lanes at once, each after the lanes it names; output in lane order.
    Fan(Fan),
    /// The body per item or per pass, each in its own scope; width 1 is sequential.
    Each(Each),
    Wait(Until),
    /// Ends the run now.
    End {
        outcome: Outcome,
        value: Option<Template>,
    },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Call {
    pub task: Task,
    /// The step's `input`, as written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Template>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Schema>,
    /// The input goes into an artifact of this name instead of the prompt, so that the agent refers to its values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_as: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Schema>,
}

impl Call {
    /// A call that is given nothing and whose output is not checked.
    pub fn new(task: Task) -> Call {
        Call { task, input: None, input_schema: None, input_as: None, output_schema: None }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Task {
    Agent {
        /// Key in `Plan::agents`.
        agent: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt: Option<Template>,
    },
    Tool {
        tool: String,
        /// The arguments; must give a map.
        with: Template,
    },
    /// A child run of the plan with this hash, pinned when the file was loaded.
    Workflow {
        workflow: String,
        plan: String,
        /// The schema of that plan's input.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        takes: Option<Schema>,
    },
}

/// Where an arm leads. `None` means on to the node's `next`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Jump {
    pub to: Option<NodeId>,
    /// A `goto`: the visit counts against the target's limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counted: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Arm {
    /// Shown in traces and drawings: `then`, a case's value.
    pub label: String,
    pub when: Expr,
    pub jump: Jump,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fan {
    pub lanes: Vec<Lane>,
    pub on_failure: LaneFailure,
    pub wait_for: WaitFor,
    /// Lanes not waited for are let finish instead of being cancelled.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detach: bool,
    pub output: FanOutput,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Lane {
    pub key: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_key: Option<String>,
    pub entry: Option<NodeId>,
    pub region: RegionId,
    /// Lanes (by position) that must have ended first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<u32>,
    /// `run_if: always`: runs whatever became of the lanes it comes after.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub always: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneFailure {
    #[default]
    Cancel,
    Drain,
    Collect,
}

impl LaneFailure {
    pub fn is_default(&self) -> bool {
        *self == LaneFailure::Cancel
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    #[default]
    All,
    /// These lanes, by position.
    Lanes(Vec<u32>),
    /// Any so many completed lanes.
    Count(u32),
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FanOutput {
    /// parallel: `{output_key or key: output}`.
    Keyed,
    /// needs block: the output of the only sink, else a map by sink key.
    Sinks(Vec<u32>),
    /// A group of steps with policies of its own: the output of its one lane.
    Only,
}

/// Items, passes, or entries by jumps that a loop may allow. A run keeps each of them, and it may not have many more steps.
pub const MAX_PASSES: u32 = 50_000;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Each {
    pub over: Over,
    pub body: Option<NodeId>,
    pub region: RegionId,
    /// Bodies at once (`at_once`); always 1 for passes.
    pub width: u32,
    pub max: u32,
    pub on_limit: OnLimit,
    /// What the failure of one item means for the others; passes follow one another and end with the first.
    #[serde(default, skip_serializing_if = "LaneFailure::is_default")]
    pub on_failure: LaneFailure,
    /// The output is that of the last body, not `{results, count, ended_by}` of all.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Over {
    Items(Expr),
    Passes {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        while_: Option<Expr>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Expr>,
        #[serde(default)]
        delay_ms: u64,
    },
}

/// What happens when a list is longer than `max`, or a repeat has made `max` passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    #[default]
    Fail,
    /// repeat: the block completes with what it has.
    Complete,
    /// for_each: only the first `max` items.
    Truncate,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Until {
    /// A duration: number of seconds or text such as `90s`, `1h30m`.
    For(Template),
    /// An RFC 3339 time.
    At(Template),
    /// A signal sent to this run by name.
    Signal {
        name: String,
    },
    /// An event of a type, optionally one for which the expression over `event` is true.
    Event {
        event: String,
        filter: Option<Expr>,
    },
    Person(Box<Ask>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ask {
    pub question: Template,
    /// What is shown with the question, if anything.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub show: Option<Template>,
    /// Schema of the answer; an approval is a boolean.
    pub answer: Schema,
    /// Counted on the wall clock, unlike timeouts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    pub on_deadline: OnDeadline,
    #[serde(default, skip_serializing_if = "People::is_default")]
    pub people: People,
}

/// Whom a question goes to beside the one whose run it is, how many must say yes, and what happens while nobody
/// answers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct People {
    /// Users who may answer, too.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// How many different people must say yes to an approval; none means one. One no is enough for a no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals: Option<u32>,
    /// Everybody is told again so often until it is answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remind_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<Escalation>,
}

/// Whom a question goes to, too, when nobody has answered it for a while.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Escalation {
    pub after_ms: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<String>,
    /// Channels by name from the configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<String>,
}

impl People {
    pub fn is_default(&self) -> bool {
        *self == People::default()
    }

    /// How many must say yes.
    pub fn needed(&self) -> usize {
        self.approvals.map_or(1, |approvals| approvals.max(1) as usize)
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDeadline {
    #[default]
    Fail,
    Value(Template),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Completed,
    Stopped,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Retry {
    /// Extra attempts after the first.
    pub max_attempts: u32,
    pub backoff: Backoff,
    pub delay_ms: u64,
    /// By how much an exponential delay grows each time.
    #[serde(skip_serializing_if = "is_two")]
    pub factor: u32,
    /// No delay is longer than this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_delay_ms: Option<u64>,
    /// Error kinds or text patterns; empty means any error.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub on: Vec<String>,
    /// Error kinds or text patterns that are not retried, whatever `on` says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub never: Vec<String>,
}

fn is_two(factor: &u32) -> bool {
    *factor == 2
}

impl Default for Retry {
    fn default() -> Self {
        Retry {
            max_attempts: 0,
            backoff: Backoff::Exponential,
            delay_ms: 1_000,
            factor: 2,
            max_delay_ms: None,
            on: Vec::new(),
            never: Vec::new(),
        }
    }
}

impl Retry {
    pub fn is_default(&self) -> bool {
        *self == Retry::default()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Backoff {
    Fixed,
    #[default]
    Exponential,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnError {
    #[default]
    Fail,
    Continue,
    /// The step stays failed; this is its output.
    Value(Template),
    Goto(NodeId),
}

impl OnError {
    pub fn is_default(&self) -> bool {
        *self == OnError::Fail
    }
}

/// Upper bounds; an absent one is unlimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Billionths of a US dollar.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_nanos: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ms: Option<u64>,
}

impl Budget {
    pub fn is_empty(&self) -> bool {
        *self == Budget::default()
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    pub budget: Budget,
    /// Time-out of the whole run; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Values above so many bytes of JSON travel by reference.
    pub inline_bytes: u64,
    #[serde(default, skip_serializing_if = "LargeValues::is_default")]
    pub large_values: LargeValues,
    /// How long a server that shuts down lets a run of this workflow go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shutdown_timeout_ms: Option<u64>,
    /// How often in a row a run may be taken over without getting further.
    #[serde(default = "max_recoveries", skip_serializing_if = "is_max_recoveries")]
    pub max_recoveries: u32,
}

/// Often enough for trouble of the machine, and not so often that one run keeps a server busy with dying.
pub const DEFAULT_MAX_RECOVERIES: u32 = 5;

fn max_recoveries() -> u32 {
    DEFAULT_MAX_RECOVERIES
}

fn is_max_recoveries(count: &u32) -> bool {
    *count == DEFAULT_MAX_RECOVERIES
}

/// Where large outputs of steps can be read, beside the blob that they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LargeValues {
    #[default]
    Blob,
    /// Also as a file in the run's workspace, under `run.files`.
    File,
}

impl LargeValues {
    /// What stands before and behind a step's key in the name of its file. Prompts, tools and views all have to find
    /// it, so it is said here alone.
    pub const FILE_NAME: (&'static str, &'static str) = ("executor_", ".json");

    /// The file of a step's output, in the run's folder for such files.
    pub fn file_name(key: &str) -> String {
        let (before, behind) = LargeValues::FILE_NAME;
        format!("{before}{key}{behind}")
    }

    pub fn is_default(&self) -> bool {
        *self == LargeValues::Blob
    }
}

/// Every run may make so many model calls unless its budget says otherwise.
pub const DEFAULT_MODEL_CALLS: u64 = 1_000;
/// 64 KiB: large enough for what steps usually say to one another, small enough to copy without thought.
pub const DEFAULT_INLINE_BYTES: u64 = 64 * 1024;

impl Default for Limits {
    fn default() -> Self {
        let budget = Budget { model_calls: Some(DEFAULT_MODEL_CALLS), ..Budget::default() };
        Limits {
            budget,
            timeout_ms: None,
            inline_bytes: DEFAULT_INLINE_BYTES,
            large_values: LargeValues::Blob,
            shutdown_timeout_ms: None,
            max_recoveries: DEFAULT_MAX_RECOVERIES,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunFailure {
    #[default]
    Fail,
    Partial,
    Undo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnToolDrift {
    #[default]
    Warn,
    Fail,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Exit {
    pub when: ExitWhen,
    pub entry: Option<NodeId>,
    pub region: RegionId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExitWhen {
    Always,
    Success,
    Failure,
    Cancel,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Agent {
    /// For people; no model is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// `provider/model`, in fallback order; empty means the configured default.
    pub models: Vec<String>,
    /// The system message.
    pub instructions: Template,
    /// Names or patterns (`mcp:shop/*`).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<Schema>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Schema>,
    pub max_turns: u32,
    pub output_retries: u32,
    #[serde(default, skip_serializing_if = "Budget::is_empty")]
    pub budget: Budget,
    /// Upper bound of one answer, in tokens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// The final text must carry `«result:…»`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub result_mark: bool,
    /// A tool result above so many bytes is told as its beginning and how to read on; none: as configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result_limit: Option<u64>,
    #[serde(default, skip_serializing_if = "OnCut::is_default")]
    pub on_cut: OnCut,
    #[serde(skip)]
    pub span: Span,
}

/// What becomes of a text answer that the provider cut off at its output limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnCut {
    /// The model is asked to go on, and the pieces are joined.
    #[default]
    Continue,
    Fail,
}

impl OnCut {
    pub fn is_default(&self) -> bool {
        *self == OnCut::Continue
    }
}

/// What of one tool result a model hears at once, unless the agent or the configuration says otherwise.
pub const DEFAULT_RESULT_LIMIT: u64 = 64 * 1024;
/// Less would not hold what is said about a result that was cut.
pub const MIN_RESULT_LIMIT: u64 = 1024;

pub const DEFAULT_MAX_TURNS: u32 = 30;
pub const DEFAULT_OUTPUT_RETRIES: u32 = 3;

impl Default for Agent {
    fn default() -> Self {
        Agent {
            description: None,
            models: Vec::new(),
            instructions: Template::Literal(Value::String(String::new())),
            tools: Vec::new(),
            input: None,
            output: None,
            max_turns: DEFAULT_MAX_TURNS,
            output_retries: DEFAULT_OUTPUT_RETRIES,
            budget: Budget::default(),
            max_tokens: None,
            temperature: None,
            result_mark: false,
            result_limit: None,
            on_cut: OnCut::Continue,
            span: Span::default(),
        }
    }
}

/// What may happen twice. Unknown means `once`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    Read,
    Idempotent,
    #[default]
    Once,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ToolRule {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// A person must say yes before each call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approve: Option<bool>,
    /// Who is asked for that yes.
    #[serde(skip_serializing_if = "People::is_default")]
    pub people: People,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(skip)]
    pub span: Span,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct McpServer {
    /// stdio: the program and its arguments.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// Names of secrets or variables given to the process: `{TOKEN: "${SHOP_TOKEN}"}`.
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub env: IndexMap<String, String>,
    /// Streamable HTTP, or the HTTP transport before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    #[serde(skip_serializing_if = "IndexMap::is_empty")]
    pub headers: IndexMap<String, String>,
    /// How long it may take to begin to talk, and to list its tools; only the configuration says so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_timeout_s: Option<u64>,
    /// Named by a text of the network: its address obeys the rules of `http_request`. Part of the plan, because the
    /// plan is what runs, also after a restart.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub guarded: bool,
}

/// Parsed and checked here; the server fires it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trigger {
    pub on: TriggerOn,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timezone: Option<String>,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub input: Value,
    /// What [`crate::Filter`] reads; a webhook or an event starts a run only if it passes.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub filter: Value,
    #[serde(default, skip_serializing_if = "Pace::is_default")]
    pub pace: Pace,
}

/// How what is sent becomes runs, where not each delivery is a run of its own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Pace {
    /// The last one starts when nothing more has come for so long.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub batch: Option<BatchOf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub throttle: Option<Throttle>,
}

/// Up to so many within that time are one run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchOf {
    pub size: u32,
    pub within_ms: u64,
}

/// At most so many runs start within that time; what comes beyond is declined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Throttle {
    pub max: u32,
    pub per_ms: u64,
}

impl Pace {
    pub fn is_default(&self) -> bool {
        *self == Pace::default()
    }

    /// Whether what is sent waits for more.
    pub fn gathers(&self) -> bool {
        self.debounce_ms.is_some() || self.batch.is_some()
    }
}

impl Trigger {
    /// A trigger with the defaults of everything but what it fires on.
    pub fn new(on: TriggerOn) -> Trigger {
        let (overlap, catch_up) = (Overlap::default(), CatchUp::default());
        let (input, filter, pace) = (Value::Null, Value::Null, Pace::default());
        Trigger { on, timezone: None, overlap, catch_up, input, filter, pace }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TriggerOn {
    Manual,
    At(String),
    Cron(String),
    Every {
        ms: u64,
    },
    /// `daily@HH:mm` and `weekly@…`, as written.
    Calendar(String),
    Continuous {
        delay_ms: u64,
    },
    Webhook {
        id: String,
        secret: Option<String>,
        /// An expression over what was sent that tells deliveries apart.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dedupe: Option<String>,
    },
    Event(String),
}

impl TriggerOn {
    /// Whether others send what starts a run.
    pub fn is_sent(&self) -> bool {
        match self {
            TriggerOn::Webhook { .. } | TriggerOn::Event(_) => true,
            TriggerOn::Manual | TriggerOn::At(_) | TriggerOn::Cron(_) | TriggerOn::Every { .. } => false,
            TriggerOn::Calendar(_) | TriggerOn::Continuous { .. } => false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    #[default]
    Skip,
    Queue,
    Allow,
    CancelRunning,
}

impl Overlap {
    /// What is meant where nothing is said: each of the times that are to be made up for counts, so they queue.
    pub fn or_default(given: Option<Overlap>, catch_up: CatchUp) -> Overlap {
        match (given, catch_up) {
            (Some(given), _) => given,
            (None, CatchUp::All) => Overlap::Queue,
            (None, CatchUp::One | CatchUp::None) => Overlap::Skip,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    #[default]
    One,
    None,
    All,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notify {
    pub on_complete: bool,
    pub on_failure: bool,
    /// Tell that somebody is asked.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub on_waiting: bool,
    /// Channels by name from the configuration. The notification list is told in any case; where neither `to` nor
    /// `webhook` nor `email` says anything, so are the channels that the configuration marks as default.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// A public address. Nothing secret is sent there: a file may come from anywhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub email: Vec<String>,
}

fn yes() -> bool {
    true
}

impl Default for Notify {
    fn default() -> Self {
        let (to, webhook, email) = (Vec::new(), None, Vec::new());
        Notify { on_complete: false, on_failure: true, on_waiting: true, to, webhook, email }
    }
}

impl Fan {
    /// The lanes that a lane needs, directly or through others.
    pub fn needed(&self, lane: u32) -> BTreeSet<u32> {
        let mut needed = BTreeSet::new();
        let mut open = vec![lane];
        while let Some(lane) = open.pop() {
            let after = self.lanes.get(lane as usize).map_or(&[][..], |lane| &lane.after);
            open.extend(after.iter().copied().filter(|need| needed.insert(*need)));
        }
        needed
    }

    /// A lane that the block does not wait for by name: what became of it is a matter of chance, so nobody reads it
    /// and its failure is not the block's.
    pub fn awaits(&self, lane: u32) -> bool {
        match &self.wait_for {
            WaitFor::Lanes(lanes) => lanes.contains(&lane),
            WaitFor::All | WaitFor::Count(_) => true,
        }
    }
}

impl Node {
    /// What people call it, where that is not its id.
    pub fn other_name(&self) -> Option<&str> {
        self.name.as_deref().filter(|name| *name != self.key)
    }
}

impl Plan {
    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    pub fn find(&self, key: &str) -> Option<NodeId> {
        self.nodes.iter().position(|n| !n.hidden && n.key == key).map(|i| i as NodeId)
    }

    /// The content hash that names this plan.
    pub fn hash(&self) -> String {
        let text = serde_json::to_vec(self).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }
}
