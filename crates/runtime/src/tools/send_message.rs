//! `send_message`: to a configured webhook or command, or to the notification list that is always there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_plan::Effect;
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Value, json};

use super::web::{self, Web};
use super::{arguments, listed, wrong};
use crate::mask::Secrets;
use crate::model::BoxFuture;
use crate::process::{self, Bounds, Program};
use crate::settings::Channel;
use crate::tool::{Notice, Returned, Tool, ToolCall, ToolSpec};

/// The channel that needs no settings: the list that `relais notifications` and the API show.
pub const NOTIFICATIONS: &str = "notifications";
/// What a notice without a title is called.
const UNTITLED: &str = "Message";
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);
const COMMAND_BOUNDS: Bounds = Bounds { time: Duration::from_secs(60), output_bytes: 64 * 1024 };
/// Of a failed command's words.
const SHOWN_CHARS: usize = 500;

pub struct SendMessage {
    spec: ToolSpec,
    channels: BTreeMap<String, Channel>,
    web: Arc<Web>,
    secrets: Arc<Secrets>,
}

#[derive(Deserialize)]
struct Arguments {
    channel: String,
    #[serde(default)]
    title: String,
    text: String,
    #[serde(default)]
    data: Value,
}

impl SendMessage {
    pub fn new(channels: BTreeMap<String, Channel>, web: Arc<Web>, secrets: Arc<Secrets>) -> SendMessage {
        SendMessage { spec: spec(&channels), channels, web, secrets }
    }

    async fn send(&self, call: ToolCall<'_>) -> Result<Returned, Failure> {
        let given: Arguments = arguments(&call)?;
        let message = message(&given, &call);
        match self.channels.get(&given.channel) {
            Some(Channel { webhook: Some(url), .. }) => self.post(url, &message, call.key).await?,
            Some(Channel { command: Some(words), env, .. }) => self.run(words, env, &message).await?,
            Some(_) => return Err(self.unusable(&given.channel)),
            None if given.channel == NOTIFICATIONS => note(&call, &given).await?,
            None => return Err(self.unknown(&given.channel)),
        }
        Ok(Returned { value: json!({"sent": true, "channel": given.channel}), ..Returned::default() })
    }

    async fn post(&self, url: &str, message: &Value, key: &str) -> Result<(), Failure> {
        let config = |text: String| Failure::new(ErrorKind::Config, text);
        let url = self.secrets.expand(url).map_err(|error| config(format!("the channel's webhook: {error}")))?;
        let url = Url::parse(&url).map_err(|error| config(format!("the channel's webhook is no address: {error}")))?;
        let request = self.web.open()?.post(url.clone()).header("Idempotency-Key", key).timeout(WEBHOOK_TIMEOUT);
        let response = request.json(message).send().await.map_err(|error| web::failure(&url, &error))?;
        match response.status() {
            status if status.is_success() => Ok(()),
            status => Err(wrong(format!("{} answered {status}: the message was not taken", web::place(&url)))),
        }
    }

    async fn run(&self, words: &[String], env: &BTreeMap<String, String>, message: &Value) -> Result<(), Failure> {
        let program = Program::of_channel(words, env, &self.secrets, message.to_string().into_bytes())
            .map_err(|why| Failure::new(ErrorKind::Config, format!("the channel cannot be used: {why}")))?;
        let finished = process::run(&program, COMMAND_BOUNDS).await.map_err(command_failure)?;
        if finished.exit_code == 0 {
            return Ok(());
        }
        let said: String = String::from_utf8_lossy(&finished.stderr).chars().take(SHOWN_CHARS).collect();
        Err(wrong(format!("`{}` ended with {}: {}", program.program, finished.exit_code, said.trim())))
    }

    fn unusable(&self, name: &str) -> Failure {
        let text = format!("channel `{name}` has neither `webhook` nor `command`; relais.toml: {}", example(name));
        Failure::new(ErrorKind::Config, text)
    }

    fn unknown(&self, name: &str) -> Failure {
        let known = listed(known(&self.channels));
        wrong(format!("there is no channel `{name}`; there are: {known}. relais.toml adds one: {}", example(name)))
    }
}

impl Tool for SendMessage {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn effect(&self, arguments: &Value) -> Effect {
        let channel = arguments["channel"].as_str().unwrap_or_default();
        let is_list = channel == NOTIFICATIONS && !self.channels.contains_key(channel);
        if is_list { Effect::Idempotent } else { Effect::Once }
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(self.send(call))
    }
}

fn message(given: &Arguments, call: &ToolCall<'_>) -> Value {
    json!({
        "channel": given.channel,
        "title": given.title,
        "text": given.text,
        "data": given.data,
        "run": call.run.run,
        "key": call.key
    })
}

/// Named by the key, so that a repeated call leaves one notice.
async fn note(call: &ToolCall<'_>, given: &Arguments) -> Result<(), Failure> {
    let Some(notices) = &call.run.notices else {
        return Err(Failure::new(ErrorKind::Config, "no list of notifications is kept here; configure a channel"));
    };
    let title = if given.title.is_empty() { UNTITLED } else { &given.title };
    let text = match &given.data {
        Value::Null => given.text.clone(),
        data => format!("{}\n{data}", given.text),
    };
    let posted = notices.post(Notice { run: call.run.run, key: call.key, title, text: &text }).await;
    posted.map_err(|error| Failure::new(ErrorKind::Internal, format!("the notification cannot be kept: {error}")))
}

/// A command that was started may have done its work before it was stopped.
fn command_failure(error: process::Error) -> Failure {
    let kind = match error {
        process::Error::Start { .. } => ErrorKind::Config,
        process::Error::TimedOut { .. } | process::Error::TooMuchOutput { .. } | process::Error::Pipe { .. } => {
            ErrorKind::Uncertain
        }
    };
    Failure::new(kind, error.to_string())
}

