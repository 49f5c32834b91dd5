//! Who asks, and what they may do. Owns the four scopes and what a user id may look like; its folder owns the two ways
//! to show who one is (tokens of ours, JWTs from outside) and the limit on wrong tries.
//!
//! Knows neither HTTP requests nor the database: a surface hands in the text that was presented, and whoever stores
//! tokens finds their records.

mod failures;
mod jwks;
mod jwt;
mod token;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Error;

pub use failures::Failures;
pub use jwks::Jwks;
#[cfg(test)]
pub(crate) use jwks::tests::TestClock;
pub use token::{Token, TokenId, TokenRecord};

/// Somebody who has shown who they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub user: String,
    pub scopes: BTreeSet<Scope>,
    /// Which of our tokens was presented; none for a JWT and on the machine itself.
    pub token: Option<TokenId>,
}

impl Access {
    /// Whoever sits at the machine: they could read the database file anyway.
    pub fn local(user: &str) -> Access {
        Access { user: user.to_owned(), scopes: BTreeSet::from([Scope::Admin]), token: None }
    }

    /// For callers that name a user themselves: it must be the one they have shown to be. Another's things are not
    /// there, so neither is the other.
    pub fn check_user_id(&self, given: &str) -> Result<(), Error> {
        check_own(&self.user, given)
    }

    pub fn may(&self, wanted: Scope) -> Result<(), Error> {
        if self.scopes.iter().any(|scope| scope.implies(wanted)) {
            return Ok(());
        }
        let words: Vec<&str> = self.scopes.iter().map(|scope| scope.word()).collect();
        let has = if words.is_empty() { "none".to_owned() } else { words.join(", ") };
        Err(Error::Forbidden(format!("This needs the scope `{wanted}`; the token that was presented has: {has}.")))
    }
}

pub(crate) fn check_own(user: &str, given: &str) -> Result<(), Error> {
    if given == user {
        return Ok(());
    }
    Err(Error::NotFound("there is nothing of the given user_id here; leave it out, or give your own".into()))
}

/// What a token allows its bearer to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
pub enum Scope {
    /// See everything of the user.
    Read,
    /// Start runs, and act on them: cancel, resume, answer.
    Run,
    /// Change workflows, agents and triggers.
    Write,
    /// Tokens, users, and what concerns the whole server.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 4] = [Scope::Read, Scope::Run, Scope::Write, Scope::Admin];

    pub fn word(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Write => "write",
            Scope::Admin => "admin",
        }
    }

    /// Whoever may act on a thing may see it; running and changing are apart, so that a token that only starts runs
    /// cannot change what they do.
    fn implies(self, wanted: Scope) -> bool {
        match self {
            Scope::Read => wanted == Scope::Read,
            Scope::Run | Scope::Write => wanted == self || wanted == Scope::Read,
            Scope::Admin => true,
        }
    }
}

impl FromStr for Scope {
    type Err = Error;

    fn from_str(word: &str) -> Result<Scope, Error> {
        let found = Scope::ALL.into_iter().find(|scope| scope.word() == word);
        let shown: String = word.chars().take(SHOWN_CHARS).collect();
        found.ok_or_else(|| {
            Error::Invalid(format!("{shown:?} is not a scope; the scopes are `read`, `run`, `write` and `admin`."))
        })
    }
}

/// Enough of a wrong word to recognise it by.
const SHOWN_CHARS: usize = 40;

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

impl From<Scope> for &'static str {
    fn from(scope: Scope) -> &'static str {
        scope.word()
    }
}

impl TryFrom<String> for Scope {
    type Error = Error;

    fn try_from(word: String) -> Result<Scope, Error> {
        word.parse()
    }
}

/// OpenID Connect bounds `sub` to as many; nobody's id is longer.
pub const USER_CHARS_MAX: usize = 255;

/// A user's id is opaque: whoever issues it decides what it says. What could not be shown in one line is refused.
pub fn check_user(id: &str) -> Result<(), Error> {
    check_text("A user id", id, USER_CHARS_MAX)
}

fn check_text(what: &str, text: &str, chars_max: usize) -> Result<(), Error> {
    let wrong = |why: String| Err(Error::Invalid(format!("{what} {why}.")));
    if text.is_empty() {
        return wrong("is empty; it needs at least one character".into());
    }
    if text.chars().nth(chars_max).is_some() {
        return wrong(format!("is too long; it may have at most {chars_max} characters"));
    }
    if !relais_plan::text::is_name(text) {
        return wrong("has a control character (a line break, a tab or the like); leave it out".into());
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn scopes_imply_what_they_need() {
        let table = [
            ("read", [true, false, false, false]),
            ("run", [true, true, false, false]),
            ("write", [true, false, true, false]),
            ("admin", [true, true, true, true]),
            ("", [false, false, false, false]),
            ("run write", [true, true, true, false]),
        ];
        for (words, expected) in table {
            let scopes = words.split_whitespace().map(|word| word.parse().unwrap()).collect();
            let access = Access { user: "u".into(), scopes, token: None };
            assert_eq!(Scope::ALL.map(|wanted| access.may(wanted).is_ok()), expected, "{words}");
        }
    }

    #[test]
    fn a_refusal_says_what_is_needed_and_what_is_there() {
        let access = Access { user: "u".into(), scopes: BTreeSet::from([Scope::Read, Scope::Run]), token: None };
        let expected = "This needs the scope `write`; the token that was presented has: read, run.";
        assert_eq!(access.may(Scope::Write), Err(Error::Forbidden(expected.into())));
    }

    #[test]
    fn a_wrong_word_is_told_the_four() {
        for word in ["", "READ", "read ", "all", "read\nwrite"] {
            let text = word.parse::<Scope>().unwrap_err().to_string();
            let stored = serde_json::from_value::<Scope>(word.into()).unwrap_err().to_string();
            assert!(text.ends_with("the scopes are `read`, `run`, `write` and `admin`."), "{text}");
            assert_eq!(text, stored);
        }
        assert_eq!(serde_json::to_value(Scope::ALL).unwrap().to_string(), r#"["read","run","write","admin"]"#);
    }

    #[test]
    fn user_ids_are_opaque_within_bounds() {
        let table = [
            ("alice".to_owned(), ""),
            ("auth0|5f…@例え.jp / x".to_owned(), ""),
            ("ü".repeat(255), ""),
            ("ü".repeat(256), "at most 255 characters"),
            (String::new(), "is empty"),
            ("a\nb".to_owned(), "control character"),
            ("a\u{0}".to_owned(), "control character"),
            ("a\u{85}".to_owned(), "control character"),
        ];
        for (id, expected) in table {
            let message = check_user(&id).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(message.contains(expected) && message.is_empty() == expected.is_empty(), "{id:?}: {message}");
        }
    }
}
