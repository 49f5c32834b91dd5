//! The format `steps`: a workflow as it is exported with its details: one line of steps behind a trigger.
//!
//! - Used: `uuid` (a second name), `name`, `description`, `is_active` (false: the trigger does not fire), `trigger`,
//!   `steps`
//! - Understood, without effect on a run: `user_id`, `trigger_uuid`, `template_id`, `template_version`, `created_at`,
//!   `updated_at`; at a step also `description` and `generated_summary`
//!
//! A step's id is its `uuid`; its agent has the step's `name`. A field that is null counts as left out. Of a field that
//! nobody knows, an export (known by its times and its owner) is warned; in a file that somebody wrote it is an error.

mod conditions;
mod draft;
mod kinds;
mod placeholders;
mod trigger;

use std::collections::{HashMap, HashSet};

use relais_plan::step::{Kind, Workflow};
use relais_plan::{Problem, Severity, Span, Template};

use crate::fields::{Field, Fields, given, unknown_key};
use crate::native::keys::means_secret;
use crate::reader::Reader;
use crate::values::{output_of, quote};
use crate::yaml::{Data, Node};

pub(crate) use draft::Needs;
pub use draft::{Draft, draft, read_alone};

const TOP: &[&str] = &[
    "uuid",
    "user_id",
    "name",
    "description",
    "is_active",
    "trigger",
    "trigger_uuid",
    "steps",
    "template_id",
    "template_version",
    "created_at",
    "updated_at",
];
const FACTS: &[&str] = &["user_id", "trigger_uuid", "template_id", "template_version", "created_at", "updated_at"];
const EXAMPLE: &str = "`{ \"name\": \"label-mail\", \"steps\": [{ \"uuid\": \"…\", \"name\": \"Summarizer\", \
                       \"type\": \"custom_llm\", \"model\": \"gpt-4o-mini\", \"system_prompt\": \"…\" }] }`";
/// What the last step that said something said: a checker has no output.
const LAST_SAID: &str = "{{ (earlier | last).output if earlier | length > 0 else none }}";

pub(crate) fn read(root: &Node, reader: &mut Reader<'_>) -> Workflow {
    reader.is_export = is_export(root);
    match reader.steps_map(root, "a workflow", TOP, EXAMPLE) {
        Some(fields) => reader.steps_file(&fields),
        None => Workflow::default(),
    }
}

/// Only a program gives a workflow an id and says when it was made, or whose it is.
fn is_export(root: &Node) -> bool {
    let Data::Map(entries) = &root.data else { return false };
    let fields = Fields::new(root.span, entries);
    let has = |key: &&str| given(&fields, key).is_some();
    has(&"uuid") && ["user_id", "created_at", "updated_at"].iter().any(has)
}

impl Reader<'_> {
    /// A map of known keys. Null is absent, also under a key that nobody knows.
    fn steps_map<'n>(&mut self, node: &'n Node, what: &str, known: &[&str], example: &str) -> Option<Fields<'n>> {
        let fields = self.open_map(node, what, example)?;
        let unknown = fields.all().filter(|field| !known.contains(&field.key));
        for field in unknown.filter_map(|field| given(&fields, field.key)) {
            self.steps_stray(unknown_key(field, what, known), field);
        }
        Some(fields)
    }

    /// A field that says nothing here: a mistake of whoever wrote it by hand, and of another version's export none.
    fn steps_stray(&mut self, mut problem: Problem, field: Field<'_>) {
        if self.is_export && !means_secret(field.key) {
            problem.severity = Severity::Warning;
        }
        self.problems.push(problem);
    }

    fn steps_file(&mut self, fields: &Fields<'_>) -> Workflow {
        self.steps_facts(fields, FACTS);
        let mut workflow = Workflow {
            name: given(fields, "name").and_then(|field| self.name(field)).unwrap_or_else(|| self.stem.clone()),
            alias: given(fields, "uuid").and_then(|field| self.name(field)),
            description: given(fields, "description").and_then(|field| self.text(field)).unwrap_or_default(),
            ..Workflow::default()
        };
        workflow.paused = given(fields, "is_active").and_then(|field| self.flag(field)) == Some(false);
        if let Some(field) = given(fields, "trigger") {
            self.steps_trigger(field, &mut workflow);
        }
        let items = self.steps_list(fields);
        let listing = Listing::of(items);
        self.check_step_names(&listing);
        for (position, node) in items.iter().enumerate() {
            workflow.steps.extend(self.listed_step(node, position, &listing));
        }
        if workflow.steps.iter().any(|step| matches!(step.kind, Kind::StopIf(_))) {
            workflow.output = Template::text(LAST_SAID, Span::default()).ok();
        }
        workflow.agents = std::mem::take(&mut self.agents);
        workflow
    }

    /// Fields that say where the definition comes from.
    fn steps_facts(&mut self, fields: &Fields<'_>, keys: &[&str]) {
        for field in keys.iter().filter_map(|key| given(fields, key)) {
            self.text(field);
        }
    }

    fn steps_list<'n>(&mut self, fields: &Fields<'n>) -> &'n [Node] {
        match given(fields, "steps").map(|field| (field, &field.node.data)) {
            Some((_, Data::List(items))) if !items.is_empty() => items,
            Some((field, Data::List(_))) => {
                let problem = Problem::error(field.node.span, "the workflow has no step yet");
                self.unfinished.push(problem.help(format!("for example {EXAMPLE}")));
                &[]
            }
            Some((field, _)) => {
                self.wrong(field, "a list of at least one step", EXAMPLE);
                &[]
            }
            None => {
                let problem = Problem::error(fields.span, "the workflow has no `steps`");
                self.problems.push(problem.help(format!("for example {EXAMPLE}")));
                &[]
            }
        }
    }

    fn check_step_names(&mut self, listing: &Listing<'_>) {
        let mut seen = HashSet::new();
        for listed in &listing.all {
            let Some(name) = listed.name else { continue };
            if !seen.insert(name) {
                let problem = Problem::error(listed.name_span, format!("two steps have the name `{name}`"));
                self.problems.push(problem.help("the names of steps are unique in a workflow"));
            }
        }
    }

    /// The output of the step that is meant, as an expression, if it can be read at a position.
    fn readable_output(&mut self, uuid: &str, at: usize, span: Span, listing: &Listing<'_>) -> Option<String> {
        if let (Some(needs), false) = (&mut self.alone, listing.by_uuid.contains_key(uuid)) {
            needs.steps.insert(uuid.to_owned());
            return Some(format!("input.step_outputs[{}]", quote(uuid)));
        }
        let Some(&position) = listing.by_uuid.get(uuid) else {
            let near = self.near(uuid, listing.by_uuid.keys().copied());
            let help = near.map_or_else(|| listing.before(at), |near| format!("did you mean `{near}`?"));
            self.problems.push(Problem::error(span, format!("no step has the uuid `{uuid}`")).help(help));
            return None;
        };
        let name = listing.all[position].name.unwrap_or(uuid);
        let wrong = match position {
            _ if listing.all[position].is_checker => format!("the step `{name}` is a stop_checker and has no output"),
            _ if position == at => format!("the step `{name}` cannot read its own output"),
            _ if position > at => format!("the step `{name}` comes later and has no output yet"),
            _ => return Some(output_of(uuid)),
        };
        self.problems.push(Problem::error(span, wrong).help(listing.before(at)));
        None
    }
}

