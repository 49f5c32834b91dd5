//! Tags of runs: short words of people's own, `team=sales`, that runs are found by.

use std::collections::BTreeMap;

pub type Tags = BTreeMap<String, String>;

/// More than anybody filters by; each is a row beside the run.
pub const MAX_TAGS: usize = 20;
const MAX_KEY_CHARS: usize = 60;
const MAX_VALUE_CHARS: usize = 200;

/// What is wrong with tags, if anything is.
pub fn mistake(tags: &Tags) -> Option<String> {
    if tags.len() > MAX_TAGS {
        return Some(format!("a run has at most {MAX_TAGS} tags, not {}", tags.len()));
    }
    tags.iter().find_map(|(key, value)| mistake_in(key, value))
}

fn mistake_in(key: &str, value: &str) -> Option<String> {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    if key.is_empty() || key.chars().count() > MAX_KEY_CHARS || !key.chars().all(is_word) {
        let right = "letters, digits, `_`, `-` and `.`";
        return Some(format!(
            "`{}` cannot be the name of a tag; it has 1 to {MAX_KEY_CHARS} {right}",
            key.escape_debug()
        ));
    }
    let is_bad = value.is_empty() || value.chars().count() > MAX_VALUE_CHARS || !crate::text::is_name(value);
    is_bad.then(|| format!("the tag `{key}` has 1 to {MAX_VALUE_CHARS} characters in one line"))
}

/// A tag as people write it: `team=sales`.
pub fn parse(text: &str) -> Result<(String, String), String> {
    let unclear = || format!("`{text}` is no tag; write NAME=VALUE, such as team=sales");
    let (key, value) = text.split_once('=').ok_or_else(unclear)?;
    let (key, value) = (key.trim(), value.trim());
    mistake_in(key, value).map_or_else(|| Ok((key.to_owned(), value.to_owned())), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_short_words() {
        let check = |text: &str, expected: Result<(&str, &str), &str>| match (parse(text), expected) {
            (Ok((key, value)), Ok(expected)) => assert_eq!((key.as_str(), value.as_str()), expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            (found, expected) => panic!("{found:?}, not {expected:?}"),
        };
        check("team=sales", Ok(("team", "sales")));
        check("team = a=b", Ok(("team", "a=b")));
        check("team", Err("write NAME=VALUE"));
        check("te am=x", Err("cannot be the name of a tag"));
        check("error:x=y", Err("cannot be the name of a tag"));
        check("team=", Err("the tag `team` has 1 to 200 characters"));
        let many: Tags = (0..=MAX_TAGS).map(|n| (format!("t{n}"), "x".to_owned())).collect();
        assert_eq!(mistake(&many), Some("a run has at most 20 tags, not 21".to_owned()));
    }
}
