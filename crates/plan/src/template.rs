//! Values with references in them: what a person writes in `prompt`, `input`, `with`, `output`.
//!
//! A template is read once and filled in one pass: what is put in is data and is never scanned again. It knows nothing
//! of where values come from; names are asked of [`Names`].

use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use minijinja::machinery::{Span as Place, ast};
use minijinja::syntax::SyntaxConfig;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::expr::{
    EvalError, Expr, Flaw, Lowering, Names, Node, Reference, Root, Scope, narrowed, problem, rewrite_text,
    sole_expression, syntax_flaw, text_of, truth,
};
use crate::outline::outline;
use crate::path::Segment;
use crate::weight::Room;
use crate::{Problem, Span};

/// Text made from one template; a prompt larger than this fits no model.
const MAX_TEXT_BYTES: usize = 16 * 1024 * 1024;

/// How much of a tag an error shows.
const MAX_TAG_CHARS: usize = 120;

/// Deeper values are refused, so that walking one needs little stack.
const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Template {
    /// Nothing to put in.
    Literal(Value),
    /// A string that is exactly one reference: keeps the value's type.
    Ref(Expr),
    /// Text with references and, in prompts, `{% for %}` and `{% if %}`.
    Text(Text),
    List(Vec<Template>),
    Map(Vec<(String, Template)>),
}

impl Template {
    /// One string as a person wrote it.
    pub fn text(source: &str, span: Span) -> Result<Template, Problem> {
        if !["{{", "{%", "{#"].iter().any(|open| source.contains(open)) {
            return Ok(Template::Literal(Value::from(source)));
        }
        match sole_expression(source) {
            Some(place) => {
                let inside = &source[place.clone()];
                let start = place.start + (inside.len() - inside.trim_start().len());
                let place = start..start + inside.trim().len();
                Expr::parse(inside.trim(), narrowed(span, source.len(), &place)).map(Template::Ref)
            }
            None => Text::parse(source, span).map(Template::Text),
        }
    }

    /// Text that is taken as it stands: braces in it mean nothing.
    pub fn plain(text: &str, span: Span) -> Template {
        match ["{{", "{%", "{#"].iter().any(|open| text.contains(open)) {
            true => Template::Text(Text::new(escaped(text), span)),
            false => Template::Literal(Value::from(text)),
        }
    }

    /// A whole value; `span_of` gives the place of a JSON pointer below it.
    pub fn value(value: &Value, span_of: &dyn Fn(&str) -> Span) -> Result<Template, Vec<Problem>> {
        let mut problems = Vec::new();
        let template = walk(value, &mut String::new(), 0, span_of, &mut problems);
        if problems.is_empty() { Ok(template) } else { Err(problems) }
    }

    pub fn render(&self, names: &dyn Names) -> Result<Value, EvalError> {
        self.render_within(names, 0, &mut Room::new())
    }

    fn render_within(&self, names: &dyn Names, depth: usize, room: &mut Room) -> Result<Value, EvalError> {
        let value = match self {
            Template::Literal(value) => value.clone(),
            Template::Ref(expr) => expr.eval(names)?,
            Template::Text(text) => Value::String(text.render(names)?),
            Template::List(items) => {
                room.open(depth)?;
                return items.iter().map(|item| item.render_within(names, depth + 1, room)).collect();
            }
            Template::Map(fields) => {
                room.open(depth)?;
                let field = |(key, field): &(String, Template)| {
                    room.take_key(key)?;
                    Ok((key.clone(), field.render_within(names, depth + 1, room)?))
                };
                return fields.iter().map(field).collect::<Result<_, _>>().map(Value::Object);
            }
        };
        room.take(&value, depth)?;
        Ok(value)
    }

    /// Every reference in it, with its place.
    pub fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t [(Root, Vec<Segment>)], Span)) {
        self.visit_all(&mut |reference, span, _| each(std::slice::from_ref(reference), span));
    }

    /// Every reference in it, with its place and whether it may be missing.
    pub fn visit_all<'t>(&'t self, each: &mut dyn FnMut(&'t (Root, Vec<Segment>), Span, bool)) {
        match self {
            Template::Literal(_) => {}
            Template::Ref(expr) => {
                for (index, reference) in expr.refs().iter().enumerate() {
                    each(reference, expr.ref_span(index), expr.is_excused(index));
                }
            }
            Template::Text(text) => text.visit(each),
            Template::List(items) => items.iter().for_each(|item| item.visit_all(each)),
            Template::Map(fields) => fields.iter().for_each(|(_, field)| field.visit_all(each)),
        }
    }

    fn literal(&self) -> Option<&Value> {
        match self {
            Template::Literal(value) => Some(value),
            _ => None,
        }
    }
}

