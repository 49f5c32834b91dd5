//! What the lock files may hold: no crate that `deny.toml` refuses, one SQLite, and no registry addresses in the lock file
//! of the test peers. Licences are for cargo-deny to judge.

use crate::workspace::File;

/// Kept equal to the bans in deny.toml.
const REFUSED: [&str; 5] = ["aws-lc-sys", "aws-lc-rs", "openssl-sys", "serde_yaml", "evalexpr"];

/// Two of these in one program do not see each other's file locks.
const AT_MOST_ONCE: &str = "libsqlite3-sys";

pub fn check(files: &[File]) -> Vec<String> {
    let text_of = |path: &str| files.iter().find(|file| file.path == path).map_or("", |file| file.text.as_str());
    let mut problems = crate_problems(text_of("Cargo.lock"));
    if text_of("xtask/peers/package-lock.json").contains("\"resolved\"") {
        problems.push(
            "xtask/peers/package-lock.json holds addresses of a registry: run npm install there, with its .npmrc"
                .into(),
        );
    }
    problems
}

fn crate_problems(lock: &str) -> Vec<String> {
    let locked: Vec<&str> =
        lock.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix("\"")).collect();
    let refused = REFUSED.into_iter().filter(|name| locked.contains(name));
    let mut problems: Vec<String> = refused
        .map(|name| format!("Cargo.lock holds {name}, which deny.toml refuses: `cargo tree --invert {name}` says why"))
        .collect();
    if locked.iter().filter(|name| **name == AT_MOST_ONCE).count() > 1 {
        problems.push(format!("Cargo.lock holds {AT_MOST_ONCE} twice: align the versions of those who need it"));
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], expected: &[&str]) {
        let lock: String = names.iter().map(|name| format!("[[package]]\nname = \"{name}\"\n")).collect();
        let problems = crate_problems(&lock);
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, start) in problems.iter().zip(expected) {
            assert!(problem.starts_with(start), "{problem}");
        }
    }

    #[test]
    fn refused_and_doubled_crates_are_found() {
        check(&["serde", "libsqlite3-sys", "openssl-probe"], &[]);
        check(&["aws-lc-sys"], &["Cargo.lock holds aws-lc-sys"]);
        check(&["libsqlite3-sys", "libsqlite3-sys"], &["Cargo.lock holds libsqlite3-sys twice"]);
    }
}
