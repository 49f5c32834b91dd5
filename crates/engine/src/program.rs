//! A plan made ready to run: the plan and the few indexes that keep a turn from searching it.

use std::collections::HashMap;
use std::sync::Arc;

use relais_plan::{Agent, Budget, Effect, NodeId, Op, Plan, RegionId, Task, ToolRule, Until};
use serde_json::Value;

use crate::event::Stored;

pub struct Program {
    pub plan: Arc<Plan>,
    pub hash: String,
    keys: HashMap<String, NodeId>,
    /// For each `Fan`: which lanes come after each lane.
    dependents: HashMap<NodeId, Vec<Vec<u32>>>,
    /// Whether any step waits for an event.
    pub awaits_events: bool,
    /// Whether a run of it may ask people.
    pub asks_people: bool,
}

impl Program {
    pub fn new(plan: Plan) -> Program {
        let hash = plan.hash();
        let visible = plan.nodes.iter().enumerate().filter(|(_, n)| !n.hidden);
        let keys = visible.map(|(id, n)| (n.key.clone(), id as NodeId)).collect();
        let fans = plan.nodes.iter().enumerate().filter_map(|(id, n)| match &n.op {
            Op::Fan(fan) => Some((id as NodeId, dependents(fan))),
            Op::Call(_) | Op::Choose { .. } | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
        });
        let dependents = fans.collect();
        let awaits_events = plan.nodes.iter().any(|node| matches!(&node.op, Op::Wait(Until::Event { .. })));
        let asks_people = crate::questions::asks_people(&plan);
        Program { hash, keys, dependents, awaits_events, asks_people, plan: Arc::new(plan) }
    }

    pub fn find(&self, key: &str) -> Option<NodeId> {
        self.keys.get(key).copied()
    }

    pub fn after(&self, fan: NodeId, lane: u32) -> &[u32] {
        self.dependents.get(&fan).and_then(|lanes| lanes.get(lane as usize)).map_or(&[], Vec::as_slice)
    }

    /// The agent of an agent step.
    pub fn agent(&self, node: NodeId) -> Option<&Agent> {
        match &self.plan.node(node).op {
            Op::Call(call) => match &call.task {
                Task::Agent { agent, .. } => self.plan.agents.get(agent),
                Task::Tool { .. } | Task::Workflow { .. } => None,
            },
            Op::Choose { .. } | Op::Fan(_) | Op::Each(_) | Op::Wait(_) | Op::End { .. } => None,
        }
    }

    /// The number of an artifact's first version at a node. Where results are marked, versions count from 0, as they do
    /// where such marks come from; elsewhere from 1.
    pub fn first_version(&self, node: NodeId) -> usize {
        let is_marked = self.agent(node).is_some_and(|agent| agent.result_mark);
        if is_marked { 0 } else { 1 }
    }

    /// How many bytes of a tool's result the agent of a node is told at once; none where there is no agent.
    pub fn result_limit(&self, node: NodeId, default: u64) -> Option<u64> {
        self.agent(node).map(|agent| agent.result_limit.unwrap_or(default))
    }

    /// What a tool returned as the journal keeps it, and the bytes to be stored where they are many.
    pub fn result(&self, node: NodeId, value: Value, default_limit: u64) -> (Stored, Option<(String, Vec<u8>)>) {
        let inline = self.plan.limits.inline_bytes;
        match self.result_limit(node, default_limit) {
            Some(limit) => Stored::result(value, inline, limit),
            None => Stored::new(value, inline),
        }
    }

    /// The budgets that bound a node: its own and, for an agent step, the agent's.
    pub fn budgets(&self, node: NodeId) -> impl Iterator<Item = Budget> {
        let agent = self.agent(node).map(|agent| agent.budget);
        [Some(self.plan.node(node).budget), agent].into_iter().flatten().filter(|b| !b.is_empty())
    }

    /// Is `inner` the block `outer` or inside it (within one region)?
    pub fn is_inside(&self, inner: NodeId, outer: NodeId) -> bool {
        let mut at = self.plan.node(inner).inside;
        while let Some(block) = at {
            if block == outer {
                return true;
            }
            at = self.plan.node(block).inside;
        }
        false
    }

    /// The regions from a node's own up to the outermost.
    pub fn regions_above(&self, region: RegionId) -> Vec<RegionId> {
        let mut chain = vec![region];
        while let Some(up) = self.plan.regions[chain[chain.len() - 1] as usize].parent {
            chain.push(up);
        }
        chain
    }

    /// What the file says about a tool: an exact name before a pattern.
    pub fn rule(&self, tool: &str) -> Option<&ToolRule> {
        self.plan.tools.get(tool).or_else(|| {
            let matching = self.plan.tools.iter().find(|(pattern, _)| matches_pattern(pattern, tool));
            matching.map(|(_, rule)| rule)
        })
    }

    pub fn effect(&self, tool: &str, known: Effect) -> Effect {
        self.rule(tool).and_then(|r| r.effect).unwrap_or(known)
    }
}

fn dependents(fan: &relais_plan::Fan) -> Vec<Vec<u32>> {
    let mut after = vec![Vec::new(); fan.lanes.len()];
    for (number, lane) in fan.lanes.iter().enumerate() {
        for before in &lane.after {
            if let Some(list) = after.get_mut(*before as usize) {
                list.push(number as u32);
            }
        }
    }
    after
}

/// `*` stands for any text; everything else for itself.
pub fn matches_pattern(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(rest) = name.strip_prefix(head) else { return false };
    if tail.is_empty() {
        return true;
    }
    rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| matches_pattern(tail, &rest[at..]))
}
