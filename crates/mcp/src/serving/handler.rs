//! The server side of the protocol library, answered by [`Offers`]. One handler serves one connection or session; in
//! the stateless era, one request.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CustomRequest, CustomResult, Implementation, ListResourceTemplatesResult,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestParams, ReadResourceResponse,
    ServerCapabilities, ServerConfig, SubscribeRequestParams, SubscriptionFilter, UnsubscribeRequestParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::Semaphore;
use tokio::sync::broadcast::Receiver;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::changes::{self, WATCHED_MAX, Watched};
use super::{Caller, Change, Offers, call, render};

/// Calls at the same time. Each may hold a run open; whoever needs more than this starts runs and looks later.
const CALLS_MAX: u32 = 256;

/// What all handlers of one server have in common.
pub struct Shared {
    offers: Arc<dyn Offers>,
    /// Over HTTP each request brings its own.
    caller: Option<Caller>,
    calls: Semaphore,
    /// The server is about to end.
    ending: CancellationToken,
}

pub struct Handler {
    shared: Arc<Shared>,
    watched: Watched,
    /// Taken before the client is told that it will hear of changes, so that it misses none.
    changes: Mutex<Option<Receiver<Change>>>,
    /// The client is told of changes already.
    tells: AtomicBool,
    ended: CancellationToken,
    /// What was started for the client ends with the handler.
    _ends: DropGuard,
}

impl Shared {
    pub fn new(offers: Arc<dyn Offers>, caller: Option<Caller>) -> Arc<Shared> {
        let (calls, ending) = (Semaphore::new(CALLS_MAX as usize), CancellationToken::new());
        Arc::new(Shared { offers, caller, calls, ending })
    }

    pub fn handler(self: &Arc<Shared>) -> Handler {
        let ended = CancellationToken::new();
        let guard = ended.clone().drop_guard();
        Handler {
            shared: self.clone(),
            watched: Watched::default(),
            changes: Mutex::new(self.offers.changes()),
            tells: AtomicBool::new(false),
            ended,
            _ends: guard,
        }
    }

    /// Cancels the calls at work, and waits until they have ended or their time is over.
    pub async fn end(&self) {
        self.ending.cancel();
        let _ = tokio::time::timeout(call::LAST_TIME * 2, self.calls.acquire_many(CALLS_MAX)).await;
    }

    pub fn is_ending(&self) -> bool {
        self.ending.is_cancelled()
    }
}

impl Handler {
    fn offers(&self) -> &dyn Offers {
        self.shared.offers.as_ref()
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        let of_request = || context.extensions.get::<http::request::Parts>()?.extensions.get::<Caller>().cloned();
        let caller = self.shared.caller.clone().or_else(of_request);
        caller.ok_or_else(|| ErrorData::internal_error("It is not known who calls.", None))
    }

    fn changes(&self) -> Option<Receiver<Change>> {
        let early = self.changes.lock().unwrap_or_else(PoisonError::into_inner).take();
        early.or_else(|| self.offers().changes())
    }

    /// Nobody learns of changes to what they may not read.
    async fn watch(&self, caller: &Caller, uri: String) -> Result<(), ErrorData> {
        self.offers().read(caller, &uri).await.map_err(render::trouble)?;
        let too_many = || format!("You watch {WATCHED_MAX} resources already; give one up first.");
        if self.watched.add(uri) { Ok(()) } else { Err(ErrorData::invalid_params(too_many(), None)) }
    }
}

fn cursor(request: Option<PaginatedRequestParams>) -> Option<String> {
    request.and_then(|request| request.cursor)
}

impl ServerHandler for Handler {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_resources_list_changed()
            .build();
        let mut info = ServerConfig::new(capabilities).with_instructions(self.offers().instructions());
        info.server_info = Implementation::new("relais", env!("CARGO_PKG_VERSION"));
        info
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = self.caller(&context)?;
        let page = self.offers().tools(&caller, cursor(request)).await.map_err(render::trouble)?;
        let mut result = ListToolsResult::with_all_items(page.items.into_iter().map(render::tool).collect());
        result.next_cursor = page.next;
        Ok(result)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let Ok(_at_work) = self.shared.calls.try_acquire() else {
            let words = format!("{CALLS_MAX} calls are at work already; call again when some of them have ended.");
            return Ok(render::refused(words).into());
        };
        let arguments = request.arguments.unwrap_or_default();
        let (tool, ended) = (request.name.into_owned(), self.shared.ending.child_token());
        Ok(call::call(self.offers(), &caller, tool, arguments, context, ended).await.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let caller = self.caller(&context)?;
        let page = self.offers().resources(&caller, cursor(request)).await.map_err(render::trouble)?;
        let mut result = ListResourcesResult::with_all_items(page.items.into_iter().map(render::resource).collect());
        result.next_cursor = page.next;
        Ok(result)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let caller = self.caller(&context)?;
        let page = self.offers().resource_templates(&caller, cursor(request)).await.map_err(render::trouble)?;
        let items = page.items.into_iter().map(render::template).collect();
        let mut result = ListResourceTemplatesResult::with_all_items(items);
        result.next_cursor = page.next;
        Ok(result)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let caller = self.caller(&context)?;
        let read = self.offers().read(&caller, &request.uri).await.map_err(render::trouble)?;
        Ok(render::contents(read).into())
    }

    #[allow(deprecated)]
    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watch(&self.caller(&context)?, request.uri).await
    }

    #[allow(deprecated)]
    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.watched.remove(&request.uri);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.tells.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(changes) = self.changes() {
            tokio::spawn(changes::tell_peer(changes, context.peer, self.watched.clone(), self.ended.clone()));
        }
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        if changes.is_none() {
            *changes = self.offers().changes();
        }
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let changes = self.changes();
        let caller = self.caller(context.request_context())?;
        for uri in context.accepted().resource_subscriptions.iter().flatten() {
            self.watch(&caller, uri.clone()).await?;
        }
        match changes {
            Some(changes) => changes::tell_listener(changes, &context, self.watched.clone()).await,
            None => context.cancelled().await,
        }
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        Err(render::misunderstood(&request.method, request.params.as_ref()))
    }
}
