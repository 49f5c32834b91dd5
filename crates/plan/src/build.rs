//! From the tree of steps to the table of nodes: ids, regions, links, jumps and blocks are made here and nowhere else.
//!
//! It knows nothing of file formats, and it does not look into expressions: whether a reference can be read is the
//! business of [`crate::check`].

mod blocks;
mod ids;
mod jumps;
mod vars;

pub(crate) use blocks::topological;

pub use ids::positional;

use crate::problem::Suggestions;
use crate::step::{Branch, Kind, Step, StepError, Workflow};
use crate::{
    Arm, Each, Exit, FanOutput, Jump, Node, NodeId, OnError, Op, Outcome, Over, Plan, Problem, Problems, ROOT, Region,
    RegionId, Task,
};

/// Steps within steps. Deeper than any file that a person can still read; keeps every recursion over the tree shallow.
pub const MAX_DEPTH: usize = 64;
/// Steps in one workflow: a bound on what a stranger can make the process hold.
pub const MAX_NODES: usize = 100_000;
/// Agent and tool steps end after 30 minutes unless they say otherwise.
pub const DEFAULT_STEP_TIMEOUT_MS: u64 = 1_800_000;
/// How often a jump may enter its target per cycle where the `goto` has no `max`.
pub const DEFAULT_GOTO_LIMIT: u32 = 100;

/// Lowers the tree. Problems are those only the lowering can see: doubled ids, jumps that leave their scope, unknown
/// needs, cycles. There is no plan only if the tree is too large or too deep.
pub fn build(mut workflow: Workflow) -> (Option<Plan>, Problems) {
    let mut problems = Vec::new();
    if !ids::assign(&mut workflow, &mut problems) {
        return (None, problems);
    }
    let mut lowering = Lowering::new(problems);
    let steps = std::mem::take(&mut workflow.steps);
    let exits = std::mem::take(&mut workflow.exits);
    let body = lowering.region(None);
    let place = lowering.top_of(body);
    let is_dag = steps.iter().any(|step| step.needs.is_some());
    let entry = lowering.sequence(steps, place, "body").entry;
    if let Some(block) = entry.filter(|_| is_dag)
        && let Op::Fan(fan) = &mut lowering.node_mut(block).op
    {
        fan.on_failure = workflow.on_step_failure;
    }
    let exits = lowering.exits(exits);
    jumps::resolve(&mut lowering);
    let Lowering { nodes, regions, mut problems, .. } = lowering;
    vars::check(&nodes, &regions, &mut problems);
    (Some(plan_of(workflow, nodes, regions, entry, exits)), problems)
}

fn plan_of(
    workflow: Workflow,
    nodes: Vec<Node>,
    regions: Vec<Region>,
    entry: Option<NodeId>,
    exits: Vec<Exit>,
) -> Plan {
    Plan {
        name: workflow.name,
        description: workflow.description,
        alias: workflow.alias,
        branch: workflow.branch,
        nodes,
        regions,
        entry,
        exits,
        input_schema: workflow.input_schema,
        output: workflow.output,
        output_schema: workflow.output_schema,
        agents: workflow.agents,
        tools: workflow.tools,
        servers: workflow.servers,
        limits: workflow.limits,
        on_failure: workflow.on_failure,
        on_tool_drift: workflow.on_tool_drift,
        triggers: workflow.triggers,
        paused: workflow.paused,
        notify: workflow.notify,
        tags: workflow.tags,
    }
}

struct Lowering {
    nodes: Vec<Node>,
    regions: Vec<Region>,
    /// The list that each node stands in.
    list_of: Vec<ListId>,
    /// The list around each list, within its region.
    around: Vec<Option<ListId>>,
    jumps: Vec<jumps::Pending>,
    problems: Problems,
    suggestions: Suggestions,
}

/// Where a list of steps stands: its region, and the `Choose` of that region whose arm it is.
#[derive(Clone, Copy)]
struct Place {
    region: RegionId,
    inside: Option<NodeId>,
    list: ListId,
}

/// A list of steps in one region: its top sequence or an arm.
type ListId = u32;

/// A lowered stretch of a sequence: where it begins, and the nodes whose `next` is whatever follows it.
#[derive(Default)]
struct Stretch {
    entry: Option<NodeId>,
    ends: Vec<NodeId>,
}

