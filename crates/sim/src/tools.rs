//! What tools that are not there answer in a simulated run: made up from the seed, in the shape that the tool has
//! (those that are built in) or that its name promises (`find_…` finds a list, `get_price` a price, `send_…` succeeds).
//! Which tools are not there, the performer knows.

use relais_plan::Schema;
use serde_json::{Map, Value, json};

use crate::chance::{Chance, tie};

/// Verbs that tools are named by, and what comes of them.
const VERBS: &[(&[&str], Shape)] = &[
    (&["search", "find", "list", "query", "browse", "scan"], Shape::Found),
    (&["check", "verify", "validate", "is", "has", "test", "compare", "approve"], Shape::Verdict),
    (&["get", "read", "fetch", "load", "lookup", "show", "describe", "calculate", "compute", "estimate"], Shape::Thing),
    (&["count", "sum", "measure"], Shape::Count),
];

/// One in so many requests does not succeed, so that simulated runs also go the other way.
const TROUBLE_PERCENT: u64 = 12;

#[derive(Clone, Copy)]
enum Shape {
    /// Several things.
    Found,
    /// Yes or no, and why.
    Verdict,
    /// What the rest of the name says.
    Thing,
    Count,
    /// Something was done.
    Done,
}

/// A plausible result, the same for the same seed, tool and arguments.
pub fn result(seed: u64, tool: &str, arguments: &Value) -> Value {
    let mut chance = Chance::named(tie(seed, tool), &arguments.to_string());
    match tool {
        "search_web" => pages(arguments, &mut chance),
        "http_request" => response(&mut chance),
        "query_db" => rows(arguments, &mut chance),
        "run_python" => json!({ "stdout": "simulated output\n", "stderr": "", "exit_code": 0, "folder": "." }),
        "send_message" => json!({ "sent": true, "channel": arguments.get("channel") }),
        _ => by_name(tool, &mut chance),
    }
}

/// As `search_web` answers: what was looked for stands in the titles.
fn pages(arguments: &Value, chance: &mut Chance) -> Value {
    let query = arguments.get("query").and_then(Value::as_str).unwrap_or("nothing");
    let page = |n: u64| {
        json!({
            "title": format!("{query}: simulated result {n}"),
            "url": format!("https://example.com/results/{}", chance.below(1_000)),
            "snippet": text("snippet", chance),
        })
    };
    (1..=3).map(page).collect()
}

fn response(chance: &mut Chance) -> Value {
    let status = if chance.percent(TROUBLE_PERCENT) { [404, 500, 503][chance.below(3) as usize] } else { 200 };
    let body = json!({ "text": text("text", chance), "value": sampled("price", "number", chance) });
    json!({ "status": status, "headers": { "content-type": "application/json" }, "body": body, "truncated": false })
}

/// The columns that the statement names, with values that look like what they are called.
fn rows(arguments: &Value, chance: &mut Chance) -> Value {
    let columns = columns(arguments.get("sql").and_then(Value::as_str).unwrap_or_default());
    let cell = |column: &String, chance: &mut Chance| match is_number(column) {
        true => sampled(column, "number", chance),
        false => sampled(column, "string", chance),
    };
    let count = chance.below(4);
    let rows: Vec<Vec<Value>> =
        (0..count).map(|_| columns.iter().map(|column| cell(column, chance)).collect()).collect();
    json!({ "columns": columns, "rows": rows, "truncated": false })
}

/// `SELECT a, count(*) AS n FROM …` has the columns a and n.
fn columns(sql: &str) -> Vec<String> {
    let lower = sql.to_ascii_lowercase();
    let selected = lower.find("select").map(|start| start + "select".len());
    let (Some(start), Some(end)) = (selected, lower.find(" from ")) else { return vec!["value".to_owned()] };
    let (mut depth, mut columns) = (0usize, vec![String::new()]);
    for letter in sql.get(start..end).unwrap_or_default().chars() {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => columns.push(String::new()),
            _ => {}
        }
        if let (true, Some(column)) = (letter != ',' || depth > 0, columns.last_mut()) {
            column.push(letter);
        }
    }
    let name = |column: &String| {
        let last = column.split_whitespace().last().unwrap_or("value");
        last.rsplit('.').next().unwrap_or(last).trim_matches(['"', '`', '*']).to_owned()
    };
    columns.iter().map(name).map(|name| if name.is_empty() { "value".to_owned() } else { name }).collect()
}

fn is_number(column: &str) -> bool {
    const SIGNS: [&str; 9] = ["price", "amount", "total", "count", "sum", "revenue", "orders", "left", "number"];
    column.to_ascii_lowercase().split('_').any(|word| SIGNS.contains(&word))
}

