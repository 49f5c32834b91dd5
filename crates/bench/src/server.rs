//! What a server costs: `relais serve` as a process of its own, asked over HTTP, with the bare cost of the same thing
//! in the same run where there is one. `relais-bench server [a] [b] … [JSON]`; without a letter, all parts.

mod client;
mod crowds;
mod fill;
mod pages;
mod process;
mod recovery;
mod starts;
mod ticks;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use crate::protocol::{Args, folder, print as say};

pub use starts::bare;

const PARTS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

pub async fn print(args: &Args) -> Result<()> {
    process::raise_limit()?;
    let all = PARTS.map(str::to_owned).to_vec();
    for part in if args.parts.is_empty() { &all } else { &args.parts } {
        match part.as_str() {
            "a" => starts::print(args).await?,
            "b" => pages::print(args).await?,
            "c" => ticks::print(args).await?,
            "d" => crowds::busy(args).await?,
            "e" => recovery::print(args).await?,
            "f" => crowds::idle(args).await?,
            other => bail!("there is no part {other}; there are: {}", PARTS.join(", ")),
        }
    }
    Ok(())
}

/// An empty folder for one measurement.
fn emptied(name: &str) -> Result<PathBuf> {
    let path = folder().join(name);
    if path.exists() {
        std::fs::remove_dir_all(&path)?;
    }
    std::fs::create_dir_all(&path)?;
    Ok(path)
}

fn title(text: &str) -> Result<()> {
    say(&format!("\n{text}"))
}

/// How long something took, again and again.
#[derive(Default)]
struct Times(Vec<Duration>);

impl Times {
    fn ms(&mut self, part: f64) -> f64 {
        self.0.sort_unstable();
        let place = (self.0.len().saturating_sub(1) as f64 * part).round() as usize;
        self.0.get(place).map_or(f64::NAN, |time| time.as_secs_f64() * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_what_was_measured() {
        let mut times = Times((1..=101).rev().map(Duration::from_millis).collect());
        assert_eq!((times.ms(0.0), times.ms(0.5), times.ms(0.99), times.ms(1.0)), (1.0, 51.0, 100.0, 101.0));
        assert!(Times::default().ms(0.5).is_nan());
    }
}
