//! A mail server that speaks as much SMTP as is needed, and misbehaves on purpose.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Clone, Copy)]
pub enum Manner {
    Take,
    /// Answers this command with this line.
    At(&'static str, &'static str),
    Greets(&'static str),
    /// Takes the connection and says nothing.
    Hangs,
    Closes,
}

pub struct Server {
    pub port: u16,
    heard: Arc<Mutex<String>>,
}

impl Server {
    pub async fn start(manner: Manner) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let heard = Arc::new(Mutex::new(String::new()));
        let kept = heard.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(talk(stream, manner, kept.clone()));
            }
        });
        Server { port, heard }
    }

    pub fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

async fn talk(stream: TcpStream, manner: Manner, heard: Arc<Mutex<String>>) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    match manner {
        Manner::Closes => return Ok(()),
        Manner::Hangs => std::future::pending().await,
        Manner::Greets(line) => stream.write_all(format!("{line}\r\n").as_bytes()).await?,
        Manner::Take | Manner::At(..) => stream.write_all(b"220 here\r\n").await?,
    }
    let mut in_mail = false;
    let mut line = String::new();
    while stream.read_line(&mut line).await? > 0 {
        heard.lock().unwrap().push_str(&line);
        let text = line.trim_end().to_owned();
        line.clear();
        if in_mail && text != "." {
            continue;
        }
        let answer = match manner {
            Manner::At(command, answer) if text.starts_with(command) => answer,
            _ if text.starts_with("EHLO") => "250-here\r\n250 AUTH PLAIN",
            _ if text.starts_with("AUTH") => "235 welcome",
            _ if text.starts_with("DATA") => "354 go on",
            _ => "250 fine",
        };
        in_mail = answer.starts_with("354");
        stream.write_all(format!("{answer}\r\n").as_bytes()).await?;
        if text == "QUIT" {
            return Ok(());
        }
    }
    Ok(())
}
