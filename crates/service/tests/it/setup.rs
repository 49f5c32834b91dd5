//! A service with a home of its own and workflow files beside it.

use std::path::Path;
use std::sync::atomic::{AtomicI64, Ordering};

use relais_engine::{Millis, RunId, RunStatus};
use relais_runtime::Rest;
use relais_runtime::clock::Clock;
use relais_runtime::settings::Settings;
use relais_service::{Checked, Config, Service, Start};
use tempfile::TempDir;

pub struct Setup {
    pub service: Service,
    folder: TempDir,
}

/// A model that says one word and books one call.
pub const ONE_WORD: (&str, &str) =
    ("word.json", r#"[{ "text": "word", "usage": { "prompt": 10, "completion": 1, "model_calls": 1 } }]"#);

/// Says one word, and tells of its end.
pub const FLOW: &str = r#"
name: flow
notify: { on_complete: true }
agents:
  talker: { model: script/word.json, instructions: Say a word. }
steps:
  - { id: first, agent: talker, prompt: "one" }
"#;

impl Setup {
    pub fn with(files: &[(&str, &str)]) -> Setup {
        Setup::set(Settings::default(), files)
    }

    pub fn set(settings: Settings, files: &[(&str, &str)]) -> Setup {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        let (home, folder_path) = (folder.path().join("home"), folder.path().to_owned());
        let config = Config { home, folder: folder_path, settings, read: Vec::new(), user: "somebody".into() };
        Setup { service: Service::open(config).unwrap(), folder }
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub async fn publish(&self, file: &str) -> Checked {
        let definition = self.service.read(&self.path().join(file), &Default::default()).unwrap();
        assert!(!definition.has_errors(), "{}", definition.render(false));
        self.service.publish(definition, false, None).await.unwrap()
    }

    pub async fn run(&self, file: &str) -> (RunId, RunStatus) {
        let checked = self.publish(file).await;
        let run = self.service.start(&checked, Start::default()).await.unwrap();
        (run, self.end_of(run).await)
    }

    pub async fn end_of(&self, run: RunId) -> RunStatus {
        match self.service.settle(run).await.unwrap() {
            Rest::Ended(status) => status,
            Rest::Waiting(what) => panic!("run {run} waits for {what:?}"),
        }
    }
}

/// Time goes on when a test says so.
pub struct VirtualClock(pub AtomicI64);

impl Clock for VirtualClock {
    fn now(&self) -> Millis {
        self.0.load(Ordering::SeqCst)
    }
}
