//! Small workflows whose every call is known: which tool, with which number, once.

use relais_dialects::{Loader, read};
use relais_engine::{Opened, RunId};
use relais_plan::{Plan, Source};
use serde_json::{Value, json};

use super::opened;
use crate::chance::Chance;

/// Steps on the longest way through one.
const MAX_STEPS: u64 = 5;

pub(super) struct Workflow {
    pub text: String,
    /// Its own first, then those of its children; none if it could not be read.
    pub plans: Vec<Plan>,
}

struct Writer {
    chance: Chance,
    /// Each call has a number of its own.
    calls: u64,
}

impl Workflow {
    pub fn of(seed: u64, number: u64) -> Workflow {
        let mut writer = Writer { chance: Chance::named(seed, &format!("workflow {number}")), calls: 0 };
        let (child, main) = (writer.child(), writer.main());
        let text = format!("{main:#}");
        let source = Source { name: format!("main-{number}.yaml"), text: text.clone() };
        let loaded = read(&source, &Child(format!("{child:#}")), &Default::default());
        let plans = loaded.plan.into_iter().chain(loaded.children).collect();
        Workflow { text, plans }
    }

    pub fn opened(&self, run: RunId) -> Option<Opened> {
        self.plans.first().map(|plan| opened(run, plan))
    }
}

struct Child(String);

impl Loader for Child {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Ok(Source { name: reference.to_owned(), text: self.0.clone() })
    }
}

impl Writer {
    fn main(&mut self) -> Value {
        let steps: Vec<Value> = (0..1 + self.chance.below(MAX_STEPS)).map(|_| self.step()).collect();
        json!({ "name": "main", "steps": steps, "output": "done" })
    }

    fn child(&mut self) -> Value {
        json!({ "name": "child", "steps": [self.call(), self.wait(), self.call()], "output": "done" })
    }

    fn step(&mut self) -> Value {
        match self.chance.below(9) {
            0 => self.wait(),
            1 => json!({ "wait": { "signal": "go" } }),
            2 => json!({ "workflow": "./child.yaml" }),
            3 | 4 => json!({ "parallel": [self.call(), self.call(), self.call()] }),
            _ => self.call(),
        }
    }

    fn wait(&mut self) -> Value {
        json!({ "wait": format!("{}s", 1 + self.chance.below(12)) })
    }

    fn call(&mut self) -> Value {
        self.calls += 1;
        let tool = self.chance.pick(&["pay", "pay", "put", "get"]).copied().unwrap_or("pay");
        json!({ "id": format!("call{}", self.calls), "tool": tool, "with": { "n": self.calls } })
    }
}
