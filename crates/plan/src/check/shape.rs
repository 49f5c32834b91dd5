//! What is known of the form of a value before anything has run: schemas, and the outputs that blocks make.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::flow::Flow;
use crate::expr::{Part, Root};
use crate::path::Segment;
use crate::{Call, Each, Fan, FanOutput, LaneFailure, Node, NodeId, OnError, Op, Plan, Task, Until};

#[derive(Debug, Clone, Copy)]
pub(super) enum Shape<'p> {
    /// Nothing is known.
    Any,
    Json(&'p Value),
    /// `{key: output}` of a fan's lanes.
    Lanes(&'p Fan),
    /// `{id: {output, status, error, agent}}` of a parallel.
    Entries(&'p Fan),
    Fixed(&'static [&'static str]),
    Text,
}

/// A segment that leads nowhere.
#[derive(Debug)]
pub(super) struct Miss<'p> {
    /// What would be there.
    pub known: Vec<&'p str>,
    /// What is there instead of something with fields.
    pub instead: Option<String>,
}

const ENTRY: &[&str] = &["output", "status", "error", "agent"];
const LOOP: &[&str] = &["results", "count", "ended_by"];
const WORKFLOW: &[&str] = &["name"];
static RUN: LazyLock<Value> = LazyLock::new(|| {
    let (text, count) = (json!({ "type": "string" }), json!({ "type": "integer" }));
    let usage = json!({
        "usd": { "type": "number" }, "tokens": count, "prompt_tokens": count, "completion_tokens": count,
        "model_calls": count, "tool_calls": count,
    });
    let usage = json!({ "type": "object", "properties": usage });
    let fields = json!({ "id": text, "user": text, "thread": text, "files": text, "usage": usage });
    json!({ "type": "object", "properties": fields })
});
/// What makes the form of a value depend on more than its own `properties`.
const INDIRECT: &[&str] = &["$ref", "$dynamicRef", "anyOf", "oneOf", "allOf", "if", "not"];

/// What is known of a name an expression reads.
pub(super) fn of_root<'p>(flow: &Flow<'p>, root: &Root, target: Option<NodeId>) -> Shape<'p> {
    match root {
        Root::Input => flow.plan.input_schema.as_ref().map_or(Shape::Any, |schema| Shape::Json(schema.json())),
        Root::Run => Shape::Json(&RUN),
        Root::Workflow => Shape::Fixed(WORKFLOW),
        Root::Step { part, .. } => target.map_or(Shape::Any, |node| of_part(flow, node, *part)),
        Root::Trigger | Root::Previous | Root::Item | Root::Index | Root::Loop | Root::Vars => Shape::Any,
        Root::Now | Root::Event | Root::Earlier => Shape::Any,
    }
}

fn of_part<'p>(flow: &Flow<'p>, node: NodeId, part: Part) -> Shape<'p> {
    match part {
        Part::Output => of_output(flow.plan, flow.plan.node(node)),
        Part::Outputs => flow.fan(node).map_or(Shape::Any, Shape::Entries),
        Part::Status => Shape::Text,
        Part::Error => Shape::Any,
    }
}

/// What is known of a node's output if it completes.
pub(super) fn of_output<'p>(plan: &'p Plan, node: &'p Node) -> Shape<'p> {
    if matches!(node.on_error, OnError::Value(_)) {
        return Shape::Any;
    }
    match &node.op {
        Op::Call(call) => of_call(plan, call),
        Op::Each(each) if each.last => of_pass(plan, each),
        Op::Each(_) => Shape::Fixed(LOOP),
        Op::Fan(fan) => of_fan(plan, fan),
        Op::Wait(Until::Person(ask)) => match ask.on_deadline {
            crate::OnDeadline::Fail => Shape::Json(ask.answer.json()),
            crate::OnDeadline::Value(_) => Shape::Any,
        },
        Op::Wait(_) | Op::Choose { .. } | Op::End { .. } => Shape::Any,
    }
}

/// Known where a pass is one call or question.
fn of_pass<'p>(plan: &'p Plan, each: &'p Each) -> Shape<'p> {
    let body = each.body.map(|id| plan.node(id)).filter(|node| node.next.is_none());
    match body.map(|node| (node, &node.op)) {
        Some((node, Op::Call(_) | Op::Wait(_))) => of_output(plan, node),
        Some((_, Op::Each(_) | Op::Choose { .. } | Op::Fan(_) | Op::End { .. })) | None => Shape::Any,
    }
}

fn of_call<'p>(plan: &'p Plan, call: &'p Call) -> Shape<'p> {
    let declared = call.output_schema.as_ref().or_else(|| match &call.task {
        Task::Agent { agent, .. } => plan.agents.get(agent).and_then(|a| a.output.as_ref()),
        Task::Tool { .. } | Task::Workflow { .. } => None,
    });
    declared.map_or(Shape::Any, |schema| Shape::Json(schema.json()))
}

fn of_fan<'p>(plan: &'p Plan, fan: &'p Fan) -> Shape<'p> {
    match &fan.output {
        FanOutput::Keyed => Shape::Lanes(fan),
        FanOutput::Sinks(sinks) if sinks.len() == 1 => of_lane(plan, fan, sinks[0] as usize),
        FanOutput::Sinks(_) => Shape::Lanes(fan),
        FanOutput::Only => of_lane(plan, fan, 0),
    }
}

