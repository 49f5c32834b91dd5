//! The JSON Schema of the native format, for editors and for assistants that compose workflows.
//!
//! Which keys there are comes from the reader's own tables; here each gets its shape and its description. The schema
//! sees shapes only: references, ids and expressions are the reader's business and the checker's.

use relais_plan::{MAX_PASSES, Source};
use serde_json::{Map, Value, json};

use crate::native::keys::{self, COMMON, KINDS, KindKeys};
use crate::yaml;

/// JSON Schema 2020-12 of a workflow file.
pub fn json_schema() -> Value {
    let mut root = object("A workflow: steps that agents, tools and people carry out.", keys::TOP, top);
    merge(
        &mut root,
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": "Relais workflow",
            "required": ["steps"],
            "$defs": definitions(),
        }),
    );
    root
}

fn definitions() -> Value {
    let mut defs = json!({
        "step": step(),
        "steps": { "description": "Steps, in order.", "type": "array", "items": refer("step", "") },
        "block": {
            "description": "One step, or a list of steps.",
            "anyOf": [refer("step", ""), refer("steps", "")],
        },
        "duration": {
            "description": "A duration: `500ms`, `90s`, `10m`, `1h30m`, `2d`, or a number of seconds.",
            "anyOf": [{ "type": "string", "pattern": "^[0-9][0-9a-z. ]*$" }, { "type": "number", "exclusiveMinimum": 0 }],
        },
        "count": {
            "description": "A whole number; `200k` and `1.5M` are thousands and millions.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "string", "pattern": "^[0-9.]+ *[kKmM]$" }],
        },
        "expression": {
            "description": "A bare expression such as `steps.check.output.score > 3`. Names: `input.NAME`, \
                            `steps.ID.output`, `previous`, `vars.NAME`, in loops `item`, `index` and `loop.count`, \
                            `run.id`, `trigger`, `now`. Operators: == != < <= > >= and or not in + - * / ~; filters \
                            such as `| length`, `| default(x)`, `| join(', ')`.",
            "type": ["string", "boolean"],
        },
        "schema": {
            "description": "JSON Schema, or the shorthand: `{ name: string, tags: [string], note?: string }`.",
            "type": ["string", "object", "array", "boolean"],
        },
        "texts": { "description": "One text or a list.", "anyOf": [{ "type": "string" }, list_of(json!({ "type": "string" }))] },
        "budget": object("Upper bounds; what is left out is unlimited.", keys::BUDGET, budget),
        "agent": object("A model with instructions, tools, schemas and limits.", keys::AGENT, agent),
        "trigger": trigger(),
    });
    for kind in KINDS {
        merge(&mut defs, json!({ (format!("{}_step", kind.word)): kind_of_step(kind) }));
    }
    defs
}

/// A step of any kind: the key that names the kind decides which schema it is held to, so that an editor shows the
/// errors of that kind alone.
fn step() -> Value {
    let chosen = KINDS
        .iter()
        .map(|kind| json!({ "if": { "required": [kind.word] }, "then": refer(&format!("{}_step", kind.word), "") }));
    json!({
        "description": "One step: exactly one of the keys that name a kind, and what surrounds it.",
        "type": "object",
        "oneOf": KINDS.iter().map(|kind| json!({ "required": [kind.word] })).collect::<Vec<_>>(),
        "allOf": chosen.collect::<Vec<_>>(),
    })
}

fn kind_of_step(kind: &KindKeys) -> Value {
    let common = COMMON.iter().filter(|key| !kind.without.contains(key));
    let names: Vec<&str> = [kind.word].iter().chain(kind.own).chain(common).copied().collect();
    let required: &[&str] = match kind.word {
        "if" => &["then"],
        "for_each" => &["do"],
        _ => &[],
    };
    let mut schema = object(kind_text(kind.word), &names, |key| step_key(kind.word, key));
    merge(&mut schema, json!({ "required": required, "examples": [example(kind.word)] }));
    if kind.word == "switch" {
        let compared = json!({ "properties": { "switch": refer("expression", "") }, "required": ["cases"] });
        let conditions = json!({ "properties": { "switch": { "type": "array" }, "cases": false } });
        merge(&mut schema, json!({ "anyOf": [compared, conditions] }));
    }
    schema
}