/// The steps as other steps know them.
struct Listing<'n> {
    all: Vec<Listed<'n>>,
    by_uuid: HashMap<&'n str, usize>,
}

struct Listed<'n> {
    uuid: Option<&'n str>,
    name: Option<&'n str>,
    name_span: Span,
    is_checker: bool,
}

impl<'n> Listing<'n> {
    fn of(items: &'n [Node]) -> Listing<'n> {
        let all: Vec<Listed<'n>> = items.iter().map(Listed::of).collect();
        let positions = all.iter().enumerate().filter_map(|(position, listed)| Some((listed.uuid?, position)));
        Listing { by_uuid: positions.collect(), all }
    }

    /// The steps whose output can be read at a position, for people.
    fn before(&self, at: usize) -> String {
        const SHOWN: usize = 20;
        let readable = self.all.iter().take(at).filter(|listed| !listed.is_checker);
        let named = readable.filter_map(|listed| Some(format!("{} ({})", listed.uuid?, listed.name?)));
        let named: Vec<String> = named.take(SHOWN).collect();
        match named.is_empty() {
            true => "no step before it has an output".to_owned(),
            false => format!("steps before it: {}", named.join(", ")),
        }
    }
}

impl<'n> Listed<'n> {
    fn of(node: &'n Node) -> Listed<'n> {
        let entries = if let Data::Map(entries) = &node.data { entries.as_slice() } else { &[] };
        let fields = Fields::new(node.span, entries);
        let text = |key: &str| fields.get(key).and_then(|field| field.node.as_text());
        Listed {
            uuid: text("uuid"),
            name: text("name"),
            name_span: fields.get("name").map_or(node.span, |field| field.node.span),
            is_checker: text("type") == Some("stop_checker"),
        }
    }
}

#[cfg(test)]
mod tests {
    use relais_plan::problem::has_errors;

    use super::*;
    use crate::yaml;

    /// Is the file refused, and how much is told of it?
    fn check(facts: &str, extra: &str, is_refused: bool, told: usize) {
        let step = r#"{ "uuid": "1", "name": "A", "type": "custom_llm", "model": "m", "system_prompt": "x" }"#;
        let text = format!("{{ {facts} \"name\": \"w\", \"steps\": [{step}], {extra} }}");
        let source = relais_plan::Source { name: "w.json".into(), text };
        let mut none = crate::reader::NoWorkflows;
        let mut reader = Reader::new(&mut none, "w".into(), "w.json", None);
        read(&yaml::parse(&source).unwrap_or_else(|problems| panic!("{problems:?}")), &mut reader);
        let problems = reader.problems;
        assert_eq!((has_errors(&problems), problems.len()), (is_refused, told), "{}: {problems:?}", source.text);
    }

    #[test]
    fn a_field_nobody_knows_is_a_mistake_of_people_and_a_word_of_programs() {
        let export = r#""uuid": "0", "created_at": "2026-01-02T03:04:05Z","#;
        check("", r#""trigger_model": "m""#, true, 1);
        check(export, r#""trigger_model": "m""#, false, 1);
        check("", r#""trigger_prompt": null, "template_id": null"#, false, 0);
        check(export, r#""trigger_prompt": null, "template_id": null"#, false, 0);
        // A secret is out of place in either.
        check(export, r#""api_key": "abc""#, true, 1);
    }
}
