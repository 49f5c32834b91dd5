//! What happens to a `dag` file before its meaning is read: `!include FILE` brings in other files, `${NAME, default}`
//! brings in variables of the environment.
//!
//! Files are put into the text, for they are part of it. Variables are data: while the text is parsed, a mark stands
//! for each, and its value is put into the scalars of the tree, so that no value can add a key or close a quote. A
//! variable that holds a secret is never looked up. Every place in the result leads back to the file as it was written.
//! It knows nothing of nodes and personas.

use std::collections::HashSet;
use std::ops::Range;

use relais_plan::{Problem, Problems, Source, Span};
use serde_json::Value;

use super::keys::{DEPLOYMENT, HOSTING, PROVIDER, TOOL_SETTINGS};
use super::personas::MODEL_PROVIDER;
use crate::Loader;
use crate::native::keys::means_secret;
use crate::yaml::{self, Data, Entry, Node};

/// Files within files.
const MAX_DEPTH: usize = 10;
/// Files in all: each costs a look at the disk.
const MAX_FILES: usize = 200;
/// Text that variables bring in all.
const MAX_VALUE_BYTES: usize = yaml::MAX_BYTES;

const INCLUDE: &str = "!include";
/// Stands around the number of what it replaces. It is for private use, and one that is in a file is replaced, too.
const MARK: char = '\u{f8f0}';

/// Maps whose values may name a secret: it is looked up when a server is started, and nowhere else.
const SETTINGS: &[&str] = &["env", "environment_variables", "headers"];
const SECRET: &str = "secret";

/// Does the text have a key at its top that only this format has?
pub(crate) fn is_likely(text: &str) -> bool {
    let mut lines = text.strip_prefix('\u{feff}').unwrap_or(text).lines();
    while let Some(line) = lines.next() {
        if line.starts_with("apps:") || line.starts_with("personas:") {
            return true;
        }
        let inline = line.split_once('{').is_some_and(|(_, inside)| inside.contains("nodes:"));
        if line.starts_with("workflow:")
            && (inline || first_level(lines.clone()).any(|line| line.starts_with("nodes:")))
        {
            return true;
        }
    }
    false
}

/// The lines one level below the one before, without their indentation.
fn first_level<'t>(lines: impl Iterator<Item = &'t str>) -> impl Iterator<Item = &'t str> {
    let mut level = None;
    lines.take_while(|line| line.is_empty() || line.starts_with([' ', '#', '\r'])).filter_map(move |line| {
        let inner = line.trim_start();
        let indent = line.len() - inner.len();
        let counts = !inner.is_empty() && !inner.starts_with('#');
        (counts && *level.get_or_insert(indent) == indent).then_some(inner)
    })
}

/// Is there anything to do?
pub(crate) fn is_needed(text: &str) -> bool {
    text.contains("${") || text.contains(INCLUDE)
}

/// A text with all its files in it, and the way back from every place.
pub(crate) struct Expansion {
    text: Source,
    files: Vec<File>,
    /// By where they start in the text.
    pieces: Vec<Piece>,
    marks: Vec<Mark>,
}

struct File {
    source: Source,
    lines: Vec<usize>,
    /// The line of the outermost file that brought it.
    at: Span,
}

/// A stretch of the text and where it comes from.
struct Piece {
    start: usize,
    file: usize,
    from: Range<usize>,
    /// Does each byte stand for the same byte there, or all for the whole?
    verbatim: bool,
}

struct Mark {
    /// Where it stands in the text.
    place: Range<usize>,
    written: String,
    meaning: Meaning,
}

enum Meaning {
    Text(&'static str),
    Variable { name: String, default: Option<String> },
}

/// A tree with what is wrong with its variables. Where one has no value, its name stands: what else is said of that
/// place says nothing.
pub(crate) struct Resolved {
    pub root: Node,
    pub problems: Problems,
    places: HashSet<Span>,
}

impl Resolved {
    /// What was found in the tree, without what is only said because a variable has no value.
    pub fn sound(&self, mut found: Problems) -> Problems {
        found.retain(|problem| !self.places.contains(&problem.span));
        found
    }

    /// The same with places in the outermost file.
    pub fn mapped(self, expansion: &Expansion) -> Resolved {
        let places = self.places.iter().map(|place| expansion.outer_span(*place)).collect();
        Resolved { root: expansion.mapped(self.root), places, ..self }
    }
}

/// Brings in all files. Variables are marked and wait for [`Expansion::resolve`].
pub(crate) fn expand(source: &Source, loader: &dyn Loader) -> Result<Expansion, Problems> {
    let text = Source { name: source.name.clone(), text: String::with_capacity(source.text.len()) };
    let expansion = Expansion { text, files: Vec::new(), pieces: Vec::new(), marks: Vec::new() };
    let mut expanding = Expanding { expansion, loader, open: Vec::new(), is_too_large: false, problems: Vec::new() };
    expanding.file(source.clone(), Span::default(), 0);
    if expanding.is_too_large {
        let message = format!("with all its files, the text has more than {} bytes", yaml::MAX_BYTES);
        expanding.problems.push(Problem::error(Span::default(), message));
    }
    match expanding.problems.is_empty() {
        true => Ok(expanding.expansion),
        false => Err(expanding.problems),
    }
}

struct Expanding<'l> {
    expansion: Expansion,
    loader: &'l dyn Loader,
    /// The files being read, outermost first.
    open: Vec<usize>,
    is_too_large: bool,
    problems: Problems,
}