/// A value as it appears inside text: text as it is, anything else as JSON.
pub fn in_text(value: &Value) -> String {
    text_of(value).into_owned()
}

/// A value as indented JSON, or what stands in for it where it is larger than what travels inline: a file of the run
/// (`file` and its path) or a row of the database (`db`). Only formats whose documents promise a reference use it.
pub(crate) fn in_text_or_reference(value: &Value, place: &[Value], names: &dyn Names) -> Result<Value, EvalError> {
    let json = value.to_string();
    let output_ref = match place {
        [kind, path] if kind == "file" => json!({"type": "file", "path": path}),
        [kind] if kind == "db" => json!({"type": "db", "table": "blobs", "row_id": hash_of(&json)}),
        [kind, whole] if kind == "db" => {
            json!({"type": "db", "table": "blobs", "row_id": hash_of(&whole.to_string())})
        }
        _ => return Err(EvalError::Type("reference takes 'file' and a path, or 'db' and what it is a part of".into())),
    };
    if json.len() as u64 <= names.inline_bytes() {
        return Ok(Value::from(format!("{value:#}")));
    }
    names.referred(&output_ref);
    Ok(Value::from(format!("{:#}", stand_in(value, &json, output_ref))))
}

/// The hash that names the value as it is stored: its compact JSON, also for a plain text.
fn hash_of(json: &str) -> String {
    blake3::hash(json.as_bytes()).to_hex().to_string()
}

fn stand_in(value: &Value, json: &str, output_ref: Value) -> Value {
    let mut meta = json!({"bytes": json.len()});
    if let Some(list) = only_list(value) {
        meta["count"] = Value::from(list.len());
    }
    json!({"summary": outline(value), "output_ref": output_ref, "meta": meta})
}

/// A list, or the one list that an object holds: what a count is about.
fn only_list(value: &Value) -> Option<&Vec<Value>> {
    match value {
        Value::Array(list) => Some(list),
        Value::Object(map) => {
            let mut lists = map.values().filter_map(Value::as_array);
            lists.next().filter(|_| lists.next().is_none())
        }
        _ => None,
    }
}

fn walk(
    value: &Value,
    pointer: &mut String,
    depth: usize,
    span_of: &dyn Fn(&str) -> Span,
    problems: &mut Vec<Problem>,
) -> Template {
    if depth > MAX_DEPTH {
        problems.push(Problem::error(span_of(pointer), format!("nested more than {MAX_DEPTH} levels deep")));
        return Template::Literal(Value::Null);
    }
    let mut below = |segment: &str, value: &Value| {
        let length = pointer.len();
        pointer.push('/');
        pointer.push_str(&segment.replace('~', "~0").replace('/', "~1"));
        let template = walk(value, pointer, depth + 1, span_of, problems);
        pointer.truncate(length);
        template
    };
    match value {
        Value::String(text) => Template::text(text, span_of(pointer)).unwrap_or_else(|problem| {
            problems.push(problem);
            Template::Literal(Value::Null)
        }),
        Value::Array(items) => {
            let items: Vec<_> = items.iter().enumerate().map(|(n, item)| below(&n.to_string(), item)).collect();
            let literals: Option<Vec<Value>> = items.iter().map(|item| item.literal().cloned()).collect();
            literals.map_or(Template::List(items), |values| Template::Literal(Value::Array(values)))
        }
        Value::Object(map) => {
            let fields: Vec<_> = map.iter().map(|(key, field)| (key.clone(), below(key, field))).collect();
            let literal = |(key, field): &(String, Template)| Some((key.clone(), field.literal()?.clone()));
            let literals: Option<serde_json::Map<String, Value>> = fields.iter().map(literal).collect();
            literals.map_or(Template::Map(fields), |map| Template::Literal(Value::Object(map)))
        }
        other => Template::Literal(other.clone()),
    }
}

