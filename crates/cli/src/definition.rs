//! A workflow file on its way to a run: how it is to be read, and everything wrong with it shown at once.

use std::path::{Path, PathBuf};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use relais_service::{Checked, Format, ReadOptions, Service};

use crate::screen::{self, Paint};

/// A workflow file, for commands that take one.
#[derive(clap::Args)]
pub struct Written {
    /// Workflow file, of any format that `--format` takes
    pub file: PathBuf,
    #[command(flatten)]
    pub reading: Reading,
}

/// How files are to be read.
#[derive(Debug, Clone, Default, clap::Args)]
pub struct Reading {
    /// Read the file as this format instead of the one that its shape tells
    #[arg(long, alias = "reader", value_name = "FORMAT", value_parser = formats())]
    format: Option<Format>,
    /// The branch of a graph that is meant, instead of its main nodes; or which of several workflows of a dag file
    #[arg(long, value_name = "ID")]
    branch: Option<String>,
}

impl Reading {
    pub fn options(&self) -> ReadOptions {
        ReadOptions { format: self.format, branch: self.branch.clone() }
    }
}

/// The words that name a format.
pub fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::word))
        .try_map(|word| Format::named(&word).ok_or("there is no such format"))
}

/// The definition, if it may run; what is wrong with it has been shown.
pub async fn checked(
    service: &Service,
    written: &Written,
    simulate: bool,
    model: Option<&str>,
) -> anyhow::Result<Option<Checked>> {
    read_and_checked(service, &written.file, &written.reading.options(), simulate, model).await
}

/// The same for a file whose format its shape tells.
pub async fn checked_file(
    service: &Service,
    file: &Path,
    simulate: bool,
    model: Option<&str>,
) -> anyhow::Result<Option<Checked>> {
    read_and_checked(service, file, &ReadOptions::default(), simulate, model).await
}

async fn read_and_checked(
    service: &Service,
    file: &Path,
    options: &ReadOptions,
    simulate: bool,
    model: Option<&str>,
) -> anyhow::Result<Option<Checked>> {
    let definition = service.read(file, options)?;
    let problems = screen::colored(&definition.render(Paint::stderr().0));
    if !problems.is_empty() {
        screen::note(&problems);
    }
    if definition.has_errors() {
        return Ok(None);
    }
    let checked = service.publish(definition, simulate, model).await?;
    checked.target.drift.iter().for_each(|warning| screen::warning(warning));
    Ok(Some(checked))
}
