//! Lists as every command shows them: one JSON object per line, or a table.

use comfy_table::{Table, presets};
use serde::Serialize;

use crate::exit::Exit;
use crate::screen;

/// Things of one kind, to be shown.
pub struct List<'a, T> {
    pub items: &'a [T],
    /// There are more than were asked for.
    pub more: bool,
    pub json: bool,
    /// What is said where there is nothing.
    pub none: &'a str,
}

impl<T: Serialize> List<'_, T> {
    pub fn show<const N: usize>(&self, header: [&str; N], cells: impl Fn(&T) -> [String; N]) -> anyhow::Result<Exit> {
        if self.json {
            return json_lines(self.items);
        }
        if self.items.is_empty() {
            screen::note(self.none);
            return Ok(Exit::Done);
        }
        screen::out(&table(header, self.items.iter().map(cells)))?;
        if self.more {
            screen::note("there are more; --limit shows them");
        }
        Ok(Exit::Done)
    }
}

/// One JSON object per thing.
pub fn json_lines(items: &[impl Serialize]) -> anyhow::Result<Exit> {
    items.iter().try_for_each(|one| anyhow::Ok(screen::data(&serde_json::to_string(one)?)?))?;
    Ok(Exit::Done)
}

/// A table as text. Lines are not wrapped: a pipe has no width, and an id must stay in one piece.
pub fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    table.lines().map(|line| format!("{}\n", line.trim_end().strip_prefix(' ').unwrap_or(&line))).collect()
}