/// Text as a template that gives just this text, whatever braces it holds.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        out.push_str(&rest[..at]);
        let end = at + 1;
        match rest[end..].chars().next() {
            // At the end, too: what is put behind it may begin with a brace.
            Some('{' | '%' | '#') | None => out.push_str("{{ '{' }}"),
            _ => out.push('{'),
        }
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

/// Text with tags in it. Data like [`Expr`]: its source, compiled on first use.
#[derive(Clone)]
pub struct Text {
    source: String,
    span: Span,
    compiled: OnceLock<Arc<Result<Compiled, Flaw>>>,
}

#[derive(Debug, Clone)]
struct Compiled {
    parts: Vec<Part>,
    refs: Vec<Reference>,
    places: Vec<Range<usize>>,
    excused: Vec<bool>,
}

#[derive(Debug, Clone)]
enum Part {
    Raw(String),
    Emit(Code),
    For(Box<For>),
    If(Code, Vec<Part>, Vec<Part>),
    Set(Vec<String>, Code),
    SetText(String, Vec<Part>),
    /// Names set inside stay inside.
    Block(Vec<Part>),
}

/// An expression in a tag, with the tag as written, for messages.
#[derive(Debug, Clone)]
struct Code {
    node: Node,
    tag: String,
}

#[derive(Debug, Clone)]
struct For {
    targets: Vec<String>,
    over: Code,
    only: Option<Code>,
    body: Vec<Part>,
    otherwise: Vec<Part>,
}

impl Text {
    fn new(source: String, span: Span) -> Text {
        Text { source, span, compiled: OnceLock::new() }
    }

    fn parse(source: &str, span: Span) -> Result<Text, Problem> {
        let text = Text::new(source.to_owned(), span);
        match text.compiled() {
            Ok(_) => Ok(text),
            Err(flaw) => Err(problem(flaw, source, span)),
        }
    }

    pub fn source(&self) -> &str {
        &self.source
    }

    fn compiled(&self) -> Result<&Compiled, &Flaw> {
        self.compiled.get_or_init(|| Arc::new(compile(&self.source))).as_ref().as_ref()
    }

    fn render(&self, names: &dyn Names) -> Result<String, EvalError> {
        let compiled = self.compiled().map_err(|flaw| EvalError::Type(flaw.message.clone()))?;
        let out = String::with_capacity(self.source.len());
        let mut rendering = Rendering { scope: Scope::new(names), out };
        rendering.parts(&compiled.parts)?;
        Ok(rendering.out)
    }

    fn visit<'t>(&'t self, each: &mut dyn FnMut(&'t (Root, Vec<Segment>), Span, bool)) {
        let Ok(compiled) = self.compiled() else { return };
        for ((reference, place), excused) in compiled.refs.iter().zip(&compiled.places).zip(&compiled.excused) {
            each(reference, narrowed(self.span, self.source.len(), place), *excused);
        }
    }
}

fn compile(source: &str) -> Result<Compiled, Flaw> {
    let rewritten = rewrite_text(source)?;
    // A prompt's last line end is the author's.
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    let syntax = syntax.map_err(|error| Flaw::new(0..source.len(), error.to_string()))?;
    let tree = minijinja::machinery::parse(&rewritten.text, "text", syntax)
        .map_err(|error| syntax_flaw(&error, &rewritten, source))?;
    let mut lowering = Lowering::new(&rewritten, source);
    let parts = match &tree {
        ast::Stmt::Template(template) => lower_all(&mut lowering, &template.children)?,
        other => lower_all(&mut lowering, std::slice::from_ref(other))?,
    };
    Ok(Compiled { parts, refs: lowering.refs, places: lowering.places, excused: lowering.excused })
}

fn lower_all(lowering: &mut Lowering<'_>, statements: &[ast::Stmt<'_>]) -> Result<Vec<Part>, Flaw> {
    statements.iter().map(|statement| lower(lowering, statement)).collect()
}

/// Statements in a scope of their own.
fn lower_scoped(lowering: &mut Lowering<'_>, statements: &[ast::Stmt<'_>]) -> Result<Vec<Part>, Flaw> {
    let mark = lowering.open();
    let parts = lower_all(lowering, statements);
    lowering.close(mark);
    parts
}

