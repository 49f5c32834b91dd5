//! What a page of runs costs in a large database, for every kind of filter, over HTTP and from the store alone.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use relais_engine::RunId;
use relais_engine::RunStatus::{self, Cancelled, Failed, Running, Waiting};
use relais_plan::time::format_instant;
use relais_store::{Filter, Options, SqliteStore, Store};

use super::client::Connection;
use super::fill::{USER, fill, workflow};
use super::process::Process;
use super::{Times, emptied, title};
use crate::protocol::{Args, folder, print as say};

/// A filter as bad as that need not be asked for again and again.
const LONG_ENOUGH: Duration = Duration::from_secs(10);
/// Runs whose start lies in the window of time that is asked for.
const WINDOW_MS: i64 = 5_000;
/// Of the filled database: it is whole. Filling takes minutes, so it is kept for the next time.
const WHOLE: &str = "whole";

pub async fn print(args: &Args) -> Result<()> {
    let (runs, pages) = (args.number("listed")?.max(1), args.number("pages")?.max(1));
    title(&format!("b: pages of {runs} runs, {pages} of each kind"))?;
    let home = home(runs).await?;
    let store = SqliteStore::open(home.join("relais.db"), Options::default())?;
    let server = Process::serve(&home, &[])?;
    let mut connection = Connection::open(server.address).await?;
    let (over_http, alone) = ("HTTP p50 ms", "store p50 ms");
    say(&format!("{:<36} {:>5} {over_http:>12} {:>8} {alone:>13} {:>8} {:>7}", "", "rows", "p99", "p99", ": store"))?;
    for asked in asked(runs) {
        say(&row(&mut connection, &store, &asked, pages).await?)?;
    }
    Ok(())
}

/// A home folder with so many runs, made now or earlier.
async fn home(runs: usize) -> Result<PathBuf> {
    let name = format!("pages-{runs}");
    if folder().join(&name).join(WHOLE).exists() {
        return Ok(folder().join(name));
    }
    let home = emptied(&name)?;
    let start = Instant::now();
    fill(&home.join("relais.db"), runs).await?;
    std::fs::write(home.join(WHOLE), "")?;
    say(&format!("{runs} runs written in {:.1?}", start.elapsed()))?;
    Ok(home)
}

async fn row(connection: &mut Connection, store: &SqliteStore, asked: &Asked, pages: usize) -> Result<String> {
    let path = format!("/api/v1/runs?limit={LIMIT}&{}", asked.query());
    let filter = Filter { user: Some(USER.to_owned()), limit: LIMIT, ..asked.filter.clone() };
    let (mut over_http, mut alone) = (Times::default(), Times::default());
    let (mut rows, start) = (0, Instant::now());
    for _ in 0..pages {
        let asked_at = Instant::now();
        let page = connection.get(&path).await?;
        over_http.0.push(asked_at.elapsed());
        let asked_at = Instant::now();
        rows = store.list(filter.clone()).await?.rows.len();
        alone.0.push(asked_at.elapsed());
        let found = page["items"].as_array().with_context(|| format!("{path}: {page}"))?.len();
        anyhow::ensure!(found == rows, "{path}: {found} rows, and {rows} from the store");
        if start.elapsed() > LONG_ENOUGH {
            break;
        }
    }
    let [p50, p99, bare, bare_p99] = [over_http.ms(0.5), over_http.ms(0.99), alone.ms(0.5), alone.ms(0.99)];
    let ratio = p50 / bare;
    Ok(format!("{:<36} {rows:>5} {p50:>12.2} {p99:>8.2} {bare:>13.2} {bare_p99:>8.2} {ratio:>7.2}", asked.name))
}

/// Rows on a page.
const LIMIT: usize = 100;

/// What is asked for, in the words of the store; the words of the API follow from it.
struct Asked {
    name: &'static str,
    filter: Filter,
}

impl Asked {
    fn query(&self) -> String {
        let filter = &self.filter;
        let statuses: Vec<&str> = filter.status.iter().map(|status| status.word()).collect();
        let moment = |at: i64| format_instant(at);
        let parts = [
            ("workflow", filter.workflow_id.clone().or_else(|| filter.workflow.clone())),
            ("thread", filter.thread.clone()),
            ("status", (!statuses.is_empty()).then(|| statuses.join(","))),
            ("roots_only", filter.roots_only.then(|| "true".to_owned())),
            ("started_after", filter.started_after.map(moment)),
            ("started_before", filter.started_before.map(moment)),
            ("cursor", filter.cursor.clone()),
        ];
        let said = parts.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value?.replace(' ', "%20"))));
        said.collect::<Vec<_>>().join("&")
    }
}

fn asked(runs: usize) -> Vec<Asked> {
    let all = Filter::default;
    let text = |text: &str| Some(text.to_owned());
    let middle = runs as i64 / 2;
    let large = || Filter { workflow_id: Some(workflow(0)), ..all() };
    let small = || Filter { workflow_id: Some(workflow(77)), ..all() };
    let of = |statuses: &[RunStatus], filter: Filter| Filter { status: statuses.to_vec(), ..filter };
    let rare = |filter: Filter| of(&[Cancelled], filter);
    let roots = |filter: Filter| Filter { roots_only: true, ..filter };
    let window = |filter| Filter { started_after: Some(middle), started_before: Some(middle + WINDOW_MS), ..filter };
    let deep = |filter| Filter { cursor: Some(format!("{}.{}", middle, RunId::nil().simple())), ..filter };
    let thread = || Filter { thread: text("thread 0"), ..all() };
    let list = [
        ("all", all()),
        ("all, half way", deep(all())),
        ("roots", roots(all())),
        ("roots, half way", deep(roots(all()))),
        ("rare status", rare(all())),
        ("rare status, half way", deep(rare(all()))),
        ("roots, three statuses", roots(of(&[Running, Waiting, Failed], all()))),
        ("window", window(all())),
        ("window, roots", window(roots(all()))),
        ("large workflow", large()),
        ("large workflow, half way", deep(large())),
        ("large workflow, roots", roots(large())),
        ("large workflow, rare, window", window(rare(large()))),
        ("small workflow", small()),
        ("small workflow, roots", roots(small())),
        ("name", Filter { workflow: text("report 0"), ..all() }),
        ("thread", thread()),
        ("thread, half way", deep(thread())),
        ("thread, roots", roots(thread())),
        ("thread, no such workflow", Filter { workflow_id: Some(RunId::max().to_string()), ..thread() }),
    ];
    list.into_iter().map(|(name, filter)| Asked { name, filter }).collect()
}
