//! Offers a few tools on stdin and stdout; the tests of the server side start it.

#![allow(clippy::unwrap_used)]

#[path = "../tests/it/fake.rs"]
mod fake;

use std::sync::Arc;

use relais_mcp::serving::{Caller, serve_stdio};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    serve_stdio(Arc::new(fake::Fake::new()), Caller::new("owner", 7_u8)).await.unwrap();
}
