//! The agent loop: model asked, tools asked, results, schema check, correction. Folded from the same events as
//! everything else, so a crash resumes between two tool calls.

use std::collections::BTreeSet;

use relais_plan::{Agent, Call, Effect, OnCut, Op, Schema, Template};
use serde_json::{Value, json};

use crate::book::{Room, Want};
use crate::call::{check_input, effect_of};
use crate::command::*;
use crate::decide::{Again, Events, NotLoaded, Step, Unready};
use crate::event::*;
use crate::extract;
use crate::marks::{self, Mark};
use crate::program::Program;
use crate::run::*;
use breaker::Heard;
use reading::Reading;

pub(crate) mod breaker;
mod reading;

/// So many answers without a word are a loop, too.
pub const MAX_EMPTY: u32 = 3;
/// Set aside for an answer whose length is not bounded by the agent.
const DEFAULT_OUTPUT_TOKENS: u64 = 4_096;
/// What an agent hears when its step says nothing.
const DEFAULT_PROMPT: &str = "Execute your task.";

#[derive(Clone, Copy)]
struct Loop<'a> {
    step: Step<'a>,
    call: &'a Call,
    agent: &'a Agent,
    prompt: Option<&'a Template>,
}

pub(crate) fn decide<'a>(
    step: Step<'a>,
    instance: &'a Instance,
    call: &'a Call,
    agent: &str,
    prompt: Option<&'a Template>,
) -> Events {
    let Some(agent) = step.ctx.program.plan.agents.get(agent) else {
        let failure = Failure::new(ErrorKind::Config, format!("there is no agent `{agent}`"));
        return step.fail(failure, Again::Never);
    };
    let this = Loop { step, call, agent, prompt };
    let decided = match &instance.work {
        Work::Agent(work) => this.go_on(work),
        Work::Asked(_) => Ok(Vec::new()),
        _ if step.run.paused => Ok(Vec::new()),
        Work::Answered(saved) => this.input_saved(saved),
        _ => match &call.input_as {
            Some(artifact) => this.save_input(artifact),
            None => this.open(),
        },
    };
    match decided {
        Ok(events) => Ok(events),
        Err(Stop::Load(hash)) => Err(NotLoaded(hash)),
        Err(Stop::Fail(failure, again)) => step.fail(with_tool_error(failure, &instance.work), again),
    }
}

/// An agent that comes to nothing after a tool has failed it most likely does so for that reason.
fn with_tool_error(mut failure: Failure, work: &Work) -> Failure {
    const SHOWN: usize = 300;
    let own = matches!(failure.kind, ErrorKind::Schema | ErrorKind::Limit | ErrorKind::Provider | ErrorKind::Loop);
    let Work::Agent(work) = work else { return failure };
    let last = work.messages.iter().rev().find_map(|message| match message {
        Message::Tool { tool, text, failed, .. } => Some((tool, text, *failed)),
        Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
    });
    if let Some((tool, text, true)) = last.filter(|_| own) {
        let text: String = text.chars().take(SHOWN).collect();
        failure.message = format!("{}; before that the tool `{tool}` had failed: {text}", failure.message);
    }
    failure
}

enum Stop {
    Load(String),
    Fail(Failure, Again),
}

impl From<Unready> for Stop {
    fn from(unready: Unready) -> Stop {
        match unready {
            Unready::Load(hash) => Stop::Load(hash),
            Unready::Fail(failure) => Stop::Fail(failure, Again::Never),
        }
    }
}

impl From<NotLoaded> for Stop {
    fn from(not_loaded: NotLoaded) -> Stop {
        Stop::Load(not_loaded.0)
    }
}

fn fail(kind: ErrorKind, message: impl Into<String>) -> Stop {
    Stop::Fail(Failure::new(kind, message), Again::Allowed)
}

type Going = Result<Vec<Event>, Stop>;

impl<'a> Loop<'a> {
    fn open(&self) -> Going {
        let names = Reading::new(self.step.view());
        let system = rendered(&self.agent.instructions, &names)?;
        let mut say = Vec::new();
        if !system.trim().is_empty() {
            say.push(Message::System { text: system });
        }
        say.push(Message::User { text: self.opening(&names)? });
        self.ask_model_lending(&AgentWork::default(), say, names.tools())
    }

