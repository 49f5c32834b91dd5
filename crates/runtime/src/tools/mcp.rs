//! Tools of MCP servers, under the names `mcp:SERVER/TOOL`.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_mcp::{Error, Guard, Kind, Limits, RemoteTool, Server, ServerConfig};
use relais_plan::{Effect, McpServer, Schema};
use serde_json::Value;

use crate::mask::{Secrets, Undefined};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};
use crate::tools::web::Web;

pub const PREFIX: &str = "mcp:";
/// The registry's own limit comes first; this one is for those who call past it.
const CALL_TIMEOUT: Duration = Duration::from_secs(24 * 3600);
/// A server that takes longer to begin does not begin.
const START_MAX_S: u64 = 600;

/// Servers by name; each started once for all who describe it in the same way.
#[derive(Clone)]
pub struct Servers {
    named: BTreeMap<String, Result<Arc<Source>, Failure>>,
    pool: Arc<Mutex<Vec<Pooled>>>,
    /// For the servers that a text of the network names.
    guard: Guard,
}

struct Pooled {
    name: String,
    config: ServerConfig,
    source: Weak<Source>,
}

/// A server, and its tools as they were last listed.
struct Source {
    server: Arc<Server>,
    built: Mutex<Option<Built>>,
}

#[derive(Clone)]
struct Built {
    from: Arc<[RemoteTool]>,
    tools: Vec<Arc<dyn Tool>>,
}

impl Source {
    /// Built once per listing.
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, Error> {
        let listed = self.server.list_tools().await?;
        let mut built = self.built.lock().unwrap_or_else(PoisonError::into_inner);
        let known = built.take().filter(|known| Arc::ptr_eq(&known.from, &listed));
        let current = known.unwrap_or_else(|| Built { tools: self.build(&listed), from: listed });
        Ok(built.insert(current).tools.clone())
    }

    fn build(&self, listed: &[RemoteTool]) -> Vec<Arc<dyn Tool>> {
        listed.iter().map(|tool| Arc::new(McpTool::new(self.server.clone(), tool)) as Arc<dyn Tool>).collect()
    }
}

impl Servers {
    pub fn new(web: Arc<Web>) -> Servers {
        let judge = move |url: &str| web.builder_for(url).map_err(|failure| failure.message);
        Servers { named: BTreeMap::new(), pool: Arc::default(), guard: Guard::new(judge) }
    }

    /// Values of variables that are secrets by their use are put into `secrets`, so that they are masked.
    pub fn add(&mut self, name: &str, written: &McpServer, secrets: &mut Secrets) {
        let undefined = |undefined| Failure::new(ErrorKind::Config, format!("MCP server `{name}`: {undefined}"));
        let guard = written.guarded.then(|| self.guard.clone());
        let config = config(written, secrets).map(|config| ServerConfig { guard, ..config });
        let limits = limits(written);
        let source = config.map(|config| self.shared(name, config, limits)).map_err(undefined);
        self.named.insert(name.to_owned(), source);
    }

    fn shared(&self, name: &str, config: ServerConfig, limits: Limits) -> Arc<Source> {
        let mut pool = self.pool.lock().unwrap_or_else(PoisonError::into_inner);
        pool.retain(|pooled| pooled.source.strong_count() > 0);
        let known = pool.iter().find(|pooled| pooled.name == name && pooled.config == config);
        if let Some(source) = known.and_then(|pooled| pooled.source.upgrade()) {
            return source;
        }
        let server = Arc::new(Server::new(name, config.clone(), limits));
        let source = Arc::new(Source { server, built: Mutex::default() });
        pool.push(Pooled { name: name.to_owned(), config, source: Arc::downgrade(&source) });
        source
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.named.keys().map(String::as_str)
    }

    /// Lists one server's tools, starting it if need be.
    pub async fn tools(&self, name: &str) -> Result<Vec<Arc<dyn Tool>>, Failure> {
        match self.named.get(name) {
            Some(source) => source.clone()?.tools().await.map_err(failure),
            None => Ok(Vec::new()),
        }
    }