impl Expanding<'_> {
    fn file(&mut self, source: Source, at: Span, indent: usize) {
        let text = source.text.clone();
        let index = self.expansion.add_file(source, at);
        self.open.push(index);
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            // The outermost file is measured when it is parsed.
            if index > 0 && self.is_full() {
                self.is_too_large = true;
                break;
            }
            self.line(line, Place { file: index, start }, indent);
            start += line.len();
        }
        self.open.pop();
    }

    fn is_full(&self) -> bool {
        self.expansion.text.text.len() > yaml::MAX_BYTES
    }

    fn line(&mut self, line: &str, place: Place, indent: usize) {
        let Some(include) = Include::read(line) else {
            let indent = if line.trim().is_empty() { 0 } else { indent };
            self.expansion.insert(&" ".repeat(indent), place.range(0..0));
            return self.expansion.copy(line, place);
        };
        if !include.head.trim().is_empty() {
            self.expansion.insert(&" ".repeat(indent), place.range(0..0));
            self.expansion.copy(include.head.trim_end(), place);
            self.expansion.insert("\n", place.range(0..line.len()));
        }
        let here = place.range(include.place.clone());
        let span = self.expansion.outer(&here);
        match self.load(include.file, place.file) {
            Err(message) => {
                let message = format!("`{}` cannot be included: {message}", include.file);
                let problem = self.expansion.told(&here, Problem::error(span, message));
                self.problems.push(problem);
            }
            Ok(source) => {
                self.file(source, span, indent + include.indent);
                if !self.expansion.text.text.ends_with('\n') {
                    self.expansion.insert("\n", here);
                }
            }
        }
    }

    fn load(&self, reference: &str, from: usize) -> Result<Source, String> {
        let files = &self.expansion.files;
        if reference.is_empty() {
            return Err("no file is named; write `!include shared.yaml`".into());
        }
        if reference.contains("${") {
            return Err("the name of a file holds no variables".into());
        }
        if self.open.len() > MAX_DEPTH {
            return Err(format!("files include one another more than {MAX_DEPTH} levels deep"));
        }
        if files.len() > MAX_FILES || self.is_full() {
            return Err(format!("more than {MAX_FILES} files or {} bytes in all", yaml::MAX_BYTES));
        }
        let name = |index: &usize| files.get(*index).map(|file| file.source.name.as_str()).unwrap_or_default();
        let mut source = self.loader.include(reference, name(&from))?;
        if let Some(first) = self.open.iter().position(|open| name(open) == source.name) {
            let chain: Vec<&str> = self.open.iter().skip(first).map(name).collect();
            return Err(format!("in a circle, {} includes {}", chain.join(" includes "), source.name));
        }
        if let Some(rest) = source.text.strip_prefix('\u{feff}') {
            source.text = rest.to_owned();
        }
        Ok(source)
    }
}

/// Where a line begins.
#[derive(Clone, Copy)]
struct Place {
    file: usize,
    start: usize,
}

impl Place {
    fn range(self, within: Range<usize>) -> (usize, Range<usize>) {
        (self.file, self.start + within.start..self.start + within.end)
    }
}

/// A line that brings in a file.
struct Include<'t> {
    /// What stands before it: nothing, `- `, `key: ` or `- key: `.
    head: &'t str,
    /// How far the file's text is moved in.
    indent: usize,
    file: &'t str,
    place: Range<usize>,
}

impl<'t> Include<'t> {
    fn read(line: &'t str) -> Option<Include<'t>> {
        let at = line.find(INCLUDE)?;
        let (head, after) = (&line[..at], &line[at + INCLUDE.len()..]);
        if !(after.trim().is_empty() || after.starts_with([' ', '\t'])) {
            return None;
        }
        let key = head.trim_start_matches([' ', '-']);
        let before = head.len() - key.len();
        let is_key = || key.trim_end().strip_suffix(':').is_some_and(is_simple) && key.ends_with(' ');
        let indent = match key.is_empty() {
            true => before,
            false if is_key() => before + 2,
            false => return None,
        };
        let file = after.trim();
        let file = file.split_once(" #").map_or(file, |(file, _)| file.trim_end());
        let file = ['"', '\''].iter().find_map(|quote| file.strip_prefix(*quote)?.strip_suffix(*quote)).unwrap_or(file);
        Some(Include { head, indent, file, place: at..at + line[at..].trim_end().len() })
    }
}

fn is_simple(key: &str) -> bool {
    let key = key.trim_matches(['"', '\'']);
    !key.is_empty() && key.chars().all(|letter| letter.is_alphanumeric() || ['_', '-', '.'].contains(&letter))
}

impl Expansion {
    fn add_file(&mut self, source: Source, at: Span) -> usize {
        let lines = source.text.match_indices('\n').map(|(newline, _)| newline + 1);
        let lines = std::iter::once(0).chain(lines).collect();
        self.files.push(File { source, lines, at });
        self.files.len() - 1
    }

