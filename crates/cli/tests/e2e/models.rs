//! Models that misbehave: each ends in a clear error or a recovery.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::Value;

use crate::home::Home;

const PLAIN: &str = "name: plain\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }\n\
                     steps: [{ id: ask, agent: a, prompt: hello }]\n";
const TYPED: &str = "name: typed\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi., output: { n: integer } } }\n\
                     steps: [{ id: ask, agent: a, prompt: hello }]\noutput: \"{{ steps.ask.output.n }}\"\n";
const TOOLS: &str = "name: tools\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi., tools: [list_files] } }\n\
                     steps: [{ id: ask, agent: a, prompt: hello }]\n";

fn home(server: &ModelServer, file: &str) -> Home {
    let home = Home::with_model(server);
    home.file("flow.yaml", file);
    home
}

/// The model misbehaves in these ways one after the other, then says `fine`.
fn recovers(file: &str, behaviours: Vec<Behaviour>, result: &str) -> (ModelServer, Value) {
    let server = ModelServer::start();
    server.always(Behaviour::say("fine"));
    behaviours.into_iter().for_each(|behaviour| server.push(behaviour));
    let home = home(&server, file);
    let outcome = home.relais(&["run", "flow.yaml"]).expect(0);
    assert_eq!(outcome.stdout.trim(), result);
    (server, home.expect_status("completed"))
}

/// The model always misbehaves in this way.
fn fails(file: &str, behaviour: Behaviour, kind: &str, parts: &[&str]) -> ModelServer {
    let server = ModelServer::start();
    server.always(behaviour);
    let home = home(&server, file);
    home.relais(&["run", "flow.yaml"]).expect(1).says(&[kind]);
    home.expect_failure(kind, parts);
    server
}

/// Text of the messages that a model was last sent.
fn last_heard(server: &ModelServer) -> String {
    server.received().last().unwrap().body["messages"].to_string()
}

#[test]
fn html_is_told_as_what_it_is() {
    fails(PLAIN, Behaviour::html(200), "provider", &["HTML"]);
}

#[test]
fn a_wrong_key_is_told_at_once() {
    let server = fails(PLAIN, Behaviour::status(401), "config", &["401"]);
    assert_eq!(server.received().len(), 1);
}

#[test]
fn a_redirect_is_not_followed_with_the_key() {
    let other = ModelServer::start();
    fails(PLAIN, Behaviour::redirect(&format!("{}/v1/chat/completions", other.url())), "provider", &["redirect"]);
    assert!(other.received().iter().all(|received| received.header("authorization").is_none()));
}

#[test]
fn errors_of_the_server_are_tried_four_times() {
    let server = fails(PLAIN, Behaviour::status(500).header("retry-after-ms", "1"), "provider", &["500", "4 tries"]);
    assert_eq!(server.received().len(), 4);
}

#[test]
fn half_a_stream_is_asked_again() {
    let (server, trace) = recovers(PLAIN, vec![Behaviour::Half(Said::text("never whole"))], "fine");
    assert_eq!((server.received().len(), &trace["usage"]["retries"]), (2, &serde_json::json!(1)));
}

#[test]
fn a_broken_connection_is_asked_again() {
    recovers(PLAIN, vec![Behaviour::Break(Said::text("cut off here"))], "fine");
}

#[test]
fn three_empty_answers_are_a_loop() {
    let server = fails(PLAIN, Behaviour::say(""), "loop", &["3 times without saying anything"]);
    assert_eq!(server.received().len(), 3);
}

#[test]
fn invalid_json_is_corrected_or_a_schema_error() {
    let (server, _) = recovers(TYPED, vec![Behaviour::say("{\"n\": oops"), Behaviour::say("{\"n\": 4}")], "4");
    assert_eq!(server.received().len(), 2);
    let server = fails(TYPED, Behaviour::say("I would rather not"), "schema", &["n"]);
    assert_eq!(server.received().len(), 4);
}

#[test]
fn a_tool_that_does_not_exist_is_told_to_the_model() {
    let (server, _) = recovers(TOOLS, vec![Behaviour::Say(Said::text("").call("list_filez", "{}"))], "fine");
    assert!(last_heard(&server).contains("list_files"), "{}", last_heard(&server));
}

#[test]
fn arguments_that_are_not_json_are_told_to_the_model() {
    let (server, _) = recovers(TOOLS, vec![Behaviour::Say(Said::text("").call("list_files", "{\"path\": "))], "fine");
    assert!(last_heard(&server).contains("JSON"), "{}", last_heard(&server));
}

#[test]
fn fifty_tool_calls_at_once_are_all_answered() {
    let fifty = (0..50).fold(Said::text(""), |said, n| said.call("list_files", &format!("{{\"path\": \"f{n}\"}}")));
    let (server, trace) = recovers(TOOLS, vec![Behaviour::Say(fifty)], "fine");
    let messages = server.received().last().unwrap().body["messages"].as_array().unwrap().clone();
    assert_eq!(messages.iter().filter(|m| m["role"] == "tool").count(), 50);
    assert_eq!(trace["usage"]["tool_calls"], 50);
}

