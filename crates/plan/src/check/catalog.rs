//! What a plan uses from outside: agents, tools, models, money.

use std::collections::{BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::World;
use super::flow::{Flow, View};
use super::names::listed;
use crate::problem::Suggestions;
use crate::{Agent, Budget, NodeId, Op, Plan, Problem, Problems, Span, Task};

/// Models of these providers cost nothing.
const FREE_PROVIDERS: &[&str] = &["sim", "script"];
const MCP: &str = "mcp:";

pub(super) type Tools<'w> = HashMap<&'w str, &'w Value>;

pub(super) fn check(plan: &Plan, flow: &Flow<'_>, tools: Option<&Tools<'_>>, world: &dyn World) -> Problems {
    let mut problems = Vec::new();
    let mut suggestions = Suggestions::default();
    agents(plan, world, &mut suggestions, &mut problems);
    if let Some(tools) = tools {
        let configured = world.servers();
        let shelf = Shelf::new(plan, tools, &configured);
        let mut find = |(name, span, user): (&str, Span, String)| shelf.check(name, span, &user, &mut suggestions);
        problems.extend(uses(plan).into_iter().filter_map(&mut find));
    }
    rules(plan, tools, &mut suggestions, &mut problems);
    plan.agents.iter().for_each(|(name, agent)| models(name, agent, &mut problems));
    prices(plan, flow, world, &mut problems);
    budgets(plan, &mut problems);
    problems
}

fn agents(plan: &Plan, world: &dyn World, suggestions: &mut Suggestions, problems: &mut Problems) {
    let is_unknown = |op: &Op| agent_of(op).is_some_and(|name| !plan.agents.contains_key(name));
    let kept = if plan.nodes.iter().any(|node| is_unknown(&node.op)) { world.agents() } else { Vec::new() };
    let known = || plan.agents.keys().chain(&kept).map(String::as_str);
    let mut used = HashSet::new();
    for node in &plan.nodes {
        let Some(name) = agent_of(&node.op) else { continue };
        used.insert(name);
        if !plan.agents.contains_key(name) {
            let help = match suggestions.nearest(name, known()) {
                Some(near) => format!("did you mean `{near}`?"),
                None if known().next().is_none() => "declare it under `agents`, or keep it first".to_owned(),
                None => format!("agents are: {}", listed(known())),
            };
            problems.push(Problem::error(node.span, format!("no agent is called `{name}`")).help(help));
        }
    }
    for (name, agent) in plan.agents.iter().filter(|(name, _)| !used.contains(name.as_str())) {
        problems.push(Problem::warning(agent.span, format!("agent `{name}` is not used by any step")));
    }
}

fn agent_of(op: &Op) -> Option<&str> {
    match op {
        Op::Call(call) => match &call.task {
            Task::Agent { agent, .. } => Some(agent),
            Task::Tool { .. } | Task::Workflow { .. } => None,
        },
        Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
    }
}

/// Every tool name or pattern that something uses, where, and who does.
fn uses(plan: &Plan) -> Vec<(&str, Span, String)> {
    let of_agents = plan.agents.iter().flat_map(|(name, agent)| {
        agent.tools.iter().map(move |tool| (tool.as_str(), agent.span, format!("agent `{name}`")))
    });
    let of_steps = plan.nodes.iter().filter_map(|node| match &node.op {
        Op::Call(call) => match &call.task {
            Task::Tool { tool, .. } => Some((tool.as_str(), node.span, format!("step `{}`", node.key))),
            Task::Agent { .. } | Task::Workflow { .. } => None,
        },
        Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
    });
    of_agents.chain(of_steps).collect()
}

/// The tools there are, and the servers they come from.
struct Shelf<'a> {
    tools: &'a Tools<'a>,
    listed: BTreeSet<&'a str>,
    declared: BTreeSet<&'a str>,
}

