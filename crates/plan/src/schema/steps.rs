//! How much work one check is. It owns the walk through a schema and a value that counts what the library would visit,
//! and stops when that is too much. It does not decide whether a value fits, and knows nothing of messages.
//!
//! A schema from a stranger can refer to itself below `anyOf`, or double itself with each `$ref`: then the work, and the
//! memory for the errors, doubles with each level. Where nothing is referred to, both are bounded by the two sizes.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Visits that every check may take, however small its value: some milliseconds.
const MAX_STEPS: usize = 100_000;

/// Visits more for each member of the value: who sends much may have much checked.
const STEPS_PER_MEMBER: usize = 16;

/// Visits for which errors are collected. Each may leave errors in memory until all of them are there.
const MAX_ERROR_STEPS: usize = 50_000;

/// Visits to find the references that lead back to themselves. In a schema for which these are too few the rest count
/// as if they did not, so that fewer values can be decided.
const MAX_OUTLINE_STEPS: usize = 1_000_000;

/// Schemas inside one another along one way through the value. The library calls itself for each of them, and a text of
/// JSON is at most 128 levels deep.
const MAX_NESTED: usize = 512;

/// Words by which a schema is visited more than once.
const REPEATING: [&str; 5] = ["$ref", "$dynamicRef", "$recursiveRef", "unevaluatedProperties", "unevaluatedItems"];

/// Words that refer to another schema.
const REFERRING: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];

/// The check would take more steps than are allowed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TooMany;

/// What is known about the work of a schema before any value comes.
#[derive(Debug, Default)]
pub(super) struct Outline {
    /// Does any word make it visit a schema more than once?
    repeats: bool,
    /// Is there a list of alternatives, whose errors the library keeps all?
    has_alternatives: bool,
    /// Does it ask for a version in which some of the cheap words mean nothing?
    is_old: bool,
    /// Where names other than JSON pointers lead, as JSON pointers.
    names: HashMap<String, String>,
    /// References whose target leads back to itself. Only these does the library remember.
    cyclic: HashSet<String>,
}

impl Outline {
    pub(super) fn of(root: &Value) -> Outline {
        let mut outline = Outline::default();
        let mut references = HashSet::new();
        outline.note(root, "", &mut references);
        let mut left = MAX_OUTLINE_STEPS;
        let cyclic = references.iter().filter(|to| outline.leads_back(root, to, &mut left)).cloned().collect();
        Outline { cyclic, ..outline }
    }

    /// The work of a check is the product of two sizes, and its first error is found without keeping others.
    pub(super) fn is_plain(&self) -> bool {
        !self.repeats && !self.has_alternatives
    }

    /// As deep as the schema, which the library has been through before.
    fn note(&mut self, schema: &Value, pointer: &str, references: &mut HashSet<String>) {
        for (word, inner) in members(schema) {
            self.repeats |= REPEATING.contains(&word.as_str());
            self.has_alternatives |= matches!(word.as_str(), "anyOf" | "oneOf");
            match (word.as_str(), inner) {
                ("$schema", Value::String(version)) => self.is_old |= version.contains("draft-04"),
                ("$anchor" | "$dynamicAnchor", Value::String(name)) => {
                    self.names.insert(format!("#{name}"), pointer.to_owned());
                }
                ("$id" | "id", Value::String(name)) => {
                    self.names.insert(name.trim_end_matches('#').to_owned(), pointer.to_owned());
                }
                (word, Value::String(reference)) if REFERRING.contains(&word) => {
                    references.insert(reference.clone());
                }
                _ => self.note(inner, &super::keywords::below(pointer, &word), references),
            }
        }
    }

    fn leads_back(&self, root: &Value, reference: &str, left: &mut usize) -> bool {
        let Some(target) = self.target(root, reference) else { return false };
        let (mut seen, mut ahead) = (HashSet::new(), vec![target]);
        while let Some(schema) = ahead.pop() {
            for (word, inner) in members(schema) {
                let Some(rest) = left.checked_sub(1) else { return false };
                *left = rest;
                let next = match inner {
                    Value::String(to) if REFERRING.contains(&word.as_str()) => self.target(root, to),
                    inner => Some(inner),
                };
                let Some(next) = next else { continue };
                if std::ptr::eq(next, target) {
                    return true;
                }
                if seen.insert(std::ptr::from_ref(next)) {
                    ahead.push(next);
                }
            }
        }
        false
    }

