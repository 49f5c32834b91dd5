//! Arbitrary trees of steps, written and read again: the same plan, with no problem that the tree itself does not have.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use relais_plan::step::{Awaited, Branch, Kind, Name, Step, StepError, Workflow};
use relais_plan::*;
use serde_json::{Value, json};

use crate::native::keys::KINDS;
use crate::{Loader, Options, Reading, normal};

/// Every workflow that is called is the same small one.
struct Child;

impl Loader for Child {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Ok(Source { name: reference.to_owned(), text: "steps: [{ set: { x: 1 } }]\n".to_owned() })
    }
}

/// Its hash, as the native reader pins it.
static PINNED: LazyLock<String> = LazyLock::new(|| {
    let source = Source { name: "top".into(), text: "steps: [{ workflow: ./child.yaml }]".into() };
    crate::read(&source, &Child, &Options::default()).children[0].hash()
});

fn name() -> BoxedStrategy<String> {
    prop_oneof![
        4 => "[a-z]{1,4}",
        1 => "[a-z:#{}\\[\\],'\" \n\t0-9~.-]{1,8}".prop_filter("blank", |text| !text.trim().is_empty()),
    ]
    .boxed()
}

fn text() -> BoxedStrategy<String> {
    prop_oneof![
        "[a-z]{0,6}",
        "[a-c{%#}\" :\n\t'\\\\-]{0,12}",
        "\\PC{0,6}",
        Just("{{ input.a }}".to_owned()),
        Just("1".to_owned())
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Value::from),
            vec((text(), inner), 0..3).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
    .boxed()
}

fn expr() -> BoxedStrategy<Expr> {
    let sources = [
        "true",
        "1",
        "input.a > 1",
        " input.a ",
        "input.a\n  and input.b",
        "input['a: b'] == \"}}\"",
        "{\"a\": {\"b\": 1}}",
        "(input.a) == 1",
        "['a', \"b\"]",
        "[\"a\", 1]",
        "- 1",
    ];
    proptest::sample::select(sources.to_vec()).prop_map(|source| Expr::parse(source, Span::default()).unwrap()).boxed()
}

/// Text with references, and only text.
fn prompt() -> BoxedStrategy<Template> {
    let sources = [
        "{{ input.a }}",
        "a {{ input.b }}",
        "{{ {\"a\": {\"b\": 1}} }}",
        "{% if input.a %}\n- b\n{% endif %}\n",
        "{# a #}",
    ];
    prop_oneof![
        text().prop_map(|text| Template::plain(&text, Span::default())),
        text().prop_map(|text| Template::Literal(Value::from(text))),
        proptest::sample::select(sources.to_vec()).prop_map(|text| Template::text(text, Span::default()).unwrap()),
        expr().prop_map(Template::Ref),
    ]
    .boxed()
}

fn template() -> BoxedStrategy<Template> {
    let leaf = prop_oneof![prompt(), value().prop_map(Template::Literal)];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..3).prop_map(Template::List),
            proptest::collection::btree_map(text(), inner, 0..3)
                .prop_map(|map| Template::Map(map.into_iter().collect())),
        ]
    })
    .boxed()
}

fn schema() -> BoxedStrategy<Schema> {
    let schemas = [
        json!({}),
        json!(true),
        json!({ "type": "string" }),
        json!({ "enum": ["a", 1] }),
        json!({ "type": "object", "properties": { "a": { "type": "array", "items": {} } }, "required": ["a"] }),
        json!({ "type": "object", "required": ["a"], "properties": { "a": {} } }),
        json!({ "type": "object", "properties": { "a?": { "description": "string" } } }),
    ];
    proptest::sample::select(schemas.to_vec()).prop_map(Schema::new).boxed()
}

fn budget() -> BoxedStrategy<Budget> {
    let field = || option::of(0u64..1_000_000);
    (option::of(0u64..1_000_000_000_000_000), field(), field(), field(), option::of(1u64..100_000_000))
        .prop_map(|(usd_nanos, tokens, model_calls, tool_calls, time_ms)| Budget {
            usd_nanos,
            tokens,
            model_calls,
            tool_calls,
            time_ms,
        })
        .boxed()
}

