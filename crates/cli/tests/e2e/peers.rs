//! MCP servers that die, hang, send garbage or are not there: each ends in a clear error or a recovery.

use crate::home::Home;
use crate::servers::Shop;

fn flow(shop: &Shop, tool: &str) -> String {
    format!(
        "name: flow\nmcp: {{ shop: {{ command: {} }} }}\ntools: {{ \"mcp:shop/{tool}\": {{ timeout: 1s }} }}\n\
         steps: [{{ id: call, tool: \"mcp:shop/{tool}\", with: {{ n: 3 }} }}]\n",
        shop.command()
    )
}

fn check(mood: &str, tool: &str, kind: &str, parts: &[&str]) {
    let home = Home::new();
    let shop = Shop::new(&home);
    shop.feel(mood);
    home.file("flow.yaml", &flow(&shop, tool));
    home.relais(&["run", "flow.yaml"]).expect(1).says(&[kind]);
    home.expect_failure(kind, parts);
    shop.wait_until_gone();
    if kind == "uncertain" {
        assert_eq!(shop.calls(tool).len(), 1);
        return;
    }
    shop.feel("answer");
    assert_eq!(home.relais(&["resume", "--last"]).expect(0).stdout.trim(), "done 3");
}

#[test]
fn a_server_that_dies_in_a_call() {
    check("die", "look", "transport", &["shop"]);
    check("die", "pay", "uncertain", &["shop"]);
}

#[test]
fn a_server_that_hangs() {
    check("hang", "look", "timeout", &["took longer than 1 s"]);
    check("hang", "pay", "uncertain", &["shop"]);
}

#[test]
fn a_server_that_sends_garbage() {
    check("garbage", "look", "timeout", &["took longer than 1 s"]);
    check("garbage", "pay", "uncertain", &["shop"]);
}

#[test]
fn a_tool_that_says_no() {
    check("refuse", "look", "tool", &["done 3"]);
}

#[test]
fn a_server_that_is_not_there() {
    let home = Home::new();
    let file =
        "name: flow\nmcp: { shop: { command: [/no/such/shop] } }\nsteps: [{ id: call, tool: \"mcp:shop/look\" }]\n";
    home.file("flow.yaml", file);
    home.relais(&["run", "flow.yaml"]).expect(2).says(&["/no/such/shop"]);
    assert_eq!(home.entries(), 0);
}

#[test]
fn a_tool_that_the_server_does_not_have() {
    let home = Home::new();
    let shop = Shop::new(&home);
    home.file("flow.yaml", &flow(&shop, "lok"));
    home.relais(&["run", "flow.yaml"]).expect(2).says(&["mcp:shop/look"]);
    shop.wait_until_gone();
}