    /// Text that is in no file, but is there because of what is at `from`.
    fn insert(&mut self, text: &str, (file, from): (usize, Range<usize>)) {
        if !text.is_empty() {
            self.pieces.push(Piece { start: self.text.text.len(), file, from, verbatim: false });
            self.text.text.push_str(text);
        }
    }

    /// Text of a file, its variables marked.
    fn copy(&mut self, text: &str, place: Place) {
        let mut at = 0;
        while let Some(open) = text[at..].find(['$', MARK]).map(|found| at + found) {
            let Some((length, meaning)) = meaning(&text[open..]) else {
                let next = open + 1;
                self.copy_plain(&text[at..next], place.range(at..next));
                at = next;
                continue;
            };
            self.copy_plain(&text[at..open], place.range(at..open));
            let start = self.text.text.len();
            self.insert(&format!("{MARK}{}{MARK}", self.marks.len()), place.range(open..open + length));
            let written = text[open..open + length].to_owned();
            self.marks.push(Mark { place: start..self.text.text.len(), written, meaning });
            at = open + length;
        }
        self.copy_plain(&text[at..], place.range(at..text.len()));
    }

    fn copy_plain(&mut self, text: &str, (file, from): (usize, Range<usize>)) {
        if text.is_empty() {
            return;
        }
        match self.pieces.last_mut() {
            Some(last) if last.verbatim && last.file == file && last.from.end == from.start => last.from.end = from.end,
            _ => self.pieces.push(Piece { start: self.text.text.len(), file, from, verbatim: true }),
        }
        self.text.text.push_str(text);
    }

    /// The tree of the text, with the values of its variables in it. Its places are places in the text.
    pub(crate) fn parse(&self, loader: &dyn Loader) -> Result<Resolved, Problems> {
        let mut root = yaml::parse(&self.text).map_err(|problems| self.located(problems))?;
        let (told, places) = (HashSet::new(), HashSet::new());
        let mut resolving = Resolving { expansion: self, loader, told, bytes: 0, problems: Vec::new(), places };
        resolving.level(&mut root);
        Ok(Resolved { root, problems: self.located(resolving.problems), places: resolving.places })
    }

    pub(crate) fn has_files(&self) -> bool {
        self.files.len() > 1
    }

    /// The tree with places in the outermost file.
    pub(crate) fn mapped(&self, mut root: Node) -> Node {
        self.map(&mut root);
        root
    }

    fn map(&self, node: &mut Node) {
        node.span = self.outer_span(node.span);
        match &mut node.data {
            Data::Scalar(_) => {}
            Data::List(items) => items.iter_mut().for_each(|item| self.map(item)),
            Data::Map(entries) => {
                for entry in entries {
                    entry.key_span = self.outer_span(entry.key_span);
                    self.map(&mut entry.value);
                }
            }
        }
    }

    /// Problems as the author sees them: in the outermost file, or with their place in another one.
    pub(crate) fn located(&self, problems: Problems) -> Problems {
        problems.into_iter().map(|problem| self.located_one(problem)).collect()
    }

    fn located_one(&self, mut problem: Problem) -> Problem {
        problem.message = self.as_written(&problem.message);
        if problem.span == Span::default() {
            return problem;
        }
        let from = self.origin(problem.span.start as usize);
        problem.span = self.outer_span(problem.span);
        self.told(&from, problem)
    }

    /// Says the file, if it is not the outermost.
    fn told(&self, (file, from): &(usize, Range<usize>), mut problem: Problem) -> Problem {
        let Some(file) = self.files.get(*file).filter(|_| *file > 0) else { return problem };
        let line = file.lines.partition_point(|start| *start <= from.start).max(1);
        let start = file.lines.get(line - 1).copied().unwrap_or_default();
        let column = file.source.text.get(start..from.start).map_or(0, |before| before.chars().count()) + 1;
        problem.message = format!("in {}:{line}:{column}: {}", file.source.name, problem.message);
        problem
    }

    /// A place in a file as one in the outermost.
    fn outer(&self, (file, from): &(usize, Range<usize>)) -> Span {
        match self.files.get(*file) {
            Some(inner) if *file > 0 => inner.at,
            Some(_) | None => Span::new(from.start, from.end),
        }
    }

    fn outer_span(&self, span: Span) -> Span {
        let (start, end) = (span.start as usize, span.end as usize);
        let first = self.origin(start);
        let first_span = self.outer(&first);
        if first.0 > 0 {
            return first_span;
        }
        if end <= start {
            return Span { start: first_span.start, end: first_span.start };
        }
        Span { start: first_span.start, end: self.outer(&self.origin(end - 1)).end.max(first_span.start) }
    }

    /// The file and the place that a byte of the text comes from.
    fn origin(&self, offset: usize) -> (usize, Range<usize>) {
        let after = self.pieces.partition_point(|piece| piece.start <= offset);
        let Some(piece) = self.pieces.get(after.saturating_sub(1)) else { return (0, 0..0) };
        if !piece.verbatim {
            return (piece.file, piece.from.clone());
        }
        let start = (piece.from.start + offset.saturating_sub(piece.start)).min(piece.from.end);
        (piece.file, start..(start + 1).min(piece.from.end))
    }

