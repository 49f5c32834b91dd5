//! What answers commands: the script, by step and by how often it was asked. A pure function of the journal, so that
//! a resumed run gets the same answers.

use relais_engine::*;
use relais_plan::Effect;
use serde_json::{Value, json};

use crate::script::{Case, Line, Reply as Scripted};

/// What comes back, and how long it takes.
pub enum Comes {
    Answer(u64, Answer, Vec<Vec<u8>>),
    Word(u64, Value),
    Never,
}

pub struct World<'c> {
    pub case: &'c Case,
    pub program: &'c Program,
}

impl Catalog for World<'_> {
    fn effect(&self, tool: &str, _arguments: &Value) -> Effect {
        let named = self.case.lines.iter().find_map(|line| match line {
            Line::Effect(name, effect) if name == tool => Some(*effect),
            _ => None,
        });
        named.unwrap_or(Effect::Read)
    }

    fn model(&self, _model: &str) -> ModelFacts {
        let facts = self.case.lines.iter().find_map(|line| match line {
            Line::Facts(context, price) => Some((*context, *price)),
            _ => None,
        });
        let (context, price) = facts.unwrap_or((0, 0));
        let context_tokens = (context > 0).then_some(context);
        ModelFacts { context_tokens, prompt_nanos: price, completion_nanos: price }
    }
}

impl World<'_> {
    /// The answer to a command that is owed.
    pub fn answer(&self, journal: &[Entry], run: &Run, id: CommandId) -> Comes {
        let owed = run.owed.get(&id).unwrap_or_else(|| &run.dropped[&id]);
        let key = self.key(run, owed.scope, owed.node, &owed.command);
        let Some(key) = key else { return Comes::Never };
        let asked = journal.iter().flat_map(|e| &e.events).filter(|event| match event {
            Event::Asked { id: earlier, scope, node, command } => {
                *earlier < id && self.key(run, *scope, *node, command).as_ref() == Some(&key)
            }
            _ => false,
        });
        let ordinal = asked.count();
        let scripted: Vec<_> = self.case.lines.iter().filter_map(|l| scripted(l, &key)).collect();
        let (after_ms, reply) = scripted[ordinal.min(scripted.len() - 1)];
        self.comes((&owed.command, owed.node), *after_ms, reply)
    }

    /// The most special key that the script has for a command.
    fn key(&self, run: &Run, scope: ScopeId, node: relais_plan::NodeId, command: &Command) -> Option<String> {
        let step = &self.program.plan.node(node).key;
        let path = rewind::step_path(self.program, run, scope, node);
        let word = match command {
            Command::CallModel { .. } => "model".to_owned(),
            Command::CallTool { tool, .. } => format!("tool {tool}"),
            Command::AskPerson(_) => "person".to_owned(),
            Command::StartRun(_) => "run".to_owned(),
            Command::Sleep { .. } | Command::Await(_) => return None,
        };
        let keys = [format!("{word}@{path}"), format!("{word}@{step}"), word];
        keys.into_iter().find(|key| self.case.lines.iter().any(|l| scripted(l, key).is_some()))
    }

    fn comes(&self, (command, node): (&Command, relais_plan::NodeId), after_ms: u64, reply: &Scripted) -> Comes {
        if let (Command::AskPerson(_), Scripted::Value(value)) = (command, reply) {
            return Comes::Word(after_ms, value.clone());
        }
        let mut blobs = Vec::new();
        let body = match (command, reply) {
            (_, Scripted::Hang) => return Comes::Never,
            (_, Scripted::Fail(failure)) => Body::Failed(failure.clone()),
            (Command::StartRun(_), Scripted::Value(value)) => {
                Body::Ended { status: RunStatus::Completed, output: Stored::Value(value.clone()), error: None }
            }
            (_, Scripted::Value(value)) if !matches!(command, Command::CallModel { .. }) => {
                let (value, blob) = self.program.result(node, value.clone(), relais_plan::DEFAULT_RESULT_LIMIT);
                blobs.extend(blob.map(|(_, bytes)| bytes));
                Body::Returned { value, artifacts: Vec::new() }
            }
            (_, Scripted::Artifact(name, value)) => {
                let bytes = serde_json::to_vec(value).unwrap();
                saved(name, "application/json", bytes, &mut blobs)
            }
            (_, Scripted::File(name)) => saved(name, "text/plain", b"plain".to_vec(), &mut blobs),
            (_, Scripted::Value(value)) => said(value.to_string(), Vec::new(), Finish::Stop),
            (_, Scripted::Say(text)) => said(text.clone(), Vec::new(), Finish::Stop),
            (_, Scripted::Cut(text)) => said(text.clone(), Vec::new(), Finish::Length),
            (_, Scripted::Calls(calls)) => said(String::new(), tool_uses(calls), Finish::ToolCalls),
        };
        Comes::Answer(after_ms, Answer { body, usage: usage(command), ms: after_ms }, blobs)
    }
}

fn scripted<'l>(line: &'l Line, wanted: &str) -> Option<(&'l u64, &'l Scripted)> {
    match line {
        Line::Answer { key, after_ms, reply } if key == wanted => Some((after_ms, reply)),
        _ => None,
    }
}

fn saved(name: &str, media_type: &str, bytes: Vec<u8>, blobs: &mut Vec<Vec<u8>>) -> Body {
    let blob = Blob::of(&bytes, String::new());
    blobs.push(bytes);
    let artifact = Artifact { name: name.to_owned(), blob, media_type: media_type.to_owned() };
    Body::Returned { value: Stored::Value(json!("saved")), artifacts: vec![artifact] }
}

fn said(text: String, calls: Vec<ToolUse>, finish: Finish) -> Body {
    Body::Replied(Reply { text, calls, finish, model: "scripted".to_owned() })
}

/// Ids as careless providers give them: the same for every call.
fn tool_uses(calls: &[(String, Result<Value, String>)]) -> Vec<ToolUse> {
    let uses = calls.iter().map(|(tool, arguments)| ToolUse {
        id: String::new(),
        tool: tool.clone(),
        arguments: arguments.clone().unwrap_or_default(),
        garbled: arguments.clone().err(),
        opaque: None,
    });
    uses.collect()
}

fn usage(command: &Command) -> Usage {
    match command {
        Command::CallModel { .. } => {
            Usage { prompt: 10, completion: 5, usd_nanos: 1_000, model_calls: 1, ..Usage::default() }
        }
        Command::CallTool { .. } => Usage { tool_calls: 1, ..Usage::default() },
        Command::StartRun(_) => Usage { prompt: 100, completion: 50, model_calls: 2, ..Usage::default() },
        Command::Sleep { .. } | Command::AskPerson(_) | Command::Await(_) => Usage::default(),
    }
}
