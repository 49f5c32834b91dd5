//! HTTP for tools: which addresses may be called, secrets in headers, bounded answers.
//!
//! The check of an address happens in the resolver of the client itself, so that the address that was checked is the
//! address that is called. Knows nothing of single tools.

use std::error::Error as StdError;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use base64::Engine;
use relais_engine::{ErrorKind, Failure};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, Url};
use serde_json::Value;

use super::wrong;
use crate::settings::HttpSettings;

/// An answer is read up to here, then cut off with a note.
pub const ANSWER_BYTES_MAX: usize = 2 * 1024 * 1024;
/// A host that does not take the connection by then will not.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Two clients: one that refuses private addresses, and one for addresses that the settings name. Made when first used,
/// because reading the certificates of the system takes longer than a small run.
pub struct Web {
    guarded: OnceLock<Client>,
    open: OnceLock<Client>,
    rules: HttpSettings,
}

impl Web {
    pub fn new(rules: &HttpSettings) -> Web {
        Web { guarded: OnceLock::new(), open: OnceLock::new(), rules: rules.clone() }
    }

    /// For addresses from the settings.
    pub fn open(&self) -> Result<Client, Failure> {
        made(&self.open, builder())
    }

    /// The client to use for an address that a model chose, or why it may not be called.
    pub fn client_for(&self, url: &Url) -> Result<Client, Failure> {
        match self.reach(url)? {
            Reach::Named => self.open(),
            Reach::Public => made(&self.guarded, guarded(builder())),
        }
    }

    /// The same for whoever needs a client of its own, made under the same rules.
    pub fn builder_for(&self, url: &str) -> Result<reqwest::ClientBuilder, Failure> {
        let url = Url::parse(url).map_err(|error| wrong(format!("`{url}` is no address: {error}")))?;
        Ok(match self.reach(&url)? {
            Reach::Named => builder(),
            Reach::Public => guarded(builder()),
        })
    }

    /// How far a client for this address may reach, or why it may not be called at all.
    fn reach(&self, url: &Url) -> Result<Reach, Failure> {
        let host = host_of(url)?;
        if self.is_private_allowed(url) {
            return Ok(Reach::Named);
        }
        if !self.rules.allow.is_empty() && !self.is_listed(url) {
            let listed = self.rules.allow.join(", ");
            return Err(wrong(format!("`{host}` is not on the allow list (tools.http_request.allow: {listed})")));
        }
        match literal(url) {
            Some(address) if !is_public(address) => Err(wrong(Refused { host, address }.to_string())),
            _ => Ok(Reach::Public),
        }
    }

    /// The settings name this host, so it may be given secrets.
    pub fn is_trusted(&self, url: &Url) -> bool {
        self.is_listed(url) || self.is_private_allowed(url)
    }

    fn is_listed(&self, url: &Url) -> bool {
        url.host_str().is_some_and(|host| self.rules.allow.iter().any(|pattern| host_matches(pattern, host)))
    }

    fn is_private_allowed(&self, url: &Url) -> bool {
        let Some(host) = url.host_str() else { return false };
        let with_port = format!("{host}:{}", url.port_or_known_default().unwrap_or_default());
        let is_named = |entry: &String| entry.eq_ignore_ascii_case(host) || entry.eq_ignore_ascii_case(&with_port);
        self.rules.allow_private.iter().any(is_named)
    }
}

enum Reach {
    /// The settings name the host, wherever it is.
    Named,
    /// Public addresses only, whatever the name resolves to.
    Public,
}

/// A proxy would look the name up a second time, out of reach of the check.
fn guarded(builder: reqwest::ClientBuilder) -> reqwest::ClientBuilder {
    builder.dns_resolver(PublicOnly).no_proxy()
}

fn builder() -> reqwest::ClientBuilder {
    Client::builder()
        .redirect(Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .user_agent(concat!("relais/", env!("CARGO_PKG_VERSION")))
}

fn made(kept: &OnceLock<Client>, builder: reqwest::ClientBuilder) -> Result<Client, Failure> {
    if let Some(client) = kept.get() {
        return Ok(client.clone());
    }
    crate::models::install_crypto();
    let failed = |error| Failure::new(ErrorKind::Internal, format!("no HTTP client can be made: {error}"));
    let client = builder.build().map_err(failed)?;
    Ok(kept.get_or_init(|| client).clone())
}

fn host_of(url: &Url) -> Result<String, Failure> {
    match (url.scheme(), url.host_str()) {
        ("http" | "https", Some(host)) => Ok(host.to_owned()),
        (scheme, _) => Err(wrong(format!("`{scheme}:` addresses cannot be called; use http: or https:"))),
    }
}

fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.trim_start_matches('[').trim_end_matches(']').parse().ok()
}

/// `example.org`, or `*.example.org` for every name under it.
fn host_matches(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    match pattern.strip_prefix("*.") {
        Some(parent) => host.strip_suffix(parent).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        None => pattern == host,
    }
}

/// Looks names up and refuses those that lead to a private address.
struct PublicOnly;

#[derive(Debug, thiserror::Error)]
#[error(
    "`{host}` is at {address}, a private, local or reserved address; these are refused unless relais.toml names the \
     host: [tools.http_request] allow_private = [\"{host}\"]"
)]
struct Refused {
    host: String,
    address: IpAddr,
}

impl Resolve for PublicOnly {
    fn resolve(&self, name: Name) -> Resolving {
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let found: Vec<SocketAddr> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            match found.iter().find(|address| !is_public(address.ip())) {
                Some(address) => Err(Refused { host, address: address.ip() }.into()),
                None => Ok(Box::new(found.into_iter()) as Addrs),
            }
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 88, 99)
            | (192, 168, _)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    );
    !reserved
}

