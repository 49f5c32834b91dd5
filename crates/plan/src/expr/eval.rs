//! Works out an expression over JSON values: typed, bounded, and with messages that name what is wrong.
//!
//! Values are borrowed as long as possible, so reading one field of a large output copies that field only. It knows
//! nothing of runs: names come from [`Names`].

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

use super::node::{Argument, Arithmetic, Comparison, Node};
use super::{EvalError, Names, Part, Root, vocabulary};
use crate::path::{self, Missing, Segment};
use crate::template::in_text_or_reference;
use crate::weight::Room;

/// Steps of work for one expression or text. A loop over some thousand items passes, a runaway one does not.
const FUEL: u64 = 100_000;

/// Copying this much costs one step of work.
const BYTES_PER_STEP: usize = 1024;

/// Items that a filter goes over for one step of work; filters are quicker than loops.
const ITEMS_PER_STEP: usize = 16;

/// How much of a value a message shows.
const MAX_SHOWN_CHARS: usize = 80;

/// One evaluation: what it sees and how much work it has left.
pub struct Scope<'n> {
    names: &'n dyn Names,
    locals: Vec<(&'n str, Cow<'n, Value>)>,
    fuel: u64,
}

type Evaluated<'n> = Result<Cow<'n, Value>, EvalError>;

/// Those by place and those by name.
type Arguments<'n> = (Vec<Value>, Vec<(&'n str, Value)>);

impl<'n> Scope<'n> {
    pub fn new(names: &'n dyn Names) -> Scope<'n> {
        Scope { names, locals: Vec::new(), fuel: FUEL }
    }

    pub fn mark(&self) -> usize {
        self.locals.len()
    }

    pub fn forget(&mut self, mark: usize) {
        self.locals.truncate(mark);
    }

    pub fn set(&mut self, name: &'n str, value: Cow<'n, Value>) {
        self.locals.push((name, value));
    }

    pub fn spend(&mut self, steps: usize) -> Result<(), EvalError> {
        let steps = u64::try_from(steps).unwrap_or(u64::MAX);
        self.fuel = self.fuel.checked_sub(steps).ok_or_else(|| {
            EvalError::Type(format!("takes more than {FUEL} steps of work; give it less data or fewer passes"))
        })?;
        Ok(())
    }

    pub fn spend_bytes(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.spend(bytes / BYTES_PER_STEP)
    }

    pub fn eval(&mut self, node: &'n Node) -> Evaluated<'n> {
        self.spend(1)?;
        match node {
            Node::Const(value) => Ok(Cow::Borrowed(value)),
            Node::Path(root, path) => self.path(root, path),
            Node::Local(name, path) => self.local(name, path),
            Node::Item(value, index) => self.item(value, index),
            Node::Slice(value, bounds) => self.slice(value, bounds),
            Node::Not(inner) => Ok(owned(!truth(&*self.eval(inner)?))),
            Node::Negative(inner) => negative(&*self.eval(inner)?).map(Cow::Owned),
            Node::And(left, right) => self.either(left, right, false),
            Node::Or(left, right) => self.either(left, right, true),
            Node::Arithmetic(op, left, right) => self.arithmetic(*op, left, right),
            Node::Join(left, right) => self.join(left, right),
            Node::Compare(first, others) => self.compare(first, others).map(owned),
            Node::If(parts) => {
                let [test, yes, no] = &**parts;
                let taken = truth(&*self.eval(test)?);
                self.eval(if taken { yes } else { no })
            }
            Node::Filter(name, input, args) => self.filter(name, input, args),
            Node::Test(name, input, args) => self.test_named(name, input, args).map(owned),
            Node::Range(bounds) => self.range(bounds),
            Node::List(items) => {
                let mut room = Room::new();
                let mut part = |item| self.part(item, &mut room);
                let values: Result<Vec<Value>, _> = items.iter().map(&mut part).collect();
                values.map(|values| Cow::Owned(Value::Array(values)))
            }
            Node::Map(pairs) => self.map(pairs),
        }
    }

    /// As a condition. `and`, `or` and `not` ask their parts for booleans too, so a text `no` is not taken for a yes.
    pub fn test(&mut self, node: &'n Node) -> Result<bool, EvalError> {
        self.spend(1)?;
        match node {
            Node::And(left, right) => Ok(self.test(left)? && self.test(right)?),
            Node::Or(left, right) => Ok(self.test(left)? || self.test(right)?),
            Node::Not(inner) => Ok(!self.test(inner)?),
            other => boolean(&*self.eval(other)?),
        }
    }

    /// What goes into a list or an object, weighed before it is copied.
    fn part(&mut self, node: &'n Node, room: &mut Room) -> Result<Value, EvalError> {
        let value = self.eval(node)?;
        room.take(&value, 1)?;
        Ok(value.into_owned())
    }

    fn eval_owned(&mut self, node: &'n Node) -> Result<Value, EvalError> {
        self.eval(node).map(Cow::into_owned)
    }

    pub fn path(&self, root: &Root, path: &[Segment]) -> Evaluated<'n> {
        if let (Root::Vars, [Segment::Key(name), rest @ ..]) = (root, path)
            && let Some(value) = self.names.variable(name)
        {
            return self.or_missing(follow(value, |value| path::get(value, rest)), || format!("{root}.{name}"));
        }
        let value = self.names.get(root)?;
        // A skipped step's output is null, and so is any path into it.
        if path.is_empty() || value.is_null() {
            return Ok(value);
        }
        if let (Root::Vars, [Segment::Key(name), ..]) = (root, path)
            && value.get(name).is_none()
            && !self.names.missing_is_null()
        {
            return Err(EvalError::Reference(unset(name, &value, self.names.reader())));
        }
        let result = match (root, path) {
            (Root::Step { part: Part::Outputs, .. }, [Segment::Index(index), rest @ ..]) if value.is_object() => {
                follow(value, |value| by_order(value, *index, rest))
            }
            _ => follow(value, |value| path::get(value, path)),
        };
        self.or_missing(result, || root.to_string())
    }

    fn local(&mut self, name: &str, path: &[Segment]) -> Evaluated<'n> {
        let Some((_, value)) = self.locals.iter().rev().find(|(local, _)| *local == name) else {
            return Err(EvalError::Reference(format!("`{name}` is not set here")));
        };
        let result = match value {
            Cow::Borrowed(value) => path::get(value, path).map(Cow::Borrowed),
            Cow::Owned(value) => path::get(value, path).map(|value| Cow::Owned(value.clone())),
        };
        self.or_missing(result, || name.to_owned())
    }

