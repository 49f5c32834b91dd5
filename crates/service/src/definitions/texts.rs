//! Runs of a text that somebody sends along. Like the text of a file that is run here (`publishing.rs`) it is kept as a
//! version of the workflow of its name, so that its runs are found together and a change of its tools is told. Like any
//! text of the network it reaches no file and no environment.

use std::path::Path;

use relais_engine::RunId;
use relais_plan::{Problem, Span};
use uuid::Uuid;

use crate::definitions::MAX_FILE_BYTES;
use crate::definitions::library::Library;
use crate::{Definition, Error, Finding, ReadOptions, Service, Start};

/// A definition that comes with the request to run it.
#[derive(Debug, Clone, Default)]
pub struct Text {
    /// What its author calls it: the name of the file, for example.
    pub name: String,
    pub text: String,
    pub options: ReadOptions,
}

/// A run that was started from a text.
#[derive(Debug, Clone)]
pub struct Begun {
    pub run: RunId,
    /// What is not right with the text but does not keep it from running.
    pub findings: Vec<Finding>,
    /// What is to be said beyond that.
    pub warnings: Vec<String>,
}

impl Service {
    /// Reads a text, makes sure that it can run now, keeps it as a version unless the newest says the same, and starts it.
    pub async fn start_text(&self, text: Text, start: Start) -> Result<Begun, Error> {
        self.must_take_work()?;
        let definition = self.read_text(text).await?;
        let findings = Finding::all(&definition.source, &definition.problems);
        if definition.has_errors() {
            return Err(Error::Findings(findings));
        }
        let (simulate, model) = (start.mode.simulate, start.mode.model.clone());
        let checked = self.publish(definition, simulate, model.as_deref()).await?;
        let warnings = checked.target.drift.iter().cloned().collect();
        let run = self.start(&checked, start).await?;
        Ok(Begun { run, findings, warnings })
    }

    /// Off the threads that serve others.
    async fn read_text(&self, text: Text) -> Result<Definition, Error> {
        if text.text.len() as u64 > MAX_FILE_BYTES {
            return Err(Error::Invalid(format!("the definition is larger than {MAX_FILE_BYTES} bytes")));
        }
        let Text { name, text, options } = text;
        // A workflow that does not say its name is called after its file.
        let title = Path::new(&name).file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
        let library = Library::new(self.clone(), Uuid::new_v4(), title, text, options.format);
        let service = self.clone();
        let read = move || {
            let mut found = service.core.definitions.check_text(library.source(), &library, &options);
            let refused = service.core.definitions.refused(&found);
            found.problems.extend(refused.map(|text| Problem::error(Span::default(), text)));
            found.source.name = name;
            found
        };
        tokio::task::spawn_blocking(read).await.map_err(|error| Error::Unusable(error.to_string()))
    }
}