fn lower(lowering: &mut Lowering<'_>, statement: &ast::Stmt<'_>) -> Result<Part, Flaw> {
    match statement {
        ast::Stmt::EmitRaw(raw) => Ok(Part::Raw(raw.raw.to_owned())),
        ast::Stmt::EmitExpr(emit) => code(lowering, &emit.expr, emit.span()).map(Part::Emit),
        ast::Stmt::ForLoop(each) => lowering.descend(each.span(), |lowering| lower_for(lowering, each)),
        ast::Stmt::IfCond(choice) => lowering.descend(choice.span(), |lowering| {
            let test = code(lowering, &choice.expr, choice.span())?;
            let yes = lower_scoped(lowering, &choice.true_body)?;
            Ok(Part::If(test, yes, lower_scoped(lowering, &choice.false_body)?))
        }),
        ast::Stmt::WithBlock(with) => lowering.descend(with.span(), |lowering| lower_with(lowering, with)),
        ast::Stmt::Set(set) => {
            let value = code(lowering, &set.expr, set.span())?;
            targets(lowering, &set.target).map(|names| Part::Set(names, value))
        }
        ast::Stmt::SetBlock(set) if set.filter.is_none() => lowering.descend(set.span(), |lowering| {
            let body = lower_scoped(lowering, &set.body)?;
            let mut names = targets(lowering, &set.target)?;
            Ok(Part::SetText(names.swap_remove(0), body))
        }),
        other => Err(refused(lowering, other)),
    }
}

fn lower_for(lowering: &mut Lowering<'_>, each: &ast::Spanned<ast::ForLoop<'_>>) -> Result<Part, Flaw> {
    if each.recursive {
        return Err(lowering.flaw(each.span(), "`recursive` loops are not part of the language"));
    }
    let over = code(lowering, &each.iter, each.span())?;
    let mark = lowering.open();
    // Inside `{% for %}`, `loop` is the template's.
    lowering.declare("loop");
    let targets = targets(lowering, &each.target)?;
    let only = each.filter_expr.as_ref().map(|only| code(lowering, only, each.span())).transpose()?;
    let body = lower_all(lowering, &each.body)?;
    lowering.close(mark);
    let otherwise = lower_scoped(lowering, &each.else_body)?;
    Ok(Part::For(Box::new(For { targets, over, only, body, otherwise })))
}

fn lower_with(lowering: &mut Lowering<'_>, with: &ast::Spanned<ast::WithBlock<'_>>) -> Result<Part, Flaw> {
    let mark = lowering.open();
    let mut parts = Vec::with_capacity(with.assignments.len() + with.body.len());
    for (target, value) in &with.assignments {
        let value = code(lowering, value, with.span())?;
        parts.push(Part::Set(targets(lowering, target)?, value));
    }
    parts.extend(lower_all(lowering, &with.body)?);
    lowering.close(mark);
    Ok(Part::Block(parts))
}

fn code(lowering: &mut Lowering<'_>, expr: &ast::Expr<'_>, place: Place) -> Result<Code, Flaw> {
    let node = lowering.expr(expr)?;
    let written = lowering.written(place).trim_start_matches("{{");
    let tag = written.split("%}").next().unwrap_or(written).trim().trim_end_matches('-').trim_end();
    Ok(Code { node, tag: tag.chars().take(MAX_TAG_CHARS).collect() })
}

/// The names that a `for` or `set` declares: one, or several that take a list apart.
fn targets(lowering: &mut Lowering<'_>, target: &ast::Expr<'_>) -> Result<Vec<String>, Flaw> {
    let items = match target {
        ast::Expr::Var(_) => std::slice::from_ref(target),
        ast::Expr::List(list) if !list.items.is_empty() => list.items.as_slice(),
        ast::Expr::Tuple(tuple) if !tuple.items.is_empty() => tuple.items.as_slice(),
        other => return Err(lowering.flaw(other.span(), "only a plain name can be set")),
    };
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let ast::Expr::Var(var) = item else {
            return Err(lowering.flaw(item.span(), "only a plain name can be set"));
        };
        lowering.declare(var.id);
        names.push(var.id.to_owned());
    }
    Ok(names)
}

