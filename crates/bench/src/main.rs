//! Our adapter of the side-by-side benchmark: `relais-bench <workload> [json-params]` over the real engine, the real
//! SQLite store with `synchronous=FULL` and the real model client. `relais-bench limits` prints the bare baseline,
//! `relais-bench load` what loading files costs, `relais-bench edges` what checking a value and finding one costs,
//! `relais-bench server` what a server costs.
//!
//! The protocol: `@begin` and `@end` around the timed phase, a line on standard input after each, then `@result {…}`.

mod edges;
mod limits;
mod load;
mod protocol;
mod rig;
mod server;

use std::sync::Arc;

use anyhow::{Result, bail};
use serde_json::json;

use protocol::{Args, mark, result, timed};
use rig::{Rig, Stamps};

/// Threads for everything but the store's writer, which has its own.
const THREADS: usize = 2;

fn main() -> Result<()> {
    let args = Args::read()?;
    match args.work.as_str() {
        "limits" => return limits::print(&protocol::folder()),
        "load" => return load::print(&args),
        "edges" => return edges::print(&args),
        _ => {}
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(THREADS).enable_all().build()?;
    runtime.block_on(measure(&args))?;
    // Open files and sleeping tasks are nobody's any more.
    std::process::exit(0)
}

async fn measure(args: &Args) -> Result<()> {
    match args.work.as_str() {
        "server" => return server::print(args).await,
        "bare" => return server::bare(&protocol::folder()).await,
        _ => {}
    }
    let stamps = Stamps::default();
    let rig = Arc::new(Rig::open(stamps.clone())?);
    match args.work.as_str() {
        "W1" => chain(args, &rig, args.number("steps")?).await,
        "W2" => many(args, &rig).await,
        "W3" => lanes(args, &rig).await,
        "W4" => agents(args, &rig).await,
        "W5" => waiting(args, &rig).await,
        "W6" => cold(&rig).await,
        "W7" => growth(args, &rig, &stamps).await,
        other => bail!("there is no workload {other}; W1 to W7, limits, load, edges or server"),
    }
}

/// One run, a chain of steps.
async fn chain(_args: &Args, rig: &Arc<Rig>, steps: usize) -> Result<()> {
    let plan = rig.publish(&rig::chain(steps)).await?;
    rig.run(&plan).await?;
    let (wall, done) = timed(rig.run(&plan)).await?;
    done?;
    result(wall, json!({ "steps": steps }))
}

/// Many runs of a few steps, so many at a time.
async fn many(args: &Args, rig: &Arc<Rig>) -> Result<()> {
    let (runs, steps) = (args.number("runs")?, args.number("steps")?);
    let plan = rig.publish(&rig::chain(steps)).await?;
    rig.run(&plan).await?;
    let (wall, done) = timed(rig::gather(rig, &plan, runs, args.number("conc")?)).await?;
    done?;
    result(wall, json!({ "steps": runs * steps }))
}

/// One run with many lanes and a join.
async fn lanes(args: &Args, rig: &Arc<Rig>) -> Result<()> {
    let branches = args.number("branches")?;
    let plan = rig.publish(&rig::lanes(branches)).await?;
    rig.run(&plan).await?;
    let (wall, done) = timed(rig.run(&plan)).await?;
    done?;
    result(wall, json!({ "steps": branches }))
}

/// Three agents in a row, each asking the model, a tool, and the model again.
async fn agents(args: &Args, rig: &Arc<Rig>) -> Result<()> {
    let runs = args.number("runs")?;
    let plan = rig.publish(rig::AGENTS).await?;
    rig.run(&plan).await?;
    let (wall, done) = timed(rig::gather(rig, &plan, runs, args.number("conc")?)).await?;
    done?;
    result(wall, json!({ "runs": runs, "calls": 6 * runs }))
}

/// Runs that wait for an hour.
async fn waiting(args: &Args, rig: &Arc<Rig>) -> Result<()> {
    let runs = args.number("runs")?;
    let plan = rig.publish(rig::WAITING).await?;
    rig.wait_for_many(&plan, 64, args.number("conc")?).await?;
    let (wall, done) = timed(rig.wait_for_many(&plan, runs, args.number("conc")?)).await?;
    done?;
    result(wall, json!({ "waiting": runs }))
}

/// From the start of the process to the end of a run of one step.
async fn cold(rig: &Arc<Rig>) -> Result<()> {
    let plan = rig.publish(&rig::chain(1)).await?;
    rig.run(&plan).await?;
    mark("@done")
}

/// A long chain: what the last steps cost, compared to the first.
async fn growth(args: &Args, rig: &Arc<Rig>, stamps: &Stamps) -> Result<()> {
    let steps = args.number("steps")?;
    let plan = rig.publish(&rig::chain(steps)).await?;
    stamps.clear();
    let (wall, done) = timed(rig.run(&plan)).await?;
    done?;
    let mut figures = stamps.first_and_last();
    figures["steps"] = json!(steps);
    result(wall, figures)
}