    fn or_missing(&self, result: Result<Cow<'n, Value>, Missing>, base: impl Fn() -> String) -> Evaluated<'n> {
        match result {
            Ok(value) => Ok(value),
            Err(_) if self.names.missing_is_null() => Ok(Cow::Owned(Value::Null)),
            Err(missing) => Err(EvalError::Reference(missing_message(&base(), &missing))),
        }
    }

    fn item(&mut self, node: &'n Node, index: &'n Node) -> Evaluated<'n> {
        let base = self.eval(node)?;
        let index = self.eval(index)?;
        let segment = match &*index {
            Value::String(key) => Segment::Key(key.clone()),
            Value::Number(number) if number.is_i64() => Segment::Index(number.as_i64().unwrap_or_default()),
            other => return Err(EvalError::Type(format!("{} cannot be an index or key", shown(other)))),
        };
        let result = follow(base, |value| path::get(value, std::slice::from_ref(&segment)));
        self.or_missing(result, || label(node))
    }

    fn slice(&mut self, value: &'n Node, bounds: &'n [Option<Box<Node>>; 3]) -> Evaluated<'n> {
        let value = self.eval(value)?;
        let mut numbers = [None; 3];
        for (number, bound) in numbers.iter_mut().zip(bounds) {
            if let Some(node) = bound {
                *number = whole(&*self.eval(node)?)?;
            }
        }
        let sliced = match &*value {
            Value::Array(list) => Value::Array(pick(list, numbers)?),
            Value::String(text) => {
                let chars: Vec<char> = text.chars().collect();
                Value::String(pick(&chars, numbers)?.into_iter().collect())
            }
            other => return Err(EvalError::Type(format!("{} cannot be sliced", kind(other)))),
        };
        Ok(Cow::Owned(sliced))
    }

    /// `and` and `or` as values: the part that decides. `stop` is the truth that ends it.
    fn either(&mut self, left: &'n Node, right: &'n Node, stop: bool) -> Evaluated<'n> {
        let first = self.eval(left)?;
        if truth(&first) == stop { Ok(first) } else { self.eval(right) }
    }

    fn arithmetic(&mut self, op: Arithmetic, left: &'n Node, right: &'n Node) -> Evaluated<'n> {
        let (a, b) = (self.eval(left)?, self.eval(right)?);
        let joined = match (op, &*a, &*b) {
            (_, Value::Number(a), Value::Number(b)) => return calculate(op, a, b).map(Cow::Owned),
            (Arithmetic::Add, Value::String(a), Value::String(b)) => {
                self.spend_bytes(a.len() + b.len())?;
                Value::String(format!("{a}{b}"))
            }
            (Arithmetic::Add, Value::Array(a), Value::Array(b)) => {
                self.spend(a.len() + b.len())?;
                Value::Array(a.iter().chain(b).cloned().collect())
            }
            (_, a, b) => {
                let message = format!("cannot calculate {} {} {}", shown(a), op.symbol(), shown(b));
                return Err(EvalError::Type(message));
            }
        };
        Ok(Cow::Owned(joined))
    }

    fn join(&mut self, left: &'n Node, right: &'n Node) -> Evaluated<'n> {
        let (a, b) = (self.eval(left)?, self.eval(right)?);
        let mut text = text_of(&a).into_owned();
        text.push_str(&text_of(&b));
        self.spend_bytes(text.len())?;
        Ok(owned(text))
    }

    fn compare(&mut self, first: &'n Node, others: &'n [(Comparison, Node)]) -> Result<bool, EvalError> {
        let mut left = self.eval(first)?;
        for (op, node) in others {
            let right = self.eval(node)?;
            if !holds(*op, &left, &right)? {
                return Ok(false);
            }
            left = right;
        }
        Ok(true)
    }

    fn filter(&mut self, name: &'static str, input: &'n Node, args: &'n [Argument]) -> Evaluated<'n> {
        if matches!(name, "default" | "d") {
            return self.default(input, args);
        }
        let input = self.eval(input)?;
        self.spend(weight(&input))?;
        let (positional, named) = self.arguments(args)?;
        if name == "reference" {
            let reference = in_text_or_reference(&input, &positional, self.names)?;
            return Ok(Cow::Owned(reference));
        }
        let result = vocabulary::filter(name, &input, &positional, &named)?;
        self.spend(weight(&result))?;
        Ok(Cow::Owned(result))
    }

    fn arguments(&mut self, args: &'n [Argument]) -> Result<Arguments<'n>, EvalError> {
        let (mut positional, mut named) = (Vec::new(), Vec::new());
        for arg in args {
            let value = self.eval_owned(&arg.value)?;
            match &arg.name {
                Some(name) => named.push((name.as_str(), value)),
                None => positional.push(value),
            }
        }
        Ok((positional, named))
    }

    /// The value, or another where it is missing (at any level) or null; with `true` also where it is empty.
    fn default(&mut self, input: &'n Node, args: &'n [Argument]) -> Evaluated<'n> {
        let empty_too = match args.get(1) {
            Some(argument) => truth(&*self.eval(&argument.value)?),
            None => false,
        };
        match self.eval(input) {
            Ok(value) if !value.is_null() && (!empty_too || truth(&value)) => return Ok(value),
            Ok(_) | Err(EvalError::Reference(_)) => {}
            Err(error @ (EvalError::Load(_) | EvalError::Type(_) | EvalError::Limit(_))) => return Err(error),
        }
        match args.first() {
            Some(argument) => self.eval(&argument.value),
            None => Ok(owned("")),
        }
    }

    fn test_named(&mut self, name: &str, input: &'n Node, args: &'n [Argument]) -> Result<bool, EvalError> {
        if matches!(name, "defined" | "undefined") {
            return Ok(self.is_defined(input)? == (name == "defined"));
        }
        let input = self.eval(input)?;
        let (positional, named) = self.arguments(args)?;
        if !named.is_empty() {
            return Err(EvalError::Type(format!("the test `{name}` takes no named arguments")));
        }
        match (Comparison::named(name), positional.as_slice()) {
            (Some(op), [other]) => holds(op, &input, other),
            _ => vocabulary::test(name, &input, &positional),
        }
    }

    fn is_defined(&mut self, node: &'n Node) -> Result<bool, EvalError> {
        if let Node::Path(root, path) = node
            && !path.is_empty()
            && self.names.get(root)?.is_null()
        {
            return Ok(false);
        }
        match self.eval(node) {
            Ok(value) => Ok(!(value.is_null() && self.names.missing_is_null())),
            Err(EvalError::Reference(_)) => Ok(false),
            Err(error @ (EvalError::Load(_) | EvalError::Type(_) | EvalError::Limit(_))) => Err(error),
        }
    }

    fn range(&mut self, bounds: &'n [Node]) -> Evaluated<'n> {
        let mut numbers = Vec::with_capacity(bounds.len());
        for node in bounds {
            let value = self.eval(node)?;
            numbers.push(whole(&value)?.ok_or_else(|| EvalError::Type("range needs whole numbers, got null".into()))?);
        }
        let (start, stop, step) = match numbers.as_slice() {
            [stop] => (0, *stop, 1),
            [start, stop] => (*start, *stop, 1),
            [start, stop, step] if *step > 0 => (*start, *stop, *step),
            _ => return Err(EvalError::Type("range needs a step above 0".to_owned())),
        };
        let count = if stop > start { stop.abs_diff(start).div_ceil(step.unsigned_abs()) } else { 0 };
        self.spend(usize::try_from(count).unwrap_or(usize::MAX))?;
        let step_size = usize::try_from(step).unwrap_or(usize::MAX);
        Ok(Cow::Owned((start..stop).step_by(step_size).map(Value::from).collect()))
    }

    fn map(&mut self, pairs: &'n [(Node, Node)]) -> Evaluated<'n> {
        let (mut map, mut room) = (Map::new(), Room::new());
        for (key, value) in pairs {
            let key = text_of(&*self.eval(key)?).into_owned();
            room.take_key(&key)?;
            map.insert(key, self.part(value, &mut room)?);
        }
        Ok(Cow::Owned(Value::Object(map)))
    }
}

/// What a computed lookup looks into, for a message.
fn label(node: &Node) -> String {
    let (base, path) = match node {
        Node::Path(root, path) => (root.to_string(), path),
        Node::Local(name, path) => (name.clone(), path),
        _ => return "the value".to_owned(),
    };
    let shown = path::show(path);
    let dot = if shown.is_empty() || shown.starts_with('[') { "" } else { "." };
    format!("{base}{dot}{shown}")
}

fn owned<'n>(value: impl Into<Value>) -> Cow<'n, Value> {
    Cow::Owned(value.into())
}

/// Goes down without copying more than the part that is wanted.
fn follow<'n>(
    value: Cow<'n, Value>,
    find: impl for<'v> Fn(&'v Value) -> Result<&'v Value, Missing>,
) -> Result<Cow<'n, Value>, Missing> {
    match value {
        Cow::Borrowed(value) => find(value).map(Cow::Borrowed),
        Cow::Owned(value) => find(&value).map(|found| Cow::Owned(found.clone())),
    }
}

