//! The format `pipeline` through the real program. Every agent has a model of its own name, so that the model server
//! sees who was asked what.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use relais_testkit::{Behaviour, Gate, ModelServer, Received};
use serde_json::Value;

use crate::home::Home;

const SEQUENCE: &str = include_str!("../../../../../tests/cases/pipeline/sequence.yaml");
const LOOP: &str = include_str!("../../../../../tests/cases/pipeline/review-loop.yaml");
const PARALLEL: &str = include_str!("../../../../../tests/cases/pipeline/parallel.yaml");
const NESTED: &str = include_str!("../../../../../tests/cases/pipeline/nested-parallel.yaml");
const REVIEW: &str =
    "structured_output: { schema: { type: object, properties: { ok: { type: boolean } }, required: [ok] } }";

/// The file with a model for each agent that has the agent's name.
fn own_models(file: &str) -> String {
    let mut agent = String::new();
    let mut text = String::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix("  ").and_then(|rest| rest.strip_suffix(':')) {
            agent = name.to_owned();
        }
        text += &line.replace("openai/gpt-4o-mini", &format!("openai/{agent}"));
        text.push('\n');
    }
    text
}

/// Agents of these names, which only have to be there.
fn agents(names: &[&str]) -> String {
    let one = |name: &&str| format!("  {name}: {{ model: openai/{name}, instruction: Be {name}. }}\n");
    format!("agents:\n{}", names.iter().map(one).collect::<String>())
}

fn model(asked: &Received) -> String {
    asked.body["model"].as_str().unwrap_or_default().to_owned()
}

fn message(asked: &Received, role: &str) -> String {
    let messages = asked.body["messages"].as_array().cloned().unwrap_or_default();
    let found = messages.iter().rev().find(|message| message["role"] == role);
    found.and_then(|message| message["content"].as_str()).unwrap_or_default().to_owned()
}

/// A run of a file with a model that answers by these rules.
struct Told {
    home: Home,
    server: ModelServer,
    stdout: String,
    stderr: String,
}

fn run(file: &str, code: i32, answer: impl Fn(&str, &Received) -> Behaviour + Send + Sync + 'static) -> Told {
    let server = ModelServer::start();
    server.answer_by(move |asked| answer(&model(asked), asked));
    let home = Home::with_model(&server);
    home.file("flow.yaml", file);
    let outcome = home.relais(&["run", "flow.yaml", "A note on tides"]).expect(code);
    Told { home, server, stdout: outcome.stdout, stderr: outcome.stderr }
}

impl Told {
    fn order(&self) -> Vec<String> {
        self.server.received().iter().map(model).collect()
    }

    /// What the agent was told the last time.
    fn heard(&self, agent: &str, role: &str) -> String {
        let received = self.server.received();
        received.iter().rev().find(|asked| model(asked) == agent).map(|asked| message(asked, role)).unwrap_or_default()
    }
}

fn refused(file: &str, parts: &[&str]) {
    let home = Home::new();
    home.file("wrong.yaml", file);
    for words in [&["validate", "wrong.yaml"][..], &["run", "wrong.yaml", "--simulate"]] {
        let outcome = home.relais(words).expect(2);
        let said = format!("{}{}", outcome.stdout, outcome.stderr);
        for part in parts {
            assert!(said.contains(part), "{part:?} in {said}");
        }
    }
    assert_eq!(home.entries(), 0, "a wrong file started a run");
}

// keeps C-01, C-02, C-03, C-04
#[test]
fn every_agent_is_told_what_those_before_it_gave() {
    let told = run(&own_models(SEQUENCE), 0, |agent, _| Behaviour::say(&format!("{agent} says {{{{ x }}}}")));
    assert_eq!(told.order(), ["generator", "translator", "publisher"]);
    assert_eq!(told.heard("generator", "user"), "A note on tides");
    assert_eq!(
        told.heard("translator", "user"),
        "--- Prior Step Outputs ---\n\n[generator (agent: generator)]:\ngenerator says {{ x }}\n\n\
         --- End Prior Step Outputs ---\n\nA note on tides"
    );
    assert_eq!(
        told.heard("publisher", "user"),
        "--- Prior Step Outputs ---\n\n[generator (agent: generator)]:\ngenerator says {{ x }}\n\n\
         [translator (agent: translator)]:\ntranslator says {{ x }}\n\n\
         --- End Prior Step Outputs ---\n\nA note on tides"
    );
    assert_eq!(told.stdout.trim(), "publisher says {{ x }}");
}

