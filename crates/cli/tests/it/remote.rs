//! The same words against the local database and against a server: the same output, the same exit codes.

use regex::Regex;
use relais_testkit::Behaviour;

use crate::serving::Server;
use crate::support::{Ended, Home, LIMIT, ONE_CALL, QUESTION, ended, json_lines};

const SIGNAL: &str = "name: signal\nsteps:\n  - { id: go, wait: { signal: start } }\noutput: '{{ steps.go.output }}'\n";
const FAILS: &str = "name: fails\nsteps:\n  - { id: read, tool: read_file, with: { path: none.txt } }\n";
const BAD: &str = "name: bad\nstesp: []\nsteps:\n  - { id: a, agnet: x }\n  - { id: b, stop_if: steps.c.output }\n";
const INPUTS: &str = "\
name: inputs
input: { zip: string, n: integer }
steps:
  - { id: a, set: { zip: '{{ input.zip }}', n: '{{ input.n }}' } }
output: { zip: '{{ vars.zip }}', n: '{{ vars.n }}' }
";
const PARENT: &str = "name: parent\nsteps:\n  - { id: below, workflow: question }\n";
const WRITER: &str = "model: sim/1\ninstructions: Write.\n";
const WAITS: &str = "name: waits\nsteps:\n  - { id: for, wait: { event: ready } }\noutput: '{{ steps.for.output }}'\n";
const USES: &str = "name: uses\nsteps:\n  - { id: write, agent: writer, prompt: Go. }\n";
const PAID: &str =
    "name: paid\ntriggers: [{ event: order.paid, overlap: allow }]\nsteps:\n  - { id: a, set: { n: 1 } }\n";
/// A warning, and no name of its own.
const NAMELESS: &str =
    "steps:\n  - { id: a, set: { n: 1 } }\n  - { id: b, stop_if: 'true' }\n  - { id: c, set: { n: 2 } }\n";

