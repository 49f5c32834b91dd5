//! What another server offers, passed on as if it were offered here: an assistant that can only start a program reaches
//! a server through it. Knows nothing of what is offered.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, CancelledNotificationParam, ClientConfig, ClientRequest,
    Implementation, JsonRpcMessage, PaginatedRequestParams, ProgressNotificationParam, ProgressToken, ProtocolVersion,
    ReadResourceRequestParams, ResourceContents, ServerNotification, ServerResult, Tool,
};
use rmcp::service::{
    NotificationContext, Peer, PeerRequestOptions, RunningService, RxJsonRpcMessage, ServiceError, TxJsonRpcMessage,
};
use rmcp::transport::{IntoTransport, Transport};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Map, Value};
use tokio::sync::broadcast;

use super::{
    Caller, Cancelled, Change, Contents, Given, Offered, Offers, Page, Progress, Reply, Resource, ResourceTemplate,
    Trouble, serve_stdio,
};
use crate::ServerConfig;
use crate::connection::http_transport;

/// Changes that the client here has not been told yet.
const CHANGES_MAX: usize = 64;

/// Serves on this process's stdin and stdout what the server at `url` offers to whoever sends these headers.
pub async fn relay_stdio(url: &str, headers: BTreeMap<String, String>) -> Result<(), Trouble> {
    let config = ServerConfig { url: Some(url.to_owned()), headers, ..ServerConfig::default() };
    let relay = Relay::connect(config).await?;
    serve_stdio(Arc::new(relay), Caller::new("", ())).await
}

struct Relay {
    config: ServerConfig,
    instructions: String,
    hears: Hears,
    /// Replaced when the server was gone and is back.
    service: tokio::sync::Mutex<RunningService<RoleClient, Hears>>,
}

/// Passes on what the server tells of itself.
#[derive(Clone)]
struct Hears {
    changes: broadcast::Sender<Change>,
    /// The calls that are at work.
    calls: Arc<Mutex<HashMap<ProgressToken, Progress>>>,
}

impl ClientHandler for Hears {
    async fn on_tool_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.changes.send(Change::Tools);
    }

    async fn on_resource_list_changed(&self, _context: NotificationContext<RoleClient>) {
        let _ = self.changes.send(Change::Resources);
    }

    fn get_info(&self) -> ClientConfig {
        let mut info = ClientConfig::default();
        info.protocol_version = ProtocolVersion::LATEST_WITH_INITIALIZE;
        info.client_info = Implementation::new("relais", env!("CARGO_PKG_VERSION"));
        info
    }
}

impl Hears {
    fn note(&self, note: &ProgressNotificationParam) {
        let progress = self.calls().get(&note.progress_token).cloned();
        if let Some(progress) = progress {
            progress.tell(note.progress, note.total, note.message.as_deref().unwrap_or_default());
        }
    }

    fn calls(&self) -> std::sync::MutexGuard<'_, HashMap<ProgressToken, Progress>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Hears the progress of calls as it comes in. The library gives each notification to a task of its own, and the last
/// note of a call would then be passed on after its answer.
struct InOrder<T> {
    transport: T,
    hears: Hears,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for InOrder<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        self.transport.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.transport.receive().await?;
        if let JsonRpcMessage::Notification(told) = &message
            && let ServerNotification::ProgressNotification(note) = &told.notification
        {
            self.hears.note(&note.params);
        }
        Some(message)
    }

    fn close(&mut self) -> impl Future<Output = Result<(), T::Error>> + Send {
        self.transport.close()
    }
}

impl Relay {
    async fn connect(config: ServerConfig) -> Result<Relay, Trouble> {
        let hears = Hears { changes: broadcast::Sender::new(CHANGES_MAX), calls: Arc::default() };
        let service = begin(&config, &hears).await?;
        let told = service.peer().peer_info().and_then(|info| info.instructions.clone());
        let instructions = told.unwrap_or_default();
        Ok(Relay { config, instructions, hears, service: tokio::sync::Mutex::new(service) })
    }

    /// A session that has ended, as all do when the server starts anew, is begun again.
    async fn peer(&self) -> Result<Peer<RoleClient>, Trouble> {
        let mut service = self.service.lock().await;
        if service.peer().is_transport_closed() {
            *service = begin(&self.config, &self.hears).await?;
        }
        Ok(service.peer().clone())
    }

