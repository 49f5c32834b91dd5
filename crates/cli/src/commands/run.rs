//! `relais run`: a workflow file from its text to its result.

use std::path::PathBuf;

use relais_engine::Mode;
use relais_service::{Checked, Service, Start};
use serde_json::Value;

use crate::attend::{Manner, attend};
use crate::exit::Exit;
use crate::progress::Style;
use crate::session::Global;
use crate::{definition, detach, given, screen};

/// Run a workflow file and print its result
///
/// The result goes to standard output, progress and everything else to standard error. Every model reply and tool
/// result is kept before anything follows from it: after a crash, `relais resume` goes on where the run was.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais run flow.yaml \"What moved today?\"
  cat question.txt | relais run flow.yaml -
  relais run flow.yaml --input products='[\"jug\", \"cup\"]' --input @more.json
  relais run flow.yaml --simulate --seed 7
  relais run flow.yaml --detach")]
pub struct Args {
    /// Workflow file
    file: PathBuf,
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
    /// One JSON object per event on standard output, the last one with the result
    #[arg(long)]
    json: bool,
    /// Leave the work to a background process and print the run's id at once
    #[arg(long, conflicts_with_all = ["json", "wait"])]
    detach: bool,
    /// A second start with the same key is the first run, not another one
    #[arg(long, value_name = "KEY")]
    key: Option<String>,
    /// The conversation this run belongs to; `run.thread` in expressions
    #[arg(long, value_name = "THREAD", default_value = "", hide_default_value = true)]
    thread: String,
    /// The folder that file tools see, instead of one of the run's own
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Stay while the run waits for a person, a signal or an event
    #[arg(long)]
    wait: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    if args.detach {
        return global.hand_over(async |service: &Service| start_and_leave(args, service).await);
    }
    let verbose = global.verbose;
    global.serve(async |service: &Service| {
        let Some(checked) = definition::checked(service, &args.file, args.simulate, args.model.as_deref()).await?
        else {
            return Ok(Exit::Usage);
        };
        let manner = Manner { style: Style::of(args.json), verbose, wait: args.wait };
        let run = service.start(&checked, start(args, &checked)?).await?;
        attend(service, run, 0, manner).await
    })
}

async fn start_and_leave(args: Args, service: &Service) -> anyhow::Result<Exit> {
    let Some(checked) = definition::checked(service, &args.file, args.simulate, args.model.as_deref()).await? else {
        return Ok(Exit::Usage);
    };
    let run = service.start(&checked, start(args, &checked)?).await?;
    if !service.row(run).await?.summary.status.is_final() {
        detach::work_on(service.config(), run)?;
    }
    screen::out(&run.to_string())?;
    Ok(Exit::Done)
}

fn start(args: Args, checked: &Checked) -> anyhow::Result<Start> {
    let mut input = given::pairs(&args.input, checked.plan.input_schema.as_ref())?;
    if let Some(prompt) = given::prompt(args.prompt.as_deref())? {
        given::place(prompt, checked.plan.input_schema.as_ref(), &mut input)?;
    }
    let workspace = args.workspace.map(std::path::absolute).transpose()?;
    let mode = Mode {
        simulate: args.simulate,
        seed: args.seed,
        model: args.model,
        workspace: workspace.map(|folder| folder.display().to_string()),
    };
    Ok(Start { input: Value::Object(input), mode, thread: args.thread, key: args.key })
}
