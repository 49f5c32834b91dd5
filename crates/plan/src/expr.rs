//! The one expression language: conditions, and what stands between `{{` and `}}`.
//!
//! An expression is data (its source text) that compiles itself on first use. It asks [`Names`] for the few roots it
//! reads, so evaluating costs what the expression touches, not the size of the run.
//!
//! The way of an expression: [`rewrite`] makes the text readable for minijinja's parser, [`node`] resolves names and
//! finds mistakes, [`eval`] works it out, [`vocabulary`] has the filters and tests.

mod eval;
mod node;
mod rewrite;
mod vocabulary;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::path::Segment;
use crate::{Problem, Span};

pub(crate) use eval::{Scope, holds, kind, text_of, truth};
pub(crate) use node::{Comparison, Lowering, Node, Reference};
pub(crate) use rewrite::{Flaw, Rewritten, sole_expression, text as rewrite_text};

/// A name that an expression can read.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Root {
    Input,
    Trigger,
    Previous,
    /// What all steps before gave, in written order.
    Earlier,
    Item,
    Index,
    Loop,
    Vars,
    Run,
    Workflow,
    Now,
    /// The event that a wait's filter looks at.
    Event,
    Step {
        key: String,
        part: Part,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Part {
    Output,
    Outputs,
    Status,
    Error,
}

/// What an expression sees. The engine implements it over a run, the checker over schemas, tests over a map.
pub trait Names {
    fn get(&self, root: &Root) -> Result<Cow<'_, Value>, EvalError>;
    /// One variable, where that is cheaper than to put all of them together; none if it is not set.
    fn variable(&self, _name: &str) -> Option<Cow<'_, Value>> {
        None
    }
    /// Who reads, for people: "step `write`".
    fn reader(&self) -> Option<String> {
        None
    }
    /// `on_missing: null` of the step at hand.
    fn missing_is_null(&self) -> bool {
        false
    }
    /// Larger values stand in text as a reference where the format of the workflow promises one.
    fn inline_bytes(&self) -> u64 {
        crate::DEFAULT_INLINE_BYTES
    }
    /// Such a reference was given.
    fn referred(&self, _output_ref: &Value) {}
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// Not an error: the value with this hash must be loaded first.
    #[error("value {0} is not loaded")]
    Load(String),
    /// A name or field that is not there.
    #[error("{0}")]
    Reference(String),
    /// Not the type that was asked for.
    #[error("{0}")]
    Type(String),
    /// More than one value may have.
    #[error("{0}")]
    Limit(String),
}

#[derive(Debug, Clone)]
struct Compiled {
    node: Node,
    refs: Vec<Reference>,
    places: Vec<Range<usize>>,
    excused: Vec<bool>,
}

#[derive(Clone)]
pub struct Expr {
    source: String,
    span: Span,
    /// Shared, so that plans stay small and clones cheap.
    compiled: OnceLock<Arc<Result<Compiled, Flaw>>>,
}

impl Expr {
    /// Takes the text as it is; it compiles on first use. For sources that a check has seen before.
    pub fn new(source: impl Into<String>, span: Span) -> Expr {
        Expr { source: source.into(), span, compiled: OnceLock::new() }
    }

