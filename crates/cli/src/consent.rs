//! The one question before something is done that cannot be undone.

use std::io::{self, BufRead, IsTerminal};

use relais_service::Error;

use crate::screen;

/// Whether a person at the terminal says yes; nothing said is a no. Where nobody can be asked, whoever wrote the command
/// has to say so beforehand.
pub fn given(what: &str) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        return Err(Error::Invalid(format!("nobody can be asked here; say `--yes` to {what}")).into());
    }
    screen::piece(&format!("{what}? [y/N] "));
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    Ok(is_yes(&line))
}

fn is_yes(line: &str) -> bool {
    matches!(line.trim().to_lowercase().as_str(), "y" | "yes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_yes_is_yes() {
        for (line, expected) in
            [("y\n", true), ("Yes\n", true), ("\n", false), ("", false), ("no\n", false), ("yep\n", false)]
        {
            assert_eq!(is_yes(line), expected, "{line:?}");
        }
    }
}
