//! `«value:ARTIFACT:PATH»` and `«result:…»`: what an agent may write so that exact values do not pass through it.
//!
//! An agent's own words are scanned once; what is put in is not scanned again.

use serde_json::{Map, Value};

const VALUE: &str = "«value:";
const RESULT: &str = "«result:";
const END: char = '»';
const VALUE_FORM: &str = "«value:ARTIFACT:PATH», for instance «value:invoice.json:lines[0].total»";
const RESULT_FORM: &str = "«result:artifact=NAME[:VERSION] status=success» or «result:status=failure message=…»";

/// Why a mark has no value yet.
#[derive(Debug, PartialEq)]
pub enum Mark {
    Load(String),
    Wrong(String),
}

pub type Lookup<'a> = &'a dyn Fn(&str, &str) -> Result<Value, Mark>;

/// The value with every mark replaced. A string that is one mark takes the value's type.
pub fn put_values(value: &Value, lookup: Lookup<'_>) -> Result<Value, Mark> {
    match value {
        Value::String(text) if text.contains(VALUE) => put_in_text(text, lookup),
        Value::Array(list) => list.iter().map(|v| put_values(v, lookup)).collect::<Result<_, _>>().map(Value::Array),
        Value::Object(map) => {
            let pairs = map.iter().map(|(key, v)| Ok((key.clone(), put_values(v, lookup)?)));
            pairs.collect::<Result<Map<_, _>, Mark>>().map(Value::Object)
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => Ok(value.clone()),
    }
}

fn put_in_text(text: &str, lookup: Lookup<'_>) -> Result<Value, Mark> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(VALUE) {
        let body = &rest[start + VALUE.len()..];
        let wrong = || Mark::Wrong(format!("a value reference is not closed; write {VALUE_FORM}"));
        let end = body.find(END).ok_or_else(wrong)?;
        let value = look_up(&body[..end], lookup)?;
        let after = &body[end + END.len_utf8()..];
        if start == 0 && out.is_empty() && after.is_empty() {
            return Ok(value);
        }
        out.push_str(&rest[..start]);
        out.push_str(&relais_plan::template::in_text(&value));
        rest = after;
    }
    out.push_str(rest);
    Ok(Value::String(out))
}

fn look_up(body: &str, lookup: Lookup<'_>) -> Result<Value, Mark> {
    match body.split_once(':') {
        Some((artifact, path)) if !artifact.is_empty() && !path.is_empty() => lookup(artifact, path),
        _ => Err(Mark::Wrong(format!("`«value:{body}»` is not a value reference; write {VALUE_FORM}"))),
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct ResultMark {
    pub artifact: Option<String>,
    pub version: Option<u32>,
    pub success: bool,
    pub message: Option<String>,
}

/// The one result mark of an answer, or what is wrong with it.
pub fn result(text: &str) -> Result<ResultMark, String> {
    let mut found = text.match_indices(RESULT);
    let Some((start, _)) = found.next() else {
        return Err(format!("The answer has no result mark. End with {RESULT_FORM}"));
    };
    if found.next().is_some() {
        return Err("The answer has more than one result mark; give exactly one.".to_owned());
    }
    let body = &text[start + RESULT.len()..];
    let Some(end) = body.find(END) else {
        return Err(format!("The result mark is not closed. Write {RESULT_FORM}"));
    };
    read_result(&body[..end])
}

fn read_result(body: &str) -> Result<ResultMark, String> {
    // The message comes last and may hold anything, spaces and equal signs included.
    let (head, message) = match body.split_once("message=") {
        Some((head, message)) => (head, Some(message.trim().trim_matches('"').to_owned())),
        None => (body, None),
    };
    let mut mark = ResultMark { artifact: None, version: None, success: false, message };
    let mut status = None;
    for word in head.split_whitespace() {
        match word.split_once('=') {
            Some(("artifact", name)) => (mark.artifact, mark.version) = artifact(name)?,
            Some(("status", word)) => status = Some(word.to_owned()),
            _ => return Err(format!("`{word}` does not belong into a result mark. Write {RESULT_FORM}")),
        }
    }
    mark.success = match status.as_deref() {
        Some("success") => true,
        Some("failure" | "error") => false,
        Some(other) => return Err(format!("The status of a result mark is success or failure, not `{other}`.")),
        None => return Err(format!("The result mark has no status. Write {RESULT_FORM}")),
    };
    if mark.success && mark.artifact.is_none() {
        return Err("A result mark with status=success must name its artifact.".to_owned());
    }
    if !mark.success && mark.message.as_deref().unwrap_or("").is_empty() {
        return Err("A result mark with status=failure must have a message.".to_owned());
    }
    Ok(mark)
}

fn artifact(text: &str) -> Result<(Option<String>, Option<u32>), String> {
    match text.rsplit_once(':') {
        None => Ok((Some(text.to_owned()), None)),
        Some((name, "latest")) => Ok((Some(name.to_owned()), None)),
        Some((name, version)) => {
            let version = version.trim_start_matches('v').parse();
            let wrong = |_| format!("`{text}` does not end in a version number.");
            version.map(|v| (Some(name.to_owned()), Some(v))).map_err(wrong)
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use serde_json::json;

    fn lookup(artifact: &str, path: &str) -> Result<Value, Mark> {
        match (artifact, path) {
            ("invoice.json", "total") => Ok(json!(1234.5)),
            ("invoice.json", "note") => Ok(json!("see «value:invoice.json:total»")),
            _ => Err(Mark::Wrong(format!("no {artifact} {path}"))),
        }
    }

    fn check(value: Value, expected: Result<Value, &str>) {
        let got = put_values(&value, &lookup);
        match (got, expected) {
            (Ok(got), Ok(expected)) => assert_eq!(got, expected),
            (Err(Mark::Wrong(got)), Err(expected)) => assert!(got.contains(expected), "{got}"),
            (got, expected) => panic!("{got:?} is not {expected:?}"),
        }
    }

    #[test]
    fn values_take_the_place_of_marks() {
        check(json!("«value:invoice.json:total»"), Ok(json!(1234.5)));
        check(json!({ "a": ["«value:invoice.json:total» EUR"] }), Ok(json!({ "a": ["1234.5 EUR"] })));
        check(json!("«value:invoice.json:note»"), Ok(json!("see «value:invoice.json:total»")));
        check(json!("nothing here"), Ok(json!("nothing here")));
        check(json!("«value:invoice.json»"), Err("write «value:ARTIFACT:PATH»"));
        check(json!("«value:invoice.json:total"), Err("not closed"));
        check(json!("«value:other:x»"), Err("no other x"));
    }

    #[test]
    fn result_marks_keep_their_rules() {
        let ok = result("done «result:artifact=out.json:2 status=success»").unwrap();
        assert_eq!((ok.artifact.as_deref(), ok.version, ok.success), (Some("out.json"), Some(2), true));
        let no = result("«result:status=error message=the file = empty»").unwrap();
        assert_eq!((no.success, no.message.as_deref()), (false, Some("the file = empty")));
        for (text, wrong) in [
            ("no mark", "no result mark"),
            ("«result:status=success»", "must name its artifact"),
            ("«result:status=failure»", "must have a message"),
            ("«result:artifact=a»", "no status"),
            ("«result:artifact=a status=success»«result:artifact=b status=success»", "exactly one"),
            ("«result:artifact=a status=maybe»", "success or failure"),
        ] {
            let got = result(text).unwrap_err();
            assert!(got.contains(wrong), "{text}: {got}");
        }
    }
}
