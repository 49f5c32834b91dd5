//! `relais event`: says that something happened.

use relais_engine::RunId;
use relais_server::views::{EventEffects, Reaction};
use relais_service::Happened;
use serde::Serialize;
use serde_json::Value;

use crate::exit::Exit;
use crate::lists::{List, json_lines};
use crate::session::{Global, Session};
use crate::{given, screen, words};

/// Publish an event: it starts the triggers for its type and wakes the runs that wait for it
///
/// The runs go on in the background. What has to wait for another run is started by `relais serve`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais event order.paid '{\"order\": 17}'
  relais event order.paid @order.json --id order-17")]
pub struct Args {
    /// What happened, as triggers and steps that wait name it
    #[arg(value_name = "TYPE")]
    kind: String,
    /// What is known of it: JSON if it parses as JSON, else text; @FILE reads it from a file, - from standard input
    data: Option<String>,
    /// The same id again is the same event again: it has its effects once
    #[arg(long)]
    id: Option<String>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    let data = args.data.as_deref().map_or(Ok(Value::Null), given::data)?;
    let happened = Happened { kind: args.kind, data, id: args.id };
    let effects = global.hand_over(async |session: &Session| {
        let effects = session.publish_event(happened).await?;
        go_on(session, &effects).await?;
        Ok(effects)
    })?;
    if effects.repeated {
        screen::note("an event of this id was published before; this is what it did then");
    }
    if args.json {
        return json_lines(&[effects]);
    }
    let none = "no trigger is for it, and no run waits for it";
    let list = List { items: &lines(&effects), more: false, json: false, none };
    list.show(["EFFECT", "WORKFLOW", "RUN", "WHY"], cells)
}

/// Sees to it that somebody works on the runs. Those of an event that was published before are cared for already.
async fn go_on(session: &Session, effects: &EventEffects) -> anyhow::Result<()> {
    if effects.repeated {
        return Ok(());
    }
    let started = effects.started.iter().filter_map(|reaction| reaction.run);
    for run in started.chain(effects.woken.iter().copied()) {
        let root = session.root_of(run).await?;
        if session.is_left_alone(root).await? {
            session.leave(root)?;
        }
    }
    Ok(())
}

/// One thing that it did, or did not.
#[derive(Serialize)]
struct Line {
    effect: &'static str,
    workflow: String,
    run: Option<RunId>,
    reason: String,
}

fn lines(effects: &EventEffects) -> Vec<Line> {
    let line = |effect, one: &Reaction| Line {
        effect,
        workflow: if one.workflow.is_empty() { one.workflow_id.to_string() } else { one.workflow.clone() },
        run: one.run,
        reason: one.reason.clone(),
    };
    let started = effects.started.iter().map(|one| line(if one.run.is_some() { "started" } else { "queued" }, one));
    let declined = effects.declined.iter().map(|one| line("declined", one));
    let woken = effects.woken.iter().map(|run| {
        let reason = "it waited for this event".to_owned();
        Line { effect: "woken", workflow: String::new(), run: Some(*run), reason }
    });
    woken.chain(started).chain(declined).collect()
}

fn cells(line: &Line) -> [String; 4] {
    let run = line.run.map(|run| run.to_string()).unwrap_or_default();
    [line.effect.to_owned(), line.workflow.clone(), run, words::shorten(&line.reason, 100)]
}