fn refused(lowering: &Lowering<'_>, statement: &ast::Stmt<'_>) -> Flaw {
    let (tag, place) = match statement {
        ast::Stmt::Block(s) => ("block", s.span()),
        ast::Stmt::Import(s) => ("import", s.span()),
        ast::Stmt::FromImport(s) => ("from", s.span()),
        ast::Stmt::Extends(s) => ("extends", s.span()),
        ast::Stmt::Include(s) => ("include", s.span()),
        ast::Stmt::Macro(s) => ("macro", s.span()),
        ast::Stmt::CallBlock(s) => ("call", s.span()),
        ast::Stmt::Do(s) => ("do", s.span()),
        ast::Stmt::AutoEscape(s) => ("autoescape", s.span()),
        ast::Stmt::FilterBlock(s) => ("filter", s.span()),
        ast::Stmt::SetBlock(s) => ("set … | filter", s.span()),
        _ => ("tag", Default::default()),
    };
    let mut flaw = lowering.flaw(place, format!("`{{% {tag} %}}` is not part of the language"));
    flaw.help = Some("text may use {{ … }}, {% for %}, {% if %}, {% set %}, {% with %} and {% raw %}".to_owned());
    flaw
}

struct Rendering<'n> {
    scope: Scope<'n>,
    out: String,
}

impl<'n> Rendering<'n> {
    fn parts(&mut self, parts: &'n [Part]) -> Result<(), EvalError> {
        parts.iter().try_for_each(|part| self.part(part))
    }

