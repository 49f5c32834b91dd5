//! A run followed over a stream of events: each event once, in order, over broken connections and restarts of the
//! server.

use std::time::Duration;

use relais_engine::RunId;
use relais_service::Error;
use relais_service::narrate::Notice;
use reqwest::{Method, RequestBuilder, Response, StatusCode};

use super::{Client, come_back};

/// The server says something at least every 15 s.
const SILENCE: Duration = Duration::from_secs(45);
/// One event is far smaller.
const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

pub struct Stream {
    client: Client,
    run: RunId,
    /// The last event that was told.
    after: Option<(u64, usize)>,
    open: Option<Response>,
    /// What was read and is no whole event yet.
    begun: Vec<u8>,
    tries: u32,
    /// Nothing was read yet from the open connection.
    fresh: bool,
}

/// What one look at the stream gave.
enum Read {
    Notices(Vec<Notice>),
    /// The run has ended and all was told.
    Over,
    Broken(Error),
}

pub fn behind(request: RequestBuilder, after: Option<(u64, usize)>) -> RequestBuilder {
    match after {
        Some((seq, nth)) => request.header("last-event-id", format!("{seq}.{nth}")),
        None => request,
    }
}

impl Stream {
    pub fn new(client: Client, run: RunId) -> Stream {
        Stream { client, run, after: None, open: None, begun: Vec::new(), tries: 0, fresh: false }
    }

    /// What happened since the last call; waits until there is something. None when the run has ended and all is told.
    /// A call that is given up loses nothing.
    pub async fn next(&mut self) -> Result<Option<Vec<Notice>>, Error> {
        loop {
            match self.read().await? {
                Read::Notices(notices) => {
                    let new = self.new_among(notices);
                    if !new.is_empty() {
                        return Ok(Some(new));
                    }
                }
                Read::Over => return Ok(None),
                Read::Broken(error) => {
                    self.open = None;
                    self.begun.clear();
                    come_back(error, &mut self.tries).await?;
                }
            }
        }
    }

    /// What is in the journal and was not told yet, which may be nothing; never waits for more.
    pub async fn so_far(&mut self) -> Result<Vec<Notice>, Error> {
        let notices = self.client.events_after(self.run, self.after).await?;
        Ok(self.new_among(notices))
    }

    fn new_among(&mut self, mut notices: Vec<Notice>) -> Vec<Notice> {
        let told = self.after;
        notices.retain(|notice| told.is_none_or(|told| (notice.seq, notice.nth) > told));
        self.after = notices.last().map(|last| (last.seq, last.nth)).or(told);
        notices
    }

    async fn read(&mut self) -> Result<Read, Error> {
        let Some(open) = &mut self.open else { return self.connect().await };
        let chunk = match tokio::time::timeout(SILENCE, open.chunk()).await {
            Ok(Ok(Some(chunk))) => chunk,
            // The server ends a stream with the run, or with itself; coming back tells which.
            Ok(Ok(None)) if self.tries > 0 => {
                return Ok(Read::Broken(Error::Unusable("the server ends the stream of events".into())));
            }
            Ok(Ok(None)) => {
                (self.open, self.tries) = (None, self.tries + 1);
                self.begun.clear();
                return Ok(Read::Notices(Vec::new()));
            }
            Ok(Err(error)) => return Ok(Read::Broken(self.client.unreachable(&error))),
            Err(_) => return Ok(Read::Broken(Error::Unusable("the stream of events fell silent".into()))),
        };
        // The first piece is the server's greeting, also of one that is about to end the stream.
        if !std::mem::replace(&mut self.fresh, false) {
            self.tries = 0;
        }
        self.begun.extend_from_slice(&chunk);
        if self.begun.len() > MAX_EVENT_BYTES {
            return Err(Error::Unusable(format!("an event is larger than {MAX_EVENT_BYTES} bytes")));
        }
        Ok(Read::Notices(whole_events(&mut self.begun)?))
    }

    async fn connect(&mut self) -> Result<Read, Error> {
        let request = self.client.request(Method::GET, &format!("/runs/{}/events", self.run));
        let request = behind(request, self.after).header(reqwest::header::ACCEPT, "text/event-stream");
        let answer = match tokio::time::timeout(SILENCE, self.client.exchange(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(error)) => return Ok(Read::Broken(error)),
            Err(_) => return Ok(Read::Broken(Error::Unusable("the server does not answer".into()))),
        };
        if answer.status() == StatusCode::NO_CONTENT {
            return Ok(Read::Over);
        }
        (self.open, self.fresh) = (Some(answer), true);
        Ok(Read::Notices(Vec::new()))
    }
}

/// Takes the events that are whole from what was read. Lines that are not `data:` are for browsers.
fn whole_events(read: &mut Vec<u8>) -> Result<Vec<Notice>, Error> {
    let mut notices = Vec::new();
    while let Some(end) = read.windows(2).position(|pair| pair == b"\n\n") {
        let event: Vec<u8> = read.drain(..end + 2).collect();
        let text = String::from_utf8_lossy(&event);
        let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data:")).collect();
        if data.is_empty() {
            continue;
        }
        let unclear = |e| Error::Unusable(format!("an event of the server is not understood: {e}"));
        notices.push(serde_json::from_str(&data.join("\n")).map_err(unclear)?);
    }
    Ok(notices)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_whole_however_they_are_cut() {
        let notice = |seq: u64| {
            let run = RunId::nil();
            format!(r#"{{"run":"{run}","seq":{seq},"nth":0,"at":5,"event":"run_started","workflow":"é"}}"#)
        };
        let text = format!(
            "retry: 1000\n\n: still here\n\nid: 1.0\nevent: run_started\ndata: {}\n\ndata: {}\n\n",
            notice(1),
            notice(2)
        );
        for cut in 0..text.len() {
            let (first, second) = text.as_bytes().split_at(cut);
            let mut read = first.to_vec();
            let mut told = whole_events(&mut read).unwrap();
            read.extend_from_slice(second);
            told.extend(whole_events(&mut read).unwrap());
            assert_eq!(told.iter().map(|n| n.seq).collect::<Vec<_>>(), [1, 2], "cut at {cut}");
            assert!(read.is_empty());
        }
        assert!(whole_events(&mut b"data: nonsense\n\n".to_vec()).is_err());
    }
}