#[test]
fn the_same_call_for_ever_is_a_loop() {
    fails(TOOLS, Behaviour::Say(Said::text("").call("list_files", "{}")), "loop", &["list_files"]);
}

#[test]
fn a_storm_of_429_slows_runs_down_and_fails_none() {
    let server = ModelServer::start();
    let refused = AtomicUsize::new(0);
    server.answer_by(move |_: &Received| match refused.fetch_add(1, Ordering::Relaxed) {
        0..12 => Behaviour::status(429).header("retry-after-ms", "40"),
        _ => Behaviour::say("fine"),
    });
    let home = home(&server, PLAIN);
    let runs: Vec<_> = (0..4).map(|_| home.start(&["run", "flow.yaml"])).collect();
    for run in runs {
        assert_eq!(run.end().expect(0).stdout.trim(), "fine");
    }
    assert_eq!(server.received().len(), 16);
}

#[test]
fn a_silent_model_ends_with_the_step_timeout() {
    let server = ModelServer::start();
    server.always(Behaviour::Silence);
    let home = home(&server, &PLAIN.replace("prompt: hello", "prompt: hello, timeout: 1s"));
    home.relais(&["run", "flow.yaml"]).expect(1);
    home.expect_failure("timeout", &["1s"]);
}

#[test]
fn the_next_model_takes_over_and_nobody_there_is_told() {
    let server = ModelServer::start();
    server.answer_by(|received: &Received| match received.body["model"].as_str() {
        Some("gpt-4o") => Behaviour::status(503).header("retry-after-ms", "1").after(Duration::ZERO),
        _ => Behaviour::say("fine"),
    });
    let listed = PLAIN.replace("openai/gpt-4o-mini", "[openai/gpt-4o, openai/gpt-4o-mini]");
    let home = home(&server, &listed);
    assert_eq!(home.relais(&["run", "flow.yaml"]).expect(0).stdout.trim(), "fine");
    let gone = Home::new().set("OPENAI_BASE_URL", "http://127.0.0.1:1/v1").set("OPENAI_API_KEY", "sk-test-key");
    gone.file("flow.yaml", PLAIN);
    gone.relais(&["run", "flow.yaml"]).expect(1);
    gone.expect_failure("transport", &["127.0.0.1:1"]);
}

