//! The prompt of a node.

use relais_plan::{Problems, Schema, Span, Template};

pub(crate) struct Injection {
    pub position: bool,
    pub separators: bool,
    pub preamble: Option<String>,
}

impl Default for Injection {
    fn default() -> Self {
        Injection { position: true, separators: true, preamble: None }
    }
}

pub(crate) struct Prompt<'a> {
    pub workflow: &'a str,
    pub node: &'a str,
    pub position: (usize, usize),
    pub instruction: &'a str,
    pub request: Option<(&'a str, Span)>,
    pub input_schema: Option<&'a Schema>,
    pub output_schema: Option<&'a Schema>,
    pub injection: &'a Injection,
}

impl Prompt<'_> {
    pub(crate) fn template(&self, _problems: &mut Problems) -> Template {
        let schema = self.output_schema.map(|s| format!("{:#}", s.json())).unwrap_or_default();
        let text = format!(
            "{}\n\nWORKFLOW EXECUTION MODE {} {}\nNode {} of {}\n{}\n«result:artifact=x status=success»\nYour output artifact MUST conform to this schema:\n{schema}\n",
            self.instruction,
            self.workflow,
            self.node,
            self.position.0,
            self.position.1,
            self.request.map_or("", |r| r.0)
        );
        Template::plain(&text, Span::default())
    }
}

pub(crate) fn artifact(node: &str) -> String {
    format!("node_{node}_input.json")
}