    /// The input becomes an artifact before the model speaks, so that it can be referred to and need not be said.
    fn save_input(&self, artifact: &str) -> Going {
        let input = match &self.call.input {
            Some(template) => self.step.render(template)?,
            None => Value::Object(Default::default()),
        };
        check_input(self.step, self.input_schema(), &input)?;
        let tool = "save_artifact".to_owned();
        let content = serde_json::to_string_pretty(&input).unwrap_or_default();
        let arguments = json!({ "name": artifact, "content": content, "media_type": "application/json" });
        Ok(vec![self.step.ask(Command::CallTool { tool, arguments, effect: Effect::Idempotent, use_id: None })])
    }

    fn input_saved(&self, saved: &Answer) -> Going {
        match &saved.body {
            Body::Returned { .. } => self.open(),
            Body::Failed(failure) => Err(Stop::Fail(failure.clone(), Again::Allowed)),
            Body::Replied(_) | Body::Slept | Body::Ended { .. } | Body::Cancelled => {
                Err(Stop::Fail(Failure::new(ErrorKind::Cancelled, "saving the input was cancelled"), Again::Never))
            }
        }
    }

    /// The prompt, and the input as JSON behind it; without either, what the run was started with.
    fn opening(&self, names: &Reading<'_>) -> Result<String, Stop> {
        let prompt = self.prompt.map(|prompt| rendered(prompt, names)).transpose()?;
        let Some(template) = self.call.input.as_ref().filter(|_| self.call.input_as.is_none()) else {
            return Ok(match prompt {
                Some(prompt) => prompt,
                None => self.default_prompt()?,
            });
        };
        let input = template.render(names).map_err(Unready::from)?;
        check_input(self.step, self.input_schema(), &input)?;
        let input = serde_json::to_string_pretty(&input).unwrap_or_default();
        Ok(match prompt {
            Some(prompt) => format!("{prompt}\n\nInput:\n{input}"),
            None => format!("Input:\n{input}"),
        })
    }

    fn default_prompt(&self) -> Result<String, Stop> {
        let view = self.step.view();
        let input = view.stored(&self.step.run.opened.input).map_err(Unready::from)?;
        if let Some(prompt) = input.get("prompt").and_then(Value::as_str) {
            return Ok(prompt.to_owned());
        }
        let empty = input.is_null() || input.as_object().is_some_and(|map| map.is_empty());
        Ok(if empty { DEFAULT_PROMPT.to_owned() } else { relais_plan::template::in_text(&input) })
    }

    fn go_on(&self, work: &AgentWork) -> Going {
        if work.resting.is_some() || work.asked.is_some() {
            return Ok(Vec::new());
        }
        if work.rested {
            let attempt = self.step.instance().map_or(0, |i| i.attempt) + 1;
            return Ok(if self.step.run.paused { Vec::new() } else { vec![self.step.enter(attempt, work.once)] });
        }
        if let Some(failure) = &work.failed {
            return self.model_failed(work, failure);
        }
        if !work.uses.is_empty() {
            return self.use_tools(work);
        }
        match work.messages.last() {
            Some(Message::Assistant { text, .. }) => self.finished(work, text),
            _ => self.ask_model(work, Vec::new()),
        }
    }

    fn models(&self) -> Vec<String> {
        match (&self.step.run.opened.mode.model, self.agent.models.as_slice()) {
            (Some(model), _) => vec![model.clone()],
            (None, []) => vec![String::new()],
            (None, models) => models.to_vec(),
        }
    }

    /// The next model of the list takes over with the same messages.
    fn model_failed(&self, work: &AgentWork, failure: &Failure) -> Going {
        if work.model < self.models().len() && failure.kind != ErrorKind::Cancelled {
            return self.ask_model(work, Vec::new());
        }
        Err(Stop::Fail(failure.clone(), Again::Allowed))
    }

    fn ask_model(&self, work: &AgentWork, say: Vec<Message>) -> Going {
        self.ask_model_lending(work, say, reading::to_read_on(work))
    }