fn known(channels: &BTreeMap<String, Channel>) -> impl Iterator<Item = &str> {
    channels.keys().map(String::as_str).chain([NOTIFICATIONS])
}

fn example(name: &str) -> String {
    format!("[tools.channels.{name}] webhook = \"https://…\", or command = [\"program\", \"argument\"]")
}

fn spec(channels: &BTreeMap<String, Channel>) -> ToolSpec {
    let known = listed(known(channels));
    ToolSpec {
        name: "send_message".into(),
        description: format!(
            "Sends a message to people through a configured channel. Channels: {known}; `{NOTIFICATIONS}` is the list \
             that this system's users read."
        ),
        parameters: json!({
            "type": "object",
            "properties": {
                "channel": {"type": "string", "description": format!("one of: {known}")},
                "title": {"type": "string"},
                "text": {"type": "string", "minLength": 1},
                "data": {"description": "anything else, for programs that read the message"}
            },
            "required": ["channel", "text"],
            "additionalProperties": false
        }),
        effect: Effect::Once,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::settings::HttpSettings;
    use crate::tool::Noticeboard;
    use crate::tools::testing::{Bench, KEY, Peer};

    fn tool(channels: &[(&str, Channel)]) -> SendMessage {
        let channels = channels.iter().map(|(name, channel)| (name.to_string(), channel.clone())).collect();
        let web = Arc::new(Web::new(&HttpSettings::default()));
        let secrets = Secrets::new(&BTreeMap::from([("token".to_owned(), "geheim-geheim".to_owned())]));
        SendMessage::new(channels, web, Arc::new(secrets))
    }

    fn command(script: &str) -> Channel {
        let env = BTreeMap::from([("TOKEN".to_owned(), "${token}".to_owned())]);
        Channel { command: Some(vec!["/bin/sh".into(), "-c".into(), script.into()]), env, webhook: None }
    }

    /// What was posted, by key.
    #[derive(Default)]
    struct Board(Mutex<BTreeMap<String, (String, String)>>);

    impl Noticeboard for Board {
        fn post<'a>(&'a self, notice: Notice<'a>) -> BoxFuture<'a, Result<(), String>> {
            let told = (notice.title.to_owned(), notice.text.to_owned());
            self.0.lock().unwrap().insert(notice.key.to_owned(), told);
            Box::pin(std::future::ready(Ok(())))
        }
    }

    #[tokio::test]
    async fn keeps_one_notification_per_key() {
        let (mut bench, board, tool) = (Bench::new(), Arc::new(Board::default()), tool(&[]));
        let message = json!({"channel": "notifications", "text": "hi", "data": [1]});
        bench.check_fails(&tool, message.clone(), "no list of notifications is kept here").await;
        bench.run.notices = Some(board.clone());
        for _ in 0..2 {
            bench.call(&tool, message.clone()).await.unwrap();
        }
        let kept = board.0.lock().unwrap().clone();
        assert_eq!(kept, BTreeMap::from([(KEY.to_owned(), ("Message".to_owned(), "hi\n[1]".to_owned()))]));
        assert_eq!(tool.effect(&json!({"channel": "notifications"})), Effect::Idempotent);
        assert_eq!(tool.effect(&json!({"channel": "x"})), Effect::Once);
        bench.check_fails(&tool, json!({"channel": "x", "text": "hi"}), "there are: notifications").await;
    }

    #[tokio::test]
    async fn posts_to_a_webhook_with_the_key() {
        let peer = Peer::start().await;
        let channel = |path: &str| Channel { webhook: Some(peer.url(path)), ..Channel::default() };
        let tool = tool(&[("ops", channel("/echo")), ("sad", channel("/status/500")), ("empty", Channel::default())]);
        let bench = Bench::new();
        bench.check(&tool, json!({"channel": "ops", "text": "hi"}), json!({"sent": true, "channel": "ops"})).await;
        let seen = peer.requests();
        assert!(
            seen[0].contains(&format!("idempotency-key: {KEY}")) && seen[0].contains("\"text\":\"hi\""),
            "{seen:?}"
        );
        bench.check_fails(&tool, json!({"channel": "sad", "text": "hi"}), "500").await;
        bench.check_fails(&tool, json!({"channel": "empty", "text": "hi"}), "neither").await;
    }

    #[tokio::test]
    async fn runs_a_command_with_the_message_on_stdin() {
        let bench = Bench::new();
        let file = bench.workspace().join("got");
        let hidden = "! tr '\\0' ' ' < /proc/$$/cmdline | grep -qF $TOKEN";
        let tool = tool(&[
            ("mail", command(&format!("cat > '{}'", file.display()))),
            ("bad", command("echo no route >&2; exit 7")),
            ("told", command(&format!("printf %s $TOKEN | grep -qx '.\\{{13\\}}' && {hidden}"))),
            ("shown", Channel { command: Some(vec!["page".into(), "--token=${token}".into()]), ..Channel::default() }),
        ]);
        bench
            .check(
                &tool,
                json!({"channel": "mail", "text": "hi", "title": "T"}),
                json!({"sent": true, "channel": "mail"}),
            )
            .await;
        let got: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!((&got["title"], &got["text"]), (&json!("T"), &json!("hi")));
        bench.check_fails(&tool, json!({"channel": "bad", "text": "hi"}), "ended with 7: no route").await;
        let shown = "would show a secret to everybody who lists the processes";
        bench.check_fails(&tool, json!({"channel": "shown", "text": "hi"}), shown).await;
        if cfg!(target_os = "linux") {
            let sent = json!({"sent": true, "channel": "told"});
            bench.check(&tool, json!({"channel": "told", "text": "hi"}), sent).await;
        }
    }
}