    async fn perform(
        &self,
        tool: String,
        arguments: Map<String, Value>,
        progress: Progress,
        cancelled: Cancelled,
    ) -> Result<Given, Trouble> {
        let peer = self.peer().await?;
        let mut params = CallToolRequestParams::new(tool);
        params.arguments = Some(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let sent = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await;
        let handle = sent.map_err(lost)?;
        let (id, token) = (handle.id.clone(), handle.progress_token.clone());
        self.hears.calls().insert(token.clone(), progress);
        let answer = tokio::select! {
            answer = handle.await_response() => Some(answer),
            () = cancelled.wait() => None,
        };
        self.hears.calls().remove(&token);
        match answer {
            Some(Ok(ServerResult::CallToolResult(result))) => Ok(given(result)),
            Some(Ok(_)) => Err(Trouble::Internal("The server answered something else.".into())),
            Some(Err(error)) => Err(lost(error)),
            None => {
                // Whether it hears of it or not, nobody here waits any more.
                let _ = peer.notify_cancelled(CancelledNotificationParam::new(Some(id), None)).await;
                Err(Trouble::Invalid("It was cancelled.".into()))
            }
        }
    }
}

async fn begin(config: &ServerConfig, hears: &Hears) -> Result<RunningService<RoleClient, Hears>, Trouble> {
    let url = config.url.as_deref().unwrap_or_default();
    let wrong = |text: String| Trouble::Invalid(format!("The server at {url} cannot be used: {text}"));
    let transport = http_transport(url, config).map_err(|trouble| wrong(trouble.message))?;
    let transport = InOrder { transport: transport.into_transport(), hears: hears.clone() };
    let begun = hears.clone().serve_with_lifecycle(transport, ClientLifecycleMode::Initialize).await;
    begun.map_err(|error| wrong(crate::connection::chain(&error)))
}

fn lost(error: ServiceError) -> Trouble {
    match error {
        ServiceError::McpError(refused) => Trouble::Invalid(refused.message.to_string()),
        other => Trouble::Internal(format!("The server cannot be reached: {}", crate::connection::chain(&other))),
    }
}

fn page(cursor: Option<String>) -> Option<PaginatedRequestParams> {
    let mut page = PaginatedRequestParams::default();
    page.cursor = cursor;
    Some(page)
}

impl Offers for Relay {
    fn instructions(&self) -> String {
        self.instructions.clone()
    }

    fn tools<'a>(&'a self, _caller: &'a Caller, cursor: Option<String>) -> Reply<'a, Page<Offered>> {
        Box::pin(async move {
            let found = self.peer().await?.list_tools(page(cursor)).await.map_err(lost)?;
            Ok(Page { items: found.tools.into_iter().map(offered).collect(), next: found.next_cursor })
        })
    }

    fn call<'a>(
        &'a self,
        _caller: &'a Caller,
        tool: String,
        arguments: Map<String, Value>,
        progress: Progress,
        cancelled: Cancelled,
    ) -> Reply<'a, Given> {
        Box::pin(self.perform(tool, arguments, progress, cancelled))
    }

    fn resources<'a>(&'a self, _caller: &'a Caller, cursor: Option<String>) -> Reply<'a, Page<Resource>> {
        Box::pin(async move {
            let found = self.peer().await?.list_resources(page(cursor)).await.map_err(lost)?;
            Ok(Page { items: found.resources.into_iter().map(resource).collect(), next: found.next_cursor })
        })
    }

    fn resource_templates<'a>(
        &'a self,
        _caller: &'a Caller,
        cursor: Option<String>,
    ) -> Reply<'a, Page<ResourceTemplate>> {
        Box::pin(async move {
            let found = self.peer().await?.list_resource_templates(page(cursor)).await.map_err(lost)?;
            Ok(Page { items: found.resource_templates.into_iter().map(template).collect(), next: found.next_cursor })
        })
    }

    fn read<'a>(&'a self, _caller: &'a Caller, uri: &'a str) -> Reply<'a, Vec<Contents>> {
        Box::pin(async move {
            let read = self.peer().await?.read_resource(ReadResourceRequestParams::new(uri)).await.map_err(lost)?;
            Ok(read.contents.into_iter().filter_map(contents).collect())
        })
    }

    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        Some(self.hears.changes.subscribe())
    }
}

fn offered(tool: Tool) -> Offered {
    let hints = tool.annotations.unwrap_or_default();
    Offered {
        name: tool.name.into_owned(),
        title: tool.title,
        description: tool.description.unwrap_or_default().into_owned(),
        input_schema: Value::Object((*tool.input_schema).clone()),
        output_schema: tool.output_schema.map(|schema| Value::Object((*schema).clone())),
        read_only: hints.read_only_hint.unwrap_or(false),
        destructive: hints.destructive_hint.unwrap_or(true),
        idempotent: hints.idempotent_hint.unwrap_or(false),
    }
}

fn given(result: CallToolResult) -> Given {
    let text = crate::content::text(&result);
    Given { content: result.structured_content.unwrap_or_default(), text, is_error: result.is_error == Some(true) }
}

fn resource(found: rmcp::model::Resource) -> Resource {
    Resource {
        uri: found.uri,
        name: found.name,
        description: found.description.unwrap_or_default(),
        mime_type: found.mime_type.unwrap_or_default(),
    }
}

fn template(found: rmcp::model::ResourceTemplate) -> ResourceTemplate {
    ResourceTemplate {
        uri_template: found.uri_template,
        name: found.name,
        description: found.description.unwrap_or_default(),
        mime_type: found.mime_type.unwrap_or_default(),
    }
}

fn contents(found: ResourceContents) -> Option<Contents> {
    match found {
        ResourceContents::TextResourceContents { uri, mime_type, text, .. } => {
            Some(Contents { uri, mime_type: mime_type.unwrap_or_default(), text })
        }
        // Nothing here is offered as bytes.
        _ => None,
    }
}