fn kind_text(word: &str) -> &'static str {
    match word {
        "agent" => "An agent works until it answers.",
        "tool" => "A tool is called directly, without a model.",
        "workflow" => "Another workflow runs as a child run.",
        "if" => "One of two ways.",
        "switch" => "The first case whose value is equal.",
        "parallel" => "Children that start together; the block ends when they have. Its output has theirs by id.",
        "steps" => "Steps as one step.",
        "for_each" => "Steps for each item of a list; `output.results` has one result for each.",
        "repeat" => "Steps again and again, within a limit; `output.results` has one result for each pass.",
        "wait" => "Waits for time, a signal or an event.",
        "ask" => "Asks a person; the output is the answer, with `approve` true or false.",
        "stop_if" => "Ends the run as stopped, which is a success, if the condition is true.",
        "set" => "Sets variables, read as `vars.NAME`.",
        _ => "Jumps to a step of the same or an enclosing list.",
    }
}

/// One step of each kind; together they are the steps of one workflow, in the order of the kinds.
pub(crate) fn kind_example(word: &str) -> &'static str {
    match word {
        "agent" => r#"{id: draft, agent: writer, prompt: "Write about {{ input.topic }}."}"#,
        "tool" => "{id: notes, tool: read_file, with: {path: notes.md}}",
        "workflow" => r#"{id: check, workflow: fact-check, input: {text: "{{ steps.draft.output.text }}"}}"#,
        "if" => {
            "{id: gate, if: steps.draft.output.score < 5, then: [{id: mend, agent: writer, prompt: Mend it.}], else: \
             [{id: keep, set: {good: true}}]}"
        }
        "switch" => {
            "{id: route, switch: steps.draft.output.kind, cases: {news: {id: short, agent: writer, prompt: Shorten \
             it.}}, default: {id: long, agent: writer, prompt: Explain it.}}"
        }
        "parallel" => {
            "{id: both, parallel: [{id: de, agent: writer, prompt: In German.}, {id: fr, agent: writer, prompt: In \
             French.}]}"
        }
        "steps" => {
            "{id: dag, steps: [{id: a, agent: writer, prompt: First.}, {id: b, needs: a, agent: writer, prompt: \
             Second.}]}"
        }
        "for_each" => {
            r#"{id: each, for_each: input.items, at_once: 3, do: [{id: look, agent: writer, prompt: "Judge {{ item }}."}]}"#
        }
        "repeat" => {
            "{id: polish, repeat: [{id: pass, agent: writer, prompt: Improve it.}], until: steps.pass.output.score > \
             8, max: 5}"
        }
        "wait" => "{id: rest, wait: 10m}",
        "ask" => r#"{id: approve, ask: {question: "Publish?", show: "{{ steps.draft.output }}", approve: true}}"#,
        "stop_if" => "{id: refused, stop_if: not steps.approve.output}",
        "set" => r#"{id: count, set: {tries: "{{ vars.tries | default(0) + 1 }}"}}"#,
        _ => "{id: again, goto: draft, max: 3, when: vars.tries < 3}",
    }
}

fn example(word: &str) -> Value {
    let source = Source { name: word.to_owned(), text: kind_example(word).to_owned() };
    yaml::parse(&source).map_or(Value::Null, |node| node.to_value())
}