// keeps C-31
#[test]
fn what_was_said_is_handed_on_as_it_was_said_and_an_empty_arm_does_nothing() {
    let file = |arms: &str| {
        format!(
            "{}  review: {{ model: openai/review, instruction: Review., {REVIEW} }}\nworkflow:\n\
             \x20 - {{ type: agent, name: review }}\n\
             \x20 - {{ type: condition, condition: \"{{{{ $steps.review.output.ok }}}}\", {arms} }}\n\
             \x20 - {{ type: agent, name: last }}\n",
            agents(&["other", "last"])
        )
    };
    let other = "[{ type: agent, name: other }]";
    for (arms, order) in [
        (format!("true: [], false: {other}"), vec!["review", "last"]),
        (format!("true: {other}, false: []"), vec!["review", "other", "last"]),
        ("true: [], false: []".to_owned(), vec!["review", "last"]),
    ] {
        // Neither in our order of keys nor with our spaces.
        let told = run(&file(&arms), 0, |agent, _| match agent {
            "review" => Behaviour::say("{ \"why\":\"fine\",   \"ok\" : true }"),
            _ => Behaviour::say("done"),
        });
        assert_eq!(told.order(), order, "{arms}");
        let heard = told.heard("last", "user");
        assert!(heard.contains("[review (agent: review)]:\n{ \"why\":\"fine\",   \"ok\" : true }\n"), "{heard}");
    }
}

// keeps C-06, C-07, C-08
#[test]
fn a_rejected_translation_is_done_again() {
    let reviews = AtomicUsize::new(0);
    let told = run(&own_models(LOOP), 0, move |agent, _| match agent {
        "qa_agent" => {
            let approved = reviews.fetch_add(1, Ordering::SeqCst) > 0;
            Behaviour::say(&format!("{{\"is_approved\": {approved}}}"))
        }
        other => Behaviour::say(other),
    });
    assert_eq!(told.order(), ["generator", "translator", "qa_agent", "translator", "qa_agent", "publisher"]);
    assert!(told.stderr.contains("this step goes back to `trans`: it runs its agent"), "{}", told.stderr);
    assert!(told.heard("translator", "user").contains("[qa (agent: qa_agent)]:\n{\"is_approved\": false}"));
    told.home.expect_status("completed");
}

// keeps C-05, C-09
#[test]
fn outputs_are_read_in_conditions_and_instructions() {
    let file = format!(
        "agents:\n  a: {{ model: openai/a, instruction: Be a., {REVIEW} }}\n\
         \x20 b: {{ model: openai/b, instruction: 'Mind {{{{ $steps.a.output.ok }}}} of {{{{ $steps.a.output }}}}, not {{{{ this }}}}.' }}\n\
         workflow:\n  - {{ type: agent, name: a }}\n  - {{ type: agent, name: b }}\n\
         \x20 - {{ id: c, type: condition, condition: \"{{{{ $steps.b.output }}}}\", true: [{{ goto: 0 }}] }}\n"
    );
    let answer = |agent: &str, _: &Received| Behaviour::say(if agent == "a" { "{\"ok\": true}" } else { "perhaps" });
    let told = run(&file, 1, answer);
    assert_eq!(told.heard("b", "system"), "Mind true of {\"ok\":true}, not {{ this }}.");
    told.home.expect_failure("schema", &["a condition must be true or false, got a text \"perhaps\""]);

    let number = "agents:\n  a: { model: openai/a, instruction: Be a., structured_output: { schema: { n: integer } } }\n\
         workflow:\n  - { type: agent, name: a }\n\
         \x20 - { id: c, type: condition, condition: \"{{ $steps.a.output.n }}\", true: [{ goto: a }] }\n";
    refused(number, &["a condition is true or false, and `steps.a.output.n` is an integer"]);
}