/// Known where the lane is one call or question; more would be guessing.
fn of_lane<'p>(plan: &'p Plan, fan: &'p Fan, lane: usize) -> Shape<'p> {
    let entry = fan.lanes.get(lane).and_then(|lane| lane.entry).map(|id| plan.node(id));
    let sure = fan.on_failure != LaneFailure::Collect;
    match entry.filter(|node| sure && node.next.is_none()).map(|node| (node, &node.op)) {
        Some((node, Op::Call(_) | Op::Wait(_) | Op::Each(_))) => of_output(plan, node),
        Some((_, Op::Choose { .. } | Op::Fan(_) | Op::End { .. })) | None => Shape::Any,
    }
}

impl<'p> Shape<'p> {
    /// The form of what lies one segment below.
    pub fn down(self, plan: &'p Plan, segment: &Segment) -> Result<Shape<'p>, Miss<'p>> {
        match (self, segment) {
            (Shape::Any, _) => Ok(Shape::Any),
            (Shape::Json(schema), Segment::Key(key)) => field(schema, key),
            (Shape::Json(schema), Segment::Index(_)) => element(schema),
            (Shape::Text, _) => Err(Miss::instead("a text")),
            (Shape::Fixed(names), Segment::Key(key)) => named(names.iter().copied(), key, |_| Shape::Any),
            (Shape::Lanes(fan), Segment::Key(key)) => {
                let awaited: Vec<usize> = (0..fan.lanes.len()).filter(|lane| fan.awaits(*lane as u32)).collect();
                let names = awaited.iter().map(|lane| lane_name(&fan.lanes[*lane]));
                named(names, key, |position| of_lane(plan, fan, awaited[position]))
            }
            (Shape::Entries(fan), Segment::Key(key)) => {
                let names = fan.lanes.iter().map(|lane| lane.key.as_str()).chain(["order"]);
                let entry = |lane| if lane < fan.lanes.len() { Shape::Fixed(ENTRY) } else { Shape::Any };
                named(names, key, entry)
            }
            (Shape::Entries(_), Segment::Index(_)) => Ok(Shape::Fixed(ENTRY)),
            (Shape::Fixed(_) | Shape::Lanes(_), Segment::Index(_)) => Err(Miss::instead("an object")),
        }
    }

    /// The JSON type names that the value can have; none where nothing is known.
    pub fn types(self) -> Option<Vec<&'p str>> {
        match self {
            Shape::Any => None,
            Shape::Json(schema) => types(schema),
            Shape::Lanes(_) | Shape::Entries(_) | Shape::Fixed(_) => Some(vec!["object"]),
            Shape::Text => Some(vec!["string"]),
        }
    }
}

impl Miss<'_> {
    fn instead(what: &str) -> Self {
        Miss { known: Vec::new(), instead: Some(what.to_owned()) }
    }
}

fn lane_name(lane: &crate::Lane) -> &str {
    lane.output_key.as_deref().unwrap_or(&lane.key)
}

fn named<'p>(
    names: impl Iterator<Item = &'p str> + Clone,
    key: &str,
    below: impl Fn(usize) -> Shape<'p>,
) -> Result<Shape<'p>, Miss<'p>> {
    match names.clone().position(|name| name == key) {
        Some(position) => Ok(below(position)),
        None => Err(Miss { known: names.collect(), instead: None }),
    }
}

fn is_indirect(schema: &Value) -> bool {
    INDIRECT.iter().any(|word| schema.get(word).is_some())
}

pub(super) fn types(schema: &Value) -> Option<Vec<&str>> {
    if is_indirect(schema) {
        return None;
    }
    match schema.get("type")? {
        Value::String(one) => Some(vec![one]),
        Value::Array(several) => several.iter().map(Value::as_str).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => None,
    }
}

/// The schema of a property, if one is declared; `Err` where the object cannot or should not have it.
pub(super) fn field<'p>(schema: &'p Value, key: &str) -> Result<Shape<'p>, Miss<'p>> {
    excluded(schema, "object")?;
    let Some(properties) = schema.get("properties").and_then(Value::as_object).filter(|_| !is_indirect(schema)) else {
        return Ok(Shape::Any);
    };
    if let Some(property) = properties.get(key) {
        return Ok(Shape::Json(property));
    }
    if schema.get("patternProperties").is_some() {
        return Ok(Shape::Any);
    }
    match schema.get("additionalProperties") {
        Some(Value::Object(_)) | Some(Value::Bool(true)) => Ok(Shape::Any),
        // What a schema names and nothing else: a field that nobody declared is a slip, unless the schema says that
        // there are more.
        _ => Err(Miss { known: properties.keys().map(String::as_str).collect(), instead: None }),
    }
}

fn element(schema: &Value) -> Result<Shape<'_>, Miss<'_>> {
    excluded(schema, "array")?;
    let items = schema.get("items").filter(|items| items.is_object() && !is_indirect(schema));
    Ok(items.map_or(Shape::Any, Shape::Json))
}

fn excluded<'p>(schema: &'p Value, wanted: &str) -> Result<(), Miss<'p>> {
    match types(schema) {
        Some(types) if !types.contains(&wanted) => Err(Miss::instead(&in_words(&types))),
        Some(_) | None => Ok(()),
    }
}

/// `a string`, `an integer or null`.
pub(super) fn in_words(types: &[&str]) -> String {
    let word = |name: &&str| match *name {
        "null" => "null".to_owned(),
        "array" => "a list".to_owned(),
        "string" => "a text".to_owned(),
        "object" | "integer" => format!("an {name}"),
        other => format!("a {other}"),
    };
    types.iter().map(word).collect::<Vec<_>>().join(" or ")
}
