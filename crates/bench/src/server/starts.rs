//! How many runs can be started a second, each durable before it is answered; beside it a handler that does nothing but
//! one such write.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Result, bail};
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::post;
use relais_store::{Options, SqliteStore, Store};
use serde_json::json;

use super::client::Connection;
use super::process::{Process, mebibytes};
use super::{Times, emptied, fill, title};
use crate::protocol::{Args, print as say};

/// Ends its first turn at once, and lets go of the run.
const FLOW: &str = "name: starts\nsteps: [{ id: go, wait: { signal: go } }]\n";
/// Requests that are not measured: whatever is done once is done.
const WARM_UP: usize = 200;

pub async fn print(args: &Args) -> Result<()> {
    let (clients, starts) = (args.number("clients")?.max(1), args.number("starts")?.max(1));
    title(&format!("a: {starts} runs started by {clients} clients over HTTP, each durable when it is answered"))?;
    let folder = emptied("starts")?;
    let bare = Process::bare(&folder)?;
    let bare = measured(bare.address, "/", clients, starts).await?;
    let (server, measured) = started(&folder, clients, starts).await?;
    let under_load = mebibytes(server.rss()?);
    say(&format!("{:<34} {:>10} {:>9} {:>9} {:>9} {:>7}", "", "runs/s", "p50 ms", "p99 ms", "max ms", ": bare"))?;
    say(&bare.row("one synced insert behind axum", &bare))?;
    say(&measured.row("relais serve", &bare))?;
    say(&format!("memory of the server after it: {under_load:.1} MiB"))
}

async fn started(folder: &Path, clients: usize, starts: usize) -> Result<(Process, Measured)> {
    let server = Process::serve(folder, &[])?;
    let mut connection = Connection::open(server.address).await?;
    connection.expect(201, "POST", "/api/v1/workflows", &json!({ "definition": FLOW })).await?;
    let measured = measured(server.address, "/api/v1/workflows/starts/run", clients, starts).await?;
    Ok((server, measured))
}

struct Measured {
    per_second: f64,
    times: [f64; 3],
}

impl Measured {
    fn row(&self, name: &str, bare: &Measured) -> String {
        let [p50, p99, max] = self.times;
        let ratio = bare.per_second / self.per_second;
        format!("{name:<34} {:>10.0} {p50:>9.2} {p99:>9.2} {max:>9.2} {ratio:>7.2}", self.per_second)
    }
}

async fn measured(address: SocketAddr, path: &'static str, clients: usize, starts: usize) -> Result<Measured> {
    flood(address, path, clients.min(WARM_UP), WARM_UP).await?;
    let start = Instant::now();
    let mut times = flood(address, path, clients, starts).await?;
    let per_second = times.0.len() as f64 / start.elapsed().as_secs_f64();
    Ok(Measured { per_second, times: [0.5, 0.99, 1.0].map(|part| times.ms(part)) })
}

/// So many requests by clients that each wait for the answer before they ask again.
pub async fn flood(address: SocketAddr, path: &str, clients: usize, requests: usize) -> Result<Times> {
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..clients).map(|_| {
        let (next, path) = (next.clone(), path.to_owned());
        tokio::spawn(async move {
            let (mut connection, mut times) = (Connection::open(address).await?, Vec::new());
            while next.fetch_add(1, Ordering::Relaxed) < requests {
                let start = Instant::now();
                let (status, answer) = connection.ask("POST", &path, "{}").await?;
                times.push(start.elapsed());
                if status != 202 {
                    bail!("POST {path}: {status} {answer}");
                }
            }
            Ok(times)
        })
    });
    let mut all = Times::default();
    for times in futures::future::join_all(clients).await {
        all.0.extend(times??);
    }
    Ok(all)
}

/// The bare server: one run written through the store's group commit, then the answer.
pub async fn bare(folder: &Path) -> Result<()> {
    let store = Arc::new(SqliteStore::open(folder.join("bare.db"), Options::default())?);
    let state = Arc::new((store, AtomicUsize::new(0)));
    let app = axum::Router::new().route("/", post(insert)).with_state(state);
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    eprintln!("listening on http://{}", listener.local_addr()?);
    Ok(axum::serve(listener, app).await?)
}

async fn insert(State(state): State<Arc<(Arc<SqliteStore>, AtomicUsize)>>) -> StatusCode {
    let number = state.1.fetch_add(1, Ordering::Relaxed);
    match state.0.create(fill::new_run(number)).await {
        Ok(_) => StatusCode::ACCEPTED,
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
