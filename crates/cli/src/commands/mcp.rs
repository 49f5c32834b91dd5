//! `relais mcp`: the tools for assistants, spoken over this process's own pipes.

use relais_service::Service;

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::remote::Client;
use crate::screen;
use crate::session::{Global, Session};

/// Serve the tools for assistants over stdin and stdout (MCP)
///
/// An assistant starts it by itself. While it is open, runs go on and schedules fire; what is left when it is closed
/// goes on with `relais serve` or the next `relais mcp`. With --server it passes on what that server offers.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  relais mcp\n  relais mcp --server https://relais.example.com")]
pub struct Args {}

pub fn run(_args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| {
        let mut interrupts = Interrupts::listen()?;
        tokio::select! {
            served = offer(session) => served?,
            _ = interrupts.next() => {}
        }
        Ok(Exit::Done)
    })
}

async fn offer(session: &Session) -> anyhow::Result<()> {
    match session {
        Session::Local(service) => here(service).await,
        Session::Remote(client) => pass_on(client).await,
    }
}

/// With everything that a server does by itself.
async fn here(service: &Service) -> anyhow::Result<()> {
    let running = service.serve(service.config().settings.retention, screen::warning);
    let served = relais_server::serve_stdio(service.clone()).await;
    running.end().await;
    Ok(served?)
}

async fn pass_on(client: &Client) -> anyhow::Result<()> {
    let headers = client.token().map(|token| ("Authorization".to_owned(), format!("Bearer {token}")));
    let address = format!("{}/mcp", client.address());
    Ok(relais_mcp::serving::relay_stdio(&address, headers.into_iter().collect()).await?)
}
