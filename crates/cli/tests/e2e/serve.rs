//! `relais serve` as a process, and requests to it by hand.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStderr, Stdio};

use serde_json::Value;

use crate::home::{Home, PATIENCE};

pub struct Server {
    child: Child,
    said: BufReader<ChildStderr>,
    heard: String,
    address: String,
}

impl Server {
    pub fn start(home: &Home, words: &[&str]) -> Server {
        let mut command = home.command(&[&["--verbose", "serve", "--listen", "127.0.0.1:0"], words].concat());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        let mut server = Server { child, said, heard: String::new(), address: String::new() };
        while server.address.is_empty() {
            assert!(server.said.read_line(&mut server.heard).unwrap() > 0, "it never listened: {}", server.heard);
            let found = server.heard.lines().find_map(|line| line.split_once("listening on http://"));
            server.address = found.map(|(_, address)| address.trim().to_owned()).unwrap_or_default();
        }
        server
    }

    /// Status, and all that was answered, head included.
    pub fn ask(&self, token: &str, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let body = body.map(Value::to_string).unwrap_or_default();
        // Of version 1.0, so that the answer comes in one piece: nothing can hide between two chunks.
        let head = format!("{method} {path} HTTP/1.0\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n");
        let kind = format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
        write!(stream, "{head}{kind}{body}").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
        (status.unwrap_or_else(|| panic!("{method} {path}: {answer}")), answer)
    }

    /// Ends it; all that it said to whoever runs it.
    pub fn end(mut self) -> String {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.said.read_to_string(&mut self.heard).unwrap();
        std::mem::take(&mut self.heard)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn body(answer: &str) -> Value {
    let text = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {answer}"))
}
