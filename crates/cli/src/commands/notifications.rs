//! `relais notifications`: what people are told of ended runs.

use relais_server::views::NotificationRow;
use uuid::Uuid;

use crate::exit::Exit;
use crate::lists::List;
use crate::session::{Global, Session};
use crate::{screen, words};

/// List what was told of ended runs, and mark it as read
///
/// Failures are told unless a workflow says otherwise, completed runs if it says so (`notify`).
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais notifications --unread
  relais notifications read 0190a0b0-c0d0-7000-8000-00000000000a
  relais notifications read --all")]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
    /// Only those that were not read yet
    #[arg(long)]
    unread: bool,
    /// One JSON object per notification
    #[arg(long)]
    json: bool,
    /// At most so many
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
}

#[derive(clap::Subcommand)]
enum What {
    /// Mark notifications as read
    Read {
        /// The ids, as `relais notifications` shows them
        #[arg(value_name = "NOTIFICATION", required_unless_present = "all", conflicts_with = "all")]
        ids: Vec<Uuid>,
        /// All of them
        #[arg(long)]
        all: bool,
        /// As unread again
        #[arg(long, conflicts_with = "all")]
        not: bool,
    },
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| match args.what {
        None => list(session, args.unread, usize::from(args.limit), args.json).await,
        Some(What::Read { all: true, .. }) => {
            let marked = session.mark_all_notifications().await?;
            screen::note(&format!("{} marked as read", words::counted(marked, "notification")));
            Ok(Exit::Done)
        }
        Some(What::Read { ids, all: false, not }) => {
            for id in ids {
                session.mark_notification(id, !not).await?;
                screen::note(&format!("{id} is {}", if not { "unread" } else { "read" }));
            }
            Ok(Exit::Done)
        }
    })
}

async fn list(session: &Session, unread: bool, limit: usize, json: bool) -> anyhow::Result<Exit> {
    let (found, more) = session.notifications(unread, limit).await?;
    let none = if unread { "nothing new" } else { "no notifications" };
    List { items: &found, more, json, none }.show(["NOTIFICATION", "AT", "READ", "TITLE", "TEXT"], cells)
}

fn cells(one: &NotificationRow) -> [String; 5] {
    let read = if one.read { "yes" } else { "no" };
    [
        one.id.to_string(),
        one.at.clone(),
        read.to_owned(),
        words::shorten(&one.title, 60),
        words::shorten(&one.text, 160),
    ]
}