/// The outputs of a parallel are a map in written order; a number means the place in that order.
fn by_order<'v>(value: &'v Value, index: i64, rest: &[Segment]) -> Result<&'v Value, Missing> {
    let map = value.as_object().into_iter().flat_map(|map| map.values());
    let length = map.clone().count();
    let here = path::position(index, length).and_then(|place| map.clone().nth(place)).ok_or_else(|| Missing {
        upto: String::new(),
        segment: format!("[{index}]"),
        there: format!("a block of {length}"),
    })?;
    path::get(here, rest).map_err(|missing| Missing { upto: format!("[{index}].{}", missing.upto), ..missing })
}

/// ``steps.fetch.output has no field `prise`; it has: price, shop``
fn unset(name: &str, vars: &Value, reader: Option<String>) -> String {
    let by = reader.map(|reader| format!(" when {reader} reads it")).unwrap_or_default();
    let set: Vec<String> = vars.as_object().into_iter().flatten().map(|(name, _)| format!("`{name}`")).collect();
    let set = if set.is_empty() { "no variable is".to_owned() } else { format!("set are {}", set.join(", ")) };
    format!("the variable `{name}` is not set{by}; {set}")
}

fn missing_message(base: &str, missing: &Missing) -> String {
    let upto = missing.upto.trim_end_matches('.');
    let dot = if upto.is_empty() || upto.starts_with('[') { "" } else { "." };
    let there = match missing.there.strip_prefix("keys: ") {
        Some(keys) => format!("it has: {keys}"),
        None => format!("it is {}", missing.there),
    };
    let what = if missing.segment.starts_with('[') && !missing.segment.contains('\'') { "item" } else { "field" };
    format!("{base}{dot}{upto} has no {what} `{}`; {there}", missing.segment)
}

