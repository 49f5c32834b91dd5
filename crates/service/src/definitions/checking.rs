//! What can be said of a definition without keeping it: everything that is wrong with it, what it would do and when, and
//! the same in the native format. And what definitions can name: tools and models.

use std::time::Duration;

use relais_engine::Millis;
use relais_plan::{Plan, Severity, Span, Trigger, schedule};
use relais_runtime::models;
use relais_runtime::tool::ToolSpec;
use relais_runtime::tools::Listed;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::definitions::agents::Agent;
use crate::definitions::library::Library;
use crate::definitions::workflows::Written;
use crate::{Error, Finding, Format, ReadOptions, Service};

/// What a check has found.
#[derive(Debug)]
pub struct Report {
    pub format: Format,
    /// It can be run as it is.
    pub runs: bool,
    pub findings: Vec<Finding>,
    /// Tools that only an MCP server can vouch for; a run asks it before it begins.
    pub unverified: Vec<String>,
    /// What can be started: the main part and each branch.
    pub parts: Vec<Outline>,
}

#[derive(Debug)]
pub struct Outline {
    pub branch: Option<String>,
    pub name: String,
    pub steps: Vec<Planned>,
    pub triggers: Vec<Times>,
}

/// A step as its author wrote it.
#[derive(Debug)]
pub struct Planned {
    pub id: String,
    pub name: Option<String>,
    /// `agent`, `if`, `for_each`, …
    pub kind: String,
}

/// A trigger that fires by time, as it was understood.
#[derive(Debug)]
pub struct Times {
    pub what: String,
    /// None: it is past, or has no times of its own.
    pub next: Vec<Millis>,
}

/// As many times as show a rhythm, a weekend included.
const SHOWN: usize = 5;
/// How long the MCP servers of the configuration may take to tell their tools; one that is late holds up the others.
const LIST_TIMEOUT: Duration = Duration::from_secs(30);

impl Service {
    /// Everything that is wrong with a definition, and what it would do. MCP servers are not asked.
    pub async fn check_definition(&self, written: Written) -> Result<Report, Error> {
        let compiled = self.compile(Uuid::now_v7(), None, written.text, written.format).await?;
        let mut findings = Finding::all(compiled.source(), &compiled.whole.main.problems);
        let mut parts = Vec::new();
        for (branch, plan) in compiled.whole.plans() {
            parts.push(self.part(branch, plan, &mut findings));
        }
        let has_errors = findings.iter().any(|finding| finding.severity == Severity::Error);
        Ok(Report {
            format: compiled.whole.main.format,
            runs: !has_errors && !compiled.whole.has_errors(),
            findings,
            unverified: compiled.whole.unverified().into_iter().collect(),
            parts,
        })
    }

    /// Everything that is wrong with an agent, as a workflow that uses it would find it: a tool that is not there is told
    /// now, and not only then. What is found is of the agent as a whole: its shape has been checked before.
    pub(crate) async fn check_agent(&self, agent: &Agent) -> Result<(), Error> {
        let steps = json!([{ "id": "step", "agent": agent.name, "prompt": "work" }]);
        let agents = Map::from_iter([(agent.name.clone(), agent.definition.clone())]);
        let text = json!({ "name": "check", "agents": agents, "steps": steps }).to_string();
        let report = self.check_definition(Written { text, format: Some(Format::Native), lenient: false }).await?;
        if report.runs {
            return Ok(());
        }
        let of_agent =
            |found: Finding| Finding { severity: found.severity, help: found.help, ..Finding::whole(found.message) };
        Err(Error::Findings(report.findings.into_iter().map(of_agent).collect()))
    }

    fn part(&self, branch: Option<&str>, plan: &Plan, findings: &mut Vec<Finding>) -> Outline {
        let shown = plan.nodes.iter().filter(|node| !node.hidden);
        let steps = shown.map(|n| Planned { id: n.key.clone(), name: n.name.clone(), kind: n.kind.clone() });
        let mut triggers = Vec::new();
        for trigger in &plan.triggers {
            match self.times_of(trigger) {
                Ok(timed) => triggers.extend(timed),
                Err(text) => findings.push(Finding::whole(text)),
            }
        }
        Outline { branch: branch.map(str::to_owned), name: plan.name.clone(), steps: steps.collect(), triggers }
    }

    fn times_of(&self, trigger: &Trigger) -> Result<Option<Times>, String> {
        let now = self.core.clock.now();
        let schedule = schedule::parse(trigger, self.timezone(), now)?;
        Ok(schedule.map(|schedule| Times { what: schedule.describe(), next: schedule.next_times(now, SHOWN) }))
    }

    /// A definition of any format in the native one.
    pub async fn convert_definition(&self, written: Written, branch: Option<String>) -> Result<String, Error> {
        let Written { text, format, .. } = written;
        let library = Library::new(self.clone(), Uuid::now_v7(), None, text, format);
        let read = move || {
            let (source, options) = (library.source(), ReadOptions { format, branch });
            let converted = relais_dialects::convert(&source, &library, &options);
            converted.map_err(|problems| Error::Findings(Finding::all(&source, &problems)))
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| Error::Unusable(error.to_string()))?
    }

    /// The JSON Schema of the native format.
    pub fn definition_schema(&self) -> Value {
        relais_dialects::json_schema()
    }

    /// Every tool: built in, and of the MCP servers of the configuration. Servers that do not answer are told.
    pub async fn tools(&self) -> Result<Listed, Error> {
        tokio::time::timeout(LIST_TIMEOUT, self.core.definitions.tools.list()).await.map_err(late)
    }

    /// The tools of one MCP server.
    pub async fn tools_of(&self, server: &str) -> Result<Vec<ToolSpec>, Error> {
        let patterns = [format!("mcp:{server}/*")];
        let select = self.core.definitions.tools.select(&patterns);
        Ok(tokio::time::timeout(LIST_TIMEOUT, select).await.map_err(late)??)
    }

    /// The providers of models, whether each can be called, and the models whose prices are known.
    pub fn models(&self) -> Vec<models::Listed> {
        self.core.definitions.models.list()
    }
}

fn late(_: tokio::time::error::Elapsed) -> Error {
    Error::Busy(format!("the MCP servers did not answer within {} s", LIST_TIMEOUT.as_secs()))
}

impl Finding {
    /// An error of a text as a whole.
    fn whole(message: String) -> Finding {
        let (span, severity) = (Span::default(), Severity::Error);
        Finding { severity, line: None, column: None, span, path: None, message, help: None }
    }
}