fn by_name(tool: &str, chance: &mut Chance) -> Value {
    let short = tool.rsplit(['/', ':', '.']).next().unwrap_or(tool);
    let (verb, rest) = short.split_once(['_', '-']).unwrap_or((short, ""));
    let verb = verb.to_lowercase();
    let shape = VERBS.iter().find(|(verbs, _)| verbs.contains(&verb.as_str())).map_or(Shape::Done, |(_, shape)| *shape);
    match shape {
        Shape::Found => found(chance),
        Shape::Verdict => json!({ "ok": chance.percent(70), "reason": text("reason", chance) }),
        Shape::Thing => thing(rest, chance),
        Shape::Count => json!({ "count": chance.below(20) }),
        Shape::Done => {
            json!({ "ok": true, "id": sampled(&format!("{short}_id"), "string", chance), "message": text("message", chance) })
        }
    }
}

fn found(chance: &mut Chance) -> Value {
    let one = |chance: &mut Chance| json!({ "id": sampled("id", "string", chance), "title": text("title", chance), "url": text("url", chance) });
    let results: Vec<Value> = (0..=chance.below(3)).map(|_| one(chance)).collect();
    json!({ "count": results.len(), "results": results })
}

/// What a name such as `get_price` promises, under that name.
fn thing(name: &str, chance: &mut Chance) -> Value {
    let mut fields = Map::new();
    if !name.is_empty() {
        let kind = if is_number(name) { "number" } else { "string" };
        fields.insert(name.to_owned(), sampled(name, kind, chance));
    }
    fields.insert("text".to_owned(), text("text", chance));
    Value::Object(fields)
}

fn text(name: &str, chance: &mut Chance) -> Value {
    sampled(name, "string", chance)
}

/// A value that looks like what it is called.
fn sampled(name: &str, kind: &str, chance: &mut Chance) -> Value {
    let schema = json!({ "type": "object", "properties": { name: { "type": kind } } });
    Schema::new(schema).sample(chance.number())[name].take()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_depend_on_seed_tool_and_arguments() {
        let base = result(1, "search", &json!({ "q": 1 }));
        assert_eq!(base, result(1, "search", &json!({ "q": 1 })));
        assert_ne!(base, result(2, "search", &json!({ "q": 1 })));
        assert_ne!(base, result(1, "other", &json!({ "q": 1 })));
        assert_ne!(base, result(1, "search", &json!({ "q": 2 })));
    }

    #[test]
    fn results_have_the_shape_of_their_tool() {
        let check = |tool: &str, arguments: Value, keys: &[&str]| {
            let value = result(7, tool, &arguments);
            let got: Vec<&str> = value.as_object().map(|o| o.keys().map(String::as_str).collect()).unwrap_or_default();
            assert_eq!(got, keys, "{tool}: {value}");
        };
        let pages = result(7, "search_web", &json!({ "query": "tea" }));
        assert_eq!(pages[0]["title"], "tea: simulated result 1");
        assert_eq!(pages.as_array().map(Vec::len), Some(3));
        check("http_request", json!({ "url": "https://example.com" }), &["status", "headers", "body", "truncated"]);
        check("query_db", json!({ "sql": "SELECT 1" }), &["columns", "rows", "truncated"]);
        check("run_python", json!({}), &["stdout", "stderr", "exit_code", "folder"]);
        check("send_message", json!({ "channel": "ops" }), &["sent", "channel"]);
        check("mcp:shop/find_offers", json!({}), &["count", "results"]);
        check("mcp:shop/get_price", json!({}), &["price", "text"]);
        check("verify", json!({}), &["ok", "reason"]);
        check("book_room", json!({}), &["ok", "id", "message"]);
        assert!(result(7, "get_price", &json!({}))["price"].is_number());
        assert!(result(7, "get_summary", &json!({}))["summary"].as_str().is_some_and(|s| s.contains("simulated")));
    }

    #[test]
    fn columns_are_those_of_the_statement() {
        let check = |sql: &str, expected: &[&str]| assert_eq!(columns(sql), expected, "{sql}");
        check("SELECT shop, count(*) AS orders, sum(a, b) AS revenue FROM orders", &["shop", "orders", "revenue"]);
        check("select o.id, \"name\" from x", &["id", "name"]);
        check("SELECT * FROM x", &["value"]);
        check("PRAGMA x", &["value"]);
    }

    #[test]
    fn requests_sometimes_fail() {
        let status = |n: u64| result(1, "http_request", &json!({ "n": n }))["status"].clone();
        let bad = (0..200).filter(|n| status(*n) != 200).count();
        assert!((5..60).contains(&bad), "{bad}");
    }
}
