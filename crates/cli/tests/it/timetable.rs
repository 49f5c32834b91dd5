//! `relais schedule`: the same against the local database and a server, and a server on which times come.

use serde_json::{Value, json};

use crate::serving::Server;
use crate::support::{Home, json_lines};

const TICK: &str = "name: tick\ninput: { n?: integer }\nsteps:\n  - { id: say, set: { word: hello } }\n";

/// Sets, lists, pauses and removes a schedule; `at`: nothing, or `--server URL`.
fn goes_through(home: &Home, at: &[&str]) {
    let relais = |words: &[&str]| home.relais(&[words, at].concat());
    relais(&["schedule"]).expect(0).says("nothing is scheduled");
    let set = relais(&["schedule", "set", "tick", "--cron", "every weekday at 9am", "--timezone", "Europe/Paris"]);
    set.expect(0).says("cron \"0 9 * * MON-FRI\" Europe/Paris: ").says(" 09:00 +0");
    let id = set.out.trim();
    let words = ["schedule", "set", "tick", "--at", "2090-01-02T03:04:00Z", "--input", "n=5", "--json"];
    let once = &json_lines(&relais(&words).expect(0).out)[0];
    assert_eq!(once["next_times"], json!(["2090-01-02T03:04:00.000Z"]), "{once}");
    let listed = relais(&["schedule", "--workflow", "tick", "--json"]);
    assert_eq!(json_lines(&listed.expect(0).out).len(), 2);
    relais(&["schedule", "pause", id]).expect(0).says("is paused");
    let listed = relais(&["schedule"]);
    assert!(listed.expect(0).out.contains("never: it is paused"), "{}", listed.out);
    assert!(listed.out.contains(" tick "), "{}", listed.out);
    relais(&["schedule", "resume", id]).expect(0).says("goes on");
    relais(&["workflows", "pause", "tick"]).expect(0);
    for one in json_lines(&relais(&["schedule", "--json"]).expect(0).out) {
        let shown = (&one["off"], &one["active"], &one["next_times"], &one["workflow"]);
        assert_eq!(shown, (&json!("the workflow is paused"), &json!(false), &json!([]), &json!("tick")));
    }
    relais(&["workflows", "resume", "tick"]).expect(0);
    assert_ne!(json_lines(&relais(&["schedule", "--json"]).expect(0).out)[0]["next_times"], json!([]));
    relais(&["schedule", "decisions", id]).expect(0).says("nothing was decided yet");
    let preview = relais(&["schedule", "preview", "--every", "daily@09:00"]);
    assert_eq!(preview.expect(0).says("daily@09:00 UTC").out.lines().count(), 5);
    for wrong in [
        (vec!["set", "tick", "--cron", "now and then"], "schedules that are understood"),
        (vec!["set", "tick", "--every", "1h", "--input", "m=5"], "has no input `m`"),
        (vec!["set", "tock", "--every", "1h"], "tock"),
        (vec!["set", "tick", "--every", "1h", "--overlap", "never"], "cancel_running"),
        (vec!["set", "tick", "--every", "1h", "--cron", "@daily"], "cannot be used with"),
        (vec!["set", "tick"], "--at"),
    ] {
        let said = relais(&[vec!["schedule"], wrong.0.clone()].concat());
        assert!(said.code != Some(0) && said.err.contains(wrong.1), "{wrong:?}: {}", said.err);
    }
    for id in [id, once["id"].as_str().unwrap()] {
        relais(&["schedule", "remove", id]).expect(0);
    }
    relais(&["schedule", "remove", id]).says(&format!("there is no schedule {id}"));
    relais(&["schedule"]).expect(0).says("nothing is scheduled");
}

// keeps
#[test]
fn a_schedule_is_set_and_removed_here_and_on_a_server() {
    let home = Home::new(TICK);
    home.relais(&["workflows", "save", "flow.yaml"]).expect(0);
    goes_through(&home, &[]);
    let server = Server::start(&home, &[]);
    goes_through(&home, &["--server", &format!("http://{}", server.address)]);
    server.signal("-TERM");
    server.ended().expect(0);
}

// keeps A-03
#[test]
fn a_server_starts_runs_when_their_time_comes() {
    let home = Home::new(TICK);
    let executor = json!({ "executor_id": "a", "name": "A", "model": "sim/any", "system_prompt": "Say a word.",
        "tools": [], "output_schema": { "word": "str" } });
    let spec = json!({ "name": "spec", "executors": [executor], "schedule_type": "recurring",
        "cron_expression": "* * * * * *" });
    home.write("spec.json", &spec.to_string());
    home.relais(&["workflows", "save", "flow.yaml"]).expect(0);
    home.relais(&["workflows", "save", "spec.json"]).expect(0);
    let server = Server::start(&home, &[]);
    let at = format!("http://{}", server.address);
    let set = home.relais(&["schedule", "set", "tick", "--every", "1s", "--server", &at]);
    let id = set.expect(0).out.trim();
    let started = |name: &str| home.runs().iter().filter(|run| run["workflow"] == name).count();
    home.wait_until("both start again and again", || started("tick") >= 2 && started("spec") >= 2);
    let decided = json_lines(&home.relais(&["schedule", "decisions", id, "--json", "--server", &at]).out);
    let times: Vec<&Value> = decided.iter().filter(|one| one["starts"] == true).map(|one| &one["time"]).collect();
    assert!(times.len() >= 2 && times.windows(2).all(|pair| pair[0] != pair[1]), "{decided:?}");
    server.signal("-TERM");
    server.ended().expect(0);
}

#[test]
fn an_event_tells_its_workflows_by_name() {
    let home =
        Home::new("name: on payment\nsteps: [{ id: say, set: { word: hello } }]\ntriggers: [{ event: order.paid }]\n");
    home.relais(&["workflows", "save", "flow.yaml"]).expect(0);
    let told = home.relais(&["event", "order.paid"]);
    assert!(told.expect(0).out.contains("on payment"), "{}", told.out);
}
