//! Over pipes: one message per line, one client, until its end of the pipe closes.

use std::io;
use std::sync::Arc;

use rmcp::RoleServer;
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, ServerJsonRpcMessage};
use rmcp::service::{ServerInitializeError, serve_server};
use rmcp::transport::Transport;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{Mutex, mpsc};

use super::handler::Shared;
use super::{Caller, Offers, Trouble, message};

/// A workflow with all its prompts is far below; a line that never ends must not fill the memory.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Messages read and not yet looked at; while it is full, the client waits.
const WAITING_MAX: usize = 16;

/// On this process's stdin and stdout, which nothing else may then write to.
pub async fn serve_stdio(offers: Arc<dyn Offers>, caller: Caller) -> Result<(), Trouble> {
    serve_pipes(offers, caller, tokio::io::stdin(), tokio::io::stdout()).await
}

/// Until `input` ends. Calls then at work have some seconds to end and to be answered; after it they are cancelled.
pub async fn serve_pipes<R, W>(offers: Arc<dyn Offers>, caller: Caller, input: R, output: W) -> Result<(), Trouble>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let shared = Shared::new(offers, Some(caller));
    let internal = |error: &dyn std::error::Error| Trouble::Internal(format!("The connection broke off: {error}."));
    match serve_server(shared.handler(), Lines::new(input, output)).await {
        Ok(service) => drop(service.waiting().await.map_err(|error| internal(&error))?),
        // The client left before it said anything.
        Err(ServerInitializeError::ConnectionClosed(_)) => {}
        Err(error) => return Err(internal(&error)),
    }
    shared.end().await;
    Ok(())
}

struct Lines<W> {
    messages: mpsc::Receiver<ClientJsonRpcMessage>,
    output: Arc<Mutex<Output<W>>>,
    /// The client has made its first request.
    begun: bool,
}

struct Output<W> {
    pipe: W,
}

impl<W: AsyncWrite + Send + Unpin + 'static> Lines<W> {
    fn new(input: impl AsyncRead + Send + Unpin + 'static, output: W) -> Lines<W> {
        let output = Arc::new(Mutex::new(Output { pipe: output }));
        let (sender, messages) = mpsc::channel(WAITING_MAX);
        tokio::spawn(read_all(BufReader::new(input), output.clone(), sender));
        Lines { messages, output, begun: false }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> Transport<RoleServer> for Lines<W> {
    type Error = io::Error;

    fn send(&mut self, item: ServerJsonRpcMessage) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let output = self.output.clone();
        async move { output.lock().await.write(&item).await }
    }

    /// What comes before the first request has nothing to refer to; the library would end the connection over it.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        loop {
            let message = self.messages.recv().await?;
            self.begun |= begins(&message);
            if self.begun || matches!(message, ClientJsonRpcMessage::Request(_)) {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.messages.close();
        self.output.lock().await.pipe.shutdown().await
    }
}

/// A probe and a ping leave it open which era the client speaks.
fn begins(message: &ClientJsonRpcMessage) -> bool {
    let ClientJsonRpcMessage::Request(request) = message else { return false };
    !matches!(request.request, ClientRequest::DiscoverRequest(_) | ClientRequest::PingRequest(_))
}

impl<W: AsyncWrite + Unpin> Output<W> {
    async fn write(&mut self, message: &ServerJsonRpcMessage) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.pipe.write_all(&line).await?;
        self.pipe.flush().await
    }
}

/// Ends with the pipe, or when nobody reads the messages any more. A pipe that breaks has ended.
async fn read_all<W: AsyncWrite + Unpin>(
    mut input: impl AsyncBufRead + Unpin,
    output: Arc<Mutex<Output<W>>>,
    messages: mpsc::Sender<ClientJsonRpcMessage>,
) {
    let mut line = Vec::new();
    while let Ok(Some(is_whole)) = next_line(&mut input, &mut line).await {
        let read = if is_whole { understand(&line) } else { Err(message::too_large(LINE_BYTES_MAX)) };
        match read {
            Ok(None) => {}
            Ok(Some(message)) => {
                if messages.send(message).await.is_err() {
                    return;
                }
            }
            Err(answer) => {
                if output.lock().await.write(&answer).await.is_err() {
                    return;
                }
            }
        }
    }
}

fn understand(line: &[u8]) -> Result<Option<ClientJsonRpcMessage>, Box<ServerJsonRpcMessage>> {
    match line.trim_ascii() {
        [] => Ok(None),
        bytes => message::read(bytes),
    }
}

/// Is the line whole, or was it too long and left out? None at the end.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin), line: &mut Vec<u8>) -> io::Result<Option<bool>> {
    line.clear();
    line.shrink_to(LINE_BYTES_MAX / 64);
    let limit = LINE_BYTES_MAX as u64 + 1;
    if (&mut *input).take(limit).read_until(b'\n', line).await? == 0 {
        return Ok(None);
    }
    if line.len() <= LINE_BYTES_MAX || line.ends_with(b"\n") {
        return Ok(Some(true));
    }
    skip_line(input).await?;
    Ok(Some(false))
}

async fn skip_line(input: &mut (impl AsyncBufRead + Unpin)) -> io::Result<()> {
    loop {
        let bytes = input.fill_buf().await?;
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let count = end.map_or(bytes.len(), |at| at + 1);
        input.consume(count);
        if end.is_some() || count == 0 {
            return Ok(());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_bounded_and_the_next_is_read() {
        let text = [&b"one\n"[..], &vec![b'x'; LINE_BYTES_MAX * 2], b"\n\ntwo"].concat();
        let mut input = BufReader::new(text.as_slice());
        let mut line = Vec::new();
        let mut seen = Vec::new();
        while let Some(is_whole) = next_line(&mut input, &mut line).await.unwrap() {
            let shown = if is_whole { String::from_utf8(line.clone()).unwrap() } else { "too long".into() };
            seen.push(shown);
        }
        assert_eq!(seen, ["one\n", "too long", "\n", "two"]);
    }
}
