//! Arbitrary workflows from a seed: every kind of step, nested, with policies, variables and references. Written as
//! the native format reads them, so that a failing seed can be read by a person, too.

use relais_dialects::{Loader, convert, read};
use relais_engine::Program;
use relais_plan::Source;
use serde_json::{Map, Value, json};

use crate::chance::Chance;

/// Steps within steps.
const MAX_DEPTH: u32 = 3;
/// Steps in one workflow; enough for every construct to meet every other over some thousand seeds.
const MAX_STEPS: u32 = 14;

/// How wild a workflow may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Manner {
    /// The order of answers cannot matter: no counted waits, no stop, no time-outs, no budgets.
    Calm,
    Wild,
}

/// The workflow of a seed, as text.
pub fn workflow(seed: u64, manner: Manner) -> Value {
    let mut writer = Writer { chance: Chance::named(seed, "plan"), manner, steps: 0, exclusive: false };
    writer.workflow()
}

/// The workflow made ready to run; what the reader says if it refuses it.
pub fn program(workflow: &Value) -> Result<Program, String> {
    compiled(format!("{workflow:#}"))
}

/// The same from the text that it is converted to.
pub fn converted(workflow: &Value) -> Result<Program, String> {
    let source = source(format!("{workflow:#}"));
    let text = convert(&source, &Child, &Default::default()).map_err(|problems| format!("{problems:#?}"))?;
    compiled(text)
}

fn compiled(text: String) -> Result<Program, String> {
    let source = source(text);
    let loaded = read(&source, &Child, &Default::default());
    if relais_plan::problem::has_errors(&loaded.problems) {
        return Err(format!("{:#?}\n{}", loaded.problems, source.text));
    }
    loaded.plan.map(Program::new).ok_or_else(|| "there is no plan".to_owned())
}

fn source(text: String) -> Source {
    Source { name: "plan.yaml".to_owned(), text }
}

/// Every child workflow is the same small one; the world answers for it.
struct Child;

impl Loader for Child {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Ok(Source { name: reference.to_owned(), text: "steps: [{ set: { x: 1 } }]\n".to_owned() })
    }
}

struct Writer {
    chance: Chance,
    manner: Manner,
    steps: u32,
    /// Bodies run at once here, so nothing may be set.
    exclusive: bool,
}

/// What a list of steps may refer to.
#[derive(Clone)]
struct Reach {
    ids: Vec<String>,
    in_loop: bool,
    /// In a `needs` block `previous` has no meaning.
    previous: bool,
}

impl Writer {
    fn wild(&mut self, share: u64) -> bool {
        self.manner == Manner::Wild && self.chance.percent(share)
    }

    fn workflow(&mut self) -> Value {
        let reach = Reach { ids: Vec::new(), in_loop: false, previous: true };
        let mut file = Map::new();
        file.insert("name".into(), json!("generated"));
        file.insert("inline_limit".into(), json!(400));
        let agents = json!({
            "talker": { "model": ["sim/one", "sim/two"], "instructions": "Talk.", "tools": ["get"] },
            "counter": { "model": "sim/one", "instructions": "Count.", "output": { "n": "int", "ok": "bool" }, "max_turns": 6 },
            "payer": { "model": "sim/one", "instructions": "Pay.", "tools": ["get", "pay"], "max_turns": 6 },
        });
        file.insert("agents".into(), agents);
        if self.wild(25) {
            file.insert("tools".into(), json!({ "pay": { "approve": true } }));
        }
        if self.wild(15) {
            file.insert("budget".into(), json!({ "model_calls": self.chance.below(6) + 1 }));
        }
        if self.wild(10) {
            file.insert("timeout".into(), json!("1m"));
        }
        if self.wild(40) {
            let word = self.chance.pick(&["partial", "undo"]).copied().unwrap_or("undo");
            file.insert("on_failure".into(), json!(word));
        }
        file.insert("steps".into(), self.list(&reach, 0));
        if self.wild(40) {
            file.insert("on_exit".into(), self.exits());
        }
        Value::Object(file)
    }

    fn exits(&mut self) -> Value {
        let mut exits = Map::new();
        for when in ["always", "success", "failure", "cancel"] {
            if self.chance.percent(50) {
                let id = self.id();
                exits.insert(when.into(), json!([{ "id": id, "tool": "tidy" }]));
            }
        }
        if exits.is_empty() {
            exits.insert("always".into(), json!([{ "tool": "tidy" }]));
        }
        Value::Object(exits)
    }

    fn id(&mut self) -> String {
        self.steps += 1;
        format!("s{}", self.steps)
    }

