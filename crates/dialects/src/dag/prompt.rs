//! What the agent of a node is told: its persona's instruction, then how it works as a node of a workflow.
//!
//! The text is fixed when the file is read: the input is named, never shown, so nothing in it waits for a run. It knows
//! nothing of how nodes are read or ordered.

use std::ops::Range;

use relais_plan::path::{self, Segment};
use relais_plan::problem::nearest;
use relais_plan::{Problem, Problems, Schema, Span, Template};
use serde_json::Value;

/// The parts that follow the instruction; `{…}` is filled in.
const PARTS: &str = include_str!("prompt.txt");
const POSITION: &str = "{node_position_description}";
const SEPARATOR: char = '━';

const ANY: &str = "Any JSON value: no schema is declared.";
const VARIABLES: &str =
    "a request may hold `{{input.FIELD}}` (also `{{input.a.b[0]}}`), `{{workflow.name}}` and `{{node.id}}`";

/// The artifact that holds the input of a node.
pub(crate) fn artifact(node: &str) -> String {
    format!("node_{node}_input.json")
}

/// What a workflow may change about the prompts of its nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Injection {
    /// The line that says which node of how many this is.
    pub position: bool,
    /// The lines around the headings.
    pub separators: bool,
    /// A paragraph between the instruction and the first heading, as it stands: it introduces all that follows.
    pub preamble: Option<String>,
}

impl Default for Injection {
    fn default() -> Injection {
        Injection { position: true, separators: true, preamble: None }
    }
}

/// All that goes into the prompt of one node.
pub(crate) struct Prompt<'a> {
    pub workflow: &'a str,
    pub node: &'a str,
    /// Which node of how many, from 1.
    pub position: (usize, usize),
    /// The persona's. It may serve outside of workflows, too, so braces that mean none of the variables are just text.
    pub instruction: &'a str,
    /// The task in the author's words. None: one is made of the instruction and the input's fields.
    pub request: Option<(&'a str, Span)>,
    /// The fields that the input has, where they are known.
    pub fields: Option<Vec<String>>,
    pub input_schema: Option<&'a Schema>,
    pub output_schema: Option<&'a Schema>,
    pub injection: &'a Injection,
}

