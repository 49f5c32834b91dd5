//! Made-up values that fit a schema, for simulation: the same seed gives the same value, and it reads like data.
//!
//! It covers what people write in schemas. The caller checks the result; a schema that wants more than this (`not`, an
//! odd `pattern`, dependencies) may get a value that does not fit.

use serde_json::{Map, Value, json};

use super::pattern;

mod looks;

/// Below this depth only what is required is made, so that recursive schemas come to an end.
const FULL_DEPTH: usize = 4;

/// Below this depth nothing more is made: the schema demands endless nesting.
const MAX_DEPTH: usize = 24;

/// Values in one sample; more says nothing more.
const MAX_VALUES: usize = 2_000;

/// Items in one list, whatever `minItems` asks for.
const MAX_ITEMS: u64 = 200;

/// Characters in one text, whatever `minLength` asks for.
const MAX_CHARS: u64 = 10_000;

/// A text that may have this many characters can be cut; a shorter one would no longer say anything.
const CUT_CHARS: u64 = 20;

pub struct Sampler<'s> {
    root: &'s Value,
    /// Which branch of `anyOf` and `oneOf` to take.
    branch: usize,
    left: usize,
}

/// Where a value stands: what it is called, and a number that differs from place to place.
#[derive(Clone, Copy)]
struct Site<'p> {
    name: &'p str,
    salt: u64,
    depth: usize,
}

impl<'p> Site<'p> {
    fn field(self, name: &'p str) -> Site<'p> {
        Site { name, salt: mixed(self.salt, name.as_bytes()), depth: self.depth + 1 }
    }

    /// Neighbours in a list get neighbouring numbers, so that they differ from each other.
    fn item(self, index: u64) -> Site<'p> {
        Site { salt: self.salt.wrapping_add(index), depth: self.depth + 1, ..self }
    }
}