impl<'a> Shelf<'a> {
    fn new(plan: &'a Plan, tools: &'a Tools<'a>, configured: &'a [String]) -> Shelf<'a> {
        let listed = tools.keys().filter_map(|name| server_of(name)).collect();
        let declared = plan.servers.keys().chain(configured).map(String::as_str).collect();
        Shelf { tools, listed, declared }
    }

    fn check(&self, name: &str, span: Span, user: &str, suggestions: &mut Suggestions) -> Option<Problem> {
        let unlisted = |server: &&str| !server.contains('*') && !self.listed.contains(server);
        if let Some(server) = server_of(name).filter(unlisted) {
            return (!self.declared.contains(server)).then(|| self.no_server(server, span, user, suggestions));
        }
        if name.contains('*') {
            let found = self.tools.keys().any(|tool| matches(name, tool));
            return (!found).then(|| self.no_match(name, span, user));
        }
        (!self.tools.contains_key(name)).then(|| self.no_tool(name, span, user, suggestions))
    }

    fn no_server(&self, server: &str, span: Span, user: &str, suggestions: &mut Suggestions) -> Problem {
        let known = self.listed.union(&self.declared).copied();
        let help = match suggestions.nearest(server, known.clone()) {
            Some(near) => format!("did you mean `{MCP}{near}/…`?"),
            None => format!("MCP servers are: {}; declare it in the file or the configuration", listed(known)),
        };
        Problem::error(span, format!("{user} uses the MCP server `{server}`, which is not known")).help(help)
    }

    fn no_match(&self, pattern: &str, span: Span, user: &str) -> Problem {
        let message = format!("{user} uses `{pattern}`, which matches no tool");
        Problem::error(span, message).help("`relais tools` lists what there is")
    }

    fn no_tool(&self, name: &str, span: Span, user: &str, suggestions: &mut Suggestions) -> Problem {
        let mut known: Vec<&str> = self.tools.keys().copied().collect();
        known.sort_unstable();
        let help = match suggestions.nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("tools are: {}", listed(known)),
        };
        Problem::error(span, format!("{user} uses the tool `{name}`, which does not exist")).help(help)
    }
}

/// `shop` of `mcp:shop/buy`.
fn server_of(name: &str) -> Option<&str> {
    name.strip_prefix(MCP)?.split('/').next()
}

/// `*` stands for any text. Greedy with one point of return, so linear in practice and never exponential.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// Can two patterns name the same tool? May say yes too often where both have stars.
fn overlap(a: &str, b: &str) -> bool {
    let (fixed_a, fixed_b) = (a.split('*').next().unwrap_or(a), b.split('*').next().unwrap_or(b));
    match (a.contains('*'), b.contains('*')) {
        (true, true) => fixed_a.starts_with(fixed_b) || fixed_b.starts_with(fixed_a),
        (true, false) => matches(a, b),
        (false, _) => matches(b, a),
    }
}

/// Rules compared with uses: more than any file has that a person wrote; a warning is not worth the square of a file.
const MAX_COMPARED: usize = 1_000_000;

fn rules(plan: &Plan, tools: Option<&Tools<'_>>, suggestions: &mut Suggestions, problems: &mut Problems) {
    let used: BTreeSet<&str> = uses(plan).into_iter().map(|(name, _, _)| name).collect();
    for (pattern, rule) in plan.tools.iter().take(MAX_COMPARED / used.len().max(1)) {
        if used.iter().any(|name| overlap(pattern, name)) {
            continue;
        }
        let message = format!("the rule for `{pattern}` has no effect: nothing uses such a tool");
        let problem = Problem::warning(rule.span, message);
        let known = used.iter().copied().chain(tools.into_iter().flat_map(|tools| tools.keys().copied()));
        problems.push(match suggestions.nearest(pattern, known) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem,
        });
    }
}

fn models(name: &str, agent: &Agent, problems: &mut Problems) {
    for model in &agent.models {
        let wrong = if model.is_empty() {
            "is empty"
        } else if model.contains(char::is_whitespace) {
            "has a space in it"
        } else if model.starts_with('/') {
            "names no provider"
        } else if model.ends_with('/') {
            "names no model"
        } else {
            continue;
        };
        let problem = Problem::error(agent.span, format!("the model `{model}` of agent `{name}` {wrong}"));
        problems.push(problem.help("write `provider/model`, such as `openai/gpt-4o-mini`"));
    }
}