/// Each line is a command; what comes before is what it finds.
const SCENARIO: &[&[&str]] = &[
    &["show", "--last"],
    &["runs"],
    &["run", "flow.yaml"],
    &["run", "flow.yaml", "a word", "--json"],
    &["run", "flow.yaml", "--verbose"],
    &["run", "flow.yaml", "--simulate", "--seed", "3"],
    &["run", "nameless.yaml"],
    &["run", "inputs.yaml", "--input", "zip=01234", "--input", "n=5"],
    &["run", "inputs.yaml", "00501", "--input", "n=5"],
    &["run", "inputs.yaml", "--input", "n=five"],
    &["run", "inputs.yaml", "--input", "nn=5"],
    &["run", "bad.yaml"],
    &["run", "none.yaml"],
    &["run", "nothing"],
    &["run", "flow.yaml", "--input", "nothing"],
    &["run", "flow.yaml", "--branch", "left"],
    &["run", "flow.yaml", "--key", "k1"],
    &["run", "flow.yaml", "--key", "k1"],
    &["run", "flow.yaml", "other", "--key", "k1"],
    &["exec", "flow.yaml"],
    &["run", "fails.yaml"],
    &["resume", "--last"],
    &["retry", "--last", "--from", "read"],
    &["retry", "--last", "--from", "nowhere"],
    &["fork", "--last", "--from", "read"],
    &["runs", "--status", "failed"],
    &["runs", "--workflow", "one", "--limit", "2"],
    &["runs", "--json"],
    &["show", "--last"],
    &["show", "--last", "--json"],
    &["show", "--last", "--step", "read"],
    &["show", "--last", "--step", "nowhere"],
    &["show", "--last", "--format", "chain"],
    &["show", "0123456789"],
    &["cancel", "--last"],
    &["questions"],
    &["runs", "--error", "tool"],
    &["runs", "--error", "tol"],
    &["run", "flow.yaml", "--tag", "team=sales", "--tag", "env=test"],
    &["run", "flow.yaml", "--tag", "team"],
    &["runs", "--tag", "team=sales"],
    &["runs", "--tag", "team=sales", "--tag", "env=live"],
    &["runs", "--tag", "team=sales", "--json"],
    &["retry", "--error", "tool", "--from", "read"],
    &["cancel", "--tag", "none=such"],
    &["resume", "--tag", "team"],
    &["run", "question.yaml"],
    &["questions"],
    &["questions", "--json"],
    &["questions", "--limit", "1"],
    &["answer", "0190a0b0-c0d0-7000-8000-00000000000a.3", "yes"],
    &["answer", "0190a0b0-c0d0-7000-8000-00000000000a.3"],
    &["answer", "--last"],
    &["answer", "--last", "perhaps"],
    &["answer", "--last", "yes", "--step", "other"],
    &["show", "--last"],
    &["pause", "--last"],
    &["resume", "--last"],
    &["answer", "--last", "yes"],
    &["answer", "--last", "yes"],
    &["watch", "--last"],
    &["watch", "--last", "--json"],
    &["run", "question.yaml"],
    &["cancel", "--last"],
    &["watch", "--last"],
    &["run", "signal.yaml"],
    &["signal", "--last", "start", "{\"n\": 1}"],
    &["signal", "--last", "start"],
    &["run", "flow.yaml", "the end"],
    &["watch", "--last", "--text"],
    &["validate", "flow.yaml", "bad.yaml"],
    &["workflows", "save", "flow.yaml", "--alias", "speak"],
    &["workflows", "save", "inputs.yaml", "--alias", "speak"],
    &["workflows", "save", "inputs.yaml", "--to", "speak"],
    &["workflows", "save", "flow.yaml", "--to", "speak", "--description", "It speaks."],
    &["workflows", "save", "bad.yaml"],
    &["workflows", "save", "flow.yaml", "--to", "none"],
    &["workflows", "publish", "speak"],
    &["workflows", "show", "speak"],
    &["workflows", "show", "speak", "--json"],
    &["workflows", "show", "none"],
    &["run", "speak", "again"],
    &["run", "speak", "--input", "nothing=1"],
    &["workflows", "save", "question.yaml"],
    &["run", "question"],
    &["runs", "--json", "--limit", "1"],
    &["workflows", "versions", "speak"],
    &["workflows", "versions", "speak", "--json", "--limit", "1"],
    &["workflows", "versions", "speak", "--limit", "1"],
    &["workflows", "versions", "none"],
    &["workflows", "show", "speak", "--version", "1"],
    &["workflows", "show", "speak", "--version", "2", "--json"],
    &["workflows", "show", "speak", "--version", "9"],
    &["workflows", "rollback", "speak", "--to", "2"],
    &["workflows", "rollback", "speak", "--to", "9"],
    &["workflows", "rollback", "none", "--to", "1"],
    &["workflows", "versions", "speak"],
    &["workflows", "rollback", "speak", "--to", "1"],
    &["workflows", "pause", "speak"],
    &["workflows"],
    &["run", "speak", "by hand"],
    &["workflows", "archive", "speak"],
    &["workflows"],
    &["workflows", "--archived"],
    &["run", "speak"],
    &["workflows", "resume", "speak"],
    &["workflows", "pause", "none"],
    &["agents"],
    &["agents", "save", "writer.yaml", "--description", "Writes."],
    &["agents", "save", "writer.yaml"],
    &["agents", "save", "bad.yaml"],
    &["agents", "save", "none.yaml"],
    &["agents", "save", "writer.yaml", "--to", "none"],
    &["agents", "save", "writer.yaml", "--name", "second writer"],
    &["agents"],
    &["agents", "--json", "--limit", "1"],
    &["agents", "show", "writer"],
    &["agents", "show", "writer", "--json"],
    &["agents", "show", "none"],
    &["agents", "delete", "second writer"],
    &["workflows", "save", "uses.yaml", "--alias", "u"],
    &["agents", "delete", "writer"],
    &["run", "u"],
    &["export", "u", "speak", "-o", "both.json"],
    &["export", "u", "none"],
    &["export", "u"],
    &["export", "speak", "--history"],
    &["import", "both.json"],
    &["import", "both.json", "--json"],
    &["import", "both.json", "--on-clash", "refuse"],
    &["import", "both.json", "--on-clash", "perhaps"],
    &["agents", "save", "changed.yaml", "--to", "writer"],
    &["workflows", "versions", "u"],
    &["import", "both.json"],
    &["import", "both.json", "--on-clash", "reuse"],
    &["import", "flow.yaml"],
    &["import", "none.json"],
    &["workflows"],
    &["workflows", "delete", "none"],
    &["workflows", "delete", "u"],
    &["workflows", "delete", "u", "--yes"],
    &["workflows", "show", "u"],
    &["workflows", "delete", "question"],
    &["workflows", "delete", "question", "--force", "--keep-runs"],
    &["workflows", "delete", "question", "--force", "--yes"],
    &["workflows", "show", "question"],
    &["run", "waits.yaml"],
    &["event", "other"],
    &["event", "ready", "{\"n\": 1}"],
    &["watch", "--last"],
    &["event", "ready"],
    &["workflows", "save", "paid.yaml"],
    &["event", "order.paid", "{\"n\": 1}", "--id", "e1"],
    &["event", "order.paid", "{\"n\": 1}", "--id", "e1"],
    &["event", "order.paid", "{\"n\": 2}", "--id", "e1"],
    &["watch", "--last"],
    &["event", "order.paid", "@writer.yaml", "--json"],
    &["watch", "--last"],
    &["event", ""],
    &["tools"],
    &["tools", "--json"],
    &["tools", "--mcp", "none"],
    &["notifications", "read", "0190a0b0-c0d0-7000-8000-00000000000a"],
    &["usage", "--since", "soon"],
];

