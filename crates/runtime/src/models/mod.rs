//! Models by name: which provider a name means, where it is, what opens it. One file per wire format below.
//!
//! Keys are read once, through the caller's lookup, and leave this module only in a request's headers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_plan::problem::nearest;

use crate::governor::{Governors, Limits};
use crate::model::{Model, ModelFacts};
use crate::settings::{Provider, Settings};

mod anthropic;
pub mod call;
mod draft;
mod format;
mod google;
mod http;
mod names;
mod openai;
pub mod prices;
pub(crate) mod providers;
mod refusal;
mod schema_mode;
pub mod script;
mod sse;
#[cfg(test)]
mod tests;

pub use call::{CallLimits, call};
pub use format::LiveFn;
pub use http::install_crypto;
pub use providers::{Environment, is_at_home, variables_of as key_variables_of, variables_of_keys as key_variables};

use http::{Endpoint, HttpModel};
use prices::Prices;
use providers::{BUILT_IN, BuiltIn, Known};

/// Makes the model for what stands after the prefix.
pub type Maker = Arc<dyn Fn(&str) -> Arc<dyn Model> + Send + Sync>;

/// Every model that this process can call.
pub struct Models {
    default_model: Option<String>,
    providers: BTreeMap<String, Known>,
    makers: BTreeMap<String, Maker>,
    prices: Prices,
    /// Relative paths of scripted models start here.
    folder: PathBuf,
    limits: CallLimits,
    /// What the settings say of single providers.
    own_limits: BTreeMap<String, OwnLimits>,
}

#[derive(Debug, Clone, Copy)]
struct OwnLimits {
    stall: Option<Duration>,
    tries: Option<u32>,
}

/// A name resolved.
#[derive(Clone)]
pub struct Resolved {
    pub model: Arc<dyn Model>,
    /// The governor's key.
    pub provider: String,
    /// `provider/model`, also where the name was bare.
    pub name: String,
    pub facts: ModelFacts,
}

/// A row of `relais models`.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    pub provider: String,
    pub base_url: String,
    /// The variables that are looked at, in order.
    pub key_variables: Vec<String>,
    pub has_key: bool,
    /// Can be called as it stands: a key is there, or none is needed.
    pub usable: bool,
    pub models: Vec<(String, ModelFacts)>,
}

const SCRIPT: &str = "script";
/// Longer than any provider's names; a name is repeated in messages.
const NAME_MAX_BYTES: usize = 256;

impl Models {
    /// Fails on settings that no call could use.
    pub fn new(settings: &Settings, environment: Environment<'_>, folder: &Path) -> Result<Models, Failure> {
        let providers = providers::all(settings, environment)?;
        let prices = Prices::new(&settings.models)
            .map_err(|error| Failure::new(ErrorKind::Internal, format!("the price table: {error}")))?;
        let limits = CallLimits::default();
        let default_model = settings.default_model.clone();
        let folder = folder.to_owned();
        let own_limits = settings.providers.iter().map(|(name, own)| (name.clone(), own_limits(own))).collect();
        Ok(Models { default_model, providers, makers: BTreeMap::new(), prices, folder, limits, own_limits })
    }

    pub fn with_limits(mut self, limits: CallLimits) -> Models {
        self.limits = limits;
        self
    }

    /// How long and how often a provider is tried.
    pub fn limits(&self, provider: &str) -> CallLimits {
        let mut limits = self.limits.clone();
        if let Some(own) = self.own_limits.get(provider) {
            limits.stall = own.stall.unwrap_or(limits.stall);
            limits.tries = own.tries.unwrap_or(limits.tries);
        }
        limits
    }

    /// Names that start with `prefix/` are made by `maker` from now on.
    pub fn register(&mut self, prefix: &str, maker: Maker) {
        self.makers.insert(prefix.to_owned(), maker);
    }

