//! Sending to real servers and programs, well-behaved and not. Nothing leaves the machine.

mod smtp;

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use relais_runtime::clock::Clock;
use tokio::net::TcpListener;

use self::smtp::{Manner, Server};
use super::*;
use crate::triggers::signature::{self, Given};

const NOW_MS: i64 = 1_700_000_000_000;
/// Long enough for a busy machine to answer at once, short enough to wait for.
const SHORT: Duration = Duration::from_millis(300);

struct At(i64);

impl Clock for At {
    fn now(&self) -> i64 {
        self.0
    }
}

fn settings(text: &str) -> Settings {
    toml::from_str(text).unwrap()
}

fn senders(text: &str) -> Senders {
    Senders::new(&settings(text), Arc::new(At(NOW_MS))).unwrap()
}

fn message() -> Message {
    Message {
        id: "0197-run-1".into(),
        kind: "run.failed".into(),
        title: "Größe failed\r\nBcc: all@example.org".into(),
        text: "The step `pay` failed.\n.\nQUIT".into(),
        data: json!({"run": "r1"}),
        at: NOW_MS,
    }
}

/// `wanted` is the beginning of an error and whether it is worth another attempt; none means it was sent.
async fn check(senders: &Senders, channel: &Channel, wanted: Option<(&str, bool)>) {
    let sent = send(channel, &message(), senders).await;
    match wanted {
        None => assert_eq!(sent, Ok(()), "{channel:?}"),
        Some((part, again)) => {
            let failed = sent.expect_err(part);
            assert!(failed.message.contains(part), "{channel:?}: {failed} should say {part:?}");
            assert_eq!(failed.again, again, "{channel:?}: {failed}");
        }
    }
}

type Seen = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A server that keeps what it is told and answers by path.
async fn receiver() -> (String, Seen) {
    async fn answer(State(seen): State<Seen>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
        seen.lock().unwrap().push((headers, body));
        match uri.path() {
            "/hang" => std::future::pending().await,
            "/redirect" => (StatusCode::FOUND, [("location", "/ok")]).into_response(),
            "/flood" => "x".repeat(50_000_000).into_response(),
            path => {
                let code = path.strip_prefix("/status/").and_then(|code| code.parse().ok()).unwrap_or(200);
                StatusCode::from_u16(code).unwrap().into_response()
            }
        }
    }
    let seen = Seen::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = Router::new().fallback(answer).with_state(seen.clone());
    tokio::spawn(async move { axum::serve(listener, routes).await });
    (format!("http://{address}"), seen)
}

fn hook(url: String, secret: Option<&str>) -> Channel {
    Channel::Webhook { url, secret: secret.map(str::to_owned), trusted: true }
}

#[tokio::test]
async fn a_webhook_is_told_and_can_check_who_told_it() {
    let (base, seen) = receiver().await;
    let senders = senders("[secrets]\nhook = \"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\"\nplace = \"deep-path\"\n");
    check(&senders, &hook(format!("{base}/${{secret:place}}"), Some("${secret:hook}")), None).await;
    check(&senders, &hook(format!("{base}/flood"), None), None).await;
    let seen = seen.lock().unwrap();
    let (headers, body) = &seen[0];
    let header = |name: &str| headers.get(name).map(|value| value.to_str().unwrap());
    let given = Given::from_headers(header).unwrap();
    assert_eq!((given.id, given.timestamp), (Some("0197-run-1"), Some("1700000000")));
    signature::verify("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", body, given, NOW_MS / 1_000).unwrap();
    let told: Value = serde_json::from_slice(body).unwrap();
    let wanted = json!({
        "id": "0197-run-1", "type": "run.failed", "timestamp": "2023-11-14T22:13:20.000Z",
        "title": "Größe failed  Bcc: all@example.org", "text": "The step `pay` failed.\n.\nQUIT", "data": {"run": "r1"},
    });
    assert_eq!(told, wanted);
    assert!(!seen[1].0.contains_key("webhook-signature"));
}