    /// Text with its marks as they were written.
    fn as_written(&self, text: &str) -> String {
        let shown = |(at, part): (usize, &str)| match self.mark(at, part) {
            Some((_, mark)) => mark.written.clone(),
            None => part.to_owned(),
        };
        text.split(MARK).enumerate().map(shown).collect()
    }

    /// Does the scalar stand in the text without quotes? It is found by its first mark, for an alias has another place.
    fn is_plain(&self, scalar: &str) -> bool {
        let mut parts = scalar.split(MARK);
        let before = parts.next().unwrap_or_default();
        let Some((_, mark)) = parts.next().and_then(|part| self.mark(1, part)) else { return false };
        let start = mark.place.start.saturating_sub(before.len());
        let text = &self.text.text;
        let (Some(ahead), Some(rest)) = (text.get(..start), text.get(start..)) else { return false };
        let outside = ahead.trim_end_matches(' ');
        let is_quoted = ahead.ends_with(['"', '\'']) || outside.ends_with("!!str");
        let is_block = outside.ends_with('\n') && opens_block(outside);
        rest.starts_with(scalar) && !is_quoted && !is_block
    }

    /// The tree with its marks as they were written.
    fn restore(&self, node: &mut Node) {
        match &mut node.data {
            Data::Scalar(Value::String(text)) => *text = self.as_written(text),
            Data::Scalar(_) => {}
            Data::List(items) => items.iter_mut().for_each(|item| self.restore(item)),
            Data::Map(entries) => {
                for entry in entries {
                    entry.key = self.as_written(&entry.key);
                    self.restore(&mut entry.value);
                }
            }
        }
    }

    /// What the `at`th part of a text that is split at the marks stands for, if it is one.
    fn mark(&self, at: usize, part: &str) -> Option<(usize, &Mark)> {
        let number = part.parse::<usize>().ok().filter(|_| at % 2 == 1)?;
        Some((number, self.marks.get(number)?))
    }
}

/// Does the last line end with `|` or `>`, perhaps with a sign or a number?
fn opens_block(text: &str) -> bool {
    let line = text.trim_end().rsplit('\n').next().unwrap_or_default();
    line.rsplit(' ').next().is_some_and(|word| word.starts_with(['|', '>']))
}

/// What a text that starts with a dollar sign or a mark stands for, and how much of it.
fn meaning(text: &str) -> Option<(usize, Meaning)> {
    if text.starts_with(MARK) {
        return Some((MARK.len_utf8(), Meaning::Text("\u{f8f0}")));
    }
    if text.starts_with("$${") {
        return Some(("$${".len(), Meaning::Text("${")));
    }
    let inside = text.strip_prefix("${")?;
    let inside = &inside[..inside.find(['}', '\n'])?];
    let after = "${".len() + inside.len();
    if !text[after..].starts_with('}') {
        return None;
    }
    let (name, default) = match inside.split_once(',') {
        Some((name, default)) => (name.trim(), Some(default.trim().to_owned())),
        None => (inside.trim(), None),
    };
    let named = name.starts_with(|letter: char| letter.is_ascii_alphabetic() || letter == '_')
        && name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    named.then(|| (after + 1, Meaning::Variable { name: name.to_owned(), default }))
}

/// Puts the values of variables into a tree.
struct Resolving<'e> {
    expansion: &'e Expansion,
    loader: &'e dyn Loader,
    /// The marks with a problem that was told: an alias would repeat it.
    told: HashSet<usize>,
    bytes: usize,
    problems: Problems,
    /// The scalars that hold a variable without a value.
    places: HashSet<Span>,
}

