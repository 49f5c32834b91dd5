//! Secrets appear in no database file, output or error, whoever repeats them.

use std::path::Path;

use relais_testkit::{Behaviour, ModelServer, Received, Said};

use crate::home::{Home, Outcome};
use crate::servers::Shop;

const KEY: &str = "sk-canary-31337-abcdef";
const SECRET: &str = "canary-of-the-config-4711";
const TOKEN: &str = "canary-of-the-shop-0815";

/// Repeats its key, what it was asked, and what the tool said.
fn parrot(received: &Received) -> Behaviour {
    let heard = received.body["messages"].to_string();
    let key = received.header("authorization").unwrap_or_default().to_owned();
    let offered = received.body["tools"][0]["function"]["name"].as_str().unwrap_or_default();
    match heard.contains("\"role\":\"tool\"") {
        false => Behaviour::Say(Said::text(&format!("{key} {SECRET}")).call(offered, "{\"n\": 1}")),
        true => Behaviour::say(&format!("{key} {SECRET} {TOKEN} {heard}")),
    }
}

fn no_canary(place: &str, bytes: &[u8]) {
    for canary in [KEY, SECRET, TOKEN] {
        let found = bytes.windows(canary.len()).any(|window| window == canary.as_bytes());
        assert!(!found, "{canary} in {place}: {}", String::from_utf8_lossy(bytes));
    }
}

fn no_canary_under(folder: &Path) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => no_canary_under(&path),
            false if path.ends_with("relais.toml") => {}
            false => no_canary(&path.display().to_string(), &std::fs::read(&path).unwrap()),
        }
    }
}

fn told(home: &Home, words: &[&str]) -> Outcome {
    let outcome = home.relais(words);
    no_canary("stdout", outcome.stdout.as_bytes());
    no_canary("stderr", outcome.stderr.as_bytes());
    outcome
}

fn home(server: &ModelServer) -> (Home, Shop) {
    let home =
        Home::new().set("OPENAI_BASE_URL", &server.openai_url()).set("OPENAI_API_KEY", KEY).set("SHOP_TOKEN", TOKEN);
    let shop = Shop::new(&home);
    std::fs::write(home.data().join("relais.toml"), format!("[secrets]\nvault = \"{SECRET}\"\n")).unwrap();
    let file = format!(
        "name: leaky\nmcp: {{ shop: {{ command: {}, env: {{ SHOP_TOKEN: \"${{SHOP_TOKEN}}\" }} }} }}\n\
         agents: {{ a: {{ model: openai/gpt-4o-mini, instructions: Hi., tools: [\"mcp:shop/confide\"] }} }}\n\
         steps:\n  - {{ id: ask, agent: a, prompt: hello }}\n\
         \x20 - {{ id: keep, tool: write_file, with: {{ path: said.txt, content: \"{{{{ steps.ask.output }}}}\" }} }}\n",
        shop.command()
    );
    home.file("leaky.yaml", &file);
    (home, shop)
}

#[test]
fn canaries_are_nowhere() {
    let server = ModelServer::start();
    server.answer_by(parrot);
    let (home, shop) = home(&server);
    told(&home, &["--verbose", "run", "leaky.yaml"]).expect(0);
    assert_eq!(shop.calls("confide").len(), 1);
    told(&home, &["show", "--last", "--json"]).expect(0);
    told(&home, &["show", "--last", "--step", "ask"]).expect(0);
    told(&home, &["run", "leaky.yaml", "--json"]).expect(0);
    no_canary_under(home.data());
}

#[test]
fn nor_in_errors() {
    let server = ModelServer::start();
    server.always(Behaviour::body(
        400,
        "application/json",
        format!("{{\"error\":{{\"message\":\"bad key {KEY} {SECRET}\"}}}}"),
    ));
    let (home, _shop) = home(&server);
    told(&home, &["run", "leaky.yaml"]).expect(1);
    told(&home, &["show", "--last"]).expect(0);
    told(&home, &["models"]).expect(0);
    told(&home, &["doctor"]);
    no_canary_under(home.data());
}