    fn ask_model_lending(&self, work: &AgentWork, say: Vec<Message>, tools: BTreeSet<&'static str>) -> Going {
        if self.step.run.paused {
            return Ok(Vec::new());
        }
        if work.turns >= self.agent.max_turns {
            let message = format!("the agent did not come to an end in {} model calls", self.agent.max_turns);
            return Err(fail(ErrorKind::Limit, message));
        }
        let models = self.models();
        let model = models.get(work.model.min(models.len() - 1)).cloned().unwrap_or_default();
        let facts = self.step.ctx.catalog.model(&model);
        let input = prompt_tokens(work, &say);
        self.fits_context((&model, facts.context_tokens), input, (work, &say))?;
        let output = self.agent.max_tokens.map_or(DEFAULT_OUTPUT_TOKENS, u64::from);
        let usd_nanos = input * facts.prompt_nanos + output * facts.completion_nanos;
        let reserve = Reserve { tokens: input + output, usd_nanos };
        let want = Want { reserve, model_calls: 1, tool_calls: 0 };
        let place = (self.step.scope, self.step.node);
        let lend = self.lend(work, tools);
        match self.step.run.room(self.step.ctx.program, place, want) {
            Room::Enough => Ok(vec![self.step.ask(Command::CallModel { model, say, reserve, lend })]),
            Room::Later => Ok(Vec::new()),
            Room::Short(failure) => Err(Stop::Fail(failure, Again::Never)),
        }
    }

    fn use_tools(&self, work: &AgentWork) -> Going {
        let (asked, all) = self.ask_tools(work)?;
        if !asked.is_empty() || !all {
            return Ok(asked);
        }
        let busy = |u: &Use| matches!(u.state, UseState::Asked(_) | UseState::Approving(_));
        if work.uses.iter().any(busy) || self.step.run.paused {
            return Ok(Vec::new());
        }
        if let Some(failure) = work.uses.iter().find_map(uncertain) {
            return Err(Stop::Fail(failure.clone(), Again::Never));
        }
        self.break_loop(work)?;
        let say = self.told(work)?;
        if !say.is_empty() && work.corrections >= self.agent.output_retries {
            let why = say.iter().find_map(told_text).unwrap_or_default();
            let times = work.corrections + 1;
            let message = format!("the agent's tool calls could not be read {times} times in a row: {why}");
            return Err(fail(ErrorKind::Reference, message));
        }
        self.ask_model(work, say)
    }

    /// Asks for every call that is new, as far as it can be read. Says whether there was room for all of them.
    fn ask_tools(&self, work: &AgentWork) -> Result<(Vec<Event>, bool), Stop> {
        let mut events = Vec::new();
        if self.step.run.paused {
            return Ok((events, true));
        }
        for used in &work.uses {
            let id = self.step.run.next_command + events.len() as CommandId;
            let command = match &used.state {
                UseState::New => match self.arguments(work, used, None)? {
                    Ok(arguments) if self.needs_approval(&used.call.tool) => {
                        Some(approval(self.step, ToolUse { arguments, ..used.call.clone() }))
                    }
                    Ok(arguments) => self.tool(used, arguments, events.len() as u64 + 1)?,
                    Err(_) => continue,
                },
                UseState::Approved(edited) => match self.arguments(work, used, edited.as_ref())? {
                    Ok(arguments) => self.tool(used, arguments, events.len() as u64 + 1)?,
                    Err(_) => continue,
                },
                UseState::Approving(_) | UseState::Asked(_) | UseState::Returned(_) | UseState::Failed(_) => continue,
            };
            let Some(command) = command else { return Ok((events, false)) };
            let (scope, node) = (self.step.scope, self.step.node);
            events.push(Event::Asked { id, scope, node, command: Box::new(command) });
        }
        Ok((events, true))
    }

    /// The call of a tool; none while the budget is short and something may come back.
    fn tool(&self, used: &Use, arguments: Value, tool_calls: u64) -> Result<Option<Command>, Stop> {
        let want = Want { tool_calls, ..Want::default() };
        match self.step.run.room(self.step.ctx.program, (self.step.scope, self.step.node), want) {
            Room::Enough => {}
            // Those asked for in this turn are in flight with it.
            Room::Short(_) if tool_calls > 1 => return Ok(None),
            Room::Later => return Ok(None),
            Room::Short(failure) => return Err(Stop::Fail(failure, Again::Never)),
        }
        let tool = used.call.tool.clone();
        let arguments = self.with_version(&tool, arguments);
        let effect = effect_of(self.step, &tool, &arguments);
        Ok(Some(Command::CallTool { tool, arguments, effect, use_id: Some(used.call.id.clone()) }))
    }