// keeps C-10
#[test]
fn wrong_files_are_refused_with_the_near_name() {
    let with = |steps: &str| format!("{}workflow:\n{steps}", agents(&["writer", "checker"]));
    refused(&with("  - { type: agnet, name: writer }\n"), &["agnet", "did you mean `agent`?", "wrong.yaml:5"]);
    refused(&with("  - { type: agent, name: writr }\n"), &["no agent is called `writr`", "did you mean `writer`?"]);
    refused(&with("  - { type: condition, true: [{ type: agent, name: writer }] }\n"), &["no `condition`"]);
    let reads = |path: &str| {
        with(&format!(
            "  - {{ type: agent, name: writer }}\n\
             \x20 - {{ type: condition, condition: \"{{{{ $steps.{path} }}}}\", true: [{{ type: agent, name: checker }}] }}\n"
        ))
    };
    refused(&reads("wirter.output"), &["no step is called `wirter`", "did you mean `writer`?"]);
    refused(&reads("writer.output.ok"), &["the agent `writer` has no `structured_output`"]);
    refused(&format!("{}workflow: []\n", agents(&["writer"])), &["a list of at least one step"]);
}

// keeps C-11, C-13, C-19
#[test]
fn parallel_agents_run_at_the_same_time_and_are_told_in_order() {
    let (asked, gate) = (AtomicUsize::new(0), Gate::default());
    let told = run(&own_models(PARALLEL), 0, move |agent, _| match agent {
        // The first one that is asked is answered only when the second was asked, too.
        "generator" if asked.fetch_add(1, Ordering::SeqCst) == 0 => Behaviour::say("first asked").behind(&gate),
        "generator" => {
            gate.open();
            Behaviour::say("second asked")
        }
        _ => Behaviour::say("done"),
    });
    assert_eq!(told.order()[..3], ["generator", "generator", "translator"], "the next waited for both");
    let trace = told.home.expect_status("completed").to_string();
    assert!(trace.contains("par_gen"), "{trace}");
    let told = told.heard("translator", "user");
    let places =
        ["[par_gen/gen_1 (agent: generator)]:\n", "[par_gen/gen_2 (agent: generator)]:\n"].map(|head| told.find(head));
    assert!(places[0].is_some() && places[0] < places[1], "{told}");
}

// keeps C-12
#[test]
fn a_failed_child_fails_the_workflow_at_once() {
    let file = format!(
        "{}workflow:\n  - {{ id: p, type: parallel, steps: [{{ type: agent, name: a }}, {{ type: agent, name: b }}] }}\n\
         \x20 - {{ type: agent, name: c }}\n",
        agents(&["a", "b", "c"])
    );
    let told = run(&file, 1, |agent, _| match agent {
        "a" => Behaviour::Silence,
        _ => Behaviour::status(400),
    });
    assert!(!told.order().contains(&"c".to_owned()));
    let trace = told.home.expect_status("failed");
    let silent = trace["steps"].as_array().unwrap().iter().find(|step| step["key"] == "a").unwrap();
    assert_eq!(silent["status"], "cancelled", "it was not waited for: {silent:#}");
}

fn bounded(settings: &str) -> String {
    format!(
        "{}  q: {{ model: openai/q, instruction: Be q., {REVIEW} }}\nworkflow:\n{settings}  steps:\n\
         \x20   - {{ id: trans, type: agent, name: w }}\n    - {{ id: qa, type: agent, name: q }}\n\
         \x20   - {{ id: c, type: condition, condition: \"{{{{ $steps.qa.output.ok }}}}\", false: [{{ goto: trans }}] }}\n",
        agents(&["w"])
    )
}

// keeps C-14, C-16
#[test]
fn loops_end_at_their_limit() {
    for (settings, limit) in [
        ("  max_loop_iterations: 2\n", 2),
        ("  max_loop_iterations: 2\n  overrides: { max_loop_iterations: 3 }\n", 3),
        ("", 100),
    ] {
        let told = run(&bounded(settings), 1, |_, _| Behaviour::say("{\"ok\": false}"));
        let turns = told.order().iter().filter(|agent| *agent == "w").count();
        assert_eq!(turns, limit, "a limit of N lets the step run N times");
        let trace = told.home.expect_status("failed");
        let expected = format!("workflow: max loop iterations exceeded (step: trans, limit: {limit})");
        assert_eq!(trace["error"]["message"], Value::from(expected.as_str()));
        assert!(told.stderr.contains(&expected), "{}", told.stderr);
    }
}

