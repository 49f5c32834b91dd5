//! The shipped `sim/…` model: it answers anything with values that fit, after calling a few of the tools it has.
//!
//! What it says depends on its seed and the request alone, so a resumed run hears the same.

use relais_engine::{Finish, Message, Reply, Request, ToolUse, Usage};
use relais_plan::Schema;
use relais_runtime::model::{BoxFuture, Live, Model, ModelCall, ModelError, Spoken};
use relais_runtime::tool::ToolSpec;
use serde_json::{Value, json};

use crate::chance::{Chance, tie};

/// So many rounds of tool calls at most, so that every simulated agent comes to its end.
const MAX_ROUNDS: u64 = 2;
/// Bytes per token, for the usage it reports.
const BYTES_PER_TOKEN: u64 = 4;

#[derive(Debug, Clone, Default)]
pub struct SimModel {
    seed: u64,
}

impl SimModel {
    pub fn new(seed: u64) -> SimModel {
        SimModel { seed }
    }

    /// What the model says to a request.
    pub fn speak(&self, request: &Request, tools: &[ToolSpec]) -> Spoken {
        let reply = match self.next_call(request, tools) {
            Some(call) => said(request, String::new(), vec![call]),
            None => said(request, self.text(request), Vec::new()),
        };
        let usage = usage(request, &reply);
        Spoken { reply, usage }
    }

    fn chance(&self, request: &Request, what: &str) -> Chance {
        let opening = request.messages.iter().find_map(|m| match m {
            Message::User { text } => Some(text.as_str()),
            Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
        });
        let round = request.messages.len();
        Chance::named(tie(self.seed, opening.unwrap_or_default()), &format!("{what}/{round}"))
    }

    fn next_call(&self, request: &Request, tools: &[ToolSpec]) -> Option<ToolUse> {
        let rounds =
            request.messages.iter().filter(|m| matches!(m, Message::Assistant { calls, .. } if !calls.is_empty()));
        let (rounds, last) = (rounds.count() as u64, request.messages.last());
        let tool = match wanted_mark(last) || wanted_result(request) {
            true => tools.iter().find(|t| t.name == SAVE).filter(|_| saved(request).is_none())?,
            false => {
                let mut chance = Chance::named(self.seed, &format!("rounds/{}", request.tools.join(",")));
                if rounds >= MAX_ROUNDS.min(chance.below(MAX_ROUNDS + 1)) {
                    return None;
                }
                self.chance(request, "tool").pick(tools)?
            }
        };
        let seed = self.chance(request, "arguments").number();
        let arguments = if tool.name == SAVE {
            json!({ "name": self.result_name(request), "content": Schema::new(schema(request)).sample(seed) })
        } else {
            arguments_for(tool, &request.messages, seed)
        };
        let id = format!("sim_{}", request.messages.len());
        Some(ToolUse { id, tool: tool.name.clone(), arguments, garbled: None, opaque: None })
    }

    /// Agents that run at once in one workflow must not take each other's results for their own.
    fn result_name(&self, request: &Request) -> String {
        format!("result_{:016x}.json", self.chance(request, "result").number())
    }

    fn text(&self, request: &Request) -> String {
        if wanted_mark(request.messages.last())
            || wanted_result(request)
            || (saved(request).is_some() && request.output_schema.is_none())
        {
            return match saved(request) {
                Some(name) => format!("«result:artifact={name} status=success»"),
                None => "«result:status=failure message=nothing to save a result with»".to_owned(),
            };
        }
        let mut chance = self.chance(request, "text");
        match &request.output_schema {
            Some(schema) => Schema::new(schema.clone()).sample(chance.number()).to_string(),
            None => sentence(chance.number()),
        }
    }
}

impl Model for SimModel {
    fn call<'a>(&'a self, call: ModelCall<'a>) -> BoxFuture<'a, Result<Spoken, ModelError>> {
        let spoken = self.speak(call.request, call.tools);
        if !spoken.reply.text.is_empty() {
            (call.live)(Live::Text(&spoken.reply.text));
        }
        Box::pin(std::future::ready(Ok(spoken)))
    }

    fn has_schema_mode(&self) -> bool {
        true
    }
}

/// The tool that saves what a result mark names.
const SAVE: &str = "save_artifact";

/// The agent was just told that its answer lacks a result mark.
fn wanted_mark(last: Option<&Message>) -> bool {
    match last {
        Some(Message::User { text }) => text.contains("result mark"),
        Some(Message::Tool { tool, .. }) => tool == SAVE,
        Some(Message::System { .. } | Message::Assistant { .. }) | None => false,
    }
}