fn step_key(kind: &str, key: &str) -> Value {
    if key == kind {
        return kind_value(kind);
    }
    match (kind, key) {
        ("agent", "prompt") => text("The message to the agent; may hold `{{ … }}`, `{% for %}` and `{% if %}`."),
        ("agent", "input_as") => name("The artifact that takes the input, so that the agent refers to its values."),
        (_, "input") => any("Data for the step; a text that is one `{{ reference }}` keeps the value's type."),
        ("agent", "output") => refer("schema", "Schema of the output, in place of the agent's."),
        ("tool", "output") => refer("schema", "Schema of what the tool returns; the step fails if it does not fit."),
        (_, "input_schema") => {
            refer("schema", "Schema of the input, in place of the agent's or beside the workflow's.")
        }
        ("tool", "with") => json!({ "description": "The arguments.", "type": ["object", "string"] }),
        ("if", "then") => refer("block", "What runs if the condition is true."),
        ("if", "else") => refer("block", "What runs otherwise."),
        ("switch", "cases") => cases(),
        ("switch", "default") => refer("block", "What runs if no case is equal."),
        ("parallel" | "steps", "on_failure") => choice(
            "When a child fails: stop the others, let them finish and then fail, or complete with its error in its place.",
            &["cancel", "drain", "collect"],
        ),
        ("parallel", "wait_for") => json!({
            "description": "The children that the block waits for, or how many of them.",
            "anyOf": [refer("texts", ""), { "type": "integer", "minimum": 1 }],
        }),
        ("parallel", "detach") => flag("Let the children that are not waited for finish instead of cancelling them."),
        ("for_each", "do") => refer("block", "The steps; they read `item`, `index` and `loop.count`."),
        ("for_each", "at_once") => whole("Items at once (default 1).", 1),
        ("for_each", "max") => passes("Items at most (default 100)."),
        ("for_each", "on_failure") => choice(
            "When an item fails: stop the others, let all of them finish and then fail, or complete with its error in its place.",
            &["cancel", "drain", "collect"],
        ),
        ("for_each", "on_limit") => choice("What a longer list leads to.", &["fail", "truncate"]),
        ("repeat", "until") => refer("expression", "Asked after each pass; true ends the repeat."),
        ("repeat", "while") => refer("expression", "Asked before each pass; false ends the repeat."),
        ("repeat", "max") => passes("Passes at most (default 100)."),
        ("repeat", "delay") => refer("duration", "Between two passes."),
        ("repeat", "keep") => choice("The output: that of all passes, or of the last alone.", &["all", "last"]),
        ("repeat", "on_limit") => choice("What reaching `max` leads to.", &["fail", "complete"]),
        ("goto", "max") => passes("How often the target may be entered by jumps (default 100)."),
        _ => common_key(key),
    }
}

fn kind_value(kind: &str) -> Value {
    match kind {
        "agent" => json!({
            "description": "The name of an agent, or an agent for this step alone.",
            "anyOf": [{ "type": "string", "minLength": 1 }, refer("agent", "")],
        }),
        "tool" => name("The name of the tool."),
        "workflow" => name(
            "The other workflow: the name, alias or id of a kept one, or a path relative to this file (`./other.yaml`).",
        ),
        "if" => refer("expression", "The condition."),
        "switch" => json!({
            "description": "The value that is compared with the cases, or a list of conditions.",
            "anyOf": [refer("expression", ""), list_of(arm())],
        }),
        "parallel" => filled("The children."),
        "steps" => filled("The steps; if one has `needs`, each starts when what it needs has ended."),
        "for_each" => json!({ "description": "The list: an expression, or written out.", "type": ["string", "array"] }),
        "repeat" => refer("block", "The steps of one pass."),
        "wait" => json!({
            "description": "A duration, or what to wait for.",
            "anyOf": [{ "type": ["string", "number"] }, wait()],
        }),
        "ask" => json!({
            "description": "The question, or a map with it.",
            "anyOf": [{ "type": "string" }, ask()],
        }),
        "stop_if" => stop_if(),
        "set" => json!({ "description": "Values by variable name.", "type": "object", "minProperties": 1 }),
        _ => name("The id of the step to go on with."),
    }
}

fn common_key(key: &str) -> Value {
    match key {
        "id" => json!({
            "description": "Unique in the workflow; letters, digits, `_` and `-`. Without one, the position gives it.",
            "type": "string", "pattern": "^[\\p{L}\\p{N}_-]+$", "maxLength": 128,
        }),
        "name" => name("What people call the step, in traces and drawings."),
        "description" => text("What the step is for; shown by `relais plan`."),
        "needs" => refer("texts", "Steps of the same list that must have ended first; makes the list a DAG."),
        "run_if" => choice("Run whatever became of the steps under `needs`.", &["always"]),
        "when" => refer("expression", "False makes the step skipped."),
        "retry" => json!({
            "description": "Attempts after the first, or a map.",
            "anyOf": [{ "type": "integer", "minimum": 0 }, retry()],
        }),
        "timeout" => refer("duration", "The step fails after this time (agents and tools: 30m by default)."),
        "on_error" => on_error(),
        "budget" => refer("budget", "Bounds of this step."),
        "undo" => refer("step", "The step that takes this one back when the run fails with `on_failure: undo`."),
        "save" => json!({
            "description": "Variables written when the step completes, read as `vars.NAME`; they may read its own output.",
            "type": "object", "minProperties": 1,
            "propertyNames": { "pattern": "^[A-Za-z][A-Za-z0-9_]*$" },
        }),
        "on_missing" => {
            json!({ "description": "A missing field reads as null instead of being an error.", "type": "null" })
        }
        "output_key" => name("The name of this child's output in the output of its parallel."),
        _ => json!(false),
    }
}