/// The models that were asked, in order.
fn asked(server: &ModelServer) -> Vec<String> {
    server.received().iter().map(|received| received.body["model"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn a_stalled_stream_goes_to_the_next_model_after_one_more_try() {
    let server = ModelServer::start();
    server.answer_by(|received: &Received| match received.body["model"].as_str() {
        Some("slow") => Behaviour::Stall(Said::text("I am thin")),
        _ => Behaviour::say("fine"),
    });
    let home = home(&server, &PLAIN.replace("openai/gpt-4o-mini", "[openai/slow, openai/quick]"));
    home.file("data/relais.toml", "[providers.openai]\nstall_s = 1\n");
    assert_eq!(home.relais(&["run", "flow.yaml"]).expect(0).stdout.trim(), "fine");
    assert_eq!(asked(&server), ["slow", "slow", "quick"]);
    let trace = home.expect_status("completed");
    let first = &trace["steps"][0]["calls"][0];
    assert!(first["error"]["message"].as_str().unwrap().contains("sent nothing for 1 s (after 2 tries)"), "{first:#}");
}

#[test]
fn how_often_a_provider_is_tried_can_be_set() {
    let server = ModelServer::start();
    server.always(Behaviour::status(503));
    let home = home(&server, PLAIN);
    home.file("data/relais.toml", "[providers.openai]\ntries = 1\n");
    home.relais(&["run", "flow.yaml"]).expect(1);
    home.expect_failure("provider", &["503"]);
    assert_eq!(server.received().len(), 1);
    home.file("data/relais.toml", "[providers.openai]\ntries = 0\n");
    home.relais(&["run", "flow.yaml"]).expect(2).says(&["`tries` must be at least 1"]);
}

#[test]
fn a_429_that_outlasts_the_step_is_a_rate_limit() {
    let server = ModelServer::start();
    server.always(Behaviour::status(429).header("retry-after", "3600"));
    let home = home(&server, &PLAIN.replace("prompt: hello", "prompt: hello, timeout: 20s"));
    home.relais(&["run", "flow.yaml"]).expect(1).says(&["rate_limit", "429"]);
    home.expect_failure("rate_limit", &["(429)", "when the step's time is over"]);
}

#[test]
fn a_wait_for_a_provider_is_shown_and_kept() {
    let server = ModelServer::start();
    server.push(Behaviour::status(429).header("retry-after-ms", "3000"));
    server.push(Behaviour::say("fine"));
    let home = home(&server, PLAIN);
    home.relais(&["run", "flow.yaml"]).expect(0).says(&["openai limits how many requests it takes (429); waiting "]);
    let call = home.expect_status("completed")["steps"][0]["calls"][0].clone();
    assert_eq!(call["usage"]["waits"], 1);
    assert!(call["usage"]["wait_ms"].as_u64().unwrap() >= 2_000, "{call:#}");
    home.relais(&["show", "--last"]).expect(0).prints(&["waited for the provider once, "]);
}

// keeps C-21, C-32
#[test]
fn a_rate_limit_is_a_failed_attempt_where_the_step_retries_on_it() {
    let server = ModelServer::start();
    server.always(Behaviour::status(429).header("retry-after", "3600"));
    let home = home(
        &server,
        "agents: { a: { model: openai/m, instruction: Hi. } }\n\
         workflow:\n  - type: agent\n    name: a\n    timeout: 10m\n\
         \x20   retry: { max_attempts: 2, on: [rate_limit], initial_delay_seconds: 1 }\n",
    );
    home.relais(&["run", "flow.yaml", "hello"]).expect(1).says(&["rate_limit"]);
    let trace = home.expect_failure("rate_limit", &["429"]);
    assert_eq!(trace["steps"][0]["attempts"], 3);
}

#[test]
fn a_provider_that_counts_nothing_escapes_no_budget() {
    let server = ModelServer::start();
    let uncounted = Said { prompt_tokens: 0, completion_tokens: 0, ..Said::text(&"four hundred words ".repeat(140)) };
    server.always(Behaviour::Say(uncounted));
    let home = home(
        &server,
        "budget: { tokens: 7k }\nagents: { a: { model: openai/m, instructions: Hi. } }\n\
         steps:\n  - { id: again, repeat: [{ id: ask, agent: a, prompt: hello }], until: 'false', max: 20 }\n",
    );
    let outcome = home.relais(&["run", "flow.yaml"]).expect(1).says(&["openai/m reports no tokens"]);
    assert_eq!(outcome.stderr.matches("reports no tokens").count(), 1, "said once");
    let trace = home.expect_failure("budget", &[]);
    assert_eq!(server.received().len(), 4);
    assert_eq!(
        trace["usage"]["estimated"].as_u64(),
        Some(trace["usage"]["prompt"].as_u64().unwrap() + trace["usage"]["completion"].as_u64().unwrap())
    );
    home.relais(&["show", "--last"]).expect(0).prints(&["tokens are an estimate", "~"]);
}

#[test]
fn a_text_that_was_cut_off_is_gone_on_with() {
    let cut = |text: &str| Behaviour::Say(Said { cut: true, ..Said::text(text) });
    let (server, trace) = recovers(PLAIN, vec![cut("Once up"), Behaviour::say("on a time.")], "Once upon a time.");
    assert!(last_heard(&server).contains("exactly where it stopped"));
    assert_eq!(trace["steps"][0]["calls"][0]["notes"][0], "the answer was cut off at the output limit");
    let strict = PLAIN.replace("instructions: Hi.", "instructions: Hi., on_cut: fail");
    fails(&strict, cut("Once up"), "limit", &["cut off at the output limit"]);
}

#[test]
fn a_provider_that_fails_in_a_row_is_left_out_and_shown_so() {
    let models = ModelServer::start();
    models.answer_by(|received: &Received| match received.body["model"].as_str() {
        Some("down") => Behaviour::status(503),
        _ => Behaviour::say("fine"),
    });
    let home = home(&models, "");
    let settings = format!(
        "[providers.openai]\ntries = 1\nbreak_after = 2\ncooldown_s = 600\n[providers.other]\nbase_url = \"{}\"\n",
        models.openai_url()
    );
    home.file("data/relais.toml", &settings);
    let server = crate::serving::Server::start(&home);
    let file = "name: f\nagents: { a: { model: [openai/down, other/up], instructions: Hi. } }\n\
                steps: [{ id: ask, agent: a, prompt: hello }]\n";
    home.file("flow.yaml", file);
    let address = format!("http://{}", server.address);
    for _ in 0..3 {
        home.relais(&["run", "flow.yaml", "--server", &address]).expect(0).prints(&["fine"]);
    }
    assert_eq!(asked(&models), ["down", "up", "down", "up", "up"], "left out the third time");
    home.relais(&["models", "--server", &address])
        .expect(0)
        .prints(&["left out for", "it failed several times in a row"]);
    let (_, metrics) = server.ask("GET", "/metrics", b"");
    assert!(metrics.contains("relais_governor_failures{provider=\"openai\"} 2"), "{metrics}");
}

#[test]
fn without_a_key_the_variables_are_named() {
    let home = Home::new();
    home.file("flow.yaml", PLAIN);
    home.relais(&["run", "flow.yaml"]).expect(2).says(&["OPENAI_API_KEY", "--simulate"]);
}
