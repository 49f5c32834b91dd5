//! `script/FILE`: answers from a file of scripted turns, for tests and demonstrations without a key.
//!
//! The file is a JSON list of turns, or one turn per line. The first turn whose `when` fits the request answers:
//!
//! ```json
//! [
//!   {"when": {"turn": 0}, "calls": [{"tool": "search_web", "arguments": {"query": "prices"}}]},
//!   {"when": {"turn": 1, "contains": "42"}, "text": "42 euros.", "usage": {"prompt": 10, "completion": 5}},
//!   {"when": {"model_saw": "out of stock"}, "error": {"kind": "provider", "message": "down"}},
//!   {"text": "Otherwise this.", "delay_ms": 20}
//! ]
//! ```
//!
//! - `when.turn`: how many times the model has spoken before in this conversation;
//! - `when.contains`: a part of the last message; `when.model_saw`: a part of any message;
//! - `text`, `calls` (`tool`, `arguments`, optional `id`), `usage` (as in the journal): the reply;
//! - `error`: `kind` as in the specification, optional `message`, `retry_after_ms`, `transient`;
//! - `delay_ms`: how long the model thinks.
//!
//! Nothing is counted in memory: the same request gets the same answer, also after a crash.

use std::path::{Path, PathBuf};
use std::time::Duration;

