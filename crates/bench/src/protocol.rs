//! How the driver talks to an adapter.

use std::future::Future;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub struct Args {
    pub work: String,
    /// What comes between the work and the parameters.
    pub parts: Vec<String>,
    parameters: Value,
}

impl Args {
    pub fn read() -> Result<Args> {
        let mut words = std::env::args().skip(1);
        let work = words.next().context("usage: relais-bench W1..W7|limits|load|edges|server [PART…] [JSON]")?;
        let mut parameters = json!({ "steps": 100, "runs": 1000, "branches": 1000, "conc": 16, "nodes": 1000, "records": 1000, "rounds": 15 });
        match work.as_str() {
            "W2" => parameters["steps"] = json!(10),
            "W4" => (parameters["runs"], parameters["conc"]) = (json!(200), json!(64)),
            "W5" => parameters["runs"] = json!(10_000),
            "W7" => parameters["steps"] = json!(2_000),
            "server" => parameters = server(),
            _ => {}
        }
        let (given, parts): (Vec<String>, Vec<String>) = words.partition(|word| word.starts_with('{'));
        for text in given {
            let given: Value = serde_json::from_str(&text).context("the parameters are not JSON")?;
            for (key, value) in given.as_object().into_iter().flatten() {
                parameters[key] = value.clone();
            }
        }
        Ok(Args { work, parts, parameters })
    }

    pub fn number(&self, name: &str) -> Result<usize> {
        let number = self.parameters[name].as_u64().with_context(|| format!("`{name}` must be a number"))?;
        Ok(number as usize)
    }
}

/// The measurement of servers has words of its own; `lead` is in seconds.
fn server() -> Value {
    json!({
        "clients": 64, "starts": 20_000, "listed": 1_000_000, "pages": 300, "schedules": 100_000, "due": 1_000,
        "lead": 30, "watchers": 1_000, "items": 500, "interrupted": 10_000, "streams": 10_000,
    })
}

pub fn folder() -> std::path::PathBuf {
    std::env::var_os("BENCH_DATA").map_or_else(|| std::env::temp_dir().join("relais-bench"), Into::into)
}

/// Says a word to the driver and waits until it has read its meters.
pub fn mark(word: &str) -> Result<()> {
    print(word)?;
    std::io::stdin().lock().read_line(&mut String::new())?;
    Ok(())
}

pub async fn timed<T>(work: impl Future<Output = T>) -> Result<(Duration, T)> {
    mark("@begin")?;
    let start = Instant::now();
    let done = work.await;
    let wall = start.elapsed();
    mark("@end")?;
    Ok((wall, done))
}

pub fn result(wall: Duration, mut figures: Value) -> Result<()> {
    figures["wall"] = json!(wall.as_secs_f64());
    print(&format!("@result {figures}"))
}

pub fn print(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}
