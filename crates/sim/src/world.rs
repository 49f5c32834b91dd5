//! What answers commands in the seeded world. An answer depends on the seed, the step's path and how often that step
//! has asked, never on the order of things, so that a resumed run hears what it would have heard.

use relais_engine::*;
use relais_plan::{Effect, Schema};
use relais_runtime::tool::ToolSpec;
use serde_json::{Value, json};

use crate::chance::{Chance, tie};
use crate::model::SimModel;

/// Answers take up to so long.
const MAX_LATENCY_MS: u64 = 20_000;
/// More text than the generated plans keep inline.
const LARGE_CHARS: usize = 600;

#[derive(Debug, Clone)]
pub struct World {
    pub seed: u64,
    /// Changes how long answers take, and with it their order, but not what they say.
    pub salt: u64,
    /// Calls may fail, hang, or come back garbled.
    pub troubled: bool,
}

/// What comes back for a command.
pub enum Coming {
    Answer(Body, Usage),
    /// From outside: a person's word, a signal, an event.
    Word(Value),
    Never,
}

impl Catalog for World {
    fn effect(&self, tool: &str, _arguments: &Value) -> Effect {
        match tool {
            "pay" => Effect::Once,
            "put" => Effect::Idempotent,
            _ => Effect::Read,
        }
    }

    fn model(&self, _model: &str) -> ModelFacts {
        ModelFacts { context_tokens: Some(100_000), prompt_nanos: 10, completion_nanos: 20 }
    }
}

impl World {
    /// How long the answer takes.
    pub fn latency_ms(&self, key: &str) -> u64 {
        tie(self.seed ^ self.salt, &format!("latency/{key}")) % MAX_LATENCY_MS
    }

    pub fn answer(&self, program: &Program, run: &Run, id: CommandId, owed: &Owed, key: &str) -> Coming {
        let mut chance = Chance::named(self.seed, key);
        match &*owed.command {
            Command::CallModel { .. } => self.model_says(program, run, id, &mut chance),
            Command::CallTool { tool, arguments, .. } => self.tool_gives(tool, arguments, key, &mut chance),
            Command::StartRun(start) => self.child_ends(start, key, &mut chance),
            Command::AskPerson(question) => self.person_says(question, &mut chance),
            Command::Await(_) => Coming::Word(json!({ "n": chance.below(5) })),
            Command::Sleep { .. } => Coming::Answer(Body::Slept, Usage::default()),
        }
    }

    fn trouble(&self, chance: &mut Chance) -> Option<Coming> {
        if !self.troubled || !chance.percent(18) {
            return None;
        }
        let kinds =
            [ErrorKind::Tool, ErrorKind::Transport, ErrorKind::RateLimit, ErrorKind::Provider, ErrorKind::Config];
        let kind = chance.pick(&kinds).copied().unwrap_or(ErrorKind::Tool);
        Some(match chance.below(10) {
            0 => Coming::Never,
            1 => Coming::Answer(Body::Cancelled, Usage::default()),
            _ => Coming::Answer(Body::Failed(Failure::new(kind, "trouble")), Usage::default()),
        })
    }

    fn model_says(&self, program: &Program, run: &Run, id: CommandId, chance: &mut Chance) -> Coming {
        let usage = Usage { prompt: 10, completion: 10, usd_nanos: 300, model_calls: 1, ..Usage::default() };
        if let Some(trouble) = self.trouble(chance) {
            return trouble;
        }
        if self.troubled && chance.percent(15) {
            let texts = ["", "no json here", "{\"n\": \"text\"}", "{\"n\": 1,", "«value:nothing.json:x»"];
            let text = chance.pick(&texts).copied().unwrap_or_default().to_owned();
            return Coming::Answer(spoken(text, Vec::new()), usage);
        }
        if self.troubled && chance.percent(8) {
            let call = |tool: &str, garbled: Option<&str>| ToolUse {
                id: String::new(),
                tool: tool.to_owned(),
                arguments: json!({ "n": 1 }),
                garbled: garbled.map(str::to_owned),
                opaque: None,
            };
            let calls = vec![call("get", None), call("get", Some("{")), call("unknown", None), call("pay", None)];
            return Coming::Answer(spoken(String::new(), calls), usage);
        }
        let Some(request) = request(program, run, id) else { return Coming::Never };
        let specs: Vec<ToolSpec> = request.tools.iter().map(|name| spec(name)).collect();
        let spoken = SimModel::new(self.seed).speak(&request, &specs);
        Coming::Answer(Body::Replied(spoken.reply), usage)
    }

    fn tool_gives(&self, tool: &str, arguments: &Value, key: &str, chance: &mut Chance) -> Coming {
        if let Some(trouble) = self.trouble(chance) {
            return trouble;
        }
        let mut value = made_up(tie(self.seed, key), tool, arguments);
        if tool == "large" {
            value["text"] = Value::String("x".repeat(LARGE_CHARS));
        }
        let usage = Usage { tool_calls: 1, ..Usage::default() };
        Coming::Answer(Body::Returned { value: Stored::Value(value), artifacts: Vec::new() }, usage)
    }

    fn child_ends(&self, start: &StartRun, key: &str, chance: &mut Chance) -> Coming {
        let failed = self.troubled && chance.percent(15);
        let (status, error) = match failed {
            true => (RunStatus::Failed, Some(Failure::new(ErrorKind::Tool, "the child failed"))),
            false => (RunStatus::Completed, None),
        };
        let output = Stored::Value(made_up(tie(self.seed, key), "run", &json!(start.input)));
        let usage = Usage { model_calls: chance.below(3), ..Usage::default() };
        Coming::Answer(Body::Ended { status, output, error }, usage)
    }

    fn person_says(&self, question: &Question, chance: &mut Chance) -> Coming {
        if self.troubled && chance.percent(20) {
            return Coming::Never;
        }
        if question.approves.is_some() {
            return Coming::Word(Value::Bool(!self.troubled || chance.percent(70)));
        }
        Coming::Word(Schema::new(question.answer.clone()).sample(chance.number()))
    }
}

/// What generated plans read of a tool or a child run.
fn made_up(seed: u64, tool: &str, arguments: &Value) -> Value {
    let mut chance = Chance::named(tie(seed, tool), &arguments.to_string());
    let list: Vec<u64> = (0..chance.below(4)).map(|_| chance.below(5)).collect();
    json!({
        "ok": chance.percent(70),
        "n": chance.below(5),
        "list": list,
        "text": format!("simulated {tool} {:04x}", chance.below(0x1_0000)),
    })
}

fn spoken(text: String, calls: Vec<ToolUse>) -> Body {
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    Body::Replied(Reply { text, calls, finish, model: "sim/any".to_owned() })
}

fn spec(name: &str) -> ToolSpec {
    let parameters = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
    ToolSpec { name: name.to_owned(), description: String::new(), parameters, effect: Effect::Read }
}
