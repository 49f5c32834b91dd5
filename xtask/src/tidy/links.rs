//! Links in Markdown to files of the project: each must lead somewhere. Addresses of other places are not followed.

use std::path::{Path, PathBuf};

use crate::workspace::{File, Workspace};

pub fn check(workspace: &Workspace, files: &[File]) -> Vec<String> {
    let pages = files.iter().filter(|file| file.path.ends_with(".md"));
    pages.flat_map(|page| page_problems(&workspace.root, page)).collect()
}

fn page_problems(root: &Path, page: &File) -> Vec<String> {
    let broken = links(&page.text).into_iter().filter(|(_, target)| !place(root, &page.path, target).exists());
    broken
        .map(|(line, target)| format!("{}:{line} links to {target}, which is not there: mend the link", page.path))
        .collect()
}

/// Where a link leads: from the page's own folder, or from the root if it begins with a slash.
fn place(root: &Path, page: &str, target: &str) -> PathBuf {
    match target.strip_prefix('/') {
        Some(from_root) => root.join(from_root),
        None => root.join(page).parent().unwrap_or(root).join(target),
    }
}

/// Line number and path of each link to a file, outside of code.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut fence: Option<&str> = None;
    for (line, content) in text.lines().enumerate() {
        let start = content.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => {}
            (None, Some(mark)) => fence = Some(mark),
            (None, None) => found.extend(line_links(content).into_iter().map(|target| (line + 1, target))),
        }
    }
    found
}

fn line_links(line: &str) -> Vec<String> {
    let plain = without_code(line);
    let inline = plain.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let definition = plain.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|parts| parts.1);
    inline.chain(definition).filter_map(file_target).collect()
}

/// The line without what stands between backticks; a lone backtick is a letter.
fn without_code(line: &str) -> String {
    let parts: Vec<&str> = line.split('`').collect();
    let is_text = |at: usize| at.is_multiple_of(2) || (at + 1 == parts.len());
    parts.iter().enumerate().filter(|(at, _)| is_text(*at)).map(|(_, part)| *part).collect()
}

/// The path in a link's target: without title and anchor; nothing for an anchor alone or an address.
fn file_target(target: &str) -> Option<String> {
    let word = target.split_whitespace().next()?.trim_start_matches('<').trim_end_matches('>');
    let path = word.split('#').next().unwrap_or_default();
    let is_address = path.contains("://") || path.starts_with("mailto:");
    (!path.is_empty() && !is_address).then(|| path.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &[(usize, &str)]) {
        let found = links(text);
        let found: Vec<(usize, &str)> = found.iter().map(|(line, target)| (*line, target.as_str())).collect();
        assert_eq!(found, expected, "in {text}");
    }

    #[test]
    fn links_to_files_are_found() {
        check("See [a](docs/a.md) and ![b](b.png \"title\").\n", &[(1, "docs/a.md"), (1, "b.png")]);
        check("\n[a](a.md#part) [`b`](b.md)\n[c]: ../c.md\n", &[(2, "a.md"), (2, "b.md"), (3, "../c.md")]);
    }

    #[test]
    fn addresses_anchors_and_code_are_none() {
        check("[a](https://example.com/a.md) [b](#part) [c](mailto:a@example.com)\n", &[]);
        check("`[a](a.md)` and\n```\n[b](b.md)\n```\n[c](c.md)\n", &[(5, "c.md")]);
        check("~~~\n```\n[b](b.md)\n~~~\na ` b [c](c.md)\n", &[(5, "c.md")]);
    }

    #[test]
    fn a_broken_link_is_named_with_its_line() {
        // Tests run in the folder of their package.
        let folder = Path::new(".");
        let text = "[a](main.rs) [b](/Cargo.toml)\n[c](gone.rs)\n".to_string();
        let problems = page_problems(folder, &File { path: "src/page.md".to_string(), text });
        assert_eq!(problems, ["src/page.md:2 links to gone.rs, which is not there: mend the link"]);
    }
}