fn cases() -> Value {
    let mut case = object("A value and the steps for it.", keys::CASE, |key| match key {
        "case" | "value" => any("The value."),
        "steps" | "then" => refer("block", "The steps."),
        _ => json!(false),
    });
    let either = |a: &str, b: &str| json!({ "oneOf": [{ "required": [a] }, { "required": [b] }] });
    merge(&mut case, json!({ "allOf": [either("case", "value"), either("steps", "then")] }));
    json!({
        "description": "Steps by value, or a list of `{ case: X, steps: […] }`.",
        "anyOf": [
            { "type": "object", "minProperties": 1, "additionalProperties": refer("block", "") },
            { "type": "array", "minItems": 1, "items": case },
        ],
    })
}

fn arm() -> Value {
    let mut arm = object("A condition and the steps for it.", keys::ARM, |key| match key {
        "when" => refer("expression", "The condition."),
        "label" => name("What traces and drawings call it (default: the condition)."),
        "steps" | "then" => refer("block", "The steps."),
        _ => json!(false),
    });
    merge(&mut arm, json!({ "required": ["when"], "oneOf": [{ "required": ["steps"] }, { "required": ["then"] }] }));
    arm
}

fn wait() -> Value {
    let mut wait = object("One of `for`, `until`, `signal` and `event`.", keys::WAIT, |key| match key {
        "for" => json!({ "description": "A duration.", "type": ["string", "number"] }),
        "until" | "at" => text("A time with its offset (RFC 3339)."),
        "signal" => name("The name of a signal sent to this run."),
        "event" => name("The type of an event."),
        "filter" => refer("expression", "Only an event for which this is true; it reads `event`."),
        _ => json!(false),
    });
    let ways = ["for", "until", "at", "signal", "event"].map(|way| json!({ "required": [way] }));
    merge(&mut wait, json!({ "oneOf": ways, "dependentRequired": { "filter": ["event"] } }));
    wait
}

fn ask() -> Value {
    let mut ask = object("A question to a person.", keys::ASK, |key| match key {
        "question" => text("What is asked."),
        "show" => any("What is shown with the question."),
        "answer" => refer("schema", "Schema of the answer; text by default."),
        "approve" => flag("The answer is yes or no."),
        "people" | "approvals" | "remind" | "then" => people(key),
        "deadline" => refer("duration", "How long to wait for the answer, on the wall clock."),
        "on_deadline" => json!({
            "description": "What happens then.",
            "anyOf": [choice("The step fails.", &["fail"]), object("An answer in place of the person's.", keys::ON_DEADLINE, |_| any("The value."))],
        }),
        _ => json!(false),
    });
    merge(&mut ask, json!({ "required": ["question"], "dependentRequired": { "on_deadline": ["deadline"] } }));
    ask
}

fn people(key: &str) -> Value {
    match key {
        "people" => refer("texts", "Users who may answer, too; the one whose run it is always may."),
        "approvals" => whole("How many different people must say yes (default 1); one no is a no.", 1),
        "remind" => refer("duration", "Everybody is told again so often until it is answered."),
        _ => {
            let mut then =
                object("Whom it goes to, too, when nobody has answered.", keys::ESCALATION, |key| match key {
                    "after" => refer("duration", "How long nobody may have answered."),
                    "people" => refer("texts", "Users who may answer from then on."),
                    _ => refer("texts", "Channels by name from the configuration that are told then."),
                });
            merge(
                &mut then,
                json!({ "required": ["after"], "anyOf": [{ "required": ["people"] }, { "required": ["notify"] }] }),
            );
            then
        }
    }
}

