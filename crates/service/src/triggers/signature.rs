//! Signatures of webhooks, in the forms that senders use: HMAC-SHA256 over the body as hex or base64, with or without
//! `sha256=` before it, and Standard Webhooks (<https://www.standardwebhooks.com/>), in which id and time are signed too.
//!
//! Pure: the caller brings the headers, the body and the time. It knows nothing of triggers or channels.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use ring::hmac;

/// How old or how far ahead a signed time may be, as Standard Webhooks has it: longer would help who replays.
pub const TOLERANCE_S: i64 = 5 * 60;
/// While a secret is changed there are two signatures; each one costs a pass over the body.
const SIGNATURES_MAX: usize = 8;
/// A longer header holds no signature of ours.
const HEADER_BYTES_MAX: usize = 1024;
/// How the secrets of Standard Webhooks begin; base64 follows.
const ENCODED_SECRET: &str = "whsec_";
const VERSION: &str = "v1";
const DIGEST_BYTES: usize = 32;
/// Headers of signature, id and time; without the last two the body alone is signed.
const HEADERS: [(&str, Option<(&str, &str)>); 6] = [
    ("webhook-signature", Some(("webhook-id", "webhook-timestamp"))),
    ("svix-signature", Some(("svix-id", "svix-timestamp"))),
    ("x-hub-signature-256", None),
    ("x-signature-256", None),
    ("x-webhook-signature", None),
    ("x-signature", None),
];
/// Senders differ in whether they fill base64 up with `=`.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a request says about its signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given<'h> {
    pub signature: &'h str,
    pub id: Option<&'h str>,
    /// Seconds since 1970.
    pub timestamp: Option<&'h str>,
}

impl<'h> Given<'h> {
    /// From the headers of a request, by name in lower case; none if nothing is signed.
    pub fn from_headers(header: impl Fn(&str) -> Option<&'h str>) -> Option<Given<'h>> {
        HEADERS.iter().find_map(|(signature, with)| {
            let (id, timestamp) = with.map_or((None, None), |(id, timestamp)| (header(id), header(timestamp)));
            Some(Given { signature: header(signature)?, id, timestamp })
        })
    }
}

/// Whether the body was signed with the secret. `now_s` are seconds since 1970.
pub fn verify(secret: &str, body: &[u8], given: Given<'_>, now_s: i64) -> Result<(), String> {
    if secret.is_empty() {
        return Err("the secret of the webhook is empty, so nothing can be signed with it".to_owned());
    }
    if given.signature.len() > HEADER_BYTES_MAX {
        return Err(format!("the signature is longer than {HEADER_BYTES_MAX} bytes"));
    }
    let is_standard = given.id.is_some() || given.timestamp.is_some() || given.signature.starts_with("v1,");
    if is_standard { verify_standard(secret, body, given, now_s) } else { verify_plain(secret, body, given.signature) }
}

/// The header `webhook-signature` of Standard Webhooks.
pub fn sign(secret: &str, id: &str, timestamp_s: i64, body: &[u8]) -> Result<String, String> {
    let tag = hmac::sign(&standard_key(secret)?, &signed_content(id, &timestamp_s.to_string(), body));
    Ok(format!("{VERSION},{}", BASE64.encode(tag)))
}

fn verify_plain(secret: &str, body: &[u8], signature: &str) -> Result<(), String> {
    let signature = signature.trim();
    let digest = signature.strip_prefix("sha256=").unwrap_or(signature);
    let Some(tag) = from_hex(digest).or_else(|| from_base64(digest)) else {
        return Err("the signature is no HMAC-SHA256: it is 64 hex digits (`sha256=…`), base64, or `v1,…`".to_owned());
    };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    // Compares in constant time.
    hmac::verify(&key, body, &tag).map_err(|_| mismatch())
}

fn verify_standard(secret: &str, body: &[u8], given: Given<'_>, now_s: i64) -> Result<(), String> {
    let (Some(id), Some(timestamp)) = (given.id, given.timestamp) else {
        return Err("a `v1` signature needs the headers webhook-id and webhook-timestamp".to_owned());
    };
    check_time(timestamp, now_s)?;
    let key = standard_key(secret)?;
    let content = signed_content(id, timestamp, body);
    let mut signatures =
        given.signature.split_whitespace().filter_map(|part| part.split_once(',')).take(SIGNATURES_MAX);
    let is_ours = |(version, encoded): (&str, &str)| {
        let tag = from_base64(encoded).filter(|_| version == VERSION);
        tag.is_some_and(|tag| hmac::verify(&key, &content, &tag).is_ok())
    };
    if signatures.any(is_ours) { Ok(()) } else { Err(mismatch()) }
}

fn check_time(timestamp: &str, now_s: i64) -> Result<(), String> {
    let Ok(at) = timestamp.parse::<i64>() else {
        return Err("the header webhook-timestamp takes whole seconds since 1970".to_owned());
    };
    match now_s.saturating_sub(at) {
        late if late > TOLERANCE_S => Err(format!("it was signed {late} s ago; at most {TOLERANCE_S} are allowed")),
        early if early < -TOLERANCE_S => {
            let ahead = early.unsigned_abs();
            Err(format!("it was signed {ahead} s in the future; at most {TOLERANCE_S} are allowed"))
        }
        _ => Ok(()),
    }
}

fn mismatch() -> String {
    "the signature does not match the body; both sides must have the same secret".to_owned()
}

fn signed_content(id: &str, timestamp: &str, body: &[u8]) -> Vec<u8> {
    [id.as_bytes(), b".", timestamp.as_bytes(), b".", body].concat()
}

fn standard_key(secret: &str) -> Result<hmac::Key, String> {
    let key = match secret.strip_prefix(ENCODED_SECRET) {
        Some(encoded) => {
            BASE64.decode(encoded).map_err(|_| format!("the secret begins with `{ENCODED_SECRET}` and is no base64"))?
        }
        None => secret.as_bytes().to_vec(),
    };
    if key.is_empty() {
        return Err("the secret is empty, so nothing can be signed with it".to_owned());
    }
    Ok(hmac::Key::new(hmac::HMAC_SHA256, &key))
}

fn from_base64(text: &str) -> Option<Vec<u8>> {
    BASE64.decode(text).ok().filter(|tag| tag.len() == DIGEST_BYTES)
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() == 2 * DIGEST_BYTES)?;
    Some(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn plain(signature: &str) -> Given<'_> {
        Given { signature, id: None, timestamp: None }
    }

