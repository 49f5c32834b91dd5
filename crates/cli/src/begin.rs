//! What a new run needs to be told: the file or the kept workflow, its input, which models and folder it uses.

use std::path::PathBuf;

use anyhow::bail;
use relais_dialects::Loader;
use relais_engine::{Mode, RunId};
use relais_plan::{Plan, Problem, Schema, Source};
use relais_service::{Begun, Error, Finding, ReadOptions, Service, Start, Text};
use serde_json::Value;

use crate::definition::{self, Written};
use crate::given;
use crate::remote::Client;
use crate::screen::{self, Paint};
use crate::session::Session;

/// Options of every command that starts a run.
#[derive(clap::Args)]
pub struct Begin {
    #[command(flatten)]
    written: Written,
    /// Text for the input `prompt` (or the only text input); `-` reads it from standard input
    prompt: Option<String>,
    /// An input; the value is JSON if it parses as JSON, else text. `@FILE` reads a JSON object. May be repeated
    #[arg(long, short, value_name = "NAME=VALUE|@FILE")]
    input: Vec<String>,
    /// Replace every model and tool by made-up answers that fit their schemas: no key, no cost
    #[arg(long)]
    simulate: bool,
    /// What simulated answers are made from; the same number gives the same answers
    #[arg(long, value_name = "N", requires = "simulate")]
    seed: Option<u64>,
    /// Use this model in place of every agent's own
    #[arg(long, value_name = "PROVIDER/MODEL")]
    model: Option<String>,
    /// A second start with the same key is the first run, not another one
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The conversation this run belongs to; `run.thread` in expressions
    #[arg(long, value_name = "THREAD", default_value = "", hide_default_value = true)]
    thread: String,
    /// A word of your own that the run is found by (`relais runs --tag`). May be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = relais_plan::tags::parse)]
    tag: Vec<(String, String)>,
    /// The folder that file tools see, instead of one of the run's own
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl Begin {
    /// The run that was started; none if the file has errors, which have been shown.
    pub async fn start(self, session: &Session) -> anyhow::Result<Option<RunId>> {
        match (session, self.kept_name()) {
            (Session::Local(service), None) => self.start_file(service).await,
            (Session::Remote(client), None) => self.send_file(client).await,
            (_, Some(name)) => self.start_kept(session, &name).await.map(Some),
        }
    }

    /// The name of a kept workflow, where the word is no file and does not look like one.
    fn kept_name(&self) -> Option<String> {
        let file = &self.written.file;
        let name = file.to_str()?;
        let looks_like_a_file = name.contains(['/', '\\']) || file.extension().is_some();
        (!looks_like_a_file && !file.exists()).then(|| name.to_owned())
    }

    async fn start_file(self, service: &Service) -> anyhow::Result<Option<RunId>> {
        let checked = definition::checked(service, &self.written, self.simulate, self.model.as_deref()).await?;
        match checked {
            Some(checked) => Ok(Some(service.start(&checked, self.told(checked.plan.input_schema.as_ref())?).await?)),
            None => Ok(None),
        }
    }

    /// The text goes to the server, which checks and runs it. Files that it names stay here.
    async fn send_file(self, client: &Client) -> anyhow::Result<Option<RunId>> {
        self.must_not_name_a_folder()?;
        let source = relais_service::source_of(&self.written.file)?;
        let options = self.written.reading.options();
        let schema = input_schema(&source, &options);
        let start = self.told(schema.as_ref())?;
        let text = Text { name: source.name.clone(), text: source.text.clone(), options };
        match client.start_text(&text, start).await {
            Ok(Begun { run, findings, warnings }) => {
                show(&source, findings);
                warnings.iter().for_each(|warning| screen::warning(warning));
                Ok(Some(run))
            }
            Err(Error::Findings(findings)) => {
                show(&source, findings);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn start_kept(self, session: &Session, name: &str) -> anyhow::Result<RunId> {
        if let Session::Remote(_) = session {
            self.must_not_name_a_folder()?;
        }
        let options = self.written.reading.options();
        let kept = session.kept_text(name).await.map_err(|error| no_such(name, error))?;
        let schema = kept.and_then(|source| input_schema(&source, &options));
        let start = self.told(schema.as_ref())?;
        let run = session.start_workflow(name, options.branch.as_deref(), start).await?;
        session.row(run).await?.summary.target.drift.iter().for_each(|drift| screen::warning(drift));
        Ok(run)
    }

    fn must_not_name_a_folder(&self) -> anyhow::Result<()> {
        if self.workspace.is_some() {
            bail!("--workspace names a folder of this machine, which a server does not see; leave it out");
        }
        Ok(())
    }

    fn told(self, schema: Option<&Schema>) -> anyhow::Result<Start> {
        let mut input = given::pairs(&self.input, schema)?;
        if let Some(prompt) = given::prompt(self.prompt.as_deref())? {
            given::place(prompt, schema, &mut input)?;
        }
        let workspace = self.workspace.map(std::path::absolute).transpose()?;
        let mode = Mode {
            simulate: self.simulate,
            seed: self.seed,
            model: self.model,
            workspace: workspace.map(|folder| folder.display().to_string()),
            made_up: Vec::new(),
        };
        let (input, tags) = (Value::Object(input), self.tag.into_iter().collect());
        Ok(Start { input, mode, thread: self.thread, tags, key: self.key, ..Start::default() })
    }
}

fn no_such(name: &str, error: Error) -> Error {
    match error {
        Error::NotFound(_) => {
            let text = format!("there is no file {name}, and no kept workflow of this id, alias or name");
            Error::NotFound(format!("{text}; `relais workflows` lists those that are kept"))
        }
        other => other,
    }
}

/// What is not right with a text that a server has read, as it is shown of a file that was read here.
pub fn show(source: &Source, findings: Vec<Finding>) {
    let problems: Vec<Problem> = findings.into_iter().map(problem).collect();
    if !problems.is_empty() {
        screen::note(&screen::colored(&source.render(&problems, Paint::stderr().0)));
    }
}

fn problem(found: Finding) -> Problem {
    let Finding { severity, span, message, help, .. } = found;
    Problem { severity, span, message, help }
}

/// What the text says of its input, as far as that can be told here: words are read as it wants them.
fn input_schema(source: &Source, options: &ReadOptions) -> Option<Schema> {
    let plan: Option<Plan> = relais_dialects::read(source, &Alone, options).plan;
    plan.and_then(|plan| plan.input_schema)
}

/// Only the server has what a text refers to.
struct Alone;

impl Loader for Alone {
    fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
        Err(format!("{reference} is not read here"))
    }
}
