//! One step: which kind it is, which keys it may have, and the policies around what it does.
//!
//! A step is a map with exactly one kind key (`agent`, `tool`, `if`, …). On any step: `id`, `name` and `description` (for
//! people), `needs` (one id or a list), `run_if: always`, `when`, `retry`, `timeout`, `on_error`, `budget`, `undo` (a step), `on_missing: null`,
//! `output_key` (children of a parallel). A key stands only where it has an effect.

use relais_plan::build::positional;
use relais_plan::problem::nearest;
use relais_plan::step::{Kind, Step};
use relais_plan::{Problem, Span};
use serde_json::Value;

use super::keys::{self, COMMON, KINDS, KindKeys};
use crate::fields::{Field, Fields, near_key, unknown_key};
use crate::reader::Reader;
use crate::yaml::{Data, Node};

impl Reader<'_> {
    /// A list of steps, or one step alone.
    pub(crate) fn block(&mut self, field: Field<'_>, prefix: &str, first: usize) -> Vec<Step> {
        match &field.node.data {
            Data::List(items) => self.step_list(items, prefix, first),
            Data::Map(_) => vec![self.step(field.node, &positional(prefix, first))],
            Data::Scalar(_) => {
                self.wrong(field, "a step or a list of steps", &format!("`{}: [{{ agent: writer }}]`", field.key));
                Vec::new()
            }
        }
    }

    pub(crate) fn step_list(&mut self, items: &[Node], prefix: &str, first: usize) -> Vec<Step> {
        let numbered = items.iter().enumerate();
        numbered.map(|(offset, node)| self.step(node, &positional(prefix, first + offset))).collect()
    }

    pub(crate) fn step(&mut self, node: &Node, position: &str) -> Step {
        let Data::Map(entries) = &node.data else {
            let problem = Problem::error(node.span, format!("a step is a map, not {}", node.describe()));
            self.problems.push(problem.help("for example `- { id: write, agent: writer, prompt: Hello }`"));
            return nothing(node.span);
        };
        let fields = Fields::new(node.span, entries);
        let id = fields.get("id").and_then(|field| self.name(field));
        let Some((kind, kind_field)) = self.kind_of(&fields) else {
            return Step { id, ..nothing(node.span) };
        };
        self.check_keys(kind, &fields);
        let span = fields.get("id").map_or(kind_field.key_span, |field| field.node.span);
        let at = At { fields: &fields, field: kind_field, position, key: id.as_deref().unwrap_or(position), span };
        let kind_of_step = self.kind(&at);
        let mut step = Step { id, ..Step::new(kind.word, kind_of_step, span) };
        self.policies(&mut step, &fields, kind, position);
        step
    }

    /// The one key that says what the step does.
    fn kind_of<'n>(&mut self, fields: &Fields<'n>) -> Option<(&'static KindKeys, Field<'n>)> {
        let mut found: Vec<(&KindKeys, Field<'n>)> = Vec::new();
        for field in fields.all() {
            found.extend(KINDS.iter().find(|kind| kind.word == field.key).map(|kind| (kind, field)));
        }
        match found.as_slice() {
            [only] => Some(*only),
            [] => {
                self.no_kind(fields);
                None
            }
            [first, second, ..] => {
                let message =
                    format!("a step does one thing, and this one has both `{}` and `{}`", first.1.key, second.1.key);
                let help = both_kinds(first.1.key, second.1.key);
                self.problems.push(Problem::error(second.1.key_span, message).help(help));
                None
            }
        }
    }

    /// A mistyped kind is named at the key; else the step as a whole lacks one.
    fn no_kind(&mut self, fields: &Fields<'_>) {
        let words = || KINDS.iter().map(|kind| kind.word);
        let unknown = fields.all().filter(|field| keys::kinds_with(field.key).is_empty());
        let mut mistyped = false;
        for field in unknown {
            let known: Vec<&str> = words().chain(COMMON.iter().copied()).collect();
            let near = near_key(field.key, &known);
            mistyped |= near.is_some_and(|near| words().any(|word| word == near));
            let problem = Problem::error(field.key_span, format!("unknown key `{}` in a step", field.key));
            self.problems.push(match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help(format!("a step is one of {}", words().collect::<Vec<_>>().join(", "))),
            });
        }
        if !mistyped {
            let help = format!("it needs one of {}", words().collect::<Vec<_>>().join(", "));
            self.problems.push(Problem::error(fields.span, "the step does not say what it does").help(help));
        }
    }

    fn check_keys(&mut self, kind: &KindKeys, fields: &Fields<'_>) {
        for field in fields.all().filter(|field| field.key != kind.word) {
            let has = keys::kinds_with(field.key);
            if has.is_empty() {
                let what = format!("{} step", article(kind.word));
                let known: Vec<&str> = kind.own.iter().chain(COMMON).copied().collect();
                let meant = near_key(field.key, &known).is_none().then(|| KINDS.iter().map(|kind| kind.word));
                let known: Vec<&str> = match meant.and_then(|words| nearest(field.key, words)) {
                    Some(word) => vec![word],
                    None => known,
                };
                self.problems.push(unknown_key(field, &what, &known));
            } else if !has.contains(&kind.word) {
                let help = match (field.key, kind.word) {
                    ("input", "tool") => "the arguments of a tool go under `with`".to_owned(),
                    ("with", "agent" | "workflow") => "data for it goes under `input`".to_owned(),
                    _ => format!("it belongs to {}", has.join(", ")),
                };
                self.no_effect(field, &format!("on {} step", article(kind.word)), &help);
            }
        }
    }

    fn policies(&mut self, step: &mut Step, fields: &Fields<'_>, kind: &KindKeys, position: &str) {
        let get = |key: &str| fields.get(key).filter(|_| !kind.without.contains(&key));
        step.name = get("name").and_then(|field| self.name(field));
        step.description = get("description").and_then(|field| self.text(field));
        step.when = get("when").map(|field| self.expression(field));
        step.needs = get("needs").map(|field| self.names(field));
        step.run_if_always = get("run_if").is_some_and(|field| self.choice(field, &[("always", ())]).is_some());
        step.output_key = get("output_key").and_then(|field| self.name(field));
        step.retry = get("retry").map(|field| self.retry(field)).unwrap_or_default();
        step.timeout_ms = get("timeout").and_then(|field| self.duration(field));
        step.on_error = get("on_error").map(|field| self.on_error(field)).unwrap_or_default();
        step.budget = get("budget").map(|field| self.budget(field)).unwrap_or_default();
        step.save = get("save").map(|field| self.set(field)).unwrap_or_default();
        step.on_missing_null = get("on_missing").is_some_and(|field| self.on_missing(field));
        let kept = [("all", false), ("last", true)];
        step.keep_last = get("keep").and_then(|field| self.choice(field, &kept)).unwrap_or_default();
        step.undo = get("undo").map(|field| Box::new(self.step(field.node, &format!("{position}_undo"))));
    }

    fn on_missing(&mut self, field: Field<'_>) -> bool {
        let is_null = matches!(&field.node.data, Data::Scalar(Value::Null));
        if !is_null {
            self.wrong(field, "null", "`on_missing: null`; without it a missing field is an error");
        }
        is_null
    }
}

