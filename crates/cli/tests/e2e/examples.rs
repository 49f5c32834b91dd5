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

/// An example with the seed that makes it interesting, what it is started with, and the answers that people give, by
/// the step that asks.
struct Example {
    /// In `examples/`, with its folder.
    file: &'static str,
    seed: &'static str,
    given: &'static [&'static str],
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
    fn path(&self) -> String {
        root().join("examples").join(self.file).display().to_string()
    }

    /// `dag/items.yaml` is `dag-items`.
    fn name(&self) -> String {
        Path::new(self.file).with_extension("").display().to_string().replace('/', "-")
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
        panic!("{} does not end: {:#}", self.name(), home.show());
    }

    /// What a person would type now; nothing if the run has ended.
    fn next_words(&self, home: &Home) -> Option<Vec<String>> {
        let words = |words: &[&str]| Some(words.iter().map(|word| word.to_string()).collect());
        if home.entries() == 0 {
            let here = format!("@{}/examples/", root().display());
            let given: Vec<String> = self.given.iter().map(|word| word.replace("@examples/", &here)).collect();
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            return words(&[&["run", &self.path(), "--simulate", "--seed", self.seed], &given[..]].concat());
        }
        let trace = home.show();
        match trace["status"].as_str().unwrap() {
            "pending" | "running" | "interrupted" => words(&["resume", "--last"]),
            "waiting" => match self.answers.iter().find(|(step, _)| asks(&trace, step)) {
                Some((step, answer)) => words(&["answer", "--last", "--step", step, answer]),
                // It waits for time, or for its child run.
                None => words(&["resume", "--last"]),
            },
            _ => None,
        }
    }

    fn check_path(&self) {
        let file = root().join(format!("tests/cases/examples/{}.txt", self.name()));
        let got = path(&self.run(&Home::new(), &[]));
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(&file, &got).unwrap();
        }
        let expected = std::fs::read_to_string(&file).unwrap_or_default();
        assert_eq!(got, expected, "{}: UPDATE_EXPECT=1 takes what came as right", self.name());
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
            assert_eq!(path(&got), path(&expected), "{} {kills:?}: {got:#}", self.name());
            assert_eq!(got["output"], expected["output"], "{} {kills:?}", self.name());
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
    ($($test:ident $file:literal $seed:literal $given:expr, $answers:expr;)*) => {
        $(mod $test {
            use super::Example;

            const EXAMPLE: Example = Example { file: $file, seed: $seed, given: $given, answers: $answers };

            #[test]
            fn takes_its_path() {
                EXAMPLE.check_path();
            }

            #[test]
            fn survives_kills() {
                EXAMPLE.check_kills();
            }
        })*

        const CASES: &[&str] = &[$($file),*];
    };
}

examples! {
    document_triage "document-triage.yaml" "7" &[], &[("approve", "yes")];
    incident "incident.yaml" "7" &[], &[];
    invoice_extract "invoice-extract.yaml" "7" &[], &[];
    nightly_report "nightly-report.yaml" "7" &[], &[];
    onboarding "onboarding.yaml" "7" &[], &[];
    price_monitor "price-monitor.yaml" "7" &[], &[];
    refund "refund.yaml" "1" &[], &[("decide", "yes"), ("too_much", "20")];
    research "research.yaml" "7" &[], &[];
    summarise_list "summarise-list.yaml" "7" &[], &[];
    translate "translate.yaml" "7" &[], &[];
    chain_daily "chain/daily-price-monitor.py" "7" &[], &[];
    chain_daily_json "chain/daily-price-monitor.json" "7" &[], &[];
    chain_prices "chain/price-monitor.py" "7" &[], &[];
    steps_label_mail "steps/label-mail.json" "7" &["Where is my parcel?"], &[];
    pipeline_sequence "pipeline/sequence.yaml" "7" &["A note on tides"], &[];
    pipeline_parallel "pipeline/parallel.yaml" "7" &["A note on tides"], &[];
    pipeline_nested "pipeline/nested-parallel.yaml" "7" &["A note on tides"], &[];
    pipeline_review "pipeline/review-loop.yaml" "1" &["A note on tides"], &[];
    graph_debate "graph/debate.json" "7" &["Trains or cars?"], &[];
    graph_newsroom "graph/newsroom.json" "7" &["A new bridge"], &[];
    dag_onboarding "dag/onboarding.yaml" "7" &["--input", "document=Ann Lee"], &[];
    dag_order "dag/order.yaml" "7" &["--input", "@examples/dag/order.json"], &[];
    dag_priority "dag/priority.yaml" "7" &["--input", "ticket=The shop is down"], &[];
    dag_items "dag/items.yaml" "7" &["--input", "text=three apples"], &[];
    dag_enrichment "dag/enrichment.yaml" "7" &["--input", "order=A-17"], &[];
}

#[test]
fn every_example_has_its_case() {
    let folders = ["", "chain", "steps", "pipeline", "graph", "dag"];
    for folder in folders.map(|folder| root().join("examples").join(folder)) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let file = path.strip_prefix(root().join("examples")).unwrap().display().to_string();
            let is_twin = file.ends_with(".native.yaml") || file == "dag/order.json";
            let listed = is_twin || CASES.contains(&file.as_str());
            assert!(path.is_dir() || listed, "{file} has no case");
        }
    }
}