    fn needs_approval(&self, tool: &str) -> bool {
        self.step.ctx.program.rule(tool).and_then(|r| r.approve).unwrap_or(false)
    }

    /// The arguments with values put in for their marks; or what is wrong with them, for the model.
    fn arguments(&self, work: &AgentWork, used: &Use, edited: Option<&Value>) -> Result<Result<Value, String>, Stop> {
        if let Some(raw) = &used.call.garbled {
            let raw: String = raw.chars().take(200).collect();
            return Ok(Err(format!("the arguments are not a JSON object: {raw}")));
        }
        if !self.has_tool(work, &used.call.tool) {
            let tools = [self.agent.tools.as_slice(), &work.lent].concat().join(", ");
            let tools = if tools.is_empty() { "none".to_owned() } else { tools };
            return Ok(Err(format!("there is no tool `{}` here; tools: {tools}", used.call.tool)));
        }
        let arguments = edited.unwrap_or(&used.call.arguments);
        let arguments = if arguments.is_null() { &json!({}) } else { arguments };
        if !arguments.is_object() {
            return Ok(Err(format!("the arguments must be a JSON object, not {arguments}")));
        }
        self.put_values(arguments)
    }

    /// An agent that has nothing to do with artifacts may say anything; where there are none, nothing can be meant.
    fn may_refer(&self) -> bool {
        const TOOLS: [&str; 3] = ["load_artifact", "save_artifact", "list_artifacts"];
        let has_tool = |tool: &&str| self.agent.tools.iter().any(|t| crate::program::matches_pattern(t, tool));
        !self.step.run.artifacts.is_empty() || self.agent.result_mark || TOOLS.iter().any(has_tool)
    }

    fn put_values(&self, value: &Value) -> Result<Result<Value, String>, Stop> {
        if !self.may_refer() {
            return Ok(Ok(value.clone()));
        }
        match marks::put_values(value, &|name, path| self.artifact_value(name, path)) {
            Ok(value) => Ok(Ok(value)),
            Err(Mark::Load(hash)) => Err(Stop::Load(hash)),
            Err(Mark::Wrong(message)) => Ok(Err(message)),
        }
    }

    fn artifact_value(&self, name: &str, path: &str) -> Result<Value, Mark> {
        let value = self.artifact(name, None)?;
        let segments =
            relais_plan::path::parse(path).map_err(|e| Mark::Wrong(format!("`{path}` is not a path: {e}")))?;
        let found = relais_plan::path::get(&value, &segments);
        found.cloned().map_err(|missing| {
            let upto = if missing.upto.is_empty() { "the top".to_owned() } else { format!("`{}`", missing.upto) };
            Mark::Wrong(format!("`{name}` has no `{}` at {upto}; there: {}", missing.segment, missing.there))
        })
    }

    fn artifact(&self, name: &str, version: Option<u32>) -> Result<Value, Mark> {
        let artifacts = &self.step.run.artifacts;
        let versions = artifacts.get(name).ok_or_else(|| {
            let names: Vec<&str> = artifacts.keys().map(String::as_str).collect();
            let there = if names.is_empty() { "there are none yet".to_owned() } else { names.join(", ") };
            Mark::Wrong(format!("there is no artifact `{name}`; artifacts: {there}"))
        })?;
        let first = self.step.ctx.program.first_version(self.step.node);
        let chosen = match (version, self.own_version(name)) {
            (Some(number), _) => (number as usize).checked_sub(first).and_then(|place| versions.get(place)),
            (None, Some(own)) => versions.get(own),
            (None, None) => versions.last(),
        };
        let last = (first + versions.len()).saturating_sub(1);
        let missing = || Mark::Wrong(format!("artifact `{name}` has no such version; it has {first} to {last}"));
        let artifact = chosen.ok_or_else(missing)?;
        if !artifact.media_type.contains("json") {
            return Err(Mark::Wrong(format!(
                "artifact `{name}` is {}, not JSON; it has no fields",
                artifact.media_type
            )));
        }
        let loaded = self.step.ctx.values.get(&artifact.blob.hash);
        loaded.cloned().ok_or_else(|| Mark::Load(artifact.blob.hash.clone()))
    }

