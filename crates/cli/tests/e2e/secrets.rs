//! Secrets appear in no database file, output or error, whoever repeats them.

use std::path::Path;

use relais_testkit::{Behaviour, ModelServer, Received, Said};

use serde_json::{Value, json};

use crate::home::{Home, Outcome};
use crate::serve::{Server, body};
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
    home.file("leaky.yaml", &leaky(&shop));
    (home, shop)
}

fn leaky(shop: &Shop) -> String {
    format!(
        "name: leaky\nmcp: {{ shop: {{ command: {}, env: {{ SHOP_TOKEN: \"${{SHOP_TOKEN}}\" }} }} }}\n\
         agents: {{ a: {{ model: openai/gpt-4o-mini, instructions: Hi., tools: [\"mcp:shop/confide\"] }} }}\n\
         steps:\n  - {{ id: ask, agent: a, prompt: hello }}\n\
         \x20 - {{ id: keep, tool: write_file, with: {{ path: said.txt, content: \"{{{{ steps.ask.output }}}}\" }} }}\n",
        shop.command()
    )
}

/// What is sent to a server may name no variable, so this has no tool with a credential.
const SENT: &str = "name: leaky
agents: { a: { model: openai/gpt-4o-mini, instructions: Hi. } }
steps:
  - { id: ask, agent: a, prompt: hello }
  - { id: keep, tool: save_artifact, with: { name: said.txt, content: \"{{ steps.ask.output }}\" } }
";

/// Repeats its key, a secret of the configuration, and what it was asked.
fn echo(received: &Received) -> Behaviour {
    let key = received.header("authorization").unwrap_or_default();
    Behaviour::say(&format!("{key} {SECRET} {}", received.body["messages"]))
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
    told(&home, &["notifications"]).expect(0);
    told(&home, &["usage", "--json"]).expect(0);
    told(&home, &["models"]).expect(0);
    told(&home, &["doctor"]);
    no_canary_under(home.data());
}

#[test]
fn nor_in_calls_that_make_no_sense() {
    let server = ModelServer::start();
    server.push(Behaviour::Say(
        Said::text("").call(SECRET, "{}").call("mcp_shop_confide", &format!("{{\"n\": {KEY} {TOKEN}")),
    ));
    server.push(Behaviour::Say(Said::text("").call("mcp_shop_confide", &format!("{{\"{SECRET}\": \"{KEY}\"}}"))));
    server.always(Behaviour::say("done"));
    let (home, _shop) = home(&server);
    told(&home, &["--verbose", "run", "leaky.yaml"]).expect(0);
    told(&home, &["show", "--last", "--json"]).expect(0);
    no_canary_under(home.data());
}

#[test]
fn nor_in_a_tool_that_fails() {
    let server = ModelServer::start();
    let (home, shop) = home(&server);
    let file = format!(
        "name: failing\nmcp: {{ shop: {{ command: {}, env: {{ SHOP_TOKEN: \"${{SHOP_TOKEN}}\" }} }} }}\n\
         steps: [{{ id: call, tool: \"mcp:shop/confide\" }}]\n",
        shop.command()
    );
    home.file("failing.yaml", &file);
    shop.feel("refuse");
    told(&home, &["run", "failing.yaml"]).expect(1).says(&["[secret]"]);
    told(&home, &["show", "--last", "--json"]).expect(0);
    no_canary_under(home.data());
}

/// A server with a token, and everything that it answers looked through.
struct Watched {
    server: Server,
    token: String,
}

impl Watched {
    fn start(home: &Home) -> Watched {
        let token = told(home, &["token", "create", "--scope", "admin", "--name", "watch"]).expect(0).stdout;
        let server = Server::start(home, &["--require-token"]);
        Watched { server, token: token.trim().to_owned() }
    }

    fn ask(&self, method: &str, path: &str, body: Option<Value>) -> (u16, String) {
        let (status, answer) = self.server.ask(&self.token, method, path, body.as_ref());
        no_canary(path, answer.as_bytes());
        assert!(!answer.contains(&self.token), "{path}: {answer}");
        assert!(status < 500, "{path}: {answer}");
        (status, answer)
    }

    fn made(&self, path: &str, wanted: Value) -> String {
        let (status, answer) = self.ask("POST", path, Some(wanted));
        assert!((200..300).contains(&status), "{path}: {answer}");
        body(&answer)["id"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Everything that can be read, with this run and this workflow wherever an id is asked for.
    fn read_all(&self, run: &str, workflow: &str) {
        let (_, document) = self.ask("GET", "/api/v1/openapi.json", None);
        let mut read = 0;
        for (path, item) in body(&document)["paths"].as_object().unwrap() {
            let id = if path.starts_with("/api/v1/workflows/") { workflow } else { run };
            let filled = path.replace("{id}", id).replace("{name}", "said.txt");
            // With an answer, or an error that tells nothing either.
            if item["get"].is_object() {
                let (status, _) = self.ask("GET", &format!("{filled}?format=steps"), None);
                self.ask("GET", &filled, None);
                read += usize::from(status == 200);
            }
        }
        assert!(read > 3, "{read} answers only");
        for path in ["/metrics", "/healthz", "/readyz"] {
            self.ask("GET", path, None);
        }
    }

    /// It has ended; nothing is in what it said or left behind, the token neither.
    fn end(self, home: &Home) {
        let said = self.server.end();
        no_canary("the log", said.as_bytes());
        assert!(!said.contains(&self.token), "{said}");
        no_canary_under(home.data());
        let database = std::fs::read(home.database()).unwrap();
        assert!(!database.windows(self.token.len()).any(|window| window == self.token.as_bytes()));
    }
}

fn served(answers: fn(&Received) -> Behaviour, status: &str) {
    let server = ModelServer::start();
    server.answer_by(answers);
    let (home, _shop) = home(&server);
    let watched = Watched::start(&home);
    let workflow = watched.made("/api/v1/workflows", json!({ "definition": SENT, "alias": "leaky" }));
    let run = watched.made("/api/v1/workflows/leaky/run", json!({ "input": {} }));
    let path = format!("/api/v1/runs/{run}?wait=60s");
    let (_, answer) = watched.ask("GET", &path, None);
    assert_eq!(body(&answer)["status"], status, "{answer}");
    watched.read_all(&run, &workflow);
    let (events, _) = watched.ask("GET", &format!("/api/v1/runs/{run}/events"), None);
    assert_eq!(events, 200);
    let wrong = json!({ "definition": "name: [", "alias": 7 });
    assert_eq!(watched.ask("POST", "/api/v1/workflows", Some(wrong)).0, 400);
    watched.end(&home);
}

#[test]
fn nor_in_what_a_server_answers_or_says() {
    served(echo, "completed");
}

#[test]
fn nor_in_the_errors_of_a_server() {
    let refuse = |_: &Received| {
        let text = format!("{{\"error\":{{\"message\":\"bad key {KEY} {SECRET}\"}}}}");
        Behaviour::body(400, "application/json", text)
    };
    served(refuse, "failed");
}