impl Prompt<'_> {
    pub(crate) fn template(&self, problems: &mut Problems) -> Template {
        let instruction = self.with_variables(self.instruction.trim_end(), &mut |_| {});
        let request = match self.request {
            Some((text, span)) => self.requested(text, span, problems),
            None => self.default_request(&instruction),
        };
        let preamble = self.injection.preamble.as_deref().unwrap_or_default();
        let workflow = self.parts(&request);
        let paragraphs: Vec<&str> =
            [&instruction, preamble.trim_end(), &workflow].into_iter().filter(|text| !text.is_empty()).collect();
        let span = self.request.map(|(_, span)| span).unwrap_or_default();
        Template::plain(&paragraphs.join("\n\n"), span)
    }

    fn requested(&self, text: &str, span: Span, problems: &mut Problems) -> String {
        let mut tell = |place: Range<usize>| {
            let problem = unknown(&text[place.clone()], text, span, place.clone());
            problems.push(match self.lacking(&text[place]) {
                Some(field) => Problem { message: format!("the input of this node has no `{field}`"), ..problem }
                    .help(self.advice(&field)),
                None => problem,
            });
        };
        let resolved = self.with_variables(text, &mut tell);
        resolved.trim_end().to_owned()
    }

    /// The field that a variable names and the input does not have.
    fn lacking(&self, written: &str) -> Option<String> {
        let name = written.strip_prefix("{{")?.strip_suffix("}}")?.trim();
        let field = first_field(&input_segments(name)?)?;
        self.fields.as_ref().filter(|fields| !fields.contains(&field)).map(|_| field.clone())
    }

    fn advice(&self, field: &str) -> String {
        let fields = self.fields.as_deref().unwrap_or_default();
        match nearest(field, fields.iter().map(String::as_str)) {
            Some(near) => format!("did you mean `{{{{input.{near}}}}}`?"),
            None => format!("it has: {}", fields.join(", ")),
        }
    }

    fn default_request(&self, instruction: &str) -> String {
        let task = match first_sentence(instruction) {
            sentence if sentence.is_empty() => format!("Complete the node {} of {}.", self.node, self.workflow),
            sentence => sentence,
        };
        format!(
            "Your task: {task}\n\n\
             Input data is available in artifact: {}\n\n\
             Available input fields:\n{}\n\n\
             Please complete your task according to your instructions and mark your output with the result embed.",
            artifact(self.node),
            fields(self.input_schema)
        )
    }

    /// Everything after the instruction. Lines that are not wanted are left out.
    fn parts(&self, request: &str) -> String {
        let wanted = |line: &&str| {
            (self.injection.separators || !line.starts_with(SEPARATOR))
                && (self.injection.position || !line.contains(POSITION))
        };
        let lines: Vec<String> = PARTS.lines().filter(wanted).map(|line| self.filled(line, request)).collect();
        lines.join("\n")
    }

    /// One line with its `{…}` filled in; what is put in is not looked at again.
    fn filled(&self, line: &str, request: &str) -> String {
        let Some((before, (name, after))) =
            line.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?)))
        else {
            return line.to_owned();
        };
        let value = match name {
            "workflow_name" => self.workflow.to_owned(),
            "node_id" => self.node.to_owned(),
            "node_position_description" => format!("Node {} of {} in workflow", self.position.0, self.position.1),
            "resolved_request_template" => request.to_owned(),
            "input_schema_formatted" => formatted(self.input_schema),
            "output_schema_formatted" => formatted(self.output_schema),
            _ => artifact(self.node),
        };
        format!("{before}{value}{after}")
    }

    /// Text with its variables put in. What means nothing stays, and its place is told.
    fn with_variables(&self, text: &str, unknown: &mut dyn FnMut(Range<usize>)) -> String {
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(open) = text[at..].find("{{").map(|found| at + found) {
            out.push_str(&text[at..open]);
            let Some(end) = text[open..].find("}}").map(|found| open + found + "}}".len()) else {
                unknown(open..text.len());
                at = open;
                break;
            };
            let written = &text[open..end];
            match self.variable(written.trim_start_matches("{{").trim_end_matches("}}").trim()) {
                Some(value) => out.push_str(&value),
                None => {
                    unknown(open..end);
                    out.push_str(written);
                }
            }
            at = end;
        }
        out.push_str(&text[at..]);
        out
    }

    fn variable(&self, name: &str) -> Option<String> {
        match name {
            "workflow.name" => Some(self.workflow.to_owned()),
            "node.id" => Some(self.node.to_owned()),
            _ => {
                let segments = input_segments(name)?;
                let is_known = |field: &String| self.fields.as_ref().is_none_or(|fields| fields.contains(field));
                first_field(&segments).as_ref().is_none_or(is_known).then_some(())?;
                Some(format!("«value:{}:{}»", artifact(self.node), path::show(&segments)))
            }
        }
    }
}

fn first_field(segments: &[Segment]) -> Option<String> {
    match segments.first() {
        Some(Segment::Key(key)) => Some(key.clone()),
        Some(Segment::Index(_)) | None => None,
    }
}

/// The path behind `input`, if it is one; the input as a whole has no reference of its own.
fn input_segments(name: &str) -> Option<Vec<Segment>> {
    let rest = name.strip_prefix("input").filter(|rest| rest.starts_with(['.', '[']))?;
    let segments = path::parse(rest.strip_prefix('.').unwrap_or(rest)).ok()?;
    let fits = |segment: &Segment| !matches!(segment, Segment::Key(key) if key.contains(['»', '\n']));
    (!segments.is_empty() && segments.iter().all(fits)).then_some(segments)
}

fn unknown(written: &str, text: &str, span: Span, place: Range<usize>) -> Problem {
    // Only text that stands in the file as it is can be pointed into.
    let span = match (span.end.saturating_sub(span.start) as usize).checked_sub(text.len()) {
        Some(0) => Span::new(span.start as usize + place.start, span.start as usize + place.end),
        Some(2) => Span::new(span.start as usize + 1 + place.start, span.start as usize + 1 + place.end),
        Some(_) | None => span,
    };
    let message = match written.ends_with("}}") {
        true => format!("`{written}` is no variable of a request"),
        false => "`{{` is never closed in this request".to_owned(),
    };
    Problem::error(span, message).help(VARIABLES)
}

