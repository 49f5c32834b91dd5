//! As little of HTTP/1.1 as a measurement needs: requests on a connection that stays, and streams of events.

use std::net::SocketAddr;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// What is read ahead of one answer; a stream that is idle should cost the measuring side little.
const READ_AHEAD: usize = 4 * 1024;
/// No answer here is longer; a server that sends more is broken.
const MAX_BODY: usize = 64 * 1024 * 1024;

pub struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    pub async fn open(address: SocketAddr) -> Result<Connection> {
        let stream = TcpStream::connect(address).await.context("cannot connect to the server")?;
        stream.set_nodelay(true)?;
        Ok(Connection { stream: BufReader::with_capacity(READ_AHEAD, stream) })
    }

    pub async fn ask(&mut self, method: &str, path: &str, body: &str) -> Result<(u16, String)> {
        let head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n");
        let request = format!("{head}content-length: {}\r\n\r\n{body}", body.len());
        self.stream.write_all(request.as_bytes()).await?;
        let (status, length) = self.head().await?;
        ensure!(length <= MAX_BODY, "an answer of {length} bytes");
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).await?;
        Ok((status, String::from_utf8(body)?))
    }

    /// An answer that must be of this status.
    pub async fn expect(&mut self, status: u16, method: &str, path: &str, body: &Value) -> Result<Value> {
        let text = if body.is_null() { String::new() } else { body.to_string() };
        let (found, answer) = self.ask(method, path, &text).await?;
        ensure!(found == status, "{method} {path}: {found} {answer}");
        Ok(serde_json::from_str(&answer)?)
    }

    pub async fn get(&mut self, path: &str) -> Result<Value> {
        self.expect(200, "GET", path, &Value::Null).await
    }

    /// Status and length of the body.
    async fn head(&mut self) -> Result<(u16, usize)> {
        let status = self.line().await?;
        let status = status.split(' ').nth(1).and_then(|status| status.parse().ok()).context("no status")?;
        let mut length = 0;
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok((status, length));
            }
            if let Some(said) = line.strip_prefix("content-length:") {
                length = said.trim().parse()?;
            }
        }
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            bail!("the server has closed the connection");
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }

    /// The events of a run from its beginning.
    pub async fn follow(mut self, run: &str) -> Result<Events> {
        let request = format!("GET /api/v1/runs/{run}/events HTTP/1.1\r\nhost: localhost\r\n\r\n");
        self.stream.write_all(request.as_bytes()).await?;
        let (status, _) = self.head().await?;
        ensure!(status == 200, "the stream of run {run} was answered with {status}");
        Ok(Events { connection: self })
    }
}

pub struct Events {
    connection: Connection,
}

impl Events {
    /// The data of the next event; none when the run has ended.
    pub async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            let line = self.connection.line().await?;
            if line == "0" {
                return Ok(None);
            }
            if let Some(data) = line.strip_prefix("data: ") {
                return Ok(Some(serde_json::from_str(data)?));
            }
        }
    }
}
