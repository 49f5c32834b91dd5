//! `relais serve`: the engine, the API and everything that starts runs by itself, in one process.

use std::net::SocketAddr;

use relais_server::{App, Options};
use relais_service::Service;

use crate::exit::Exit;
use crate::interrupts::Interrupts;
use crate::screen;
use crate::session::Global;

/// Serve the API and work on runs until told to stop
#[derive(clap::Args)]
#[command(after_help = "Example:\n  relais serve --listen 127.0.0.1:7300")]
pub struct Args {
    /// The address to listen on
    #[arg(long, value_name = "ADDR", env = "RELAIS_LISTEN", default_value = "127.0.0.1:7300")]
    listen: SocketAddr,
    /// Let nobody in without a token, on this machine neither
    #[arg(long)]
    require_token: bool,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |service: &Service| {
        let mut interrupts = Interrupts::listen()?;
        let options = Options { listen: args.listen, require_token: args.require_token };
        let server = relais_server::listen(App::new(service.clone()), &options).await?;
        service.adopt_all().await?;
        screen::note(&format!("listening on http://{}", server.address));
        interrupts.next().await;
        server.stop().await?;
        Ok(Exit::Done)
    })
}
