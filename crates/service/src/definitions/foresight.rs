//! What can be known of a run before it starts: constant text, and how much it may cost.

use std::borrow::Cow;

use relais_plan::expr::{EvalError, Names, Root};
use relais_plan::{Agent, Call, Node, Op, Over, Plan, Task, Template};
use relais_runtime::model::ModelFacts;
use relais_runtime::models::Models;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::{Error, Service};

/// The names that have a value before the first step.
pub struct Known {
    input: Option<Value>,
    workflow: Value,
}

impl Known {
    pub fn new(workflow: &str, input: Option<Map<String, Value>>) -> Known {
        Known { input: input.map(Value::Object), workflow: json!({ "name": workflow }) }
    }
}

impl Names for Known {
    fn get(&self, root: &Root) -> Result<Cow<'_, Value>, EvalError> {
        match (root, &self.input) {
            (Root::Input, Some(input)) => Ok(Cow::Borrowed(input)),
            (Root::Workflow, _) => Ok(Cow::Borrowed(&self.workflow)),
            // Not a missing value, which `default` would replace, but one that comes later.
            _ => Err(EvalError::Load("known only when the run goes".into())),
        }
    }
}

/// The text that a template gives, or the template where that is not known yet.
pub fn constant(template: &Template, known: &Known) -> String {
    match resolved(template, known) {
        Value::String(text) => text,
        other => serde_json::to_string_pretty(&other).unwrap_or_else(|_| other.to_string()),
    }
}

fn resolved(template: &Template, known: &Known) -> Value {
    match template {
        Template::Literal(value) => value.clone(),
        Template::Ref(expr) => template.render(known).unwrap_or_else(|_| json!(format!("{{{{ {} }}}}", expr.source()))),
        Template::Text(text) => template.render(known).unwrap_or_else(|_| json!(text.source())),
        Template::List(items) => items.iter().map(|item| resolved(item, known)).collect(),
        Template::Map(fields) => {
            Value::Object(fields.iter().map(|(name, field)| (name.clone(), resolved(field, known))).collect())
        }
    }
}

/// What a run would do and cost.
#[derive(Debug, Serialize)]
pub struct Foresight {
    pub workflow: String,
    pub steps: Vec<ForeseenStep>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    /// From one short answer per step to every turn and pass used up.
    pub cost: String,
}

#[derive(Debug, Serialize)]
pub struct ForeseenStep {
    pub id: String,
    pub kind: String,
    /// The condition under which it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// The agent, tool or workflow that it calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub calls: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub models: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The prompt, or what the tool or workflow is given, as far as it is known now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given: Option<String>,
    /// The step after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cost: Option<String>,
}

impl Service {
    /// What a run of a kept workflow with this input would do and cost. Calls nothing.
    pub async fn foresee(
        &self,
        workflow: &str,
        branch: Option<&str>,
        input: Option<Map<String, Value>>,
    ) -> Result<Foresight, Error> {
        let workflow = self.find_workflow(workflow).await?;
        let plan = self.startable(&workflow.it, branch, None).await?.plan;
        let known = Known::new(&plan.name, input);
        let costs = Costs::of(&plan, &self.core.definitions.models, None, &known);
        let shown = plan.nodes.iter().enumerate().filter(|(_, node)| !node.hidden);
        let steps = shown.map(|(id, node)| foreseen(&plan, node, &known, costs.step(id))).collect();
        let output = plan.output.as_ref().map(|output| constant(output, &known));
        Ok(Foresight { workflow: plan.name.clone(), steps, output, cost: costs.total() })
    }
}

fn foreseen(plan: &Plan, node: &Node, known: &Known, cost: Option<String>) -> ForeseenStep {
    let mut step = ForeseenStep {
        id: node.key.clone(),
        kind: node.kind.clone(),
        when: node.when.as_ref().map(|when| when.source().to_owned()),
        calls: None,
        models: Vec::new(),
        tools: Vec::new(),
        given: None,
        then: node.next.map(|next| plan.node(next).key.clone()),
        cost,
    };
    let Op::Call(call) = &node.op else { return step };
    let input = call.input.as_ref();
    match &call.task {
        Task::Agent { agent, prompt, .. } => {
            step.given = prompt.as_ref().or(input).map(|it| constant(it, known));
            step.calls = Some(agent.clone());
            if let Some(agent) = plan.agents.get(agent) {
                (step.models, step.tools) = (agent.models.clone(), agent.tools.clone());
            }
        }
        Task::Tool { tool, with } => {
            (step.calls, step.given) = (Some(tool.clone()), Some(constant(with, known)));
        }
        Task::Workflow { workflow, .. } => {
            (step.calls, step.given) = (Some(workflow.clone()), input.map(|it| constant(it, known)));
        }
    }
    step
}