// keeps C-17, C-18, C-20, C-25
#[test]
fn nested_outputs_are_told_and_can_be_read() {
    let instruction = "'{{ $steps.outer.outputs.inner.outputs.researcher.output }}|{{ $steps.outer.outputs[0].output }}|\
                       {{ $steps.outer.outputs.inner.summarizer.output }}|{{ $steps.outer.order }}|{{ $steps.inner.outputs }}'";
    let file = own_models(NESTED).replace("Put the text into its final form.", instruction);
    let told = run(&file, 0, |agent, _| Behaviour::say(&agent[..1].to_uppercase()));
    assert_eq!(
        told.heard("publisher", "system"),
        "R|G|S|[\"generator\",\"inner\"]|{\"researcher\":{\"output\":\"R\",\"status\":\"completed\",\"error\":null,\
         \"agent\":\"researcher\"},\"summarizer\":{\"output\":\"S\",\"status\":\"completed\",\"error\":null,\
         \"agent\":\"summarizer\"}}"
    );
    assert_eq!(
        told.heard("publisher", "user"),
        "--- Prior Step Outputs ---\n\n[outer/generator (agent: generator)]:\nG\n\n\
         [outer/inner/researcher (agent: researcher)]:\nR\n\n[outer/inner/summarizer (agent: summarizer)]:\nS\n\n\
         --- End Prior Step Outputs ---\n\nA note on tides"
    );
    let failed = run(&own_models(NESTED), 1, |agent, _| match agent {
        "summarizer" => Behaviour::status(400),
        _ => Behaviour::say("ok"),
    });
    assert!(!failed.order().contains(&"publisher".to_owned()), "a leaf that fails, fails all");
}

// keeps C-21, C-22, C-23
#[test]
fn steps_and_blocks_are_retried() {
    let file = format!(
        "{}workflow:\n  max_loop_iterations: 1\n  steps:\n\
         \x20   - {{ type: agent, name: a, retry: {{ max_attempts: 1, backoff: fixed, initial_delay_seconds: 0.01 }} }}\n\
         \x20   - id: p\n      type: parallel\n      retry: {{ max_attempts: 2, backoff: exponential, initial_delay_seconds: 0.1, on: [provider] }}\n\
         \x20     steps: [{{ type: agent, name: b }}, {{ type: agent, name: c }}]\n\
         \x20   - {{ type: agent, name: d }}\n\
         \x20   - {{ id: never, type: condition, condition: \"{{{{ $steps.d.output }}}} == 'again'\", true: [{{ goto: a }}] }}\n",
        agents(&["a", "b", "c", "d"])
    );
    let counts: [AtomicUsize; 2] = Default::default();
    let told = run(&file, 0, move |agent, _| {
        let turn = |which: usize| counts[which].fetch_add(1, Ordering::SeqCst);
        match agent {
            "a" if turn(0) == 0 => Behaviour::html(200),
            "c" if turn(1) < 2 => Behaviour::html(200),
            other => Behaviour::say(other),
        }
    });
    let asked = |agent: &str| told.order().iter().filter(|name| *name == agent).count();
    assert_eq!((asked("a"), asked("c"), asked("d")), (2, 3, 1), "{:?}", told.order());
    assert!(asked("b") >= 1);
    let tries: Vec<_> = told.server.received().iter().filter(|one| model(one) == "c").map(|one| one.at).collect();
    let pauses: Vec<Duration> = tries.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let (first, second) = (Duration::from_millis(100), Duration::from_millis(200));
    assert!(pauses[0] >= first && pauses[1] >= second, "the pauses grow: {pauses:?}");
    assert!(told.heard("d", "user").contains("[p/c (agent: c)]:\nc\n"), "only the success is seen");
    let none = format!("{}workflow: [{{ type: agent, name: a }}, {{ type: agent, name: b }}]\n", agents(&["a", "b"]));
    let told = run(&none, 1, |_, _| Behaviour::html(200));
    assert_eq!(told.order(), ["a"], "no retry unless it is asked for");
    let other = none.replace("name: a }", "name: a, retry: { max_attempts: 2, on: [timeout, rate_limit] } }");
    let told = run(&other, 1, |_, _| Behaviour::html(200));
    assert_eq!(told.order(), ["a"], "nor for other errors than those that are named");
}

