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
//!
//! The name of a model may come from anybody, so it reaches regular files inside one folder and no others, and no error
//! repeats a value of a file.

use std::io::Read;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use relais_engine::{ErrorKind, Finish, Message, Reply, Request, ToolUse, Usage};
use serde::Deserialize;
use serde_json::Value;

use super::format::turn_of;
use crate::model::{BoxFuture, Live, Model, ModelCall, ModelError, Spoken};

/// A script is written by hand.
const FILE_MAX_BYTES: u64 = 4 * 1024 * 1024;

const NOT_INSIDE: &str = "a script is a file inside the folder of relais.toml: write its path from there, without a \
                          leading `/` and without `..`";

pub struct ScriptModel {
    folder: PathBuf,
    /// Under the folder, as it was written.
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
    /// Says what is wrong with a path that leads out of the folder; the file is looked at when it is needed.
    pub fn new(folder: &Path, file: &str) -> Result<ScriptModel, &'static str> {
        if !is_inside(file) {
            return Err(NOT_INSIDE);
        }
        Ok(ScriptModel { folder: folder.to_owned(), file: file.into() })
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
        let (folder, file) = (self.folder.clone(), self.file.clone());
        let read = tokio::task::spawn_blocking(move || text_in(&folder, &file)).await;
        read.unwrap_or_else(|error| Err(error.to_string())).map_err(|message| self.problem(&message))
    }

    fn problem(&self, message: &str) -> ModelError {
        let message = format!("script {}: {message}", self.file.display());
        ModelError { kind: ErrorKind::Config, message, retry_after: None, transient: false }
    }
}

/// Why a model of this name can never be called, if it is a script outside the folder.
pub fn outside(model: &str) -> Option<&'static str> {
    let (provider, file) = model.split_once('/')?;
    (provider == super::SCRIPT && !is_inside(file)).then_some(NOT_INSIDE)
}

fn is_inside(file: &str) -> bool {
    Path::new(file).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir))
}

/// The text of a regular file that lies inside the folder also when links are followed. The bound holds for what is
/// read, whatever size the file says it has.
fn text_in(folder: &Path, file: &Path) -> Result<String, String> {
    let told = |error: std::io::Error| error.to_string();
    let root = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let (root, real) = (root.canonicalize().map_err(told)?, root.join(file).canonicalize().map_err(told)?);
    if !real.starts_with(&root) {
        return Err(NOT_INSIDE.to_owned());
    }
    if !real.metadata().map_err(told)?.is_file() {
        return Err("is not a regular file".to_owned());
    }
    let mut text = String::new();
    let opened = std::fs::File::open(&real).map_err(told)?;
    opened.take(FILE_MAX_BYTES + 1).read_to_string(&mut text).map_err(told)?;
    if text.len() as u64 > FILE_MAX_BYTES {
        return Err(format!("larger than {FILE_MAX_BYTES} bytes"));
    }
    Ok(text)
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
        return serde_json::from_str(text).map_err(|error| without_value(&error));
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(number, line)| parse_line(number + 1, line)).collect()
}

fn parse_line(number: usize, line: &str) -> Result<Turn, String> {
    serde_json::from_str(line).map_err(|error| format!("line {number}: {}", without_value(&error)))
}

/// What was expected, without what was found: a file that is no script may hold what nobody should read. The name of
/// an unknown field is said.
fn without_value(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.split_once(", expected ") {
        Some((found, expected)) if !found.starts_with("unknown field") => format!("expected {expected}"),
        _ => text,
    }
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
            ..Request::default()
        }
    }

    async fn answer(script: &str, texts: &[&str]) -> Result<Spoken, ModelError> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("turns.json");
        std::fs::write(&file, script).unwrap();
        let request = conversation(texts);
        let model = ScriptModel::new(folder.path(), "turns.json").unwrap();
        model.call(ModelCall { request: &request, tools: &[], key: "k", live: &|_| {} }).await
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

    async fn answer_of(folder: &Path, file: &str) -> Result<String, String> {
        let request = conversation(&["x"]);
        let call = ModelCall { request: &request, tools: &[], key: "k", live: &|_| {} };
        let model = ScriptModel::new(folder, file).map_err(str::to_owned)?;
        model.call(call).await.map(|spoken| spoken.reply.text).map_err(|error| error.message)
    }

    #[tokio::test]
    async fn only_regular_files_inside_the_folder_are_read() {
        let outside = tempfile::tempdir().unwrap();
        let folder = outside.path().join("inside");
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        std::fs::write(outside.path().join("other.json"), "[{\"text\": \"private\"}]").unwrap();
        std::fs::write(folder.join("deep/turns.json"), "[{\"text\": \"mine\"}]").unwrap();
        std::fs::write(folder.join("large.json"), vec![b' '; FILE_MAX_BYTES as usize + 1]).unwrap();
        std::fs::write(folder.join("strings.json"), "[\"private\"]").unwrap();
        std::fs::write(folder.join("typed.json"), "{\"text\": [\"a\"], \"delay_ms\": \"private\"}").unwrap();
        let link = |to: &Path, name: &str| std::os::unix::fs::symlink(to, folder.join(name)).unwrap();
        link(&outside.path().join("other.json"), "out.json");
        link(Path::new("/dev/zero"), "zero.json");
        link(&folder.join("deep/turns.json"), "within.json");
        let _socket = std::os::unix::net::UnixListener::bind(folder.join("socket")).unwrap();
        let check = async |file: &str, wanted: Result<&str, &str>| match (answer_of(&folder, file).await, wanted) {
            (Ok(text), Ok(wanted)) => assert_eq!(text, wanted, "{file}"),
            (Err(told), Err(part)) => assert!(told.contains(part) && !told.contains("private"), "{file}: {told}"),
            (got, _) => panic!("{file}: {got:?}, not {wanted:?}"),
        };
        check("deep/turns.json", Ok("mine")).await;
        check("./within.json", Ok("mine")).await;
        check("../other.json", Err("without a leading `/`")).await;
        check("deep/../../other.json", Err("without a leading `/`")).await;
        check("/dev/zero", Err("without a leading `/`")).await;
        check("out.json", Err("without a leading `/`")).await;
        check("zero.json", Err("without a leading `/`")).await;
        check("socket", Err("is not a regular file")).await;
        check("deep", Err("is not a regular file")).await;
        check("large.json", Err("larger than")).await;
        check("strings.json", Err("expected struct Turn")).await;
        check("typed.json", Err("line 1: expected a string")).await;
        check("missing.json", Err("missing.json")).await;
    }
}