/// What an answer may cost at most where the agent sets no `max_tokens`; the engine reserves as much.
const ANSWER_TOKENS: u64 = 4_096;
/// Bytes of text per token, as the engine reckons before a provider has counted.
const BYTES_PER_TOKEN: u64 = 3;

/// Least and most, in billionths of a dollar.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Range {
    least: u64,
    most: u64,
}

/// What each step may cost.
pub struct Costs {
    /// By node; none for steps that call no model.
    steps: Vec<Option<Result<Range, String>>>,
    total: Range,
    unknown: Vec<String>,
    budget: Option<u64>,
}

impl Costs {
    pub fn of(plan: &Plan, models: &Models, model: Option<&str>, known: &Known) -> Costs {
        let reckoner = Reckoner { plan, models, model, known };
        let steps: Vec<_> = plan.nodes.iter().map(|node| reckoner.step(node)).collect();
        let mut costs =
            Costs { steps, total: Range::default(), unknown: Vec::new(), budget: plan.limits.budget.usd_nanos };
        for (node, step) in plan.nodes.iter().zip(&costs.steps) {
            match step {
                Some(Ok(range)) => {
                    let least = if reckoner.surely_runs(node) { range.least } else { 0 };
                    costs.total.least = costs.total.least.saturating_add(least);
                    costs.total.most =
                        costs.total.most.saturating_add(range.most.saturating_mul(reckoner.passes(node)));
                }
                Some(Err(model)) if !costs.unknown.contains(model) => costs.unknown.push(model.clone()),
                Some(Err(_)) | None => {}
            }
        }
        costs
    }

    pub fn step(&self, node: usize) -> Option<String> {
        match self.steps.get(node)?.as_ref()? {
            Ok(range) => Some(format!("costs {}", between(*range))),
            Err(model) => Some(format!("costs: the price of {model} is not known")),
        }
    }

    pub fn total(&self) -> String {
        if self.steps.iter().all(Option::is_none) {
            return "cost: no model is called".to_owned();
        }
        let mut range = self.total;
        let mut text = String::new();
        if let Some(budget) = self.budget.filter(|budget| *budget < range.most) {
            range = Range { least: range.least.min(budget), most: budget };
            text.push_str(" (its budget stops it there)");
        }
        let mut line = format!("cost: {}{text}, results of tools not counted", between(range));
        if !self.unknown.is_empty() {
            line.push_str(&format!("; without {}, whose price is not known", self.unknown.join(", ")));
        }
        line
    }
}

/// Small amounts keep two digits that say something: `$0.0004`, `$0.12`, `$3.40`.
pub fn cost(usd_nanos: u64) -> Option<String> {
    let usd = usd_nanos as f64 / 1e9;
    match usd_nanos {
        0 => None,
        1..100_000 => Some(format!("${usd:.6}")),
        100_000..100_000_000 => Some(format!("${usd:.4}")),
        _ => Some(format!("${usd:.2}")),
    }
}

fn between(range: Range) -> String {
    let shown = |nanos: u64| cost(nanos).unwrap_or_else(|| "$0".to_owned());
    if range.most == 0 { "nothing".to_owned() } else { format!("{} to {}", shown(range.least), shown(range.most)) }
}

struct Reckoner<'a> {
    plan: &'a Plan,
    models: &'a Models,
    model: Option<&'a str>,
    known: &'a Known,
}

