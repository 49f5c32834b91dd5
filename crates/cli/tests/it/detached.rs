//! Work left to a background process.

use relais_testkit::Behaviour;

use crate::support::{Home, LIMIT, ONE_CALL, QUESTION};

#[test]
fn a_detached_run_goes_on_by_itself() {
    let home = Home::new(ONE_CALL);
    let started = home.relais(&["run", "flow.yaml", "--detach"]);
    let id = started.expect(0).out.trim();
    assert_eq!(id.len(), 36, "{id}");
    home.wait_for_status("completed");
    assert_eq!(home.runs()[0]["run"], id);
    assert_eq!(home.server.received().len(), 1);
}

#[test]
fn a_detached_run_is_cancelled_from_here() {
    let home = Home::new(ONE_CALL);
    home.server.push(Behaviour::Silence);
    home.relais(&["run", "flow.yaml", "--detach"]).expect(0);
    assert!(home.server.wait_for(1, LIMIT));
    home.relais(&["cancel", "--last"]).expect(0);
    home.wait_for_status("cancelled");
}

#[test]
fn an_answer_may_be_left_to_the_background() {
    let home = Home::new(QUESTION);
    home.relais(&["run", "flow.yaml", "--detach"]).expect(0);
    home.wait_for_status("waiting");
    home.relais(&["answer", "--last", "yes", "--detach"]).expect(0);
    home.wait_for_status("completed");
}
