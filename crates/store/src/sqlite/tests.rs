//! What only a file can suffer: crashes, damage, other processes, no space.

use std::sync::Arc;

use relais_engine::RunStatus;
use tempfile::TempDir;

use super::*;
use crate::conformance::{Handles, batch, conformance, entry, new_run, numbers, run, started, summary};

fn open(folder: &TempDir) -> SqliteStore {
    SqliteStore::open(folder.path().join("relais.db"), Options::default()).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_contract() {
    let folder = tempfile::tempdir().unwrap();
    let count = std::sync::atomic::AtomicU32::new(0);
    conformance(async || {
        let number = count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = folder.path().join(format!("{number}.db"));
        let options = Options { unused_blob_ms: 0, ..Options::default() };
        let here = Arc::new(SqliteStore::open(&path, options.clone()).unwrap());
        Handles { here, there: Arc::new(SqliteStore::open(&path, options).unwrap()) }
    })
    .await;
}