    /// The latest version of an artifact that this very step has saved, by its place among all: where several run at
    /// once under one name, each means its own.
    fn own_version(&self, name: &str) -> Option<usize> {
        let own = (self.step.scope, self.step.node);
        self.step.run.savers.get(name)?.iter().rposition(|saver| *saver == own)
    }

    /// `load_artifact` without a version means the step's own, too, if another step has saved one since.
    fn with_version(&self, tool: &str, mut arguments: Value) -> Value {
        let name = arguments.get("name").and_then(Value::as_str).filter(|_| tool == "load_artifact");
        let own = name.and_then(|name| Some((self.own_version(name)?, self.step.run.artifacts.get(name)?.len())));
        if let Some((own, count)) = own
            && own + 1 != count
            && arguments.get("version").is_none()
        {
            arguments["version"] = json!(own + self.step.ctx.program.first_version(self.step.node));
        }
        arguments
    }

    /// Results of calls that could not be made, for the model to repair.
    fn told(&self, work: &AgentWork) -> Result<Vec<Message>, Stop> {
        let mut say = Vec::new();
        for used in &work.uses {
            let edited = match &used.state {
                UseState::New => None,
                UseState::Approved(edited) => edited.as_ref(),
                UseState::Approving(_) | UseState::Asked(_) | UseState::Returned(_) | UseState::Failed(_) => continue,
            };
            if let Err(text) = self.arguments(work, used, edited)? {
                let (use_id, tool) = (used.call.id.clone(), used.call.tool.clone());
                say.push(Message::Tool { use_id, tool, text, failed: true });
            }
        }
        Ok(say)
    }

    fn break_loop(&self, work: &AgentWork) -> Result<(), Stop> {
        let mut recent = work.recent.clone();
        for used in &work.uses {
            let result = match &used.state {
                UseState::Returned(value) => value.in_text(),
                UseState::Failed(failure) => failure.to_string().into(),
                UseState::New | UseState::Approving(_) | UseState::Approved(_) | UseState::Asked(_) => continue,
            };
            breaker::note(&mut recent, Heard::new(&used.call, &result, used.is_invalid()));
            if let Some(why) = breaker::looping(&recent) {
                return Err(Stop::Fail(Failure::new(ErrorKind::Loop, why), Again::Never));
            }
        }
        Ok(())
    }

    /// The model answered without asking for tools.
    fn finished(&self, work: &AgentWork, text: &str) -> Going {
        if work.finish == Some(Finish::Filtered) {
            return Err(fail(ErrorKind::Provider, "the provider withheld the answer"));
        }
        if text.trim().is_empty() {
            return self.said_nothing(work);
        }
        let is_cut = work.finish == Some(Finish::Length);
        if is_cut && self.schema().is_none() && !self.agent.result_mark {
            return self.cut_off(work);
        }
        let text = &joined(work, text);
        match self.result(text, is_cut)? {
            Ok(result) => self.done(result, text),
            Err(wrong) if work.corrections >= self.agent.output_retries => {
                Err(Stop::Fail(wrong.at_last(work.corrections), Again::Allowed))
            }
            Err(Wrong { told, .. }) => {
                self.ask_model(work, vec![Message::User { text: format!("{told}\n\n{ANSWER_AGAIN}") }])
            }
        }
    }

    /// A text that ends in the middle is not an answer: the model goes on with it, if it may.
    fn cut_off(&self, work: &AgentWork) -> Going {
        const HELP: &str = "`max_tokens` of the agent and the provider's own limit bound it";
        if self.agent.on_cut == OnCut::Fail {
            return Err(fail(ErrorKind::Limit, format!("the answer was cut off at the output limit; {HELP}")));
        }
        if work.corrections >= self.agent.output_retries {
            let times = work.corrections + 1;
            let message = format!("the answer was cut off at the output limit {times} times in a row; {HELP}");
            return Err(fail(ErrorKind::Limit, message));
        }
        self.ask_model(work, vec![Message::User { text: GO_ON.to_owned() }])
    }