fn stop_if() -> Value {
    let conditions = || list_of(refer("expression", ""));
    let mut combined = object("Several conditions.", keys::STOP_IF, |key| {
        let about = if key == "any" { "One of them is enough." } else { "All of them must be true." };
        json!({ "description": about, "anyOf": [refer("expression", ""), conditions()] })
    });
    merge(&mut combined, json!({ "oneOf": [{ "required": ["any"] }, { "required": ["all"] }] }));
    json!({ "description": "A condition, or several.", "anyOf": [refer("expression", ""), conditions(), combined] })
}

fn retry() -> Value {
    let mut retry = object("Attempts after a failure.", keys::RETRY, |key| match key {
        "max_attempts" => whole("Attempts after the first.", 0),
        "backoff" => choice("How the delay grows.", &["fixed", "exponential"]),
        "delay" => json!({
            "description": "Before the first new attempt (default 1s).",
            "anyOf": [refer("duration", ""), { "const": 0 }],
        }),
        "factor" => whole("By how much an exponential delay grows each time (default 2).", 1),
        "max_delay" => refer("duration", "No delay is longer (default an hour)."),
        "on" => refer("texts", "Kinds of error or text patterns; any error by default."),
        "never" => refer("texts", "Kinds of error or text patterns that are not retried."),
        _ => json!(false),
    });
    merge(&mut retry, json!({ "required": ["max_attempts"] }));
    retry
}

fn on_error() -> Value {
    let mut map = object("A value, or a jump.", keys::ON_ERROR, |key| match key {
        "value" => any("The output of the failed step."),
        "goto" => name("The id of the step to go on with."),
        _ => json!(false),
    });
    merge(&mut map, json!({ "minProperties": 1, "maxProperties": 1 }));
    json!({
        "description": "What an error leads to: `fail`, `continue`, `{ value: X }` or `{ goto: ID }`.",
        "anyOf": [choice("The run fails, or goes on.", &["fail", "continue"]), map],
    })
}

fn budget(key: &str) -> Value {
    match key {
        "usd" => json!({ "description": "US dollars.", "type": "number", "minimum": 0, "maximum": 1_000_000 }),
        "tokens" => refer("count", "Tokens, in and out."),
        "model_calls" => refer("count", "Model calls (1,000 for a run by default)."),
        "tool_calls" => refer("count", "Tool calls."),
        "time" => refer("duration", "Time."),
        _ => json!(false),
    }
}

fn agent(key: &str) -> Value {
    match key {
        "model" => refer("texts", "`provider/model`; a list is a fallback order."),
        "instructions" => text("The system message."),
        "tools" => refer("texts", "Names of tools, or patterns such as `mcp:shop/*`."),
        "input" => refer("schema", "Schema of the input."),
        "output" => refer("schema", "Schema of the output; the agent must yield JSON that fits."),
        "max_turns" => whole("Model calls at most (default 30).", 1),
        "output_retries" => whole("Corrections of an output that does not fit (default 3).", 0),
        "budget" => refer("budget", "Bounds of each step of this agent."),
        "max_tokens" => whole("Tokens of one answer at most.", 1),
        "temperature" => json!({ "description": "From 0 to 2.", "type": "number", "minimum": 0, "maximum": 2 }),
        "description" => text("What the agent is for; people see it, its models do not."),
        "result_mark" => flag("The final text must carry a result mark."),
        "result_limit" => refer("count", "A tool result above this size is told in parts (default 64k)."),
        "on_cut" => choice("What becomes of a text answer cut off at the output limit.", &["continue", "fail"]),
        _ => json!(false),
    }
}