impl Lowering {
    fn new(problems: Problems) -> Lowering {
        Lowering {
            nodes: Vec::new(),
            regions: Vec::new(),
            list_of: Vec::new(),
            around: Vec::new(),
            jumps: Vec::new(),
            problems,
            suggestions: Suggestions::default(),
        }
    }

    /// A list of steps, in written order, or as one hidden block where a step has `needs`.
    fn sequence(&mut self, steps: Vec<Step>, place: Place, hidden_key: &str) -> Stretch {
        if steps.iter().any(|s| s.needs.is_some()) {
            return self.hidden_block(steps, place, hidden_key);
        }
        let mut whole = Stretch::default();
        for step in steps {
            self.refuse_run_if(&step);
            self.refuse_output_key(&step);
            let stretch = self.step(step, place);
            whole = self.join(whole, stretch);
        }
        whole
    }

    fn join(&mut self, before: Stretch, after: Stretch) -> Stretch {
        for end in before.ends {
            self.node_mut(end).next = after.entry;
        }
        Stretch { entry: before.entry.or(after.entry), ends: after.ends }
    }

    fn step(&mut self, mut step: Step, place: Place) -> Stretch {
        let kind = std::mem::replace(&mut step.kind, Kind::Set(Vec::new()));
        let last = step.keep_last;
        let id = self.open(step, place);
        let mut ends = vec![id];
        let op = match kind {
            Kind::Call(call) => self.call(id, call),
            Kind::Choose { arms, other } if has_policies(self.node(id)) => self.wrapped_choose(id, arms, other),
            Kind::Choose { arms, other } => self.choose(id, arms, other, &mut ends),
            Kind::Parallel { lanes, on_failure, wait_for, detach } => {
                self.parallel(id, lanes, on_failure, wait_for, detach)
            }
            Kind::Group { steps, on_failure } => self.group(id, steps, on_failure),
            Kind::ForEach { items, steps, at_once, max, on_limit, on_failure } => {
                let (body, region) = self.body(id, steps);
                let (over, width) = (Over::Items(items), at_once.max(1));
                Op::Each(Each { over, body, region, width, max, on_limit, on_failure, last })
            }
            Kind::Repeat { while_, until, delay_ms, steps, max, on_limit } => {
                let (body, region) = self.body(id, steps);
                let over = Over::Passes { while_, until, delay_ms };
                let on_failure = crate::LaneFailure::Cancel;
                Op::Each(Each { over, body, region, width: 1, max, on_limit, on_failure, last })
            }
            Kind::Wait(until) => Op::Wait(until),
            Kind::StopIf(expr) => self.stop_if(id, expr),
            Kind::Set(assign) => {
                self.node_mut(id).assign = assign;
                passing()
            }
            Kind::Goto { to, max } => self.goto(id, to, max),
        };
        self.node_mut(id).op = op;
        Stretch { entry: Some(id), ends }
    }

    /// Makes the node of a step with its policies; the op comes when its parts are lowered.
    fn open(&mut self, step: Step, place: Place) -> NodeId {
        let id = self.nodes.len() as NodeId;
        self.list_of.push(place.list);
        self.nodes.push(Node {
            key: step.id.unwrap_or_default(),
            name: step.name,
            description: step.description,
            op: passing(),
            region: place.region,
            next: None,
            inside: place.inside,
            hidden: false,
            kind: step.word.to_owned(),
            when: step.when,
            limit: None,
            retry: step.retry,
            timeout_ms: step.timeout_ms,
            on_error: OnError::Fail,
            budget: step.budget,
            undo: None,
            assign: step.save,
            on_missing_null: step.on_missing_null,
            span: step.span,
        });
        self.node_mut(id).on_error = self.on_error(id, step.on_error);
        self.node_mut(id).undo = step.undo.and_then(|undo| self.undo(*undo));
        id
    }

    fn on_error(&mut self, id: NodeId, on_error: StepError) -> OnError {
        match on_error {
            StepError::Fail => OnError::Fail,
            StepError::Continue => OnError::Continue,
            StepError::Value(value) => OnError::Value(value),
            StepError::Goto(to) => {
                self.jumps.push(jumps::Pending { node: id, to, max: None, way: jumps::Way::OnError });
                // Stands until the jump is resolved; an unknown target is a problem of its own.
                OnError::Goto(id)
            }
        }
    }