    fn eval(&mut self, code: &'n Code) -> Result<Cow<'n, Value>, EvalError> {
        self.scope.eval(&code.node).map_err(|error| error.within(&code.tag))
    }

    fn scoped(&mut self, parts: &'n [Part]) -> Result<(), EvalError> {
        let mark = self.scope.mark();
        let result = self.parts(parts);
        self.scope.forget(mark);
        result
    }

    fn part(&mut self, part: &'n Part) -> Result<(), EvalError> {
        match part {
            Part::Raw(text) => self.write(text),
            Part::Emit(code) => {
                let value = self.eval(code)?;
                self.write(&text_of(&value))
            }
            Part::If(test, yes, no) => {
                let taken = truth(&*self.eval(test)?);
                self.scoped(if taken { yes } else { no })
            }
            Part::Set(names, code) => {
                let value = self.eval(code)?;
                self.assign(names, value)
            }
            Part::SetText(name, body) => {
                let start = self.out.len();
                self.scoped(body)?;
                let text = self.out.split_off(start);
                self.scope.spend_bytes(text.len())?;
                self.scope.set(name, Cow::Owned(Value::String(text)));
                Ok(())
            }
            Part::Block(parts) => self.scoped(parts),
            Part::For(each) => self.each(each),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), EvalError> {
        self.scope.spend(1)?;
        if self.out.len() + text.len() > MAX_TEXT_BYTES {
            return Err(EvalError::Limit(format!("the text would have more than {MAX_TEXT_BYTES} bytes")));
        }
        self.out.push_str(text);
        Ok(())
    }

    fn each(&mut self, each: &'n For) -> Result<(), EvalError> {
        let mut items = items(self.eval(&each.over)?).map_err(|error| error.within(&each.over.tag))?;
        if let Some(only) = &each.only {
            items = self.selected(items, each, only)?;
        }
        if items.is_empty() {
            return self.scoped(&each.otherwise);
        }
        let length = items.len();
        for (index, item) in items.into_iter().enumerate() {
            self.scope.spend(1)?;
            let mark = self.scope.mark();
            self.scope.set("loop", Cow::Owned(position(index, length)));
            self.assign(&each.targets, item)?;
            self.parts(&each.body)?;
            self.scope.forget(mark);
        }
        Ok(())
    }

    fn selected(
        &mut self,
        items: Vec<Cow<'n, Value>>,
        each: &'n For,
        only: &'n Code,
    ) -> Result<Vec<Cow<'n, Value>>, EvalError> {
        let mut kept = Vec::new();
        for item in items {
            let mark = self.scope.mark();
            self.assign(&each.targets, item.clone())?;
            if truth(&*self.eval(only)?) {
                kept.push(item);
            }
            self.scope.forget(mark);
        }
        Ok(kept)
    }

    /// One name takes the value; several take a list apart.
    fn assign(&mut self, names: &'n [String], value: Cow<'n, Value>) -> Result<(), EvalError> {
        if let [name] = names {
            self.scope.set(name, value);
            return Ok(());
        }
        let parts = match value {
            Cow::Borrowed(Value::Array(_)) | Cow::Owned(Value::Array(_)) => items(value)?,
            other => vec![other],
        };
        if parts.len() != names.len() {
            let message = format!("{} names cannot take {} values", names.len(), parts.len());
            return Err(EvalError::Type(message));
        }
        names.iter().zip(parts).for_each(|(name, part)| self.scope.set(name, part));
        Ok(())
    }
}

/// What a loop goes over: the items of a list, the keys of an object, nothing for null.
fn items(value: Cow<'_, Value>) -> Result<Vec<Cow<'_, Value>>, EvalError> {
    match value {
        Cow::Borrowed(Value::Array(list)) => Ok(list.iter().map(Cow::Borrowed).collect()),
        Cow::Owned(Value::Array(list)) => Ok(list.into_iter().map(Cow::Owned).collect()),
        other => match &*other {
            Value::Object(map) => Ok(map.keys().map(|key| Cow::Owned(Value::from(key.as_str()))).collect()),
            Value::Null => Ok(Vec::new()),
            value => Err(EvalError::Type(format!("a loop needs a list, got {}", crate::path::describe(value)))),
        },
    }
}

/// The template's own `loop`.
fn position(index: usize, length: usize) -> Value {
    json!({
        "index": index + 1,
        "index0": index,
        "revindex": length - index,
        "revindex0": length - index - 1,
        "first": index == 0,
        "last": index + 1 == length,
        "length": length,
    })
}

impl std::fmt::Debug for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Text({:?})", self.source)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Text) -> bool {
        self.source == other.source
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        Ok(Text::new(String::deserialize(deserializer)?, Span::default()))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::expr::tests::{World, world};

    fn render(source: &str) -> Result<Value, EvalError> {
        Template::text(source, Span::default()).unwrap_or_else(|p| panic!("{source}: {p:?}")).render(&world())
    }

    #[test]
    fn text_is_filled() {
        for (source, expected) in [
            ("plain { } text", json!("plain { } text")),
            ("{{ input.n }}", json!(3)),
            (" {{ input.list }}\n", json!([3, 1, 2])),
            ("n is {{ input.n }}", json!("n is 3")),
            ("{{ input.list }} and {{ input.none }}", json!("[3,1,2] and null")),
            ("{{ input.q }}!", json!("it's \"quoted\"!")),
            ("{{ steps.my-step.output }}.", json!("{\"x\":1}.")),
            (
                "{% for x in input.list %}{{ loop.index }}:{{ x }}{% if not loop.last %}, {% endif %}{% endfor %}",
                json!("1:3, 2:1, 3:2"),
            ),
            ("{% for p in input.people %}- {{ p.name }}\n{% endfor %}", json!("- Ann\n- Bob\n")),
            ("{% for p in input.people if p.age > 25 %}{{ p.name }}{% else %}none{% endfor %}", json!("Ann")),
            ("{% for x in input.empty %}x{% else %}none{% endfor %}", json!("none")),
            ("{% for k, v in steps.fetch.output | items %}{{ k }}={{ v }};{% endfor %}", json!("price=5;shop=s;")),
            ("{% if input.n > 2 %}yes{% elif input.t %}maybe{% else %}no{% endif %}", json!("yes")),
            ("{% set x = input.n + 1 %}{{ x }}/{{ x }}", json!("4/4")),
            ("{% set x %}a{{ input.n }}{% endset %}[{{ x }}]", json!("[a3]")),
            ("{% with a = 1 %}{{ a }}{% endwith %}", json!("1")),
            ("{% raw %}{{ input.n }}{% endraw %} {# gone #}{{ loop.count }}", json!("{{ input.n }} 4")),
            ("a\n{%- if true %} b{% endif %}\n", json!("a b\n")),
            ("{{ 'a' }}{{ input.x | default('d') }}", json!("ad")),
        ] {
            assert_eq!(render(source), Ok(expected), "{source}");
        }
    }

    #[test]
    fn what_is_put_in_is_never_scanned() {
        for hostile in [
            "{{ input.n }}",
            "{% for x in input.list %}",
            "{# c #}",
            "«value:a:b»",
            "<< x >>",
            "$previous_output",
            "}}",
        ] {
            let world = World { value: json!({"input": {"x": hostile}}), null: false };
            let template = Template::text("[{{ input.x }}|{% set y = input.x %}{{ y }}]", Span::default()).unwrap();
            assert_eq!(template.render(&world), Ok(json!(format!("[{hostile}|{hostile}]"))));
            let map = Template::value(&json!({"a": "{{ input.x }}"}), &|_| Span::default()).unwrap();
            assert_eq!(map.render(&world), Ok(json!({"a": hostile})));
        }
    }

    #[test]
    fn plain_text_stays_as_it_is() {
        for text in ["", "{", "a {{ b }} {% c %} {# d", "{{{", "{{ '{' }}", "« » $x {x} }}", "ends with {"] {
            let plain = Template::plain(text, Span::default());
            assert_eq!(plain.render(&world()), Ok(json!(text)), "{plain:?}");
            let composed = Template::text(&format!("{}{{{{ input.n }}}}", escaped(text)), Span::default()).unwrap();
            let shown = composed.render(&world()).map(|value| in_text(&value));
            assert_eq!(shown, Ok(format!("{text}3")), "{composed:?}");
        }
    }

    #[test]
    fn a_reference_says_where_a_large_value_is() {
        let world = World { value: json!({"input": {"small": [1], "large": {"rows": vec![1; 40_000]}}}), null: false };
        let text = |source| Template::text(source, Span::default()).unwrap().render(&world);
        assert_eq!(text("{{ input.small | reference('file', 'a.json') }}"), Ok(json!("[\n  1\n]")));
        let shown: Value =
            serde_json::from_str(text("{{ input.large | reference('file', 'a.json') }}").unwrap().as_str().unwrap())
                .unwrap();
        assert_eq!(shown["output_ref"], json!({"type": "file", "path": "a.json"}));
        assert_eq!(shown["meta"]["count"], 40_000);
        assert_eq!(shown["summary"], "object with rows; rows: 40000 items; first: 1; last: 1");
        let shown = text("{{ input.large | reference('db') }}").unwrap();
        let hash = blake3::hash(world.value["input"]["large"].to_string().as_bytes()).to_hex().to_string();
        assert!(shown.as_str().unwrap().contains(&hash), "{shown}");
        assert!(text("{{ input.small | reference('shelf') }}").is_err());
    }

    #[test]
    fn large_values_go_into_text_whole() {
        let (list, long) = (json!(vec!["0123456789"; 10_000]), "é".repeat(3_000_000));
        let world = World { value: json!({"input": {"list": list, "text": long}}), null: false };
        let text = |source| Template::text(source, Span::default()).unwrap().render(&world).unwrap();
        assert_eq!(text("{{ input.list }}\n."), json!(format!("{list}\n.")));
        assert!(text("> {{ input.text }}") == json!(format!("> {long}")));
        assert!(text("{% for x in [input.text] %}{{ x }}!{% endfor %}") == json!(format!("{long}!")));
        let refused = Template::text("{{ input.text }}{{ input.text }}{{ input.text }}", Span::default());
        assert!(matches!(refused.unwrap().render(&world), Err(EvalError::Limit(text)) if text.contains("16777216")));
    }

    #[test]
    fn work_is_bounded() {
        for (source, expected) in [
            ("{% for a in range(1000) %}{% for b in range(1000) %}x{% endfor %}{% endfor %}", "steps of work"),
            ("{% for a in input.n %}x{% endfor %}", "needs a list, got a number (in `for a in input.n`)"),
            ("é {{ input.n < 'a' -}} b", "cannot compare a number 3 < a text \"a\" (in `input.n < 'a'`)"),
            ("{% if input.n < 'a' %}b{% endif %}", "(in `if input.n < 'a'`)"),
            ("{% for a, b in input.list %}x{% endfor %}", "2 names"),
        ] {
            let Err(EvalError::Type(message)) = render(source) else { panic!("{source}") };
            assert!(message.contains(expected), "{source}: {message}");
        }
        let Err(EvalError::Reference(message)) = render("a {{ steps.fetch.output.prise }}") else { panic!() };
        assert!(message.starts_with("steps.fetch.output has no field `prise`; it has: price, shop"), "{message}");
        let doubling = format!("{{% set x = 'x' %}}{}{{{{ x | length }}}}.", "{% set x = x ~ x %}".repeat(60));
        assert!(matches!(render(&doubling), Err(EvalError::Type(_))));
    }

    #[test]
    fn mistakes_are_problems_in_their_place() {
        for (source, marked, message) in [
            ("Hi {{ stpes.x.output }} there", "stpes.x.output", "unknown name `stpes`"),
            ("{{ stpes.x.output }}", "stpes.x.output", "unknown name `stpes`"),
            ("é {{ steps.my-step.outptu.x }}!", "steps.my-step.outptu.x", "no part `outptu`"),
            ("a {% include 'x' %}", "include 'x'", "{% include %}"),
            ("{% macro a() %}{% endmacro %}", "macro a()", "{% macro %}"),
            ("{% extends 'x' %}", "extends 'x'", "{% extends %}"),
            ("{% block a %}{% endblock %}", "block a", "{% block %}"),
            ("{% import 'x' as y %}", "import 'x' as y", "{% import %}"),
            ("x {{ input.n", "{{", "not closed"),
            ("{% for x in input.list %}", "", ""),
            ("{% if input.n %}", "", ""),
            ("{{ x }} {% for x in input.list %}{% endfor %}", "x", "unknown name `x`"),
            ("{% for x in input.list %}{% endfor %}{{ x }}", "x", "unknown name `x`"),
        ] {
            let problem = Template::text(source, Span::new(50, 50 + source.len())).unwrap_err();
            assert!(problem.message.contains(message), "{source}: {}", problem.message);
            let place = &source[problem.span.start as usize - 50..problem.span.end as usize - 50];
            assert!(place.contains(marked), "{source}: marked {place}");
        }
        let deep =
            ["{% if true %}".repeat(3_000), format!("{{% if true %}}{}{{% endif %}}", "{% elif true %}".repeat(5_000))];
        for source in deep {
            assert!(Template::text(&source, Span::default()).is_err());
        }
    }

    #[test]
    fn whole_values_are_templates() {
        let value = json!({"a": [1, {"b": "x"}], "c": "{{ input.n }}", "d": ["n={{ input.n }}", null]});
        let template = Template::value(&value, &|_| Span::default()).unwrap();
        let Template::Map(fields) = &template else { panic!("{template:?}") };
        assert!(matches!(fields[0].1, Template::Literal(_)), "a part without references is one literal");
        let expected = json!({"a": [1, {"b": "x"}], "c": 3, "d": ["n=3", null]});
        assert_eq!(template.render(&world()), Ok(expected.clone()));
        let stored = serde_json::to_string(&template).unwrap();
        let back: Template = serde_json::from_str(&stored).unwrap();
        assert_eq!(back, template);
        assert_eq!(back.render(&world()), Ok(expected));

        let pointers = std::cell::RefCell::new(Vec::new());
        let broken = json!({"a/b": ["{{ x }}", "ok"], "c": "{{ y }} {{ z }}"});
        let problems = Template::value(&broken, &|at| {
            pointers.borrow_mut().push(at.to_owned());
            Span::default()
        })
        .unwrap_err();
        assert_eq!(problems.len(), 2);
        assert_eq!(*pointers.borrow(), ["/a~1b/0", "/a~1b/1", "/c"]);
    }

    #[test]
    fn references_are_visited_with_their_places() {
        let source = "{% for p in input.people %}{{ p.name }} {{ loop.index }} {{ steps.a-b.output.x }}{% endfor %}";
        let template = Template::text(source, Span::new(7, 7 + source.len())).unwrap();
        let mut seen = Vec::new();
        template.visit(&mut |refs, span| {
            for (root, path) in refs {
                let written = &source[span.start as usize - 7..span.end as usize - 7];
                seen.push(format!("{root} {} <- {written}", crate::path::show(path)));
            }
        });
        assert_eq!(seen, ["input people <- input.people", "steps.a-b.output x <- steps.a-b.output.x"]);
    }
}