fn top(key: &str) -> Value {
    match key {
        "$schema" => text("Where an editor finds this schema."),
        "name" => name("The name of the workflow (default: that of the file)."),
        "alias" => name("A second name, accepted wherever an id is."),
        "branch" => name("Which graph of a file with several this is."),
        "description" => text("What it is for."),
        "input" => refer("schema", "Schema of the input of a run."),
        "output" => any("The output of a run; that of the last step by default."),
        "output_schema" => refer("schema", "Schema of the output of a run."),
        "budget" => refer("budget", "Bounds of a run and all that it starts."),
        "timeout" => refer("duration", "A run fails after this time; never by default."),
        "inline_limit" => refer("count", "Values above this size are stored by their content (default 64k)."),
        "large_values" => choice("Where large outputs can be read beside the database.", &["blob", "file"]),
        "shutdown_timeout" => refer("duration", "How long a server that shuts down lets a run go on."),
        "max_recoveries" => whole("How often in a row a run may be taken over without getting further (default 5).", 0),
        "agents" => by_name("Agents by name.", refer("agent", "")),
        "tools" => by_name("What the file says about tools, by name or pattern.", tool_rule()),
        "mcp" => by_name("MCP servers by name.", server()),
        "steps" => filled("The steps, in order; if one has `needs`, each starts when what it needs has ended."),
        "on_exit" => json!({
            "description": "Steps after the end of the body: a list for every ending, or lists by ending.",
            "anyOf": [refer("steps", ""), object("Steps by ending.", keys::EXIT, exit)],
        }),
        "on_failure" => choice("What a failed step makes of the run.", &["fail", "partial", "undo"]),
        "on_step_failure" => choice(
            "Where steps have `needs`: stop the others when one fails, let them finish, or complete all the same.",
            &["cancel", "drain", "collect"],
        ),
        "on_tool_drift" => {
            choice("What happens if a tool has changed since the workflow was saved.", &["warn", "fail"])
        }
        "triggers" => {
            json!({ "description": "What starts runs.", "anyOf": [list_of(refer("trigger", "")), refer("trigger", "")] })
        }
        "tags" => by_name("Tags of every run, which runs are found by.", json!({ "type": "string", "minLength": 1 })),
        "notify" => object("Who is told of the end of a run.", keys::NOTIFY, notify),
        _ => json!(false),
    }
}

fn exit(key: &str) -> Value {
    refer(
        "block",
        match key {
            "always" => "After every ending.",
            "success" => "After a completed or stopped run.",
            "failure" => "After a failed run.",
            _ => "After a cancelled run.",
        },
    )
}

fn notify(key: &str) -> Value {
    match key {
        "on_complete" => flag("Tell of completed runs (default false)."),
        "on_failure" => flag("Tell of failed runs (default true)."),
        "on_waiting" => flag("Tell that somebody is asked (default true)."),
        "to" => refer("texts", "Channels by name from the configuration, instead of its default ones."),
        "webhook" => {
            json!({ "description": "A public address that is told.", "type": "string", "pattern": "^https?://" })
        }
        "email" => refer("texts", "Mail addresses that are told."),
        _ => json!(false),
    }
}

fn tool_rule() -> Value {
    object("A rule about a tool.", keys::TOOL_RULE, |key| match key {
        "effect" => choice("What may happen twice; `once` if unknown.", &["read", "idempotent", "once"]),
        "approve" => json!({
            "description": "A person must say yes before each call.",
            "anyOf": [flag("Whether."), object("Who is asked.", keys::APPROVE, people)],
        }),
        "timeout" => refer("duration", "Of one call (default 2m)."),
        _ => json!(false),
    })
}

fn server() -> Value {
    let settings =
        |about: &str| json!({ "description": about, "type": "object", "additionalProperties": { "type": "string" } });
    let mut server = object(
        "A program (`command`) or an address (`url`). A definition that comes over the network or from an assistant names public addresses only; programs, private addresses and secrets are named in relais.toml.",
        keys::SERVER,
        |key| match key {
            "command" => refer("texts", "The program, or the program and its arguments."),
            "args" => refer("texts", "Arguments of the program."),
            "env" => settings("Its environment; a secret is named, `${SHOP_TOKEN}`, never written."),
            "url" => {
                json!({ "description": "Address of a streamable HTTP server.", "type": "string", "pattern": "^https?://" })
            }
            "headers" => settings("Headers; a secret is named, `${SHOP_TOKEN}`, never written."),
            _ => json!(false),
        },
    );
    merge(
        &mut server,
        json!({
            "oneOf": [{ "required": ["command"] }, { "required": ["url"] }],
            "dependentRequired": { "args": ["command"], "env": ["command"], "headers": ["url"] },
        }),
    );
    server
}

fn trigger() -> Value {
    let names: Vec<&str> = keys::TRIGGER_KINDS.iter().chain(keys::TRIGGER_OPTIONS).copied().collect();
    let mut trigger = object("What starts runs: exactly one of the kinds, and options.", &names, trigger_key);
    let one: Vec<Value> = keys::TRIGGER_KINDS.iter().map(|kind| json!({ "required": [kind] })).collect();
    merge(&mut trigger, json!({ "oneOf": one }));
    trigger
}

