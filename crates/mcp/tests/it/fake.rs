//! A small thing to offer, for tests of the server side: it adds, counts, waits, fails and grows.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relais_mcp::serving::{
    Caller, Cancelled, Change, Contents, Given, Offered, Offers, Page, Progress, Reply, Resource, ResourceTemplate,
    Trouble,
};
use serde_json::{Map, Value, json};
use tokio::sync::{broadcast, watch};

const PAGE: usize = 3;
const PATIENT: Duration = Duration::from_secs(20);

pub struct Fake {
    changes: broadcast::Sender<Change>,
    grown: AtomicBool,
    /// Calls of `wait` that are at work, and that were told to end.
    waiting: watch::Sender<u64>,
    cancelled: watch::Sender<u64>,
}

impl Fake {
    pub fn new() -> Fake {
        let changes = broadcast::Sender::new(16);
        let (waiting, cancelled) = (watch::Sender::new(0), watch::Sender::new(0));
        Fake { changes, grown: AtomicBool::new(false), waiting, cancelled }
    }

    #[allow(dead_code)]
    pub async fn until_waiting(&self, at_least: u64) {
        reaches(&self.waiting, at_least).await;
    }

    pub async fn until_cancelled(&self, at_least: u64) {
        reaches(&self.cancelled, at_least).await;
    }

    fn all(&self) -> Vec<Offered> {
        let number = || json!({"type": "integer"});
        let mut tools = vec![
            tool("add", json!({"a": number(), "b": number()})),
            tool("count", json!({"to": number()})),
            tool("wait", json!({})),
            tool("cancelled", json!({"at_least": number()})),
            tool("fail", json!({})),
            tool("panic", json!({})),
            tool("who", json!({})),
            tool("touch", json!({"uri": {"type": "string"}})),
            tool("grow", json!({})),
        ];
        tools[0].output_schema = Some(json!({"type": "object", "properties": {"sum": number()}}));
        tools[0].read_only = true;
        if self.grown.load(Ordering::Acquire) {
            tools.push(tool("later", json!({})));
        }
        tools
    }

    async fn wait(&self, progress: Progress, cancelled: Cancelled) -> Given {
        self.waiting.send_modify(|count| *count += 1);
        progress.tell(1.0, None, "waiting");
        cancelled.wait().await;
        self.cancelled.send_modify(|count| *count += 1);
        said("was told to end")
    }

    fn grow(&self) -> Given {
        self.grown.store(true, Ordering::Release);
        let _ = self.changes.send(Change::Tools);
        said("grown")
    }
}

/// A count that is never reached fails the test instead of holding it up.
async fn reaches(count: &watch::Sender<u64>, at_least: u64) {
    let mut count = count.subscribe();
    tokio::time::timeout(PATIENT, count.wait_for(|count| *count >= at_least)).await.unwrap().unwrap();
}

fn tool(name: &str, properties: Value) -> Offered {
    let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
    Offered {
        name: name.to_owned(),
        title: Some(format!("Tool {name}")),
        description: format!("Does {name}."),
        input_schema: json!({"type": "object", "properties": properties, "required": required}),
        output_schema: None,
        read_only: false,
        destructive: false,
        idempotent: false,
    }
}

fn said(text: &str) -> Given {
    Given { content: Value::Null, text: text.to_owned(), is_error: false }
}

fn count(to: u64, progress: &Progress) -> Given {
    for done in 1..=to {
        progress.tell(done as f64, Some(to as f64), &format!("{done} of {to}"));
    }
    said("counted")
}

impl Offers for Fake {
    fn instructions(&self) -> String {
        "Begin with `add`.".to_owned()
    }

    fn tools<'a>(&'a self, _caller: &'a Caller, cursor: Option<String>) -> Reply<'a, Page<Offered>> {
        Box::pin(async move {
            let wrong = |_| Trouble::Invalid("There is no such page; begin without a cursor.".to_owned());
            let from: usize = cursor.map_or(Ok(0), |cursor| cursor.parse()).map_err(wrong)?;
            let all = self.all();
            let next = (from + PAGE < all.len()).then(|| (from + PAGE).to_string());
            Ok(Page { items: all.into_iter().skip(from).take(PAGE).collect(), next })
        })
    }

    fn call<'a>(
        &'a self,
        caller: &'a Caller,
        tool: String,
        arguments: Map<String, Value>,
        progress: Progress,
        cancelled: Cancelled,
    ) -> Reply<'a, Given> {
        Box::pin(async move {
            let number = |name: &str| arguments[name].as_u64().unwrap();
            Ok(match tool.as_str() {
                "add" => {
                    Given { content: json!({"sum": number("a") + number("b")}), text: String::new(), is_error: false }
                }
                "count" => count(number("to"), &progress),
                "wait" => self.wait(progress, cancelled).await,
                "cancelled" => {
                    self.until_cancelled(number("at_least")).await;
                    said("so many")
                }
                "fail" => return Err(Trouble::Invalid("Out of stock; ask for less.".to_owned())),
                "panic" => panic!("on purpose"),
                "who" => said(&format!("{} {:?}", caller.name(), caller.what::<u8>())),
                "touch" => {
                    let uri = arguments["uri"].as_str().unwrap().to_owned();
                    let _ = self.changes.send(Change::Resource(uri));
                    said("touched")
                }
                "grow" => self.grow(),
                other => said(other),
            })
        })
    }

    fn resources<'a>(&'a self, _caller: &'a Caller, _cursor: Option<String>) -> Reply<'a, Page<Resource>> {
        let (name, description) = ("note".to_owned(), "A note.".to_owned());
        let note = Resource { uri: "fake://note/1".to_owned(), name, description, mime_type: "text/plain".to_owned() };
        Box::pin(async { Ok(Page::whole(vec![note])) })
    }

    fn resource_templates<'a>(
        &'a self,
        _caller: &'a Caller,
        _cursor: Option<String>,
    ) -> Reply<'a, Page<ResourceTemplate>> {
        let (name, description) = ("note".to_owned(), "A note by its number.".to_owned());
        let (uri_template, mime_type) = ("fake://note/{number}".to_owned(), "text/plain".to_owned());
        Box::pin(async { Ok(Page::whole(vec![ResourceTemplate { uri_template, name, description, mime_type }])) })
    }

    fn read<'a>(&'a self, _caller: &'a Caller, uri: &'a str) -> Reply<'a, Vec<Contents>> {
        Box::pin(async move {
            match uri {
                "fake://note/1" => {
                    let (uri, mime_type, text) = (uri.to_owned(), "text/plain".to_owned(), "hé".to_owned());
                    Ok(vec![Contents { uri, mime_type, text }])
                }
                _ => Err(Trouble::NotFound(format!("There is no `{uri}`; there is `fake://note/1`."))),
            }
        })
    }

    fn changes(&self) -> Option<broadcast::Receiver<Change>> {
        Some(self.changes.subscribe())
    }
}