    /// A list of steps: a sequence, or now and then a `needs` block.
    fn list(&mut self, reach: &Reach, depth: u32) -> Value {
        if depth > 0 && self.chance.percent(15) {
            return self.needs_block(reach, depth);
        }
        let mut reach = reach.clone();
        let mut steps = Vec::new();
        for _ in 0..self.chance.below(3) + 1 {
            let id = self.id();
            let step = self.step(&id, &reach, depth);
            reach.ids.push(id);
            steps.push(step);
        }
        if self.chance.percent(12) && !self.exclusive {
            self.go_back(&mut steps, &reach);
        }
        Value::Array(steps)
    }

    /// A counter and a jump back to it, at the end of a list.
    fn go_back(&mut self, steps: &mut Vec<Value>, reach: &Reach) {
        let Some(first) = reach.ids.iter().rev().nth(steps.len() - 1).cloned() else { return };
        let (set, goto) = (self.id(), self.id());
        let name = format!("v{set}");
        let again = format!("{{{{ (vars.{name} | default(0)) + 1 }}}}");
        steps.push(json!({ "id": set, "set": { name.clone(): again } }));
        let max = if self.wild(20) { 1 } else { 5 };
        steps.push(json!({ "id": goto, "goto": first, "when": format!("vars.{name} < 3"), "max": max }));
    }

    fn needs_block(&mut self, reach: &Reach, depth: u32) -> Value {
        let mut ids: Vec<String> = Vec::new();
        let mut steps = Vec::new();
        for _ in 0..self.chance.below(3) + 2 {
            let id = self.id();
            let needs: Vec<String> = ids.iter().filter(|_| self.chance.percent(50)).cloned().collect();
            // Only what a step needs has surely ended when it begins.
            let mut reach = Reach { previous: false, ..reach.clone() };
            reach.ids.extend(needs.iter().cloned());
            let mut step = self.step(&id, &reach, depth + 1);
            step["needs"] = json!(needs);
            if !needs.is_empty() && self.wild(20) {
                step["run_if"] = json!("always");
            }
            ids.push(id.clone());
            steps.push(step);
        }
        Value::Array(steps)
    }

    fn step(&mut self, id: &str, reach: &Reach, depth: u32) -> Value {
        let mut step = if depth < MAX_DEPTH && self.steps < MAX_STEPS && self.chance.percent(45) {
            self.block(reach, depth)
        } else {
            self.leaf(id, reach)
        };
        step["id"] = json!(id);
        if self.chance.percent(10) {
            step["when"] = json!(self.condition(reach));
        }
        self.policies(&mut step);
        step
    }

    fn policies(&mut self, step: &mut Value) {
        let steers = step.get("set").is_some() || step.get("stop_if").is_some();
        if steers || self.manner == Manner::Calm {
            return;
        }
        if self.chance.percent(25) {
            step["retry"] = json!({ "max_attempts": self.chance.below(3) + 1, "delay": "2s" });
        }
        if self.chance.percent(15) {
            step["timeout"] = json!(format!("{}s", self.chance.below(30) + 1));
        }
        if self.chance.percent(20) {
            step["on_error"] = if self.chance.percent(50) { json!("continue") } else { json!({ "value": { "n": 1 } }) };
        }
        let waits = step.get("wait").is_some() || step.get("ask").is_some();
        if self.chance.percent(8) && !waits {
            step["budget"] = json!({ "tool_calls": self.chance.below(4) });
        }
        if self.chance.percent(15) {
            let id = self.id();
            step["undo"] = json!({ "id": id, "tool": "unput" });
        }
    }

    fn leaf(&mut self, id: &str, reach: &Reach) -> Value {
        let value = self.reference(reach);
        match self.chance.below(16) {
            0..=3 => json!({ "tool": "get", "with": { "x": value } }),
            4 => json!({ "tool": "put", "with": { "x": value } }),
            5 => json!({ "tool": "pay", "with": { "x": value } }),
            6 => json!({ "tool": "large", "with": { "x": 1 } }),
            7 => json!({ "agent": "talker", "prompt": format!("Say {value}") }),
            8 => json!({ "agent": "counter", "input": { "x": value } }),
            9 => json!({ "agent": "payer", "prompt": format!("Pay {value}") }),
            10 => json!({ "workflow": "./child.yaml", "input": { "x": value } }),
            11 => json!({ "wait": format!("{}s", self.chance.below(20)) }),
            12 => json!({ "wait": { "signal": "go" } }),
            13 => self.question(),
            14 if !self.exclusive => json!({ "set": { format!("w{id}"): value } }),
            15 if self.manner == Manner::Wild => json!({ "stop_if": self.condition(reach) }),
            _ => json!({ "tool": "get", "with": { "x": value } }),
        }
    }