#[tokio::test]
async fn a_webhook_that_does_not_take_it_says_whether_to_try_again() {
    let (base, _) = receiver().await;
    let mut senders = senders("[secrets]\ntoken = \"geheim-geheim\"\n");
    senders.attempt_time = SHORT;
    let (gone, dead) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
    let nobody = format!("http://{}/", gone.local_addr().unwrap());
    drop(gone);
    let closing = format!("http://{}/", dead.local_addr().unwrap());
    tokio::spawn(async move { while dead.accept().await.is_ok() {} });
    for (url, part, again) in [
        (format!("{base}/status/500?${{token}}"), "answered 500", true),
        (format!("{base}/status/429"), "answered 429", true),
        (format!("{base}/status/404"), "answered 404", false),
        (format!("{base}/status/410"), "answered 410", false),
        (format!("{base}/redirect"), "redirects are not followed", false),
        (format!("{base}/hang"), "no answer in time", true),
        (nobody, "cannot be reached", true),
        (closing, "the answer was lost", true),
        ("${NOT_SET_ANYWHERE}".to_owned(), "`NOT_SET_ANYWHERE` is not defined", false),
        ("geheim".to_owned(), "cannot be read", false),
        ("file:///etc/passwd".to_owned(), "not `file:`", false),
    ] {
        check(&senders, &hook(url.clone(), None), Some((part, again))).await;
        let failed = send(&hook(url, None), &message(), &senders).await.unwrap_err();
        assert!(!failed.message.contains("geheim"), "{failed}");
    }
    check(&senders, &hook(format!("{base}/ok"), Some("${NOT_SET_ANYWHERE}")), Some(("secret", false))).await;
}

/// What a file says reaches no private address, and nothing in it is taken for a secret.
#[tokio::test]
async fn an_address_from_a_file_is_called_as_tools_would() {
    let (base, seen) = receiver().await;
    let strict = senders("[secrets]\ntoken = \"geheim-geheim\"\n");
    let told = |url: String| strict.channel(&Recipient::Webhook(url)).unwrap();
    check(&strict, &told(format!("{base}/ok")), Some(("refused unless", false))).await;
    check(&strict, &told(base.replace("127.0.0.1", "localhost")), Some(("refused unless", false))).await;
    let host = base.trim_start_matches("http://");
    let text = format!("[tools.http_request]\nallow_private = [\"{host}\"]\n[secrets]\ntoken = \"geheim-geheim\"\n");
    let allowing = senders(&text);
    check(&allowing, &told(format!("{base}/${{token}}")), None).await;
    let untrusted = Channel::Webhook { url: format!("{base}/ok"), secret: Some("${token}".into()), trusted: false };
    check(&allowing, &untrusted, None).await;
    let seen = seen.lock().unwrap();
    assert!(seen.iter().all(|(headers, _)| !headers.contains_key("webhook-signature")) && seen.len() == 2);
}

#[test]
fn large_data_is_left_out_of_a_message() {
    let large = Message { data: json!("x".repeat(MESSAGE_BYTES_MAX)), text: "é".repeat(50_000), ..message() };
    let body: Value = serde_json::from_slice(&large.body()).unwrap();
    assert!(large.body().len() < MESSAGE_BYTES_MAX && body["data"]["left_out"].is_string());
    assert_eq!(body["text"].as_str().unwrap().chars().count(), TEXT_CHARS_MAX + 1);
}

fn command(script: &str) -> Channel {
    let env = [("TOKEN".to_owned(), "${token}".to_owned())].into();
    Channel::Command { argv: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(), env }
}

