//! `relais work`: the background worker that `--detach` starts.

use relais_engine::RunId;
use relais_service::Service;

use crate::attend::{Ear, Manner, attend};
use crate::exit::Exit;
use crate::progress::Style;
use crate::session::{Global, Session};

/// Work on one run until it has ended or waits for somebody
#[derive(clap::Args)]
pub struct Args {
    run: RunId,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve_here(async |service: &Service| {
        let session = Session::Local(service.clone());
        let manner = Manner { style: Style::Plain, verbose: false, wait: false };
        let ear = Ear::open(&session, manner.verbose);
        service.adopt_tree(args.run).await?;
        attend(&session, ear, args.run, u64::MAX, manner).await
    })
}
