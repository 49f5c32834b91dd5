//! Secrets: looked up by name for tools, and masked wherever their values turn up. Knows nothing of what it masks.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;

/// Shorter values turn up by chance inside words and numbers; they are masked where they stand by themselves.
const SHORTEST_ANYWHERE: usize = 6;
/// Shorter ones turn up everywhere; masking them would damage every text and hide nothing.
const SHORTEST_MASKED: usize = 3;
/// What stands in the place of a secret.
pub const MASKED: &str = "[secret]";
/// More text than one line of settings ever has.
const EXPANSIONS_MAX: usize = 100;

/// Replaces the values of known secrets in whatever leaves the process.
#[derive(Clone, Default)]
pub struct Mask {
    /// Every form of every secret, longest first, so that one that contains another is masked as a whole.
    forms: Vec<String>,
}

/// Secrets by name, with `${VARIABLE}` already replaced.
#[derive(Clone, Default)]
pub struct Secrets {
    values: BTreeMap<String, String>,
}

impl Mask {
    pub fn new(secrets: &Secrets) -> Mask {
        Mask::default().hiding(secrets.values.values())
    }

    /// Masks these values too; unlike secrets no tool can be given them.
    pub fn hiding<'v>(mut self, values: impl IntoIterator<Item = &'v String>) -> Mask {
        let values = values.into_iter().map(|value| value.trim()).filter(|value| value.len() >= SHORTEST_MASKED);
        self.forms.extend(values.flat_map(forms));
        self.forms.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        self.forms.dedup();
        self
    }

    pub fn mask_text(&self, text: &str) -> String {
        let mut masked = text.to_owned();
        for form in self.forms.iter().filter(|form| text.contains(form.as_str())) {
            masked =
                if form.len() < SHORTEST_ANYWHERE { without_word(&masked, form) } else { masked.replace(form, MASKED) };
        }
        masked
    }

    /// Masks every string and key of a value.
    pub fn mask_value(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            // A large text is not copied where there is nothing to mask.
            Value::String(text) if self.finds_any(&text) => Value::String(self.mask_text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.mask_value(item)).collect(),
            Value::Object(fields) => {
                fields.into_iter().map(|(key, item)| (self.mask_text(&key), self.mask_value(item))).collect()
            }
            // A secret of digits is one also where it is read as a number.
            Value::Number(number) if self.forms.contains(&number.to_string()) => Value::String(MASKED.to_owned()),
            other => other,
        }
    }

    fn finds_any(&self, text: &str) -> bool {
        self.forms.iter().any(|form| text.contains(form.as_str()))
    }

    pub fn mask_bytes(&self, bytes: Vec<u8>) -> Vec<u8> {
        match std::str::from_utf8(&bytes) {
            Ok(text) if self.finds_any(text) => self.mask_text(text).into_bytes(),
            _ => bytes,
        }
    }
}

/// Masks text that comes in pieces: what may be the beginning of a secret is held back until the next piece tells.
pub struct Pieces<'m> {
    mask: &'m Mask,
    held: String,
}

impl<'m> Pieces<'m> {
    pub fn new(mask: &'m Mask) -> Pieces<'m> {
        Pieces { mask, held: String::new() }
    }

    /// What can be shown now.
    pub fn push(&mut self, piece: &str) -> String {
        self.held.push_str(piece);
        let mut shown = self.mask.mask_text(&self.held);
        let begun = self.mask.forms.iter().map(|form| begun(&shown, form)).max().unwrap_or(0);
        self.held = shown.split_off(shown.len() - begun);
        shown
    }

    /// What was held back, when nothing more comes.
    pub fn rest(&mut self) -> String {
        std::mem::take(&mut self.held)
    }
}

/// How many bytes at the end of a text are a beginning of this form.
fn begun(text: &str, form: &str) -> usize {
    let beginnings = form.char_indices().map(|(at, _)| at).rev();
    beginnings.into_iter().find(|at| text.ends_with(&form[..*at])).unwrap_or(0)
}

/// The text with this word masked wherever neither a letter nor a digit stands beside it.
fn without_word(text: &str, word: &str) -> String {
    let mut made = String::with_capacity(text.len());
    let mut rest = 0;
    for (at, found) in text.match_indices(word) {
        let end = at + found.len();
        let is_alone = !text[..at].ends_with(char::is_alphanumeric) && !text[end..].starts_with(char::is_alphanumeric);
        made.push_str(&text[rest..at]);
        made.push_str(if is_alone { MASKED } else { found });
        rest = end;
    }
    made.push_str(&text[rest..]);
    made
}

/// A value as it is, and as it reads inside JSON text.
fn forms(value: &str) -> Vec<String> {
    let quoted = Value::String(value.to_owned()).to_string();
    vec![value.to_owned(), quoted[1..quoted.len() - 1].to_owned()]
}

impl Secrets {
    /// From the settings; a `${VARIABLE}` that is not set leaves its secret undefined.
    pub fn new(written: &BTreeMap<String, String>) -> Secrets {
        let environment = Secrets::default();
        let read = |(name, text): (&String, &String)| Some((name.clone(), environment.expand(text).ok()?));
        Secrets { values: written.iter().filter_map(read).collect() }
    }

    /// Names of those that are too short to be masked everywhere, or at all.
    pub fn short(&self) -> Vec<&str> {
        let is_short = |value: &str| !value.is_empty() && value.len() < SHORTEST_ANYWHERE;
        self.values.iter().filter(|(_, value)| is_short(value.trim())).map(|(name, _)| name.as_str()).collect()
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(String::as_str)
    }

