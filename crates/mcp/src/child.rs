//! A server as a child process: in a group of its own, with its last words kept and its output bounded.

use std::collections::{BTreeMap, VecDeque};
use std::pin::Pin;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

/// Variables that a server keeps of ours.
const KEPT_VARIABLES: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];
/// Enough for the last lines of a stack trace.
const LAST_WORDS_BYTES: usize = 4 * 1024;
/// More than any honest answer; a server that writes more for one request floods us.
const FLOOD_BYTES: u64 = 64 * 1024 * 1024;

/// How long a process whose connection is lost may take to end and to be heard out.
const ENDING_TIME: Duration = Duration::from_millis(500);

/// Dropping it kills the whole group.
pub struct Child {
    wrapper: Box<dyn ChildWrapper>,
    heard: Option<JoinHandle<()>>,
}

/// What the transport talks to.
pub struct Pipes {
    pub stdin: ChildStdin,
    pub stdout: Metered,
}

/// What the server wrote to stderr, its end only.
#[derive(Clone, Default)]
pub struct LastWords {
    bytes: Arc<Mutex<VecDeque<u8>>>,
}

/// Bytes that came since the last request; shared with the reader.
#[derive(Clone, Default)]
pub struct Meter {
    bytes: Arc<AtomicU64>,
}

/// stdout that ends when the server floods it.
pub struct Metered {
    stdout: ChildStdout,
    meter: Meter,
}

impl Child {
    pub fn start(
        program: &str,
        arguments: &[String],
        environment: &BTreeMap<String, String>,
        words: &LastWords,
        meter: &Meter,
    ) -> std::io::Result<(Child, Pipes)> {
        let mut command = CommandWrap::from(command(program, arguments, environment));
        command.wrap(KillOnDrop).wrap(ProcessGroup::leader());
        let mut child = Child { wrapper: command.spawn()?, heard: None };
        let missing = || std::io::Error::other("the process has no pipes");
        let stdin = child.wrapper.stdin().take().ok_or_else(missing)?;
        let stdout = child.wrapper.stdout().take().ok_or_else(missing)?;
        let stderr = child.wrapper.stderr().take().ok_or_else(missing)?;
        child.heard = Some(tokio::spawn(words.clone().listen(stderr)));
        Ok((child, Pipes { stdin, stdout: Metered { stdout, meter: meter.clone() } }))
    }

    /// How it ended, if it has or is about to, once its last words are heard.
    pub async fn ending(&mut self) -> Option<String> {
        let ended = tokio::time::timeout(ENDING_TIME, self.wrapper.inner_mut().wait()).await;
        let status = ended.ok()?.ok()?;
        if let Some(heard) = self.heard.take() {
            let _ = tokio::time::timeout(ENDING_TIME, heard).await;
        }
        Some(format!("the process ended with {status}"))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // An error means that nobody is left to kill.
        let _ = self.wrapper.start_kill();
    }
}

fn command(program: &str, arguments: &[String], environment: &BTreeMap<String, String>) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    for name in KEPT_VARIABLES {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    command.envs(environment);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

impl LastWords {
    /// Ends with the pipe, which closes when the group is killed.
    async fn listen(self, mut stderr: ChildStderr) {
        let mut chunk = [0; 1024];
        while let Ok(count) = stderr.read(&mut chunk).await {
            if count == 0 {
                return;
            }
            self.keep(&chunk[..count]);
        }
    }

    fn keep(&self, words: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        bytes.extend(words);
        let excess = bytes.len().saturating_sub(LAST_WORDS_BYTES);
        bytes.drain(..excess);
    }

    pub fn text(&self) -> String {
        let mut bytes = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(bytes.make_contiguous()).into_owned()
    }
}

impl Meter {
    pub fn reset(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    pub fn is_flooded(&self) -> bool {
        self.bytes.load(Ordering::Relaxed) > FLOOD_BYTES
    }
}

impl AsyncRead for Metered {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        if self.meter.is_flooded() {
            return Poll::Ready(Err(std::io::Error::other("too much output")));
        }
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stdout).poll_read(cx, buffer);
        let count = buffer.filled().len() - before;
        self.meter.bytes.fetch_add(count as u64, Ordering::Relaxed);
        polled
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_end_of_what_was_said() {
        let words = LastWords::default();
        words.keep(&[b'a'; 5000]);
        words.keep(b"end");
        let text = words.text();
        assert_eq!(text.len(), LAST_WORDS_BYTES);
        assert!(text.starts_with('a') && text.ends_with("aend"));
    }
}