    pub async fn stop(&self) {
        for source in self.named.values().flatten() {
            source.server.stop().await;
        }
    }
}

fn limits(written: &McpServer) -> Limits {
    let start = written.start_timeout_s.map(|seconds| Duration::from_secs(seconds.clamp(1, START_MAX_S)));
    Limits { start: start.unwrap_or(Limits::default().start) }
}

fn config(written: &McpServer, secrets: &mut Secrets) -> Result<ServerConfig, Undefined> {
    Ok(ServerConfig {
        command: written.command.clone(),
        args: written.args.clone(),
        env: expanded(written.env.iter(), secrets, sounds_secret)?,
        url: written.url.as_deref().map(|url| put_in("", url, secrets, |_| true)).transpose()?,
        headers: expanded(written.headers.iter(), secrets, |_| true)?,
        guard: None,
    })
}

fn expanded<'a>(
    written: impl Iterator<Item = (&'a String, &'a String)>,
    secrets: &mut Secrets,
    is_secret: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, String>, Undefined> {
    let mut made = BTreeMap::new();
    for (name, text) in written {
        made.insert(name.clone(), put_in(name, text, secrets, &is_secret)?);
    }
    Ok(made)
}

fn put_in(
    name: &str,
    text: &str,
    secrets: &mut Secrets,
    is_secret: impl Fn(&str) -> bool,
) -> Result<String, Undefined> {
    for (variable, value) in secrets.named_in(text)? {
        if is_secret(name) || is_secret(&variable) {
            secrets.insert(variable, value);
        }
    }
    secrets.expand(text)
}

/// `${HOME}` in the environment of a server is no secret, `${SHOP_TOKEN}` is one.
fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["KEY", "TOKEN", "SECRET", "PASS", "AUTH", "CREDENTIAL"].iter().any(|word| name.contains(word))
}

struct McpTool {
    spec: ToolSpec,
    server: Arc<Server>,
    tool: String,
}

impl McpTool {
    fn new(server: Arc<Server>, tool: &RemoteTool) -> McpTool {
        let spec = ToolSpec {
            name: format!("{PREFIX}{}/{}", server.name(), tool.name),
            description: tool.description.clone(),
            parameters: parameters(&tool.parameters),
            effect: effect(tool),
        };
        McpTool { spec, server, tool: tool.name.clone() }
    }
}

impl Tool for McpTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(async move {
            let arguments = match call.arguments {
                Value::Object(fields) => fields.clone(),
                _ => serde_json::Map::new(),
            };
            let value = self.server.call(&self.tool, arguments, call.key, CALL_TIMEOUT).await.map_err(failure)?;
            Ok(Returned { value, ..Returned::default() })
        })
    }
}

/// Always an object schema. One that is not valid would stop every call and every model: the server checks alone then.
fn parameters(listed: &Value) -> Value {
    let mut schema = listed.clone();
    schema["type"] = "object".into();
    if Schema::written(&schema).is_ok() { schema } else { serde_json::json!({"type": "object"}) }
}

fn effect(tool: &RemoteTool) -> Effect {
    match (tool.read_only, tool.idempotent) {
        (true, _) => Effect::Read,
        (false, true) => Effect::Idempotent,
        (false, false) => Effect::Once,
    }
}