/// A value as text: text as it is, anything else as JSON.
pub fn text_of(value: &Value) -> Cow<'_, str> {
    match value {
        Value::String(text) => Cow::Borrowed(text),
        other => Cow::Owned(other.to_string()),
    }
}

/// What sort of value it is, for a message.
pub fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The sort and the value itself, as far as a line allows.
fn shown(value: &Value) -> String {
    let json = value.to_string();
    let mut text: String = json.chars().take(MAX_SHOWN_CHARS).collect();
    if text.len() < json.len() {
        text.push('…');
    }
    if value.is_null() { text } else { format!("{} {text}", kind(value)) }
}

/// How templates take a value for yes or no: empty is no.
pub fn truth(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// How conditions take a value: a boolean, or one of the words that stand for one.
fn boolean(value: &Value) -> Result<bool, EvalError> {
    let word = match value {
        Value::Bool(value) => return Ok(*value),
        Value::String(text) => text.trim().to_lowercase(),
        _ => String::new(),
    };
    match word.as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" => Ok(false),
        _ => Err(EvalError::Type(format!("a condition must be true or false, got {}", shown(value)))),
    }
}

/// What a value costs to hand to a filter.
fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => text.len() / BYTES_PER_STEP,
        Value::Array(list) => list.len() / ITEMS_PER_STEP,
        Value::Object(map) => map.len() / ITEMS_PER_STEP,
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    }
}

