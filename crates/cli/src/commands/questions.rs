//! `relais questions`: what people are asked, over all runs.

use relais_server::views::OpenQuestionView;

use crate::exit::Exit;
use crate::questions;
use crate::screen;
use crate::session::{Global, Session};
use crate::words;

/// List what you are asked, over all runs: questions, and tool calls that wait for a yes
///
/// Each comes with the command that answers it.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais questions
  relais questions --json | jq -r .id
  relais answer 0190a0b0-c0d0-7000-8000-00000000000a.3 yes")]
pub struct Args {
    /// One JSON object per question
    #[arg(long)]
    json: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.hand_over(async |session: &Session| {
        let (found, more) = session.all_questions(usize::from(args.limit)).await?;
        for question in &found {
            match args.json {
                true => screen::data(&serde_json::to_string(question)?)?,
                false => screen::out(&block(question))?,
            }
        }
        if found.is_empty() && !args.json {
            screen::note("nobody asks you anything");
        }
        if more {
            screen::note("there are more; --limit shows them");
        }
        Ok(Exit::Done)
    })
}

fn block(question: &OpenQuestionView) -> String {
    let waits = questions::waits(question);
    let mut lines = questions::asked(&waits);
    let of = format!("{}, step {}, asked {}", question.workflow, question.step, question.asked_at);
    lines.insert(1, format!("  {}", words::line(&of)));
    if question.approvals > 1 {
        let who: Vec<&str> = question.approved_by.iter().map(|yes| yes.user.as_str()).collect();
        let who = if who.is_empty() { "nobody".to_owned() } else { who.join(", ") };
        lines.push(format!("  {} people must say yes; so far: {}", question.approvals, words::line(&who)));
    }
    lines.push(format!("  relais answer {} {}\n", question.id, questions::example(&waits)));
    lines.join("\n")
}
