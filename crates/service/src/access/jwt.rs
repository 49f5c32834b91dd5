//! One JWT: its form, its claims, its signature. All of it is a pure function of the text, the keys and the time; where
//! keys come from is in `jwks.rs`.
//!
//! Three algorithms are taken, each with a public key. `none` and the HS family are not among them, so neither an
//! unsigned token nor one "signed" with a public key as its shared secret can pass.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use relais_engine::Millis;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Access, Scope, check_user};
use crate::Error;

/// Servers take no more in one header; a token with this much to say does not fit its purpose.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Issuers publish two or three. Each may cost a signature check.
const KEYS_MAX: usize = 32;
const POINT_BYTES: usize = 32;

/// What a token must say to be taken.
#[derive(Debug, Clone)]
pub struct Rules {
    pub issuer: String,
    pub audience: String,
    pub user_claim: String,
    /// Stands before the claim in the user's id, so that nobody from outside has the name of somebody here.
    pub user_prefix: String,
    pub scope_claim: String,
    pub leeway_ms: Millis,
}

/// A token whose parts could be read; nothing in it is proven yet.
#[derive(Debug)]
pub struct Jwt<'a> {
    algorithm: Algorithm,
    kid: Option<String>,
    claims: Map<String, Value>,
    signed: &'a str,
    signature: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

#[derive(Deserialize)]
struct Header {
    alg: String,
    kid: Option<String>,
    crit: Option<Value>,
}

impl Algorithm {
    fn of(word: &str) -> Option<Algorithm> {
        match word {
            "RS256" => Some(Algorithm::Rs256),
            "ES256" => Some(Algorithm::Es256),
            "EdDSA" => Some(Algorithm::EdDsa),
            _ => None,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Algorithm::Rs256 => "RS256",
            Algorithm::Es256 => "ES256",
            Algorithm::EdDsa => "EdDSA",
        }
    }
}

fn refused(why: &str) -> Error {
    Error::Unauthorized(why.to_owned())
}