    pub fn insert(&mut self, name: String, value: String) {
        self.values.insert(name, value);
    }

    /// Names and values of all that [`Secrets::expand`] puts into a text.
    pub fn named_in(&self, text: &str) -> Result<Vec<(String, String)>, Undefined> {
        let found = std::cell::RefCell::new(Vec::new());
        replace(text, "${", |name| {
            let value = self.look_up(name)?;
            found.borrow_mut().push((name.trim_start_matches("secret:").to_owned(), value.clone()));
            Some(value)
        })?;
        Ok(found.into_inner())
    }

    /// Replaces `${secret:NAME}` in text that a model may have written: secrets only, never variables.
    pub fn put_into(&self, text: &str) -> Result<String, Undefined> {
        replace(text, "${secret:", |name| self.get(name).map(str::to_owned))
    }

    /// Replaces `${secret:NAME}` and `${NAME}` (a secret, else a variable) in text from the settings.
    pub fn expand(&self, text: &str) -> Result<String, Undefined> {
        replace(text, "${", |name| self.look_up(name))
    }

    fn look_up(&self, name: &str) -> Option<String> {
        let name = name.strip_prefix("secret:").unwrap_or(name);
        self.get(name).map(str::to_owned).or_else(|| std::env::var(name).ok())
    }
}

/// Shows names only.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.values.keys()).finish()
    }
}

/// A secret or variable that is named and not defined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not defined; set the variable, or add it to relais.toml under [secrets]: {0} = \"${{VARIABLE}}\"")]
pub struct Undefined(pub String);

/// One pass: what is put in is not looked at again.
fn replace(text: &str, opening: &str, value: impl Fn(&str) -> Option<String>) -> Result<String, Undefined> {
    let mut made = String::new();
    let mut rest = text;
    for _ in 0..EXPANSIONS_MAX {
        let Some((before, after)) = rest.split_once(opening) else { break };
        let Some((name, after)) = after.split_once('}') else { break };
        made.push_str(before);
        made.push_str(&value(name).ok_or_else(|| Undefined(name.to_owned()))?);
        rest = after;
    }
    made.push_str(rest);
    Ok(made)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn secrets(pairs: &[(&str, &str)]) -> Secrets {
        Secrets::new(&pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect())
    }

    #[test]
    fn masks_values_keys_and_json_text() {
        let mask = Mask::new(&secrets(&[
            ("a", "hunter2-long"),
            ("b", "hunter2"),
            ("c", "with\"quote"),
            ("pin", "1234"),
            ("d", "ab"),
        ]));
        let check = |given: &str, wanted: &str| assert_eq!(mask.mask_text(given), wanted);
        check("x hunter2-long y", "x [secret] y");
        check("x hunter2 y", "x [secret] y");
        check("{\"k\":\"with\\\"quote\"}", "{\"k\":\"[secret]\"}");
        check("pin 1234, 1234.", "pin [secret], [secret].");
        check("{\"pin\":\"1234\"}", "{\"pin\":\"[secret]\"}");
        check("12345 x1234 é1234 12341234", "12345 x1234 é1234 12341234");
        check("ab", "ab");
        assert_eq!(secrets(&[("a", "123456"), ("b", "12345"), ("c", "1"), ("d", "")]).short(), ["b", "c"]);
        assert_eq!(mask.mask_value(json!([1234, 12345, 1234.5])), json!(["[secret]", 12345, 1234.5]));
        assert_eq!(mask.mask_value(json!({"hunter2": ["hunter2", 1]})), json!({"[secret]": ["[secret]", 1]}));
        assert_eq!(mask.mask_bytes(b"hunter2".to_vec()), b"[secret]");
    }

    #[test]
    fn pieces_do_not_let_a_secret_slip_through() {
        let mask = Mask::default().hiding([&"canary-1234".to_owned()]);
        for pieces in [&["a can", "ary-12", "34 b"][..], &["a canary-1234 b"], &["a ", "c", "anary-123", "4", " b"]] {
            let mut masked = Pieces::new(&mask);
            let mut shown: String = pieces.iter().map(|piece| masked.push(piece)).collect();
            shown.push_str(&masked.rest());
            assert_eq!(shown, "a [secret] b", "{pieces:?}");
        }
        let mut masked = Pieces::new(&mask);
        assert_eq!(
            (masked.push("a can"), masked.push("oe, a c"), masked.rest()),
            ("a ".into(), "canoe, a ".into(), "c".into())
        );
    }

    #[test]
    fn puts_secrets_in_once_and_names_the_missing() {
        let mut secrets = secrets(&[("PATHLIKE", "${PATH}"), ("UNSET", "${RELAIS_NO_SUCH_VARIABLE}")]);
        secrets.insert("T".into(), "abc${secret:T}".into());
        assert_eq!(secrets.put_into("Bearer ${secret:T}!").unwrap(), "Bearer abc${secret:T}!");
        assert_eq!(secrets.put_into("${PATH} ${open").unwrap(), "${PATH} ${open");
        assert_eq!(secrets.put_into("${secret:NO}").unwrap_err(), Undefined("NO".into()));
        assert_eq!(secrets.get("UNSET"), None);
        assert_eq!(secrets.expand("${PATHLIKE}").unwrap(), std::env::var("PATH").unwrap());
        assert!(format!("{secrets:?}").contains("PATHLIKE") && !format!("{secrets:?}").contains("abc"));
    }
}
