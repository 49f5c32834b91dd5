//! JWTs from outside, checked with the issuer's published keys. Owns fetching and keeping those keys; what a token
//! must say is in `jwt.rs`.

use std::sync::Arc;
use std::time::Duration;

use relais_engine::Millis;
use relais_runtime::clock::Clock;
use relais_runtime::models::install_crypto;
use relais_runtime::settings::AuthSettings;
use reqwest::{Client, Response, StatusCode, Url};
use tokio::sync::watch;

use super::Access;
use super::jwt::{Jwt, KeySet, Rules, Verdict};
use crate::Error;

/// Who waits for the keys waits for a request of their own.
const FETCH_TIME: Duration = Duration::from_secs(5);
/// Every fetch ends before this; a task that broke must not keep anybody.
const WAIT_TIME: Duration = Duration::from_secs(6);
/// Sets of keys have a few kilobytes.
const ANSWER_BYTES_MAX: usize = 256 * 1024;
/// A stranger can invent key names faster than any issuer could answer.
const FETCH_EVERY_MS: Millis = 30_000;
/// A key that the issuer took back is refused after this long.
const FRESH_MS: Millis = 10 * 60_000;
/// While the issuer cannot be reached, its last keys serve on for this long.
const USABLE_MS: Millis = 60 * 60_000;
const LEEWAY_S: u64 = 60;
/// With more the times in a token would mean little.
const LEEWAY_S_MAX: u64 = 600;

pub struct Jwks {
    rules: Rules,
    source: Arc<Source>,
}

/// The keys and where they come from; the task that fetches them shares it.
struct Source {
    url: Url,
    client: Client,
    clock: Arc<dyn Clock>,
    state: watch::Sender<State>,
}

#[derive(Default)]
struct State {
    keys: Arc<KeySet>,
    fetched_at: Option<Millis>,
    tried_at: Option<Millis>,
    is_fetching: bool,
    trouble: Option<String>,
}

impl Jwks {
    /// Nothing if the settings speak of no issuer.
    pub fn new(settings: &AuthSettings, clock: Arc<dyn Clock>) -> Result<Option<Jwks>, Error> {
        let AuthSettings { issuer, audience, jwks_url, .. } = settings;
        let (issuer, audience, url) = match (issuer, audience, jwks_url) {
            (None, None, None) => return Ok(None),
            (Some(issuer), Some(audience), Some(url)) => (issuer, audience, url),
            _ => return Err(wrong("`issuer`, `audience` and `jwks_url` belong together; set all of them or none")),
        };
        if issuer.is_empty() || audience.is_empty() {
            return Err(wrong("`issuer` and `audience` must not be empty"));
        }
        let rules = rules(settings, issuer, audience)?;
        let url = address(url)?;
        let (client, state) = (client(&url)?, watch::Sender::default());
        Ok(Some(Jwks { rules, source: Arc::new(Source { url, client, clock, state }) }))
    }

    /// Who presents this text.
    pub async fn verify(&self, text: &str) -> Result<Access, Error> {
        let jwt = Jwt::read(text)?;
        // Before the signature, since it is cheap: a token that would be refused anyway makes nobody fetch keys.
        let access = jwt.claimed(&self.rules, self.source.clock.now())?;
        match self.source.judge(&jwt).await? {
            Verdict::Genuine => Ok(access),
            Verdict::Forged => Err(Error::Unauthorized("The signature of the JWT is wrong.".into())),
            Verdict::UnknownKey => {
                let text = "The JWT is signed with a key that its issuer does not publish.";
                Err(Error::Unauthorized(text.into()))
            }
        }
    }

    /// Why the last attempt to fetch the keys failed, for who runs the server; those who ask are told only that it did.
    pub fn trouble(&self) -> Option<String> {
        self.source.state.borrow().trouble.clone()
    }
}

impl Source {
    async fn judge(self: &Arc<Source>, jwt: &Jwt<'_>) -> Result<Verdict, Error> {
        let kept = self.keys(FRESH_MS).map(|keys| keys.judge(jwt));
        if let Some(verdict @ (Verdict::Genuine | Verdict::Forged)) = kept {
            return Ok(verdict);
        }
        self.refresh().await;
        let missing = || Error::Busy("The keys to check JWTs with cannot be had just now; try again later.".into());
        Ok(self.keys(USABLE_MS).ok_or_else(missing)?.judge(jwt))
    }

