//! Leaves many runs in the middle of their work, as a killed process would: `interrupted HOME COUNT`. The next
//! `relais serve` on that home folder shows how fast they go again.

use std::path::PathBuf;

use relais_service::{Config, ReadOptions, Service, Start};

const FLOW: &str = "\
name: interrupted
agents:
  speaker: { model: openai/gpt-4o-mini, instructions: Speak. }
steps:
  - { id: before, set: { n: 1 } }
  - { id: say, agent: speaker, prompt: Say hi }
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().collect();
    let [_, home, count] = words.as_slice() else { return Err("say HOME and COUNT".into()) };
    let (home, count) = (PathBuf::from(home), count.parse::<usize>()?);
    std::fs::create_dir_all(&home)?;
    let file = home.join("flow.yaml");
    std::fs::write(&file, FLOW)?;
    let service = Service::open(Config::load(Some(home.clone()), &home)?)?;
    let definition = service.read(&file, &ReadOptions::default())?;
    let checked = service.publish(definition, false, None).await?;
    for _ in 0..count {
        service.start(&checked, Start::default()).await?;
    }
    eprintln!("{} runs in memory of {count}", service.worker().at_work());
    std::process::abort();
}