impl<'s> Sampler<'s> {
    pub fn new(root: &'s Value, branch: usize) -> Sampler<'s> {
        Sampler { root, branch, left: MAX_VALUES }
    }

    pub fn sample(&mut self, seed: u64) -> Value {
        self.value(self.root, Site { name: "value", salt: mixed(seed, b""), depth: 0 })
    }

    fn value(&mut self, schema: &Value, site: Site<'_>) -> Value {
        self.left = self.left.saturating_sub(1);
        if site.depth > MAX_DEPTH || self.left == 0 || schema == false {
            return Value::Null;
        }
        let Value::Object(keywords) = schema else { return text(&Map::new(), site) };
        if let Some(value) = keywords.get("const") {
            return value.clone();
        }
        let mut lists = ["enum", "examples"].iter().filter_map(|word| keywords.get(*word)?.as_array());
        if let Some(options) = lists.find(|options| !options.is_empty()) {
            return options[(site.salt % options.len() as u64) as usize].clone();
        }
        match self.unfolded(keywords) {
            Some(merged) => self.value(&merged, Site { depth: site.depth + 1, ..site }),
            None => self.typed(keywords, site),
        }
    }

    /// The schema with one `$ref`, `allOf`, `anyOf` or `oneOf` put into it.
    fn unfolded(&self, keywords: &Map<String, Value>) -> Option<Value> {
        if let Some(target) = keywords.get("$ref").and_then(Value::as_str) {
            let found = self.root.pointer(target.strip_prefix('#')?).cloned().unwrap_or(Value::Null);
            return Some(merged(without(keywords, "$ref"), &found));
        }
        if let Some(parts) = keywords.get("allOf").and_then(Value::as_array) {
            return Some(parts.iter().fold(without(keywords, "allOf"), merged));
        }
        let (word, branches) = ["anyOf", "oneOf"].iter().find_map(|word| Some((*word, keywords.get(*word)?)))?;
        let branches = branches.as_array()?;
        let taken = branches.get(self.branch % branches.len().max(1))?;
        Some(merged(without(keywords, word), taken))
    }

    fn typed(&mut self, keywords: &Map<String, Value>, site: Site<'_>) -> Value {
        match type_of(keywords) {
            "object" => self.object(keywords, site),
            "array" => self.array(keywords, site),
            "integer" => integer(keywords, site),
            "number" => number(keywords, site),
            "boolean" => Value::from(site.salt.is_multiple_of(2)),
            "null" => Value::Null,
            _ => text(keywords, site),
        }
    }

    fn object(&mut self, keywords: &Map<String, Value>, site: Site<'_>) -> Value {
        let empty = Map::new();
        let properties = keywords.get("properties").and_then(Value::as_object).unwrap_or(&empty);
        let required: Vec<&str> = keywords
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let mut object = Map::new();
        for (name, schema) in properties {
            if site.depth < FULL_DEPTH || required.contains(&name.as_str()) {
                object.insert(name.clone(), self.value(schema, site.field(name)));
            }
        }
        let others = keywords.get("additionalProperties").unwrap_or(&Value::Bool(true));
        for name in required {
            if !object.contains_key(name) {
                object.insert(name.to_owned(), self.value(others, site.field(name)));
            }
        }
        Value::Object(object)
    }

    fn array(&mut self, keywords: &Map<String, Value>, site: Site<'_>) -> Value {
        let first: &[Value] = keywords.get("prefixItems").and_then(Value::as_array).map_or(&[], Vec::as_slice);
        let least = count(keywords, "minItems").unwrap_or(0);
        let wished = if site.depth < FULL_DEPTH { 2.max(first.len() as u64) } else { 0 };
        let items = keywords.get("items").unwrap_or(&Value::Bool(true));
        let most = if items == false { first.len() as u64 } else { MAX_ITEMS };
        let length = wished.max(least).min(count(keywords, "maxItems").unwrap_or(most)).min(most);
        let made = (0..length).map(|index| {
            let schema = usize::try_from(index).ok().and_then(|index| first.get(index)).unwrap_or(items);
            self.value(schema, site.item(index))
        });
        Value::Array(made.collect())
    }
}

fn without(keywords: &Map<String, Value>, word: &str) -> Value {
    Value::Object(
        keywords.iter().filter(|(key, _)| *key != word).map(|(key, value)| (key.clone(), value.clone())).collect(),
    )
}

/// Both schemas in one: properties and required names of both, else the word of the second.
fn merged(base: Value, other: &Value) -> Value {
    let (Value::Object(mut base), Value::Object(other)) = (base, other) else { return other.clone() };
    for (key, value) in other {
        match (base.get_mut(key), value) {
            (Some(Value::Object(mine)), Value::Object(theirs)) if key == "properties" => {
                mine.extend(theirs.iter().map(|(name, schema)| (name.clone(), schema.clone())));
            }
            (Some(Value::Array(mine)), Value::Array(theirs)) if key == "required" || key == "allOf" => {
                mine.extend(theirs.iter().cloned());
            }
            _ => {
                base.insert(key.clone(), value.clone());
            }
        }
    }
    Value::Object(base)
}

/// The type it says, or the one its other words are about.
fn type_of(keywords: &Map<String, Value>) -> &str {
    match keywords.get("type") {
        Some(Value::String(name)) => return name,
        Some(Value::Array(names)) => {
            let mut named = names.iter().filter_map(Value::as_str);
            return named.clone().find(|name| *name != "null").or_else(|| named.next()).unwrap_or("null");
        }
        _ => {}
    }
    const SIGNS: [(&str, &[&str]); 3] = [
        ("object", &["properties", "required", "additionalProperties"]),
        ("array", &["items", "prefixItems", "minItems", "maxItems"]),
        ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
    ];
    let found = SIGNS.iter().find(|(_, words)| words.iter().any(|word| keywords.contains_key(*word)));
    found.map_or("string", |(name, _)| name)
}

fn count(keywords: &Map<String, Value>, word: &str) -> Option<u64> {
    keywords.get(word)?.as_u64()
}

fn integer(keywords: &Map<String, Value>, site: Site<'_>) -> Value {
    // Bounds beyond what an integer holds are as good as its own.
    let bound = |word: &str, round: fn(f64) -> f64| {
        let value = keywords.get(word)?;
        let whole = value.as_i64().map(i128::from).or_else(|| value.as_f64().map(|value| round(value) as i128))?;
        Some(whole.clamp(i128::from(i64::MIN), i128::from(i64::MAX)))
    };
    let low = bound("minimum", f64::ceil).max(bound("exclusiveMinimum", f64::floor).map(|low| low + 1));
    let least = |a: Option<i128>, b: Option<i128>| a.into_iter().chain(b).min();
    let high = least(bound("maximum", f64::floor), bound("exclusiveMaximum", f64::ceil).map(|high| high - 1));
    let usual = looks::of_number(site.name, description(keywords)).filter(|_| low.is_none() && high.is_none());
    let (low, high) = match usual {
        Some((least, most)) => (Some(least.ceil() as i128), Some(most.floor() as i128)),
        None => (low, high),
    };
    let step = bound("multipleOf", f64::ceil).filter(|step| *step > 0).unwrap_or(1);
    let low = low.unwrap_or_else(|| high.map_or(1, |high| (high - 99 * step).min(1)));
    let first = low.div_euclid(step) * step + if low.rem_euclid(step) == 0 { 0 } else { step };
    let high = high.unwrap_or(first.saturating_add(99 * step));
    let choices = ((high - first) / step + 1).clamp(1, 1_000);
    let picked = first + i128::from(site.salt) % choices * step;
    i64::try_from(picked).map_or(json!(first as f64), Value::from)
}

fn number(keywords: &Map<String, Value>, site: Site<'_>) -> Value {
    let bound = |word: &str| keywords.get(word).and_then(Value::as_f64);
    let low = bound("minimum").into_iter().chain(bound("exclusiveMinimum")).reduce(f64::max);
    let high = bound("maximum").into_iter().chain(bound("exclusiveMaximum")).reduce(f64::min);
    let (low, high) = match (low, high) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => (low, low + 100.0),
        (None, Some(high)) => (high - 100.0, high),
        (None, None) => looks::of_number(site.name, description(keywords)).unwrap_or((0.0, 100.0)),
    };
    // Some of the way, never an end, since an end may be excluded; equal ends leave no choice.
    let share = (site.salt % 97 + 1) as f64 / 98.0;
    let exact = low + (high - low) * share;
    let rounded = (exact * 100.0).round() / 100.0;
    let value = if rounded > low && rounded < high { rounded } else { exact };
    match bound("multipleOf").filter(|step| *step > 0.0) {
        Some(step) if (value / step).floor() * step >= low => json!((value / step).floor() * step),
        Some(step) => json!((low / step).ceil() * step),
        None => json!(value),
    }
}

