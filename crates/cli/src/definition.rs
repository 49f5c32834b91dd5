//! A workflow file on its way to a run: everything wrong with it is shown at once.

use std::path::Path;

use relais_service::{Checked, ReadOptions, Service};

use crate::screen::{self, Paint};

/// The definition, if it may run; what is wrong with it has been shown.
pub async fn checked(
    service: &Service,
    file: &Path,
    simulate: bool,
    model: Option<&str>,
) -> anyhow::Result<Option<Checked>> {
    let definition = service.read(file, &ReadOptions::default())?;
    let problems = definition.render(Paint::stderr().0);
    if !problems.is_empty() {
        screen::note(&problems);
    }
    if definition.has_errors() {
        return Ok(None);
    }
    let shown = definition.problems.len();
    let checked = service.publish(definition, simulate, model).await?;
    checked.warnings.iter().skip(shown).for_each(|warning| screen::warning(warning));
    Ok(Some(checked))
}