fn retry() -> BoxedStrategy<Retry> {
    let words = || vec(prop_oneof![Just("timeout".to_owned()), Just("it: broke".to_owned())], 0..3);
    let backoff = prop_oneof![Just(Backoff::Fixed), Just(Backoff::Exponential)];
    (0u32..5, backoff, 0u64..3_000, 1u32..4, option::of(1u64..9_000), words(), words())
        .prop_map(|(max_attempts, backoff, delay_ms, factor, max_delay_ms, on, never)| Retry {
            max_attempts,
            backoff,
            delay_ms,
            factor,
            max_delay_ms,
            on,
            never,
        })
        .boxed()
}

fn reference() -> BoxedStrategy<Name> {
    name().prop_map(|text| Name { text, span: Span::default() }).boxed()
}

fn call() -> BoxedStrategy<(&'static str, Kind)> {
    let agent = (name(), option::of(prompt()), option::of(template()), option::of(schema()), option::of(schema()));
    let agent = agent.prop_map(|(agent, prompt, input, input_schema, output_schema)| {
        let input_as = input.as_ref().and_then(|_| prompt.as_ref().map(|_| "data".to_owned()));
        let input_schema = input_schema.filter(|_| input.is_some());
        ("agent", Call { task: Task::Agent { agent, prompt }, input, input_schema, input_as, output_schema })
    });
    let with = proptest::collection::btree_map(text(), template(), 0..3);
    let tool = (name(), with, option::of(schema())).prop_map(|(tool, with, output_schema)| {
        let task = Task::Tool { tool, with: Template::Map(with.into_iter().collect()) };
        ("tool", Call { task, input: None, input_schema: None, input_as: None, output_schema })
    });
    let workflow = (option::of(template()), option::of(schema())).prop_map(|(input, input_schema)| {
        let task = Task::Workflow { workflow: "./child.yaml".into(), plan: PINNED.clone(), takes: None };
        ("workflow", Call { task, input, input_schema, input_as: None, output_schema: None })
    });
    prop_oneof![agent, tool, workflow].prop_map(|(word, call)| (word, Kind::Call(Box::new(call)))).boxed()
}

fn insistent() -> People {
    let then = Escalation { after_ms: 7_200_000, users: vec!["carol".into()], notify: vec!["ops".into()] };
    People { users: vec!["ann".into()], approvals: Some(2), remind_ms: Some(86_400_000), then: Some(then) }
}

fn waiting() -> BoxedStrategy<(&'static str, Kind)> {
    let times = ["1s", "{{ input.a }}", "{{ input.a }}s"];
    let time = proptest::sample::select(times.to_vec()).prop_map(|text| Template::text(text, Span::default()).unwrap());
    let people = prop_oneof![Just(People::default()), Just(insistent())];
    let ask = (prompt(), option::of(template()), schema(), option::of(1u64..9_000_000), option::of(template()), people);
    let ask = ask.prop_map(|(question, show, answer, deadline_ms, value, people)| {
        let approvals = people.approvals.filter(|_| *answer.json() == json!({ "type": "boolean" }));
        let people = People { approvals, ..people };
        let value = value.filter(|_| deadline_ms.is_some());
        let on_deadline = value.map_or(OnDeadline::Fail, OnDeadline::Value);
        ("ask", Until::Person(Box::new(Ask { question, show, answer, deadline_ms, on_deadline, people })))
    });
    let plain = prop_oneof![
        time.prop_map(Until::For),
        (1u32..9).prop_map(|seconds| Until::For(Template::Literal(json!(seconds)))),
        Just(Until::At(Template::Literal(json!("2027-01-01T09:00:00Z")))),
        name().prop_map(|name| Until::Signal { name }),
        (name(), option::of(expr())).prop_map(|(event, filter)| Until::Event { event, filter }),
    ];
    prop_oneof![plain.prop_map(|until| ("wait", until)), ask]
        .prop_map(|(word, until)| (word, Kind::Wait(until)))
        .boxed()
}

fn leaf() -> BoxedStrategy<(&'static str, Kind)> {
    let set = proptest::collection::btree_map("[a-z]{1,3}", template(), 1..3);
    prop_oneof![
        3 => call(),
        2 => waiting(),
        1 => expr().prop_map(|expr| ("stop_if", Kind::StopIf(expr))),
        1 => set.prop_map(|values| ("set", Kind::Set(values.into_iter().collect()))),
        1 => (reference(), option::of(1u32..9)).prop_map(|(to, max)| ("goto", Kind::Goto { to, max })),
    ]
    .boxed()
}

