//! How the driver talks to an adapter.

use std::future::Future;
use std::io::{BufRead, Write};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};

pub struct Args {
    pub work: String,
    parameters: Value,
}

impl Args {
    pub fn read() -> Result<Args> {
        let mut words = std::env::args().skip(1);
        let work = words.next().context("usage: relais-bench W1..W7|limits|load [JSON]")?;
        let mut parameters = json!({ "steps": 100, "runs": 1000, "branches": 1000, "conc": 16, "nodes": 1000, "records": 1000, "rounds": 15 });
        match work.as_str() {
            "W2" => parameters["steps"] = json!(10),
            "W4" => (parameters["runs"], parameters["conc"]) = (json!(200), json!(64)),
            "W5" => parameters["runs"] = json!(10_000),
            "W7" => parameters["steps"] = json!(2_000),
            _ => {}
        }
        if let Some(text) = words.next() {
            let given: Value = serde_json::from_str(&text).context("the parameters are not JSON")?;
            for (key, value) in given.as_object().into_iter().flatten() {
                parameters[key] = value.clone();
            }
        }
        Ok(Args { work, parameters })
    }

    pub fn number(&self, name: &str) -> Result<usize> {
        let number = self.parameters[name].as_u64().with_context(|| format!("`{name}` must be a number"))?;
        Ok(number as usize)
    }
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