    /// The keys, if they are at most this old. A time to come means that the clock was put back.
    fn keys(&self, age_max_ms: Millis) -> Option<Arc<KeySet>> {
        let state = self.state.borrow();
        let age = self.clock.now().saturating_sub(state.fetched_at?);
        (0..age_max_ms).contains(&age).then(|| state.keys.clone())
    }

    /// Fetches the keys, unless that was tried just now; waits for whoever is at it.
    async fn refresh(self: &Arc<Source>) {
        let mut done = self.state.subscribe();
        if self.claim() {
            // In a task of its own: a caller who hangs up must not end what others wait for.
            let source = self.clone();
            tokio::spawn(async move { source.fill().await });
        }
        // Whether it ended well or not at all, the caller looks at what there is.
        drop(tokio::time::timeout(WAIT_TIME, done.wait_for(|state| !state.is_fetching)).await);
    }

    /// True for the one who is to fetch. Only the time counts, so that a fetch that never ended is begun anew.
    fn claim(&self) -> bool {
        let now = self.clock.now();
        self.state.send_if_modified(|state| {
            let is_recent = |at: Millis| (0..FETCH_EVERY_MS).contains(&now.saturating_sub(at));
            if state.tried_at.is_some_and(is_recent) {
                return false;
            }
            (state.tried_at, state.is_fetching) = (Some(now), true);
            true
        })
    }

    async fn fill(&self) {
        let asked_at = self.clock.now();
        let found = match tokio::time::timeout(FETCH_TIME, self.fetch()).await {
            Ok(found) => found,
            Err(_) => Err(format!("no whole answer came within {} seconds", FETCH_TIME.as_secs())),
        };
        self.state.send_modify(|state| {
            state.is_fetching = false;
            match found {
                Ok(keys) => {
                    (state.keys, state.fetched_at, state.trouble) = (Arc::new(keys), Some(asked_at), None);
                }
                Err(trouble) => state.trouble = Some(trouble),
            }
        });
    }

