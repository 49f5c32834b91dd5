//! What starts runs without a person: schedules, webhooks, events.

use relais_runtime::settings::Settings;
use reqwest::{Method, RequestBuilder};
use ring::hmac;
use serde_json::{Value, json};

use crate::setup::{Setup, answered};

const TICK: &str =
    "name: tick\ninput: { name?: string }\nsteps:\n  - { id: say, set: { word: hello } }\ntriggers: [{ every: 1h }]\n";
const PAID: &str = r#"
name: paid
input: { order?: integer, total?: number }
steps:
  - { id: say, set: { order: "{{ input.order }}" } }
output: { order: "{{ vars.order }}", from: "{{ trigger.type }}" }
"#;
const WAITS: &str = "name: waits\nsteps:\n  - { id: go, wait: { event: order.paid, filter: event.order == 7 } }\noutput: '{{ steps.go.output.total }}'\n";

impl Setup {
    async fn told(&self, path: &str, body: Value, status: u16) -> Value {
        let (found, answer) = self.ask(Method::POST, path, Some(body)).await;
        assert_eq!(found.as_u16(), status, "{path}: {answer}");
        answer
    }

    async fn keep(&self, text: &str) -> String {
        let made = self.told("/api/v1/workflows", json!({ "definition": text }), 201).await;
        made["id"].as_str().unwrap().to_owned()
    }

    async fn outcome(&self, run: &Value) -> Value {
        let run = run.as_str().unwrap().parse().unwrap();
        self.service.settle(run).await.unwrap();
        self.service.output(run).await.unwrap()
    }
}

// keeps A-03, A-21, A-32
#[tokio::test(flavor = "multi_thread")]
async fn a_schedule_is_set_shown_paused_and_taken_away() {
    let setup = Setup::new().await;
    let workflow = setup.keep(TICK).await;
    let body = json!({ "cron": "every weekday at 9am", "timezone": "Europe/Paris", "input": { "name": "Ada" } });
    let made = setup.told("/api/v1/workflows/tick/schedules", body, 201).await;
    assert_eq!((&made["workflow_id"], &made["kind"]), (&json!(workflow), &json!("recurring")));
    assert_eq!(made["schedule"], "cron \"0 9 * * MON-FRI\" Europe/Paris");
    let times = made["next_times_local"].as_array().unwrap();
    assert!(times.len() == 5 && times.iter().all(|time| time.as_str().unwrap().contains(" 09:00 +0")), "{times:?}");
    assert_eq!(made["next_times"].as_array().unwrap().len(), 5);

    let body = json!({ "workflow": "tick", "at": "tomorrow 9am" });
    let once = setup.told("/api/v1/schedules", body, 201).await;
    assert_eq!((&once["kind"], once["next_times"].as_array().unwrap().len()), (&json!("scheduled"), 1));

    let path = format!("/api/v1/schedules/{}", made["id"].as_str().unwrap());
    let paused = setup.told(&format!("{path}/pause"), json!({}), 200).await;
    assert_eq!((&paused["active"], &paused["next_times"]), (&json!(false), &json!([])));
    assert_eq!(setup.told(&format!("{path}/pause"), json!({}), 200).await["off"], "it is paused");
    let resumed = setup.told(&format!("{path}/resume"), json!({}), 200).await;
    assert_eq!((&resumed["active"], &resumed["next_times"]), (&json!(true), &made["next_times"]));
    assert_eq!(setup.get(&format!("{path}/decisions")).await.1["items"], json!([]));

    // In place of both; what the definition says stays.
    let body = json!({ "every": "15m", "replaces": true });
    let every = setup.told("/api/v1/workflows/tick/schedules", body, 201).await;
    let (_, list) = setup.get("/api/v1/workflows/tick/schedules").await;
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list}");
    let named = list["items"].as_array().unwrap().iter().find(|one| one["set_by"] == "definition").unwrap();
    let named = format!("/api/v1/schedules/{}", named["id"].as_str().unwrap());
    let (status, problem) = setup.ask(Method::DELETE, &named, None).await;
    assert!(status == 409 && problem["detail"].as_str().unwrap().contains("pause it"), "{problem}");
    let path = format!("/api/v1/schedules/{}", every["id"].as_str().unwrap());
    assert_eq!(setup.ask(Method::DELETE, &path, None).await.0, 204);
    assert_eq!(setup.get(&path).await.0, 404);
    // A page at a time.
    let (_, page) = setup.get("/api/v1/schedules?limit=1").await;
    assert_eq!((page["items"].as_array().unwrap().len(), &page["next"]), (1, &Value::Null));
}