/// A step whose kind is being read.
pub(crate) struct At<'a, 'n> {
    pub fields: &'a Fields<'n>,
    /// The kind key with its value.
    pub field: Field<'n>,
    /// The id that the step would have by its position: the prefix of those inside it.
    pub position: &'a str,
    /// The id that it has.
    pub key: &'a str,
    pub span: Span,
}

/// What was meant by two kinds in one step.
fn both_kinds(first: &str, second: &str) -> &'static str {
    let is = |word: &str| first == word || second == word;
    match () {
        () if is("for_each") && is("steps") => "the steps that run for each item go under `do`",
        () if is("repeat") && is("steps") => "the steps that are repeated stand right under `repeat`",
        () if is("parallel") && is("steps") => "the steps that run at once stand right under `parallel`",
        () if is("if") => "a step that runs on a condition has `when`; `if` has its steps under `then` and `else`",
        () => "make two steps of it, one after the other",
    }
}

/// Stands for a step that could not be read, so that the rest of the file can be.
fn nothing(span: Span) -> Step {
    Step::new("set", Kind::Set(Vec::new()), span)
}

pub(crate) fn article(word: &str) -> String {
    match word.starts_with(['a', 'i', 'e', 'o', 'u']) {
        true => format!("an {word}"),
        false => format!("a {word}"),
    }
}
