//! Several processes on one database: they share it, and no run has two of them at work.

use relais_testkit::{Behaviour, ModelServer};

use crate::home::{Home, wait_until};
use crate::servers::Shop;

const ASKING: &str = "name: asking\nsteps:\n  - id: sure\n    ask: { question: Sure?, approve: true }\n\
                      output: \"{{ steps.sure.output }}\"\n";

fn waits_for_person(home: &Home) {
    let asked = |event: &serde_json::Value| event["command"].get("ask_person").is_some();
    wait_until("the run asks a person", || (home.count("asked", asked) > 0).then_some(()));
}

#[test]
fn four_runs_at_once_share_a_home() {
    let server = ModelServer::start();
    server.always(Behaviour::say("fine"));
    let home = Home::with_model(&server);
    home.file(
        "flow.yaml",
        "name: flow\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }\nsteps:\n\
         \x20 - id: many\n    for_each: \"range(10)\"\n    do: { id: ask, agent: a, prompt: \"{{ item }}\" }\n\
         output: \"{{ steps.many.output.count }}\"\n",
    );
    let runs: Vec<_> = (0..4).map(|_| home.start(&["run", "flow.yaml"])).collect();
    for run in runs {
        assert_eq!(run.end().expect(0).stdout.trim(), "10");
    }
    assert_eq!(server.received().len(), 40);
    assert_eq!(home.count("closed", |closed| closed["status"] == "completed"), 4);
}

#[test]
fn a_second_terminal_watches_and_answers() {
    let home = Home::new();
    home.file("asking.yaml", ASKING);
    let first = home.start(&["run", "asking.yaml", "--wait"]);
    waits_for_person(&home);
    let watching = home.start(&["watch", "--last"]);
    home.relais(&["answer", "--last", "yes"]).expect(0);
    assert_eq!(first.end().expect(0).stdout.trim(), "true");
    watching.end().expect(0).says(&["sure"]);
    assert_eq!(home.count("received", |_| true), 1);
}

#[test]
fn a_second_terminal_cancels() {
    let home = Home::new();
    let shop = Shop::new(&home);
    shop.feel("hang");
    let file = format!(
        "name: hanging\nmcp: {{ shop: {{ command: {} }} }}\nsteps: [{{ id: look, tool: \"mcp:shop/look\" }}]\n",
        shop.command()
    );
    home.file("hanging.yaml", &file);
    let first = home.start(&["run", "hanging.yaml"]);
    shop.wait_for_call("look");
    home.relais(&["cancel", "--last"]).expect(0);
    first.end().expect(130);
    shop.wait_until_gone();
    home.expect_status("cancelled");
}

#[test]
fn two_resumes_at_once_do_the_work_once() {
    let home = Home::new();
    let shop = Shop::new(&home);
    shop.feel("hang");
    let file = format!(
        "name: twice\nmcp: {{ shop: {{ command: {} }} }}\nsteps:\n\
         \x20 - {{ id: look, tool: \"mcp:shop/look\", with: {{ n: 1 }} }}\n\
         \x20 - {{ id: pay, tool: \"mcp:shop/pay\", with: {{ n: 2 }} }}\noutput: \"{{{{ steps.pay.output }}}}\"\n",
        shop.command()
    );
    home.file("twice.yaml", &file);
    let first = home.start(&["run", "twice.yaml"]);
    shop.wait_for_call("look");
    first.kill();
    shop.feel("slow");
    let resumes: Vec<_> = (0..3).map(|_| home.start(&["resume", "--last"])).collect();
    for resume in resumes {
        let outcome = resume.end();
        // Whoever comes late finds it done or in other hands.
        assert!(matches!(outcome.code, Some(0 | 2)), "{outcome:?}");
    }
    wait_until("the run has ended", || (home.show()["status"] == "completed").then_some(()));
    assert_eq!((shop.calls("look").len(), shop.calls("pay").len()), (2, 1));
    assert_eq!(home.count("answered", |_| true), 2);
}

#[test]
fn a_resume_leaves_a_run_to_the_process_that_works_on_it() {
    let home = Home::new();
    let shop = Shop::new(&home);
    shop.feel("hang");
    let file = format!(
        "name: hanging\nmcp: {{ shop: {{ command: {} }} }}\nsteps: [{{ id: look, tool: \"mcp:shop/look\" }}]\n",
        shop.command()
    );
    home.file("hanging.yaml", &file);
    let first = home.start(&["run", "hanging.yaml"]);
    shop.wait_for_call("look");
    home.relais(&["resume", "--last"]).expect(0).says(&["another process works on run"]);
    assert_eq!(shop.calls("look").len(), 1);
    first.signal("INT");
    first.end().expect(130);
}

#[test]
fn a_run_that_waits_without_a_process_is_answered_or_cancelled() {
    let home = Home::new();
    home.file("asking.yaml", ASKING);
    home.relais(&["run", "asking.yaml"]).expect(3);
    home.relais(&["cancel", "--last"]).expect(0);
    home.expect_status("cancelled");
    home.relais(&["run", "asking.yaml"]).expect(3);
    home.relais(&["answer", "--last", "perhaps"]).expect(2);
    assert_eq!(home.relais(&["answer", "--last", "no"]).expect(0).stdout.trim(), "false");
    home.relais(&["answer", "--last", "yes"]).expect(2);
}

#[test]
fn a_detached_run_goes_on_alone() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "name: flow\nsteps: [{ id: rest, wait: 300ms }, { id: done, set: { n: 4 } }]\noutput: \"{{ vars.n }}\"\n",
    );
    let run = home.relais(&["run", "flow.yaml", "--detach"]).expect(0).stdout;
    home.relais(&["watch", run.trim()]).expect(0);
    assert_eq!(home.expect_status("completed")["output"]["value"], 4);
}
