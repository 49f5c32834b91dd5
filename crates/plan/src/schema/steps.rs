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
const MAX_OUTLINE_STEPS: usize = 200_000;

/// Schemas inside one another along one way through the value. The library calls itself for each of them, and a text of
/// JSON is at most 128 levels deep.
const MAX_NESTED: usize = 512;

/// Parts of a schema with its references written out. Larger ones are compared by samples alone.
const MAX_UNFOLDED: usize = 20_000;

/// How deep they may be inside one another; the library needs much of the stack for each level.
const MAX_UNFOLDED_DEPTH: usize = 48;

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
    Walk::new(outline, root, steps, true).visit(root, value)
}

/// Can the library list within bounds why the value does not fit? It then remembers nothing.
pub(super) fn explicable(outline: &Outline, root: &Value, value: &Value) -> Result<(), TooMany> {
    Walk::new(outline, root, MAX_ERROR_STEPS, false).visit(root, value)
}

/// Can the library compare the schema with others? It writes out every reference to do so, and calls itself for each level.
pub(super) fn comparable(outline: &Outline, root: &Value) -> Result<(), TooMany> {
    let mut unfolding = Unfolding { outline, root, left: MAX_UNFOLDED, done: HashSet::new() };
    unfolding.visit(root, 0)
}

struct Unfolding<'s> {
    outline: &'s Outline,
    root: &'s Value,
    left: usize,
    /// What leads back to itself is written out once.
    done: HashSet<*const Value>,
}

impl<'s> Unfolding<'s> {
    fn visit(&mut self, part: &Value, depth: usize) -> Bounded {
        self.left = self.left.checked_sub(1).filter(|_| depth < MAX_UNFOLDED_DEPTH).ok_or(TooMany)?;
        for (word, inner) in members(part) {
            let next = match inner {
                Value::String(to) if REFERRING.contains(&word.as_str()) => self.referred(to),
                inner => Some(inner),
            };
            next.map_or(Ok(()), |next| self.visit(next, depth + 1))?;
        }
        Ok(())
    }

    fn referred(&mut self, reference: &str) -> Option<&'s Value> {
        let target = self.outline.target(self.root, reference)?;
        let is_new = !self.outline.cyclic.contains(reference) || self.done.insert(std::ptr::from_ref(target));
        is_new.then_some(target)
    }
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

type Bounded = Result<(), TooMany>;

/// It takes every alternative and every field, whatever the others say: in which order the library asks, and what it
/// then need not ask, is its own affair.
struct Walk<'s> {
    outline: &'s Outline,
    root: &'s Value,
    left: usize,
    nested: usize,
    /// Does it remember where it has been, as the library does to decide but not to explain?
    remembers: bool,
    done: HashSet<Pair>,
    within: HashSet<Pair>,
}

impl<'s> Walk<'s> {
    fn new(outline: &'s Outline, root: &'s Value, left: usize, remembers: bool) -> Walk<'s> {
        Walk { outline, root, left, nested: 0, remembers, done: HashSet::new(), within: HashSet::new() }
    }

    fn visit(&mut self, schema: &'s Value, value: &Value) -> Bounded {
        self.spend(1)?;
        let Value::Object(words) = schema else { return Ok(()) };
        if self.nested == MAX_NESTED {
            return Err(TooMany);
        }
        self.nested += 1;
        self.words(words, value)?;
        self.nested -= 1;
        Ok(())
    }

    fn spend(&mut self, steps: usize) -> Bounded {
        self.left = self.left.checked_sub(steps).ok_or(TooMany)?;
        Ok(())
    }

    fn words(&mut self, words: &'s Map<String, Value>, value: &Value) -> Bounded {
        // Each missing field is an error of its own.
        self.spend(schemas(words, "required").len())?;
        self.referred(words, value)?;
        match value {
            Value::Object(fields) => self.fields(words, fields)?,
            Value::Array(items) => self.items(words, items)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
        self.in_place(words, value)?;
        // To know what nothing has looked at yet, the library goes through the same schemas again.
        for _ in ["unevaluatedProperties", "unevaluatedItems"].iter().filter(|word| words.contains_key(**word)) {
            self.referred(words, value)?;
            self.in_place(words, value)?;
        }
        Ok(())
    }

    fn fields(&mut self, words: &'s Map<String, Value>, fields: &Map<String, Value>) -> Bounded {
        let known = words.get("properties").and_then(Value::as_object);
        for (name, schema) in known.into_iter().flatten() {
            fields.get(name).map_or(Ok(()), |field| self.visit(schema, field))?;
        }
        for schema in words.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::values) {
            fields.values().try_for_each(|field| self.visit(schema, field))?;
        }
        for schema in ["additionalProperties", "unevaluatedProperties"].iter().filter_map(|word| words.get(*word)) {
            let mut others = fields.iter().filter(|(name, _)| !known.is_some_and(|known| known.contains_key(*name)));
            others.try_for_each(|(_, field)| self.visit(schema, field))?;
        }
        // A name is no value of its own; any text stands for it.
        let name = Value::from("");
        let mut names = words.get("propertyNames").into_iter().flat_map(|schema| fields.keys().map(move |_| schema));
        names.try_for_each(|schema| self.visit(schema, &name))
    }

    fn items(&mut self, words: &'s Map<String, Value>, items: &[Value]) -> Bounded {
        for word in ["items", "additionalItems", "contains", "unevaluatedItems"] {
            let Some(schema) = words.get(word).filter(|schema| !schema.is_array()) else { continue };
            items.iter().try_for_each(|item| self.visit(schema, item))?;
        }
        for word in ["prefixItems", "items"] {
            schemas(words, word).iter().zip(items).try_for_each(|(schema, item)| self.visit(schema, item))?;
        }
        Ok(())
    }

    /// The words that look at the same value again.
    fn in_place(&mut self, words: &'s Map<String, Value>, value: &Value) -> Bounded {
        for word in ["allOf", "anyOf", "oneOf"] {
            schemas(words, word).iter().try_for_each(|schema| self.visit(schema, value))?;
        }
        for word in ["dependentSchemas", "dependencies"] {
            let depending = words.get(word).and_then(Value::as_object).into_iter().flatten();
            let mut concerned = depending.filter(|(name, _)| value.get(name).is_some());
            concerned.try_for_each(|(_, schema)| self.visit(schema, value))?;
        }
        let mut others = ["not", "if", "then", "else"].iter().filter_map(|word| words.get(*word));
        others.try_for_each(|schema| self.visit(schema, value))
    }

    fn referred(&mut self, words: &'s Map<String, Value>, value: &Value) -> Bounded {
        for word in REFERRING {
            let Some(reference) = words.get(word).and_then(Value::as_str) else { continue };
            let Some(target) = self.outline.target(self.root, reference) else { continue };
            let remembers = self.remembers && self.outline.cyclic.contains(reference);
            self.follow(target, value, remembers && (value.is_object() || value.is_array()))?;
        }
        Ok(())
    }

    /// A schema that is asked about a value while it looks at that value is not asked again, as in the library.
    fn follow(&mut self, target: &'s Value, value: &Value, remembers: bool) -> Bounded {
        let pair = (std::ptr::from_ref(target), std::ptr::from_ref(value));
        if remembers && !self.done.insert(pair) || !self.within.insert(pair) {
            return Ok(());
        }
        self.visit(target, value)?;
        self.within.remove(&pair);
        Ok(())
    }
}

fn schemas<'s>(words: &'s Map<String, Value>, word: &str) -> &'s [Value] {
    words.get(word).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