/// An arm of any of the three forms.
fn arm(steps: BoxedStrategy<Vec<Step>>) -> BoxedStrategy<Branch> {
    let compared = (prop_oneof![Just("1".to_owned()), Just("null".to_owned()), name()], any::<bool>()).prop_map(
        |(label, as_text)| {
            let value = serde_json::from_str::<Value>(&label).ok().filter(|_| !as_text);
            let value = crate::values::literal(&value.unwrap_or_else(|| Value::from(label.as_str())));
            let source = value.map_or("true".into(), |value| format!("(input.a) == {value}"));
            (label, Expr::new(source, Span::default()))
        },
    );
    let free = (prop_oneof![Just("then".to_owned()), name()], expr());
    (prop_oneof![compared, free], steps).prop_map(|((label, when), steps)| Branch { label, when, steps }).boxed()
}

fn block(inner: BoxedStrategy<Step>) -> BoxedStrategy<(&'static str, Kind)> {
    let steps = vec(inner.clone(), 0..3).boxed();
    let some = vec(inner, 1..3).boxed();
    let on_failure = || prop_oneof![Just(LaneFailure::Cancel), Just(LaneFailure::Drain), Just(LaneFailure::Collect)];
    let awaited = prop_oneof![
        Just(Awaited::All),
        (1u32..3).prop_map(Awaited::Count),
        vec(reference(), 0..3).prop_map(Awaited::Lanes)
    ];
    let on_if = (expr(), steps.clone(), option::of(steps.clone())).prop_map(|(when, steps, other)| {
        ("if", Kind::Choose { arms: vec![Branch { label: "then".into(), when, steps }], other })
    });
    let on_switch = (vec(arm(steps.clone()), 1..4), option::of(steps.clone()))
        .prop_map(|(arms, other)| ("switch", Kind::Choose { arms, other }));
    let parallel =
        (some.clone(), on_failure(), awaited, any::<bool>()).prop_map(|(lanes, on_failure, wait_for, detach)| {
            let detach = detach && !matches!(wait_for, Awaited::All);
            ("parallel", Kind::Parallel { lanes, on_failure, wait_for, detach })
        });
    let group = (some, on_failure()).prop_map(|(steps, on_failure)| ("steps", Kind::Group { steps, on_failure }));
    let limit = prop_oneof![Just(OnLimit::Fail), Just(OnLimit::Truncate)];
    let for_each = (expr(), steps.clone(), 1u32..4, 90u32..110, limit, on_failure()).prop_map(
        |(items, steps, at_once, max, on_limit, on_failure)| {
            ("for_each", Kind::ForEach { items, steps, at_once, max, on_limit, on_failure })
        },
    );
    let repeat = (option::of(expr()), any::<bool>(), 0u64..2_000, steps, 90u32..110).prop_map(
        |(test, is_while, delay_ms, steps, max)| {
            let on_limit = if test.is_none() { OnLimit::Complete } else { OnLimit::Fail };
            let (while_, until) = if is_while { (test, None) } else { (None, test) };
            ("repeat", Kind::Repeat { while_, until, delay_ms, steps, max, on_limit })
        },
    );
    prop_oneof![on_if, on_switch, parallel, group, for_each, repeat].boxed()
}

fn on_error() -> BoxedStrategy<StepError> {
    prop_oneof![
        3 => Just(StepError::Fail),
        1 => Just(StepError::Continue),
        1 => template().prop_map(StepError::Value),
        1 => reference().prop_map(StepError::Goto),
    ]
    .boxed()
}

type Policies = (
    (Option<String>, Option<Expr>, Option<Vec<Name>>, bool, Option<String>, Option<(String, String)>),
    (Option<Retry>, Option<u64>, StepError, Option<Budget>, bool),
);

fn policies() -> BoxedStrategy<Policies> {
    let rare = |share: f64| option::weighted(share, Just(()));
    (
        (
            option::of("[a-z]{1,3}"),
            option::weighted(0.2, expr()),
            option::weighted(0.1, vec(reference(), 0..3)),
            rare(0.1).prop_map(|it| it.is_some()),
            option::weighted(0.1, name()),
            option::weighted(0.2, (name(), text())),
        ),
        (
            option::weighted(0.2, retry()),
            option::weighted(0.2, 1u64..100_000),
            on_error(),
            option::weighted(0.2, budget()),
            rare(0.1).prop_map(|it| it.is_some()),
        ),
    )
        .boxed()
}

