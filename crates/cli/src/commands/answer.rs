//! `relais answer`: a person's answer to what a run asks.

use anyhow::bail;
use relais_engine::RunId;
use relais_service::Waits;
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::onward::{Onward, Spoken};
use crate::session::{Global, Session};
use crate::{questions, screen, which};

/// Answer a question of a run, or approve a tool call; without a value, list the open questions
///
/// The value is read as the question wants it: yes, no, true or false for an approval; text as it is where text is
/// asked for; else JSON.
#[derive(clap::Args)]
#[command(
    override_usage = "relais answer [OPTIONS] <RUN|--last> [VALUE]",
    after_help = "\
Examples:
  relais answer --last
  relais answer --last yes
  relais answer 0198c9d2 --step approve '{\"approved\": true}'
  relais answer --last yes --arguments '{\"amount\": 20}'
  relais answer --last no --reason 'too much'
  relais answer 0190a0b0-c0d0-7000-8000-00000000000a.3 yes      # as `relais questions` shows it"
)]
pub struct Args {
    /// The run (unless --last) and the answer
    #[arg(value_name = "RUN VALUE", num_args = 0..=2)]
    words: Vec<String>,
    /// The newest run
    #[arg(long)]
    last: bool,
    /// Which question, where several are open: the step that asks
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Approve the tool call with these arguments instead
    #[arg(long, value_name = "JSON")]
    arguments: Option<String>,
    /// Tell the agent why
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    onward: Onward,
}

pub fn run(mut args: Args, global: &Global) -> anyhow::Result<Exit> {
    let (run, mut words) = which::split(args.last, std::mem::take(&mut args.words))?;
    let value = words.pop();
    if !words.is_empty() {
        bail!("too many words; with --last leave out the run: relais answer --last [VALUE]");
    }
    let Some(value) = value else {
        if run.as_deref().is_some_and(is_question) {
            bail!("say the answer: relais answer QUESTION VALUE; `relais questions` shows what is wanted");
        }
        return list(run.as_deref(), global);
    };
    if let Some(id) = run.as_deref().filter(|run| is_question(run)) {
        return args.onward.serve(global, async |session: &Session| listed(session, id, &value, &args).await);
    }
    args.onward.serve(global, async |session: &Session| {
        let run = session.find_run(run.as_deref()).await?;
        let (owner, waits) = meant(session, run, args.step.as_deref()).await?;
        let answer = answer(&waits, &value, &args)?;
        let spoken = Spoken::before(session, owner).await?;
        session.answer(owner, Some(&waits.command.to_string()), answer).await?;
        Ok(Some(spoken))
    })
}

/// Ids of runs have no dots.
fn is_question(text: &str) -> bool {
    text.contains('.')
}

/// Answers a question as `relais questions` names it. Somebody else's run goes on without us.
async fn listed(session: &Session, id: &str, value: &str, args: &Args) -> anyhow::Result<Option<Spoken>> {
    let question = session.question(id).await?;
    let answer = answer(&questions::waits(&question), value, args)?;
    let spoken = Spoken::before(session, question.run).await.unwrap_or_else(|_| Spoken::elsewhere(question.run));
    session.answer_question(id, answer).await?;
    if !spoken.is_ours {
        screen::note(&format!("answered; the run of {} goes on", words::line(&question.user)));
    }
    Ok(Some(spoken))
}

fn list(run: Option<&str>, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| {
        let run = session.find_run(run).await?;
        let open = session.open_questions(run).await?;
        if open.is_empty() {
            screen::note(&format!("run {run} asks nothing"));
        }
        for (owner, waits) in open {
            screen::out(&questions::question(owner, &waits))?;
        }
        Ok(Exit::Done)
    })
}

/// The question that is meant, of the run or of a run that it waits for.
async fn meant(session: &Session, run: RunId, step: Option<&str>) -> anyhow::Result<(RunId, Waits)> {
    let fits = |waits: &Waits| step.is_none_or(|s| waits.step == s || waits.command.to_string() == s);
    let open = session.open_questions(run).await?;
    let known: Vec<String> = open.iter().map(|(_, w)| w.step.clone()).collect();
    let mut found: Vec<(RunId, Waits)> = open.into_iter().filter(|(_, waits)| fits(waits)).collect();
    match (found.pop(), found.is_empty()) {
        (Some(one), true) => Ok(one),
        (Some(_), false) => bail!("several questions are open; say which with --step: {}", known.join(", ")),
        (None, _) if known.is_empty() => bail!("run {run} asks nothing"),
        (None, _) => bail!("run {run} does not ask that; open questions: {}", known.join(", ")),
    }
}

fn answer(waits: &Waits, written: &str, args: &Args) -> anyhow::Result<Value> {
    let approval = waits.question.approves.is_some();
    if !approval && (args.arguments.is_some() || args.reason.is_some()) {
        bail!("--arguments and --reason are for the approval of a tool call; this is a question: answer it");
    }
    let value = waits.read(written);
    if args.arguments.is_none() && args.reason.is_none() {
        return Ok(value);
    }
    let mut answer = json!({ "approve": value });
    if let Some(arguments) = &args.arguments {
        let parsed = serde_json::from_str(arguments);
        answer["arguments"] = parsed.map_err(|e| anyhow::anyhow!("--arguments is not JSON: {e}"))?;
    }
    if let Some(reason) = &args.reason {
        answer["reason"] = json!(reason);
    }
    Ok(answer)
}