/// The first sentence, on one line. It ends where a capital letter or nothing follows, so not at "e.g. this", and with
/// its paragraph at the latest.
fn first_sentence(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().map(str::trim).take_while(|line| !line.is_empty()).collect();
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    let ends = |at: usize| {
        let next = words.get(at + 1).and_then(|word| word.chars().next());
        words[at].ends_with(['.', '!', '?']) && next.is_none_or(|letter| !letter.is_lowercase())
    };
    let length = (0..words.len()).find(|&at| ends(at)).map_or(words.len(), |at| at + 1);
    words[..length].join(" ")
}

/// The fields of the input, a line each.
fn fields(schema: Option<&Schema>) -> String {
    let properties = schema.and_then(|schema| schema.json().get("properties")).and_then(Value::as_object);
    let lines: Vec<String> = properties.into_iter().flatten().map(|(name, property)| field(name, property)).collect();
    match (lines.is_empty(), schema) {
        (false, _) => lines.join("\n"),
        (true, Some(_)) => "See the input schema.".to_owned(),
        (true, None) => ANY.to_owned(),
    }
}

fn field(name: &str, property: &Value) -> String {
    let kind = match property.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        Some(Value::Array(kinds)) => kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" or "),
        Some(_) | None => "any".to_owned(),
    };
    match property.get("description").and_then(Value::as_str) {
        Some(description) => format!("- {name} ({kind}): {}", description.trim()),
        None => format!("- {name} ({kind})"),
    }
}

fn formatted(schema: Option<&Schema>) -> String {
    match schema {
        Some(schema) => pretty(schema.json(), 0),
        None => ANY.to_owned(),
    }
}