    fn said_nothing(&self, work: &AgentWork) -> Going {
        if work.empties >= MAX_EMPTY {
            let message = format!("the agent answered {} times without saying anything", work.empties);
            return Err(Stop::Fail(Failure::new(ErrorKind::Loop, message), Again::Never));
        }
        let text = "Your last answer was empty. Answer the task, or say why you cannot.".to_owned();
        self.ask_model(work, vec![Message::User { text }])
    }

    fn done(&self, result: Value, text: &str) -> Going {
        let said = (result.as_str() != Some(text)).then(|| text.to_owned());
        Ok(self.step.complete(Some(Stored::Value(result)), said)?)
    }

    /// The answer as a value that fits; or what is wrong with it.
    fn result(&self, text: &str, cut: bool) -> Result<Result<Value, Wrong>, Stop> {
        if self.agent.result_mark {
            return self.marked_result(text);
        }
        let Some(schema) = self.schema() else {
            return Ok(self.put_values(&Value::String(text.to_owned()))?.map_err(Wrong::new));
        };
        // Mending an answer that was cut off would invent an end for it.
        let read =
            if cut { serde_json::from_str(text.trim()).map_err(|_| CUT.to_owned()) } else { extract::json(text) };
        let value = match read {
            Ok(value) => value,
            Err(error) => return Ok(Err(self.not_json(&error, schema))),
        };
        match self.put_values(&value)? {
            Ok(value) => Ok(self.fits(schema, value)),
            Err(wrong) => Ok(Err(Wrong::new(wrong))),
        }
    }

    fn input_schema(&self) -> Option<&'a Schema> {
        self.call.input_schema.as_ref().or(self.agent.input.as_ref())
    }

    fn schema(&self) -> Option<&'a Schema> {
        self.call.output_schema.as_ref().or(self.agent.output.as_ref())
    }

    fn fits(&self, schema: &Schema, value: Value) -> Result<Value, Wrong> {
        match schema.check(&value) {
            Ok(()) => Ok(value),
            Err(violations) => {
                let failure = Failure::misfit(&self.output_name(), schema, &violations, &value);
                Err(Wrong { told: failure.in_full(), failure })
            }
        }
    }

    fn output_name(&self) -> String {
        format!("Node '{}' output", self.step.plan().key)
    }

    fn not_json(&self, error: &str, schema: &Schema) -> Wrong {
        let told = not_json(error, schema);
        let failure = Failure::new(ErrorKind::Schema, format!("{} is not JSON: {error}", self.output_name()));
        Wrong { told, failure }
    }

    /// `«result:…»`: which artifact is the outcome, or that the agent gives up.
    fn marked_result(&self, text: &str) -> Result<Result<Value, Wrong>, Stop> {
        let mark = match marks::result(text) {
            Ok(mark) => mark,
            Err(wrong) => return Ok(Err(Wrong::new(wrong))),
        };
        let Some(artifact) = mark.artifact.filter(|_| mark.success) else {
            let message = mark.message.unwrap_or_else(|| "the agent gave up".to_owned());
            return Err(Stop::Fail(Failure::new(ErrorKind::Refused, message), Again::Never));
        };
        let value = match self.artifact(&artifact, mark.version) {
            Ok(value) => value,
            Err(Mark::Load(hash)) => return Err(Stop::Load(hash)),
            Err(Mark::Wrong(wrong)) => return Ok(Err(Wrong::new(wrong))),
        };
        match self.schema() {
            Some(schema) => Ok(self.fits(schema, value)),
            None => Ok(Ok(value)),
        }
    }
}

/// An answer that cannot be taken: what the model is told so that it mends it, and what people are told if it does not.
struct Wrong {
    told: String,
    failure: Failure,
}

impl Wrong {
    /// The same words for both.
    fn new(text: String) -> Wrong {
        Wrong { told: text.clone(), failure: Failure::new(ErrorKind::Schema, text) }
    }

    fn at_last(self, corrections: u32) -> Failure {
        match corrections {
            0 => self.failure,
            1 => Failure { message: format!("after one correction: {}", self.failure.message), ..self.failure },
            n => Failure { message: format!("after {n} corrections: {}", self.failure.message), ..self.failure },
        }
    }
}