    /// The model of a name; an empty one is the configured default.
    pub fn resolve(&self, name: &str) -> Result<Resolved, Failure> {
        let name = if name.is_empty() { self.default_name()? } else { name };
        check_name(name)?;
        let (provider, model) = match name.split_once('/') {
            Some((provider, model)) => (provider, model),
            None => (self.provider_of_bare(name)?, name),
        };
        if let Some(maker) = self.makers.get(provider) {
            return Ok(self.resolved(provider, model, maker(model)));
        }
        if provider == SCRIPT {
            let script =
                script::ScriptModel::new(&self.folder, model).map_err(|why| config(format!("`{name}`: {why}")))?;
            return Ok(self.resolved(provider, model, Arc::new(script)));
        }
        let known = self.providers.get(provider).ok_or_else(|| self.unknown_provider(name, provider))?;
        Ok(self.resolved(provider, model, Arc::new(self.http_model(known, provider, model)?)))
    }

    /// Is there a price for this model, so that a budget in dollars can be kept?
    pub fn price_known(&self, name: &str) -> bool {
        self.facts(name).prompt_nanos.is_some()
    }

    /// Price and context size as the table has them, for reckoning: no key is needed. The offline models cost nothing.
    pub fn facts(&self, name: &str) -> ModelFacts {
        let name = if name.is_empty() { self.default_name().unwrap_or_default() } else { name };
        let full = match name.split_once('/') {
            Some((provider, _)) if provider == SCRIPT || self.makers.contains_key(provider) => {
                let free = Some(0);
                let prices = ModelFacts {
                    prompt_nanos: free,
                    cached_nanos: free,
                    completion_nanos: free,
                    ..ModelFacts::default()
                };
                return prices;
            }
            Some(_) => name.to_owned(),
            None => match self.provider_of_bare(name) {
                Ok(provider) => format!("{provider}/{name}"),
                Err(_) => return ModelFacts::default(),
            },
        };
        self.prices.facts(&full)
    }

    /// What there is, for `relais models`.
    pub fn list(&self) -> Vec<Listed> {
        self.providers.iter().map(|(name, known)| self.listed(name, known)).collect()
    }

    /// The date of the built-in price table.
    pub fn prices_as_of(&self) -> &str {
        &self.prices.as_of
    }

    fn default_name(&self) -> Result<&str, Failure> {
        let missing = "the agent names no model and there is no `default_model` in relais.toml; name one as \
                       provider/model, or simulate the run (--simulate, `\"simulate\": true`)";
        self.default_model.as_deref().filter(|name| !name.is_empty()).ok_or_else(|| config(missing.to_owned()))
    }

    fn resolved(&self, provider: &str, model: &str, made: Arc<dyn Model>) -> Resolved {
        let name = format!("{provider}/{model}");
        // The operator's table stands over what a model says of itself.
        let facts = Some(self.prices.facts(&name)).filter(|known| *known != ModelFacts::default());
        let facts = facts.unwrap_or_else(|| made.facts());
        Resolved { model: made, provider: provider.to_owned(), name, facts }
    }

    fn http_model(&self, known: &Known, provider: &str, model: &str) -> Result<HttpModel, Failure> {
        if known.needs_key && known.endpoint.key.is_none() {
            return Err(missing_key(provider, &known.endpoint));
        }
        if !known.endpoint.base_url.starts_with("http://") && !known.endpoint.base_url.starts_with("https://") {
            let url = refusal::shown(&known.endpoint.base_url);
            return Err(config(format!("the base URL of {provider} must start with http:// or https://: {url}")));
        }
        Ok(HttpModel {
            format: known.format.clone(),
            model: model.to_owned(),
            endpoint: known.endpoint.clone(),
            facts: self.prices.facts(&format!("{provider}/{model}")),
            stall: self.limits(provider).stall,
        })
    }

