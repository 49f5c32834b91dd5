//! What an edge between two steps costs: checking a value against its schema, and finding the value that a reference
//! means. Beside each, a bare parse of the same JSON.

use std::hint::black_box;
use std::time::Instant;

use anyhow::{Context, Result};
use relais_plan::{Schema, path};
use serde_json::{Value, json};

use crate::protocol::{Args, print as say};

/// One row per size of the value that crosses the edge.
pub fn print(args: &Args) -> Result<()> {
    let (records, rounds) = (args.number("records")?.max(1), args.number("rounds")?.max(1));
    say(&format!(
        "{:<10} {:>8} {:>10} {:>10} {:>10} {:>8}",
        "records", "KiB", "check µs", "find µs", "parse µs", "check :"
    ))?;
    for records in [1, records / 10, records] {
        say(&row(records.max(1), rounds)?)?;
    }
    Ok(())
}

fn row(records: usize, rounds: usize) -> Result<String> {
    let schema = schema();
    let value = value(records);
    let text = value.to_string();
    let reference = path::parse(&format!("records[{}].address.zip", records - 1)).map_err(anyhow::Error::msg)?;
    schema.check(&value).ok().context("the value fits its schema")?;
    let check = median(rounds, || schema.check(&value).is_ok());
    // As the engine does it: the artifact is read, then the path is followed.
    let find = median(rounds, || {
        let artifact: Value = serde_json::from_str(&text).unwrap_or_default();
        path::get(&artifact, &reference).is_ok()
    });
    let parse = median(rounds, || serde_json::from_str::<Value>(&text).is_ok());
    let kib = text.len() as f64 / 1024.0;
    Ok(format!("{records:<10} {kib:>8.1} {check:>10.1} {find:>10.1} {parse:>10.1} {:>8.2}", check / parse))
}

fn schema() -> Schema {
    let record = json!({
        "type": "object",
        "properties": {
            "id": { "type": "integer", "minimum": 0 },
            "name": { "type": "string", "maxLength": 100 },
            "kind": { "enum": ["order", "return"] },
            "address": { "type": "object", "properties": { "zip": { "type": "string" } }, "required": ["zip"] },
        },
        "required": ["id", "name", "kind", "address"],
    });
    let records = json!({ "type": "array", "items": record });
    Schema::new(json!({ "type": "object", "properties": { "records": records }, "required": ["records"] }))
}

fn value(records: usize) -> Value {
    let record =
        |id: usize| json!({ "id": id, "name": format!("name {id}"), "kind": "order", "address": { "zip": "75011" } });
    json!({ "records": (0..records).map(record).collect::<Vec<_>>() })
}

/// Microseconds.
fn median(rounds: usize, work: impl Fn() -> bool) -> f64 {
    let mut times: Vec<f64> = (0..rounds).map(|_| took(&work)).collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

fn took(work: &impl Fn() -> bool) -> f64 {
    let start = Instant::now();
    black_box(work());
    start.elapsed().as_secs_f64() * 1e6
}
