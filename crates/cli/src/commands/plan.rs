//! `relais plan`: what a run would do and cost. Spends nothing.

use relais_engine::matches_pattern;
use relais_plan::time::format_duration;
use relais_plan::{Agent, Arm, Call, Jump, Lane, Node, Op, Over, Plan, Task, Until};
use relais_runtime::tools::Tools;
use relais_service::Definitions;
use serde_json::{Map, Value};

use crate::definition::Written;
use crate::exit::Exit;
use crate::foresight::{Costs, Known, constant};
use crate::offer::effect;
use crate::screen::{self, Paint};
use crate::session::Global;
use crate::{given, schedules, words};

/// Show what a run would do, step by step, and what it may cost; calls nothing
///
/// Prompts are shown as they would be sent as far as they are known now: what depends on other steps stays as it is
/// written. Costs go from one short answer per step to every turn and pass used up.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais plan flow.yaml\n  relais plan flow.yaml --input topic=relays")]
pub struct Args {
    #[command(flatten)]
    written: Written,
    /// Text for the input `prompt` (or the only text input); `-` reads it from standard input
    prompt: Option<String>,
    /// An input; the value is JSON if it parses as JSON, else text. `@FILE` reads a JSON object. May be repeated
    #[arg(long, short, value_name = "NAME=VALUE|@FILE")]
    input: Vec<String>,
    /// Use this model in place of every agent's own
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let definitions = global.definitions()?;
    let definition = definitions.read(&args.written.file, &args.written.reading.options())?;
    let problems = screen::colored(&definition.render(Paint::stderr().0));
    if !problems.is_empty() {
        screen::note(&problems);
    }
    let Some(plan) = definition.plan.as_ref().filter(|_| !definition.has_errors()) else { return Ok(Exit::Usage) };
    let input = input(&args, plan)?;
    let known = Known::new(&plan.name, input);
    let view = View { plan, definitions: &definitions, known, model: args.model.as_deref(), paint: Paint::stdout() };
    screen::out(&view.render())?;
    Ok(Exit::Done)
}

/// What was given; nothing given means that the input is not known, not that it is empty.
fn input(args: &Args, plan: &Plan) -> anyhow::Result<Option<Map<String, Value>>> {
    let mut input = given::pairs(&args.input, plan.input_schema.as_ref())?;
    if let Some(prompt) = given::prompt(args.prompt.as_deref())? {
        given::place(prompt, plan.input_schema.as_ref(), &mut input)?;
    }
    Ok(Some(input).filter(|fields| !fields.is_empty()))
}

/// A name is a few words.
const NAME_CHARS: usize = 120;

struct View<'a> {
    plan: &'a Plan,
    definitions: &'a Definitions,
    known: Known,
    model: Option<&'a str>,
    paint: Paint,
}