// keeps A-21
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_is_refused_with_what_can() {
    let setup = Setup::new().await;
    setup.keep(TICK).await;
    for (body, part) in [
        (json!({ "cron": "now and then" }), "schedules that are understood"),
        (json!({ "at": "some day" }), "times that are understood"),
        (json!({ "at": "2020-01-01T00:00:00Z" }), "give a time that is to come"),
        (json!({ "at": "9999-12-31T23:59:59Z" }), "to 9999-12-30T22:00:00.999Z are taken"),
        (json!({ "every": "often" }), "`often` is no duration"),
        (json!({ "every": "weekly@7@09:00" }), "days are 0 to 6"),
        (json!({ "every": "0s" }), "`continuous`"),
        (json!({ "cron": "@daily", "every": "1h" }), "exactly one of"),
        (json!({}), "exactly one of"),
        (json!({ "cron": "@daily", "timezone": "Mars" }), "no time zone `Mars`"),
        (json!({ "every": "1h", "input": { "nmae": "x" } }), "did you mean `name`?"),
        (json!({ "every": "1h", "branch": "side" }), "no branch `side`"),
    ] {
        let path = "/api/v1/workflows/tick/schedules";
        let (status, problem) = setup.ask(Method::POST, path, Some(body.clone())).await;
        let detail = problem["detail"].as_str().unwrap_or_default();
        assert!(status == 422 && detail.contains(part), "{body}: {status} {problem}");
    }
    let seen = setup.told("/api/v1/schedules/preview", json!({ "cron": "daily at 9am" }), 200).await;
    assert_eq!(seen["schedule"], "cron \"0 9 * * *\" UTC");
    // What no pattern of cron can say is counted from when it is set.
    let seen = setup.told("/api/v1/schedules/preview", json!({ "cron": "every 7 minutes" }), 200).await;
    assert_eq!(seen["schedule"], "every 7m");
    assert_eq!(setup.get("/api/v1/schedules").await.1["items"].as_array().unwrap().len(), 1, "nothing was set");
}

fn hook(setup: &Setup, id: &str, key: Option<&str>) -> RequestBuilder {
    let request = setup.request(Method::POST, &format!("/hooks/{id}"));
    match key {
        Some(key) => request.header("X-GitHub-Delivery", key),
        None => request,
    }
}

// keeps B-09
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_starts_a_run_with_what_was_sent_if_the_filter_lets_it() {
    let setup = Setup::guarded(Settings::default()).await;
    let rules = "filter: { total: { greater: 100 } }, overlap: allow";
    let text = format!("{PAID}triggers: [{{ webhook: new-order, {rules} }}]\n");
    let written = relais_service::Written { text, ..Default::default() };
    let new = relais_service::NewWorkflow { definition: Some(written), ..Default::default() };
    setup.service.create_workflow(new).await.unwrap();
    let body = json!({ "order": 7, "total": 120, "more": [1, 2] });
    let (status, taken) = answered(hook(&setup, "new-order", Some("d1")), Some(body.clone())).await;
    assert_eq!((status.as_u16(), &taken["started"]), (202, &json!(true)), "{taken}");
    assert_eq!(setup.outcome(&taken["run"]).await, json!({ "order": 7, "from": "webhook" }));
    // The same delivery again is the same run.
    let (status, again) = answered(hook(&setup, "new-order", Some("d1")), Some(body.clone())).await;
    assert_eq!((status.as_u16(), &again["run"]), (202, &taken["run"]), "{again}");
    let (_, other) = answered(hook(&setup, "new-order", Some("d2")), Some(body.clone())).await;
    assert_ne!(other["run"], taken["run"]);
    let (status, declined) = answered(hook(&setup, "new-order", None), Some(json!({ "total": 12 }))).await;
    assert_eq!((status.as_u16(), &declined["started"], &declined["run"]), (200, &json!(false), &Value::Null));
    assert!(declined["reason"].as_str().unwrap().contains("not greater than 100"), "{declined}");
    // A form has texts, and a text is not greater than a number.
    let form = hook(&setup, "new-order", None).header("content-type", "application/x-www-form-urlencoded");
    let (status, declined) = answered(form.body("total=120"), None).await;
    assert_eq!((status.as_u16(), &declined["started"]), (200, &json!(false)), "{declined}");
    assert_eq!(answered(hook(&setup, "old-order", None), Some(json!({}))).await.0, 404);
    assert_eq!(answered(hook(&setup, "new-order", None).body("no json"), None).await.0, 422);
    let page = hook(&setup, "new-order", None).header("origin", "https://elsewhere.example");
    assert_eq!(answered(page, Some(body)).await.0, 403);
}

