//! What a new run needs to be told: the file, its input, which models and folder it uses.

use std::path::PathBuf;

use relais_engine::Mode;
use relais_service::{Checked, Start};
use serde_json::Value;

use crate::definition::{self, Written};
use crate::given;
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
    /// The folder that file tools see, instead of one of the run's own
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
}

impl Begin {
    /// The run that was started; none if the file has errors, which have been shown.
    pub async fn start(self, session: &Session) -> anyhow::Result<Option<relais_engine::RunId>> {
        let service = session.local("`run FILE`")?;
        let checked = definition::checked(service, &self.written, self.simulate, self.model.as_deref()).await?;
        match checked {
            Some(checked) => Ok(Some(service.start(&checked, self.told(&checked)?).await?)),
            None => Ok(None),
        }
    }

    fn told(self, checked: &Checked) -> anyhow::Result<Start> {
        let mut input = given::pairs(&self.input, checked.plan.input_schema.as_ref())?;
        if let Some(prompt) = given::prompt(self.prompt.as_deref())? {
            given::place(prompt, checked.plan.input_schema.as_ref(), &mut input)?;
        }
        let workspace = self.workspace.map(std::path::absolute).transpose()?;
        let mode = Mode {
            simulate: self.simulate,
            seed: self.seed,
            model: self.model,
            workspace: workspace.map(|folder| folder.display().to_string()),
        };
        Ok(Start { input: Value::Object(input), mode, thread: self.thread, key: self.key, trigger: None })
    }
}