    /// Compiles now; the problem has the place of the mistake inside `span`.
    pub fn parse(source: impl Into<String>, span: Span) -> Result<Expr, Problem> {
        let expr = Expr::new(source, span);
        match expr.compiled() {
            Ok(_) => Ok(expr),
            Err(flaw) => Err(problem(flaw, &expr.source, span)),
        }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    pub fn span(&self) -> Span {
        self.span
    }

    /// The roots it reads, each with the path below it as far as it is constant.
    pub fn refs(&self) -> &[(Root, Vec<Segment>)] {
        self.compiled().map_or(&[], |compiled| &compiled.refs)
    }

    /// Where the reference with this place in [`Expr::refs`] stands.
    pub fn ref_span(&self, index: usize) -> Span {
        let place = self.compiled().ok().and_then(|compiled| compiled.places.get(index));
        place.map_or(self.span, |place| narrowed(self.span, self.source.len(), place))
    }

    /// May the reference with this place in [`Expr::refs`] be missing?
    pub fn is_excused(&self, index: usize) -> bool {
        self.compiled().ok().and_then(|compiled| compiled.excused.get(index).copied()).unwrap_or_default()
    }

    pub fn eval(&self, names: &dyn Names) -> Result<Value, EvalError> {
        let node = self.node()?;
        let value = match node {
            Node::Path(root, path) => return Scope::new(names).path(root, path).map(Cow::into_owned),
            node => Scope::new(names).eval(node).map(Cow::into_owned),
        };
        value.map_err(|error| error.within(&self.source))
    }

    /// As a condition: the result must be a boolean (or the text true/yes/1, false/no/0).
    pub fn test(&self, names: &dyn Names) -> Result<bool, EvalError> {
        Scope::new(names).test(self.node()?).map_err(|error| error.within(&self.source))
    }

    fn node(&self) -> Result<&Node, EvalError> {
        match self.compiled() {
            Ok(compiled) => Ok(&compiled.node),
            Err(flaw) => Err(EvalError::Type(format!("`{}`: {}", self.source, flaw.message))),
        }
    }

    fn compiled(&self) -> Result<&Compiled, &Flaw> {
        self.compiled.get_or_init(|| Arc::new(compile(&self.source))).as_ref().as_ref()
    }
}

impl EvalError {
    /// The error with the expression it comes from. A value to load passes through untouched.
    pub(crate) fn within(self, expression: &str) -> EvalError {
        match self {
            EvalError::Load(hash) => EvalError::Load(hash),
            EvalError::Reference(message) => EvalError::Reference(format!("{message} (in `{expression}`)")),
            EvalError::Type(message) => EvalError::Type(format!("{message} (in `{expression}`)")),
            EvalError::Limit(message) => EvalError::Limit(format!("{message} (in `{expression}`)")),
        }
    }
}

fn compile(source: &str) -> Result<Compiled, Flaw> {
    if source.trim().is_empty() {
        return Err(Flaw::new(0..source.len(), "an expression must not be empty"));
    }
    let rewritten = rewrite::condition(source)?;
    let tree =
        minijinja::machinery::parse_expr(&rewritten.text).map_err(|error| syntax_flaw(&error, &rewritten, source))?;
    let mut lowering = Lowering::new(&rewritten, source);
    let node = lowering.expr(&tree)?;
    Ok(Compiled { node, refs: lowering.refs, places: lowering.places, excused: lowering.excused })
}

/// The parser's complaint, at its place in the source.
pub(crate) fn syntax_flaw(error: &minijinja::Error, rewritten: &Rewritten, source: &str) -> Flaw {
    let place = error.range().map_or(0..source.len(), |range| rewritten.origin(range));
    Flaw::new(place, error.detail().map_or_else(|| error.to_string(), str::to_owned))
}

pub(crate) fn problem(flaw: &Flaw, source: &str, span: Span) -> Problem {
    let problem = Problem::error(narrowed(span, source.len(), &flaw.place), flaw.message.clone());
    match &flaw.help {
        Some(help) => problem.help(help.clone()),
        None => problem,
    }
}

/// The part of `span` that `place` means, where the span holds the source as it is, or in quotes.
pub(crate) fn narrowed(span: Span, source_length: usize, place: &Range<usize>) -> Span {
    let (start, length) = (span.start as usize, span.end.saturating_sub(span.start) as usize);
    let offset = match length.checked_sub(source_length) {
        Some(0) => 0,
        Some(2) => 1,
        _ => return span,
    };
    if place.is_empty() || place.end > source_length {
        return span;
    }
    Span::new(start + offset + place.start, start + offset + place.end)
}

impl Part {
    fn named(name: &str) -> Option<Part> {
        match name {
            "output" => Some(Part::Output),
            "outputs" => Some(Part::Outputs),
            "status" => Some(Part::Status),
            "error" => Some(Part::Error),
            _ => None,
        }
    }
}

impl std::fmt::Display for Part {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Part::Output => "output",
            Part::Outputs => "outputs",
            Part::Status => "status",
            Part::Error => "error",
        })
    }
}

/// As it is written in an expression.
impl std::fmt::Display for Root {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Root::Input => "input",
            Root::Trigger => "trigger",
            Root::Previous => "previous",
            Root::Earlier => "earlier",
            Root::Item => "item",
            Root::Index => "index",
            Root::Loop => "loop",
            Root::Vars => "vars",
            Root::Run => "run",
            Root::Workflow => "workflow",
            Root::Now => "now",
            Root::Event => "event",
            Root::Step { key, part } => {
                let step = crate::path::show(&[Segment::Key("steps".to_owned()), Segment::Key(key.clone())]);
                return write!(f, "{step}.{part}");
            }
        })
    }
}