impl<'a> Jwt<'a> {
    pub fn read(text: &'a str) -> Result<Jwt<'a>, Error> {
        let malformed = || refused("What was presented is neither a token nor a JWT; check how it was copied.");
        if text.len() > TEXT_BYTES_MAX {
            return Err(refused("The JWT is longer than 16 KiB; ask for one with fewer claims."));
        }
        let (signed, signature) = text.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = signed.split_once('.').ok_or_else(malformed)?;
        let header: Header = part(header).ok_or_else(malformed)?;
        let claims = part(claims).ok_or_else(malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?;
        let algorithm = Algorithm::of(&header.alg)
            .ok_or_else(|| refused("The JWT is signed in a way that is not taken; RS256, ES256 and EdDSA are."))?;
        // It names what a reader must understand to take the token; we understand none of it.
        if header.crit.is_some() {
            return Err(refused("The JWT asks with `crit` for extensions that are not known here."));
        }
        Ok(Jwt { algorithm, kid: header.kid, claims, signed, signature })
    }

    /// Whom the claims let in, provided that the signature is right.
    pub fn claimed(&self, rules: &Rules, now: Millis) -> Result<Access, Error> {
        self.check_times(rules.leeway_ms, now)?;
        if self.claims.get("iss").and_then(Value::as_str) != Some(&rules.issuer) {
            return Err(refused("The JWT comes from an issuer that is not trusted here."));
        }
        if !words(self.claims.get("aud"), false).contains(&rules.audience.as_str()) {
            return Err(refused("The JWT is meant for another audience than this server."));
        }
        let user = self.claims.get(&rules.user_claim).and_then(Value::as_str).unwrap_or_default();
        let unnamed = |e| refused(&format!("The claim `{}` of the JWT does not name a user: {e}", rules.user_claim));
        check_user(user).map_err(unnamed)?;
        let user = format!("{}{user}", rules.user_prefix);
        check_user(&user).map_err(unnamed)?;
        Ok(Access { user, scopes: self.scopes(&rules.scope_claim), token: None })
    }

    /// Words that are not ours are left out: `openid profile` and the like say something to others.
    fn scopes(&self, claim: &str) -> BTreeSet<Scope> {
        words(self.claims.get(claim), true).into_iter().filter_map(|word| word.parse().ok()).collect()
    }

    fn check_times(&self, leeway_ms: Millis, now: Millis) -> Result<(), Error> {
        let expires = self.time("exp")?.ok_or_else(|| refused("The JWT never expires (`exp` is missing)."))?;
        if now >= expires.saturating_add(leeway_ms) {
            return Err(refused("The JWT has expired; ask for a new one."));
        }
        if self.time("nbf")?.is_some_and(|from| now < from.saturating_sub(leeway_ms)) {
            return Err(refused("The JWT is not valid yet; compare the clocks of this server and of the issuer."));
        }
        Ok(())
    }

    /// Seconds since 1970, perhaps with a fraction. One that is there but no number does not count as missing.
    fn time(&self, claim: &str) -> Result<Option<Millis>, Error> {
        let Some(value) = self.claims.get(claim) else { return Ok(None) };
        let seconds =
            value.as_f64().ok_or_else(|| refused(&format!("The claim `{claim}` of the JWT is no number.")))?;
        Ok(Some((seconds * 1_000.0) as Millis))
    }
}

/// A part of a token: JSON in base64.
fn part<T: for<'de> Deserialize<'de>>(text: &str) -> Option<T> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    serde_json::from_slice(&bytes).ok()
}

/// One text or a list of them; `spaced` texts are lists too, as OAuth writes them.
fn words(claim: Option<&Value>, spaced: bool) -> Vec<&str> {
    let texts: Vec<&str> = match claim {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if spaced { texts.into_iter().flat_map(str::split_whitespace).collect() } else { texts }
}

/// The issuer's keys that can be used here.
#[derive(Debug, Default)]
pub struct KeySet(Vec<Key>);

#[derive(Debug)]
struct Key {
    kid: Option<String>,
    public: Public,
}

/// The kind of a key decides the one algorithm that it is used with, whatever a token says.
#[derive(Debug)]
enum Public {
    Rsa(RsaPublicKeyComponents<Vec<u8>>),
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Genuine,
    Forged,
    /// None of these keys is meant; newer ones may have it.
    UnknownKey,
}

/// The JSON of one key, as far as it matters.
#[derive(Deserialize)]
struct Jwk {
    kty: String,
    kid: Option<String>,
    alg: Option<String>,
    r#use: Option<String>,
    key_ops: Option<Vec<String>>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl KeySet {
    /// Keys of other kinds and for other purposes are left out, as the standard asks.
    pub fn read(json: &[u8]) -> Result<KeySet, String> {
        #[derive(Deserialize)]
        struct Document {
            keys: Vec<Value>,
        }
        let document: Document =
            serde_json::from_slice(json).map_err(|e| format!("the answer is no set of keys: {e}"))?;
        if document.keys.len() > KEYS_MAX {
            return Err(format!("the answer has {} keys; at most {KEYS_MAX} are taken", document.keys.len()));
        }
        let jwks = document.keys.into_iter().filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys: Vec<Key> = jwks.filter_map(Key::of).collect();
        if keys.is_empty() {
            return Err("the answer has no key for RS256, ES256 or EdDSA signatures".to_owned());
        }
        Ok(KeySet(keys))
    }

    pub fn judge(&self, jwt: &Jwt<'_>) -> Verdict {
        let is_meant =
            |key: &&Key| key.public.algorithm() == jwt.algorithm && (jwt.kid.is_none() || key.kid == jwt.kid);
        let mut meant = self.0.iter().filter(is_meant).peekable();
        // A token that names no key may be of a newer one, whichever are here.
        let is_named = jwt.kid.is_some() && meant.peek().is_some();
        match (meant.any(|key| key.public.has_signed(jwt)), is_named) {
            (true, _) => Verdict::Genuine,
            (false, true) => Verdict::Forged,
            (false, false) => Verdict::UnknownKey,
        }
    }
}

impl Key {
    fn of(jwk: Jwk) -> Option<Key> {
        let for_signatures = jwk.r#use.as_deref().is_none_or(|purpose| purpose == "sig");
        let may_verify = jwk.key_ops.as_ref().is_none_or(|operations| operations.iter().any(|o| o == "verify"));
        let public = Public::of(&jwk).filter(|_| for_signatures && may_verify)?;
        let is_said = jwk.alg.as_deref().is_none_or(|word| word == public.algorithm().word());
        is_said.then_some(Key { kid: jwk.kid, public })
    }
}

impl Public {
    fn of(jwk: &Jwk) -> Option<Public> {
        let bytes = |text: &Option<String>| URL_SAFE_NO_PAD.decode(text.as_deref()?).ok();
        let coordinate = |text: &Option<String>| bytes(text).filter(|bytes| bytes.len() == POINT_BYTES);
        match (jwk.kty.as_str(), jwk.crv.as_deref()) {
            ("RSA", _) => Some(Public::Rsa(RsaPublicKeyComponents { n: bytes(&jwk.n)?, e: bytes(&jwk.e)? })),
            // The 4 is the sign of a point with both coordinates.
            ("EC", Some("P-256")) => Some(Public::P256([vec![4], coordinate(&jwk.x)?, coordinate(&jwk.y)?].concat())),
            ("OKP", Some("Ed25519")) => Some(Public::Ed25519(coordinate(&jwk.x)?)),
            _ => None,
        }
    }

    fn algorithm(&self) -> Algorithm {
        match self {
            Public::Rsa(_) => Algorithm::Rs256,
            Public::P256(_) => Algorithm::Es256,
            Public::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    fn has_signed(&self, jwt: &Jwt<'_>) -> bool {
        let (message, signature) = (jwt.signed.as_bytes(), jwt.signature.as_slice());
        let checked = match self {
            Public::Rsa(key) => key.verify(&RSA_PKCS1_2048_8192_SHA256, message, signature),
            Public::P256(key) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key).verify(message, signature),
            Public::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(message, signature),
        };
        checked.is_ok()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub mod tests {
    use std::sync::LazyLock;

    use base64::engine::general_purpose::STANDARD;
    use ring::hmac;
    use ring::rand::SystemRandom;
    use ring::signature::{
        ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
    };
    use serde_json::json;

    use super::*;

    pub const NOW: Millis = 1_700_000_000_000;
    const NOW_S: i64 = NOW / 1_000;

    /// A private key of an issuer.
    pub enum Signer {
        Rs256(Box<RsaKeyPair>),
        Es256(EcdsaKeyPair),
        EdDsa(Ed25519KeyPair),
    }

    fn base64(bytes: impl AsRef<[u8]>) -> String {
        URL_SAFE_NO_PAD.encode(bytes)
    }

    impl Signer {
        /// ring makes no RSA keys, so this one was made once, for these tests alone.
        pub fn rs256() -> Signer {
            let text: String = include_str!("../../tests/rsa-key.txt").split_whitespace().collect();
            Signer::Rs256(Box::new(RsaKeyPair::from_der(&STANDARD.decode(text).unwrap()).unwrap()))
        }

        pub fn es256() -> Signer {
            let random = SystemRandom::new();
            let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
            let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
            Signer::Es256(key.unwrap())
        }

        pub fn eddsa() -> Signer {
            let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
            Signer::EdDsa(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
        }

        fn algorithm(&self) -> &'static str {
            match self {
                Signer::Rs256(_) => "RS256",
                Signer::Es256(_) => "ES256",
                Signer::EdDsa(_) => "EdDSA",
            }
        }

        pub fn jwk(&self, kid: &str) -> Value {
            let mut jwk = match self {
                Signer::Rs256(key) => {
                    let RsaPublicKeyComponents { n, e } = RsaPublicKeyComponents::<Vec<u8>>::from(key.public());
                    json!({ "kty": "RSA", "n": base64(n), "e": base64(e) })
                }
                Signer::Es256(key) => {
                    let (x, y) = key.public_key().as_ref()[1..].split_at(POINT_BYTES);
                    json!({ "kty": "EC", "crv": "P-256", "x": base64(x), "y": base64(y) })
                }
                Signer::EdDsa(key) => json!({ "kty": "OKP", "crv": "Ed25519", "x": base64(key.public_key()) }),
            };
            jwk["kid"] = kid.into();
            jwk
        }

        pub fn sign(&self, kid: &str, claims: &Value) -> String {
            self.sign_with(&json!({ "alg": self.algorithm(), "kid": kid, "typ": "JWT" }), claims)
        }

        fn sign_with(&self, header: &Value, claims: &Value) -> String {
            let signed = format!("{}.{}", base64(header.to_string()), base64(claims.to_string()));
            let random = SystemRandom::new();
            let signature = match self {
                Signer::Rs256(key) => {
                    let mut signature = vec![0; key.public().modulus_len()];
                    key.sign(&RSA_PKCS1_SHA256, &random, signed.as_bytes(), &mut signature).unwrap();
                    signature
                }
                Signer::Es256(key) => key.sign(&random, signed.as_bytes()).unwrap().as_ref().to_vec(),
                Signer::EdDsa(key) => key.sign(signed.as_bytes()).as_ref().to_vec(),
            };
            format!("{signed}.{}", base64(signature))
        }
    }

    struct Issuer {
        signers: [Signer; 3],
        keys: Vec<u8>,
    }

    /// One key of each kind, named after its algorithm.
    static ISSUER: LazyLock<Issuer> = LazyLock::new(|| {
        let signers = [Signer::rs256(), Signer::es256(), Signer::eddsa()];
        let keys = signers.iter().map(|signer| signer.jwk(signer.algorithm())).collect();
        Issuer { signers, keys: document(keys) }
    });

    pub fn document(keys: Vec<Value>) -> Vec<u8> {
        json!({ "keys": keys }).to_string().into_bytes()
    }

    pub fn rules() -> Rules {
        Rules {
            issuer: "https://issuer.test".into(),
            audience: "relais".into(),
            user_claim: "sub".into(),
            user_prefix: String::new(),
            scope_claim: "scope".into(),
            leeway_ms: 60_000,
        }
    }

    pub fn claims() -> Value {
        json!({ "iss": "https://issuer.test", "aud": "relais", "sub": "alice", "exp": NOW_S + 300, "scope": "openid run" })
    }

    fn with(changes: Value) -> Value {
        let mut claims = claims();
        for (name, value) in changes.as_object().unwrap() {
            claims[name] = value.clone();
        }
        claims
    }

    /// Who gets in with this text, else why nobody does.
    fn enter(text: &str, rules: &Rules) -> Result<Access, String> {
        let jwt = Jwt::read(text).map_err(|e| e.to_string())?;
        let access = jwt.claimed(rules, NOW).map_err(|e| e.to_string())?;
        match KeySet::read(&ISSUER.keys).unwrap().judge(&jwt) {
            Verdict::Genuine => Ok(access),
            Verdict::Forged => Err("forged".into()),
            Verdict::UnknownKey => Err("unknown key".into()),
        }
    }

    /// The scopes that the text gives to alice, or a part of the refusal.
    fn check(text: &str, rules: &Rules, expected: Result<&str, &str>) {
        let entered = enter(text, rules).map(|access| {
            assert_eq!((access.user.as_str(), access.token), ("alice", None));
            access.scopes.iter().map(|scope| scope.word()).collect::<Vec<_>>().join(" ")
        });
        match (&entered, expected) {
            (Ok(scopes), Ok(expected)) => assert_eq!(scopes, expected, "{text}"),
            (Err(message), Err(expected)) => assert!(message.contains(expected), "{text}: {message}"),
            _ => panic!("{text}: {entered:?}, expected {expected:?}"),
        }
    }

    #[test]
    fn each_algorithm_is_taken_with_its_own_key_only() {
        for signer in &ISSUER.signers {
            let algorithm = signer.algorithm();
            check(&signer.sign(algorithm, &claims()), &rules(), Ok("run"));
            check(&signer.sign_with(&json!({ "alg": algorithm }), &claims()), &rules(), Ok("run"));
            check(&signer.sign("another", &claims()), &rules(), Err("unknown key"));
            for other in ISSUER.signers.iter().map(Signer::algorithm).filter(|other| *other != algorithm) {
                check(&signer.sign(other, &claims()), &rules(), Err("unknown key"));
                let header = json!({ "alg": other, "kid": other });
                check(&signer.sign_with(&header, &claims()), &rules(), Err("forged"));
            }
        }
        check(&Signer::eddsa().sign("EdDSA", &claims()), &rules(), Err("forged"));
        check(&Signer::es256().sign("ES256", &claims()), &rules(), Err("forged"));
    }

    #[test]
    fn claims_decide_who_gets_in() {
        let long: Value = "ü".repeat(256).into();
        let table = [
            (json!({ "scope": "read write admin" }), Ok("read write admin")),
            (json!({ "scope": ["read", "run"] }), Ok("read run")),
            (json!({ "scope": ["openid read", 7] }), Ok("read")),
            (json!({ "scope": null }), Ok("")),
            (json!({ "scope": { "admin": true } }), Ok("")),
            (json!({ "scope": "ADMIN administrator" }), Ok("")),
            (json!({ "aud": ["other", "relais"] }), Ok("run")),
            (json!({ "aud": ["other"] }), Err("another audience")),
            (json!({ "aud": "other relais" }), Err("another audience")),
            (json!({ "aud": null }), Err("another audience")),
            (json!({ "aud": { "relais": 1 } }), Err("another audience")),
            (json!({ "iss": "https://issuer.test/" }), Err("issuer that is not trusted")),
            (json!({ "iss": ["https://issuer.test"] }), Err("issuer that is not trusted")),
            (json!({ "iss": null }), Err("issuer that is not trusted")),
            (json!({ "exp": NOW_S - 59 }), Ok("run")),
            (json!({ "exp": NOW_S as f64 - 59.5 }), Ok("run")),
            (json!({ "exp": NOW_S - 60 }), Err("has expired")),
            (json!({ "exp": 1e300 }), Ok("run")),
            (json!({ "exp": -1e300 }), Err("has expired")),
            (json!({ "exp": "2030-01-01" }), Err("`exp` of the JWT is no number")),
            (json!({ "exp": null }), Err("`exp` of the JWT is no number")),
            (json!({ "nbf": NOW_S + 60 }), Ok("run")),
            (json!({ "nbf": NOW_S + 61 }), Err("not valid yet")),
            (json!({ "nbf": true }), Err("`nbf` of the JWT is no number")),
            (json!({ "sub": "" }), Err("`sub` of the JWT does not name a user: A user id is empty")),
            (json!({ "sub": 7 }), Err("does not name a user")),
            (json!({ "sub": "a\nb" }), Err("control character")),
            (json!({ "sub": long }), Err("at most 255")),
        ];
        for (changes, expected) in table {
            check(&ISSUER.signers[2].sign("EdDSA", &with(changes)), &rules(), expected);
        }
        let mut endless = claims();
        endless.as_object_mut().unwrap().remove("exp");
        check(&ISSUER.signers[2].sign("EdDSA", &endless), &rules(), Err("never expires"));
    }

    #[test]
    fn a_user_from_outside_has_a_name_of_the_issuers() {
        let rules = Rules { user_prefix: "issuer.test|".into(), ..rules() };
        let named = |claims: &Value| {
            let text = ISSUER.signers[1].sign("ES256", claims);
            Jwt::read(&text).unwrap().claimed(&rules, NOW_S * 1_000).map(|access| access.user)
        };
        assert_eq!(named(&claims()).unwrap(), "issuer.test|alice");
        let long = with(json!({ "sub": "a".repeat(250) }));
        assert!(named(&long).unwrap_err().to_string().contains("too long"));
        assert!(named(&with(json!({ "sub": "" }))).is_err(), "the prefix alone is nobody");
    }

    #[test]
    fn claims_may_have_other_names() {
        let rules = Rules { user_claim: "email".into(), scope_claim: "https://x.test/roles".into(), ..rules() };
        let named = with(json!({ "sub": "7", "email": "alice", "https://x.test/roles": ["write"] }));
        check(&ISSUER.signers[1].sign("ES256", &named), &rules, Ok("write"));
        check(&ISSUER.signers[1].sign("ES256", &claims()), &rules, Err("`email` of the JWT does not name a user"));
    }

    #[test]
    fn a_token_that_nobody_signed_does_not_pass() {
        let payload = base64(claims().to_string());
        let unsigned = |header: Value, signature: &str| format!("{}.{payload}.{signature}", base64(header.to_string()));
        for word in ["none", "None", "HS256", "HS512", "RS384", "PS256", "ES384", "rs256", ""] {
            check(&unsigned(json!({ "alg": word }), ""), &rules(), Err("RS256, ES256 and EdDSA are"));
        }
        // Signed with the published key as if it were a shared secret.
        let header = base64(json!({ "alg": "HS256", "kid": "EdDSA" }).to_string());
        let public = ISSUER.signers[2].jwk("")["x"].as_str().unwrap().to_owned();
        let secret = hmac::Key::new(hmac::HMAC_SHA256, &URL_SAFE_NO_PAD.decode(public).unwrap());
        let tag = hmac::sign(&secret, format!("{header}.{payload}").as_bytes());
        check(&format!("{header}.{payload}.{}", base64(tag)), &rules(), Err("RS256, ES256 and EdDSA are"));
        check(&unsigned(json!({ "alg": "ES256", "kid": "ES256" }), ""), &rules(), Err("forged"));
        check(&unsigned(json!({ "alg": "ES256", "kid": "ES256" }), &base64([0; 64])), &rules(), Err("forged"));
        check(&unsigned(json!({ "alg": "EdDSA", "crit": ["b64"] }), ""), &rules(), Err("`crit`"));
    }

    #[test]
    fn a_changed_token_does_not_pass() {
        for signer in &ISSUER.signers {
            let text = signer.sign(signer.algorithm(), &claims());
            let [header, payload, signature]: [&str; 3] = text.split('.').collect::<Vec<_>>().try_into().unwrap();
            let more = base64(with(json!({ "scope": "admin" })).to_string());
            check(&format!("{header}.{more}.{signature}"), &rules(), Err("forged"));
            let longer = base64([URL_SAFE_NO_PAD.decode(signature).unwrap(), vec![0]].concat());
            check(&format!("{header}.{payload}.{longer}"), &rules(), Err("forged"));
            for text in [format!("{text}="), format!("{text}."), format!(".{text}"), format!("{header}.{payload}")] {
                check(&text, &rules(), Err("neither a token nor a JWT"));
            }
        }
        let long = "a".repeat(TEXT_BYTES_MAX + 1);
        for (text, expected) in [("", "neither"), ("..", "neither"), ("e30.e30.", "neither"), (&long, "16 KiB")] {
            check(text, &rules(), Err(expected));
        }
    }

    #[test]
    fn only_keys_for_signatures_are_used() {
        let jwk = |changes: Value| {
            let mut jwk = ISSUER.signers[1].jwk("k");
            changes.as_object().unwrap().iter().for_each(|(name, value)| jwk[name] = value.clone());
            jwk
        };
        let none = "no key for RS256, ES256 or EdDSA";
        let table = [
            (document(vec![jwk(json!({}))]), ""),
            (document(vec![jwk(json!({ "use": "sig", "alg": "ES256", "key_ops": ["verify"], "x5c": [] }))]), ""),
            (document(vec![json!("nonsense"), json!({ "kty": "oct", "k": "AA" }), jwk(json!({}))]), ""),
            (document(vec![jwk(json!({ "use": "enc" }))]), none),
            (document(vec![jwk(json!({ "alg": "ES384" }))]), none),
            (document(vec![jwk(json!({ "key_ops": ["sign"] }))]), none),
            (document(vec![jwk(json!({ "crv": "P-384" }))]), none),
            (document(vec![jwk(json!({ "x": "AA" }))]), none),
            (document(vec![jwk(json!({ "y": "!" }))]), none),
            (document(vec![jwk(json!({ "kty": "RSA" }))]), none),
            (document(vec![]), none),
            (document(vec![jwk(json!({})); KEYS_MAX + 1]), "at most 32"),
            (b"{}".to_vec(), "no set of keys"),
            (b"<html>".to_vec(), "no set of keys"),
            (b"[".repeat(100_000), "no set of keys"),
        ];
        for (json, expected) in table {
            let message = KeySet::read(&json).err().unwrap_or_default();
            assert!(message.contains(expected) && message.is_empty() == expected.is_empty(), "{message}");
        }
    }
}