/// The agent's instructions tell it to end with a result mark.
fn wanted_result(request: &Request) -> bool {
    instructions(request).is_some_and(|text| text.contains("«result:"))
}

fn instructions(request: &Request) -> Option<&str> {
    request.messages.iter().find_map(|message| match message {
        Message::System { text } => Some(text.as_str()),
        Message::User { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    })
}

/// The artifact that the agent has saved, if it has.
fn saved(request: &Request) -> Option<&str> {
    request.messages.iter().rev().find_map(|message| match message {
        Message::Assistant { calls, .. } => calls.iter().find(|c| c.tool == SAVE)?.arguments.get("name")?.as_str(),
        Message::System { .. } | Message::User { .. } | Message::Tool { .. } => None,
    })
}

/// What the answer must fit. Where it is an artifact, only the instructions say it.
fn schema(request: &Request) -> Value {
    let told = || instructions(request).and_then(|text| text.split(RESULT_SCHEMA).nth(1)).and_then(first_value);
    request.output_schema.clone().or_else(told).unwrap_or_else(|| json!({ "type": "object" }))
}

/// Behind these words, instructions show the schema of a result.
const RESULT_SCHEMA: &str = "MUST conform to this schema:\n";

fn first_value(text: &str) -> Option<Value> {
    serde_json::Deserializer::from_str(text).into_iter::<Value>().next()?.ok().filter(Value::is_object)
}

fn said(request: &Request, text: String, calls: Vec<ToolUse>) -> Reply {
    let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
    Reply { text, calls, finish, model: request.model.clone() }
}

fn usage(request: &Request, reply: &Reply) -> Usage {
    let size = |m: &Message| match m {
        Message::System { text } | Message::User { text } | Message::Tool { text, .. } => text.len() as u64,
        Message::Assistant { text, calls } => text.len() as u64 + arguments(calls),
    };
    let prompt = request.messages.iter().map(size).sum::<u64>().div_ceil(BYTES_PER_TOKEN);
    let completion = (reply.text.len() as u64 + arguments(&reply.calls)).div_ceil(BYTES_PER_TOKEN);
    Usage { prompt, completion, model_calls: 1, ..Usage::default() }
}

fn arguments(calls: &[ToolUse]) -> u64 {
    calls.iter().map(|c| c.arguments.to_string().len() as u64).sum()
}

/// What every schema says of an answer without one: a sentence.
fn sentence(seed: u64) -> String {
    let schema = json!({ "type": "object", "properties": { "answer": { "type": "string" } } });
    Schema::new(schema).sample(seed)["answer"].as_str().unwrap_or_default().to_owned()
}

/// What an argument is called that says what to look for.
const LOOKED_FOR: [&str; 4] = ["query", "q", "search", "question"];
/// Characters of a prompt that make a query.
const QUERY_CHARS: usize = 80;

/// Only what a tool must be given, and a search for what the prompt is about: so a trace reads as a real one would.
fn arguments_for(tool: &ToolSpec, messages: &[Message], seed: u64) -> Value {
    let schema = Schema::new(tool.parameters.clone());
    let full = schema.sample(seed);
    let mut brief = full.clone();
    if let (Some(fields), Some(required)) = (brief.as_object_mut(), tool.parameters["required"].as_array()) {
        fields.retain(|name, _| required.iter().any(|wanted| wanted == name));
        for (_, value) in fields.iter_mut().filter(|(name, _)| LOOKED_FOR.contains(&name.as_str())) {
            if let (true, Some(line)) = (value.is_string(), line_of_prompt(messages)) {
                *value = Value::String(line);
            }
        }
    }
    if schema.check(&brief).is_ok() { brief } else { full }
}

/// A line of the prompt, the next one with every call.
fn line_of_prompt(messages: &[Message]) -> Option<String> {
    let prompt = messages.iter().find_map(|message| match message {
        Message::User { text } => Some(text),
        Message::System { .. } | Message::Assistant { .. } | Message::Tool { .. } => None,
    })?;
    let bare = |line: &str| line.trim_matches(|c: char| !c.is_alphanumeric()).chars().take(QUERY_CHARS).collect();
    let lines: Vec<String> = prompt.lines().map(bare).filter(|line: &String| !line.is_empty()).collect();
    let called = messages.iter().filter(|message| matches!(message, Message::Tool { .. })).count();
    lines.get(called % lines.len().max(1)).cloned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use relais_plan::Effect;

    fn request(messages: Vec<Message>, output_schema: Option<Value>) -> Request {
        let tools = vec!["search".to_owned()];
        Request { model: "sim/any".to_owned(), messages, tools, output_schema, ..Request::default() }
    }

    fn tool(name: &str) -> ToolSpec {
        let parameters = json!({ "type": "object", "properties": { "q": { "type": "string" } }, "required": ["q"] });
        ToolSpec { name: name.to_owned(), description: String::new(), parameters, effect: Effect::Read }
    }

    /// Plays an agent loop to its end.
    fn play(seed: u64, schema: Option<Value>, tools: &[ToolSpec]) -> (u32, String) {
        let mut messages = vec![Message::User { text: "do it".to_owned() }];
        for round in 0..10 {
            let reply = SimModel::new(seed).speak(&request(messages.clone(), schema.clone()), tools).reply;
            if reply.calls.is_empty() {
                return (round, reply.text);
            }
            let used = reply.calls[0].clone();
            messages.push(Message::Assistant { text: reply.text, calls: reply.calls });
            messages.push(Message::Tool { use_id: used.id, tool: used.tool, text: "1".to_owned(), failed: false });
        }
        (10, String::new())
    }

    #[test]
    fn answers_fit_and_come_to_an_end() {
        let schema = json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "required": ["n"] });
        let mut called = 0;
        for seed in 0..50 {
            let (rounds, text) = play(seed, Some(schema.clone()), &[tool("search")]);
            assert!(rounds <= 2, "seed {seed} called tools {rounds} times");
            let value: Value = serde_json::from_str(&text).unwrap_or_default();
            assert_eq!(Schema::new(schema.clone()).check(&value), Ok(()), "seed {seed}: {text}");
            assert_eq!(play(seed, Some(schema.clone()), &[tool("search")]), (rounds, text));
            called += rounds;
        }
        assert!(called > 10);
    }

    #[test]
    fn what_it_says_reads_like_what_it_stands_for() {
        let prompt = Message::User { text: "Find the price of each:\n- tea\n- coffee".to_owned() };
        let mut search = tool("search");
        search.parameters = json!({ "type": "object", "required": ["query"],
            "properties": { "query": { "type": "string" }, "limit": { "type": "integer" } } });
        let arguments = (0..20).find_map(|seed| {
            let reply = SimModel::new(seed).speak(&request(vec![prompt.clone()], None), &[search.clone()]).reply;
            Some(reply.calls.first()?.arguments.clone())
        });
        assert_eq!(arguments, Some(json!({ "query": "Find the price of each" })));
        let text = SimModel::new(1).speak(&request(vec![prompt], None), &[]).reply.text;
        assert!(text.starts_with("This is a simulated answer: "), "{text}");
    }

    #[test]
    fn a_result_mark_is_given_when_it_is_asked_for() {
        let asked = Message::User { text: "The answer has no result mark.".to_owned() };
        let first = SimModel::new(1).speak(&request(vec![asked.clone()], None), &[tool(SAVE)]).reply;
        assert_eq!(first.calls.first().map(|c| c.tool.as_str()), Some(SAVE));
        let call = first.calls[0].clone();
        let told = Message::Tool { use_id: call.id.clone(), tool: SAVE.into(), text: String::new(), failed: false };
        let messages = vec![asked, Message::Assistant { text: String::new(), calls: vec![call] }, told];
        let second = SimModel::new(1).speak(&request(messages, None), &[tool(SAVE)]).reply;
        assert_eq!(
            second.text,
            format!(
                "«result:artifact={} status=success»",
                first.calls[0].arguments["name"].as_str().unwrap_or_default()
            )
        );
    }

    #[test]
    fn a_result_that_the_instructions_demand_fits_their_schema() {
        let text = "Mark it: «result:artifact=NAME status=success»\nYour output artifact MUST conform to this schema:\n\
                    {\n  \"type\": \"object\",\n  \"properties\": {\"n\": {\"type\": \"integer\"}},\n  \
                    \"required\": [\"n\"]\n}\n\nIf you cannot, say so.";
        let messages = vec![Message::System { text: text.into() }, Message::User { text: "Go.".into() }];
        let reply = SimModel::new(3).speak(&request(messages, None), &[tool("search"), tool(SAVE)]).reply;
        assert_eq!(reply.calls[0].tool, SAVE);
        assert!(reply.calls[0].arguments["content"]["n"].is_i64(), "{:?}", reply.calls[0]);
    }
}
