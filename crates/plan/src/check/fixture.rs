//! Plans for tests, written as JSON in the words of the native format. Only what the tests of this crate need; the
//! real reader lives in another crate.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use crate::step::{Awaited, Branch, Kind, Name, Step, StepError, Workflow};
use crate::{
    Agent, Ask, Budget, Call, ExitWhen, Expr, LaneFailure, McpServer, OnDeadline, OnLimit, Plan, Problems, Retry,
    Schema, Span, Task, Template, ToolRule, Until,
};

pub(crate) fn plan(file: &Value) -> Plan {
    let (plan, problems) = built(file);
    assert_eq!(problems, Vec::new(), "the plan of {file}");
    plan
}

pub(crate) fn built(file: &Value) -> (Plan, Problems) {
    let (plan, problems) = crate::build::build(Reader::default().workflow(file));
    (plan.unwrap(), problems)
}

#[derive(Default)]
struct Reader {
    spans: usize,
}

impl Reader {
    fn workflow(&mut self, file: &Value) -> Workflow {
        let mut workflow = Workflow { name: text(&file["name"]).unwrap_or("test".into()), ..Workflow::default() };
        workflow.input_schema = schema(&file["input"]);
        workflow.agents = entries(&file["agents"]).map(|(name, agent)| (name.clone(), self.agent(agent))).collect();
        workflow.tools = entries(&file["tools"]).map(|(name, _)| (name.clone(), ToolRule::default())).collect();
        workflow.servers = entries(&file["mcp"]).map(|(name, _)| (name.clone(), McpServer::default())).collect();
        workflow.limits.budget = Budget { usd_nanos: file["usd"].as_u64(), ..workflow.limits.budget };
        workflow.steps = self.steps(&file["steps"]);
        for exit in list(&file["on_exit"]) {
            let steps = self.steps(exit);
            workflow.exits.push((ExitWhen::Always, steps));
        }
        workflow.output = template(&file["output"], self.span());
        workflow.output_schema = schema(&file["output_schema"]);
        workflow
    }

    fn agent(&mut self, agent: &Value) -> Agent {
        let span = self.span();
        Agent {
            models: list(&agent["model"]).iter().filter_map(text).collect(),
            instructions: template(&agent["instructions"], span).unwrap_or(Template::Literal(json!(""))),
            tools: list(&agent["tools"]).iter().filter_map(text).collect(),
            input: schema(&agent["input"]),
            output: schema(&agent["output"]),
            max_turns: agent["max_turns"].as_u64().unwrap_or(30) as u32,
            budget: Budget { usd_nanos: agent["usd"].as_u64(), ..Budget::default() },
            span,
            ..Agent::default()
        }
    }

    fn span(&mut self) -> Span {
        self.spans += 10;
        Span::new(self.spans, self.spans + 5)
    }

    fn steps(&mut self, steps: &Value) -> Vec<Step> {
        list(steps).iter().map(|step| self.step(step)).collect()
    }

    fn step(&mut self, file: &Value) -> Step {
        let span = self.span();
        let (word, kind) = self.kind(file, span);
        let mut step = Step::new(word, kind, span);
        step.id = text(&file["id"]);
        step.when = expr(&file["when"], span);
        step.needs = file.get("needs").map(|needs| names(needs, span));
        step.output_key = text(&file["output_key"]);
        step.retry = Retry { max_attempts: file["retry"].as_u64().unwrap_or(0) as u32, ..Retry::default() };
        step.timeout_ms = file["timeout"].as_u64();
        step.budget = Budget { usd_nanos: file["usd"].as_u64(), ..Budget::default() };
        step.undo = file.get("undo").map(|undo| Box::new(self.step(undo)));
        let saved = file.get("save").into_iter().flat_map(entries);
        step.save = saved.map(|(name, value)| (name.clone(), template(value, span).unwrap())).collect();
        step.on_missing_null = file["on_missing"] == json!("null");
        step.on_error = match &file["on_error"] {
            Value::String(_) => StepError::Continue,
            Value::Object(map) if map.contains_key("goto") => StepError::Goto(name(&map["goto"], span)),
            Value::Object(map) => StepError::Value(template(&map["value"], span).unwrap()),
            _ => StepError::Fail,
        };
        step
    }