fn trigger_key(key: &str) -> Value {
    match key {
        "manual" => flag("Started by hand only."),
        "at" => text("Once, at a time with its offset (RFC 3339) or in words (`tomorrow 9am`)."),
        "cron" => {
            text("Five or six cron fields with names, ranges and steps, `@daily`, or words (`every weekday at 8:30`).")
        }
        "every" => {
            json!({ "description": "A duration, `daily@09:00` or `weekly@1,3,5@09:00`.", "type": ["string", "number"] })
        }
        "daily" => text("A time of day, `09:00`."),
        "weekly" => {
            json!({ "description": "Days, 0 is Sunday, and a time: `1,3,5@09:00`.", "type": ["string", "integer"] })
        }
        "schedule" => json!({ "description": "Any of the forms of `every` and `cron`.", "type": ["string", "number"] }),
        "continuous" => json!({
            "description": "The next run starts after the last has ended: true, or the delay between (default 1s).",
            "anyOf": [
                { "const": true },
                refer("duration", ""),
                object("With a delay.", keys::CONTINUOUS, |_| refer("duration", "Between two runs.")),
            ],
        }),
        "webhook" => {
            json!({ "description": "The id of a webhook, or a map with it.", "anyOf": [name("Its id."), webhook()] })
        }
        "event" => name("The type of an event."),
        "timezone" => text("IANA name, for clock times."),
        "overlap" => choice("What happens if a run still goes on.", &["skip", "queue", "allow", "cancel_running"]),
        "catch_up" => choice("Times missed while the server was down.", &["one", "none", "all"]),
        "input" => any("The input of the run."),
        "debounce" => refer("duration", "The last delivery starts a run when nothing more has come for so long."),
        "batch" => {
            let mut batch =
                object("Up to `size` deliveries within that time are one run.", keys::BATCH, |key| match key {
                    "size" => whole("Deliveries at most.", 1),
                    _ => refer("duration", "After the first of them."),
                });
            merge(&mut batch, json!({ "required": ["size", "within"] }));
            batch
        }
        "throttle" => {
            let mut most = object("At most `max` runs start within that time.", keys::THROTTLE, |key| match key {
                "max" => whole("Runs at most.", 1),
                _ => refer("duration", "Within this time."),
            });
            merge(&mut most, json!({ "required": ["max", "per"] }));
            most
        }
        "filter" => json!({
            "description": "What starts a run: rules about the fields of what was sent, all of which must hold, with \
                            `allow` and `deny`; or an expression over `event.data`.",
            "type": ["string", "object"],
        }),
        _ => json!(false),
    }
}

fn webhook() -> Value {
    let mut webhook = object("A webhook.", keys::WEBHOOK, |key| match key {
        "id" => name("The last part of its address."),
        "dedupe" => {
            text("An expression over `event.data`: of two deliveries with the same value the second starts nothing.")
        }
        _ => {
            json!({ "description": "Name of the secret that signs requests.", "type": "string", "pattern": "^\\$\\{.+\\}$" })
        }
    });
    merge(&mut webhook, json!({ "required": ["id"] }));
    webhook
}

fn object(about: &str, names: &[&str], property: impl Fn(&str) -> Value) -> Value {
    let properties: Map<String, Value> = names.iter().map(|key| ((*key).to_owned(), property(key))).collect();
    json!({ "description": about, "type": "object", "properties": properties, "additionalProperties": false })
}

fn by_name(about: &str, each: Value) -> Value {
    json!({ "description": about, "type": "object", "additionalProperties": each })
}

fn refer(definition: &str, about: &str) -> Value {
    let reference = format!("#/$defs/{definition}");
    match about.is_empty() {
        true => json!({ "$ref": reference }),
        false => json!({ "description": about, "$ref": reference }),
    }
}

fn text(about: &str) -> Value {
    json!({ "description": about, "type": "string" })
}

fn name(about: &str) -> Value {
    json!({ "description": about, "type": "string", "minLength": 1 })
}

fn flag(about: &str) -> Value {
    json!({ "description": about, "type": "boolean" })
}

fn whole(about: &str, least: u32) -> Value {
    json!({ "description": about, "type": "integer", "minimum": least, "maximum": u32::MAX })
}