/// A webhook that hears only who knows the secret.
async fn with_signed_hook() -> Setup {
    let mut settings = Settings::default();
    settings.secrets.insert("RELAIS_HOOK_ORDERS".into(), "a long secret".into());
    let setup = Setup::with(settings).await;
    let trigger = "{ webhook: { id: signed, secret: \"${RELAIS_HOOK_ORDERS}\" }, overlap: allow }";
    setup.keep(&format!("{PAID}triggers: [{trigger}]\n")).await;
    setup
}

fn signed(setup: &Setup, body: &str, secret: &str) -> RequestBuilder {
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body.as_bytes());
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    hook(setup, "signed", None).header("X-Hub-Signature-256", format!("sha256={hex}")).body(body.to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_with_a_secret_hears_only_who_signs() {
    let setup = with_signed_hook().await;
    let body = r#"{"order": 1}"#;
    assert_eq!(answered(signed(&setup, body, "a long secret"), None).await.0, 202);
    let (status, problem) = answered(signed(&setup, body, "another"), None).await;
    assert_eq!((status.as_u16(), &problem["kind"]), (404, &json!("not_found")), "{problem}");
    assert!(!problem.to_string().contains("a long secret"));
    // Whoever guesses ids does not learn which are there.
    let (status, unsigned) = answered(hook(&setup, "signed", None).body(body), None).await;
    let (_, unknown) = answered(hook(&setup, "no-such", None).body(body), None).await;
    let (_, of_nobody) = answered(hook(&setup, "nobody/signed", None).body(body), None).await;
    assert_eq!((status.as_u16(), &unsigned, &unsigned), (404, &unknown, &of_nobody));
    assert_eq!(unsigned["detail"], problem["detail"]);
}

/// Nobody learns by choosing an id which ones others have, and each reaches his own.
#[tokio::test(flavor = "multi_thread")]
async fn ids_of_webhooks_belong_to_each_user() {
    let setup = Setup::guarded(Settings::default()).await;
    let text = format!("{PAID}triggers: [{{ webhook: new-order, overlap: allow }}]\n");
    for user in ["ada", "bob b"] {
        let token = setup.token(user, "read write run").await;
        let (body, path) = (json!({ "definition": text }), "/api/v1/workflows");
        let (status, kept) = setup.ask_as(&token, Method::POST, path, Some(body.clone())).await;
        assert_eq!(status, 201, "{user}: {kept}");
        // One's own is in the way, and only that.
        let (status, problem) = setup.ask_as(&token, Method::POST, path, Some(body)).await;
        assert_eq!((status.as_u16(), &problem["kind"]), (409, &json!("conflict")), "{problem}");
    }
    assert_eq!(answered(hook(&setup, "new-order", None), Some(json!({}))).await.0, 404, "of neither is the server");
    assert_eq!(answered(hook(&setup, "eve/new-order", None), Some(json!({}))).await.0, 404);
    for (user, path) in [("ada", "ada/new-order"), ("bob b", "bob%20b/new-order")] {
        let (status, taken) = answered(hook(&setup, path, None), Some(json!({ "order": 1 }))).await;
        assert_eq!(status, 202, "{taken}");
        let row = setup.service.as_user(user).row(taken["run"].as_str().unwrap().parse().unwrap()).await;
        assert!(row.is_ok(), "{user}: {row:?}");
    }
}

/// An address that was given to senders before ids belonged to users goes on to lead where it led.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_of_before_is_still_reached() {
    let setup = Setup::new().await;
    let trigger = "{ webhook: new-order, overlap: allow }";
    let ada = setup.service.as_user("ada");
    let written = relais_service::Written { text: format!("{PAID}triggers: [{trigger}]\n"), ..Default::default() };
    let new = relais_service::NewWorkflow { definition: Some(written), ..Default::default() };
    ada.create_workflow(new).await.unwrap();
    let file = setup.path().join("home/relais.db");
    let moved =
        rusqlite::Connection::open(file).unwrap().execute("UPDATE records SET owner = '' WHERE kind = 'hook'", []);
    assert_eq!(moved, Ok(1));
    for path in ["new-order", "ada/new-order"] {
        assert_eq!(answered(hook(&setup, path, None), Some(json!({ "order": 1 }))).await.0, 202, "{path}");
    }
    assert_eq!(answered(hook(&setup, "somebody/new-order", None), Some(json!({}))).await.0, 404);
}