pub fn holds(op: Comparison, left: &Value, right: &Value) -> Result<bool, EvalError> {
    Ok(match op {
        Comparison::Equal => equal(left, right),
        Comparison::NotEqual => !equal(left, right),
        Comparison::In => contains(right, left)?,
        Comparison::NotIn => !contains(right, left)?,
        Comparison::Less => order(op, left, right)?.is_lt(),
        Comparison::LessOrEqual => order(op, left, right)?.is_le(),
        Comparison::Greater => order(op, left, right)?.is_gt(),
        Comparison::GreaterOrEqual => order(op, left, right)?.is_ge(),
    })
}

/// Equal as JSON, where `1` and `1.0` are the same number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => numbers(a, b) == Some(Ordering::Equal),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| equal(a, b)))
        }
        (a, b) => a == b,
    }
}

fn order(op: Comparison, left: &Value, right: &Value) -> Result<Ordering, EvalError> {
    let ordering = match (left, right) {
        (Value::Number(a), Value::Number(b)) => numbers(a, b),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        _ => None,
    };
    ordering.ok_or_else(|| EvalError::Type(format!("cannot compare {} {} {}", shown(left), op.symbol(), shown(right))))
}

fn numbers(a: &Number, b: &Number) -> Option<Ordering> {
    match (integer(a), integer(b)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => a.as_f64()?.partial_cmp(&b.as_f64()?),
    }
}