    /// The compensating step, reachable by nothing but `undo`.
    fn undo(&mut self, step: Step) -> Option<NodeId> {
        if step.undo.is_some() {
            self.problems.push(Problem::error(step.span, "an `undo` step cannot have an `undo` of its own"));
        }
        if step.needs.is_some() {
            self.problems.push(Problem::error(step.span, "`needs` has no effect on an `undo` step"));
        }
        self.refuse_run_if(&step);
        self.refuse_output_key(&step);
        let region = self.region(None);
        let place = self.top_of(region);
        self.step(Step { undo: None, ..step }, place).entry
    }

    fn call(&mut self, id: NodeId, call: Box<crate::Call>) -> Op {
        let node = self.node_mut(id);
        match call.task {
            Task::Agent { .. } | Task::Tool { .. } => {
                node.timeout_ms = node.timeout_ms.or(Some(DEFAULT_STEP_TIMEOUT_MS));
            }
            Task::Workflow { .. } => {}
        }
        Op::Call(call)
    }

    fn choose(&mut self, id: NodeId, branches: Vec<Branch>, other: Option<Vec<Step>>, ends: &mut Vec<NodeId>) -> Op {
        self.refuse_doubled_arms(&branches);
        let mut arms = Vec::with_capacity(branches.len());
        for (position, branch) in branches.into_iter().enumerate() {
            let jump = self.arm(id, branch.steps, &format!("arm_{}", position + 1), ends);
            arms.push(Arm { label: branch.label, when: branch.when, jump });
        }
        let other = other.map(|steps| self.arm(id, steps, "other", ends));
        Op::Choose { arms, other }
    }

    /// The first of two equal arms is taken, so the second would never run.
    fn refuse_doubled_arms(&mut self, branches: &[Branch]) {
        let mut seen = std::collections::HashSet::new();
        for branch in branches.iter().filter(|branch| !seen.insert(branch.when.source())) {
            let message = format!("two cases are the same: `{}`", branch.label);
            let help = "the first of them is taken; leave one out";
            self.problems.push(Problem::error(branch.when.span(), message).help(help));
        }
    }

    fn arm(&mut self, choose: NodeId, steps: Vec<Step>, name: &str, ends: &mut Vec<NodeId>) -> Jump {
        let list = self.list(Some(self.list_of[choose as usize]));
        let place = Place { region: self.node(choose).region, inside: Some(choose), list };
        let hidden_key = format!("{}/{name}", self.node(choose).key);
        let stretch = self.sequence(steps, place, &hidden_key);
        ends.extend(stretch.ends);
        Jump { to: stretch.entry, counted: false }
    }

    /// A `Choose` only passes on, so a retry or a time-out of an if or switch is that of a group around it.
    fn wrapped_choose(&mut self, id: NodeId, arms: Vec<Branch>, other: Option<Vec<Step>>) -> Op {
        let region = self.lane_region(id, 0);
        let place = self.top_of(region);
        let inner = self.hidden_node(id, "choose", place);
        let mut ends = Vec::new();
        let op = self.choose(inner, arms, other, &mut ends);
        self.node_mut(inner).op = op;
        blocks::single_lane(Some(inner), region, Default::default(), FanOutput::Only)
    }

    fn stop_if(&mut self, id: NodeId, when: crate::Expr) -> Op {
        let list = self.list(Some(self.list_of[id as usize]));
        let place = Place { region: self.node(id).region, inside: Some(id), list };
        let end = self.hidden_node(id, "stop", place);
        self.node_mut(end).op = Op::End { outcome: Outcome::Stopped, value: None };
        let jump = Jump { to: Some(end), counted: false };
        Op::Choose { arms: vec![Arm { label: "stop".into(), when, jump }], other: None }
    }

    /// With a condition the jump is an arm, so that a false one goes on instead of skipping the step.
    fn goto(&mut self, id: NodeId, to: crate::step::Name, max: Option<u32>) -> Op {
        self.jumps.push(jumps::Pending { node: id, to, max, way: jumps::Way::Goto });
        let jump = Jump { to: None, counted: true };
        match self.node_mut(id).when.take() {
            Some(when) => Op::Choose { arms: vec![Arm { label: "goto".into(), when, jump }], other: None },
            None => Op::Choose { arms: Vec::new(), other: Some(jump) },
        }
    }

    /// The body of an `Each`, in a region of its own.
    fn body(&mut self, id: NodeId, steps: Vec<Step>) -> (Option<NodeId>, RegionId) {
        let region = self.lane_region(id, 0);
        let hidden_key = format!("{}/body", self.node(id).key);
        let place = self.top_of(region);
        (self.sequence(steps, place, &hidden_key).entry, region)
    }

