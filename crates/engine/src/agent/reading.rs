//! What an agent reads: what its prompts name, the tools that it is lent to read what it was given by reference, and
//! whether its model can take all of it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashSet};

use relais_plan::expr::{EvalError, Names, Root};
use serde_json::Value;

use super::{Loop, Stop};
use crate::command::{ErrorKind, Failure, Message};
use crate::decide::Again;
use crate::names::View;
use crate::run::{AgentWork, Use, UseState};
use crate::value::READ_VALUE;

/// Reads what lies in a run's workspace.
const READ_FILE: &str = "read_file";

/// The names that a prompt sees. Notes which tools can read what was given by reference.
pub(super) struct Reading<'a> {
    view: View<'a>,
    tools: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Reading<'a> {
    pub fn new(view: View<'a>) -> Reading<'a> {
        Reading { view, tools: RefCell::default() }
    }

    pub fn tools(self) -> BTreeSet<&'static str> {
        self.tools.into_inner()
    }
}

impl Names for Reading<'_> {
    fn get(&self, root: &Root) -> Result<Cow<'_, Value>, EvalError> {
        self.view.get(root)
    }

    fn variable(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.view.variable(name)
    }

    fn missing_is_null(&self) -> bool {
        self.view.missing_is_null()
    }

    fn inline_bytes(&self) -> u64 {
        self.view.inline_bytes()
    }

    fn referred(&self, output_ref: &Value) {
        let tool = if output_ref["type"] == "file" { READ_FILE } else { READ_VALUE };
        self.tools.borrow_mut().insert(tool);
    }
}

/// The tool that reads on, if the model is about to hear only the beginning of a result.
pub(super) fn to_read_on(work: &AgentWork) -> BTreeSet<&'static str> {
    let is_cut = |used: &Use| matches!(&used.state, UseState::Returned(value) if value.is_cut());
    work.uses.iter().any(is_cut).then_some(READ_VALUE).into_iter().collect()
}

impl Loop<'_> {
    /// Those of the tools that the agent does not have yet.
    pub(super) fn lend(&self, work: &AgentWork, tools: BTreeSet<&'static str>) -> Vec<String> {
        tools.into_iter().filter(|tool| !self.has_tool(work, tool)).map(str::to_owned).collect()
    }

    pub(super) fn has_tool(&self, work: &AgentWork, tool: &str) -> bool {
        self.agent.tools.iter().chain(&work.lent).any(|listed| crate::program::matches_pattern(listed, tool))
    }

    /// A prompt that the model could not read is refused before it is paid for.
    pub(super) fn fits_context(
        &self,
        (model, context): (&str, Option<u64>),
        tokens: u64,
        said: (&AgentWork, &[Message]),
    ) -> Result<(), Stop> {
        let Some(context) = context.filter(|context| tokens > *context) else { return Ok(()) };
        let by = match self.largest_source(said) {
            Some(source) => format!(" The most of it comes from {source}."),
            None => String::new(),
        };
        let message = format!("the prompt has about {tokens} tokens, `{model}` takes {context}.{by}");
        Err(Stop::Fail(Failure::new(ErrorKind::Limit, message), Again::Never))
    }

    /// What fills the prompt most: a step, the input, what started the run, the result of a tool.
    fn largest_source(&self, (work, say): (&AgentWork, &[Message])) -> Option<String> {
        let mut sources = Vec::new();
        let heard = work.uses.iter().filter_map(|used| match &used.state {
            UseState::Returned(value) => Some((value.in_text().len(), tool_result(&used.call.tool))),
            _ => None,
        });
        sources.extend(heard);
        sources.extend(work.messages.iter().chain(say).filter_map(|message| match message {
            Message::Tool { tool, text, .. } => Some((text.len(), tool_result(tool))),
            Message::System { .. } | Message::User { .. } | Message::Assistant { .. } => None,
        }));
        let view = self.step.view();
        for root in self.roots() {
            sources.extend(sizes(&view, &root));
        }
        sources.into_iter().max_by_key(|(size, _)| *size).map(|(_, source)| source)
    }

    /// What the prompts of the agent name; where there is no prompt, the input is one.
    fn roots(&self) -> HashSet<Root> {
        let mut roots = HashSet::new();
        for template in self.prompt.into_iter().chain(&self.call.input).chain([&self.agent.instructions]) {
            template.visit(&mut |refs, _| roots.extend(refs.iter().map(|(root, _)| root.clone())));
        }
        if self.prompt.is_none() && self.call.input.is_none() {
            roots.insert(Root::Input);
        }
        roots
    }
}

fn tool_result(tool: &str) -> String {
    format!("a result of the tool `{tool}`")
}

/// How large that is what a prompt names, and what people call it.
fn sizes(view: &View<'_>, root: &Root) -> Vec<(usize, String)> {
    let Ok(value) = view.get(root) else { return Vec::new() };
    let size = |value: &Value| value.to_string().len();
    let name = match root {
        Root::Step { key, .. } => format!("step `{key}`"),
        Root::Earlier => {
            let steps = value.as_array().into_iter().flatten();
            let step =
                |step: &Value| (size(&step["output"]), format!("step `{}`", step["path"].as_str().unwrap_or("")));
            return steps.map(step).collect();
        }
        Root::Previous => "the step before".to_owned(),
        Root::Input => "the input of the run".to_owned(),
        Root::Trigger => "what started the run".to_owned(),
        Root::Item => "the item at hand".to_owned(),
        Root::Loop => "the pass before".to_owned(),
        Root::Vars => "`vars`".to_owned(),
        Root::Event => "the event".to_owned(),
        Root::Index | Root::Run | Root::Workflow | Root::Now => return Vec::new(),
    };
    vec![(size(&value), name)]
}