/// Whoever may save a definition must not try guesses at what the operator has set for something else.
#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_names_only_secrets_that_are_meant_for_webhooks() {
    let setup = Setup::with(Settings::default()).await;
    let wrong = ["${PATH}", "${RELAIS_HOOK_}", "${secret:SMTP_PASSWORD}", "${RELAIS_HOOK_A}${PATH}"];
    for (number, secret) in wrong.into_iter().enumerate() {
        let text =
            format!("{PAID}triggers: [{{ webhook: {{ id: w{number}, secret: \"{secret}\" }}, overlap: allow }}]\n");
        let (status, problem) = setup.ask(Method::POST, "/api/v1/workflows", Some(json!({ "definition": text }))).await;
        assert_eq!(status, 422, "{secret}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains("begin with `RELAIS_HOOK_`"), "{problem}");
    }
    let text =
        format!("{PAID}triggers: [{{ webhook: {{ id: w, secret: \"${{RELAIS_HOOK_A}}\" }}, overlap: allow }}]\n");
    let (status, kept) = setup.ask(Method::POST, "/api/v1/workflows", Some(json!({ "definition": text }))).await;
    assert_eq!(status, 201, "{kept}");
    let empty = json!({ "name": "by hand" });
    let (_, empty) = setup.ask(Method::POST, "/api/v1/workflows", Some(empty)).await;
    let path = format!("/api/v1/workflows/{}/trigger", empty["id"].as_str().unwrap());
    let trigger = json!({ "trigger_type_id": "webhook", "settings": { "secret": "${PATH}" } });
    let (status, problem) = setup.ask(Method::PUT, &path, Some(trigger)).await;
    assert_eq!(status, 422, "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("begin with `RELAIS_HOOK_`"), "{problem}");
}

/// What a stranger sends is counted: it neither fills the list of decisions nor pushes anything out of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrongly_signed_is_counted_and_soon_not_heard() {
    let setup = with_signed_hook().await;
    let body = r#"{"order": 1}"#;
    assert_eq!(answered(signed(&setup, body, "a long secret"), None).await.0, 202);
    for _ in 0..6 {
        assert_eq!(answered(signed(&setup, body, "another"), None).await.0, 404);
    }
    let (_, triggers) = setup.get("/api/v1/triggers").await;
    let path = format!("/api/v1/triggers/{}/decisions", triggers["items"][0]["uuid"].as_str().unwrap());
    let (_, decided) = setup.get(&path).await;
    let items = decided["items"].as_array().unwrap();
    let told: Vec<_> = items.iter().map(|item| (item["starts"].clone(), item["times"].clone())).collect();
    assert_eq!(told, [(json!(false), json!(6)), (json!(true), json!(1))], "{decided}");
    assert!(items[0]["reason"].as_str().unwrap().contains("the signature does not match the body"), "{decided}");

    // Addresses that nobody has count as well; then even a right signature has to wait.
    for number in 0..4 {
        assert_eq!(answered(hook(&setup, &format!("guess-{number}"), None), Some(json!({}))).await.0, 404);
    }
    let (status, problem) = answered(signed(&setup, body, "a long secret"), None).await;
    assert_eq!((status.as_u16(), &problem["kind"]), (429, &json!("too_many")), "{problem}");
    // Whoever has a token is let in all the same.
    let token = setup.token("somebody", "read").await;
    assert_eq!(setup.ask_as(&token, Method::GET, &path, None).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn deliveries_with_the_same_key_in_their_body_are_one() {
    let setup = Setup::new().await;
    for overlap in ["allow", "queue"] {
        let hooked = format!("webhook: {{ id: {overlap}, dedupe: event.data.order }}, overlap: {overlap}");
        setup.keep(&format!("{}triggers: [{{ {hooked} }}]\n", PAID.replace("paid", overlap))).await;
        let sent = async |body: Value, key: Option<&str>| answered(hook(&setup, overlap, key), Some(body)).await;
        let (status, first) = sent(json!({ "order": 7, "total": 1 }), Some("d1")).await;
        assert_eq!(status, 202, "{first}");
        setup.outcome(&first["run"]).await;
        setup.service.feed_once().await.unwrap();
        // Another delivery of the same order, changed on the way.
        let (status, again) = sent(json!({ "order": 7, "total": 2 }), Some("d2")).await;
        assert_eq!((status.as_u16(), &again["run"]), (202, &first["run"]), "{again}");
        assert_eq!(again["reason"], "it was sent before");
        let (_, other) = sent(json!({ "order": 8 }), Some("d1")).await;
        assert_ne!(other["run"], first["run"], "{other}");
        // Without an order the sender's own id tells them apart.
        for (key, is_known) in [("d3", false), ("d3", true), ("d4", false)] {
            let (_, taken) = sent(json!({ "total": 3 }), Some(key)).await;
            assert_eq!(taken["reason"] == "it was sent before", is_known, "{key}: {taken}");
        }
        let (status, odd) = sent(json!({ "order": [7] }), None).await;
        assert!(status == 200 && odd["reason"].as_str().unwrap().contains("a key is a text or a number"), "{odd}");
    }
}

/// What is skipped is lost: whoever writes a definition is told so, and whoever reads a trigger sees it.
#[tokio::test(flavor = "multi_thread")]
async fn what_becomes_of_deliveries_while_a_run_goes_is_told() {
    let setup = Setup::new().await;
    let text = format!("{PAID}triggers: [{{ webhook: silent }}]\n");
    let told = setup.told("/api/v1/definitions/check", json!({ "definition": text }), 200).await;
    assert!(told["ok"] == true && told.to_string().contains("starts nothing: `overlap` is `skip`"), "{told}");
    setup.keep(&text).await;
    let (_, triggers) = setup.get("/api/v1/triggers").await;
    assert_eq!(triggers["items"][0]["settings"]["overlap"], "skip", "{triggers}");
}

// keeps B-09
#[tokio::test(flavor = "multi_thread")]
async fn an_event_starts_what_waits_for_its_type_and_wakes_runs_once() {
    let setup = Setup::new().await;
    let filter = "filter: event.data.total > 100, overlap: allow";
    let triggers = format!("triggers: [{{ event: order.paid, {filter} }}, {{ event: order.lost, overlap: allow }}]\n");
    setup.keep(&format!("{PAID}{triggers}")).await;
    let run = setup.begin(WAITS).await;
    setup.service.settle(run).await.unwrap();

    // Not the one that it waits for: it goes on waiting.
    let other = json!({ "type": "order.paid", "data": { "order": 3, "total": 5 } });
    let did = setup.told("/api/v1/events", other, 200).await;
    assert_eq!((did["started"].as_array().unwrap().len(), did["declined"].as_array().unwrap().len()), (0, 1), "{did}");
    assert!(did["declined"][0]["reason"].as_str().unwrap().contains("event.data.total > 100"), "{did}");
    setup.service.settle(run).await.unwrap();
    assert!(!setup.service.row(run).await.unwrap().summary.status.is_final());

    let event = json!({ "type": "order.paid", "id": "e-7", "data": { "order": 7, "total": 500 } });
    let did = setup.told("/api/v1/events", event.clone(), 200).await;
    assert_eq!((did["started"].as_array().unwrap().len(), &did["woken"]), (1, &json!([run])), "{did}");
    assert_eq!(setup.outcome(&did["started"][0]["run"]).await, json!({ "order": 7, "from": "event" }));
    let path = format!("/api/v1/triggers/{}/decisions", did["started"][0]["trigger"].as_str().unwrap());
    let (_, decided) = setup.get(&path).await;
    let starts: Vec<&Value> = decided["items"].as_array().unwrap().iter().map(|one| &one["starts"]).collect();
    assert_eq!(starts, [true, false], "{decided}");
    setup.service.settle(run).await.unwrap();
    assert_eq!(setup.service.output(run).await.unwrap(), 500);

    // The same event again does nothing more, whoever waits by now.
    let late = setup.begin(WAITS).await;
    setup.service.settle(late).await.unwrap();
    let again = setup.told("/api/v1/events", event, 200).await;
    assert_eq!(
        (&again["repeated"], &again["started"], &again["woken"]),
        (&json!(true), &did["started"], &did["woken"])
    );
    assert!(!setup.service.row(late).await.unwrap().summary.status.is_final());
    let twisted = json!({ "type": "order.paid", "id": "e-7", "data": {} });
    setup.told("/api/v1/events", twisted, 409).await;
    setup.told("/api/v1/events", json!({ "type": "" }), 422).await;
}

/// Calls a tool as an assistant does.
async fn call_tool(setup: &Setup, tool: &str, arguments: Value) -> Value {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": { "name": "test", "version": "1" },
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
    let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params });
    let request = setup.request(Method::POST, "/mcp").json(&body).header("mcp-method", "tools/call");
    let request = request.header("mcp-name", tool).header("mcp-protocol-version", "2026-07-28");
    let answer = request.header("accept", "application/json, text/event-stream").send().await.unwrap();
    let text = answer.text().await.unwrap();
    let last = text.lines().filter_map(|line| line.strip_prefix("data:")).rfind(|data| !data.trim().is_empty());
    let answer: Value = serde_json::from_str(last.unwrap_or(&text)).unwrap();
    assert!(answer["result"]["isError"] != true && answer["error"].is_null(), "{answer}");
    answer["result"]["structuredContent"].clone()
}

