//! Every example, with a fixed seed: the path it takes is a snapshot, and kills at many points do not change it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::home::{Home, Process, wait_until};

/// More attempts than kills means that a run does not get on.
const MAX_ATTEMPTS: usize = 40;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// An example with the seed that makes it interesting and the answers that people give, by the step that asks.
struct Example {
    name: &'static str,
    seed: &'static str,
    answers: &'static [(&'static str, &'static str)],
}

/// When a program is killed.
#[derive(Debug, Clone, Copy)]
enum Kill {
    /// As soon as the journals have so many entries.
    Entries(u32),
    /// So long after its start.
    After(Duration),
}

impl Example {
    fn file(&self) -> String {
        root().join(format!("examples/{}.yaml", self.name)).display().to_string()
    }

    /// Runs it to its end, killed at each of these moments and taken up again.
    fn run(&self, home: &Home, kills: &[Kill]) -> Value {
        let mut kills = kills.iter();
        for _ in 0..MAX_ATTEMPTS {
            let Some(words) = self.next_words(home) else { return home.show() };
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let process = home.start(&words);
            match kills.next() {
                Some(kill) => strike(process, home, *kill),
                None => drop(process.end()),
            }
        }
        panic!("{} does not end: {:#}", self.name, home.show());
    }

    /// What a person would type now; nothing if the run has ended.
    fn next_words(&self, home: &Home) -> Option<Vec<String>> {
        let words = |words: &[&str]| Some(words.iter().map(|word| word.to_string()).collect());
        if home.entries() == 0 {
            return words(&["run", &self.file(), "--simulate", "--seed", self.seed]);
        }
        let trace = home.show();
        match trace["status"].as_str().unwrap() {
            "pending" | "running" => words(&["resume", "--last"]),
            "waiting" => match self.answers.iter().find(|(step, _)| asks(&trace, step)) {
                Some((step, answer)) => words(&["answer", "--last", "--step", step, answer]),
                // It waits for time, or for its child run.
                None => words(&["resume", "--last"]),
            },
            _ => None,
        }
    }

    fn check_path(&self) {
        let file = root().join(format!("tests/cases/examples/{}.txt", self.name));
        let got = path(&self.run(&Home::new(), &[]));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, &got).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(got, expected, "{}: UPDATE_EXPECT=1 takes what came as right", self.name);
    }

    /// The same path and the same result, however it is killed.
    fn check_kills(&self) {
        let unhurt = Home::new();
        let expected = self.run(&unhurt, &[]);
        let entries = unhurt.entries();
        let at = |part: u32| Kill::Entries((entries * part / 6).max(1));
        let often: Vec<Kill> = (1..=5).map(at).collect();
        let early = [Kill::After(Duration::from_millis(25)), at(3), Kill::After(Duration::from_millis(60))];
        for kills in [&often[..], &early[..]] {
            let got = self.run(&Home::new(), kills);
            assert_eq!(path(&got), path(&expected), "{} {kills:?}: {got:#}", self.name);
            assert_eq!(got["output"], expected["output"], "{} {kills:?}", self.name);
        }
    }
}

fn asks(trace: &Value, path: &str) -> bool {
    let waits = |step: &Value| step["path"] == path && step["status"] == "waiting";
    trace["steps"].as_array().unwrap().iter().any(waits)
}

/// Kills it at that moment, unless it has ended before.
fn strike(mut process: Process, home: &Home, kill: Kill) {
    let started = Instant::now();
    wait_until("the moment to kill has come", || {
        let now = match kill {
            Kill::Entries(entries) => home.entries() >= entries,
            Kill::After(time) => started.elapsed() >= time,
        };
        (now || process.is_over()).then_some(())
    });
    process.kill();
}

/// One line per step: how it ended and where it is; sorted where steps run at once.
fn path(trace: &Value) -> String {
    let line = |step: &Value| {
        let note = step["note"].as_str().map(|note| format!("  {note}")).unwrap_or_default();
        format!("{} {}{note}\n", step["status"].as_str().unwrap(), step["path"].as_str().unwrap())
    };
    let mut lines: Vec<String> = trace["steps"].as_array().unwrap().iter().map(line).collect();
    lines.sort();
    format!("{}\n{}", trace["status"].as_str().unwrap(), lines.concat())
}

/// One test for the path and one for the kills of each example.
macro_rules! examples {
    ($($test:ident $name:literal $seed:literal $answers:expr;)*) => {
        $(mod $test {
            use super::Example;

            const EXAMPLE: Example = Example { name: $name, seed: $seed, answers: $answers };

            #[test]
            fn takes_its_path() {
                EXAMPLE.check_path();
            }

            #[test]
            fn survives_kills() {
                EXAMPLE.check_kills();
            }
        })*

        #[test]
        fn every_example_has_its_case() {
            let cases = [$($name),*];
            for entry in std::fs::read_dir(root().join("examples")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                let workflow = path.extension().is_some_and(|e| e == "yaml");
                assert!(!workflow || cases.contains(&name.as_str()), "{name} has no case");
            }
        }
    };
}

examples! {
    document_triage "document-triage" "7" &[("approve", "yes")];
    incident "incident" "7" &[];
    invoice_extract "invoice-extract" "7" &[];
    nightly_report "nightly-report" "7" &[];
    onboarding "onboarding" "7" &[];
    price_monitor "price-monitor" "7" &[];
    refund "refund" "1" &[("decide", "yes"), ("too_much", "20")];
    research "research" "7" &[];
    summarise_list "summarise-list" "7" &[];
    translate "translate" "7" &[];
}