// keeps C-29
#[test]
fn the_trace_holds_every_step_with_its_output() {
    let told = run(&own_models(NESTED), 0, |agent, _| Behaviour::say(&format!("words of {agent}")));
    let trace = told.home.show().to_string();
    for agent in ["generator", "researcher", "summarizer", "publisher"] {
        assert!(trace.contains(&format!("\"words of {agent}\"")), "{agent} in {trace}");
    }
}

// keeps C-15, C-24
#[test]
fn each_cycle_counts_for_itself_and_retries_do_not() {
    let file = format!(
        "{}  q: {{ model: openai/q, instruction: Be q., {REVIEW} }}\n  r: {{ model: openai/r, instruction: Be r., {REVIEW} }}\n\
         workflow:\n  max_loop_iterations: 2\n  steps:\n    - {{ type: agent, name: a }}\n\
         \x20   - {{ type: agent, name: b, retry: {{ max_attempts: 1, initial_delay_seconds: 0.01 }} }}\n\
         \x20   - {{ type: agent, name: q }}\n\
         \x20   - {{ id: inner, type: condition, condition: \"{{{{ $steps.q.output.ok }}}}\", false: [{{ goto: b }}] }}\n\
         \x20   - {{ type: agent, name: r }}\n\
         \x20   - {{ id: outer, type: condition, condition: \"{{{{ $steps.r.output.ok }}}}\", false: [{{ goto: 0 }}] }}\n",
        agents(&["a", "b"])
    );
    let counts: [AtomicUsize; 3] = Default::default();
    let told = run(&file, 0, move |agent, _| {
        let turn = |which: usize| counts[which].fetch_add(1, Ordering::SeqCst);
        match agent {
            "q" => Behaviour::say(&format!("{{\"ok\": {}}}", turn(0) % 2 == 1)),
            "r" => Behaviour::say(&format!("{{\"ok\": {}}}", turn(1) == 1)),
            // Every second call fails, and is tried again.
            "b" if turn(2) % 2 == 0 => Behaviour::html(200),
            other => Behaviour::say(other),
        }
    });
    let asked = |agent: &str| told.order().iter().filter(|name| *name == agent).count();
    assert_eq!((asked("a"), asked("b"), asked("q"), asked("r")), (2, 8, 4, 2), "{:?}", told.order());
}

#[test]
fn parallel_agents_keep_their_own_tools_and_models() {
    let file = "agents:\n  a: { model: openai/a, instruction: A., toolsets: [{ type: filesystem, tools: [read_file] }] }\n\
                \x20 b: { model: openai/b, instruction: B., toolsets: [{ type: filesystem, tools: [list_files] }] }\n\
                workflow:\n  - { id: p, type: parallel, steps: [{ type: agent, name: a }, { type: agent, name: b }] }\n";
    let told = run(file, 0, |agent, _| Behaviour::say(agent));
    for asked in told.server.received() {
        let (tool, other) =
            if model(&asked) == "a" { ("read_file", "list_files") } else { ("list_files", "read_file") };
        let tools = asked.body["tools"].to_string();
        assert!(tools.contains(tool) && !tools.contains(&format!("{other:?}")), "{tools}");
        assert_eq!(message(&asked, "system"), model(&asked).to_uppercase() + ".");
    }
}

#[test]
fn the_examples_run_simulated() {
    for name in ["sequence", "review-loop", "parallel", "nested-parallel"] {
        let file = format!("{}/../../examples/pipeline/{name}.yaml", env!("CARGO_MANIFEST_DIR"));
        let home = Home::new();
        home.relais(&["run", &file, "A note on tides", "--simulate", "--seed", "1"]).expect(0);
        home.expect_status("completed");
    }
}

#[test]
fn people_see_names_and_descriptions() {
    let home = Home::new();
    home.file(
        "flow.yaml",
        "agents:\n  a: { model: sim/x, description: Writes drafts., instruction: Write. }\n\
         workflow:\n  - { id: both, type: parallel, name: Two at once, steps: [{ type: agent, name: a }] }\n",
    );
    let shown = ["both  Two at once", "described as Writes drafts."];
    home.relais(&["plan", "flow.yaml"]).expect(0).prints(&shown);
    home.relais(&["graph", "flow.yaml"]).expect(0).prints(&["Two at once"]);
}