/// What was sent and lost is `uncertain`; the registry knows whether that matters.
fn failure(error: Error) -> Failure {
    let kind = match error.kind {
        _ if error.sent => ErrorKind::Uncertain,
        Kind::Config => ErrorKind::Config,
        Kind::Unreachable => ErrorKind::Transport,
        Kind::Timeout => ErrorKind::Timeout,
        Kind::Tool | Kind::Protocol => ErrorKind::Tool,
    };
    Failure::new(kind, error.to_string())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::tools::testing::{Bench, KEY};
    use crate::tools::{CallLimits, Tools};
    use serde_json::json;

    const MISBEHAVING: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../mcp/tests/it/misbehaving.py");

    fn written(env: &[(&str, &str)]) -> McpServer {
        let env = env.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let args = vec![MISBEHAVING.to_owned(), "good".to_owned()];
        McpServer { command: Some("python3".into()), args, env, ..McpServer::default() }
    }

    fn tools(server: McpServer) -> Tools {
        let secrets = BTreeMap::from([("SHOP".to_owned(), "open-sesame".to_owned())]);
        let mcp = BTreeMap::from([("shop".to_owned(), server)]);
        Tools::new(&Settings { secrets, mcp, ..Settings::default() })
    }

    async fn call(tools: &Tools, name: &str, timeout: Duration) -> Result<Value, Failure> {
        let (bench, arguments) = (Bench::new(), json!({"a": 1}));
        let limits = CallLimits { timeout, effect: None };
        let call = ToolCall { arguments: &arguments, key: KEY, run: &bench.run };
        tools.call(name, call, limits).await.map(|returned| returned.value)
    }

    #[tokio::test]
    async fn tools_of_a_server_are_chosen_and_called() {
        let tools = tools(written(&[]));
        let chosen = tools.select(&["mcp:shop/e*".into(), "mcp:shop/key".into()]).await.unwrap();
        let effects: Vec<(&str, Effect)> = chosen.iter().map(|spec| (spec.name.as_str(), spec.effect)).collect();
        assert_eq!(
            effects,
            [
                ("mcp:shop/echo", Effect::Idempotent),
                ("mcp:shop/environment", Effect::Once),
                ("mcp:shop/key", Effect::Read)
            ]
        );
        let minute = Duration::from_secs(60);
        assert_eq!(call(&tools, "mcp:shop/echo", minute).await.unwrap(), json!({"echo": {"a": 1}}));
        assert_eq!(call(&tools, "mcp:shop/key", minute).await.unwrap()["relais/idempotencyKey"], KEY);
        let near = call(&tools, "mcp:shop/ecco", minute).await.unwrap_err();
        assert!(near.message.contains("did you mean `mcp:shop/echo`?"), "{near}");
        assert!(tools.list().await.tools.iter().any(|spec| spec.name == "mcp:shop/echo"));
    }

    #[tokio::test]
    async fn lost_calls_are_uncertain_and_failed_ones_are_not() {
        let tools = tools(written(&[]));
        let check = async |tool: &str, timeout_ms: u64, kind: ErrorKind, part: &str| {
            let failure = call(&tools, tool, Duration::from_millis(timeout_ms)).await.unwrap_err();
            assert!(failure.kind == kind && failure.message.contains(part), "{failure}");
        };
        check("mcp:shop/fail", 60_000, ErrorKind::Tool, "no such product").await;
        check("mcp:shop/die", 60_000, ErrorKind::Uncertain, "boom in the middle").await;
        check("mcp:shop/hang", 1_500, ErrorKind::Uncertain, "took longer than 1.5 s").await;
    }

    #[tokio::test]
    async fn secrets_reach_the_server_and_nobody_else() {
        let tools = tools(written(&[("SHOP_TOKEN", "${SHOP}"), ("PLACE", "${PATH}")]));
        let environment = call(&tools, "mcp:shop/environment", Duration::from_secs(60)).await.unwrap();
        assert_eq!(environment["SHOP_TOKEN"], "[secret]");
        assert_eq!(environment["PLACE"], std::env::var("PATH").unwrap());
        let undefined = self::tools(written(&[("T", "${RELAIS_NO_SUCH_VARIABLE}")])).list().await;
        assert!(undefined.failed[0].message.contains("`RELAIS_NO_SUCH_VARIABLE` is not defined"), "{undefined:?}");
    }

    #[test]
    fn schemas_that_are_none_do_not_stop_calls() {
        let check = |given: Value, wanted: Value| assert_eq!(parameters(&given), wanted);
        let fine = json!({"type": "object", "properties": {"a": {"type": "string"}}});
        check(fine.clone(), fine);
        check(json!({}), json!({"type": "object"}));
        check(json!({"properties": {"a": {"type": "nonsense"}}}), json!({"type": "object"}));
        check(json!({"properties": {"a": {"$ref": "#/nowhere"}}}), json!({"type": "object"}));
    }

    #[tokio::test]
    async fn a_server_described_twice_is_started_once() {
        let tools = tools(written(&[]));
        let again = BTreeMap::from([("shop".to_owned(), written(&[]))]);
        let other = BTreeMap::from([("shop".to_owned(), written(&[("A", "b")]))]);
        let server = |tools: &Tools| tools.servers.named["shop"].clone().unwrap();
        assert!(Arc::ptr_eq(&server(&tools), &server(&tools.with_servers(&again))));
        assert!(!Arc::ptr_eq(&server(&tools), &server(&tools.with_servers(&other))));
    }

    /// Counts who comes in, and tells them nothing.
    async fn inner() -> (String, Arc<std::sync::atomic::AtomicUsize>) {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, seen) = (listener.local_addr().unwrap().port(), Arc::<std::sync::atomic::AtomicUsize>::default());
        let count = seen.clone();
        tokio::spawn(async move {
            while listener.accept().await.is_ok() {
                count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            }
        });
        (port.to_string(), seen)
    }

    #[tokio::test]
    async fn a_server_that_the_network_names_is_called_under_the_rules_of_http_request() {
        let (port, seen) = inner().await;
        let check = async |host: &str, guarded: bool, allowed: &[&str], allow: &[&str], part: &str, reached: bool| {
            let mut settings = Settings::default();
            settings.tools.http_request.allow = allow.iter().map(ToString::to_string).collect();
            settings.tools.http_request.allow_private = allowed.iter().map(ToString::to_string).collect();
            let url = Some(format!("http://{host}:{port}/mcp"));
            let server = McpServer { url, guarded, ..McpServer::default() };
            let tools = Tools::new(&settings).with_servers(&BTreeMap::from([("inner".to_owned(), server)]));
            let before = seen.load(std::sync::atomic::Ordering::SeqCst);
            let failure = tools.select(&["mcp:inner/*".into()]).await.unwrap_err();
            assert!(failure.message.contains(part), "{host}: {failure}");
            assert_eq!(seen.load(std::sync::atomic::Ordering::SeqCst) > before, reached, "{host}: {failure}");
        };
        let (none, refused): (&[&str], &str) = (&[], "private, local or reserved address");
        check("127.0.0.1", true, none, none, refused, false).await;
        check("[::ffff:127.0.0.1]", true, none, none, refused, false).await;
        check("2130706433", true, none, none, refused, false).await;
        // A name is judged by what it resolves to.
        check("localhost", true, none, none, refused, false).await;
        check("localhost", true, none, &["example.org"], "allow list", false).await;
        check("localhost", true, none, &["localhost"], refused, false).await;
        check("127.0.0.1", true, &["127.0.0.1"], none, "", true).await;
        check("127.0.0.1", false, none, none, "", true).await;
        check("localhost", false, none, none, "", true).await;
    }

    #[test]
    fn a_guarded_server_is_not_shared_with_one_that_is_free() {
        let described = |guarded: bool| McpServer { url: Some("http://s".into()), guarded, ..McpServer::default() };
        let tools = tools(described(false));
        let of = |guarded: bool| tools.with_servers(&BTreeMap::from([("shop".to_owned(), described(guarded))]));
        let server = |tools: &Tools| tools.servers.named["shop"].clone().unwrap();
        assert!(Arc::ptr_eq(&server(&tools), &server(&of(false))));
        let guarded = of(true);
        assert!(!Arc::ptr_eq(&server(&tools), &server(&guarded)));
        assert!(Arc::ptr_eq(&server(&guarded), &server(&of(true))));
    }
}