    fn provider_of_bare<'a>(&self, name: &'a str) -> Result<&'a str, Failure> {
        let starts = |built_in: &&BuiltIn| built_in.bare.iter().any(|start| name.starts_with(start));
        BUILT_IN.iter().find(starts).map(|built_in| built_in.name).ok_or_else(|| {
            let known = self.prefixes().join("/, ");
            config(format!("`{name}` does not say its provider; write provider/model with one of {known}/"))
        })
    }

    fn unknown_provider(&self, name: &str, provider: &str) -> Failure {
        let known = self.prefixes();
        let near = nearest(provider, known.iter().copied()).map(|near| format!("; did you mean `{near}`?"));
        let near = near.unwrap_or_default();
        let list = known.join(", ");
        config(format!(
            "`{name}`: there is no provider `{provider}`{near} Known: {list}; others go under [providers.{provider}] \
             in relais.toml"
        ))
    }

    fn prefixes(&self) -> Vec<&str> {
        self.providers.keys().chain(self.makers.keys()).map(String::as_str).chain([SCRIPT]).collect()
    }

    fn listed(&self, name: &str, known: &Known) -> Listed {
        let has_key = known.endpoint.key.is_some();
        Listed {
            provider: name.to_owned(),
            base_url: refusal::shown(&known.endpoint.base_url),
            key_variables: known.endpoint.key_variables.clone(),
            has_key,
            usable: has_key || !known.needs_key,
            models: self.prices.of_provider(name),
        }
    }
}

fn own_limits(own: &Provider) -> OwnLimits {
    OwnLimits { stall: own.stall_s.map(Duration::from_secs), tries: own.tries }
}

/// Governors with the limits that the settings give each provider.
pub fn governors(settings: &Settings) -> Governors {
    let default = Limits::default();
    let limits = |own: &Provider| Limits {
        max_concurrent: own.max_concurrent.unwrap_or(default.max_concurrent),
        requests_per_minute: own.requests_per_minute,
        tokens_per_minute: own.tokens_per_minute,
        break_after: own.break_after.unwrap_or(default.break_after),
        cooldown: own.cooldown_s.map_or(default.cooldown, Duration::from_secs),
    };
    // A script fails as it is written, and is never left out.
    let script = (SCRIPT.to_owned(), Limits { break_after: u32::MAX, ..default });
    Governors::new(settings.providers.iter().map(|(name, own)| (name.clone(), limits(own))).chain([script]).collect())
}

/// Names become part of an address; whatever could change its meaning is refused.
fn check_name(name: &str) -> Result<(), Failure> {
    let odd = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '?' | '#' | '%' | '\\');
    let script = name.split_once('/').is_some_and(|(provider, _)| provider == SCRIPT);
    let shown: String = name.chars().take(NAME_MAX_BYTES).collect();
    if name.len() > NAME_MAX_BYTES && !script {
        return Err(config(format!("`{shown}…` is too long for a model's name")));
    }
    if name.ends_with('/') || name.starts_with('/') {
        return Err(config(format!("`{shown}` is not a model; write provider/model")));
    }
    if !script && (name.contains(odd) || name.contains("..")) {
        return Err(config(format!("`{shown}` holds characters that no model's name has")));
    }
    Ok(())
}

fn missing_key(provider: &str, endpoint: &Endpoint) -> Failure {
    let variables = endpoint.key_variables.join(" or ");
    config(format!(
        "no key for {provider}: looked for {variables} in the environment and found none; set it, or simulate \
         the run, which needs none (--simulate, `\"simulate\": true`)"
    ))
}