fn passes(about: &str) -> Value {
    json!({ "description": about, "type": "integer", "minimum": 1, "maximum": MAX_PASSES })
}

fn choice(about: &str, words: &[&str]) -> Value {
    json!({ "description": about, "enum": words })
}

fn any(about: &str) -> Value {
    json!({ "description": about })
}

fn filled(about: &str) -> Value {
    json!({ "description": about, "type": "array", "minItems": 1, "items": refer("step", "") })
}

fn list_of(item: Value) -> Value {
    json!({ "type": "array", "minItems": 1, "items": item })
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::path::{Path, PathBuf};

    use relais_plan::Problem;
    use relais_plan::problem::has_errors;

    use super::*;
    use crate::{Loaded, Loader, read};

    const ROOT: &str = env!("CARGO_MANIFEST_DIR");

    struct Folder;

    impl Loader for Folder {
        fn load(&self, reference: &str, from: &str) -> Result<Source, String> {
            let path = Path::new(from).parent().unwrap().join(reference);
            let name = path.canonicalize().map_err(|error| error.to_string())?;
            let text = std::fs::read_to_string(&name).map_err(|error| error.to_string())?;
            Ok(Source { name: name.display().to_string(), text })
        }
    }

    fn files(folder: &str) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).into_iter().flatten();
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml" || extension == "json"));
        files.sort();
        files
    }

    fn load(file: &Path) -> (Source, Loaded) {
        let file = file.canonicalize().unwrap();
        let source = Source { name: file.display().to_string(), text: std::fs::read_to_string(&file).unwrap() };
        let loaded = read(&source, &Folder, &Default::default());
        (source, loaded)
    }

    fn shown(problems: &[Problem]) -> String {
        problems.iter().map(|problem| format!("\n    {} ({:?})", problem.message, problem.help)).collect()
    }

    #[test]
    fn good_files_load_and_fit() {
        let validator = jsonschema::validator_for(&json_schema()).unwrap();
        let all: Vec<PathBuf> = files("corpus/good").into_iter().chain(files("../../examples")).collect();
        assert!(all.len() >= 5);
        for file in all {
            let (source, loaded) = load(&file);
            assert!(!has_errors(&loaded.problems), "{}: {}", file.display(), shown(&loaded.problems));
            let value = yaml::parse(&source).unwrap().to_value();
            let errors: Vec<String> =
                validator.iter_errors(&value).map(|e| format!("{} {e}", e.instance_path())).collect();
            assert!(errors.is_empty(), "{}: {errors:?}", file.display());
        }
    }

    #[test]
    fn bad_files_are_refused() {
        let validator = jsonschema::validator_for(&json_schema()).unwrap();
        let all = files("corpus/bad");
        assert!(all.len() >= 40, "{} files", all.len());
        let failures: Vec<String> = all.iter().filter_map(|file| bad(file, &validator)).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }

    /// The first line says what the first problem says; `# shape` below it, that the schema refuses the file too.
    fn bad(file: &Path, validator: &jsonschema::Validator) -> Option<String> {
        let (source, loaded) = load(file);
        let expected = source.text.lines().next()?.strip_prefix("# error: ").unwrap().to_owned();
        let first = loaded.problems.first().map(|problem| problem.message.clone()).unwrap_or_default();
        if !first.contains(&expected) || !has_errors(&loaded.problems) {
            return Some(format!("{}: wanted {expected:?}, got {}", file.display(), shown(&loaded.problems)));
        }
        // What cannot be parsed has no shape.
        let fits = yaml::parse(&source).map_or(true, |root| validator.is_valid(&root.to_value()));
        let is_shape = source.text.lines().nth(1) == Some("# shape");
        (is_shape == fits).then(|| format!("{}: marked `# shape`: {is_shape}, fits the schema: {fits}", file.display()))
    }

    #[test]
    fn every_key_has_a_description() {
        let mut open = vec![(String::new(), json_schema())];
        while let Some((path, value)) = open.pop() {
            let Value::Object(fields) = value else { continue };
            for (key, property) in fields.get("properties").and_then(Value::as_object).into_iter().flatten() {
                assert!(property["description"].is_string(), "{path}/{key} has no description");
            }
            open.extend(fields.into_iter().map(|(key, value)| (format!("{path}/{key}"), value)));
        }
    }
}
