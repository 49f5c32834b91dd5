//! The bare baseline: what one durable append costs on this disk without any engine.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use serde_json::json;

/// One journal entry of a small step.
const RECORD: usize = 256;
const TIME: Duration = Duration::from_secs(2);

/// One line per figure.
pub fn print(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let (appends, micros) = append(&folder.join("append.log"), 1)?;
    let line = json!({ "test": "append 256 bytes + fdatasync", "ops_s": appends, "us": micros });
    crate::protocol::print(&line.to_string())?;
    let (appends, _) = append(&folder.join("append.log"), 64)?;
    let line = json!({ "test": "append 64 x 256 bytes + fdatasync", "ops_s": appends });
    crate::protocol::print(&line.to_string())
}

/// Records per second and microseconds per sync.
fn append(path: &Path, batch: usize) -> Result<(u64, f64)> {
    let mut file = std::fs::File::create(path)?;
    let record = vec![b'x'; RECORD * batch];
    let start = Instant::now();
    let mut syncs = 0u64;
    while start.elapsed() < TIME {
        file.write_all(&record)?;
        file.sync_data()?;
        syncs += 1;
    }
    let took = start.elapsed().as_secs_f64();
    std::fs::remove_file(path)?;
    Ok(((syncs as f64 * batch as f64 / took) as u64, took * 1e6 / syncs as f64))
}
