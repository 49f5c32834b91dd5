//! The artifacts of a run: which there are, and what is in them.

use relais_engine::RunId;

use crate::runs::trace::{self, ArtifactTrace};
use crate::{Error, Service};

impl Service {
    /// Every version of every artifact, in the order in which they were first made.
    pub async fn artifacts(&self, run: RunId) -> Result<Vec<ArtifactTrace>, Error> {
        let (_, _, state) = self.load(run).await?;
        Ok(trace::artifacts(&state))
    }

    /// One version of an artifact, or its latest, with its content.
    pub async fn artifact(
        &self,
        run: RunId,
        name: &str,
        version: Option<u32>,
    ) -> Result<(ArtifactTrace, Vec<u8>), Error> {
        let all = self.artifacts(run).await?;
        let fits = |artifact: &&ArtifactTrace| {
            artifact.name == name && version.is_none_or(|version| artifact.version == version)
        };
        let Some(found) = all.iter().rfind(fits) else { return Err(no_artifact(&all, name, version)) };
        let bytes = self.core.store.get_blob(found.hash.clone()).await?;
        let bytes = bytes.ok_or_else(|| Error::NotFound(format!("the content of `{name}` is no longer kept")))?;
        Ok((found.clone(), bytes))
    }
}

fn no_artifact(all: &[ArtifactTrace], name: &str, version: Option<u32>) -> Error {
    let wanted = version.map_or_else(String::new, |version| format!(" in version {version}"));
    let mut names: Vec<String> = all.iter().map(|a| format!("{} ({})", a.name, a.version)).collect();
    names.truncate(MAX_NAMED);
    let there = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
    Error::NotFound(format!("there is no artifact `{name}`{wanted}; there are: {there}"))
}

/// Enough for a person to see what is meant.
const MAX_NAMED: usize = 20;
