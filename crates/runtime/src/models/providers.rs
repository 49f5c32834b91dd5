//! Providers: which there are, where each is, which format it speaks, what opens it. Calls nobody.

use std::collections::BTreeMap;
use std::sync::Arc;

use relais_engine::{ErrorKind, Failure};
use relais_plan::problem::nearest;

use super::format::Format;
use super::http::Endpoint;
use super::{SCRIPT, anthropic, google, openai};
use crate::settings::{ModelSettings, Provider, Settings};

/// Looks up an environment variable.
pub type Environment<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A provider, ready to be called.
pub struct Known {
    pub format: Arc<dyn Format>,
    pub endpoint: Arc<Endpoint>,
    pub needs_key: bool,
}

/// A provider that needs no settings.
pub struct BuiltIn {
    pub name: &'static str,
    pub base_url: &'static str,
    pub base_variable: &'static str,
    pub key_variables: &'static [&'static str],
    /// Starts of bare model names that mean this provider.
    pub bare: &'static [&'static str],
}

pub const BUILT_IN: &[BuiltIn] = &[
    BuiltIn {
        name: "openai",
        base_url: "https://api.openai.com/v1",
        base_variable: "OPENAI_BASE_URL",
        key_variables: &["OPENAI_API_KEY"],
        bare: &["gpt-", "chatgpt-", "o1", "o3", "o4", "codex-"],
    },
    BuiltIn {
        name: "anthropic",
        base_url: "https://api.anthropic.com/v1",
        base_variable: "ANTHROPIC_BASE_URL",
        key_variables: &["ANTHROPIC_API_KEY"],
        bare: &["claude-"],
    },
    BuiltIn {
        name: "google",
        base_url: "https://generativelanguage.googleapis.com/v1beta",
        base_variable: "GEMINI_BASE_URL",
        key_variables: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        bare: &["gemini-", "gemma-"],
    },
    BuiltIn {
        name: "ollama",
        base_url: "http://127.0.0.1:11434/v1",
        base_variable: "OLLAMA_HOST",
        key_variables: &[],
        bare: &[],
    },
];
const FORMATS: &[&str] = &["openai", "anthropic", "google", "ollama"];
const OLLAMA_PORT: u16 = 11434;

/// Every provider by name: the built-in ones, with what the settings say of them, and those of the settings alone.
pub fn all(settings: &Settings, environment: Environment<'_>) -> Result<BTreeMap<String, Known>, Failure> {
    settings.providers.iter().try_for_each(|(name, own)| check_provider(name, own))?;
    settings.models.iter().try_for_each(|(name, own)| check_model(name, own))?;
    let mut providers = BTreeMap::new();
    for built_in in BUILT_IN {
        let own = settings.providers.get(built_in.name).cloned().unwrap_or_default();
        providers.insert(built_in.name.to_owned(), known(built_in.name, &own, Some(built_in), environment)?);
    }
    for (name, own) in &settings.providers {
        if !providers.contains_key(name) {
            providers.insert(name.clone(), known(name, own, None, environment)?);
        }
    }
    Ok(providers)
}

/// The keys of all providers, so that they can be masked wherever they turn up.
pub fn keys(settings: &Settings, environment: Environment<'_>) -> Vec<String> {
    variables_of_keys(settings).iter().filter_map(|name| variable(environment, name)).collect()
}

/// The variables that hold the keys of all providers: the built-in ones' own, and those that the settings name.
pub fn variables_of_keys(settings: &Settings) -> Vec<String> {
    let built_in = BUILT_IN.iter().flat_map(|built_in| built_in.key_variables).map(|name| (*name).to_owned());
    let own = settings.providers.iter().flat_map(|(name, own)| variables_of(name, own));
    let mut seen = std::collections::BTreeSet::new();
    built_in.chain(own).filter(|name| seen.insert(name.clone())).collect()
}

/// The variables that may hold the key of one provider, in the order in which they are looked at.
pub fn variables_of(name: &str, own: &Provider) -> Vec<String> {
    key_variables(name, own, BUILT_IN.iter().find(|built_in| built_in.name == name))
}

/// Is this an address of the built-in provider whose key the variable holds?
pub fn is_at_home(variable: &str, address: &str) -> bool {
    let owner = BUILT_IN.iter().find(|built_in| built_in.key_variables.contains(&variable));
    let parsed = |address: &str| reqwest::Url::parse(address).ok();
    let (Some(own), Some(address)) = (owner.and_then(|owner| parsed(owner.base_url)), parsed(address)) else {
        return false;
    };
    let (own, host) = (own.host_str().unwrap_or_default(), address.host_str().unwrap_or_default());
    address.scheme() == "https" && (host == own || host.strip_suffix(own).is_some_and(|name| name.ends_with('.')))
}