fn text(keywords: &Map<String, Value>, site: Site<'_>) -> Value {
    let number = site.salt % 1_000;
    let pattern = keywords.get("pattern").and_then(Value::as_str);
    if let Some(made) = pattern.and_then(|pattern| pattern::text(pattern, site.salt)) {
        return Value::from(made);
    }
    let word = site.name.replace(|c: char| !c.is_alphanumeric(), "-").to_lowercase();
    let made = match keywords.get("format").and_then(Value::as_str).unwrap_or("") {
        "date" => format!("2025-{:02}-{:02}", number % 12 + 1, number % 28 + 1),
        "date-time" => format!("2025-{:02}-{:02}T{:02}:00:00Z", number % 12 + 1, number % 28 + 1, number % 24),
        "time" => format!("{:02}:00:00Z", number % 24),
        "duration" => format!("PT{}M", number + 1),
        "email" | "idn-email" => format!("{word}{number}@example.com"),
        "uri" | "url" | "iri" | "uri-reference" | "iri-reference" => format!("https://example.com/{word}/{number}"),
        "hostname" | "idn-hostname" => format!("host{number}.example.com"),
        "ipv4" => format!("192.0.2.{}", number % 254 + 1),
        "ipv6" => format!("2001:db8::{:x}", number + 1),
        "uuid" => uuid(site.salt),
        _ => match looks::of_text(site.name, description(keywords)) {
            Some(look) => looks::text(look, site.name, site.salt),
            None => format!("simulated {} {number}", looks::words(site.name).join(" ")),
        },
    };
    Value::from(fitted(made, count(keywords, "minLength"), count(keywords, "maxLength"), number))
}

fn description(keywords: &Map<String, Value>) -> &str {
    keywords.get("description").and_then(Value::as_str).unwrap_or_default()
}

fn uuid(salt: u64) -> String {
    let other = mixed(salt, b"uuid");
    let (a, b, c) = (salt >> 32, salt >> 16 & 0xffff, salt & 0xfff);
    format!("{a:08x}-{b:04x}-4{c:03x}-8{:03x}-{:012x}", other & 0xfff, other >> 16)
}

/// As long as it must be, and no longer than it may.
fn fitted(text: String, least: Option<u64>, most: Option<u64>, number: u64) -> String {
    let length = text.chars().count() as u64;
    let most = most.unwrap_or(MAX_CHARS);
    if length > most && most >= CUT_CHARS {
        return text.chars().take(most as usize).collect();
    }
    if length > most {
        // A text of a few letters tells neighbours apart by the number alone.
        let digits: String = number.to_string().chars().rev().collect();
        let filled: String = digits.chars().chain(text.chars()).take(most as usize).collect();
        return filled;
    }
    let missing = least.unwrap_or(0).min(MAX_CHARS).saturating_sub(length);
    let again = format!(" {text}");
    text.chars().chain(again.chars().cycle().take(missing as usize)).collect()
}

/// One number out of another and some bytes: FNV-1a with a final mix, the same on every machine.
fn mixed(seed: u64, bytes: &[u8]) -> u64 {
    let start = seed ^ 0xcbf2_9ce4_8422_2325;
    let mut hash = bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}
