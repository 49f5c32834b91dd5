//! Files that the checker must refuse, and those it must let pass; built from the small notation of `fixture`.

#![allow(clippy::unwrap_used)]

use serde_json::{Value, json};

use super::fixture::built;
use super::{World, check};
use crate::problem::MAX_SUGGESTIONS;
use crate::{Problem, Severity};

struct Known;

impl World for Known {
    fn tools(&self) -> Option<Vec<(String, Value)>> {
        let write = json!({
            "type": "object",
            "properties": {"path": {"type": "string"}, "content": {}, "mode": {"enum": ["new", "append"]}},
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        let tools = [("write_file", write), ("read_file", json!({})), ("mcp:shop/buy", json!({}))];
        Some(tools.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect())
    }

    fn servers(&self) -> Vec<String> {
        vec!["post".to_owned()]
    }

    fn agents(&self) -> Vec<String> {
        vec!["kept_elsewhere".to_owned()]
    }

    fn price_known(&self, model: &str) -> bool {
        model == "openai/gpt-4o-mini"
    }
}

fn written(problem: &Problem) -> String {
    let severity = if problem.severity == Severity::Error { "error" } else { "warning" };
    let help = problem.help.as_ref().map(|help| format!(" | {help}")).unwrap_or_default();
    format!("{severity}: {}{help}", problem.message)
}

/// The file has exactly these problems, and each has a place.
#[track_caller]
fn expect(file: Value, expected: &[&str]) {
    let (plan, problems) = built(&file);
    assert_eq!(problems, Vec::new(), "when building {file}");
    let problems = check(&plan, &Known);
    let found: Vec<String> = problems.iter().map(written).collect();
    assert_eq!(found, expected, "in {file}");
    assert!(problems.iter().all(|p| p.span.end > 0), "a problem without place in {file}");
}

/// Steps alone, with agents `a` and `typed` to use.
#[track_caller]
fn steps(steps: Value, expected: &[&str]) {
    let typed = json!({"title": "string", "score": "number", "good": "bool", "links": ["string"]});
    let used = [json!({"id": "x_a", "agent": "a"}), json!({"id": "x_typed", "agent": "typed"})];
    let steps: Vec<Value> = used.into_iter().chain(steps.as_array().unwrap().iter().cloned()).collect();
    let agents = json!({"a": {}, "typed": {"output": typed}});
    expect(
        json!({"input": {"n": "int", "many": ["string"], "flag": "bool"}, "agents": agents, "steps": steps}),
        expected,
    );
}

fn step(id: &str) -> Value {
    json!({"id": id, "tool": "read_file"})
}

fn reads(id: &str, target: &str) -> Value {
    json!({"id": id, "tool": "read_file", "when": format!("steps.{target}.status == 'completed'")})
}

const EARLIER: &str = "only steps that come earlier on a way to this one can be read";

#[test]
fn unknown_steps() {
    steps(json!([step("fetch"), reads("b", "fetch")]), &[]);
    steps(json!([step("fetch"), reads("b", "fetsh")]), &["error: no step is called `fetsh` | did you mean `fetch`?"]);
    steps(
        json!([reads("b", "something_else")]),
        &["error: no step is called `something_else` | steps are: `x_a`, `x_typed`, `b`"],
    );
}

#[test]
fn later_steps() {
    let later = format!("error: step `b` cannot have run before `a` | {EARLIER}");
    steps(json!([reads("a", "b"), step("b")]), &[&later]);
    steps(json!([reads("a", "a")]), &["error: step `a` reads its own output | read an earlier step, or `previous`"]);
    // A goto back makes later steps visible.
    steps(json!([reads("a", "b"), step("b"), {"id": "c", "goto": "a", "when": "input.flag", "max": 3}]), &[]);
    steps(json!([reads("a", "a"), {"id": "c", "goto": "a", "when": "input.flag", "max": 3}]), &[]);
    // So does a jump on error.
    steps(json!([reads("a", "b"), {"id": "b", "tool": "read_file", "on_error": {"goto": "a"}}]), &[]);
}

#[test]
fn arms() {
    let other_arm = format!("error: step `b` cannot have run before `c` | {EARLIER}");
    steps(json!([{"id": "i", "if": "input.flag", "then": [step("b")], "else": [reads("c", "b")]}]), &[&other_arm]);
    steps(json!([{"id": "i", "if": "input.flag", "then": [step("b"), reads("c", "b")]}, reads("d", "c")]), &[]);
    steps(json!([{"id": "i", "if": "input.flag", "then": [step("b")]}, reads("d", "i")]), &[]);
    let inside = "error: `i` has not ended: this step is inside it | read the steps inside it that come earlier";
    steps(json!([{"id": "i", "if": "input.flag", "then": [reads("b", "i")]}]), &[inside]);
}

#[test]
fn lanes() {
    let lane = |id: &str, other: &str| json!({"id": "p", "parallel": [step("b"), reads(id, other)]});
    let sibling = "error: step `b` runs at the same time: both are in lanes of `p` | read it in a step after `p`";
    steps(json!([lane("c", "b")]), &[sibling]);
    steps(json!([step("z"), lane("c", "z"), reads("d", "b")]), &[]);
    let inside = "error: `p` has not ended: this step is inside it | read the steps inside it that come earlier";
    steps(json!([lane("c", "p")]), &[inside]);
    let before = format!("error: step `c` cannot have run before `d` | {EARLIER}");
    steps(json!([reads("d", "c"), lane("c", "x_a")]), &[&before]);
    // A nested lane is as far away as its outermost one.
    let nested = json!({"id": "p", "parallel": [{"id": "q", "parallel": [step("b"), step("e")]}, reads("c", "b")]});
    steps(json!([nested, reads("d", "b")]), &[sibling]);
}

#[test]
fn needs() {
    let needing = |id: &str, needs: &[&str], other: &str| json!({"id": id, "tool": "read_file", "needs": needs, "when": format!("steps.{other}.status == 'x'")});
    let sibling = "error: step `b` runs at the same time: both are in lanes of `g` | add `needs: [b]`";
    let group = |steps: Value| json!([{"id": "g", "steps": steps}]);
    steps(group(json!([step("a"), step("b"), needing("c", &["a"], "b")])), &[sibling]);
    steps(group(json!([step("a"), step("b"), needing("c", &["a"], "a")])), &[]);
    steps(group(json!([step("a"), needing("b", &["a"], "a"), needing("c", &["b"], "a")])), &[]);
}

#[test]
fn previous() {
    let block = |needs: &[&str]| {
        json!([{"id": "g", "steps": [
            step("a"), step("b"), {"id": "c", "tool": "read_file", "needs": needs, "when": "previous == 1"},
        ]}])
    };
    steps(block(&["a"]), &[]);
    steps(block(&[]), &[]);
    let several = "error: `previous` is not one step here: `c` needs `a`, `b` | name the step: `steps.ID.output`";
    steps(block(&["a", "b"]), &[several]);
    // Also where the lane begins with a block.
    let nested = json!({"id": "c", "needs": ["a", "b"], "if": "input.flag", "then": [
        {"id": "d", "tool": "read_file", "when": "previous == 1"}, {"id": "e", "tool": "read_file", "when": "previous == 1"},
    ]});
    steps(json!([{"id": "g", "steps": [step("a"), step("b"), nested]}]), &[several]);
}

#[test]
fn loops() {
    let each = |body: Value| json!({"id": "each", "for_each": "input.many", "do": [body, step("z")]});
    let outside =
        "error: step `b` is inside the loop `each` and cannot be read from outside | use `steps.each.output.results`";
    steps(json!([each(step("b")), reads("c", "b")]), &[outside]);
    steps(json!([each(step("b")), {"id": "c", "if": "steps.each.output.results != []", "then": []}]), &[]);
    steps(json!([step("a"), each(reads("b", "a"))]), &[]);
    let repeat =
        |test: &str| json!([{"id": "r", "repeat": [step("b")], test: "steps.b.status == 'completed'", "max": 3}]);
    steps(repeat("until"), &[]);
    steps(repeat("while"), &[&format!("error: step `b` cannot have run before `r` | {EARLIER}")]);
}

#[test]
fn names_of_loops() {
    let test = |expr: &str| json!({"id": "t", "tool": "read_file", "when": expr});
    let help = "read it in a step of the loop's own body";
    let only = |name: &str, place: &str| format!("error: `{name}` is known only inside {place} | {help}");
    steps(json!([test("item == 1")]), &[&only("item", "for_each")]);
    steps(json!([test("index == 1")]), &[&only("index", "for_each")]);
    steps(json!([test("loop.count == 1")]), &[&only("loop", "for_each and repeat")]);
    steps(json!([{"id": "r", "repeat": [test("item == 1")]}]), &[&only("item", "for_each")]);
    steps(json!([{"id": "r", "repeat": [test("loop.count == 1")]}]), &[]);
    steps(json!([{"id": "e", "for_each": "input.many", "do": [test("item == index")]}]), &[]);
    let nested = json!({"id": "p", "parallel": [{"id": "r", "repeat": [test("item == 1")]}]});
    steps(json!([{"id": "e", "for_each": "input.many", "do": [nested]}]), &[]);
    steps(json!([{"id": "e", "for_each": "item.many", "do": []}]), &[&only("item", "for_each")]);
}

#[test]
fn detached_lanes() {
    let fan = |wait_for: Value, detach: bool| json!({"id": "p", "parallel": [step("b"), step("c")], "wait_for": wait_for, "detach": detach});
    let detached = |id: &str| {
        format!(
            "error: step `{id}` is in a detached lane of `p`, which nothing waits for | add the lane to `wait_for`, or drop `detach`"
        )
    };
    steps(json!([fan(json!(["b"]), true), reads("d", "b")]), &[]);
    steps(json!([fan(json!(["b"]), true), reads("d", "c")]), &[&detached("c")]);
    steps(json!([fan(json!(["b"]), false), reads("d", "c")]), &[]);
    steps(json!([fan(json!(1), true), reads("d", "b")]), &[&detached("b")]);
    let useless = "error: `detach` has no effect: every lane is waited for; add `wait_for`";
    steps(json!([fan(json!(null), true)]), &[useless]);
}

#[test]
fn exits_and_undo() {
    let file = |exit: Value, body: Value| json!({"steps": [body, step("b")], "on_exit": [[exit]]});
    expect(file(reads("x", "b"), step("a")), &[]);
    let in_exit = "error: step `x` runs in on_exit, after the body | read a step of the body";
    expect(file(step("x"), reads("a", "x")), &[in_exit]);
    let undone =
        |target: &str| json!([step("a"), {"id": "b", "tool": "read_file", "undo": reads("u", target)}, step("c")]);
    steps(undone("a"), &[]);
    steps(undone("b"), &[]);
    steps(undone("c"), &[&format!("error: step `c` cannot have run before `u` | {EARLIER}")]);
    let in_undo = "error: step `u` runs only to undo another | read the step that it undoes";
    steps(json!([{"id": "b", "tool": "read_file", "undo": step("u")}, reads("c", "u")]), &[in_undo]);
}

#[test]
fn outputs_of_parallels() {
    let test = |expr: &str| json!({"id": "t", "tool": "read_file", "when": expr});
    let fan = json!({"id": "p", "parallel": [step("b"), {"id": "look_up", "tool": "read_file", "output_key": "see"}]});
    steps(
        json!([fan.clone(), test("steps.p.outputs.look_up.status == 'failed' and steps.p.outputs[0].output == 1")]),
        &[],
    );
    steps(json!([fan.clone(), test("steps.p.output.see == 1")]), &[]);
    steps(
        json!([fan.clone(), test("steps.p.output.look_up == 1")]),
        &["error: `steps.p.output` has no field `look_up` | its fields are: `b`, `see`"],
    );
    steps(
        json!([fan, test("steps.p.outputs.look_up.statis == 1")]),
        &["error: `steps.p.outputs.look_up` has no field `statis` | did you mean `status`?"],
    );
    steps(
        json!([test("steps.x_a.outputs.c == 1")]),
        &["error: `x_a` has no `outputs`: it is not a parallel step | use `steps.x_a.output`"],
    );
}

/// Reads the variable `x` behind these steps; it is not set where the words say.
#[track_caller]
fn behind(before: Value, way: Option<&str>) {
    let read = json!({"id": "t", "tool": "read_file", "when": "vars.x == 1"});
    let steps_: Vec<Value> = before.as_array().unwrap().iter().cloned().chain([read]).collect();
    let help = "set it before, or say what to take then: `vars.x | default(…)`";
    let told = way.map(|way| format!("warning: the variable `x` is not set {way} | {help}"));
    steps(json!(steps_), &told.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn variables_are_set_on_every_way() {
    let set = |id: &str| json!({"id": id, "set": {"x": 1}});
    let when = |id: &str| json!({"id": id, "set": {"x": 1}, "when": "input.flag"});
    behind(json!([set("a")]), None);
    behind(json!([when("a")]), Some("if `a` is skipped"));
    behind(json!([{"id": "i", "if": "input.flag", "then": [set("a")]}]), Some("if `i` does not lead to `a`"));
    behind(json!([{"id": "i", "if": "input.flag", "then": [set("a")], "else": [set("b")]}]), None);
    behind(json!([{"id": "e", "for_each": "input.many", "do": [set("a")]}]), Some("if `e` makes no turn"));
    behind(json!([{"id": "r", "repeat": [set("a")], "until": "input.flag"}]), None);
    behind(json!([{"id": "p", "parallel": [set("a"), step("b")]}]), None);
    behind(json!([{"id": "p", "parallel": [when("a"), step("b")]}]), Some("if `a` is skipped"));
    behind(json!([when("a"), set("b")]), None);
    behind(json!([when("a"), when("b")]), Some("if none of `a`, `b` runs before"));
    behind(json!([{"id": "s", "stop_if": "input.flag"}, set("a")]), None);
    let saves = json!({"id": "s", "tool": "read_file", "on_error": "continue", "save": {"x": "{{ steps.s.output }}"}});
    behind(json!([saves]), Some("if `s` fails"));
}

#[test]
fn variables_that_cannot_be_set() {
    let set = json!({"id": "a", "set": {"x": 1}});
    let read = |expr: &str| json!({"id": "t", "tool": "read_file", "when": expr});
    let never = "error: the variable `x` cannot be set here: only `a` sets it | set it in a step that comes before on every way";
    steps(json!([read("vars.x == 1"), set]), &[never]);
    steps(json!([{"id": "p", "parallel": [set, read("vars.x == 1")]}]), &[never]);
    // What is said for the case that it is missing settles it, and so does the question whether it is there.
    steps(json!([read("vars.x | default(0) == 1"), set]), &[]);
    steps(json!([read("vars.x is defined"), set]), &[]);
    // Going back, it may have been set.
    let back = json!({"id": "g", "goto": "t", "when": "input.flag", "max": 3});
    let first = "warning: the variable `x` is not set on a way that does not come through `a` | set it before, or say what to take then: `vars.x | default(…)`";
    steps(json!([read("vars.x == 1"), set, back]), &[first]);
    let pass = "warning: the variable `x` is not set in the first turn of `r` | set it before, or say what to take then: `vars.x | default(…)`";
    steps(json!([{"id": "r", "repeat": [read("vars.x == 1"), set], "until": "input.flag"}]), &[pass]);
    // In a DAG what it needs is there, directly or through others.
    let needs = |step: Value, needs: &[&str]| {
        let mut step = step;
        step["needs"] = json!(needs);
        step
    };
    let dag = |reader: &[&str]| json!([{"id": "d", "steps": [set, needs(step("b"), &["a"]), needs(read("vars.x == 1"), reader)]}]);
    steps(dag(&["a"]), &[]);
    steps(dag(&["b"]), &[]);
    steps(dag(&[]), &[never]);
}

#[test]
fn inputs_of_children() {
    let takes = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let child = |input: Value| json!([{"id": "c", "workflow": "./c.yaml", "takes": takes, "input": input}]);
    steps(child(json!({"n": "{{ input.n }}"})), &[]);
    steps(
        child(json!({"n": "{{ steps.x_typed.output.title }}"})),
        &[
            "error: `steps.x_typed.output.title` does not fit `n` of workflow `./c.yaml`: it is a text, and wanted is an integer",
        ],
    );
    let given = "error: workflow `./c.yaml` needs `n`, which is not given | given are: ";
    steps(child(json!({"m": "{{ input.n }}"})), &[&format!("{given}`m`")]);
    steps(json!([{"id": "c", "workflow": "./c.yaml", "takes": takes}]), &[&format!("{given}none")]);
    let fixed = "error: workflow `./c.yaml` does not take this value at `n`: Field is required but missing";
    steps(child(json!({"m": 1})), &[fixed]);
}

#[test]
fn variables_and_events() {
    let test = |expr: &str| json!({"id": "t", "tool": "read_file", "when": expr});
    let set = json!({"id": "s", "set": {"total": 1}});
    steps(json!([set.clone(), test("vars.total == 1")]), &[]);
    steps(
        json!([set, test("vars.totel == 1")]),
        &["error: no step sets the variable `totel` | did you mean `vars.total`?"],
    );
    steps(json!([test("vars.x == 1")]), &["error: no step sets the variable `x` | write it first: `set: { x: … }`"]);
    steps(json!([{"id": "w", "event": "paid", "filter": "event.amount > 10"}]), &[]);
    let event = "error: `event` is known only in the filter of a wait for an event | elsewhere, read the output of the wait step, or `trigger`";
    steps(json!([test("event.amount > 10")]), &[event]);
    steps(json!([test("run.ide == 'x'")]), &["error: `run` has no field `ide` | did you mean `id`?"]);
}

#[test]
fn fields() {
    let test = |expr: &str| json!({"id": "t", "tool": "read_file", "when": expr});
    steps(json!([test("steps.x_typed.output.title == 'a' and steps.x_typed.output.links[0] == 'b'")]), &[]);
    steps(
        json!([test("steps.x_typed.output.titel == 'a'")]),
        &["error: `steps.x_typed.output` has no field `titel` | did you mean `title`?"],
    );
    steps(
        json!([test("steps.x_typed.output.wholly_other == 'a'")]),
        &[
            "error: `steps.x_typed.output` has no field `wholly_other` | its fields are: `title`, `score`, `good`, `links`",
        ],
    );
    steps(
        json!([test("steps.x_typed.output.score.x == 1")]),
        &["error: `steps.x_typed.output.score` is a number and has no `x`"],
    );
    steps(json!([test("input.mamy == 1")]), &["error: `input` has no field `mamy` | did you mean `many`?"]);
    steps(json!([test("steps.x_a.output.anything == 1")]), &[]);
    let typed = json!({"id": "last", "agent": "typed"});
    steps(json!([typed.clone(), test("previous.title == 'a'")]), &[]);
    steps(
        json!([typed.clone(), test("previous.titel == 'a'")]),
        &["error: `previous` has no field `titel` | did you mean `title`?"],
    );
    let maybe = json!({"id": "maybe", "tool": "read_file", "when": "input.flag"});
    steps(json!([typed.clone(), maybe, test("previous.titel == 'a'")]), &[]);
    let needing = json!({"id": "t", "tool": "read_file", "needs": ["last"], "when": "previous.titel == 'a'"});
    steps(
        json!([{"id": "g", "steps": [typed, needing]}]),
        &["error: `previous` has no field `titel` | did you mean `title`?"],
    );
    let each = |expr: &str| json!({"id": "e", "for_each": "steps.x_typed.output.links", "do": [test(expr)]});
    steps(json!([each("item == 'a'")]), &[]);
    steps(json!([each("item.url == 'a'")]), &["error: `item` is a text and has no `url`"]);
    let lenient =
        json!({"id": "t", "tool": "read_file", "when": "steps.x_typed.output.titel == 'a'", "on_missing": "null"});
    steps(json!([lenient]), &[]);
}

#[test]
fn conditions_and_lists() {
    let test = |expr: &str| json!({"id": "t", "if": expr, "then": []});
    steps(json!([test("input.flag")]), &[]);
    steps(json!([test("steps.x_typed.output.title")]), &[]);
    steps(json!([test("input.n > 1")]), &[]);
    steps(
        json!([test("input.n")]),
        &["error: a condition is true or false, and `input.n` is an integer | compare it: `input.n > 0`"],
    );
    steps(
        json!([test("input.many")]),
        &["error: a condition is true or false, and `input.many` is a list | compare it: `input.many != []`"],
    );
    let each = |items: &str| json!([{"id": "e", "for_each": items, "do": []}]);
    steps(each("steps.x_typed.output.links"), &[]);
    steps(each("input.n"), &["error: `input.n` is an integer, not a list | for_each goes over a list"]);
}

#[test]
fn bounds() {
    steps(json!([{"id": "e", "for_each": "input.many", "max": 0, "do": []}]), &["error: `max` must be at least 1"]);
    steps(json!([{"id": "r", "repeat": [step("b")], "max": 0}]), &["error: `max` must be at least 1"]);
    let endless = "error: `max` is 50001, and at most 50000";
    steps(json!([{"id": "e", "for_each": "input.many", "max": 50_001, "do": [step("b")]}]), &[endless]);
    steps(json!([{"id": "r", "repeat": [step("b")], "max": 50_001}]), &[endless]);
    steps(json!([{"id": "r", "repeat": [step("b")], "max": 50_000}]), &[]);
    steps(json!([step("b"), {"id": "g", "goto": "b", "when": "input.flag", "max": 50_001}]), &[endless]);
    steps(json!([{"id": "b", "tool": "read_file", "retry": 101}]), &["error: `max_attempts` is 101, and at most 100"]);
    steps(json!([{"id": "b", "tool": "read_file", "retry": 100}]), &[]);
    steps(json!([{"id": "b", "tool": "read_file", "timeout": 0}]), &["error: `timeout` must be longer than nothing"]);
    let turns = json!({"agents": {"a": {"max_turns": 0}}, "steps": [{"id": "b", "agent": "a"}]});
    expect(turns, &["error: `max_turns` must be at least 1"]);
}

#[test]
fn endless_loops() {
    let file =
        json!({"steps": [step("a"), step("b"), {"id": "c", "goto": "a", "when": "input.go", "max": 2}, step("d")]});
    let (plan, _) = built(&file);
    assert_eq!(check(&plan, &Known), Vec::new());
    let mut unlimited = plan.clone();
    unlimited.nodes[0].limit = None;
    let found: Vec<String> = check(&unlimited, &Known).iter().map(written).collect();
    assert_eq!(found, ["error: the jump back to `a` has no limit | give the goto a `max` of at least 1"]);
    let mut uncounted = plan;
    uncounted.nodes[1].next = Some(0);
    let found: Vec<String> = check(&uncounted, &Known).iter().map(written).collect();
    assert!(
        found.contains(&"error: the loop through `a` has no bound | go back with a goto that has a `max`".into()),
        "{found:?}"
    );
}

#[test]
fn reachability() {
    let help = "what comes before it always goes elsewhere; remove the step or make the jump conditional";
    let lost = |id: &str| format!("error: step `{id}` cannot be reached | {help}");
    steps(json!([step("a"), {"id": "g", "goto": "a", "max": 2}, step("b"), step("c")]), &[&lost("b"), &lost("c")]);
    // What is inside a lost block is not told again.
    let block = json!({"id": "p", "parallel": [step("b"), step("c")]});
    steps(json!([step("a"), {"id": "g", "goto": "a", "max": 2}, block]), &[&lost("p")]);
    steps(json!([step("a"), {"id": "s", "stop_if": "input.flag"}, step("b")]), &[]);
    // A block that nobody wrote hides nothing.
    let arm = json!([{"id": "g", "goto": "a", "max": 2}, {"id": "d", "if": "input.flag", "then": [
        step("b"), {"id": "c", "tool": "read_file", "needs": ["b"]},
    ]}]);
    steps(json!([step("a"), {"id": "i", "if": "input.flag", "then": arm}]), &[&lost("d")]);
}

#[test]
fn agents() {
    let file = |name: &str| json!({"agents": {"writer": {}}, "steps": [{"id": "a", "agent": name}]});
    expect(file("writer"), &[]);
    let unused = "warning: agent `writer` is not used by any step";
    expect(file("writre"), &[unused, "error: no agent is called `writre` | did you mean `writer`?"]);
    let all = "error: no agent is called `painter_of_walls` | agents are: `writer`, `kept_elsewhere`";
    expect(file("painter_of_walls"), &[unused, all]);
    let near = "error: no agent is called `kept_elsewere` | did you mean `kept_elsewhere`?";
    expect(file("kept_elsewere"), &[unused, near]);
}

#[test]
fn tools() {
    let with = |tools: Value| json!({"agents": {"a": {"tools": tools}}, "steps": [{"id": "s", "agent": "a"}], "mcp": {"bank": {}}});
    expect(
        with(json!([
            "read_file",
            "mcp:shop/*",
            "mcp:shop/buy",
            "*_file",
            "mcp:bank/pay",
            "mcp:bank/*",
            "mcp:post/send"
        ])),
        &[],
    );
    expect(
        with(json!(["reed_file"])),
        &["error: agent `a` uses the tool `reed_file`, which does not exist | did you mean `read_file`?"],
    );
    expect(
        with(json!(["mcp:shop/bay"])),
        &["error: agent `a` uses the tool `mcp:shop/bay`, which does not exist | did you mean `mcp:shop/buy`?"],
    );
    expect(
        with(json!(["mcp:nowhere_known/x"])),
        &[
            "error: agent `a` uses the MCP server `nowhere_known`, which is not known | MCP servers are: `bank`, `post`, `shop`; declare it in the file or the configuration",
        ],
    );
    expect(
        with(json!(["git_*"])),
        &["error: agent `a` uses `git_*`, which matches no tool | `relais tools` lists what there is"],
    );
    expect(
        json!({"steps": [{"id": "s", "tool": "raed_file"}]}),
        &["error: step `s` uses the tool `raed_file`, which does not exist | did you mean `read_file`?"],
    );
}

#[test]
fn tool_rules() {
    let file = |rule: &str| json!({"tools": {rule: {}}, "steps": [step("a")]});
    let (plan, _) = built(&file("read_file"));
    assert_eq!(check(&plan, &Known), Vec::new());
    let (plan, _) = built(&file("read_fiel"));
    let found: Vec<String> = check(&plan, &Known).iter().map(written).collect();
    let expected =
        "warning: the rule for `read_fiel` has no effect: nothing uses such a tool | did you mean `read_file`?";
    assert_eq!(found, [expected]);
}

#[test]
fn models_and_money() {
    let file = |model: &str, usd: Value| json!({"usd": usd, "agents": {"a": {"model": model}}, "steps": [{"id": "s", "agent": "a"}]});
    expect(file("openai/gpt-4o-mini", json!(5)), &[]);
    expect(file("acme/huge", json!(null)), &[]);
    expect(file("sim/any", json!(5)), &[]);
    let unpriced = "error: there is a budget in USD, and the price of `acme/huge` (agent `a`) is not known | give its price in the `models` table of relais.toml, or drop the usd budget";
    expect(file("acme/huge", json!(5)), &[unpriced]);
    let wrong = |model: &str, what: &str| {
        format!("error: the model `{model}` of agent `a` {what} | write `provider/model`, such as `openai/gpt-4o-mini`")
    };
    expect(file("gpt 4", json!(null)), &[&wrong("gpt 4", "has a space in it")]);
    expect(file("/gpt", json!(null)), &[&wrong("/gpt", "names no provider")]);
    expect(file("openai/", json!(null)), &[&wrong("openai/", "names no model")]);
    // A budget of a block counts for the agents inside it.
    let block = json!({"id": "p", "usd": 5, "parallel": [{"id": "s", "agent": "a"}]});
    expect(json!({"agents": {"a": {"model": "acme/huge"}}, "steps": [block]}), &[unpriced]);
    let large = json!({"usd": 5, "steps": [{"id": "s", "tool": "read_file", "usd": 6}]});
    let larger =
        "warning: the usd budget of step `s` is larger than that of the whole run | the run's own budget ends it first";
    expect(large, &[larger]);
}

#[test]
fn arguments_of_tools() {
    let call = |with: Value| json!({"agents": {}, "input": {"n": "int", "text": "string"}, "steps": [{"id": "s", "tool": "write_file", "with": with}]});
    expect(call(json!({"path": "{{ input.text }}", "content": "x", "mode": "new"})), &[]);
    expect(
        call(json!({"path": "{{ input.text }}"})),
        &["error: tool `write_file` needs `content`, which is not given | given are: `path`"],
    );
    expect(
        call(json!({"path": "{{ input.text }}", "content": "x", "mod": "new"})),
        &["error: tool `write_file` takes no `mod` | did you mean `mode`?"],
    );
    expect(
        call(json!({"path": "{{ input.text }}", "contents": "x"})),
        &["error: tool `write_file` takes no `contents` | did you mean `content`?"],
    );
    let (plan, _) = built(&call(json!({"path": "{{ input.n }}", "content": "x"})));
    let found: Vec<String> = check(&plan, &Known).iter().map(written).collect();
    let expected = "error: `input.n` does not fit `path` of tool `write_file`: it is an integer, and wanted is a text";
    assert_eq!(found, [expected]);
    let (plan, _) = built(&call(json!({"path": "{{ input.text }}", "content": "x", "mode": "overwrite"})));
    let found: Vec<String> = check(&plan, &Known).iter().map(written).collect();
    assert!(found[0].starts_with("error: `mode` of tool `write_file` does not take this value"), "{found:?}");
    expect(
        call(json!({"path": ["{{ input.text }}"], "content": "x"})),
        &["error: `path` of tool `write_file` takes a text, and is given a list"],
    );
}

#[test]
fn inputs_of_agents_and_workflows() {
    let agent = |input: Value| {
        json!({
            "input": {"n": "int"},
            "agents": {"a": {"input": {"count": "int", "note?": "string"}}},
            "steps": [{"id": "s", "agent": "a", "input": input}],
        })
    };
    expect(agent(json!({"count": "{{ input.n }}"})), &[]);
    expect(
        agent(json!({"note": "{{ input.n }} times"})),
        &["error: agent `a` needs `count`, which is not given | given are: `note`"],
    );
    expect(
        agent(json!({"count": "{{ input.n }} times"})),
        &["error: `count` of agent `a` takes an integer, and is given a text"],
    );
    let child = json!({"input": {"n": "int"}, "steps": [
        {"id": "s", "workflow": "w", "input_schema": {"x": "int"}, "input": {"y": "{{ input.n }}"}},
    ]});
    expect(child, &["error: workflow `w` needs `x`, which is not given | given are: `y`"]);
}

#[test]
fn templates_are_read_everywhere() {
    let unknown = ["error: no step is called `nope` | steps are: `s`"];
    let nope = "{{ steps.nope.output }}";
    expect(json!({"agents": {"a": {}}, "steps": [{"id": "s", "agent": "a", "prompt": nope}]}), &unknown);
    expect(json!({"agents": {"a": {}}, "steps": [{"id": "s", "agent": "a", "input": {"x": [nope]}}]}), &unknown);
    expect(json!({"agents": {"a": {"instructions": nope}}, "steps": [{"id": "s", "agent": "a"}]}), &unknown);
    expect(json!({"steps": [{"id": "s", "tool": "read_file", "with": {"x": nope}}]}), &unknown);
    expect(json!({"steps": [{"id": "s", "set": {"x": nope}}]}), &unknown);
    expect(json!({"steps": [{"id": "s", "ask": nope}]}), &unknown);
    expect(json!({"steps": [{"id": "s", "wait": nope}]}), &unknown);
    expect(json!({"steps": [{"id": "s", "tool": "read_file", "on_error": {"value": nope}}]}), &unknown);
    expect(json!({"steps": [step("s")], "output": nope}), &unknown);
    expect(json!({"steps": [step("s")], "output": "{{ steps.s.output }}"}), &[]);
}

#[test]
fn a_block_with_policies_reads_as_one_step() {
    let block = json!({"id": "i", "if": "steps.z.status == 'x'", "retry": 1, "then": [step("b")]});
    let later = format!("error: step `z` cannot have run before `i` | {EARLIER}");
    steps(json!([block.clone(), step("z")]), &[&later]);
    steps(json!([step("z"), block, reads("c", "b")]), &[]);
}

#[test]
fn objects_along_edges() {
    let file = |output: Value| {
        json!({
            "agents": {"from": {"output": output}, "to": {"input": {"doc": {"title": "string", "score": "number"}}}},
            "steps": [{"id": "s", "agent": "from"}, {"id": "t", "agent": "to", "input": {"doc": "{{ steps.s.output }}"}}],
        })
    };
    expect(file(json!({"title": "string", "score": "int", "more": "bool"})), &[]);
    for wrong in [json!({"title": "string"}), json!({"title": "string", "score": "string"})] {
        let (plan, _) = built(&file(wrong));
        let found: Vec<String> = check(&plan, &Known).iter().map(written).collect();
        let expected = "error: `steps.s.output` does not fit `doc` of agent `to`: it can be ";
        assert!(found.len() == 1 && found[0].starts_with(expected), "{found:?}");
    }
}

/// A file with mistakes that building has found is checked and drawn all the same.
#[test]
fn broken_plans_are_checked_and_drawn() {
    for steps in [
        json!([{"id": "a", "goto": "nowhere"}, step("b")]),
        json!([{"id": "a", "tool": "read_file", "on_error": {"goto": "nowhere"}}, step("b")]),
        json!([step("a"), step("a"), reads("c", "a")]),
        json!([{"id": "a", "tool": "read_file", "needs": ["b"]}, {"id": "b", "tool": "read_file", "needs": ["a", "c"]}]),
        json!([{"id": "p", "parallel": [], "wait_for": 3, "detach": true}]),
        json!([{"id": "e", "for_each": "input.x", "do": [{"id": "g", "goto": "e"}]}]),
    ] {
        let (plan, problems) = built(&json!({"steps": steps}));
        assert!(!problems.is_empty(), "{steps}");
        check(&plan, &Known);
        assert!(crate::draw::svg(&plan).ends_with("</svg>\n"));
        assert!(!crate::draw::text(&plan).is_empty() && !crate::draw::mermaid(&plan).is_empty());
    }
}

#[test]
fn deep_plans() {
    let mut body = step("s");
    for depth in 0..60 {
        body = match depth % 3 {
            0 => json!({"id": format!("b{depth}"), "for_each": "input.many", "do": [body]}),
            1 => json!({"id": format!("b{depth}"), "parallel": [body]}),
            _ => json!({"id": format!("b{depth}"), "if": "input.flag", "then": [body]}),
        };
    }
    steps(json!([step("first"), body]), &[]);
}

/// A world that knows nothing yet refuses nothing for it.
#[test]
fn unknown_world() {
    struct Unknown;
    impl World for Unknown {
        fn tools(&self) -> Option<Vec<(String, Value)>> {
            None
        }
        fn servers(&self) -> Vec<String> {
            Vec::new()
        }
        fn price_known(&self, _model: &str) -> bool {
            false
        }
    }
    let (plan, _) = built(&json!({"steps": [{"id": "s", "tool": "anything"}, {"id": "t", "tool": "mcp:any/where"}]}));
    assert_eq!(check(&plan, &Unknown), Vec::new());
}

/// Looking for near names must not cost the square of the file.
#[test]
fn many_unknown_names() {
    let all: Vec<Value> = (0..2_000).map(|n| reads(&format!("s{n}"), &format!("nowhere_{n}"))).collect();
    let (plan, _) = built(&json!({"steps": all}));
    let problems = check(&plan, &Known);
    assert_eq!(problems.len(), 2_000);
    assert!(problems.iter().all(|problem| problem.help.is_some()));
}

/// At most so many of the problems name something near, however many names there are, and all are told.
#[track_caller]
fn few_suggestions(file: Value, expected: usize) {
    let (plan, _) = built(&file);
    let problems = check(&plan, &Known);
    let near = |problem: &&Problem| problem.help.as_ref().is_some_and(|help| help.starts_with("did you mean"));
    let near = problems.iter().filter(near).count();
    assert!((1..=MAX_SUGGESTIONS as usize).contains(&near), "{near} of {}", problems.len());
    assert_eq!(problems.len(), expected);
}

/// Nor must any other kind of name: agents, tools, servers, rules, fields, arguments.
#[test]
fn every_search_for_near_names_is_bounded() {
    const MANY: usize = 300;
    let many = |of: &dyn Fn(usize) -> Value| (0..MANY).map(of).collect::<Vec<Value>>();
    let keyed = |of: &dyn Fn(usize) -> (String, Value)| (0..MANY).map(of).collect::<serde_json::Map<_, _>>();
    let agents = keyed(&|n| (format!("a{n}"), json!({})));
    let calls = many(&|n| json!({"id": format!("s{n}"), "agent": format!("b{n}")}));
    few_suggestions(json!({"agents": agents, "steps": calls}), 2 * MANY);

    let tools = many(&|n| json!({"id": format!("s{n}"), "tool": "reed_file", "with": {"n": n}}));
    few_suggestions(json!({"steps": tools}), MANY);
    let servers = keyed(&|n| (format!("server{n}"), json!({})));
    let posts = many(&|n| json!({"id": format!("s{n}"), "tool": format!("mcp:servex{n}/send")}));
    few_suggestions(json!({"mcp": servers, "steps": posts}), MANY);
    let rules = keyed(&|n| (format!("read_file{n}"), json!({})));
    few_suggestions(json!({"tools": rules, "steps": [step("s")]}), MANY);

    let input = keyed(&|n| (format!("field{n}"), json!("string")));
    let fields =
        many(&|n| json!({"id": format!("s{n}"), "tool": "read_file", "with": format!("{{{{ input.fielx{n} }}}}")}));
    few_suggestions(json!({"input": input, "steps": fields}), MANY);
    let arguments = many(
        &|n| json!({"id": format!("s{n}"), "tool": "write_file", "with": {"path": "a", "content": "{{ input }}", "moda": "new"}}),
    );
    few_suggestions(json!({"steps": arguments}), MANY);
}

/// Every step reads the first, the one before and a far one: more sources than one pass over the graph carries.
#[test]
fn ten_thousand_steps() {
    let reads = |n: usize| {
        let others = [0, n.saturating_sub(1), n / 2].map(|other| format!("steps.s{other}.status == 'completed'"));
        others.join(" and ")
    };
    let all: Vec<Value> = (0..10_000)
        .map(
            |n| if n == 0 { step("s0") } else { json!({"id": format!("s{n}"), "tool": "read_file", "when": reads(n)}) },
        )
        .collect();
    let (plan, _) = built(&json!({"steps": all}));
    assert_eq!(check(&plan, &Known), Vec::new());
}
