//! Words that must not stand in the project's files: hosts of package registries, which each machine sets for itself, and
//! paths of one machine.

use crate::workspace::File;

/// Each in two pieces, so that this list does not find itself.
const WORDS: [(&str, &str); 6] =
    [("crates", ".io"), ("npm", "js"), ("pypi", ".org"), ("debian", ".org"), ("/wo", "rk/"), ("/tmp/", "issues")];

/// Lock files name the registry of each package by nature.
const FREE: [&str; 1] = ["LICENSE"];

pub fn check(files: &[File]) -> Vec<String> {
    files.iter().filter(|file| !is_free(&file.path)).flat_map(file_problems).collect()
}

fn is_free(path: &str) -> bool {
    FREE.contains(&path) || path.ends_with("Cargo.lock")
}

fn file_problems(file: &File) -> Vec<String> {
    let words: Vec<String> = WORDS.iter().map(|(start, end)| format!("{start}{end}")).collect();
    let mut problems = Vec::new();
    for (line, content) in file.text.lines().enumerate() {
        for word in words.iter().filter(|word| content.contains(word.as_str())) {
            problems.push(format!(
                "{}:{} says `{word}`: name the thing, not a host or a machine's path",
                file.path,
                line + 1
            ));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_found_except_in_lock_files() {
        let file =
            |path: &str| File { path: path.to_string(), text: format!("a\nfrom {}\n", ["pypi", ".org"].concat()) };
        assert_eq!(check(&[file("LICENSE"), file("Cargo.lock")]), Vec::<String>::new());
        let problems = check(&[file("README.md")]);
        assert_eq!(problems.len(), 1);
        assert!(problems[0].starts_with("README.md:2 says"), "{problems:?}");
    }
}