// keeps A-32
#[tokio::test(flavor = "multi_thread")]
async fn an_assistant_replaces_only_the_schedule_that_it_set() {
    let setup = Setup::new().await;
    setup.keep(TICK).await;
    let path = "/api/v1/workflows/tick/schedules";
    for body in [json!({ "cron": "every weekday at 9am" }), json!({ "every": "2h" })] {
        setup.told(path, body, 201).await;
    }
    for (kind, field, time) in [
        ("scheduled", "schedule_time", "tomorrow 9am"),
        ("scheduled", "schedule_time", "tomorrow 10am"),
        ("recurring", "cron_expression", "daily at 7am"),
    ] {
        let set =
            call_tool(&setup, "schedule_workflow", json!({ "id": "tick", "schedule_type": kind, field: time })).await;
        assert_eq!(set["set_by"], "schedule_workflow", "{set}");
        let (_, list) = setup.get(path).await;
        let words: Vec<&str> =
            list["items"].as_array().unwrap().iter().map(|one| one["schedule"].as_str().unwrap()).collect();
        let others = ["every 1h", "cron \"0 9 * * MON-FRI\" UTC", "every 2h", set["schedule"].as_str().unwrap()];
        assert!(words.len() == 4 && others.iter().all(|one| words.contains(one)), "{time}: {words:?}");
    }
    // A call that replaces means the assistant's, too.
    setup.told(path, json!({ "every": "15m", "replaces": true }), 201).await;
    assert_eq!(setup.get(path).await.1["items"].as_array().unwrap().len(), 2);
}