    fn question(&mut self) -> Value {
        let mut ask = json!({ "question": "Well?", "answer": { "n": "int" } });
        if self.wild(50) {
            ask["deadline"] = json!("1m");
            if self.chance.percent(50) {
                ask["on_deadline"] = json!({ "value": { "n": 0 } });
            }
        }
        json!({ "ask": ask })
    }

    fn block(&mut self, reach: &Reach, depth: u32) -> Value {
        match self.chance.below(7) {
            0 => self.choice(reach, depth),
            1 => {
                let on = self.number(reach);
                json!({
                    "switch": on,
                    "cases": { "0": self.list(reach, depth + 1), "1": self.list(reach, depth + 1) },
                    "default": self.list(reach, depth + 1),
                })
            }
            2 | 3 => self.parallel(reach, depth),
            4 => json!({ "steps": self.list(reach, depth + 1) }),
            5 => self.for_each(reach, depth),
            _ => self.repeat(reach, depth),
        }
    }

    fn choice(&mut self, reach: &Reach, depth: u32) -> Value {
        let mut step = json!({ "if": self.condition(reach), "then": self.list(reach, depth + 1) });
        if self.chance.percent(60) {
            step["else"] = self.list(reach, depth + 1);
        }
        step
    }

    fn parallel(&mut self, reach: &Reach, depth: u32) -> Value {
        let inner = reach.clone();
        // What a lane that is not waited for sets is a matter of chance.
        let (waits, around) = (self.chance.percent(20), self.exclusive);
        self.exclusive |= waits;
        let mut lanes = Vec::new();
        for _ in 0..self.chance.below(3) + 2 {
            let id = self.id();
            lanes.push(self.step(&id, &inner, depth + 1));
        }
        self.exclusive = around;
        let ids: Vec<String> = lanes.iter().filter_map(|l| l["id"].as_str().map(str::to_owned)).collect();
        let mut step = json!({ "parallel": lanes });
        if self.wild(50) {
            let word = self.chance.pick(&["drain", "collect"]).copied().unwrap_or("drain");
            step["on_failure"] = json!(word);
        }
        if waits {
            step["wait_for"] = if self.wild(50) { json!(1) } else { json!([ids[0]]) };
            if self.chance.percent(40) {
                step["detach"] = json!(true);
            }
        }
        step
    }

    fn for_each(&mut self, reach: &Reach, depth: u32) -> Value {
        let at_once = self.chance.below(3) + 1;
        let around = self.exclusive;
        self.exclusive |= at_once > 1;
        let body = self.list(&Reach { in_loop: true, ..reach.clone() }, depth + 1);
        self.exclusive = around;
        let items = match reach.ids.last().filter(|_| self.chance.percent(40)) {
            Some(id) => json!(format!("(steps.{id}.output.list | default([])) + [1]")),
            None => json!([1, 2, 3]),
        };
        let mut step = json!({ "for_each": items, "do": body, "at_once": at_once });
        if self.wild(20) {
            step["max"] = json!(2);
            if self.chance.percent(50) {
                step["on_limit"] = json!("truncate");
            }
        }
        step
    }

    fn repeat(&mut self, reach: &Reach, depth: u32) -> Value {
        let body = self.list(&Reach { in_loop: true, ..reach.clone() }, depth + 1);
        let mut step = json!({ "repeat": body, "max": self.chance.below(3) + 1 });
        match self.chance.below(3) {
            0 => step["while"] = json!("index is none or index < 1"),
            1 => step["until"] = json!("index == 1"),
            _ => {}
        }
        step["on_limit"] = if self.wild(20) && step.get("until").is_some() { json!("fail") } else { json!("complete") };
        if self.chance.percent(30) {
            step["delay"] = json!("3s");
        }
        step
    }

    fn reference(&mut self, reach: &Reach) -> String {
        match (self.chance.below(5), self.chance.pick(&reach.ids)) {
            (0, _) if reach.in_loop => "{{ index }}".to_owned(),
            (1, _) if reach.previous => "{{ previous }}".to_owned(),
            (2 | 3, Some(id)) => format!("{{{{ steps.{id}.output }}}}"),
            (4, Some(id)) if self.manner == Manner::Wild => format!("{{{{ steps.{id}.output.n }}}}"),
            _ => "{{ input.n }}".to_owned(),
        }
    }

    fn number(&mut self, reach: &Reach) -> String {
        match self.chance.pick(&reach.ids) {
            Some(id) if self.chance.percent(60) => format!("steps.{id}.output.n | default(1)"),
            _ => "input.n".to_owned(),
        }
    }

    fn condition(&mut self, reach: &Reach) -> String {
        let limit = self.chance.below(4);
        format!("({}) > {limit}", self.number(reach))
    }
}