/// Only global unicast, without the ranges that carry an IPv4 address inside or are for documents.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let parts = address.segments();
    if let Some(v4) = address.to_ipv4_mapped() {
        return is_public_v4(v4);
    }
    // NAT64: the network translates to the IPv4 address at the end.
    if parts[..6] == [0x64, 0xff9b, 0, 0, 0, 0] {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    let tunnels_or_documents = matches!((parts[0], parts[1]), (0x2001, 0 | 0xdb8) | (0x2002, _) | (0x3fff, 0..=0xfff));
    parts[0] & 0xe000 == 0x2000 && !tunnels_or_documents
}

/// Why a request has no answer. One that may have reached the other side is `uncertain`.
pub fn failure(url: &Url, error: &reqwest::Error) -> Failure {
    let place = place(url);
    if let Some(refused) = refusal(error) {
        return Failure::new(ErrorKind::Tool, refused.to_string());
    }
    let reason = deepest(error);
    if error.is_connect() {
        return Failure::new(ErrorKind::Transport, format!("{place} cannot be reached: {reason}"));
    }
    if error.is_builder() {
        return Failure::new(ErrorKind::Tool, format!("the request to {place} is not valid: {reason}"));
    }
    let reason = if error.is_timeout() { "no answer in time".to_owned() } else { reason };
    Failure::new(ErrorKind::Uncertain, format!("{place} was called and the answer was lost: {reason}"))
}

/// Without path and query, which may hold what nobody should read.
pub fn place(url: &Url) -> String {
    url.origin().ascii_serialization()
}

fn refusal(error: &reqwest::Error) -> Option<&Refused> {
    let mut at: Option<&(dyn StdError + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            return Some(refused);
        }
        at = error.source();
    }
    None
}

fn deepest(error: &reqwest::Error) -> String {
    let mut at: &dyn StdError = error;
    while let Some(source) = at.source() {
        at = source;
    }
    at.to_string()
}

pub struct Answer {
    pub content_type: String,
    pub bytes: Vec<u8>,
    pub truncated: bool,
}

/// Reads an answer up to [`ANSWER_BYTES_MAX`].
pub async fn read(mut response: Response) -> Result<Answer, reqwest::Error> {
    let header = response.headers().get(reqwest::header::CONTENT_TYPE);
    let content_type = header.and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned();
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        let room = ANSWER_BYTES_MAX - bytes.len();
        bytes.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if chunk.len() > room {
            return Ok(Answer { content_type, bytes, truncated: true });
        }
    }
    Ok(Answer { content_type, bytes, truncated: false })
}

impl Answer {
    /// JSON as a value, text as text, anything else as base64.
    pub fn value(&self) -> Value {
        let is_json = !self.truncated && self.content_type.contains("json");
        if let Some(value) = is_json.then(|| serde_json::from_slice(&self.bytes).ok()).flatten() {
            return value;
        }
        readable(&self.bytes, self.truncated || self.content_type.starts_with("text/"))
    }
}

/// Text where it is text; `lossy` where it must be.
pub fn readable(bytes: &[u8], lossy: bool) -> Value {
    match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        // Cut in the middle of a character, or in an old encoding.
        Err(error) if lossy && (error.error_len().is_none() || error.valid_up_to() > 0) => {
            String::from_utf8_lossy(bytes).into()
        }
        Err(_) => serde_json::json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)}),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn private_and_reserved_addresses_are_not_public() {
        let check = |address: &str, public: bool| {
            assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
        };
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "127.9.9.9",
            "100.64.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "192.0.0.1",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "64:ff9b::7f00:1",
            "2002:7f00:1::",
            "2001:0:1::1",
            "2001:db8::1",
            "fec0::1",
        ] {
            check(address, false);
        }
        for address in ["1.1.1.1", "172.32.0.1", "100.63.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            check(address, true);
        }
    }

    #[test]
    fn addresses_follow_the_settings() {
        let rules = HttpSettings {
            allow: vec!["api.example.org".into(), "*.example.net".into()],
            allow_private: vec!["localhost:8080".into(), "10.0.0.7".into()],
        };
        let web = Web::new(&rules);
        let check = |url: &str, wanted: Option<&str>| {
            let answer = web.client_for(&Url::parse(url).unwrap()).map(|_| ()).map_err(|failure| failure.message);
            match wanted {
                None => assert_eq!(answer, Ok(()), "{url}"),
                Some(part) => assert!(answer.clone().unwrap_err().contains(part), "{url}: {answer:?}"),
            }
        };
        check("https://api.example.org/x", None);
        check("https://a.b.example.net/", None);
        check("https://example.net/", Some("allow list"));
        check("https://evilexample.net/", Some("allow list"));
        check("http://localhost:8080/", None);
        check("http://localhost:8081/", Some("allow list"));
        check("http://10.0.0.7:99/", None);
        check("file:///etc/passwd", Some("`file:`"));
    }

    #[test]
    fn literal_addresses_are_checked_in_every_spelling() {
        let web = Web::new(&HttpSettings::default());
        for url in
            ["http://127.0.0.1/", "http://0x7f.1/", "http://2130706433/", "http://[::1]/", "http://[::ffff:7f00:1]/"]
        {
            let refused = web.client_for(&Url::parse(url).unwrap()).unwrap_err().message;
            assert!(refused.contains("refused unless"), "{url}: {refused}");
        }
    }
}