    fn target<'s>(&self, root: &'s Value, reference: &str) -> Option<&'s Value> {
        if let Some(pointer) = self.names.get(reference) {
            return root.pointer(pointer);
        }
        let (name, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        let base = match self.names.get(name) {
            Some(pointer) => root.pointer(pointer)?,
            None => root,
        };
        base.pointer(&unescaped(fragment)).or_else(|| root.pointer(self.names.get(&format!("#{fragment}"))?))
    }
}

/// A pointer as it is written in a reference: only what a field's name may need is read, the rest never leads anywhere.
fn unescaped(fragment: &str) -> String {
    fragment.replace("%24", "$").replace("%20", " ").replace("%25", "%")
}

fn members(value: &Value) -> Vec<(String, &Value)> {
    match value {
        Value::Object(map) => map.iter().map(|(name, inner)| (name.clone(), inner)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(number, inner)| (number.to_string(), inner)).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
    }
}

/// Can the library decide within bounds whether the value fits?
pub(super) fn decidable(outline: &Outline, root: &Value, value: &Value) -> Result<(), TooMany> {
    if !outline.repeats {
        return Ok(());
    }
    let steps = MAX_STEPS.saturating_add(size(value).saturating_mul(STEPS_PER_MEMBER));
    Walk::new(outline, root, steps, true).visit(root, value).map(drop)
}

/// Can the library list within bounds why the value does not fit? It then passes over nothing and remembers nothing.
pub(super) fn explicable(outline: &Outline, root: &Value, value: &Value) -> Result<(), TooMany> {
    Walk::new(outline, root, MAX_ERROR_STEPS, false).visit(root, value).map(drop)
}

