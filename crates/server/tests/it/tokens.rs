//! Who is let in, and to what.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use relais_runtime::settings::{AuthSettings, Settings};
use relais_server::{App, Error, Options, listen};
use relais_testkit::{Behaviour, ModelServer};
use reqwest::{Method, RequestBuilder};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::setup::{Setup, answered};

const WHOAMI: &str = "/api/v1/whoami";

/// Status, kind of the problem, and one header of the answer.
async fn told(request: RequestBuilder, header: &str) -> (u16, String, String) {
    let answer = request.send().await.unwrap();
    let shown = answer.headers().get(header).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
    let status = answer.status().as_u16();
    let body: Value = answer.json().await.unwrap();
    (status, body["kind"].as_str().unwrap_or_default().to_owned(), shown)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guarded_server_lets_in_by_token_alone() {
    let setup = Setup::guarded(Settings::default()).await;
    let good = setup.token("ada", "read run").await;
    let cut = &good[..good.len() - 1];
    let unknown = Setup::new().await.token("ada", "read").await;
    let check = async |authorization: Option<String>, status: u16, challenge: &str| {
        let request = setup.request(Method::GET, WHOAMI);
        let request = authorization.iter().fold(request, |request, value| request.header("authorization", value));
        let (found, kind, shown) = told(request, "www-authenticate").await;
        let expected = if status == 401 { "unauthorized" } else { "" };
        assert_eq!((found, kind.as_str(), shown.as_str()), (status, expected, challenge), "{authorization:?}");
    };
    check(None, 401, "Bearer realm=\"relais\"").await;
    check(Some(format!("Basic {good}")), 401, "Bearer realm=\"relais\"").await;
    for wrong in [cut, &unknown, "a.b.c"] {
        check(Some(format!("Bearer {wrong}")), 401, "Bearer realm=\"relais\", error=\"invalid_token\"").await;
    }
    check(Some(format!("Bearer {good}")), 200, "").await;
    let (_, who) = setup.ask_as(&good, Method::GET, WHOAMI, None).await;
    assert_eq!((&who["user_id"], &who["scopes"]), (&json!("ada"), &json!(["read", "run"])));
    assert!(who["token_id"].is_string(), "{who}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_scope_is_named() {
    let setup = Setup::guarded(Settings::default()).await;
    let check = async |scopes: &str, method: Method, path: &str, missing: &str| {
        let token = setup.token("ada", scopes).await;
        let request = setup.request(method, path).bearer_auth(token).json(&json!({ "name": "x", "scopes": ["read"] }));
        let (status, kind, challenge) = told(request, "www-authenticate").await;
        let expected = format!("Bearer realm=\"relais\", error=\"insufficient_scope\", scope=\"{missing}\"");
        assert_eq!((status, kind.as_str(), challenge), (403, "forbidden", expected), "{scopes} {path}");
    };
    let run = "/api/v1/runs/0190a0b0-c0d0-7000-8000-00000000000a/cancel";
    check("read", Method::POST, run, "run").await;
    check("write", Method::POST, run, "run").await;
    check("read run", Method::POST, "/api/v1/workflows", "write").await;
    check("read run write", Method::POST, "/api/v1/tokens", "admin").await;
    check("read run write", Method::GET, "/api/v1/tokens?all=true", "admin").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tries_are_limited_by_the_address_they_come_from() {
    let check = async |trusted: &[&str], another: u16| {
        let trusted_proxies = trusted.iter().map(|text| text.to_string()).collect();
        let auth = AuthSettings { trusted_proxies, ..AuthSettings::default() };
        let setup = Setup::guarded(Settings { auth, ..Settings::default() }).await;
        let token = setup.token("ada", "read").await;
        let ask = async |bearer: &str, from: &str| {
            let request = setup.request(Method::GET, WHOAMI).bearer_auth(bearer).header("x-forwarded-for", from);
            told(request, "retry-after").await
        };
        for _ in 0..10 {
            assert_eq!(ask("wrong", "203.0.113.5").await.0, 401);
        }
        let (status, kind, retry_after) = ask(&token, "203.0.113.5").await;
        assert_eq!((status, kind.as_str()), (429, "too_many"), "{trusted:?}");
        assert!((1..=60).contains(&retry_after.parse::<u32>().unwrap()), "{retry_after}");
        assert_eq!(ask(&token, "203.0.113.6").await.0, another, "{trusted:?}");
    };
    check(&["127.0.0.1"], 200).await;
    check(&[], 429).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn on_this_machine_programs_need_no_token_and_pages_of_other_sites_are_kept_out() {
    let setup = Setup::new().await;
    let own = format!("http://{}", setup.server.address);
    let check = async |headers: &[(&str, &str)], status: u16| {
        let request = setup.request(Method::GET, WHOAMI);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        assert_eq!(told(request, "x").await.0, status, "{headers:?}");
    };
    check(&[], 200).await;
    check(&[("origin", &own), ("sec-fetch-site", "same-origin")], 200).await;
    check(&[("host", "evil.test")], 403).await;
    check(&[("origin", "http://evil.test")], 403).await;
    check(&[("origin", "null")], 403).await;
    check(&[("sec-fetch-site", "cross-site")], 403).await;
    check(&[("x-forwarded-for", "203.0.113.5")], 403).await;
    // Whoever presents something wrong is not let in as nobody.
    check(&[("authorization", "Bearer wrong")], 401).await;
    // A page cannot know a token; who presents one may come from anywhere.
    let bearer = format!("Bearer {}", setup.token("ada", "read").await);
    check(&[("origin", "http://evil.test"), ("host", "evil.test"), ("authorization", &bearer)], 200).await;
    let (_, who) = setup.get(WHOAMI).await;
    assert_eq!(who, json!({ "user_id": "somebody", "scopes": ["admin"], "token_id": null }));
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_are_made_listed_and_revoked_over_rest() {
    let setup = Setup::new().await;
    let check = async |token: &str, method: Method, path: &str, status: u16| {
        let (found, body) = setup.ask_as(token, method, path, None).await;
        assert_eq!(found.as_u16(), status, "{path}: {body}");
        body
    };
    let new = json!({ "user": "ada", "name": "ci", "scopes": ["read", "write"], "expires_at": "2100-01-01T00:00:00Z" });
    let (status, made) = setup.ask(Method::POST, "/api/v1/tokens", Some(new)).await;
    assert_eq!((status.as_u16(), &made["token"]["expires_at"]), (201, &json!("2100-01-01T00:00:00.000Z")), "{made}");
    let (ada, id) = (made["secret"].as_str().unwrap(), made["token"]["id"].as_str().unwrap());
    let bob = setup.token("bob", "read write").await;
    let path = format!("/api/v1/tokens/{id}");
    check(&bob, Method::DELETE, &path, 404).await;
    check(&bob, Method::GET, "/api/v1/tokens?user=ada", 404).await;
    let listed = check(ada, Method::GET, "/api/v1/tokens?user=ada", 200).await;
    assert_eq!((listed["items"].as_array().unwrap().len(), &listed["items"][0]["id"]), (1, &json!(id)), "{listed}");
    assert!(listed["items"][0]["last_used_at"].is_string(), "{listed}");
    assert!(!listed.to_string().contains(ada), "{listed}");
    let (_, all) = setup.get("/api/v1/tokens?all=true").await;
    assert_eq!(all["items"].as_array().unwrap().len(), 2);
    check(ada, Method::DELETE, &path, 204).await;
    check(ada, Method::GET, WHOAMI, 401).await;
    let (_, listed) = setup.get("/api/v1/tokens?user=ada").await;
    assert!(listed["items"][0]["revoked_at"].is_string(), "{listed}");
}

// keeps B-30
#[tokio::test(flavor = "multi_thread")]
async fn a_user_id_must_be_ones_own() {
    let setup = Setup::guarded(Settings::default()).await;
    let token = setup.token("ada lovelace", "read write").await;
    let check = async |method: Method, path: &str, body: Option<Value>, status: u16| {
        let (found, answer) = setup.ask_as(&token, method, path, body).await;
        assert_eq!(found.as_u16(), status, "{path}: {answer}");
    };
    check(Method::GET, "/api/v1/runs?user_id=ada%20lovelace&limit=3", None, 200).await;
    check(Method::GET, "/api/v1/runs?user_id=ada+lovelace", None, 200).await;
    check(Method::GET, "/api/v1/runs?user%5Fid=bob", None, 404).await;
    check(Method::GET, "/api/v1/runs?user_id=bob&limit=3", None, 404).await;
    check(Method::GET, "/api/v1/runs?user_id=ada+lovelace&user_id=bob", None, 404).await;
    check(Method::GET, "/api/v1/runs?user_id=", None, 404).await;
    let body = |user: Value| Some(json!({ "name": "mine", "user_id": user }));
    check(Method::POST, "/api/v1/workflows", body(json!("ada lovelace")), 201).await;
    for other in [json!("bob"), json!(""), json!(7), json!({})] {
        check(Method::POST, "/api/v1/workflows", body(other), 404).await;
    }
    check(Method::POST, "/api/v1/workflows", Some(json!({ "nmae": 1, "user_id": "ada lovelace" })), 400).await;
    let (_, listed) = setup.ask_as(&token, Method::GET, "/api/v1/workflows", None).await;
    assert_eq!(listed["items"].as_array().unwrap().len(), 1, "{listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_token_nobody_listens_to_other_machines() {
    let setup = Setup::new().await;
    // Refused before the address is bound; it is one that no machine has.
    let options = Options { listen: ([203, 0, 113, 1], 0).into(), require_token: false };
    let refused = async || listen(App::new(setup.service.clone()), &options).await.err().unwrap();
    let error = refused().await;
    assert!(matches!(error, Error::NoToken(_)) && error.to_string().contains("`relais token create`"), "{error}");
    let token = setup.token("ada", "read").await;
    assert!(matches!(refused().await, Error::Address { .. }));
    let (_, who) = answered(setup.request(Method::GET, WHOAMI).bearer_auth(token), None).await;
    let id = who["token_id"].as_str().unwrap();
    let (status, _) = setup.ask(Method::DELETE, &format!("/api/v1/tokens/{id}"), None).await;
    assert_eq!(status, 204);
    assert!(matches!(refused().await, Error::NoToken(_)));
}

/// Whoever issues JWTs, with one key.
struct Issuer {
    key: Ed25519KeyPair,
    server: ModelServer,
}

impl Issuer {
    fn new() -> Issuer {
        let (key, server) = (Ed25519KeyPair::from_seed_unchecked(&[7; 32]).unwrap(), ModelServer::start());
        let x = URL_SAFE_NO_PAD.encode(key.public_key());
        let keys = json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "k", "x": x }] });
        server.always(Behaviour::body(200, "application/json", keys.to_string()));
        Issuer { key, server }
    }

    fn settings(&self) -> Settings {
        let auth = AuthSettings {
            issuer: Some("https://issuer.test".into()),
            audience: Some("relais".into()),
            jwks_url: Some(format!("{}/keys", self.server.url())),
            ..AuthSettings::default()
        };
        Settings { auth, ..Settings::default() }
    }

    fn sign(&self, claims: &Value) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&json!({ "alg": "EdDSA", "kid": "k" })), part(claims));
        format!("{signed}.{}", URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes())))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jwt_from_outside_lets_its_user_in() {
    let issuer = Issuer::new();
    let setup = Setup::guarded(issuer.settings()).await;
    let claims = json!({ "iss": "https://issuer.test", "aud": "relais", "sub": "ada", "scope": "openid read",
        "exp": 4_000_000_000_u64 });
    let good = issuer.sign(&claims);
    let check = async |token: &str, method: Method, path: &str, status: u16| {
        let (found, body) = setup.ask_as(token, method, path, None).await;
        assert_eq!(found.as_u16(), status, "{path}: {body}");
        body
    };
    let who = check(&good, Method::GET, WHOAMI, 200).await;
    assert_eq!(who, json!({ "user_id": "issuer.test|ada", "scopes": ["read"], "token_id": null }));
    check(&good, Method::POST, "/api/v1/workflows", 403).await;
    let mut others = claims.clone();
    others["aud"] = "another".into();
    check(&issuer.sign(&others), Method::GET, WHOAMI, 401).await;
    let forged = format!("{}A", &good[..good.len() - 1]);
    check(if forged == good { "a.b.c" } else { &forged }, Method::GET, WHOAMI, 401).await;
    let ours = setup.token("bob", "read").await;
    assert_eq!(check(&ours, Method::GET, WHOAMI, 200).await["user_id"], "bob");
    // Who chooses the name of somebody here with the issuer does not become that user.
    let new = relais_service::NewWorkflow { name: Some("hers".into()), ..Default::default() };
    let hers = setup.service.as_user("ada").create_workflow(new).await.unwrap().it.id;
    check(&good, Method::GET, &format!("/api/v1/workflows/{hers}"), 404).await;
    check(&setup.token("ada", "read").await, Method::GET, &format!("/api/v1/workflows/{hers}"), 200).await;
}