#[tokio::test]
async fn a_command_gets_the_message_on_stdin() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("got");
    let mut senders = senders("[secrets]\ntoken = \"geheim-geheim\"\n");
    check(&senders, &command(&format!("cat > '{}'", file.display())), None).await;
    let got: Value = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    assert_eq!((&got["type"], &got["id"]), (&json!("run.failed"), &json!("0197-run-1")));
    // It need not read what it is given.
    check(&senders, &command("exit 0"), None).await;
    check(
        &senders,
        &command("echo no route for $TOKEN >&2; exit 7"),
        Some(("ended with 7: no route for [secret]", true)),
    )
    .await;
    check(&senders, &command("nowhere-to-be-found"), Some(("ended with 127", false))).await;
    check(&senders, &command("yes"), Some(("wrote more than 65536 bytes", false))).await;
    let absent = Channel::Command { argv: vec!["/nowhere/at/all".into()], env: BTreeMap::new() };
    check(&senders, &absent, Some(("cannot be started", false))).await;
    check(&senders, &Channel::Command { argv: Vec::new(), env: BTreeMap::new() }, Some(("is empty", false))).await;
    senders.command_time = SHORT;
    check(&senders, &command("tail -f /dev/null & exec tail -f /dev/null"), Some(("ran longer", true))).await;
}

fn mail(to: &[&str]) -> Channel {
    Channel::Mail { to: to.iter().map(|to| to.to_string()).collect() }
}

fn with_smtp(server: &Server, more: &str) -> Senders {
    let mut senders = senders(&format!(
        "[secrets]\npass = \"geheim-geheim\"\n[smtp]\nhost = \"127.0.0.1\"\nport = {}\nfrom = \"Relais <relais@example.org>\"\n{more}",
        server.port
    ));
    senders.attempt_time = SHORT * 10;
    senders
}

#[tokio::test]
async fn mail_is_handed_over_with_clean_headers() {
    let server = Server::start(Manner::Take).await;
    let senders = with_smtp(&server, "tls = \"none\"\nuser = \"me\"\npassword = \"${secret:pass}\"\n");
    check(&senders, &mail(&["ops@example.org", "Ann <ann@example.org>"]), None).await;
    let said = server.heard();
    let lines: Vec<&str> = said.lines().collect();
    for wanted in [
        "MAIL FROM:<relais@example.org>",
        "RCPT TO:<ops@example.org>",
        "RCPT TO:<ann@example.org>",
        "From: Relais <relais@example.org>",
        "Message-ID: <0197-run-1@example.org>",
        "Auto-Submitted: auto-generated",
        "QUIT",
    ] {
        assert!(lines.iter().any(|line| line.starts_with(wanted)), "{wanted} in {said}");
    }
    // The text of the message ended neither the mail nor its headers.
    assert!(!lines.iter().any(|line| line.starts_with("Bcc:")), "{said}");
    assert_eq!(lines.iter().filter(|line| **line == "QUIT").count(), 2, "{said}");
}

#[tokio::test]
async fn a_mail_server_says_whether_to_try_again() {
    for (manner, part, again) in [
        (Manner::At("RCPT", "451 try later"), "451", true),
        (Manner::At("RCPT", "550 no such user geheim-geheim"), "no such user [secret]", false),
        (Manner::At("AUTH", "535 bad password geheim-geheim"), "535", false),
        (Manner::At("DATA", "452 disk full"), "452", true),
        (Manner::At("MAIL", "nonsense"), "did not take the message", true),
        (Manner::Greets("554 go away"), "554", false),
        (Manner::Greets("421 too busy"), "421", true),
        (Manner::Closes, "did not take the message", true),
    ] {
        let server = Server::start(manner).await;
        let senders = with_smtp(&server, "tls = \"none\"\nuser = \"me\"\npassword = \"${secret:pass}\"\n");
        check(&senders, &mail(&["ops@example.org"]), Some((part, again))).await;
        let failed = send(&mail(&["ops@example.org"]), &message(), &senders).await.unwrap_err();
        assert!(!failed.message.contains("geheim"), "{failed}");
    }
}