/// What no call could use is refused when the settings are read, not when a run is half done.
fn check_provider(name: &str, own: &Provider) -> Result<(), Failure> {
    let problem = if name.is_empty() || name.contains(|c: char| c == '/' || c.is_whitespace()) {
        "its name may hold neither `/` nor spaces"
    } else if name == SCRIPT {
        "this name is taken by scripted models"
    } else if let Some(key) = zero(own) {
        &format!("`{key}` must be at least 1")
    } else {
        return Ok(());
    };
    Err(config(format!("provider `{name}` in relais.toml: {problem}")))
}

/// A bound that would let nothing through.
fn zero(own: &Provider) -> Option<&'static str> {
    let bounds = [
        ("max_concurrent", own.max_concurrent == Some(0)),
        ("requests_per_minute", own.requests_per_minute == Some(0)),
        ("tokens_per_minute", own.tokens_per_minute == Some(0)),
        ("stall_s", own.stall_s == Some(0)),
        ("tries", own.tries == Some(0)),
        ("break_after", own.break_after == Some(0)),
        ("cooldown_s", own.cooldown_s == Some(0)),
    ];
    bounds.into_iter().find(|(_, is_zero)| *is_zero).map(|(key, _)| key)
}

fn check_model(name: &str, own: &ModelSettings) -> Result<(), Failure> {
    if !name.contains('/') {
        return Err(config(format!("[models.\"{name}\"] in relais.toml: write provider/model, as `openai/{name}`")));
    }
    let mut prices = [own.prompt_usd, own.cached_usd, own.completion_usd].into_iter().flatten();
    match prices.find(|price| !price.is_finite() || *price < 0.0) {
        Some(price) => Err(config(format!("[models.\"{name}\"] in relais.toml: {price} is not a price"))),
        None => Ok(()),
    }
}

fn known(
    name: &str,
    own: &Provider,
    built_in: Option<&BuiltIn>,
    environment: Environment<'_>,
) -> Result<Known, Failure> {
    let format_name = own.format.as_deref().unwrap_or(if built_in.is_some() { name } else { "openai" });
    let given =
        own.base_url.clone().or_else(|| built_in.and_then(|built_in| variable(environment, built_in.base_variable)));
    let base_url = match (&given, built_in) {
        (Some(given), _) => base_address(format_name, given),
        (None, Some(built_in)) => built_in.base_url.to_owned(),
        (None, None) => return Err(config(format!("provider `{name}` needs a `base_url` in relais.toml"))),
    };
    let key_variables = key_variables(name, own, built_in);
    let may_have = key_variables.iter().filter(|name| !own.withheld.contains(name));
    let key = may_have.into_iter().find_map(|name| variable(environment, name));
    let format = format_named(name, format_name, &base_url)?;
    // A server of one's own often asks for no key; a key that the settings name must be there.
    let needs_key = own.api_key_env.is_some() || (given.is_none() && !key_variables.is_empty() && built_in.is_some());
    let endpoint = Endpoint { provider: name.to_owned(), base_url, key, key_variables };
    Ok(Known { format, endpoint: Arc::new(endpoint), needs_key })
}

fn key_variables(name: &str, own: &Provider, built_in: Option<&BuiltIn>) -> Vec<String> {
    match (&own.api_key_env, built_in) {
        (Some(named), _) => vec![named.clone()],
        (None, Some(built_in)) => built_in.key_variables.iter().map(|name| (*name).to_owned()).collect(),
        (None, None) => {
            vec![format!("{}_API_KEY", name.to_uppercase().replace(|c: char| !c.is_ascii_alphanumeric(), "_"))]
        }
    }
}

fn format_named(provider: &str, format: &str, base_url: &str) -> Result<Arc<dyn Format>, Failure> {
    match format {
        "openai" | "ollama" => Ok(Arc::new(openai::OpenAi { own_host: is_openai_host(base_url) })),
        "anthropic" => Ok(Arc::new(anthropic::Anthropic)),
        "google" => Ok(Arc::new(google::Google)),
        other => {
            let near = nearest(other, FORMATS.iter().copied()).map(|near| format!(" (did you mean `{near}`?)"));
            let (near, all) = (near.unwrap_or_default(), FORMATS.join(", "));
            Err(config(format!("provider `{provider}` has format `{other}`{near}; formats are {all}")))
        }
    }
}