use relais_engine::{ErrorKind, Finish, Message, Reply, Request, ToolUse, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::format::turn_of;
use crate::model::{BoxFuture, Live, Model, ModelCall, ModelError, Spoken};

/// A script is written by hand.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

pub struct ScriptModel {
    file: PathBuf,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Turn {
    when: When,
    text: String,
    calls: Vec<Call>,
    usage: Usage,
    error: Option<ScriptedError>,
    delay_ms: u64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct When {
    turn: Option<usize>,
    contains: Option<String>,
    model_saw: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Call {
    tool: String,
    #[serde(default = "no_arguments")]
    arguments: Value,
    id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScriptedError {
    kind: ErrorKind,
    #[serde(default)]
    message: Option<String>,
    retry_after_ms: Option<u64>,
    transient: Option<bool>,
}

impl ScriptModel {
    pub fn new(file: &Path) -> ScriptModel {
        ScriptModel { file: file.to_owned() }
    }

    async fn answer(&self, call: &ModelCall<'_>) -> Result<Spoken, ModelError> {
        let turns = parse(&self.read().await?).map_err(|message| self.problem(&message))?;
        let turn = turns.iter().find(|turn| turn.when.fits(call.request));
        let turn = turn.ok_or_else(|| self.problem(&unmatched(call.request)))?;
        tokio::time::sleep(Duration::from_millis(turn.delay_ms)).await;
        if let Some(error) = &turn.error {
            return Err(error.clone().into());
        }
        (call.live)(Live::Text(&turn.text));
        Ok(turn.spoken(turn_of(call.request), &self.file))
    }

    async fn read(&self) -> Result<String, ModelError> {
        let size = tokio::fs::metadata(&self.file).await.map_err(|error| self.problem(&error.to_string()))?.len();
        if size > FILE_MAX_BYTES {
            return Err(self.problem(&format!("larger than {FILE_MAX_BYTES} bytes")));
        }
        tokio::fs::read_to_string(&self.file).await.map_err(|error| self.problem(&error.to_string()))
    }

    fn problem(&self, message: &str) -> ModelError {
        let message = format!("script {}: {message}", self.file.display());
        ModelError { kind: ErrorKind::Config, message, retry_after: None, transient: false }
    }
}

impl Model for ScriptModel {
    fn call<'a>(&'a self, call: ModelCall<'a>) -> BoxFuture<'a, Result<Spoken, ModelError>> {
        Box::pin(async move { self.answer(&call).await })
    }
}

impl When {
    fn fits(&self, request: &Request) -> bool {
        let last = request.messages.last();
        self.turn.is_none_or(|turn| turn == turn_of(request))
            && self.contains.as_ref().is_none_or(|part| last.is_some_and(|last| text_of(last).contains(part)))
            && self.model_saw.as_ref().is_none_or(|part| request.messages.iter().any(|one| text_of(one).contains(part)))
    }
}

impl Turn {
    fn spoken(&self, turn: usize, file: &Path) -> Spoken {
        let calls: Vec<ToolUse> = self.calls.iter().enumerate().map(|(index, call)| call.asked(turn, index)).collect();
        let finish = if calls.is_empty() { Finish::Stop } else { Finish::ToolCalls };
        let model = format!("{}/{}", super::SCRIPT, file.display());
        Spoken { reply: Reply { text: self.text.clone(), calls, finish, model }, usage: self.usage }
    }
}

impl Call {
    fn asked(&self, turn: usize, index: usize) -> ToolUse {
        let id = self.id.clone().unwrap_or_else(|| format!("script_{turn}_{index}"));
        ToolUse { id, tool: self.tool.clone(), arguments: self.arguments.clone(), garbled: None, opaque: None }
    }
}

impl From<ScriptedError> for ModelError {
    fn from(error: ScriptedError) -> ModelError {
        let passing = matches!(error.kind, ErrorKind::RateLimit | ErrorKind::Transport);
        ModelError {
            kind: error.kind,
            message: error.message.unwrap_or_else(|| format!("scripted {} error", error.kind)),
            retry_after: error.retry_after_ms.map(Duration::from_millis),
            transient: error.transient.unwrap_or(passing),
        }
    }
}

fn no_arguments() -> Value {
    Value::Object(serde_json::Map::new())
}

fn text_of(message: &Message) -> &str {
    match message {
        Message::System { text }
        | Message::User { text }
        | Message::Assistant { text, .. }
        | Message::Tool { text, .. } => text,
    }
}

fn parse(text: &str) -> Result<Vec<Turn>, String> {
    if text.trim_start().starts_with('[') {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| parse_line(number + 1, line)).collect()
}

fn parse_line(number: usize, line: &str) -> Result<Turn, String> {
    serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))
}

fn unmatched(request: &Request) -> String {
    let last: String = request.messages.last().map(text_of).unwrap_or_default().chars().take(120).collect();
    format!("no turn fits turn {} whose last message starts with {last:?}; add one without `when`", turn_of(request))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SCRIPT: &str = r#"[
        {"when": {"turn": 0, "contains": "price"},
         "calls": [{"tool": "find", "arguments": {"q": 1}}, {"tool": "find"}]},
        {"when": {"turn": 1, "model_saw": "price"}, "text": "42", "usage": {"prompt": 7, "completion": 2}},
        {"when": {"contains": "fail"}, "error": {"kind": "rate_limit", "retry_after_ms": 30}},
        {"text": "otherwise"}
    ]"#;

    fn conversation(texts: &[&str]) -> Request {
        let said = |(index, text): (usize, &&str)| match index % 2 {
            0 => Message::User { text: text.to_string() },
            _ => Message::Assistant { text: text.to_string(), calls: Vec::new() },
        };
        let messages = texts.iter().enumerate().map(said).collect();
        Request {
            model: String::new(),
            messages,
            tools: Vec::new(),
            output_schema: None,
            max_tokens: None,
            temperature: None,
        }
    }

    async fn answer(script: &str, texts: &[&str]) -> Result<Spoken, ModelError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("turns.json");
        std::fs::write(&file, script).unwrap();
        let request = conversation(texts);
        ScriptModel::new(&file).call(ModelCall { request: &request, tools: &[], key: "k", live: &|_| {} }).await
    }

    #[tokio::test]
    async fn the_first_turn_that_fits_answers_the_same_every_time() {
        for _ in 0..2 {
            let spoken = answer(SCRIPT, &["the price?"]).await.unwrap();
            let ids: Vec<&str> = spoken.reply.calls.iter().map(|call| call.id.as_str()).collect();
            assert_eq!((ids, spoken.reply.finish), (vec!["script_0_0", "script_0_1"], Finish::ToolCalls));
            let spoken = answer(SCRIPT, &["the price?", "", "here"]).await.unwrap();
            assert_eq!((spoken.reply.text.as_str(), spoken.usage.prompt), ("42", 7));
            assert_eq!(answer(SCRIPT, &["hello"]).await.unwrap().reply.text, "otherwise");
        }
        let error = answer(SCRIPT, &["fail please"]).await.unwrap_err();
        assert_eq!((error.kind, error.transient), (ErrorKind::RateLimit, true));
        assert_eq!(error.retry_after, Some(Duration::from_millis(30)));
    }

    #[tokio::test]
    async fn one_turn_per_line_is_a_script_too() {
        let lines = "{\"when\": {\"turn\": 1}, \"text\": \"b\"}\n\n{\"text\": \"a\"}\n";
        assert_eq!(answer(lines, &["x"]).await.unwrap().reply.text, "a");
        assert_eq!(answer(lines, &["x", "y", "z"]).await.unwrap().reply.text, "b");
    }

    #[tokio::test]
    async fn a_bad_script_says_where() {
        for (script, words) in [
            ("[{\"txet\": \"a\"}]", "unknown field `txet`"),
            ("{\"text\": \"a\"}\n{\"text\": 3}", "line 2"),
            ("[{\"when\": {\"turn\": 9}}]", "no turn fits turn 0 whose last message starts with \"hello\""),
            ("[", "EOF"),
        ] {
            let error = answer(script, &["hello"]).await.unwrap_err();
            assert!(error.kind == ErrorKind::Config && !error.transient, "{error}");
            assert!(error.message.contains(words) && error.message.contains("turns.json"), "{words:?} not in {error}");
        }
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let request = conversation(&["x"]);
        let call = ModelCall { request: &request, tools: &[], key: "k", live: &|_| {} };
        let error = ScriptModel::new(Path::new("/no/such/turns.json")).call(call).await.unwrap_err();
        assert!(error.message.contains("/no/such/turns.json"), "{error}");
    }
}