impl std::fmt::Debug for Expr {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Expr({:?})", self.source)
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.source == other.source
    }
}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Expr, D::Error> {
        Ok(Expr::new(String::deserialize(d)?, Span::default()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(crate) mod tests {
    use super::*;
    use serde_json::json;

    /// Names over one JSON value of the form of an expression's own view; `{"load": HASH}` stands for a value to load.
    pub(crate) struct World {
        pub value: Value,
        pub null: bool,
    }

    impl Names for World {
        fn get(&self, root: &Root) -> Result<Cow<'_, Value>, EvalError> {
            let path = crate::path::parse(&root.to_string()).unwrap();
            let value = crate::path::get(&self.value, &path)
                .map_err(|_| EvalError::Reference(format!("{root} is not there")))?;
            match value.get("load") {
                Some(hash) => Err(EvalError::Load(hash.as_str().unwrap().to_owned())),
                None => Ok(Cow::Borrowed(value)),
            }
        }

        fn missing_is_null(&self) -> bool {
            self.null
        }
    }

    pub(crate) fn world() -> World {
        World {
            null: false,
            value: json!({
                "input": {"q": "it's \"quoted\"", "n": 3, "größe": 7, "odd key": 1, "list": [3, 1, 2], "empty": [],
                          "big": 9007199254740993i64, "price": 10.0, "yes": "Yes", "brace": "{{ input.n }}", "t": true,
                          "none": null, "people": [{"name": "Ann", "age": 30}, {"name": "Bob", "age": 20}]},
                "item": {"name": "x"},
                "index": 2,
                "vars": {"count": 5},
                "run": {"id": "r1"},
                "loop": {"count": 4},
                "now": "2025-01-01T00:00:00.000Z",
                "steps": {
                    "fetch": {"output": {"price": 5, "shop": "s"}, "status": "completed", "error": null},
                    "my-step": {"output": {"x": 1}},
                    "odd id": {"output": 9},
                    "skipped": {"output": null},
                    "word": {"output": " No "},
                    "block": {"outputs": {"a-1": {"output": "first"}, "b": {"output": "second"}}},
                    "large": {"output": {"load": "abc"}}
                }
            }),
        }
    }

    fn eval(source: &str) -> Result<Value, EvalError> {
        Expr::parse(source, Span::default()).unwrap_or_else(|p| panic!("{source}: {p:?}")).eval(&world())
    }

    #[test]
    fn values() {
        for (source, expected) in [
            ("input.n", json!(3)),
            ("input.big", json!(9007199254740993i64)),
            ("input.price", json!(10.0)),
            ("input['odd key']", json!(1)),
            ("input.größe", json!(7)),
            ("input.list[0]", json!(3)),
            ("input.list[-1]", json!(2)),
            ("input.list.1", json!(1)),
            ("input.list[index]", json!(2)),
            ("input.list[1:]", json!([1, 2])),
            ("input.list[::-1]", json!([2, 1, 3])),
            ("input.q[:2]", json!("it")),
            ("steps.my-step.output.x", json!(1)),
            ("steps.my-step.output.x - 1", json!(0)),
            ("steps.my-step.output.x-1", json!(0)),
            ("steps['my-step'].output", json!({"x": 1})),
            ("steps['odd id'].output", json!(9)),
            ("steps.skipped.output.a.b[3]", json!(null)),
            ("steps.fetch.error.message", json!(null)),
            ("steps.block.outputs.a-1.output", json!("first")),
            ("steps.block.outputs[1].output", json!("second")),
            ("steps.block.outputs.0.output", json!("first")),
            ("input.n + 1", json!(4)),
            ("input.n / 2", json!(1.5)),
            ("-7 // 2", json!(-4)),
            ("-7 % 3", json!(2)),
            ("7 // -2", json!(-4)),
            ("7 % -3", json!(-2)),
            ("2 ** 10", json!(1024)),
            ("input.big + 1", json!(9007199254740994i64)),
            ("input.n ~ 'x' ~ input.list", json!("3x[3,1,2]")),
            ("[1] + input.list", json!([1, 3, 1, 2])),
            ("{'a': input.n, 'b': [null, true]}", json!({"a": 3, "b": [null, true]})),
            ("input.list | length", json!(3)),
            ("len(input.list)", json!(3)),
            ("input.list | sort | first", json!(1)),
            ("input.list | sum", json!(6)),
            ("input.list | max", json!(3)),
            ("max(input.n, 8)", json!(8)),
            ("input.people | map(attribute='name') | join(', ')", json!("Ann, Bob")),
            ("input.people | selectattr('age', 'gt', 25) | map(attribute='name') | list", json!(["Ann"])),
            ("input.list | select('gt', 1) | list", json!([3, 2])),
            ("'A-b' | lower | upper", json!("A-B")),
            ("' x '.strip()", json!("x")),
            ("'a,b'.split(',')", json!(["a", "b"])),
            ("input.list | tojson", json!("[3,1,2]")),
            ("'<a>' | tojson", json!("\"<a>\"")),
            ("3.7 | int", json!(3)),
            ("3.456 | round(1)", json!(3.5)),
            ("steps.fetch.output.x | default('none')", json!("none")),
            ("steps.fetch.output.x.y[2].z | default(4)", json!(4)),
            ("steps.skipped.output.x | default('none')", json!("none")),
            ("input.n | default(1)", json!(3)),
            ("input.empty | default('e', true)", json!("e")),
            ("input.empty | first | default('e')", json!("e")),
            ("'a' if input.n > 2 else 'b'", json!("a")),
            ("input.none or 'x'", json!("x")),
            ("range(3)", json!([0, 1, 2])),
            ("range(1, 6, 2)", json!([1, 3, 5])),
            ("steps.fetch.output | items", json!([["price", 5], ["shop", "s"]])),
            ("steps.fetch.output.keys()", json!(["price", "shop"])),
            ("now", json!("2025-01-01T00:00:00.000Z")),
        ] {
            assert_eq!(eval(source), Ok(expected), "{source}");
        }
    }

    #[test]
    fn conditions() {
        let quoted = r#"{{ input.q }} == 'it\'s "quoted"'"#;
        let quoted_text = r#"'{{ input.q }}' == 'it\'s "quoted"'"#;
        for (source, expected) in [
            (quoted, true),
            (quoted_text, true),
            ("'{{input.n}}' == '3'", true),
            ("'n={{ input.n }}!' == 'n=3!'", true),
            ("{{ input.t }} and {{ input.n }} > 2", true),
            ("{{ input.brace }} == 3", false),
            ("'{{ input.brace }}' == '3'", false),
            ("input.n == 3.0", true),
            ("input.n == '3'", false),
            ("input.none == null", true),
            ("input.none == none", true),
            ("input.none is none", true),
            ("input.n > 2 and input.n < 4", true),
            ("1 < input.n < 3", false),
            ("input.big > 9007199254740992", true),
            ("not (input.n > 2)", false),
            ("input.n in [1, 2, 3]", true),
            ("input.n not in input.list", false),
            ("'quo' in input.q", true),
            ("'price' in steps.fetch.output", true),
            ("input.q.startswith('it')", true),
            ("input.q is startingwith('it')", true),
            ("input.q | contains('it')", true),
            ("input.list | any('gt', 2)", true),
            ("input.list | any('eq', 3.0)", true),
            ("input.list | any('ne', 3)", true),
            ("input.empty | any('ne', 3)", false),
            ("input.people | any('eq', {'age': 20, 'name': 'Bob'})", true),
            ("['spam mail'] | any('containing', 'spam')", true),
            ("input.empty == []", true),
            ("input.empty is empty", true),
            ("steps.fetch.output.x is defined", false),
            ("steps.fetch.output.price is defined", true),
            ("steps.skipped.output.x is defined", false),
            ("steps.word.output", false),
            ("not steps.word.output", true),
            ("steps.word.output or input.yes", true),
            ("input.yes", true),
            ("'1'", true),
            ("steps.fetch.status == 'completed'", true),
            ("input.list | length > 2", true),
            ("input.n is gt(2)", true),
        ] {
            let expr = Expr::parse(source, Span::default()).unwrap_or_else(|p| panic!("{source}: {p:?}"));
            assert_eq!(expr.test(&world()), Ok(expected), "{source}");
        }
    }

    #[test]
    fn missing_parts_are_named() {
        for (source, expected) in [
            ("steps.fetch.output.prise", "steps.fetch.output has no field `prise`; it has: price, shop"),
            ("steps.fetch.output.prise > 3", "steps.fetch.output has no field `prise`; it has: price, shop (in `"),
            ("input.list[5]", "input.list has no item `[5]`; it is a list of 3"),
            ("input.n.x", "input.n has no field `x`; it is a number"),
            ("input.none.x", "input.none has no field `x`; it is null"),
            ("input.people[0].nme", "input.people[0] has no field `nme`; it has: name, age"),
            ("steps.block.outputs[7]", "steps.block.outputs has no item `[7]`; it is a block of 2"),
            ("input.people[index]", "input.people has no item `[2]`; it is a list of 2"),
            ("input.empty | first", "first of a list that is empty"),
        ] {
            let Err(EvalError::Reference(message)) = eval(source) else { panic!("{source}: {:?}", eval(source)) };
            assert!(message.starts_with(expected), "{source}: {message}");
        }
        let world = World { null: true, ..world() };
        let expr = Expr::parse("steps.fetch.output.prise", Span::default()).unwrap();
        assert_eq!(expr.eval(&world), Ok(Value::Null));
    }

    #[test]
    fn types_are_kept_apart() {
        for (source, expected) in [
            ("input.n < 'a'", "cannot compare a number 3 < a text \"a\" (in `input.n < 'a'`)"),
            ("input.none > 3", "cannot compare null > a number 3"),
            ("input.list > 3", "cannot compare a list [3,1,2] > a number 3"),
            ("input.n", "a condition must be true or false, got a number 3"),
            ("input.q", "a condition must be true or false, got a text"),
            ("input.none", "a condition must be true or false, got null"),
            ("not input.list", "a condition must be true or false, got a list"),
            ("input.n and true", "a condition must be true or false, got a number"),
            ("input.n + 'a' == 1", "cannot calculate a number 3 + a text"),
            ("1 / 0 == 1", "cannot calculate 1 / 0"),
            ("1 // 0 == 1", "cannot calculate 1 // 0"),
            ("9223372036854775807 ** 9 == 1", "cannot calculate"),
            ("'a' in 3", "cannot look for"),
            ("[5, 'x'] | any('gt', 3)", "cannot compare a text \"x\" > a number 3"),
            ("input.n | any('gt', 3)", "any needs a list"),
            ("input.list | any('greater', 3)", "`greater` is none"),
            ("input.people | selectattr('age', 'gt', 'x') | list == []", "selectattr: cannot order"),
            ("range(10000000) == 1", "steps of work"),
            ("range(200000) | length > 1", "steps of work"),
            ("range(90000) | length + range(90000) | length > 1", "steps of work"),
            ("input.q | indent(100000000) == ''", "would make more than"),
        ] {
            let expr = Expr::parse(source, Span::default()).unwrap_or_else(|p| panic!("{source}: {p:?}"));
            let Err(EvalError::Type(message)) = expr.test(&world()) else {
                panic!("{source}: {:?}", expr.test(&world()))
            };
            assert!(message.starts_with(expected) || message.contains(expected), "{source}: {message}");
        }
    }

    #[test]
    fn a_value_to_load_passes_through() {
        for source in [
            "steps.large.output",
            "steps.large.output.x > 3",
            "steps.large.output.x | default(1)",
            "steps.large.output.x is defined",
        ] {
            assert_eq!(eval(source), Err(EvalError::Load("abc".to_owned())), "{source}");
        }
    }

    #[test]
    fn mistakes_are_problems_in_their_place() {
        for (source, marked, message, help) in [
            ("stpes.x > 1", "stpes.x", "unknown name `stpes`", "did you mean `steps`?"),
            (
                "draft.output.price > 1",
                "draft.output.price",
                "unknown name `draft`",
                "did you mean `steps.draft.output`?",
            ),
            ("inptu.output", "inptu.output", "unknown name `inptu`", "did you mean `steps.inptu.output`?"),
            ("input.n > bananas", "bananas", "unknown name `bananas`", "names are: input"),
            ("steps", "steps", "needs the id", "steps['ID']"),
            ("steps[input.n].output", "input.n", "constant id", "steps.ID.output"),
            ("steps.a", "steps.a", "needs the part", "steps.a.output"),
            ("{{ steps.my-step.outptu }} == 1", "steps.my-step.outptu", "no part `outptu`", "did you mean `output`?"),
            ("steps.a.price", "steps.a.price", "no part `price`", "steps.a.output.price"),
            ("input.x | lenght", "| lenght", "unknown filter `lenght`", "did you mean `length`?"),
            ("input.x is difined", "input.x is difined", "unknown test `difined`", "did you mean `defined`?"),
            ("open('x')", "open('x')", "unknown function `open`", "known are"),
            ("input.x.format(1)", "input.x.format(1)", "unknown method `format`", "known are"),
        ] {
            let span = Span::new(100, 100 + source.len());
            let problem = Expr::parse(source, span).unwrap_err();
            assert!(problem.message.contains(message), "{source}: {}", problem.message);
            assert!(problem.help.as_deref().unwrap_or("").contains(help), "{source}: {:?}", problem.help);
            let place = problem.span.start as usize - 100..problem.span.end as usize - 100;
            assert!(
                source[place.clone()].contains(marked) || marked.contains(&source[place.clone()]),
                "{source}: {place:?}"
            );
        }
        for source in
            ["", "  ", "input.", "1 +", "(input.n", "input.n ==", "'open", "{{ input.n", "input.n input.n", "a = 1"]
        {
            assert!(Expr::parse(source, Span::default()).is_err(), "{source}");
        }
        for deep in [
            "(".repeat(5_000),
            "not ".repeat(1_900),
            "1+".repeat(3_900) + "1",
            "[".repeat(8_000),
            "-".repeat(8_000) + "1",
        ] {
            assert!(Expr::parse(deep, Span::default()).is_err());
        }
    }

    #[test]
    fn references_are_known_before_a_run() {
        for (source, expected) in [
            ("steps.a.output.x[0].y > input.n", "steps.a.output x[0].y; input n"),
            ("steps['a b'].status == 'completed'", "steps['a b'].status "),
            ("steps.a-b.output.list[input.n].x", "steps.a-b.output list; input n"),
            ("item.name in vars.names", "item name; vars names"),
            ("'{{ steps.x.error }}' == ''", "steps.x.error "),
            ("1 + 1 == 2", ""),
        ] {
            let expr = Expr::parse(source, Span::default()).unwrap();
            let refs = expr.refs().iter().map(|(root, path)| format!("{root} {}", crate::path::show(path)));
            assert_eq!(refs.collect::<Vec<_>>().join("; "), expected, "{source}");
        }
        let source = "input.a == steps.b-c.output.d";
        let expr = Expr::parse(source, Span::new(10, 10 + source.len())).unwrap();
        assert_eq!(expr.ref_span(1), Span::new(10 + 11, 10 + source.len()));
        let quoted = Expr::parse(source, Span::new(10, 12 + source.len())).unwrap();
        assert_eq!(quoted.ref_span(0), Span::new(11, 18));
    }

    /// Words that an author's mistakes are made of, put together by a fixed sequence of numbers.
    #[test]
    fn any_text_is_read_without_a_panic() {
        const WORDS: [&str; 30] = [
            "{{",
            "}}",
            "{%",
            "%}",
            "{#",
            "#}",
            "'",
            "\"",
            "steps.",
            "a-b",
            ".output",
            "input",
            "[",
            "]",
            "(",
            ")",
            "|",
            "é",
            " ",
            "-",
            "1",
            ".",
            "==",
            "default",
            "for x in ",
            "if ",
            "endif",
            "raw",
            "\\",
            "~",
        ];
        let mut number: u64 = 7;
        for _ in 0..5_000 {
            let mut source = String::new();
            for _ in 0..10 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                source.push_str(WORDS[(number >> 33) as usize % WORDS.len()]);
            }
            let span = Span::new(0, source.len());
            if let Ok(expr) = Expr::parse(source.as_str(), span) {
                let _ = expr.eval(&world());
            }
            let text = crate::Source { name: "f".to_owned(), text: source.clone() };
            match crate::Template::text(&source, span) {
                Ok(template) => drop(template.render(&world())),
                Err(problem) => assert!(!text.render(&[problem], false).is_empty()),
            }
            let _ = crate::path::parse(&source);
        }
    }

    #[test]
    fn it_is_stored_as_its_source() {
        let expr = Expr::parse("input.n > 2", Span::new(3, 9)).unwrap();
        let stored = serde_json::to_string(&expr).unwrap();
        assert_eq!(stored, "\"input.n > 2\"");
        let back: Expr = serde_json::from_str(&stored).unwrap();
        assert_eq!(back, expr);
        assert_eq!(back.test(&world()), Ok(true));
        let broken: Expr = serde_json::from_str("\"input.n >\"").unwrap();
        assert!(matches!(broken.test(&world()), Err(EvalError::Type(_))));
    }
}