impl Resolving<'_> {
    /// The file, an app or its configuration: where the sections of a deployment stand.
    fn level(&mut self, node: &mut Node) {
        let Data::Map(entries) = &mut node.data else { return self.node(node, false) };
        let is_provided = entries.iter().any(|entry| self.is_provided(entry));
        for entry in entries {
            match (snake_case(&entry.key).as_str(), &mut entry.value.data) {
                ("apps", Data::List(apps)) => apps.iter_mut().for_each(|app| self.app(app)),
                (key, _) if DEPLOYMENT.has(key) || HOSTING.has(key) => self.expansion.restore(&mut entry.value),
                ("model", _) if is_provided => self.expansion.restore(&mut entry.value),
                ("tools", Data::List(tools)) => tools.iter_mut().for_each(|tool| self.tool(tool)),
                ("personas" | "agents", Data::List(personas)) => personas.iter_mut().for_each(|one| self.level(one)),
                ("model", Data::Map(settings)) => settings.iter_mut().for_each(|setting| self.model(setting)),
                ("app_config", _) => self.level(&mut entry.value),
                _ => self.entry(entry),
            }
        }
    }

    fn app(&mut self, app: &mut Node) {
        match super::is_foreign(app) {
            true => self.expansion.restore(app),
            false => self.level(app),
        }
    }

    /// Names a model that the configuration has: what stands under `model` is not used.
    fn is_provided(&self, entry: &Entry) -> bool {
        let names = match &entry.value.data {
            Data::List(names) => names.as_slice(),
            Data::Scalar(_) | Data::Map(_) => std::slice::from_ref(&entry.value),
        };
        let is_known = |name: &Node| name.as_text().is_some_and(|name| !self.loader.models(name).is_empty());
        snake_case(&entry.key) == MODEL_PROVIDER && names.iter().any(is_known)
    }

    /// A tool of a persona. What only its host elsewhere is told is not read here.
    fn tool(&mut self, node: &mut Node) {
        let Data::Map(entries) = &mut node.data else { return self.node(node, false) };
        for entry in entries {
            match TOOL_SETTINGS.has(&snake_case(&entry.key)) {
                true => self.expansion.restore(&mut entry.value),
                false => self.entry(entry),
            }
        }
    }

    /// A setting of a model. How its provider is reached is not read here, and its key least of all.
    fn model(&mut self, setting: &mut Entry) {
        match PROVIDER.has(&snake_case(&setting.key)) {
            true => self.expansion.restore(&mut setting.value),
            false => self.entry(setting),
        }
    }

    /// `settings`: the value belongs to a map or key that may name secrets.
    fn node(&mut self, node: &mut Node, settings: bool) {
        match &mut node.data {
            Data::Scalar(Value::String(text)) if text.contains(MARK) => {
                let span = node.span;
                let is_plain = self.expansion.is_plain(text);
                let resolved = self.text(text, span, Use::Value { settings });
                // As if the value had been written there: without quotes, `8080` is a number.
                let value = if is_plain { yaml::plain(&resolved) } else { Value::String(resolved) };
                node.data = Data::Scalar(value);
            }
            Data::Scalar(_) => {}
            Data::List(items) => items.iter_mut().for_each(|item| self.node(item, settings)),
            Data::Map(entries) => entries.iter_mut().for_each(|entry| self.entry(entry)),
        }
    }

    fn entry(&mut self, entry: &mut Entry) {
        if entry.key.contains(MARK) {
            entry.key = self.text(&entry.key, entry.key_span, Use::Key);
            entry.key_value = Value::String(entry.key.clone());
        }
        let settings = match &mut entry.value.data {
            Data::Map(inner) if SETTINGS.contains(&entry.key.as_str()) => {
                inner.iter_mut().for_each(|inner| self.setting(inner));
                return;
            }
            Data::Scalar(_) => entry.key == SECRET,
            Data::Map(_) | Data::List(_) => false,
        };
        match is_secret(&entry.key) && !settings {
            true => self.credential(entry),
            false => self.node(&mut entry.value, settings),
        }
    }

    fn setting(&mut self, entry: &mut Entry) {
        let is_text = matches!(entry.value.data, Data::Scalar(_));
        self.node(&mut entry.value, is_text);
    }

    /// A key that means a secret: whatever the variable is called, its value is not wanted here.
    fn credential(&mut self, entry: &mut Entry) {
        let Some(text) = entry.value.as_text().filter(|text| text.contains(MARK)) else {
            return self.node(&mut entry.value, false);
        };
        let resolved = self.text(text, entry.value.span, Use::Credential);
        entry.value.data = Data::Scalar(Value::String(resolved));
    }

    fn text(&mut self, text: &str, span: Span, wanted: Use) -> String {
        let mut out = String::new();
        for (at, part) in text.split(MARK).enumerate() {
            match self.expansion.mark(at, part) {
                Some((number, mark)) => out.push_str(&self.value(number, mark, span, wanted)),
                None => out.push_str(part),
            }
        }
        out
    }

    fn value(&mut self, number: usize, mark: &Mark, span: Span, wanted: Use) -> String {
        let (name, default) = match &mark.meaning {
            Meaning::Text(text) => return (*text).to_owned(),
            Meaning::Variable { name, default } => (name, default),
        };
        match self.looked_up(name, default.as_deref(), wanted) {
            Ok(value) => {
                self.bytes += value.len();
                value
            }
            Err((message, help)) => {
                self.places.insert(span);
                if self.told.insert(number) {
                    // Through an alias, the mark is elsewhere.
                    let is_here = (span.start as usize..span.end as usize).contains(&mark.place.start);
                    let span = if is_here { Span::new(mark.place.start, mark.place.end) } else { span };
                    self.problems.push(Problem::error(span, message).help(help));
                }
                mark.written.clone()
            }
        }
    }

    fn looked_up(&self, name: &str, default: Option<&str>, wanted: Use) -> Result<String, (String, String)> {
        let is_secret = holds_secret(name) || wanted == Use::Credential;
        if wanted == Use::Key {
            return Err((format!("the variable `{name}` stands in a key"), "a variable can only be a value".into()));
        }
        if is_secret && wanted != (Use::Value { settings: true }) {
            let message = format!("`${{{name}}}` means a secret, and a workflow file holds no credentials");
            let help = "keys of models come from the environment or the configuration; in `env` and `headers` of a \
                        server, a secret may be named";
            return Err((message, help.into()));
        }
        if is_secret {
            return match default {
                None | Some("") => Ok(format!("${{{name}}}")),
                Some(_) => Err((
                    format!("the secret `{name}` has a default, and a workflow file holds no credentials"),
                    format!("name the variable only: `${{{name}}}`"),
                )),
            };
        }
        if self.bytes > MAX_VALUE_BYTES {
            return Err((format!("the variables hold more than {MAX_VALUE_BYTES} bytes"), "use fewer of them".into()));
        }
        let found = match (self.loader.variable(name), default) {
            (Ok(None) | Err(_), Some(default)) => Ok(Some(default.to_owned())),
            (found, _) => found,
        };
        let default = format!("give a default: `${{{name}, some-value}}`; `$${{` is just text");
        let refused =
            |why| (format!("the variable `{name}` cannot be read: {why}"), format!("write its value, or {default}"));
        let unset = || (format!("the variable `{name}` is not set"), format!("set it, or {default}"));
        found.map_err(refused)?.ok_or_else(unset)
    }
}