    fn exits(&mut self, exits: Vec<(crate::ExitWhen, Vec<Step>)>) -> Vec<Exit> {
        let mut lowered = Vec::with_capacity(exits.len());
        for (position, (when, steps)) in exits.into_iter().enumerate() {
            let region = self.region(None);
            let hidden_key = format!("exit/{}", position + 1);
            let place = self.top_of(region);
            let entry = self.sequence(steps, place, &hidden_key).entry;
            lowered.push(Exit { when, entry, region });
        }
        lowered
    }

    /// A node that no person wrote, belonging to one that was written.
    fn hidden_node(&mut self, owner: NodeId, name: &str, place: Place) -> NodeId {
        let Node { key, kind, span, on_missing_null, .. } = self.node(owner).clone();
        let mut step = Step::new("", Kind::Set(Vec::new()), span);
        step.id = Some(format!("{key}/{name}"));
        step.on_missing_null = on_missing_null;
        let id = self.open(step, place);
        let node = self.node_mut(id);
        node.kind = kind;
        node.hidden = true;
        id
    }

    /// The top sequence of a region.
    fn top_of(&mut self, region: RegionId) -> Place {
        Place { region, inside: None, list: self.list(None) }
    }

    fn list(&mut self, around: Option<ListId>) -> ListId {
        self.around.push(around);
        (self.around.len() - 1) as ListId
    }

    /// Opened by a lane of a node, or by nothing: the body, an exit, an undo.
    fn region(&mut self, opened: Option<(NodeId, u32)>) -> RegionId {
        let parent = opened.map(|(opener, _)| self.node(opener).region);
        let lane = opened.map_or(0, |(_, lane)| lane);
        self.regions.push(Region { opener: opened.map(|(opener, _)| opener), lane, parent });
        (self.regions.len() - 1) as RegionId
    }

    fn lane_region(&mut self, opener: NodeId, lane: u32) -> RegionId {
        self.region(Some((opener, lane)))
    }

    fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id as usize]
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id as usize]
    }
}

/// Does nothing but pass on.
fn passing() -> Op {
    Op::Choose { arms: Vec::new(), other: None }
}

fn has_policies(node: &Node) -> bool {
    !node.retry.is_default()
        || node.timeout_ms.is_some()
        || !node.budget.is_empty()
        || node.undo.is_some()
        || !node.on_error.is_default()
}

/// The construct that a region belongs to, as a person names it.
fn opener_word(nodes: &[Node], regions: &[Region], region: RegionId) -> String {
    match regions[region as usize].opener {
        Some(opener) if nodes[opener as usize].hidden => "a block with `needs`".into(),
        Some(opener) => {
            let node = &nodes[opener as usize];
            format!("the {} `{}`", block_word(node), node.key)
        }
        None if region == ROOT => "the main steps".into(),
        None => "an `on_exit` or `undo` sequence".into(),
    }
}