#[tokio::test]
async fn a_mail_server_that_hangs_or_offers_no_encryption_gets_nothing() {
    let server = Server::start(Manner::Hangs).await;
    let mut senders = with_smtp(&server, "tls = \"none\"\n");
    senders.attempt_time = SHORT;
    check(&senders, &mail(&["ops@example.org"]), Some(("127.0.0.1 did not take the message", true))).await;
    let server = Server::start(Manner::Take).await;
    let senders = with_smtp(&server, "user = \"me\"\npassword = \"${secret:pass}\"\n");
    check(&senders, &mail(&["ops@example.org"]), Some(("did not take the message", false))).await;
    let said = server.heard();
    assert!(!said.contains("AUTH") && !said.contains("MAIL"), "{said}");
    check(&senders, &mail(&["not an address"]), Some(("is no mail address", false))).await;
    let none = self::senders("");
    check(&none, &mail(&["ops@example.org"]), Some(("has no [smtp]", false))).await;
}

#[test]
fn a_file_names_who_is_told_or_the_defaults_are() {
    let settings = settings(
        "[notify.ops]\nwebhook = \"https://x\"\ndefault = true\n[notify.pager]\ncommand = [\"page\"]\n\
         [notify.all]\nwebhook = \"http://10.0.0.1/\"\nsecret = \"${S}\"\ndefault = true\n[secrets]\nS = \"x\"\n",
    );
    let channel = |name: &str| Recipient::Channel(name.to_owned());
    let check = |notify: Notify, wanted: &[Recipient]| assert_eq!(recipients(&notify, &settings), wanted);
    check(Notify::default(), &[channel("all"), channel("ops")]);
    check(Notify { to: vec!["pager".into()], ..Notify::default() }, &[channel("pager")]);
    let by_file = Notify { webhook: Some("https://y".into()), email: vec!["a@b.c".into()], ..Notify::default() };
    check(by_file, &[Recipient::Webhook("https://y".into()), Recipient::Mail(vec!["a@b.c".into()])]);
    let senders = Senders::new(&settings, Arc::new(At(0))).unwrap();
    assert_eq!(
        senders.channel(&channel("pager")),
        Ok(Channel::Command { argv: vec!["page".into()], env: BTreeMap::new() })
    );
    let failed = senders.channel(&channel("pagr")).unwrap_err();
    assert!(failed.message.contains("there are: all, ops, pager") && !failed.again, "{failed}");
    let all = Channel::Webhook { url: "http://10.0.0.1/".into(), secret: Some("${S}".into()), trusted: true };
    assert_eq!(senders.channel(&channel("all")), Ok(all));
}

#[test]
fn settings_that_could_never_send_are_refused() {
    let smtp = "[smtp]\nhost = \"h\"\nfrom = \"a@b.c\"\n";
    for (text, part) in [
        ("[notify.a]\n", "[notify.a] needs exactly one"),
        ("[notify.a]\nwebhook = \"x\"\ncommand = [\"y\"]\n", "exactly one"),
        ("[notify.a]\ncommand = [\"y\"]\nsecret = \"${S}\"\n", "there is none"),
        ("[notify.a]\nwebhook = \"x\"\nsecret = \"plain\"\n", "`secret` names a secret"),
        ("[notify.a]\nemail = [\"a@b.c\"]\n", "needs a mail server"),
        (&format!("[notify.a]\nemail = [\"nobody\"]\n{smtp}"), "`nobody` is no mail address"),
        ("[smtp]\nuser = \"x\"\n", "needs a `host`"),
        ("[smtp]\nhost = \"h\"\n", "needs `from`"),
        ("[smtp]\nhost = \"h\"\nfrom = \"x\"\n", "`x` is no mail address"),
        (&format!("{smtp}user = \"u\"\n"), "both `user` and `password`"),
        (&format!("{smtp}user = \"u\"\npassword = \"plain\"\n"), "`password` names a secret"),
        (&format!("{smtp}user = \"u\"\npassword = \"${{P}}\"\ntls = \"none\"\n"), "for all to read"),
    ] {
        let refused = Senders::new(&settings(text), Arc::new(At(0))).err().map(|error| error.to_string());
        assert!(refused.as_deref().is_some_and(|message| message.contains(part)), "{text}: {refused:?}");
    }
    assert!(toml::from_str::<Settings>("[smtp]\ntls = \"ssl\"\n").is_err());
    assert!(toml::from_str::<Settings>("[notify.a]\nwebhok = \"x\"\n").is_err());
}