fn size(value: &Value) -> usize {
    let (mut count, mut ahead) = (0, vec![value]);
    while let Some(next) = ahead.pop() {
        count += 1;
        match next {
            Value::Object(map) => ahead.extend(map.values()),
            Value::Array(items) => ahead.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    count
}

/// A schema and a value, by where they are.
type Pair = (*const Value, *const Value);

struct Walk<'s> {
    outline: &'s Outline,
    root: &'s Value,
    left: usize,
    nested: usize,
    /// Does it stop at the first thing that does not fit, and remember what it found, as the library does to decide?
    decides: bool,
    found: HashMap<Pair, bool>,
    within: HashSet<Pair>,
    /// Stands for the name of a field, which is no value of its own.
    name: Value,
}

/// May the value fit, as far as the cheap words say? They are those that the library asks first.
type May = Result<bool, TooMany>;

impl<'s> Walk<'s> {
    fn new(outline: &'s Outline, root: &'s Value, left: usize, decides: bool) -> Walk<'s> {
        let (found, within, name) = (HashMap::new(), HashSet::new(), Value::from(""));
        Walk { outline, root, left, nested: 0, decides, found, within, name }
    }

    fn visit(&mut self, schema: &'s Value, value: &Value) -> May {
        self.spend(1)?;
        let Value::Object(words) = schema else { return Ok(schema != &Value::Bool(false)) };
        if self.nested == MAX_NESTED {
            return Err(TooMany);
        }
        self.nested += 1;
        let may = self.words(words, value);
        self.nested -= 1;
        may
    }

    fn spend(&mut self, steps: usize) -> Result<(), TooMany> {
        self.left = self.left.checked_sub(steps).ok_or(TooMany)?;
        Ok(())
    }

    fn words(&mut self, words: &'s Map<String, Value>, value: &Value) -> May {
        self.spend(words.get("required").and_then(Value::as_array).map_or(0, Vec::len))?;
        // Older versions pass over the words beside `$ref`, so that none of them may keep us from following it.
        let mut may = self.referred(words, value)? & (self.outline.is_old || cheap(words, value));
        // To know what nothing has looked at yet, the library goes through the same schemas again.
        let again =
            ["unevaluatedProperties", "unevaluatedItems"].iter().filter(|word| words.contains_key(**word)).count();
        let parts: [fn(&mut Self, &'s Map<String, Value>, &Value) -> May; 3] =
            [Self::fields, Self::items, Self::in_place];
        for part in parts.into_iter().chain(std::iter::repeat_n(parts[2], again)) {
            if self.decides && !may {
                return Ok(false);
            }
            may &= part(self, words, value)?;
        }
        Ok(may)
    }

    fn fields(&mut self, words: &'s Map<String, Value>, value: &Value) -> May {
        let Value::Object(fields) = value else { return Ok(true) };
        let named = words.get("properties").and_then(Value::as_object);
        for (name, schema) in named.into_iter().flatten() {
            let Some(field) = fields.get(name) else { continue };
            if !self.visit(schema, field)? && self.decides {
                return Ok(false);
            }
        }
        let patterns = words.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values);
        let others = ["additionalProperties", "unevaluatedProperties"].into_iter().filter_map(|word| words.get(word));
        for schema in patterns.chain(others) {
            for field in fields.iter().filter(|(name, _)| !named.is_some_and(|named| named.contains_key(*name))) {
                self.visit(schema, field.1)?;
            }
        }
        self.names(words.get("propertyNames"), fields.len())?;
        Ok(true)
    }

    fn names(&mut self, schema: Option<&'s Value>, count: usize) -> Result<(), TooMany> {
        let Some(schema) = schema else { return Ok(()) };
        let name = self.name.clone();
        let decides = std::mem::take(&mut self.decides);
        for _ in 0..count {
            self.visit(schema, &name)?;
        }
        self.decides = decides;
        Ok(())
    }

    fn items(&mut self, words: &'s Map<String, Value>, value: &Value) -> May {
        let Value::Array(items) = value else { return Ok(true) };
        for word in ["items", "additionalItems", "contains", "unevaluatedItems"] {
            let Some(schema) = words.get(word).filter(|schema| !schema.is_array()) else { continue };
            for item in items {
                if !self.visit(schema, item)? && self.decides && word == "items" {
                    break;
                }
            }
        }
        for word in ["prefixItems", "items"] {
            let schemas = words.get(word).and_then(Value::as_array);
            for (schema, item) in schemas.into_iter().flatten().zip(items) {
                self.visit(schema, item)?;
            }
        }
        Ok(true)
    }

    /// The words that look at the same value again.
    fn in_place(&mut self, words: &'s Map<String, Value>, value: &Value) -> May {
        for schema in words.get("allOf").and_then(Value::as_array).into_iter().flatten() {
            if !self.visit(schema, value)? && self.decides {
                return Ok(false);
            }
        }
        for word in ["dependentSchemas", "dependencies"] {
            let depending = words.get(word).and_then(Value::as_object).into_iter().flatten();
            for (_, schema) in depending.filter(|(name, _)| value.get(name).is_some()) {
                self.visit(schema, value)?;
            }
        }
        for word in ["not", "if", "then", "else"] {
            words.get(word).map(|schema| self.visit(schema, value)).transpose()?;
        }
        self.alternatives(words, value)
    }

    fn alternatives(&mut self, words: &'s Map<String, Value>, value: &Value) -> May {
        for word in ["anyOf", "oneOf"] {
            let Some(schemas) = words.get(word).and_then(Value::as_array) else { continue };
            let mut may = false;
            for schema in schemas {
                may |= self.visit(schema, value)?;
            }
            if !may {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn referred(&mut self, words: &'s Map<String, Value>, value: &Value) -> May {
        for word in REFERRING {
            let Some(reference) = words.get(word).and_then(Value::as_str) else { continue };
            let Some(target) = self.outline.target(self.root, reference) else { continue };
            if !self.follow(reference, target, value)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// A schema that is asked about a value while it looks at that value says yes, as in the library.
    fn follow(&mut self, reference: &str, target: &'s Value, value: &Value) -> May {
        let pair = (std::ptr::from_ref(target), std::ptr::from_ref(value));
        let remembers =
            self.decides && self.outline.cyclic.contains(reference) && (value.is_object() || value.is_array());
        if let Some(may) = self.found.get(&pair).filter(|_| remembers) {
            return Ok(*may);
        }
        if !self.within.insert(pair) {
            return Ok(true);
        }
        let may = self.visit(target, value)?;
        self.within.remove(&pair);
        if remembers {
            self.found.insert(pair, may);
        }
        Ok(may)
    }
}

fn cheap(words: &Map<String, Value>, value: &Value) -> bool {
    let typed = words.get("type").is_none_or(|types| match types {
        Value::String(name) => is_of(name, value),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(|name| is_of(name, value)),
        _ => true,
    });
    let required = words.get("required").and_then(Value::as_array).zip(value.as_object());
    let complete = required
        .is_none_or(|(names, fields)| names.iter().filter_map(Value::as_str).all(|name| fields.contains_key(name)));
    typed && complete && is_scalar_of(words, value)
}

/// `const` and `enum` of texts, which tell alternatives apart. Numbers are equal in more ways than one.
fn is_scalar_of(words: &Map<String, Value>, value: &Value) -> bool {
    let Value::String(_) = value else { return true };
    words.get("const").is_none_or(|constant| constant == value)
        && words.get("enum").and_then(Value::as_array).is_none_or(|values| values.contains(value))
}

fn is_of(name: &str, value: &Value) -> bool {
    match name {
        "string" => value.is_string(),
        "integer" | "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "object" => value.is_object(),
        "array" => value.is_array(),
        "null" => value.is_null(),
        _ => true,
    }
}
