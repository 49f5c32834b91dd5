//! Tokens of ours: made, recognised, expired, revoked. Owns the form of the secret and what is kept of it; where
//! records are stored is not its business.
//!
//! Only a hash of the secret is kept, and a fast one is right. Slow hashes exist for passwords, which people choose from
//! few enough that guessing pays. A token is 256 random bits: no speed of hashing makes guessing it possible. A fast
//! hash keeps each request cheap, and gives strangers no costly work to ask for.

use std::collections::BTreeSet;

use relais_engine::Millis;
use ring::rand::{SecureRandom, SystemRandom};
use serde::{Deserialize, Serialize};

use super::{Access, Scope, check_text, check_user};
use crate::Error;

pub type TokenId = uuid::Uuid;

/// What is stored of a token, under [`Token::key`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokenRecord {
    /// What people call it by when they revoke it; says nothing about the secret.
    pub id: TokenId,
    pub user: String,
    /// What its user wants to remember it by.
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub created_at: Millis,
    pub expires_at: Option<Millis>,
    pub revoked_at: Option<Millis>,
    pub last_used_at: Option<Millis>,
}

/// A presented text that has the form of a token. It keeps the hash alone, so it may be logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token(blake3::Hash);

/// Tells a token from a JWT, and lets scanners of leaked secrets recognise it.
const PREFIX: &str = "rls_";
const SECRET_BYTES: usize = 32;
/// 62^43 is the first power of 62 above 2^256.
const SECRET_DIGITS: usize = 43;
/// 62^6 is the first power of 62 above 2^32.
const CHECKSUM_DIGITS: usize = 6;
const NAME_CHARS_MAX: usize = 100;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

impl Token {
    /// A new secret, which is shown once and never again, and what to store of it.
    pub fn mint(
        user: &str,
        name: &str,
        scopes: BTreeSet<Scope>,
        expires_at: Option<Millis>,
        now: Millis,
    ) -> Result<(String, TokenRecord), Error> {
        check_user(user)?;
        check_text("The name of a token", name, NAME_CHARS_MAX)?;
        if scopes.is_empty() {
            return Err(Error::Invalid("A token needs at least one of `read`, `run`, `write` and `admin`.".into()));
        }
        if expires_at.is_some_and(|at| at <= now) {
            return Err(Error::Invalid("The token would have expired already; choose a time to come.".into()));
        }
        let (user, name, id) = (user.to_owned(), name.to_owned(), TokenId::now_v7());
        let record =
            TokenRecord { id, user, name, scopes, created_at: now, expires_at, revoked_at: None, last_used_at: None };
        Ok((secret_text(&random()?), record))
    }

    /// Whether a presented text means to be a token of ours, whole or not.
    pub fn is_meant(presented: &str) -> bool {
        presented.starts_with(PREFIX)
    }

    /// Recognises a presented text. A mistyped or cut one is noticed here, without a look into the database.
    pub fn read(presented: &str) -> Result<Token, Error> {
        let unknown =
            || Error::Unauthorized("What was presented is not a whole token; check how it was copied.".into());
        let (body, sum) = presented.rsplit_once('_').ok_or_else(unknown)?;
        let digits = body.strip_prefix(PREFIX).ok_or_else(unknown)?;
        let is_whole = digits.len() == SECRET_DIGITS && digits.bytes().all(|digit| DIGITS.contains(&digit));
        if !is_whole || checksum(body) != sum {
            return Err(unknown());
        }
        Ok(Token(blake3::hash(presented.as_bytes())))
    }

    /// What its record is stored under.
    pub fn key(&self) -> String {
        self.0.to_hex().to_string()
    }

    /// Lets the bearer in by the record that was found under `key`, or by none.
    pub fn admit(&self, found: Option<(&str, &TokenRecord)>, now: Millis) -> Result<Access, Error> {
        let refused = |why: &str| Err(Error::Unauthorized(why.to_owned()));
        let Some((_, record)) = found.filter(|(key, _)| self.is_under(key)) else {
            return refused("The token is not known here.");
        };
        if record.revoked_at.is_some() {
            return refused("The token was revoked; ask for a new one.");
        }
        if record.expires_at.is_some_and(|at| at <= now) {
            return refused("The token has expired; ask for a new one.");
        }
        Ok(Access { user: record.user.clone(), scopes: record.scopes.clone(), token: Some(record.id) })
    }

    /// A lookup may be by a prefix or without regard to case; this comparison is neither, and hashes compare in a time
    /// that does not tell where they differ.
    fn is_under(&self, key: &str) -> bool {
        blake3::Hash::from_hex(key).is_ok_and(|stored| stored == self.0)
    }
}

fn random() -> Result<[u8; SECRET_BYTES], Error> {
    let mut bytes = [0; SECRET_BYTES];
    let silent = |_| Error::Unusable("The machine gives no random numbers, so no token can be made.".into());
    SystemRandom::new().fill(&mut bytes).map_err(silent)?;
    Ok(bytes)
}

fn secret_text(bytes: &[u8; SECRET_BYTES]) -> String {
    let body = format!("{PREFIX}{}", base62(bytes, SECRET_DIGITS));
    let sum = checksum(&body);
    format!("{body}_{sum}")
}

/// Guards against mistyping, not against forging: the hash of the whole text does that.
fn checksum(body: &str) -> String {
    base62(&blake3::hash(body.as_bytes()).as_bytes()[..4], CHECKSUM_DIGITS)
}