impl View<'_> {
    fn render(&self) -> String {
        let mut text = format!("{}\n", self.paint.bold(&self.plan.name));
        let costs = Costs::of(self.plan, &self.definitions.models, self.model, &self.known);
        for (id, node) in self.plan.nodes.iter().enumerate().filter(|(_, node)| !node.hidden) {
            let name =
                node.other_name().map(|name| format!("  {}", words::shorten(name, NAME_CHARS))).unwrap_or_default();
            text.push_str(&format!("\n{}{name}  {}\n", self.paint.bold(&node.key), self.paint.dim(&node.kind)));
            let mut lines: Vec<String> = node.description.iter().cloned().collect();
            lines.extend(self.needs(id));
            lines.extend(self.policies(node));
            lines.extend(self.work(&node.op));
            lines.extend(costs.step(id));
            lines.extend(node.next.map(|next| format!("then {}", self.name(next))));
            lines.iter().for_each(|line| text.push_str(&indented(line)));
        }
        if let Some(output) = &self.plan.output {
            text.push_str(&format!("\noutput\n{}", indented(&constant(output, &self.known))));
        }
        text.push_str(&self.triggers());
        text.push_str(&format!("\n{}\n", costs.total()));
        text
    }

    fn triggers(&self) -> String {
        let lines = schedules::lines(self.plan).unwrap_or_else(|why| vec![why]);
        if lines.is_empty() { String::new() } else { format!("\ntriggers\n{}", indented(&lines.join("\n"))) }
    }

    /// What a step comes after, where nothing that is shown says it.
    fn needs(&self, id: usize) -> Option<String> {
        let fans = self.plan.nodes.iter().filter(|node| node.hidden).filter_map(|node| match &node.op {
            Op::Fan(fan) => Some(&fan.lanes),
            Op::Call(_) | Op::Choose { .. } | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
        });
        let begins = |lane: &Lane| lane.entry.is_some_and(|entry| entry as usize == id);
        { fans }.find_map(|lanes| after(lanes.iter().find(|lane| begins(lane))?, lanes))
    }

    fn policies(&self, node: &Node) -> Vec<String> {
        let tries = node.retry.max_attempts;
        let parts = [
            node.when.as_ref().map(|when| format!("when {}", when.source())),
            node.timeout_ms.map(|ms| format!("timeout {}", format_duration(ms))),
            (tries > 0).then(|| format!("retried {}", words::counted(tries as usize, "time"))),
            node.limit.map(|limit| format!("entered at most {limit} times by jumps")),
            node.undo.map(|undo| format!("undone by {}", self.name(undo))),
        ];
        parts.into_iter().flatten().collect()
    }

    fn work(&self, op: &Op) -> Vec<String> {
        match op {
            Op::Call(call) => self.call(call),
            Op::Choose { arms, other } => self.arms(arms, other.as_ref()),
            Op::Fan(fan) => vec![lanes(&fan.lanes)],
            Op::Each(each) => vec![match &each.over {
                Over::Items(items) => {
                    format!("for each of {} (at most {}, {} at once)", items.source(), each.max, each.width)
                }
                Over::Passes { while_, until, .. } => {
                    let test = |word: &str, e: &relais_plan::Expr| format!("{word} {}", e.source());
                    let tests = [while_.as_ref().map(|e| test("while", e)), until.as_ref().map(|e| test("until", e))];
                    let tests: Vec<String> = tests.into_iter().flatten().collect();
                    format!("again {} (at most {} passes)", tests.join(" and "), each.max)
                }
            }],
            Op::Wait(until) => vec![self.wait(until)],
            Op::End { outcome, .. } => vec![format!("ends the run: {}", words::brief(&serde_json::json!(outcome), 40))],
        }
    }

    fn arms(&self, arms: &[Arm], other: Option<&Jump>) -> Vec<String> {
        let to = |jump: &Jump| jump.to.map_or_else(|| "on".to_owned(), |to| self.name(to));
        let line = |arm: &Arm| format!("if {} → {} ({})", arm.when.source(), to(&arm.jump), arm.label);
        let mut lines: Vec<String> = arms.iter().map(line).collect();
        lines.extend(other.map(|jump| format!("else → {}", to(jump))));
        lines
    }

    fn wait(&self, until: &Until) -> String {
        match until {
            Until::For(time) => format!("waits {}", constant(time, &self.known)),
            Until::At(time) => format!("waits until {}", constant(time, &self.known)),
            Until::Signal { name } => format!("waits for the signal {name}"),
            Until::Event { event, .. } => format!("waits for the event {event}"),
            Until::Person(ask) => format!("asks a person: {}", constant(&ask.question, &self.known)),
        }
    }

    fn call(&self, call: &Call) -> Vec<String> {
        let input = call.input.as_ref().map(|input| format!("input\n{}", indented(&constant(input, &self.known))));
        let mut lines = match &call.task {
            Task::Agent { agent, prompt } => {
                let mut lines = self.plan.agents.get(agent).map_or_else(Vec::new, |a| self.agent(agent, a));
                lines.extend(prompt.as_ref().map(|p| format!("prompt\n{}", indented(&constant(p, &self.known)))));
                lines
            }
            Task::Tool { tool, with } => {
                let arguments = constant(with, &self.known);
                vec![format!("calls {}", self.tool(tool)), format!("with\n{}", indented(&arguments))]
            }
            Task::Workflow { workflow, .. } => vec![format!("runs the workflow {workflow}")],
        };
        lines.extend(input);
        lines
    }

    fn agent(&self, name: &str, agent: &Agent) -> Vec<String> {
        let models = match (self.model, agent.models.as_slice()) {
            (Some(model), _) => model.to_owned(),
            (None, []) => {
                let default = self.definitions.config.settings.default_model.as_deref();
                default.unwrap_or("no model: there is no default_model in relais.toml").to_owned()
            }
            (None, models) => models.join(", else "),
        };
        let mut lines =
            vec![format!("agent {name}: {models}, at most {}", words::counted(agent.max_turns as usize, "turn"))];
        lines.extend(agent.description.iter().map(|said| format!("described as {said}")));
        if !agent.tools.is_empty() {
            let tools: Vec<String> = agent.tools.iter().map(|tool| self.tool(tool)).collect();
            lines.push(format!("tools {}", tools.join(", ")));
        }
        lines.push(format!("instructions\n{}", indented(&constant(&agent.instructions, &self.known))));
        lines
    }

    /// `write_file (idempotent, needs approval)`; MCP servers are not asked here.
    fn tool(&self, pattern: &str) -> String {
        let rule = self.plan.tools.iter().find(|(name, _)| matches_pattern(name, pattern)).map(|(_, rule)| rule);
        let own = own_effect(&self.definitions.tools, pattern);
        let may = rule.and_then(|r| r.effect).map(effect).or(own).unwrap_or("effect known when its server is asked");
        let approve = if rule.is_some_and(|r| r.approve == Some(true)) { ", needs approval" } else { "" };
        format!("{pattern} ({may}{approve})")
    }

    fn name(&self, id: u32) -> String {
        self.plan.nodes.get(id as usize).map_or_else(|| "?".to_owned(), |node| node.key.clone())
    }
}

/// Which lanes start together, and which after others.
fn lanes(lanes: &[Lane]) -> String {
    let line = |lane: &Lane| match after(lane, lanes) {
        None => lane.key.clone(),
        Some(after) => format!("{} {after}", lane.key),
    };
    let names: Vec<String> = lanes.iter().map(line).collect();
    match lanes.iter().all(|lane| lane.after.is_empty()) {
        true => format!("side by side: {}", names.join(", ")),
        false => format!("each as soon as what it needs has ended: {}", names.join(", ")),
    }
}

/// `after a and b`.
fn after(lane: &Lane, lanes: &[Lane]) -> Option<String> {
    let key = |lane: &u32| lanes.get(*lane as usize).map_or("?", |lane| lane.key.as_str());
    let keys: Vec<&str> = lane.after.iter().map(key).collect();
    (!keys.is_empty()).then(|| format!("after {}", keys.join(" and ")))
}

fn own_effect(tools: &Tools, pattern: &str) -> Option<&'static str> {
    tools.own_specs().into_iter().find(|spec| spec.name == pattern).map(|spec| effect(spec.effect))
}

fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("  {line}\n")).collect()
}