/// A budget in dollars can be kept only where prices are known.
fn prices(plan: &Plan, flow: &Flow<'_>, world: &dyn World, problems: &mut Problems) {
    let mut told = HashSet::new();
    for (id, node) in plan.nodes.iter().enumerate() {
        let Some((name, agent)) = agent_of(&node.op).and_then(|name| plan.agents.get_key_value(name)) else { continue };
        if !has_dollar_budget(plan, flow, id as NodeId, agent) {
            continue;
        }
        for model in agent.models.iter().filter(|model| !is_free(model)) {
            if told.insert((name, model)) && !world.price_known(model) {
                let message =
                    format!("there is a budget in USD, and the price of `{model}` (agent `{name}`) is not known");
                let help = "give its price in the `models` table of relais.toml, or drop the usd budget";
                problems.push(Problem::error(agent.span, message).help(help));
            }
        }
    }
}

fn is_free(model: &str) -> bool {
    model.split_once('/').is_some_and(|(provider, _)| FREE_PROVIDERS.contains(&provider))
}

fn has_dollar_budget(plan: &Plan, flow: &Flow<'_>, id: NodeId, agent: &Agent) -> bool {
    let dollars = |budget: &Budget| budget.usd_nanos.is_some();
    let blocks = |node: NodeId| std::iter::successors(Some(node), |&n| plan.node(n).inside).take(plan.nodes.len());
    let holders = flow.scopes(View::Start(id)).filter_map(|(_, place)| place.holder());
    dollars(&plan.limits.budget)
        || dollars(&agent.budget)
        || std::iter::once(id).chain(holders).flat_map(blocks).any(|node| dollars(&plan.node(node).budget))
}

fn budgets(plan: &Plan, problems: &mut Problems) {
    let steps = plan.nodes.iter().map(|node| (&node.budget, node.span, format!("step `{}`", node.key)));
    let agents = plan.agents.iter().map(|(name, agent)| (&agent.budget, agent.span, format!("agent `{name}`")));
    for (budget, span, owner) in steps.chain(agents) {
        for what in larger(budget, &plan.limits.budget) {
            let message = format!("the {what} budget of {owner} is larger than that of the whole run");
            problems.push(Problem::warning(span, message).help("the run's own budget ends it first"));
        }
    }
}

fn larger(part: &Budget, whole: &Budget) -> Vec<&'static str> {
    let pairs = [
        ("usd", part.usd_nanos, whole.usd_nanos),
        ("tokens", part.tokens, whole.tokens),
        ("model_calls", part.model_calls, whole.model_calls),
        ("tool_calls", part.tool_calls, whole.tool_calls),
        ("time", part.time_ms, whole.time_ms),
    ];
    let exceeds = |part: Option<u64>, whole: Option<u64>| part.zip(whole).is_some_and(|(part, whole)| part > whole);
    pairs.into_iter().filter(|(_, part, whole)| exceeds(*part, *whole)).map(|(name, _, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name, expected) in [
            ("mcp:shop/*", "mcp:shop/buy", true),
            ("mcp:shop/*", "mcp:bank/buy", false),
            ("*", "anything", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXcYb", false),
            ("a*a", "a", false),
            ("plain", "plain", true),
            ("plain", "plainer", false),
            ("", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn overlaps() {
        for (a, b, expected) in [
            ("mcp:shop/*", "mcp:shop/b*", true),
            ("mcp:shop/*", "mcp:bank/*", false),
            ("mcp:shop/buy", "mcp:shop/*", true),
            ("read_file", "read_file", true),
            ("read_file", "write_file", false),
        ] {
            assert_eq!(overlap(a, b), expected, "{a} {b}");
        }
    }
}