fn is_openai_host(base_url: &str) -> bool {
    let host = base_url.split("://").nth(1).unwrap_or_default().split(['/', ':']).next().unwrap_or_default();
    host == "api.openai.com" || host.ends_with(".openai.com") || host.ends_with(".openai.azure.com")
}

/// The address as people write it, with the version that the format's paths stand below.
fn base_address(format: &str, given: &str) -> String {
    let given = given.trim().trim_end_matches('/');
    let full = if format == "ollama" { ollama_address(given) } else { given.to_owned() };
    let has_path = full.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    match format {
        // Anthropic's own clients take the address without the version, with or without a path.
        "anthropic" if !full.ends_with("/v1") => format!("{full}/v1"),
        "google" if !has_path => format!("{full}/v1beta"),
        "openai" | "ollama" if !has_path => format!("{full}/v1"),
        _ => full,
    }
}

/// `OLLAMA_HOST` may be a host, host:port or a URL, and the address to listen on rather than to call.
fn ollama_address(given: &str) -> String {
    let (scheme, rest) = given.split_once("://").unwrap_or(("http", given));
    let (authority, path) =
        rest.split_once('/').map_or((rest, String::new()), |(host, path)| (host, format!("/{path}")));
    let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
    let wants_port = !has_port && !given.contains("://");
    let authority = if wants_port { format!("{authority}:{OLLAMA_PORT}") } else { authority.to_owned() };
    let authority = authority.strip_prefix("0.0.0.0").map_or(authority.clone(), |port| format!("127.0.0.1{port}"));
    format!("{scheme}://{authority}{path}")
}

fn variable(environment: Environment<'_>, name: &str) -> Option<String> {
    environment(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn config(message: String) -> Failure {
    Failure::new(ErrorKind::Config, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_taken_as_people_write_them() {
        let check =
            |format: &str, given: &str, want: &str| assert_eq!(base_address(format, given), want, "{format} {given}");
        check("openai", "http://127.0.0.1:8080", "http://127.0.0.1:8080/v1");
        check("openai", "https://x.example/openai/v1/", "https://x.example/openai/v1");
        check("anthropic", "https://x.example", "https://x.example/v1");
        check("anthropic", "https://x.example/claude", "https://x.example/claude/v1");
        check("anthropic", "https://x.example/v1", "https://x.example/v1");
        check("google", "https://x.example", "https://x.example/v1beta");
        check("google", "https://x.example/v1", "https://x.example/v1");
        check("ollama", "box", "http://box:11434/v1");
        check("ollama", "box:99", "http://box:99/v1");
        check("ollama", "0.0.0.0", "http://127.0.0.1:11434/v1");
        check("ollama", "0.0.0.0:99", "http://127.0.0.1:99/v1");
        check("ollama", "https://ollama.example", "https://ollama.example/v1");
        check("ollama", "http://box:99/v1", "http://box:99/v1");
    }

    #[test]
    fn only_openais_own_hosts_are_treated_as_such() {
        let check = |url: &str, want: bool| assert_eq!(is_openai_host(url), want, "{url}");
        check("https://api.openai.com/v1", true);
        check("https://eu.api.openai.com/v1", true);
        check("https://openai.com.evil.example/v1", false);
        check("http://127.0.0.1:8080/v1", false);
    }

    #[test]
    fn settings_that_no_call_could_use_are_refused() {
        let provider = |name: &str, own: Provider| check_provider(name, &own).err().map(|failure| failure.message);
        let check = |found: Option<String>, words: &str| {
            assert!(found.as_ref().is_some_and(|found| found.contains(words)), "{words:?} is not in {found:?}");
        };
        assert_eq!(provider("mine", Provider::default()), None);
        check(provider("a/b", Provider::default()), "neither `/`");
        check(provider("script", Provider::default()), "taken");
        check(provider("mine", Provider { max_concurrent: Some(0), ..Provider::default() }), "max_concurrent");
        check(
            provider("mine", Provider { requests_per_minute: Some(0), ..Provider::default() }),
            "requests_per_minute",
        );
        let model = |name: &str, price: f64| {
            let own = ModelSettings { prompt_usd: Some(price), ..ModelSettings::default() };
            check_model(name, &own).err().map(|failure| failure.message)
        };
        assert_eq!(model("openai/x", 0.0), None);
        check(model("gpt-4o", 1.0), "openai/gpt-4o");
        check(model("openai/x", -1.0), "-1 is not a price");
        check(model("openai/x", f64::NAN), "not a price");
    }
}
