//! Killed while it talks to real servers: nothing that was answered is asked again, and `once` is at most once.

use relais_testkit::{Behaviour, ModelServer, Received, Said};
use serde_json::Value;

use crate::home::{Home, wait_until};
use crate::servers::Shop;

const MODEL_CALLS: usize = 6;

/// A clerk that looks at one thing after the other, then says it is done.
fn clerk(received: &Received) -> Behaviour {
    let looked = received.body["messages"].as_array().map_or(0, |m| m.iter().filter(|m| m["role"] == "tool").count());
    match looked + 1 < MODEL_CALLS {
        true => Behaviour::Say(Said::text("").call("mcp_shop_look", &format!("{{\"n\": {looked}}}"))),
        false => Behaviour::say("all seen"),
    }
}

/// Offers the first tool it is offered, whatever its name on the wire is.
fn by_offered_name(received: &Received) -> Behaviour {
    let offered = received.body["tools"][0]["function"]["name"].as_str().unwrap_or_default().to_owned();
    match clerk(received) {
        Behaviour::Say(mut said) if !said.calls.is_empty() => {
            said.calls[0].name = offered;
            Behaviour::Say(said)
        }
        other => other,
    }
}

fn looking(shop: &Shop) -> String {
    format!(
        "name: looking\nmcp: {{ shop: {{ command: {} }} }}\n\
         agents: {{ clerk: {{ model: openai/gpt-4o-mini, instructions: Look., tools: [\"mcp:shop/look\"] }} }}\n\
         steps: [{{ id: ask, agent: clerk, prompt: Look at all }}]\n",
        shop.command()
    )
}

fn paying(shop: &Shop) -> String {
    format!(
        "name: paying\nmcp: {{ shop: {{ command: {} }} }}\nsteps:\n\
         \x20 - {{ id: pay, tool: \"mcp:shop/pay\", with: {{ n: 7 }} }}\n\
         \x20 - {{ id: look, tool: \"mcp:shop/look\", with: {{ n: 8 }} }}\n\
         output: \"{{{{ steps.pay.output }}}} and {{{{ steps.look.output }}}}\"\n",
        shop.command()
    )
}

fn answered(home: &Home, body: &str) -> usize {
    home.count("answered", |event| event["answer"]["body"].get(body).is_some())
}

#[test]
fn nothing_that_was_answered_is_asked_again() {
    let server = ModelServer::start();
    server.answer_by(by_offered_name);
    let home = Home::with_model(&server);
    let shop = Shop::new(&home);
    shop.feel("slow");
    home.file("looking.yaml", &looking(&shop));
    let mut kills = 0;
    for attempt in 1..=30 {
        if home.entries() > 0 && home.show()["status"] == "completed" {
            break;
        }
        let words: &[&str] = if home.entries() == 0 { &["run", "looking.yaml"] } else { &["resume", "--last"] };
        let before = home.entries();
        let mut process = home.start(words);
        let step = if attempt % 2 == 0 { 3 } else { 2 };
        wait_until("it gets on", || (home.entries() >= before + step || process.is_over()).then_some(()));
        if process.is_over() {
            process.end().expect(0);
            break;
        }
        kills += 1;
        process.kill();
    }
    assert!(kills >= 4, "only {kills} kills");
    let trace = home.expect_status("completed");
    assert_eq!(trace["output"]["value"], "all seen");
    // Each kill may cost the one call that was under way and had not been answered.
    let (replies, returns) = (answered(&home, "replied"), answered(&home, "returned"));
    assert_eq!((replies, returns), (MODEL_CALLS, MODEL_CALLS - 1));
    let (asked, called) = (server.received().len(), shop.calls("look").len());
    assert!(asked + called <= replies + returns + kills, "{asked} + {called} with {kills} kills");
    unrepeated(&shop.calls("look"), &trace);
    shop.wait_until_gone();
}

/// A call is only repeated where the trace says that it was interrupted, and with its key.
fn unrepeated(calls: &[Value], trace: &Value) {
    for call in calls {
        let same: Vec<&Value> = calls.iter().filter(|other| other["arguments"] == call["arguments"]).collect();
        assert!(same.iter().all(|other| other["key"] == call["key"]), "{same:?}");
    }
    let interrupted: u64 = steps_calls(trace).filter_map(|call| call["interrupted"].as_u64()).sum();
    assert!(calls.len() as u64 <= MODEL_CALLS as u64 - 1 + interrupted, "{calls:?}");
}

fn steps_calls(trace: &Value) -> impl Iterator<Item = &Value> {
    let steps = trace["steps"].as_array().unwrap().iter();
    steps.flat_map(|step| step["calls"].as_array().unwrap())
}

/// Killed in the middle of a `once` call: the run stands as uncertain until a person says what to do.
fn interrupted_payment(home: &Home) -> Shop {
    let shop = Shop::new(home);
    home.file("paying.yaml", &paying(&shop));
    shop.feel("hang");
    let process = home.start(&["run", "paying.yaml"]);
    shop.wait_for_call("pay");
    process.kill();
    shop.feel("answer");
    home.relais(&["resume", "--last"]).expect(1).says(&["uncertain"]);
    home.expect_failure("uncertain", &["pay"]);
    assert_eq!(shop.calls("pay").len(), 1);
    shop
}

#[test]
fn once_is_never_called_twice_by_itself() {
    let home = Home::new();
    let shop = interrupted_payment(&home);
    home.relais(&["resume", "--last"]).expect(2).says(&["--redo", "--assume"]);
    assert_eq!(shop.calls("pay").len(), 1);
}