/// What a text with variables is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Key,
    Value { settings: bool },
    Credential,
}

/// Names of variables are shorter than keys: `SSH_KEY` and `DB_PASS` are secrets, too.
fn holds_secret(name: &str) -> bool {
    let is_short = |word: &str| ["KEY", "PASS", "PWD", "DSN"].contains(&word);
    is_secret(name) || name.to_uppercase().split('_').any(is_short)
}

/// `appConfig` is `app_config`.
fn snake_case(key: &str) -> String {
    let word = |letter: char| letter.is_uppercase().then_some('_').into_iter().chain(letter.to_lowercase());
    key.chars().flat_map(word).collect()
}

/// Tokens that are counted are no secret.
fn is_secret(key: &str) -> bool {
    means_secret(&key.to_lowercase().replace("tokens", ""))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Options, read};

    /// Files and variables by name; every file is in the same folder.
    struct World<'a> {
        files: &'a [(&'a str, &'a str)],
    }

    const VARIABLES: &[(&str, &str)] = &[
        ("PORT", "8080"),
        ("NASTY", "x\"\n- injected: { a: 1 } # no"),
        ("API_TOKEN", "never-to-be-seen"),
        ("MARKED", "\u{f8f0}0\u{f8f0}"),
    ];

    impl Loader for World<'_> {
        fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
            let found = self.files.iter().find(|(name, _)| *name == reference).ok_or("there is no such file")?;
            Ok(Source { name: found.0.to_owned(), text: found.1.to_owned() })
        }

        fn variable(&self, name: &str) -> Result<Option<String>, String> {
            Ok(VARIABLES.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
        }
    }

    fn tree(text: &str, files: &[(&str, &str)]) -> Result<(Source, Node), (Source, Problems)> {
        let source = Source { name: "main.yaml".into(), text: text.into() };
        let world = World { files };
        let read = |source: &Source| {
            let expansion = expand(source, &world)?;
            let resolved = expansion.parse(&world)?;
            if resolved.problems.is_empty() { Ok(expansion.mapped(resolved.root)) } else { Err(resolved.problems) }
        };
        match read(&source) {
            Ok(root) => Ok((source, root)),
            Err(problems) => Err((source, problems)),
        }
    }

    fn check(text: &str, files: &[(&str, &str)], expected: Value) {
        let (_, root) = tree(text, files).map_err(|(_, problems)| problems).unwrap();
        assert_eq!(root.to_value(), expected, "{text}");
    }

    /// The first problem: where it is, a part of what it says, and how many there are.
    fn refused(text: &str, files: &[(&str, &str)], position: (usize, usize), part: &str) {
        let (source, problems) = tree(text, files).err().unwrap();
        let [problem] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(problem.message.contains(part), "{problem:?}");
        assert_eq!(source.position(problem.span.start), position, "{problem:?}");
        assert!(!format!("{problems:?}").contains("never-to-be-seen"));
    }

    #[test]
    fn variables_are_put_in() {
        check("a: ${PORT}\n", &[], json!({ "a": 8080 }));
        check("a: \"${PORT}\"\nb: '${ PORT , 1 }'\n", &[], json!({ "a": "8080", "b": "8080" }));
        check("a: [${MISSING, x}, {b: ${MISSING, true}}]\n", &[], json!({ "a": ["x", { "b": true }] }));
        check("a: http://h:${PORT}/${MISSING, p}\n", &[], json!({ "a": "http://h:8080/p" }));
        check("a: |\n  one ${PORT}\n  two\n", &[], json!({ "a": "one 8080\ntwo\n" }));
        check("a: ${MISSING, }\n", &[], json!({ "a": null }));
        check("# ${MISSING}\na: &x ${PORT}\nb: *x\n", &[], json!({ "a": 8080, "b": 8080 }));
        check(
            "a: |-\n  ${PORT}\nb:\n  ${PORT}\nc: !!str ${PORT}\n",
            &[],
            json!({ "a": "8080", "b": 8080, "c": "8080" }),
        );
        check("max_tokens: ${MAX_TOKENS, 500}\n", &[], json!({ "max_tokens": 500 }));
    }

    #[test]
    fn what_is_no_variable_stays() {
        check("a: $${PORT}\n", &[], json!({ "a": "${PORT}" }));
        check("a: '${} ${a b} ${x:-y} $PORT $ ${'\n", &[], json!({ "a": "${} ${a b} ${x:-y} $PORT $ ${" }));
        check("a: \u{f8f0}0\u{f8f0} ${PORT}\n", &[], json!({ "a": "\u{f8f0}0\u{f8f0} 8080" }));
    }

    #[test]
    fn values_are_data() {
        let nasty = "x\"\n- injected: { a: 1 } # no";
        check("a: ${NASTY}\nb: \"${NASTY}\"\n", &[], json!({ "a": nasty, "b": nasty }));
        check("a: ${MARKED}\nb: ${PORT}\n", &[], json!({ "a": "\u{f8f0}0\u{f8f0}", "b": 8080 }));
        refused("a: 1\n${PORT}: 2\n", &[], (2, 1), "`PORT` stands in a key");
    }

    #[test]
    fn what_is_not_set_is_told_at_its_place() {
        refused("é: 1\na: x ${MISSING} y\n", &[], (2, 6), "the variable `MISSING` is not set");
        refused("a: &x ${MISSING}\nb: [*x, *x]\n", &[], (1, 7), "`MISSING`");
        refused("a: |\n  x\n  y ${MISSING}\n", &[], (3, 5), "`MISSING`");
    }

    #[test]
    fn a_variable_that_is_not_set_hides_no_other_mistake() {
        let check = |text: &str, files: &[(&str, &str)], wanted: &[&str]| {
            let source = Source { name: "main.yaml".into(), text: text.into() };
            let problems = read(&source, &World { files }, &Options::default()).problems;
            let told: Vec<&str> = problems.iter().map(|problem| problem.message.as_str()).collect();
            assert!(told.len() == wanted.len(), "{text}: {told:?}");
            assert!(told.iter().zip(wanted).all(|(told, part)| told.contains(part)), "{text}: {told:?}");
        };
        let nodes = "workflow: { nodes: [{ id: a, agent_persona: Q }] }\n";
        let persona = "personas: [{ agent_name: P, model: { model: m/x, max_tokens: ${MISSING}, typo: 1 } }]\n";
        check(&format!("{persona}{nodes}"), &[], &["`MISSING` is not set", "unknown key `typo`", "no persona `Q`"]);
        let wanted = &["in p:1:62: the variable `MISSING`", "in p:1:74: unknown key `typo`", "no persona `Q`"];
        check(&format!("!include p\n{nodes}"), &[("p", persona)], wanted);
    }

    #[test]
    fn secrets_are_named_and_never_read() {
        check("env: { A: \"Bearer ${API_TOKEN}\", B: \"${PORT}\" }\n", &[], {
            json!({ "env": { "A": "Bearer ${API_TOKEN}", "B": "8080" } })
        });
        check(
            "headers: { Authorization: ${API_TOKEN} }\n",
            &[],
            json!({ "headers": { "Authorization": "${API_TOKEN}" } }),
        );
        check("webhook: { secret: ${API_TOKEN} }\n", &[], json!({ "webhook": { "secret": "${API_TOKEN}" } }));
        refused("a: ${API_TOKEN}\n", &[], (1, 4), "`${API_TOKEN}` means a secret");
        refused("a: { api_key: ${PORT} }\n", &[], (1, 15), "means a secret");
        refused("a: ${DB_PASS, x}\n", &[], (1, 4), "means a secret");
        refused("env: { A: \"${API_TOKEN, abc}\" }\n", &[], (1, 12), "has a default");
        refused("env: { A: [\"${API_TOKEN}\"] }\n", &[], (1, 13), "means a secret");
    }

    #[test]
    fn a_deployment_is_left_alone() {
        let check = |text: &str| {
            check(text, &[], yaml::parse(&Source { name: "".into(), text: text.into() }).unwrap().to_value())
        };
        check("broker: { url: \"${MISSING}\", password: \"${API_TOKEN, default}\" }\n");
        check("sharedConfig: [{ model: { \"${MISSING}\": \"${API_TOKEN}\" } }]\n");
        check("apps: [{ broker: \"${MISSING}\", app_config: { namespace: \"${MISSING}\" } }]\n");
        refused("shared_config: [&m { key: \"${API_TOKEN}\" }]\nmodel: *m\n", &[], (1, 28), "means a secret");
        refused("workflow: { log: \"${MISSING}\" }\n", &[], (1, 19), "`MISSING`");
    }

    const SHARED: (&str, &str) = ("shared.yaml", "models:\n  - fast\n\n  - slow");

    #[test]
    fn files_are_put_in() {
        let models = json!({ "models": ["fast", "slow"] });
        check("!include shared.yaml\n", &[SHARED], models.clone());
        check("a:\n  !include 'shared.yaml' # it\nb: 1\n", &[SHARED], json!({ "a": models, "b": 1 }));
        check("a: !include shared.yaml\nb: 1\n", &[SHARED], json!({ "a": models, "b": 1 }));
        check("- !include shared.yaml\n- a: !include shared.yaml\n  b: 1\n", &[SHARED], {
            json!([models, { "a": models, "b": 1 }])
        });
        check(
            "a: !include b\n",
            &[("b", "c: !include d\n"), ("d", "[1, ${PORT}]")],
            json!({ "a": { "c": [1, 8080] } }),
        );
        check(
            "!include anchors\na: *m\n",
            &[("anchors", "\u{feff}x: &m fast\r\n")],
            json!({ "x": "fast", "a": "fast" }),
        );
        check("a: |\n  Dear\n  !include p\n  Bye\n", &[("p", "one\n\n  two\n")], {
            json!({ "a": "Dear\none\n\n  two\nBye\n" })
        });
        check("a: see !include x\nb: '!included'\n", &[], json!({ "a": "see !include x", "b": "!included" }));
    }

    #[test]
    fn files_that_cannot_be_put_in_are_told() {
        refused("a: 1\nb: !include no.yaml\n", &[], (2, 4), "`no.yaml` cannot be included: there is no such file");
        refused("!include\n", &[], (1, 1), "no file is named");
        refused("!include ${PORT}.yaml\n", &[], (1, 1), "holds no variables");
        refused("!include main.yaml\n", &[("main.yaml", "")], (1, 1), "main.yaml includes main.yaml");
        refused("a: 1\n!include b\n", &[("b", "x: 1\n!include c\n"), ("c", "!include b\n")], (2, 1), {
            "in c:1:1: `b` cannot be included: in a circle, b includes c includes b"
        });
    }

    #[test]
    fn bounds_end_it() {
        let text = "x".repeat(1_000_000) + "\n";
        let many = "!include big\n".repeat(5);
        let (_, problems) = tree(&many, &[("big", &text)]).err().unwrap();
        assert!(problems[0].message.contains("bytes"), "{problems:?}");
        let (_, problems) = tree(&"!include a\n".repeat(300), &[("a", "x\n")]).err().unwrap();
        assert!(problems[0].message.contains("more than 200 files"), "{problems:?}");
        let names: Vec<String> = (0..12).map(|n| n.to_string()).collect();
        let texts: Vec<String> = (1..13).map(|n| format!("!include {n}\n")).collect();
        let files: Vec<(&str, &str)> = names.iter().map(String::as_str).zip(texts.iter().map(String::as_str)).collect();
        refused("!include 0\n", &files, (1, 1), "more than 10 levels deep");
    }

    #[test]
    fn problems_lead_back() {
        refused("a: ${PORT}\nb: ${PORT} ${PORT}\nb: 1\n", &[], (3, 1), "`b` is written twice");
        refused("a: 1\nb: !include x\n", &[("x", "c: 1\nd:\n  e: ${MISSING}\n")], (2, 4), {
            "in x:3:6: the variable `MISSING` is not set"
        });
        refused("a: 1\nb: !include x\n", &[("x", "c: 1\nd: &y [*y]\n")], (2, 4), "in x:2:8: this alias");
        refused("&a${PORT} a: *b${PORT}\n", &[], (1, 14), "valid YAML");
    }

    #[test]
    fn places_of_values_lead_back() {
        let text = "a: ${PORT}\nb: { c: ${PORT, 1} , d: é }\ne: !include x\nf: g\n";
        let (_, root) = tree(text, &[("x", "h: 1\n")]).map_err(|(_, problems)| problems).unwrap();
        let at = |pointer: &str| {
            let span = root.span_at(pointer);
            &text[span.start as usize..span.end as usize]
        };
        assert_eq!((at("/a"), at("/b/c"), at("/b/d"), at("/f")), ("${PORT}", "${PORT, 1}", "é", "g"));
        assert_eq!((at("/e"), at("/e/h")), ("!include x", "!include x"));
    }

    #[test]
    fn only_this_format_is_touched() {
        let check = |text: &str, expected: bool| assert_eq!(is_likely(text), expected, "{text}");
        check("!include x\napps:\n", true);
        check("personas:\n", true);
        check("workflow:\n  # no\n\n  name: x\n  nodes:\n", true);
        check("workflow:\n  steps:\n    nodes:\n", false);
        check("workflow:\n  - nodes:\nnodes:\n", false);
        check(" apps:\nsteps: []\n", false);
        let shown = |text: &str| {
            let source = Source { name: "main.yaml".into(), text: text.into() };
            let loaded = read(&source, &World { files: &[] }, &Options::default());
            (loaded.format.word(), format!("{:?} {:?}", loaded.plan.map(|plan| plan.description), loaded.problems))
        };
        let (format, text) = shown("description: ${PORT}\nsteps: [{ wait: 1s }]\n");
        assert!(format == "native" && text.contains("${PORT}"), "{text}");
        let (format, text) = shown("{ steps: [{ wait: 1s }], description: \"\napps: ${MISSING, x}\" }");
        assert!(format == "native" && text.contains("apps: ${MISSING, x}"), "{text}");
        let (_, text) = shown("{\"personas\": \"${MISSING}\"}");
        assert!(text.contains("`MISSING` is not set"), "{text}");
    }
}