    fn check(secret: &str, body: &str, given: Given<'_>, now_s: i64, wrong: Option<&str>) {
        let verified = verify(secret, body.as_bytes(), given, now_s);
        match wrong {
            None => assert_eq!(verified, Ok(()), "{given:?}"),
            Some(part) => assert!(verified.clone().unwrap_err().contains(part), "{given:?}: {verified:?}"),
        }
    }

    /// The example of GitHub's documentation, and test case 2 of RFC 4231.
    #[test]
    fn bodies_signed_in_hex_and_base64() {
        let (secret, body) = ("It's a Secret to Everybody", "Hello, World!");
        let hex = "757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        check(secret, body, plain(&format!("sha256={hex}")), 0, None);
        check(secret, body, plain(hex), 0, None);
        check(secret, body, plain(&hex.to_uppercase()), 0, None);
        check(secret, "Hello, World?", plain(hex), 0, Some("does not match"));
        check("It's a Secret", body, plain(hex), 0, Some("does not match"));
        check("", body, plain(hex), 0, Some("is empty"));
        let (secret, body) = ("Jefe", "what do ya want for nothing?");
        check(secret, body, plain("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"), 0, None);
        check(secret, body, plain("W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM="), 0, None);
        check(secret, body, plain("W9zBRr9gdU5qBCQmCJV1x1oAPwidJzmDnexYuWTsOEM"), 0, None);
        for odd in ["", "sha256=", "sha1=5bdcc146", "5bdc", "é", "W9zBRr9gdU5qBCQm", &"a".repeat(63)] {
            check(secret, body, plain(odd), 0, Some("no HMAC-SHA256"));
        }
        check(secret, body, plain(&"a".repeat(2_000)), 0, Some("longer than"));
    }

    const BODY: &str = r#"{"test": 2432232314}"#;
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const AT: i64 = 1_614_265_330;

    /// The example of the libraries of Standard Webhooks.
    #[test]
    fn standard_webhooks_sign_id_and_time_too() {
        let timestamp = AT.to_string();
        let given = Given { signature: SIGNATURE, id: Some(ID), timestamp: Some(&timestamp) };
        let two = format!("v1,{} v2,abc {SIGNATURE}", "A".repeat(43));
        check(SECRET, BODY, given, AT, None);
        check(SECRET, BODY, Given { signature: &two, ..given }, AT + TOLERANCE_S, None);
        check(SECRET, BODY, given, AT - TOLERANCE_S, None);
        check(SECRET, BODY, given, AT + TOLERANCE_S + 1, Some("301 s ago"));
        check(SECRET, BODY, given, AT - TOLERANCE_S - 1, Some("301 s in the future"));
        check(SECRET, "{}", given, AT, Some("does not match"));
        check(SECRET, BODY, Given { id: Some("msg_other"), ..given }, AT, Some("does not match"));
        check(SECRET, BODY, Given { timestamp: Some("1614265331"), ..given }, AT, Some("does not match"));
        check(SECRET, BODY, Given { signature: "v2,x", ..given }, AT, Some("does not match"));
        check(SECRET, BODY, Given { id: None, ..given }, AT, Some("webhook-id"));
        check(SECRET, BODY, Given { id: None, timestamp: None, ..given }, AT, Some("webhook-id"));
        check(SECRET, BODY, Given { timestamp: Some("now"), ..given }, AT, Some("whole seconds"));
        let latest = i64::MIN.to_string();
        check(SECRET, BODY, Given { timestamp: Some(&latest), ..given }, i64::MAX, Some("s ago"));
        check("whsec_%%", BODY, given, AT, Some("no base64"));
        check("whsec_", BODY, given, AT, Some("is empty"));
    }

    #[test]
    fn what_we_sign_others_verify() {
        assert_eq!(sign(SECRET, ID, AT, BODY.as_bytes()).as_deref(), Ok(SIGNATURE));
        let signature = sign("any text", "m", 7, b"x").unwrap();
        check("any text", "x", Given { signature: &signature, id: Some("m"), timestamp: Some("7") }, 7, None);
    }

    #[test]
    fn headers_are_found_by_name() {
        let check = |headers: &[(&str, &'static str)], wanted: Option<Given<'_>>| {
            let header = |name: &str| headers.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
            assert_eq!(Given::from_headers(header), wanted, "{headers:?}");
        };
        check(&[("content-type", "x")], None);
        check(&[("x-hub-signature-256", "a")], Some(plain("a")));
        let standard = [("webhook-id", "i"), ("webhook-timestamp", "1"), ("webhook-signature", "v1,a")];
        check(&standard, Some(Given { signature: "v1,a", id: Some("i"), timestamp: Some("1") }));
        check(&[("svix-signature", "v1,a"), ("svix-id", "i")], Some(Given { id: Some("i"), ..plain("v1,a") }));
    }
}