/// JSON indented by two; a list of plain values stays on its line. A schema is as deep as its file at most.
fn pretty(value: &Value, depth: usize) -> String {
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    match value {
        Value::Object(map) if !map.is_empty() => {
            let field = |(key, value): (&String, &Value)| {
                format!("{inner}{}: {}", Value::from(key.as_str()), pretty(value, depth + 1))
            };
            format!("{{\n{}\n{outer}}}", map.iter().map(field).collect::<Vec<_>>().join(",\n"))
        }
        Value::Array(items) if items.iter().any(|item| item.is_object() || item.is_array()) => {
            let items: Vec<String> = items.iter().map(|item| format!("{inner}{}", pretty(item, depth + 1))).collect();
            format!("[\n{}\n{outer}]", items.join(",\n"))
        }
        Value::Array(items) => {
            format!("[{}]", items.iter().map(Value::to_string).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use relais_plan::expr::{EvalError, Names, Root};
    use serde_json::json;

    use super::*;

    /// Prompts name nothing.
    struct Nothing;

    impl Names for Nothing {
        fn get(&self, root: &Root) -> Result<std::borrow::Cow<'_, Value>, EvalError> {
            unreachable!("{root:?}")
        }
    }

    fn customer() -> Schema {
        Schema::new(json!({
            "type": "object",
            "properties": {
                "customer_name": { "type": "string", "description": "Customer's full name" },
                "email": { "type": "string", "description": "Customer's email address" },
            },
            "required": ["customer_name", "email"],
        }))
    }

    fn base(injection: &Injection) -> Prompt<'_> {
        Prompt {
            workflow: "CustomerOnboardingWorkflow",
            node: "validate_customer",
            position: (2, 5),
            instruction: "Validate customer information for correctness.\n",
            request: None,
            fields: None,
            input_schema: None,
            output_schema: None,
            injection,
        }
    }

    fn rendered(prompt: &Prompt<'_>) -> (String, Problems) {
        let mut problems = Vec::new();
        let text = prompt.template(&mut problems).render(&Nothing).unwrap();
        (text.as_str().unwrap().to_owned(), problems)
    }

    const LINE: &str = "━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━";

    const SCHEMA: &str = r#"{
  "type": "object",
  "properties": {
    "customer_name": {
      "type": "string",
      "description": "Customer's full name"
    },
    "email": {
      "type": "string",
      "description": "Customer's email address"
    }
  },
  "required": ["customer_name", "email"]
}"#;

    const DEFAULT_REQUEST: &str = "Your task: Validate customer information for correctness.

Input data is available in artifact: node_validate_customer_input.json

Available input fields:
- customer_name (string): Customer's full name
- email (string): Customer's email address

Please complete your task according to your instructions and mark your output with the result embed.";

    /// The whole text with the places of the line, the request and the schemas marked.
    const WHOLE: &str = "Validate customer information for correctness.

LINE
WORKFLOW EXECUTION MODE
LINE

You are executing as part of a structured workflow.

Workflow: CustomerOnboardingWorkflow
Node ID: validate_customer
Your Role: Node 2 of 5 in workflow

LINE
TASK REQUEST
LINE

REQUEST

LINE
INPUT DATA SPECIFICATION
LINE

Your input data is stored in a structured artifact: node_validate_customer_input.json

Input Schema (describes available fields):
SCHEMA

LINE
VALUE REFERENCE PROTOCOL (CRITICAL)
LINE

IMPORTANT: You have NOT been given the actual input data values.

To use input data in tool calls or generated content, you MUST use value references.

Syntax: «value:node_validate_customer_input.json:field_path»

Examples:
  - To reference 'customer_id': «value:node_validate_customer_input.json:customer_id»
  - To reference nested field: «value:node_validate_customer_input.json:address.zip_code»
  - To reference array item: «value:node_validate_customer_input.json:items[0].sku»

WHY THIS MATTERS:
- Value references ensure data integrity (prevents hallucination or typos)
- The framework resolves references to actual values when calling tools
- You MUST NOT attempt to guess, fabricate, or recall data values

WHEN TO LOAD ACTUAL DATA:
- Only load the input artifact if you need to make content-based decisions
- Use the load_artifact tool if you need to inspect data for logic/routing
- For pass-through or transformation tasks, use value references exclusively

LINE
OUTPUT REQUIREMENTS (MANDATORY)
LINE

You MUST mark your output using the result embed:

Success:
  «result:artifact=output_filename.json status=success [message=optional]»

Failure:
  «result:status=failure message=reason_for_failure»

Your output artifact MUST conform to this schema:
SCHEMA

If you cannot complete your task:
- Use status=failure
- Provide a clear, specific error message
- Do NOT retry on your own (the framework handles retries)

LINE
CONSTRAINTS
LINE

- Focus solely on your assigned task
- Do not attempt to access data outside your input artifact
- Do not make assumptions about other workflow nodes or overall workflow goals
- Do not deviate from the specified output schema";

    fn whole(request: &str, schema: &str) -> String {
        let text = WHOLE.replace("\nLINE\n", "\n\u{0}\n").replace("\nREQUEST\n", "\n\u{1}\n");
        let text = text.replace("\nSCHEMA\n", "\n\u{2}\n");
        text.replace('\u{0}', LINE).replace('\u{1}', request).replace('\u{2}', schema)
    }

    #[test]
    fn a_prompt_has_all_its_parts() {
        let (schema, injection) = (customer(), Injection::default());
        let prompt = Prompt { input_schema: Some(&schema), output_schema: Some(&schema), ..base(&injection) };
        assert_eq!(rendered(&prompt).0, whole(DEFAULT_REQUEST, SCHEMA));
    }

    #[test]
    fn without_schemas_any_value_is_meant() {
        let (text, _) = rendered(&base(&Injection::default()));
        let fields = "- customer_name (string): Customer's full name\n- email (string): Customer's email address";
        assert_eq!(text, whole(&DEFAULT_REQUEST.replace(fields, ANY), ANY));
    }

    fn request(text: &str) -> (String, Problems) {
        let injection = Injection { separators: false, ..Injection::default() };
        let request = Some((text, Span::new(10, 10 + text.len())));
        let (all, problems) = rendered(&Prompt { request, ..base(&injection) });
        let (_, rest) = all.split_once("TASK REQUEST\n\n").unwrap();
        (rest.split_once("\n\nINPUT DATA SPECIFICATION\n\n").unwrap().0.to_owned(), problems)
    }

    #[test]
    fn variables_of_a_request_are_put_in() {
        let check = |text: &str, expected: &str| assert_eq!(request(text), (expected.to_owned(), Vec::new()));
        check(
            "Customer Name: {{input.customer_name}}\nEmail: {{input.email}}\n",
            "Customer Name: «value:node_validate_customer_input.json:customer_name»\n\
             Email: «value:node_validate_customer_input.json:email»",
        );
        check("{{ input.x.y[0] }}!", "«value:node_validate_customer_input.json:x.y[0]»!");
        check("{{input['odd key']}}", "«value:node_validate_customer_input.json:['odd key']»");
        check("{{workflow.name}}/{{ node.id }}", "CustomerOnboardingWorkflow/validate_customer");
        check("{ {% raw %} {# no #} }}", "{ {% raw %} {# no #} }}");
    }

    #[test]
    fn other_variables_are_refused_at_their_place() {
        let check = |text: &str, message: &str, place: (u32, u32)| {
            let (_, problems) = request(text);
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert_eq!((problem.message.as_str(), (problem.span.start, problem.span.end)), (message, place));
            assert_eq!(problem.help.as_deref(), Some(VARIABLES));
        };
        check("é {{ other.x }}", "`{{ other.x }}` is no variable of a request", (13, 26));
        check("{{input}}", "`{{input}}` is no variable of a request", (10, 19));
        check("{{input.a..b}}", "`{{input.a..b}}` is no variable of a request", (10, 24));
        check("{{input.a»b}}", "`{{input.a»b}}` is no variable of a request", (10, 24));
        check("{{inputs.a}}", "`{{inputs.a}}` is no variable of a request", (10, 22));
        let injection = Injection::default();
        let known = Prompt { fields: Some(vec!["name".into()]), ..base(&injection) };
        let mut problems = Vec::new();
        let text = known.requested("{{input.nam}} {{input.name.x}}", Span::new(10, 40), &mut problems);
        assert_eq!(text, "{{input.nam}} «value:node_validate_customer_input.json:name.x»");
        let told: Vec<_> = problems.iter().map(|p| (p.message.as_str(), p.help.as_deref())).collect();
        assert_eq!(told, [("the input of this node has no `nam`", Some("did you mean `{{input.name}}`?"))]);
        check("a {{ input.x", "`{{` is never closed in this request", (12, 22));
    }

    #[test]
    fn an_instruction_may_hold_variables_and_other_braces() {
        let injection = Injection::default();
        let instruction = "Greet {{input.name}} of {{node.id}} as {{mustache}}.";
        let (text, problems) = rendered(&Prompt { instruction, ..base(&injection) });
        let expected =
            "Greet «value:node_validate_customer_input.json:name» of validate_customer as {{mustache}}.\n\n━";
        assert!(text.starts_with(expected) && problems.is_empty(), "{problems:?}\n{text}");
    }

    #[test]
    fn the_injection_can_be_changed() {
        let check = |injection: Injection, part: &str| {
            let (text, _) = rendered(&base(&injection));
            assert!(text.contains(part), "{text}");
            assert_eq!(text.contains('━'), injection.separators);
        };
        let default = Injection::default();
        let part = "correctness.\n\nWORKFLOW EXECUTION MODE\n\nYou are executing";
        check(Injection { separators: false, ..default.clone() }, part);
        check(Injection { position: false, ..default.clone() }, "Node ID: validate_customer\n\n━");
        let preamble = Some("Additional {{context}}...\n".to_owned());
        check(Injection { preamble, ..default }, "for correctness.\n\nAdditional {{context}}...\n\n━");
    }

    #[test]
    fn a_task_is_the_first_sentence() {
        let check = |text: &str, expected: &str| assert_eq!(first_sentence(text), expected);
        check("Validate it. Then go.", "Validate it.");
        check("Check names, e.g. of\npeople. Then go.", "Check names, e.g. of people.");
        check("Is version 1.5 used? Say so.", "Is version 1.5 used?");
        check("A title\n\nA text.", "A title");
        check("", "");
        let (text, _) = rendered(&Prompt { instruction: " \n", ..base(&Injection::default()) });
        assert!(text.contains("Your task: Complete the node validate_customer of CustomerOnboardingWorkflow.\n"));
        assert!(text.starts_with(LINE));
    }

    #[test]
    fn fields_have_types_and_descriptions() {
        let check = |schema: Value, expected: &str| assert_eq!(fields(Some(&Schema::new(schema))), expected);
        check(
            json!({ "properties": { "a": { "type": ["string", "null"] }, "b": {} } }),
            "- a (string or null)\n- b (any)",
        );
        check(json!({ "type": "string" }), "See the input schema.");
        assert_eq!(
            pretty(&json!({ "a": [], "b": {}, "c": [{ "d": 1 }] }), 0),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    {\n      \"d\": 1\n    }\n  ]\n}"
        );
    }
}