#[test]
fn redo_calls_it_again_and_goes_on() {
    let home = Home::new();
    let shop = interrupted_payment(&home);
    let outcome = home.relais(&["resume", "--last", "--redo"]).expect(0);
    assert_eq!(outcome.stdout.trim(), "done 7 and done 8");
    assert_eq!((shop.calls("pay").len(), shop.calls("look").len()), (2, 1));
    home.expect_status("completed");
}

#[test]
fn assume_goes_on_without_a_call() {
    let home = Home::new();
    let shop = interrupted_payment(&home);
    let outcome = home.relais(&["resume", "--last", "--assume", "\"paid\""]).expect(0);
    assert_eq!(outcome.stdout.trim(), "paid and done 8");
    assert_eq!((shop.calls("pay").len(), shop.calls("look").len()), (1, 1));
}

/// The same inside an agent: the model has asked for the payment, and the program dies in it.
#[test]
fn an_agent_does_not_pay_twice_either() {
    let server = ModelServer::start();
    server.answer_by(|received: &Received| {
        let heard = received.body["messages"].to_string();
        let offered = received.body["tools"][0]["function"]["name"].as_str().unwrap_or_default();
        match heard.contains("\"role\":\"tool\"") {
            false => Behaviour::Say(Said::text("").call(offered, "{\"n\": 7}")),
            true => Behaviour::say(if heard.contains("paid in cash") { "settled" } else { "unclear" }),
        }
    });
    let home = Home::with_model(&server);
    let shop = Shop::new(&home);
    let file =
        looking(&shop).replace("mcp:shop/look", "mcp:shop/pay").replace("prompt: Look at all", "prompt: Pay, retry: 3");
    home.file("paying.yaml", &file);
    shop.feel("hang");
    let process = home.start(&["run", "paying.yaml"]);
    shop.wait_for_call("pay");
    process.kill();
    shop.feel("answer");
    home.relais(&["resume", "--last"]).expect(1);
    home.expect_failure("uncertain", &["pay"]);
    let outcome = home.relais(&["resume", "--last", "--assume", "\"paid in cash\""]).expect(0);
    assert_eq!(outcome.stdout.trim(), "settled");
    assert_eq!((shop.calls("pay").len(), server.received().len()), (1, 2));
}

/// A call that changes nothing when repeated is made again, with the key it had.
#[test]
fn an_idempotent_call_is_made_again_with_its_key() {
    let home = Home::new();
    let shop = Shop::new(&home);
    home.file("paying.yaml", &paying(&shop).replace("mcp:shop/pay", "mcp:shop/put"));
    shop.feel("hang");
    let process = home.start(&["run", "paying.yaml"]);
    shop.wait_for_call("put");
    process.kill();
    shop.feel("answer");
    let outcome = home.relais(&["resume", "--last"]).expect(0);
    assert_eq!(outcome.stdout.trim(), "done 7 and done 8");
    let calls = shop.calls("put");
    assert_eq!(calls.len(), 2);
    assert!(calls[0]["key"].is_string() && calls[0]["key"] == calls[1]["key"], "{calls:?}");
}

/// A model call in flight is asked again, and the trace shows it.
#[test]
fn a_model_call_in_flight_is_asked_again() {
    let server = ModelServer::start();
    server.push(Behaviour::Stall(Said::text("never ends")));
    server.always(Behaviour::say("fine"));
    let home = Home::with_model(&server);
    home.file(
        "flow.yaml",
        "name: flow\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }\n\
         steps: [{ id: ask, agent: a, prompt: hello }]\n",
    );
    let process = home.start(&["run", "flow.yaml"]);
    assert!(server.wait_for(1, crate::home::PATIENCE));
    process.kill();
    assert_eq!(home.relais(&["resume", "--last"]).expect(0).stdout.trim(), "fine");
    let trace = home.expect_status("completed");
    assert_eq!(trace["steps"][0]["calls"][0]["interrupted"], 1, "{trace:#}");
    assert!(trace["lost"]["tokens"].as_u64().unwrap() > 0, "{}", trace["lost"]);
    assert_eq!(server.received().len(), 2);
}

#[test]
fn a_run_that_nobody_works_on_any_more_is_shown_so() {
    let server = ModelServer::start();
    server.always(Behaviour::Silence);
    let home = Home::with_model(&server);
    home.file("asks.yaml", "name: asks\nagents: { a: { model: openai/gpt-4o-mini, instructions: Say. } }\nsteps: [{ id: ask, agent: a, prompt: Hello }]\n");
    let process = home.start(&["run", "asks.yaml"]);
    wait_until("it asks", || (!server.received().is_empty()).then_some(()));
    home.expect_status("running");
    home.relais(&["runs", "--status", "interrupted"]).expect(0).says(&["no runs"]);
    process.kill();
    let trace = home.expect_status("interrupted");
    let go_on = format!("relais resume {}", trace["run"].as_str().unwrap());
    home.relais(&["show", "--last"]).expect(0).prints(&["interrupted"]).says(&[&go_on]);
    home.relais(&["runs"]).expect(0).prints(&["interrupted"]).says(&[&go_on]);
    home.relais(&["runs", "--status", "interrupted"]).expect(0).prints(&["asks"]);
    home.relais(&["runs", "--status", "running"]).expect(0).says(&["no runs"]);
    server.always(Behaviour::say("hello"));
    home.relais(&["resume", "--last"]).expect(0);
    home.expect_status("completed");
}