fn integer(number: &Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

/// Is it in the list, among the keys, or part of the text?
pub fn contains(container: &Value, value: &Value) -> Result<bool, EvalError> {
    match (container, value) {
        (Value::Array(list), value) => Ok(list.iter().any(|item| equal(item, value))),
        (Value::Object(map), Value::String(key)) => Ok(map.contains_key(key)),
        (Value::String(text), Value::String(part)) => Ok(text.contains(part.as_str())),
        (container, value) => Err(EvalError::Type(format!("cannot look for {} in {}", shown(value), shown(container)))),
    }
}

fn negative(value: &Value) -> Result<Value, EvalError> {
    match value {
        Value::Number(number) => calculate(Arithmetic::Subtract, &Number::from(0), number),
        other => Err(EvalError::Type(format!("cannot negate {}", shown(other)))),
    }
}

fn calculate(op: Arithmetic, a: &Number, b: &Number) -> Result<Value, EvalError> {
    let failed = || EvalError::Type(format!("cannot calculate {a} {} {b}: no such number", op.symbol()));
    if let (Some(a), Some(b)) = (integer(a), integer(b))
        && op != Arithmetic::Divide
        && !(op == Arithmetic::Power && b < 0)
    {
        return whole_result(op, a, b).ok_or_else(failed);
    }
    let (a, b) = (a.as_f64().ok_or_else(failed)?, b.as_f64().ok_or_else(failed)?);
    let result = match op {
        Arithmetic::Add => a + b,
        Arithmetic::Subtract => a - b,
        Arithmetic::Multiply => a * b,
        Arithmetic::Divide => a / b,
        Arithmetic::DivideWhole => (a / b).floor(),
        Arithmetic::Remainder => a - b * (a / b).floor(),
        Arithmetic::Power => a.powf(b),
    };
    Number::from_f64(result).map(Value::Number).ok_or_else(failed)
}

/// Whole numbers stay whole; what leaves the range of JSON's integers is no result.
fn whole_result(op: Arithmetic, a: i128, b: i128) -> Option<Value> {
    let floor = |a: i128, b: i128| Some(a.checked_div_euclid(b)? - i128::from(b < 0 && a.checked_rem_euclid(b)? != 0));
    let result = match op {
        Arithmetic::Add => a.checked_add(b),
        Arithmetic::Subtract => a.checked_sub(b),
        Arithmetic::Multiply => a.checked_mul(b),
        Arithmetic::DivideWhole => floor(a, b),
        Arithmetic::Remainder => floor(a, b).and_then(|quotient| a.checked_sub(b.checked_mul(quotient)?)),
        Arithmetic::Power => a.checked_pow(u32::try_from(b).ok()?),
        Arithmetic::Divide => None,
    }?;
    i64::try_from(result).map(Value::from).or_else(|_| u64::try_from(result).map(Value::from)).ok()
}

fn whole(value: &Value) -> Result<Option<i64>, EvalError> {
    match value {
        Value::Null => Ok(None),
        value => match value.as_i64() {
            Some(number) => Ok(Some(number)),
            None => Err(EvalError::Type(format!("needs a whole number, got {}", shown(value)))),
        },
    }
}

/// `list[start:stop:step]` as Python has it.
fn pick<T: Clone>(items: &[T], [start, stop, step]: [Option<i64>; 3]) -> Result<Vec<T>, EvalError> {
    let step = step.unwrap_or(1);
    if step == 0 {
        return Err(EvalError::Type("the step of a slice must not be 0".to_owned()));
    }
    let length = i64::try_from(items.len()).unwrap_or(i64::MAX);
    let (low, high) = if step > 0 { (0, length) } else { (-1, length - 1) };
    let bound = |given: Option<i64>, otherwise: i64| match given {
        Some(at) if at < 0 => at.saturating_add(length).clamp(low, high),
        Some(at) => at.clamp(low, high),
        None => otherwise,
    };
    let (mut at, end) =
        if step > 0 { (bound(start, low), bound(stop, high)) } else { (bound(start, high), bound(stop, low)) };
    let mut picked = Vec::new();
    while (step > 0 && at < end) || (step < 0 && at > end) {
        picked.extend(usize::try_from(at).ok().and_then(|at| items.get(at)).cloned());
        at = at.saturating_add(step);
    }
    Ok(picked)
}

impl Arithmetic {
    fn symbol(self) -> &'static str {
        match self {
            Arithmetic::Add => "+",
            Arithmetic::Subtract => "-",
            Arithmetic::Multiply => "*",
            Arithmetic::Divide => "/",
            Arithmetic::DivideWhole => "//",
            Arithmetic::Remainder => "%",
            Arithmetic::Power => "**",
        }
    }
}

impl Comparison {
    fn symbol(self) -> &'static str {
        match self {
            Comparison::Equal => "==",
            Comparison::NotEqual => "!=",
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
            Comparison::In => "in",
            Comparison::NotIn => "not in",
        }
    }

    /// The comparison that a test such as `is gt(3)` stands for.
    fn named(test: &str) -> Option<Comparison> {
        Some(match test {
            "eq" | "equalto" | "==" | "sameas" => Comparison::Equal,
            "ne" | "!=" => Comparison::NotEqual,
            "lt" | "lessthan" | "<" => Comparison::Less,
            "le" | "<=" => Comparison::LessOrEqual,
            "gt" | "greaterthan" | ">" => Comparison::Greater,
            "ge" | ">=" => Comparison::GreaterOrEqual,
            "in" => Comparison::In,
            _ => return None,
        })
    }
}