/// A step with such policies as have an effect on its kind.
fn with_policies((word, kind): (&'static str, Kind), (who, what): Policies, undo: Option<Step>) -> Step {
    let keys = KINDS.iter().find(|keys| keys.word == word).unwrap();
    let may = |key: &str| !keys.without.contains(&key);
    let (id, when, needs, run_if_always, output_key, called) = who;
    let (name, description) = called.unzip();
    let (retry, timeout_ms, on_error, budget, on_missing_null) = what;
    Step {
        id,
        name,
        description,
        when,
        needs,
        run_if_always,
        output_key,
        retry: retry.filter(|_| may("retry")).unwrap_or_default(),
        timeout_ms: timeout_ms.filter(|_| may("timeout")),
        on_error: if may("on_error") { on_error } else { StepError::Fail },
        budget: budget.filter(|_| may("budget")).unwrap_or_default(),
        on_missing_null,
        undo: undo.filter(|_| may("undo")).map(Box::new),
        ..Step::new(word, kind, Span::default())
    }
}

fn step() -> BoxedStrategy<Step> {
    let undo = (call(), policies()).prop_map(|(kind, policies)| with_policies(kind, policies, None)).boxed();
    let undone = undo.clone();
    let leaf = (leaf(), policies(), option::weighted(0.1, undo))
        .prop_map(|(kind, policies, undo)| with_policies(kind, policies, undo));
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (block(inner), policies(), option::weighted(0.1, undone.clone()))
            .prop_map(|(kind, policies, undo)| with_policies(kind, policies, undo))
    })
    .boxed()
}

fn agent() -> BoxedStrategy<Agent> {
    let parts = (vec(name(), 0..3), prompt(), vec(name(), 0..3), option::of(schema()), option::of(schema()));
    (parts, 28u32..32, budget(), option::of(1u32..9), option::of(0.0f64..2.0), any::<bool>(), option::of(text()))
        .prop_map(
            |(
                (models, instructions, tools, input, output),
                max_turns,
                budget,
                max_tokens,
                temperature,
                result_mark,
                description,
            )| {
                Agent {
                    description,
                    models,
                    instructions,
                    tools,
                    input,
                    output,
                    max_turns,
                    output_retries: max_turns - 28,
                    budget,
                    max_tokens,
                    temperature,
                    result_mark,
                    result_limit: max_tokens.map(|tokens| 1_024 * u64::from(tokens)),
                    on_cut: if max_turns > 29 { OnCut::Fail } else { OnCut::Continue },
                    span: Span::default(),
                }
            },
        )
        .boxed()
}

fn trigger() -> BoxedStrategy<Trigger> {
    let ons = [
        TriggerOn::Manual,
        TriggerOn::At("2027-01-01T09:00:00Z".into()),
        TriggerOn::Cron("0 9 * * MON-FRI".into()),
        TriggerOn::Every { ms: 61_001 },
        TriggerOn::Calendar("daily@09:00".into()),
        TriggerOn::Calendar("weekly@1".into()),
        TriggerOn::Calendar("weekly@1,3@18:30".into()),
        TriggerOn::Continuous { delay_ms: 1_000 },
        TriggerOn::Continuous { delay_ms: 1_500 },
        TriggerOn::Webhook { id: "a: b".into(), secret: None, dedupe: None },
        TriggerOn::Webhook { id: "a".into(), secret: Some("${KEY}".into()), dedupe: None },
        TriggerOn::Webhook { id: "b".into(), secret: None, dedupe: Some("event.data.order.id".into()) },
        TriggerOn::Event("order.paid".into()),
    ];
    (proptest::sample::select(ons.to_vec()), value(), any::<bool>())
        .prop_map(|(on, input, more)| {
            let is_clock = matches!(on, TriggerOn::Cron(_) | TriggerOn::Calendar(_)) && more;
            let is_sent = matches!(on, TriggerOn::Webhook { .. } | TriggerOn::Event(_)) && more;
            let is_signed = matches!(on, TriggerOn::Webhook { secret: Some(_), .. });
            Trigger {
                on,
                timezone: is_clock.then(|| "Europe/Paris".into()),
                overlap: match (is_sent, is_clock) {
                    (true, _) => Overlap::CancelRunning,
                    (false, true) => Overlap::Queue,
                    (false, false) => Overlap::Skip,
                },
                catch_up: if is_clock { CatchUp::All } else { CatchUp::One },
                input,
                filter: match (is_sent, is_signed) {
                    (true, false) => json!("event.data.a > 1"),
                    (true, true) => json!({ "a.b[0]": "{{ x }}", "['c d']": { "not": { "in": [1, null] } } }),
                    (false, _) => Value::Null,
                },
                pace: match (is_sent, is_signed) {
                    (true, false) => Pace { debounce_ms: Some(1_500), ..Pace::default() },
                    (true, true) => Pace {
                        batch: Some(BatchOf { size: 3, within_ms: 60_000 }),
                        throttle: Some(Throttle { max: 10, per_ms: 3_600_000 }),
                        ..Pace::default()
                    },
                    (false, _) => Pace::default(),
                },
            }
        })
        .boxed()
}