    async fn fetch(&self) -> Result<KeySet, String> {
        // Without the address, which may hold a secret.
        let failed = |error: reqwest::Error| format!("the request failed: {}", error.without_url());
        let response = self.client.get(self.url.clone()).send().await.map_err(failed)?;
        if response.status() != StatusCode::OK {
            return Err(format!("the answer has the status {}", response.status().as_u16()));
        }
        KeySet::read(&body(response).await?)
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|e| format!("the answer broke off: {}", e.without_url()))? {
        if bytes.len() + chunk.len() > ANSWER_BYTES_MAX {
            return Err(format!("the answer is larger than {ANSWER_BYTES_MAX} bytes"));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn wrong(why: &str) -> Error {
    Error::Invalid(format!("[auth] in relais.toml: {why}."))
}

fn rules(settings: &AuthSettings, issuer: &str, audience: &str) -> Result<Rules, Error> {
    let leeway_s = settings.leeway_s.unwrap_or(LEEWAY_S);
    if leeway_s > LEEWAY_S_MAX {
        return Err(wrong(&format!("`leeway_s` is {leeway_s}; at most {LEEWAY_S_MAX} seconds are taken")));
    }
    let or = |name: &Option<String>, default: &str| name.clone().unwrap_or_else(|| default.to_owned());
    Ok(Rules {
        issuer: issuer.to_owned(),
        audience: audience.to_owned(),
        user_claim: or(&settings.user_claim, "sub"),
        user_prefix: or(&settings.user_prefix, &prefix_of(issuer)),
        scope_claim: or(&settings.scope_claim, "scope"),
        leeway_ms: leeway_s as Millis * 1_000,
    })
}

/// The issuer without its scheme: `login.example.org|`.
fn prefix_of(issuer: &str) -> String {
    let (_, rest) = issuer.split_once("://").unwrap_or(("", issuer));
    format!("{}|", rest.trim_end_matches('/'))
}

/// Whoever can change the keys on their way here can make themselves anybody, so they travel encrypted.
fn address(text: &str) -> Result<Url, Error> {
    let url = Url::parse(text).map_err(|e| wrong(&format!("`jwks_url` is not an address: {e}")))?;
    if url.scheme() == "https" || is_local(&url) {
        return Ok(url);
    }
    Err(wrong("`jwks_url` must begin with `https:`; `http:` is taken for this machine alone"))
}

fn is_local(url: &Url) -> bool {
    url.scheme() == "http" && matches!(url.host_str(), Some("127.0.0.1" | "localhost" | "[::1]"))
}

fn client(url: &Url) -> Result<Client, Error> {
    install_crypto();
    // No proxy could reach this machine, and plain HTTP needs no certificates.
    let builder = if is_local(url) { Client::builder().tls_certs_only([]).no_proxy() } else { Client::builder() };
    // A redirect could lead out of what `address` allows.
    let builder = builder.redirect(reqwest::redirect::Policy::none());
    let builder = builder.user_agent(concat!("relais/", env!("CARGO_PKG_VERSION")));
    builder.build().map_err(|e| Error::Unusable(format!("No HTTP client can be made to fetch keys: {e}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub mod tests {
    use std::sync::atomic::{AtomicI64, Ordering};

    use relais_testkit::{Behaviour, ModelServer, Said};
    use serde_json::Value;

    use super::*;
    use crate::access::jwt::tests::{NOW, Signer, claims, document};

    /// A clock that stands still until it is told to go on.
    pub struct TestClock(AtomicI64);

    impl TestClock {
        pub fn at(now: Millis) -> TestClock {
            TestClock(AtomicI64::new(now))
        }

        pub fn pass(&self, ms: Millis) {
            self.0.fetch_add(ms, Ordering::SeqCst);
        }
    }

    impl Clock for TestClock {
        fn now(&self) -> Millis {
            self.0.load(Ordering::SeqCst)
        }
    }

    /// An issuer at work, and us who trust it.
    struct World {
        clock: Arc<TestClock>,
        server: ModelServer,
        jwks: Jwks,
    }

    fn settings(url: &str) -> AuthSettings {
        AuthSettings {
            issuer: Some("https://issuer.test".into()),
            audience: Some("relais".into()),
            jwks_url: Some(url.into()),
            ..AuthSettings::default()
        }
    }

    fn world() -> World {
        let (clock, server) = (Arc::new(TestClock::at(NOW)), ModelServer::start());
        server.always(Behaviour::status(500));
        let jwks = Jwks::new(&settings(&format!("{}/keys?tenant=canary", server.url())), clock.clone());
        World { clock, server, jwks: jwks.unwrap().unwrap() }
    }

    fn keys(keys: Vec<Value>) -> Behaviour {
        Behaviour::body(200, "application/json", document(keys))
    }

    /// One that does not expire while a test lets hours pass.
    fn sign(signer: &Signer, kid: &str) -> String {
        let mut claims = claims();
        claims["exp"] = (NOW / 1_000 + 1_000_000).into();
        signer.sign(kid, &claims)
    }

    impl World {
        /// Presents a token; nothing means that it was taken.
        async fn present(&self, text: &str) -> String {
            match self.jwks.verify(text).await {
                Ok(access) => {
                    assert_eq!(access.user, "issuer.test|alice");
                    String::new()
                }
                Err(error) => {
                    let message = error.to_string();
                    assert_eq!(message.contains("cannot be had"), matches!(error, Error::Busy(_)), "{message}");
                    message
                }
            }
        }

        async fn check(&self, text: &str, expected: &str, requests: usize) {
            let message = self.present(text).await;
            assert!(message.contains(expected) && message.is_empty() == expected.is_empty(), "{message:?}");
            assert_eq!(self.server.received().len(), requests, "{expected}");
        }
    }

    const MISSING: &str = "cannot be had just now";
    const UNKNOWN: &str = "does not publish";

    #[tokio::test]
    async fn keys_are_fetched_once_and_kept() {
        let (world, signer) = (world(), Signer::es256());
        world.server.push(keys(vec![signer.jwk("a")]));
        let text = sign(&signer, "a");
        world.check(&text, "", 1).await;
        world.check(&text, "", 1).await;
        world.check(&sign(&Signer::es256(), "a"), "signature of the JWT is wrong", 1).await;
        assert_eq!(world.server.received()[0].path, "/keys?tenant=canary");
        world.clock.pass(FRESH_MS - 1);
        world.check(&text, "", 1).await;
    }

    #[tokio::test]
    async fn what_its_claims_refuse_makes_nobody_fetch() {
        let world = world();
        let mut claims = claims();
        claims["aud"] = "another".into();
        world.check(&Signer::eddsa().sign("a", &claims), "another audience", 0).await;
        world.check("nonsense", "neither", 0).await;
    }

    #[tokio::test]
    async fn new_keys_are_found_and_old_ones_forgotten() {
        let (world, old, new) = (world(), Signer::rs256(), Signer::eddsa());
        world.server.push(keys(vec![old.jwk("old")]));
        world.server.push(keys(vec![old.jwk("old"), new.jwk("new")]));
        world.server.push(keys(vec![new.jwk("new")]));
        world.check(&sign(&old, "old"), "", 1).await;
        world.clock.pass(FETCH_EVERY_MS);
        world.check(&sign(&new, "new"), "", 2).await;
        world.check(&sign(&old, "old"), "", 2).await;
        world.clock.pass(FRESH_MS);
        world.check(&sign(&old, "old"), UNKNOWN, 3).await;
        world.check(&sign(&new, "new"), "", 3).await;
    }

    #[tokio::test]
    async fn invented_key_names_are_asked_about_every_half_minute_only() {
        let (world, signer) = (world(), Signer::eddsa());
        world.server.always(keys(vec![signer.jwk("a")]));
        for n in 0..20 {
            world.check(&sign(&signer, &format!("invented-{n}")), UNKNOWN, 1).await;
        }
        world.clock.pass(FETCH_EVERY_MS - 1);
        world.check(&sign(&signer, "invented"), UNKNOWN, 1).await;
        world.clock.pass(1);
        world.check(&sign(&signer, "invented"), UNKNOWN, 2).await;
        world.check(&sign(&signer, "a"), "", 2).await;
    }

    #[tokio::test]
    async fn many_at_once_fetch_once() {
        let (world, signer) = (Arc::new(world()), Signer::eddsa());
        world.server.push(keys(vec![signer.jwk("a")]));
        let text = sign(&signer, "a");
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..50 {
            let (world, text) = (world.clone(), text.clone());
            tasks.spawn(async move { world.present(&text).await });
        }
        assert_eq!(tasks.join_all().await, vec![String::new(); 50]);
        assert_eq!(world.server.received().len(), 1);
    }

    #[tokio::test]
    async fn a_caller_who_hangs_up_does_not_end_the_fetch() {
        let (world, signer) = (world(), Signer::eddsa());
        world.server.push(keys(vec![signer.jwk("a")]));
        let text = sign(&signer, "a");
        let mut caller = Box::pin(world.present(&text));
        // Polled once, so that the fetch has begun, and dropped.
        assert!(
            std::future::poll_fn(|context| std::task::Poll::Ready(caller.as_mut().poll(context))).await.is_pending()
        );
        drop(caller);
        world.check(&text, "", 1).await;
    }

    #[tokio::test]
    async fn an_issuer_in_trouble_is_told_apart_from_a_wrong_token() {
        let signer = Signer::eddsa();
        let good = document(vec![signer.jwk("a")]);
        let huge = [good.clone(), vec![b' '; ANSWER_BYTES_MAX]].concat();
        let table = [
            (Behaviour::status(500), "the answer has the status 500"),
            (Behaviour::redirect("http://127.0.0.1:9/"), "the answer has the status 307"),
            (Behaviour::body(204, "application/json", ""), "the answer has the status 204"),
            (Behaviour::html(200), "the answer is no set of keys"),
            (Behaviour::body(200, "application/json", &good[..good.len() / 2]), "the answer is no set of keys"),
            (Behaviour::body(200, "application/json", vec![0xff; 1_000]), "the answer is no set of keys"),
            (Behaviour::body(200, "application/json", huge), "the answer is larger than 262144 bytes"),
            (keys(vec![]), "no key for RS256"),
        ];
        for (behaviour, expected) in table {
            let world = world();
            world.server.push(behaviour);
            world.server.push(keys(vec![signer.jwk("a")]));
            world.check(&sign(&signer, "a"), MISSING, 1).await;
            let trouble = world.jwks.trouble().unwrap();
            assert!(trouble.contains(expected) && !trouble.contains("canary"), "{trouble}");
            world.check(&sign(&signer, "a"), MISSING, 1).await;
            world.clock.pass(FETCH_EVERY_MS);
            world.check(&sign(&signer, "a"), "", 2).await;
            assert_eq!(world.jwks.trouble(), None);
        }
    }

    #[tokio::test]
    async fn a_slow_issuer_is_not_waited_for() {
        for behaviour in [Behaviour::Silence, Behaviour::Stall(Said::text("x"))] {
            let world = Arc::new(world());
            world.server.always(behaviour);
            let caller = tokio::spawn({
                let world = world.clone();
                async move { world.present(&sign(&Signer::eddsa(), "a")).await }
            });
            let server = world.server.clone();
            let came = tokio::task::spawn_blocking(move || server.wait_for(1, FETCH_TIME)).await.unwrap();
            assert!(came && !caller.is_finished());
            tokio::time::pause();
            tokio::time::advance(FETCH_TIME).await;
            assert!(caller.await.unwrap().contains(MISSING));
            assert_eq!(world.jwks.trouble().unwrap(), "no whole answer came within 5 seconds");
            tokio::time::resume();
        }
    }

    #[tokio::test]
    async fn nobody_at_the_address_is_trouble_too() {
        let (world, signer) = (world(), Signer::eddsa());
        let World { server, jwks, .. } = world;
        drop(server);
        assert!(jwks.verify(&sign(&signer, "a")).await.unwrap_err().to_string().contains(MISSING));
        let trouble = jwks.trouble().unwrap();
        assert!(trouble.contains("the request failed") && !trouble.contains("canary"), "{trouble}");
    }

    #[tokio::test]
    async fn the_last_keys_serve_for_an_hour_without_their_issuer() {
        let (world, signer) = (world(), Signer::eddsa());
        world.server.push(keys(vec![signer.jwk("a")]));
        let text = sign(&signer, "a");
        world.check(&text, "", 1).await;
        world.clock.pass(FRESH_MS);
        world.check(&text, "", 2).await;
        world.clock.pass(USABLE_MS - FRESH_MS - 1);
        world.check(&text, "", 3).await;
        world.clock.pass(1);
        world.check(&text, MISSING, 3).await;
        // A clock that was put back to before the keys came leaves nothing to go by.
        world.clock.pass(-2 * USABLE_MS);
        world.check(&text, MISSING, 4).await;
    }

    #[test]
    fn settings_are_whole_or_refused() {
        let without = |change: fn(&mut AuthSettings)| {
            let mut settings = settings("https://issuer.test/keys");
            change(&mut settings);
            settings
        };
        let table = [
            (AuthSettings::default(), Ok(false)),
            (without(|_| ()), Ok(true)),
            (without(|s| s.leeway_s = Some(600)), Ok(true)),
            (without(|s| s.leeway_s = Some(601)), Err("at most 600 seconds")),
            (without(|s| s.issuer = None), Err("belong together")),
            (without(|s| s.audience = None), Err("belong together")),
            (without(|s| s.jwks_url = None), Err("belong together")),
            (without(|s| s.audience = Some(String::new())), Err("must not be empty")),
            (settings("http://localhost:80/keys"), Ok(true)),
            (settings("http://[::1]/keys"), Ok(true)),
            (settings("http://issuer.test/keys"), Err("must begin with `https:`")),
            (settings("http://127.0.0.1.issuer.test/keys"), Err("must begin with `https:`")),
            (settings("file:///keys"), Err("must begin with `https:`")),
            (settings("keys"), Err("is not an address")),
        ];
        for (settings, expected) in table {
            let made = Jwks::new(&settings, Arc::new(TestClock::at(NOW))).map(|jwks| jwks.is_some());
            match (made, expected) {
                (Ok(made), Ok(expected)) => assert_eq!(made, expected, "{settings:?}"),
                (Err(Error::Invalid(text)), Err(expected)) => assert!(text.contains(expected), "{text}"),
                (made, expected) => panic!("{settings:?}: {made:?}, expected {expected:?}"),
            }
        }
    }
}