fn config(message: String) -> Failure {
    Failure::new(ErrorKind::Config, message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod resolving {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> + use<> {
        let map: BTreeMap<String, String> = pairs.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        move |name| map.get(name).cloned()
    }

    fn all_keys() -> impl Fn(&str) -> Option<String> {
        environment(&[("OPENAI_API_KEY", "k"), ("ANTHROPIC_API_KEY", "k"), ("GOOGLE_API_KEY", "k")])
    }

    fn models(settings: &Settings, environment: Environment<'_>) -> Models {
        Models::new(settings, environment, Path::new("/scripts")).unwrap()
    }

    fn own(name: &str, provider: Provider) -> Settings {
        Settings { providers: BTreeMap::from([(name.to_owned(), provider)]), ..Settings::default() }
    }

    fn refused(models: &Models, name: &str) -> String {
        let failure = models.resolve(name).err().unwrap();
        assert_eq!(failure.kind, ErrorKind::Config, "{failure}");
        failure.message
    }

    #[test]
    fn names_find_their_provider() {
        let models = models(&Settings::default(), &all_keys());
        let check = |name: &str, want: &str| assert_eq!(models.resolve(name).unwrap().name, want);
        check("openai/gpt-4o", "openai/gpt-4o");
        check("gpt-4o", "openai/gpt-4o");
        check("o3", "openai/o3");
        check("claude-opus-4-5", "anthropic/claude-opus-4-5");
        check("gemini-2.5-pro", "google/gemini-2.5-pro");
        check("ollama/library/llama3:8b", "ollama/library/llama3:8b");
        check("script/turns.json", "script/turns.json");
        assert_eq!(models.resolve("gpt-4o").unwrap().facts.context_tokens, Some(128_000));
    }

    #[test]
    fn what_cannot_be_a_model_is_refused_in_clear_words() {
        let models = models(&Settings::default(), &all_keys());
        let check = |name: &str, words: &str| {
            let message = refused(&models, name);
            assert!(message.contains(words), "{words:?} is not in {message}");
        };
        check("", "default_model");
        check("llama3", "write provider/model with one of anthropic/, google/, ollama/, openai/, script/");
        check("opneai/gpt-4o", "no provider `opneai`");
        check("openai/", "not a model");
        check("/gpt-4o", "not a model");
        check("script//etc/passwd", "inside the folder of relais.toml");
        check("script/../turns.json", "inside the folder of relais.toml");
        check("google/../../secrets", "characters that no model's name has");
        check("google/x?key=1", "characters that no model's name has");
        check(&format!("openai/{}", "x".repeat(500)), "too long");
    }

    #[test]
    fn a_missing_key_names_the_variables_and_a_way_out() {
        let models = models(&Settings::default(), &environment(&[("OPENAI_API_KEY", "  ")]));
        for (name, variables) in [
            ("gpt-4o", "OPENAI_API_KEY"),
            ("claude-x", "ANTHROPIC_API_KEY"),
            ("gemini-x", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ] {
            let message = refused(&models, name);
            assert!(message.contains(variables) && message.contains("--simulate"), "{message}");
        }
        assert!(models.resolve("ollama/x").is_ok(), "needs none");
    }

    #[test]
    fn providers_of_ones_own() {
        let with_url = |url: &str| Provider { base_url: Some(url.to_owned()), ..Provider::default() };
        let none = environment(&[]);
        assert!(models(&own("groq", with_url("https://groq.example/openai/v1")), &none).resolve("groq/llama").is_ok());
        let keyed = Provider { api_key_env: Some("MY_KEY".into()), ..with_url("https://x.example") };
        assert!(refused(&models(&own("mine", keyed), &none), "mine/x").contains("MY_KEY"));
        let bare = own("mine", with_url("x.example/v1"));
        assert!(refused(&models(&bare, &none), "mine/x").contains("must start with http://"));
        let local = environment(&[("OPENAI_BASE_URL", "http://127.0.0.1:1234/v1")]);
        assert!(models(&Settings::default(), &local).resolve("gpt-4o").is_ok(), "a local server may need no key");
        let fails =
            |provider: Provider| Models::new(&own("mine", provider), &none, Path::new(".")).err().unwrap().message;
        assert!(fails(Provider::default()).contains("needs a `base_url`"));
        let odd = Provider { format: Some("opanai".into()), ..with_url("http://x.example") };
        assert!(fails(odd).contains("formats are openai, anthropic, google, ollama"));
    }

    #[test]
    fn a_prefix_of_ones_own_wins_and_the_default_is_used() {
        let settings = Settings { default_model: Some("sim/any".into()), ..Settings::default() };
        let mut models = models(&settings, &environment(&[]));
        assert!(models.resolve("").is_err());
        models.register("sim", Arc::new(|_| Arc::new(script::ScriptModel::new(Path::new("."), "x").unwrap())));
        assert_eq!(models.resolve("").unwrap().name, "sim/any");
    }

    #[test]
    fn the_list_shows_who_can_be_called() {
        let models = models(&Settings::default(), &environment(&[("ANTHROPIC_API_KEY", "k")]));
        let seen: Vec<_> = models.list().into_iter().map(|row| (row.provider, row.has_key, row.usable)).collect();
        let want =
            [("anthropic", true, true), ("google", false, false), ("ollama", false, true), ("openai", false, false)];
        assert_eq!(seen, want.map(|(name, key, usable)| (name.to_owned(), key, usable)));
    }
}