impl Reckoner<'_> {
    fn step(&self, node: &Node) -> Option<Result<Range, String>> {
        let Op::Call(call) = &node.op else { return None };
        let Task::Agent { agent, .. } = &call.task else { return None };
        let agent = self.plan.agents.get(agent)?;
        let spoken = self.spoken_tokens(agent, call);
        let mut range = Range { least: u64::MAX, most: 0 };
        for model in self.models_of(agent) {
            let facts = self.models.facts(&model);
            let Some(one) = reckoned(agent, spoken, &facts) else { return Some(Err(model)) };
            range = Range { least: range.least.min(one.least), most: range.most.max(one.most) };
        }
        range.most = range.most.saturating_mul(u64::from(node.retry.max_attempts) + 1);
        Some(Ok(range))
    }

    fn models_of(&self, agent: &Agent) -> Vec<String> {
        match (self.model, agent.models.as_slice()) {
            (Some(model), _) => vec![model.to_owned()],
            (None, []) => vec![String::new()],
            (None, models) => models.to_vec(),
        }
    }

    fn spoken_tokens(&self, agent: &Agent, call: &Call) -> u64 {
        let prompt = match &call.task {
            Task::Agent { prompt, .. } => prompt.as_ref(),
            Task::Tool { .. } | Task::Workflow { .. } => None,
        };
        let texts = [Some(&agent.instructions), prompt, call.input.as_ref()];
        let bytes: usize = texts.into_iter().flatten().map(|t| constant(t, self.known).len()).sum();
        (bytes as u64).div_ceil(BYTES_PER_TOKEN)
    }

    /// Neither in an arm nor in a loop that may have no pass, nor under a condition.
    fn surely_runs(&self, node: &Node) -> bool {
        let opener = self.plan.regions.get(node.region as usize).map(|region| region.opener);
        let enclosing = match opener {
            Some(Some(opener)) => {
                let opener = self.plan.node(opener);
                let begins = match &opener.op {
                    Op::Fan(_) => true,
                    Op::Each(each) => matches!(each.over, Over::Passes { while_: None, .. }),
                    Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => false,
                };
                begins && self.surely_runs(opener)
            }
            Some(None) => node.region == relais_plan::plan::ROOT,
            None => false,
        };
        node.inside.is_none() && node.when.is_none() && enclosing
    }

    /// How often a step may run: every pass of every loop around it, every jump back.
    fn passes(&self, node: &Node) -> u64 {
        let region = self.plan.regions.get(node.region as usize);
        let opener = region.and_then(|region| region.opener).map(|opener| self.plan.node(opener));
        let around = match opener.map(|opener| (&opener.op, self.passes(opener))) {
            Some((Op::Each(each), around)) => around.saturating_mul(u64::from(each.max)),
            Some((_, around)) => around,
            None => 1,
        };
        let jumps = self.plan.nodes.iter().filter(|other| other.region == node.region).filter_map(|other| other.limit);
        jumps.map(u64::from).fold(around, u64::saturating_mul)
    }
}

/// One short answer, or every turn used up with the longest answers, each said again in the next turn.
fn reckoned(agent: &Agent, spoken: u64, facts: &ModelFacts) -> Option<Range> {
    let (prompt, completion) = (facts.prompt_nanos?, facts.completion_nanos?);
    let answer = agent.max_tokens.map_or(ANSWER_TOKENS, u64::from);
    let turns = match (agent.tools.is_empty(), agent.output.is_some()) {
        (false, _) => u64::from(agent.max_turns),
        (true, true) => u64::from(agent.output_retries) + 1,
        (true, false) => 1,
    };
    let said_again = answer.saturating_mul(turns.saturating_mul(turns.saturating_sub(1)) / 2);
    let heard = spoken.saturating_mul(turns).saturating_add(said_again);
    let most = heard.saturating_mul(prompt).saturating_add(turns.saturating_mul(answer).saturating_mul(completion));
    Some(Range { least: spoken.saturating_mul(prompt).saturating_add(completion), most })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn turns_and_answers_make_the_range() {
        let facts = ModelFacts { prompt_nanos: Some(2), completion_nanos: Some(10), ..ModelFacts::default() };
        let agent = |tools: &[&str], max_turns| Agent {
            tools: tools.iter().map(|t| (*t).to_owned()).collect(),
            max_turns,
            max_tokens: Some(100),
            ..Agent::default()
        };
        let plain = reckoned(&agent(&[], 30), 50, &facts).unwrap();
        assert_eq!(plain, Range { least: 110, most: 50 * 2 + 100 * 10 });
        let with_tools = reckoned(&agent(&["t"], 2), 50, &facts).unwrap();
        assert_eq!(with_tools.most, (2 * 50 + 100) * 2 + 2 * 100 * 10);
        assert_eq!(reckoned(&agent(&[], 1), 50, &ModelFacts::default()), None);
    }

    #[test]
    fn text_is_filled_in_as_far_as_it_is_known() {
        let span = relais_plan::Span::default();
        let check = |written: &str, input: Option<Value>, expected: &str| {
            let template = Template::text(written, span).unwrap();
            let input = input.and_then(|v| v.as_object().cloned());
            assert_eq!(constant(&template, &Known::new("flow", input)), expected, "{written}");
        };
        check("plain", None, "plain");
        check("{{ input.a }}", None, "{{ input.a }}");
        check("{{ input.a }}", Some(json!({"a": "x"})), "x");
        check("is {{ input.a }} in {{ workflow.name }}", Some(json!({"a": 1})), "is 1 in flow");
        check("is {{ steps.s.output }}", Some(json!({"a": 1})), "is {{ steps.s.output }}");
    }
}
