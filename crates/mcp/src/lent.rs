//! Pipes that are asked twice: in the stateless era first, and where the server does not know it, in the other one. The
//! server is started once.
//!
//! The library takes the transport that it begins with; dropped, these pipes go back to where they were lent from. The
//! first question has an id of its own, so that a late answer to it is not taken for one to the second.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

use rmcp::RoleClient;
use rmcp::model::{ClientRequest, JsonRpcMessage, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;

/// Above the ids of any request that is counted from 0.
const FIRST_ASKED: i64 = 1 << 40;

/// Where pipes are lent from.
pub struct Lender<T>(Arc<Mutex<Option<T>>>);

pub struct Lent<T> {
    pipes: Option<T>,
    home: Arc<Mutex<Option<T>>>,
    is_first: bool,
}

impl<T> Lender<T> {
    pub fn new(pipes: T) -> Lender<T> {
        Lender(Arc::new(Mutex::new(Some(pipes))))
    }

    /// None while they are lent, or if their end was reached.
    pub fn lend(&self, is_first: bool) -> Option<Lent<T>> {
        let pipes = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Lent { pipes: Some(pipes), home: self.0.clone(), is_first })
    }
}

impl<T> Drop for Lent<T> {
    fn drop(&mut self) {
        *self.home.lock().unwrap_or_else(PoisonError::into_inner) = self.pipes.take();
    }
}

impl<T> Lent<T> {
    fn sent(&self, mut message: TxJsonRpcMessage<RoleClient>) -> TxJsonRpcMessage<RoleClient> {
        if let JsonRpcMessage::Request(asked) = &mut message
            && let (ClientRequest::DiscoverRequest(_), RequestId::Number(number)) = (&asked.request, &mut asked.id)
            && self.is_first
        {
            *number += FIRST_ASKED;
        }
        message
    }

    /// None: it answers what nobody asks any more.
    fn heard(&self, mut message: RxJsonRpcMessage<RoleClient>) -> Option<RxJsonRpcMessage<RoleClient>> {
        let id = match &mut message {
            JsonRpcMessage::Response(response) => Some(&mut response.id),
            JsonRpcMessage::Error(error) => error.id.as_mut(),
            JsonRpcMessage::Request(_) | JsonRpcMessage::Notification(_) => None,
        };
        if let Some(RequestId::Number(number)) = id
            && *number >= FIRST_ASKED
        {
            *number -= FIRST_ASKED;
            return self.is_first.then_some(message);
        }
        Some(message)
    }
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Lent<T> {
    type Error = T::Error;

    fn name() -> Cow<'static, str> {
        "pipes".into()
    }

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), T::Error>> + Send + 'static {
        let message = self.sent(message);
        let sent = self.pipes.as_mut().map(|pipes| pipes.send(message));
        async move {
            match sent {
                Some(sent) => sent.await,
                None => Ok(()),
            }
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        loop {
            let message = self.pipes.as_mut()?.receive().await?;
            if let Some(message) = self.heard(message) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> Result<(), T::Error> {
        match self.pipes.as_mut() {
            Some(pipes) => pipes.close().await,
            None => Ok(()),
        }
    }
}