/// What follows from runs that have ended: a server takes note of them by itself, shortly after.
const COUNTED: &[&[&str]] = &[
    &["usage"],
    &["usage", "--by", "workflow"],
    &["usage", "--by", "user"],
    &["usage", "--by", "model"],
    &["usage", "--all", "--json"],
    &["usage", "--since", "2d", "--until", "2000-01-01"],
    &["notifications"],
    &["notifications", "--limit", "1"],
    &["notifications", "--unread", "--json"],
    &["notifications", "read", "--all"],
    &["notifications"],
    &["notifications", "--unread"],
];

fn home() -> Home {
    let home = Home::new(ONE_CALL);
    home.server.answer_by(|asked| Behaviour::say(&format!("heard {}", asked.body["messages"][1]["content"])));
    let files = [("question", QUESTION), ("signal", SIGNAL), ("fails", FAILS), ("bad", BAD), ("inputs", INPUTS)];
    let more = [("nameless", NAMELESS), ("parent", PARENT), ("writer", WRITER), ("changed", "model: sim/2\n")];
    let more = more.into_iter().chain([("waits", WAITS), ("uses", USES), ("paid", PAID)]);
    for (name, text) in files.into_iter().chain(more) {
        home.write(&format!("{name}.yaml"), text);
    }
    home
}