    fn kind(&mut self, file: &Value, span: Span) -> (&'static str, Kind) {
        let word = WORDS.iter().copied().find(|word| file.get(word).is_some()).unwrap();
        let main = &file[word];
        let max = file["max"].as_u64().map(|max| max as u32);
        let kind = match word {
            "agent" | "tool" | "workflow" => Kind::Call(Box::new(call(word, file, span))),
            "if" => {
                let steps = self.steps(&file["then"]);
                let arm = Branch { label: "then".into(), when: expr(main, span).unwrap(), steps };
                Kind::Choose { arms: vec![arm], other: file.get("else").map(|steps| self.steps(steps)) }
            }
            "switch" => {
                let arm = |reader: &mut Reader, (label, steps): (&String, &Value)| Branch {
                    label: label.clone(),
                    when: expr(&json!(format!("{} == '{label}'", main.as_str().unwrap())), span).unwrap(),
                    steps: reader.steps(steps),
                };
                let arms = entries(&file["cases"]).map(|case| arm(self, case)).collect();
                Kind::Choose { arms, other: file.get("default").map(|steps| self.steps(steps)) }
            }
            "parallel" => {
                let wait_for = match &file["wait_for"] {
                    Value::Number(count) => Awaited::Count(count.as_u64().unwrap() as u32),
                    Value::Array(_) => Awaited::Lanes(names(&file["wait_for"], span)),
                    _ => Awaited::All,
                };
                let detach = file["detach"] == json!(true);
                Kind::Parallel { lanes: self.steps(main), on_failure: LaneFailure::Cancel, wait_for, detach }
            }
            "steps" => Kind::Group { steps: self.steps(main), on_failure: LaneFailure::Cancel },
            "for_each" => Kind::ForEach {
                items: expr(main, span).unwrap(),
                steps: self.steps(&file["do"]),
                at_once: file["at_once"].as_u64().unwrap_or(1) as u32,
                max: max.unwrap_or(100),
                on_limit: OnLimit::Fail,
                on_failure: LaneFailure::Cancel,
            },
            "repeat" => Kind::Repeat {
                while_: expr(&file["while"], span),
                until: expr(&file["until"], span),
                delay_ms: 0,
                steps: self.steps(main),
                max: max.unwrap_or(100),
                on_limit: OnLimit::Fail,
            },
            "wait" => Kind::Wait(Until::For(template(main, span).unwrap())),
            "event" => Kind::Wait(Until::Event { event: text(main).unwrap(), filter: expr(&file["filter"], span) }),
            "ask" => Kind::Wait(Until::Person(Box::new(Ask {
                question: template(main, span).unwrap(),
                show: None,
                answer: schema(&file["answer"]).unwrap_or(Schema::new(json!({"type": "boolean"}))),
                deadline_ms: None,
                on_deadline: OnDeadline::Fail,
                people: Default::default(),
            }))),
            "stop_if" => Kind::StopIf(expr(main, span).unwrap()),
            "set" => Kind::Set(entries(main).map(|(k, v)| (k.clone(), template(v, span).unwrap())).collect()),
            _ => Kind::Goto { to: name(main, span), max },
        };
        (word, kind)
    }
}

const WORDS: &[&str] = &[
    "agent", "tool", "workflow", "if", "switch", "parallel", "steps", "for_each", "repeat", "wait", "event", "ask",
    "stop_if", "set", "goto",
];

fn call(word: &str, file: &Value, span: Span) -> Call {
    let named = text(&file[word]).unwrap();
    let task = match word {
        "agent" => Task::Agent { agent: named, prompt: template(&file["prompt"], span) },
        "tool" => Task::Tool { tool: named, with: template(&file["with"], span).unwrap_or(Template::Map(Vec::new())) },
        _ => Task::Workflow {
            workflow: named,
            plan: String::new(),
            takes: file.get("takes").map(|schema| Schema::new(schema.clone())),
        },
    };
    let input = template(&file["input"], span);
    Call {
        task,
        input,
        input_schema: schema(&file["input_schema"]),
        input_as: None,
        output_schema: schema(&file["output_schema"]),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(if value.is_null() { &[] } else { std::slice::from_ref(value) }, Vec::as_slice)
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn name(value: &Value, span: Span) -> Name {
    Name { text: text(value).unwrap(), span }
}

fn names(value: &Value, span: Span) -> Vec<Name> {
    list(value).iter().map(|value| name(value, span)).collect()
}

fn expr(value: &Value, span: Span) -> Option<Expr> {
    text(value).map(|source| Expr::parse(source, span).unwrap())
}

fn template(value: &Value, span: Span) -> Option<Template> {
    (!value.is_null()).then(|| Template::value(value, &|_| span).unwrap())
}

fn schema(value: &Value) -> Option<Schema> {
    (!value.is_null()).then(|| Schema::written(value).unwrap())
}
