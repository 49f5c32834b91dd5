//! From kill -9 to all runs going again: each is in the middle of a model call that is never answered.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

use super::client::Connection;
use super::process::{Process, mebibytes};
use super::starts::flood;
use super::{emptied, title};
use crate::protocol::{Args, print as say};

const FLOW: &str = "\
name: interrupted
agents:
  speaker: { model: openai/gpt-4o-mini, instructions: Speak. }
steps:
  - { id: before, set: { n: 1 } }
  - { id: say, agent: speaker, prompt: Say hi }
";
/// Runs that are not going again after so long are not waited for.
const PATIENCE: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(20);

pub async fn print(args: &Args) -> Result<()> {
    let (runs, clients) = (args.number("interrupted")?.max(1), args.number("clients")?.max(1));
    title(&format!("e: kill -9 with {runs} unfinished runs"))?;
    let home = emptied("recovery")?;
    let model = format!("http://{}/v1", silent().await?);
    let environment = [("OPENAI_BASE_URL", model.as_str()), ("OPENAI_API_KEY", "none")];
    let first = Process::serve(&home, &environment)?;
    let mut connection = Connection::open(first.address).await?;
    connection.expect(201, "POST", "/api/v1/workflows", &json!({ "definition": FLOW })).await?;
    flood(first.address, "/api/v1/workflows/interrupted/run", clients, runs).await?;
    all_going(first.address, runs).await?;
    let memory = mebibytes(first.rss()?);
    let killed = Instant::now();
    drop(first);
    let second = Process::serve(&home, &environment)?;
    let listening = killed.elapsed();
    all_going(second.address, runs).await?;
    let going = killed.elapsed();
    say(&format!("the next server listens after {listening:.2?}; all runs are going after {going:.2?}"))?;
    say(&format!("memory: {memory:.1} MiB before, {:.1} MiB after", mebibytes(second.rss()?)))
}

/// A model that takes every request and answers none.
async fn silent() -> Result<SocketAddr> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        // Held open; their number is bounded by how many calls the server has under way.
        let mut held: Vec<TcpStream> = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    Ok(address)
}

/// Waits until each run has its model call under way, or in the queue for it.
async fn all_going(address: SocketAddr, runs: usize) -> Result<()> {
    let mut connection = Connection::open(address).await?;
    let until = Instant::now() + PATIENCE;
    loop {
        let (_, text) = connection.ask("GET", "/metrics", "").await?;
        let going = gauge(&text, "relais_governor_active") + gauge(&text, "relais_governor_waiting");
        if going as usize >= runs {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("only {going} of {runs} runs are going after {PATIENCE:?}");
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// The sum over all labels.
fn gauge(text: &str, name: &str) -> f64 {
    let values = text.lines().filter(|line| line.starts_with(name)).filter_map(|line| line.rsplit(' ').next());
    values.filter_map(|value| value.parse::<f64>().ok()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gauge_is_summed_over_its_labels() {
        let text = "# HELP a b\na{m=\"x\"} 2\na{m=\"y z\"} 3.5\nb 9\n";
        assert_eq!((gauge(text, "a"), gauge(text, "c")), (5.5, 0.0));
    }
}
