//! Ctrl-C, SIGTERM: the run ends or is let go in good order, and no child process is left.

use relais_testkit::{Behaviour, ModelServer, Said};

use crate::home::Home;
use crate::servers::Shop;

fn hanging(shop: &Shop) -> String {
    format!(
        "name: hanging\nmcp: {{ shop: {{ command: {} }} }}\n\
         steps: [{{ id: look, tool: \"mcp:shop/look\" }}]\n\
         on_exit:\n  cancel: [{{ id: tidy, tool: write_file, with: {{ path: tidy.txt, content: tidied }} }}]\n\
         \x20 success: [{{ id: cheer, tool: write_file, with: {{ path: cheer.txt, content: hurray }} }}]\n",
        shop.command()
    )
}

fn started(home: &Home) -> (Shop, crate::home::Process) {
    let shop = Shop::new(home);
    shop.feel("hang");
    home.file("hanging.yaml", &hanging(&shop));
    let process = home.start(&["run", "hanging.yaml"]);
    shop.wait_for_call("look");
    (shop, process)
}

#[test]
fn ctrl_c_cancels_and_leaves_nothing_behind() {
    let home = Home::new();
    let (shop, process) = started(&home);
    process.signal("INT");
    process.end().expect(130).says(&["cancel"]);
    shop.wait_until_gone();
    let trace = home.expect_status("cancelled");
    let step = |path: &str| trace["steps"].as_array().unwrap().iter().find(|s| s["path"] == path).cloned();
    assert_eq!(step("look").unwrap()["status"], "cancelled");
    assert_eq!(step("on_exit/tidy").unwrap()["status"], "completed", "{trace:#}");
    assert_eq!(step("on_exit/cheer").unwrap()["status"], "skipped");
}

#[test]
fn a_cancelled_run_can_be_resumed() {
    let home = Home::new();
    let (shop, process) = started(&home);
    process.signal("INT");
    process.end().expect(130);
    shop.feel("answer");
    home.relais(&["resume", "--last"]).expect(0);
    home.expect_status("completed");
}

#[test]
fn sigterm_lets_go_and_the_run_goes_on_later() {
    let home = Home::new();
    let (shop, process) = started(&home);
    process.signal("TERM");
    process.end().expect(143).says(&["relais resume"]);
    shop.wait_until_gone();
    shop.feel("answer");
    home.relais(&["resume", "--last"]).expect(0);
    home.expect_status("completed");
}

#[test]
fn a_second_ctrl_c_stops_at_once() {
    let home = Home::new();
    let shop = Shop::new(&home);
    shop.feel("hang");
    let file = hanging(&shop).replace("tool: write_file, with: { path: tidy.txt, content: tidied }", "wait: 40s");
    home.file("hanging.yaml", &file);
    let process = home.start(&["run", "hanging.yaml"]);
    shop.wait_for_call("look");
    process.signal("INT");
    crate::home::wait_until("the exit step waits", || (home.count("entered", |_| true) >= 2).then_some(()));
    process.signal("INT");
    process.end().expect(130);
    shop.wait_until_gone();
}

#[test]
fn ctrl_c_closes_a_model_stream() {
    let server = ModelServer::start();
    server.always(Behaviour::Stall(Said::text("never ends")));
    let home = Home::with_model(&server);
    home.file(
        "flow.yaml",
        "name: flow\nagents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }\n\
         steps: [{ id: ask, agent: a, prompt: hello }]\n",
    );
    let process = home.start(&["run", "flow.yaml"]);
    assert!(server.wait_for(1, crate::home::PATIENCE));
    process.signal("INT");
    process.end().expect(130);
    home.expect_status("cancelled");
    server.always(Behaviour::say("fine"));
    assert_eq!(home.relais(&["resume", "--last"]).expect(0).stdout.trim(), "fine");
}