/// The number that the bytes spell, with leading zeros, so that every secret has the same length.
fn base62(bytes: &[u8], digits: usize) -> String {
    let mut number = bytes.to_vec();
    let mut text: Vec<char> = (0..digits).map(|_| char::from(DIGITS[divide(&mut number)])).collect();
    text.reverse();
    text.into_iter().collect()
}

/// Divides the number by 62 and gives the rest.
fn divide(number: &mut [u8]) -> usize {
    let mut rest = 0;
    for byte in number {
        let value = rest * 256 + usize::from(*byte);
        // Below 256, since the rest was below 62.
        *byte = (value / 62) as u8;
        rest = value % 62;
    }
    rest
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const NOW: Millis = 1_700_000_000_000;

    fn mint(expires_at: Option<Millis>) -> (String, TokenRecord) {
        Token::mint("alice", "laptop", BTreeSet::from([Scope::Run]), expires_at, NOW).unwrap()
    }

    #[test]
    fn base62_is_fixed_in_width() {
        let table: [(&[u8], usize, &str); 5] = [
            (&[0], 2, "00"),
            (&[61], 2, "0z"),
            (&[62], 2, "10"),
            (&[255; 4], 6, "4gfFC3"),
            (&[1, 0, 0, 0, 0], 6, "4gfFC4"),
        ];
        for (bytes, digits, expected) in table {
            assert_eq!(base62(bytes, digits), expected);
        }
        // The largest secret loses nothing: what remains of it after its digits is zero.
        let mut largest = [255; SECRET_BYTES];
        for _ in 0..SECRET_DIGITS {
            divide(&mut largest);
        }
        assert_eq!(largest, [0; SECRET_BYTES]);
    }

    #[test]
    fn a_token_is_recognised_by_its_own_text_alone() {
        let (secret, record) = mint(None);
        let token = Token::read(&secret).unwrap();
        assert_eq!((secret.len(), token.key().len()), (PREFIX.len() + 43 + 1 + 6, 64));
        let access = token.admit(Some((&token.key(), &record)), NOW).unwrap();
        let expected = Access { user: "alice".into(), scopes: BTreeSet::from([Scope::Run]), token: Some(record.id) };
        assert_eq!(access, expected);
        let (other, _) = mint(None);
        let other = Token::read(&other).unwrap();
        for found in [None, Some((token.key().as_str(), &record)), Some(("", &record)), Some(("zz", &record))] {
            assert_eq!(other.admit(found, NOW), Err(Error::Unauthorized("The token is not known here.".into())));
        }
    }

    #[test]
    fn any_change_to_the_text_is_noticed() {
        let (secret, _) = mint(None);
        for at in 0..secret.len() {
            for replacement in ["", "x", "Y", "é", "_", " "] {
                let mut changed = secret.clone();
                changed.replace_range(at..=at, replacement);
                assert_eq!(Token::read(&changed).is_ok(), changed == secret, "{changed}");
            }
        }
        for text in ["", "_", "rls_", "rls__", "rls_rls_", &format!("{secret}0"), &format!(" {secret}"), "a.b.c"] {
            assert!(matches!(Token::read(text), Err(Error::Unauthorized(_))), "{text}");
        }
    }

    #[test]
    fn tokens_end() {
        let table: [(Option<Millis>, Option<Millis>, Millis, &str); 6] = [
            (None, None, Millis::MAX, ""),
            (Some(NOW + 10), None, NOW + 9, ""),
            (Some(NOW + 10), None, NOW + 10, "has expired"),
            (Some(NOW + 10), None, NOW + 11, "has expired"),
            (None, Some(NOW), NOW, "was revoked"),
            (Some(NOW + 10), Some(NOW), NOW + 20, "was revoked"),
        ];
        for (expires_at, revoked_at, now, expected) in table {
            let (secret, mut record) = mint(expires_at);
            record.revoked_at = revoked_at;
            let token = Token::read(&secret).unwrap();
            let message = token.admit(Some((&token.key(), &record)), now).err().map(|e| e.to_string());
            let message = message.unwrap_or_default();
            assert!(message.contains(expected) && message.is_empty() == expected.is_empty(), "{message}");
        }
    }

    #[test]
    fn what_cannot_be_a_token_is_not_minted() {
        let read = BTreeSet::from([Scope::Read]);
        let table = [
            ("", "n", read.clone(), None, "A user id is empty"),
            ("u", "", read.clone(), None, "The name of a token is empty"),
            ("u", "a\u{7}", read.clone(), None, "The name of a token has a control character"),
            ("u", "n", BTreeSet::new(), None, "at least one of `read`"),
            ("u", "n", read, Some(NOW), "expired already"),
        ];
        for (user, name, scopes, expires_at, expected) in table {
            let error = Token::mint(user, name, scopes, expires_at, NOW).unwrap_err();
            assert!(matches!(&error, Error::Invalid(text) if text.contains(expected)), "{error}");
        }
    }

    #[test]
    fn a_record_survives_storage_and_holds_nothing_of_the_secret() {
        let (secret, record) = mint(Some(NOW + 5));
        let stored = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<TokenRecord>(&stored).unwrap(), record);
        let token = Token::read(&secret).unwrap();
        for shown in [stored, format!("{token:?}"), format!("{record:?}"), token.key()] {
            assert!(!shown.contains(&secret[PREFIX.len()..PREFIX.len() + 8]), "{shown}");
        }
    }
}