fn rendered(template: &Template, names: &Reading<'_>) -> Result<String, Stop> {
    let value = template.render(names).map_err(Unready::from)?;
    Ok(relais_plan::template::in_text(&value))
}

/// The last answer behind those that it goes on with.
fn joined(work: &AgentWork, last: &str) -> String {
    let mut pieces = vec![last];
    let mut before = work.messages.split_last().map_or(&[][..], |(_, before)| before);
    while let [rest @ .., Message::Assistant { text, .. }, Message::User { text: said }] = before
        && said == GO_ON
    {
        pieces.push(text);
        before = rest;
    }
    pieces.into_iter().rev().collect()
}

/// What a model hears whose text was cut off.
const GO_ON: &str = "Your answer was cut off at the output limit. Go on with it exactly where it stopped: repeat nothing, \
                     and say nothing about the interruption.";
const ANSWER_AGAIN: &str = "Answer again in full, corrected, and with nothing else.";
const CUT: &str = "it was cut off at the output limit, so answer in fewer words";

fn not_json(error: &str, schema: &Schema) -> String {
    let schema = serde_json::to_string_pretty(schema.json()).unwrap_or_default();
    format!("Your answer is not JSON: {error}\n\nIt must be JSON only that fits this schema:\n{schema}")
}

fn told_text(message: &Message) -> Option<&str> {
    match message {
        Message::Tool { text, .. } => Some(text),
        Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
    }
}

fn uncertain(used: &Use) -> Option<&Failure> {
    match &used.state {
        UseState::Failed(failure) if failure.kind == ErrorKind::Uncertain => Some(failure),
        _ => None,
    }
}

pub(crate) fn approval(step: Step<'_>, call: ToolUse) -> Command {
    let people = step.ctx.program.rule(&call.tool).map(|rule| rule.people.clone()).unwrap_or_default();
    let question = format!("May `{}` be called with these arguments?", call.tool);
    let (show, answer) = (call.arguments.clone(), json!({ "type": "boolean" }));
    Command::AskPerson(Box::new(Question { question, show, answer, deadline: None, approves: Some(call), people }))
}

fn prompt_tokens(work: &AgentWork, say: &[Message]) -> u64 {
    let used: u64 = work
        .uses
        .iter()
        .map(|u| match &u.state {
            UseState::Returned(value) => value.in_text().len() as u64,
            _ => 0,
        })
        .sum();
    let bytes: u64 = work.messages.iter().chain(say).map(Message::bytes).sum();
    tokens_of(bytes + used)
}

/// Is a call of a `once` tool under way in this instance?
pub(crate) fn has_once_in_flight(run: &Run, instance: &Instance) -> bool {
    instance
        .commands()
        .iter()
        .filter_map(|id| run.owed.get(id))
        .any(|owed| matches!(&*owed.command, Command::CallTool { effect: Effect::Once, .. }))
}

/// What to send for a `CallModel` that is owed: the whole history, put together from the fold.
pub fn request(program: &Program, run: &Run, id: CommandId) -> Option<Request> {
    let owed = run.owed.get(&id)?;
    let Command::CallModel { model, reserve, .. } = &*owed.command else { return None };
    let node = program.plan.node(owed.node);
    let Op::Call(call) = &node.op else { return None };
    let agent = program.agent(owed.node)?;
    let instance = run.instance(owed.scope, owed.node)?;
    let Work::Agent(work) = &instance.work else { return None };
    let schema = call.output_schema.as_ref().or(agent.output.as_ref()).filter(|_| !agent.result_mark);
    let is_retried_on_limit = node.retry.max_attempts > 0 && node.retry.on.iter().any(|on| on == "rate_limit");
    Some(Request {
        model: model.clone(),
        messages: work.messages.clone(),
        tools: [agent.tools.as_slice(), &work.lent].concat(),
        output_schema: schema.map(|s| s.json().clone()),
        max_tokens: agent.max_tokens,
        temperature: agent.temperature,
        tokens: reserve.tokens,
        has_spare: run.opened.mode.model.is_none() && work.model + 1 < agent.models.len(),
        fails_when_limited: is_retried_on_limit,
        time_left_ms: instance.deadline.map(|due| due.saturating_sub(run.live_ms)),
    })
}