/// Ids, times and what follows from them, made alike.
struct Masks(Vec<(Regex, &'static str)>);

impl Masks {
    fn new() -> Masks {
        let masks = [
            (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "ID"),
            (r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "TIME"),
            (r"\b\d+(\.\d+)?(ms|s)\b", "TOOK"),
            (r#""(at|ms|duration_ms|started_at|ended_at|asked_at|answered_at)":\s*\d+"#, "\"$1\": N"),
            (r"[0-9a-f]{64}", "HASH"),
            (" +", " "),
        ];
        Masks(masks.map(|(pattern, mask)| (Regex::new(pattern).unwrap(), mask)).into())
    }

    fn over(&self, text: &str) -> String {
        self.0.iter().fold(text.to_owned(), |text, (pattern, mask)| pattern.replace_all(&text, *mask).into_owned())
    }
}

/// What models say is shown while they say it, between whichever lines that falls.
fn in_order<'t>(words: &[&str], text: &'t str) -> Vec<&'t str> {
    let mut lines: Vec<&str> = text.lines().collect();
    if words.contains(&"--verbose") {
        lines.sort_unstable();
    }
    lines
}

fn told(home: &Home, url: Option<&str>, words: &[&str]) -> Ended {
    let mut command = home.command(words);
    if let Some(url) = url {
        command.env("RELAIS_URL", url);
    }
    ended(command.spawn().unwrap())
}

#[test]
fn a_server_answers_as_the_local_database_does() {
    let (here, there) = (home(), home());
    let server = Server::start(&there, &[]);
    let url = format!("http://{}", server.address);
    are_alike(&here, &there, &url, SCENARIO);
    server.signal("-TERM");
    server.ended().expect(0);
}

fn are_alike(here: &Home, there: &Home, url: &str, scenario: &[&[&str]]) {
    let masks = Masks::new();
    for words in scenario {
        let [local, remote] = [told(here, None, words), told(there, Some(url), words)];
        assert_eq!(remote.code, local.code, "{words:?}\nlocal: {}\nremote: {}", local.err, remote.err);
        assert_eq!(masks.over(&remote.out), masks.over(&local.out), "{words:?}\n{}", remote.err);
        assert_eq!(in_order(words, &masks.over(&remote.err)), in_order(words, &masks.over(&local.err)), "{words:?}");
    }
}

#[test]
fn a_server_counts_and_tells_as_the_local_database_does() {
    let (here, there) = (home(), home());
    let server = Server::start(&there, &[]);
    let url = format!("http://{}", server.address);
    let runs: &[&[&str]] = &[&["usage"], &["notifications"], &["run", "flow.yaml"], &["run", "fails.yaml"]];
    are_alike(&here, &there, &url, &[runs, &[&["run", "fails.yaml"]]].concat());
    let counted = || told(&there, Some(&url), &["usage", "--json"]).expect(0).out.contains("\"failed\":2");
    there.wait_until("the server has taken note", counted);
    are_alike(&here, &there, &url, COUNTED);
    let told = here.relais(&["usage", "--by", "workflow"]);
    assert!(["fails", "one", "total"].iter().all(|part| told.out.contains(part)), "{}", told.out);
    let told = json_lines(&here.relais(&["notifications", "--json"]).out);
    assert!(told.len() == 2 && told.iter().all(|one| one["title"] == "fails has failed" && one["read"] == true));
    server.signal("-TERM");
    server.ended().expect(0);
}

/// What a server has shows, and not what is here.
#[test]
fn models_are_those_of_the_server() {
    let home = home();
    let server = Server::start(&home, &[]);
    let url = format!("http://{}", server.address);
    let local = json_lines(&home.relais(&["models", "--json"]).out);
    let remote = told(&home, Some(&url), &["models", "--json"]);
    let mut without_address = local.clone();
    without_address.iter_mut().for_each(|one| drop(one.as_object_mut().unwrap().remove("base_url")));
    assert_eq!(json_lines(&remote.expect(0).out), without_address);
    let mut keyless = home.command(&["models"]);
    let shown = ended(keyless.env("RELAIS_URL", &url).env_remove("OPENAI_API_KEY").spawn().unwrap());
    let openai = shown.expect(0).out.lines().find(|line| line.starts_with("openai/ ")).unwrap();
    assert_eq!(openai.split_whitespace().collect::<Vec<_>>(), ["openai/", "there"], "the key is the server's");
    server.signal("-TERM");
    server.ended().expect(0);
}

#[test]
fn what_a_server_cannot_do_is_said() {
    let home = home();
    let gone = "http://127.0.0.1:1";
    told(&home, Some(gone), &["runs"]).expect(1).says("cannot be reached").says("relais serve");
    told(&home, Some("nonsense"), &["runs"]).expect(2).says("http://HOST:PORT");
    told(&home, Some(gone), &["prune", "--keep", "1d"]).expect(2).says("database itself");
    told(&home, Some(gone), &["validate", "flow.yaml"]).expect(0);
    let server = Server::start(&home, &[]);
    let url = format!("http://{}", server.address);
    told(&home, Some(&url), &["run", "flow.yaml", "--workspace", "."]).expect(2).says("--workspace");
    home.write("flow.yaml", "name: p\nsteps:\n  - { id: below, workflow: ./question.yaml }\n");
    told(&home, Some(&url), &["run", "flow.yaml"]).expect(2).says("reads no files");
    server.signal("-TERM");
    server.ended().expect(0);
}

/// A run is watched over a restart of the server, and a server that leaves takes nothing new.
// keeps E-40
#[test]
fn a_client_stays_with_its_run_while_servers_come_and_go() {
    let home = home();
    home.server.push(Behaviour::Silence);
    let first = Server::start(&home, &["--grace", "1ms"]);
    let address = first.address.clone();
    let url = format!("http://{address}");
    let client = home.command(&["run", "flow.yaml"]).env("RELAIS_URL", &url).spawn().unwrap();
    assert!(home.server.wait_for(1, LIMIT));
    first.signal("-TERM");
    first.ended().expect(0).says("let go of 1 run");
    let second = Server::start_at(&home, &address, &[]);
    ended(client).expect(0).says("✓ say");
    second.signal("-TERM");
    second.ended().expect(0);
}