fn block_word(node: &Node) -> &str {
    match &node.op {
        Op::Fan(fan) if matches!(fan.output, FanOutput::Sinks(_)) => "`needs` block",
        Op::Fan(fan) if matches!(fan.output, FanOutput::Only) && node.kind == "steps" => "group",
        Op::Fan(_) | Op::Each(_) | Op::Call(_) | Op::Choose { .. } | Op::Wait(_) | Op::End { .. } => &node.kind,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::step::{Awaited, Name};
    use crate::{Expr, LaneFailure, OnLimit, Span, Template, Until};

    fn step(id: &str, kind: Kind) -> Step {
        let id = (!id.is_empty()).then(|| id.to_owned());
        Step { id, ..Step::new("test", kind, Span::default()) }
    }

    fn wait(id: &str) -> Step {
        step(id, Kind::Wait(Until::Signal { name: "go".into() }))
    }

    fn set(id: &str, name: &str) -> Step {
        step(id, Kind::Set(vec![(name.into(), Template::Literal(1.into()))]))
    }

    fn goto(id: &str, to: &str, max: Option<u32>) -> Step {
        step(id, Kind::Goto { to: Name { text: to.into(), span: Span::default() }, max })
    }

    fn needing(step: Step, needs: &[&str]) -> Step {
        let needs = needs.iter().map(|need| Name { text: (*need).into(), span: Span::default() }).collect();
        Step { needs: Some(needs), ..step }
    }

    fn choose(id: &str, then: Vec<Step>, other: Vec<Step>) -> Step {
        let when = Expr::new("input", Span::default());
        let arms = vec![Branch { label: "then".into(), when, steps: then }];
        step(id, Kind::Choose { arms, other: Some(other) })
    }

    fn group(id: &str, steps: Vec<Step>) -> Step {
        step(id, Kind::Group { steps, on_failure: LaneFailure::Cancel })
    }

    fn parallel(id: &str, lanes: Vec<Step>, wait_for: Awaited) -> Step {
        step(id, Kind::Parallel { lanes, on_failure: LaneFailure::Cancel, wait_for, detach: false })
    }

    fn each(id: &str, at_once: u32, steps: Vec<Step>) -> Step {
        let items = Expr::new("input", Span::default());
        let (on_limit, on_failure) = (OnLimit::Fail, LaneFailure::Cancel);
        step(id, Kind::ForEach { items, steps, at_once, max: 10, on_limit, on_failure })
    }

    fn lower(steps: Vec<Step>) -> (Option<Plan>, Vec<String>) {
        let (plan, problems) = build(Workflow { steps, ..Workflow::default() });
        (plan, problems.into_iter().map(|problem| problem.message).collect())
    }

    fn good(steps: Vec<Step>) -> Plan {
        let (plan, problems) = lower(steps);
        assert_eq!(problems, Vec::<String>::new());
        plan.unwrap()
    }

    /// The first problem contains the text.
    fn bad(steps: Vec<Step>, expected: &str) {
        let (_, problems) = lower(steps);
        assert!(problems.first().is_some_and(|problem| problem.contains(expected)), "{problems:?}");
    }

    /// `key>next` of every node, `.` at the end of a scope.
    fn links(plan: &Plan) -> String {
        let next = |node: &Node| node.next.map_or(".".to_owned(), |next| plan.node(next).key.clone());
        plan.nodes.iter().map(|node| format!("{}>{}", node.key, next(node))).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn the_tail_of_an_arm_goes_on_outside() {
        let inner = choose("inner", vec![wait("a"), wait("b")], vec![wait("c")]);
        let plan = good(vec![choose("outer", vec![inner], vec![]), wait("after")]);
        assert_eq!(links(&plan), "outer>after inner>after a>b b>after c>after after>.");
        assert_eq!(plan.nodes[1].inside, Some(0));
        assert_eq!(plan.nodes[2].inside, Some(1));
        assert_eq!(plan.regions.len(), 1);
    }

    #[test]
    fn ids_come_from_positions() {
        let arms = choose("named", vec![wait(""), wait("x")], vec![wait("")]);
        let plan = good(vec![wait(""), arms, group("", vec![wait("")])]);
        let keys: Vec<&str> = plan.nodes.iter().map(|node| node.key.as_str()).collect();
        assert_eq!(keys, ["step_1", "named", "step_2_1", "x", "step_2_3", "step_3", "step_3_1"]);
        bad(vec![wait("a"), group("g", vec![wait("a")])], "a second step has the id `a`");
        bad(vec![wait("step_2"), wait("")], "gets from its position");
        bad(vec![wait("a b")], "cannot be an id");
    }

    #[test]
    fn a_choose_with_policies_becomes_a_group() {
        let mut guarded = choose("guarded", vec![wait("a")], vec![]);
        guarded.timeout_ms = Some(1);
        let plan = good(vec![guarded, wait("after")]);
        assert_eq!(links(&plan), "guarded>after guarded/choose>. a>. after>.");
        assert!(matches!(&plan.nodes[0].op, Op::Fan(fan) if fan.output == FanOutput::Only));
        assert!(plan.nodes[1].hidden && plan.nodes[1].timeout_ms.is_none());
        assert_eq!(plan.nodes[2].inside, Some(1));
    }

    #[test]
    fn jumps_set_the_smallest_limit() {
        let plan = good(vec![wait("a"), choose("c", vec![goto("g", "a", Some(5))], vec![goto("h", "a", None)])]);
        assert_eq!(plan.nodes[0].limit, Some(5));
        let jump = Jump { to: Some(0), counted: true };
        assert_eq!(plan.nodes[2].op, Op::Choose { arms: vec![], other: Some(jump) });
    }

    #[test]
    fn jumps_stay_in_their_scope() {
        bad(vec![goto("g", "b", None)], "there is no step `b`");
        bad(vec![choose("c", vec![wait("a")], vec![goto("g", "a", None)])], "would enter an arm");
        bad(vec![group("o", vec![goto("g", "o", None)])], "would leave the test `o`");
        bad(vec![each("o", 1, vec![wait("a")]), goto("g", "a", None)], "would enter the test `o`");
        bad(vec![wait("a"), needing(goto("g", "a", None), &["a"])], "a block with `needs`");
        let undone = Step { undo: Some(Box::new(goto("g", "a", None))), ..wait("a") };
        bad(vec![undone], "would enter the main steps");
    }

    #[test]
    fn needs_make_lanes() {
        let plan = good(vec![wait("a"), needing(wait("b"), &["a"]), needing(wait("c"), &["a", "a"])]);
        let Op::Fan(fan) = &plan.nodes[0].op else { panic!("{:?}", plan.nodes[0]) };
        assert!(plan.nodes[0].hidden && plan.nodes[0].key == "body");
        assert_eq!(fan.lanes.iter().map(|lane| lane.after.clone()).collect::<Vec<_>>(), [vec![], vec![0], vec![0]]);
        assert_eq!(fan.output, FanOutput::Sinks(vec![1, 2]));
        bad(vec![needing(wait("a"), &["b"]), needing(wait("b"), &["a"])], "a needs b needs a");
        bad(vec![needing(wait("a"), &["nothing"])], "there is no step `nothing` in this block");
        bad(vec![Step { run_if_always: true, ..wait("a") }], "`run_if: always`");
    }

    #[test]
    fn lanes_at_once_set_different_variables() {
        bad(vec![parallel("p", vec![set("a", "v"), group("b", vec![set("c", "v")])], Awaited::All)], "both set `v`");
        bad(vec![each("e", 2, vec![set("a", "v")])], "each sets `v`");
        good(vec![each("e", 1, vec![set("a", "v")])]);
        good(vec![parallel("p", vec![set("a", "v"), set("b", "w")], Awaited::All)]);
        let chain = |last: &[&str]| {
            vec![
                set("a", "v"),
                needing(wait("b"), &["a"]),
                needing(set("c", "v"), &["b"]),
                needing(set("d", "v"), last),
            ]
        };
        good(chain(&["c"]));
        bad(chain(&["b"]), "`c` and `d` can run at once");
    }

    #[test]
    fn a_parallel_waits_for_lanes_that_it_has() {
        let lanes = || vec![wait("a"), wait("b")];
        bad(vec![parallel("p", lanes(), Awaited::Count(3))], "can never be met");
        bad(vec![parallel("p", lanes(), Awaited::Count(0))], "can never be met");
        let named = |name: &str| Awaited::Lanes(vec![Name { text: name.into(), span: Span::default() }]);
        bad(vec![parallel("p", lanes(), named("z"))], "`z` is no child");
        let plan = good(vec![parallel("p", lanes(), named("b"))]);
        assert!(matches!(&plan.nodes[0].op, Op::Fan(fan) if fan.wait_for == crate::WaitFor::Lanes(vec![1])));
    }

    #[test]
    fn the_tree_is_bounded() {
        let deep = (0..MAX_DEPTH).fold(wait(""), |inner, _| group("", vec![inner]));
        let (plan, problems) = lower(vec![deep]);
        assert!(plan.is_none() && problems[0].contains("levels deep"), "{problems:?}");
        let (plan, problems) = lower((0..=MAX_NODES).map(|_| wait("")).collect());
        assert!(plan.is_none() && problems[0].contains("more than 100000 steps"), "{problems:?}");
    }

    #[test]
    fn calls_end_in_time() {
        let call = |task| {
            step(
                "",
                Kind::Call(Box::new(crate::Call {
                    task,
                    input: None,
                    input_schema: None,
                    input_as: None,
                    output_schema: None,
                })),
            )
        };
        let plan = good(vec![
            call(Task::Agent { agent: "a".into(), prompt: None }),
            call(Task::Workflow { workflow: "w".into(), plan: String::new(), takes: None }),
            wait(""),
        ]);
        let timeouts: Vec<_> = plan.nodes.iter().map(|node| node.timeout_ms).collect();
        assert_eq!(timeouts, [Some(DEFAULT_STEP_TIMEOUT_MS), None, None]);
    }
}