fn workflow() -> BoxedStrategy<Workflow> {
    let exits = proptest::sample::subsequence(
        vec![ExitWhen::Always, ExitWhen::Success, ExitWhen::Failure, ExitWhen::Cancel],
        0..=4,
    );
    let head = (name(), text(), option::of(name()), option::of(name()), any::<bool>());
    let schemas = (option::of(schema()), option::of(template()), option::of(schema()));
    let agents = proptest::collection::btree_map(name(), agent(), 0..3);
    let limits = (budget(), option::of(1u64..100_000), prop_oneof![Just(DEFAULT_INLINE_BYTES), Just(7u64)]);
    let steps = (vec(step(), 1..4), exits, vec(step(), 1..2));
    (head, schemas, agents, limits, vec(trigger(), 0..3), steps)
        .prop_map(|(head, (input_schema, output, output_schema), agents, limits, triggers, (steps, exits, on_exit))| {
            let (name, description, alias, branch, more) = head;
            let (mut budget, timeout_ms, inline_bytes) = limits;
            budget.model_calls = budget.model_calls.or(Some(DEFAULT_MODEL_CALLS));
            let large_values = if more { LargeValues::File } else { LargeValues::Blob };
            Workflow {
                name,
                description,
                alias,
                branch,
                steps,
                exits: exits.into_iter().map(|when| (when, on_exit.clone())).collect(),
                input_schema,
                output,
                output_schema,
                agents: agents.into_iter().collect(),
                tools: [
                    ("mcp:shop/*".to_owned(), ToolRule { effect: Some(Effect::Read), ..ToolRule::default() }),
                    ("pay".to_owned(), ToolRule { approve: Some(true), people: insistent(), ..ToolRule::default() }),
                ]
                .into(),
                limits: Limits {
                    budget,
                    timeout_ms,
                    inline_bytes,
                    large_values,
                    shutdown_timeout_ms: timeout_ms,
                    max_recoveries: if more { 9 } else { 5 },
                },
                on_failure: if more { RunFailure::Undo } else { RunFailure::Fail },
                on_tool_drift: if more { OnToolDrift::Fail } else { OnToolDrift::Warn },
                triggers,
                notify: Notify {
                    on_complete: more,
                    on_failure: more,
                    on_waiting: more,
                    webhook: more.then(|| "https://example.org/a?b=1".to_owned()),
                    email: if more { vec!["a@example.org".to_owned()] } else { Vec::new() },
                    ..Notify::default()
                },
                tags: [("team".to_owned(), "sales".to_owned())].into_iter().filter(|_| more).collect(),
                ..Workflow::default()
            }
        })
        .boxed()
}

fn plan(workflow: Workflow) -> String {
    let (plan, _) = build::build(workflow);
    serde_json::to_string_pretty(&plan.unwrap()).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_survives(mut workflow in workflow()) {
        normal::workflow(&mut workflow);
        let text = super::native(&workflow);
        let source = Source { name: "other.yaml".into(), text: text.clone() };
        let read = Reading::new(&source, &Child, &Options::default()).workflow(&source, &Options::default());
        prop_assert!(read.problems.is_empty(), "{}\n{text}", source.render(&read.problems, false));
        let read = read.workflow.unwrap();
        prop_assert_eq!(&super::native(&read), &text);
        let (before, after) = (plan(workflow), plan(read));
        let difference = before.lines().zip(after.lines()).find(|(before, after)| before != after);
        prop_assert!(before == after, "{difference:?}\n{text}");
    }
}
