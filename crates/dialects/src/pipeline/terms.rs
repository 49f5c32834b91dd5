//! What stands between `{{` and `}}`: `$steps.ID.…` in the words of the one expression language.
//!
//! A reference is resolved against the tree, so that an unknown step, part or child is reported where it is written. All
//! ids are unique, so a child of a parallel step is read directly, whichever way leads to it. Knows nothing of runs.

use relais_plan::problem::nearest;
use relais_plan::template::escaped;
use relais_plan::{Expr, Problem, Span};

use super::Condition;
use super::agents::Staff;
use super::tree::{Tree, What};
use crate::fields::Field;
use crate::reader::Reader;
use crate::values::{bare, content_span, quote, step_of};

const STEPS: &str = "steps";
/// Stands for a reference that is wrong and reported.
const WRONG: &str = "none";
/// No expression is longer; further on nothing is looked for.
const MAX_TAG_CHARS: usize = 8_192;

pub(super) struct Terms<'a, 'n> {
    tree: &'a Tree<'n>,
    staff: &'a Staff<'a>,
}

impl<'a, 'n> Terms<'a, 'n> {
    pub(super) fn new(tree: &'a Tree<'n>, staff: &'a Staff<'a>) -> Terms<'a, 'n> {
        Terms { tree, staff }
    }

    /// A condition: an expression in which `{{ … }}` may stand, also inside quoted text.
    pub(super) fn condition(&mut self, field: Field<'_>, reader: &mut Reader<'_>) -> Condition {
        let node = field.node;
        let Some(text) = node.as_text().filter(|text| !bare(text, node.span).0.trim().is_empty()) else {
            let never = Expr::new("false", node.span);
            if let crate::yaml::Data::Scalar(serde_json::Value::Bool(value)) = &node.data {
                return Condition { when: Expr::new(value.to_string(), node.span), reads: Vec::new() };
            }
            reader.wrong(field, "an expression", "`condition: \"{{ $steps.check.output.ok }}\"`");
            return Condition { when: never, reads: Vec::new() };
        };
        let mut writer = Writer::new(self, text, content_span(node, text), reader);
        writer.code("", true);
        let (out, reads, span) = (writer.out, writer.reads, writer.span);
        // What was shortened no longer lies in the text letter by letter.
        let when = reader.parsed(bare(&out, Span::default()).0, span);
        Condition { when, reads }
    }

    /// Text in which `{{ … $steps … }}` stands, as the source of a template; none where there is no such thing. Other
    /// braces are text.
    pub(super) fn text(&mut self, text: &str, span: Span, reader: &mut Reader<'_>) -> Option<String> {
        let mut writer = Writer::new(self, text, span, reader);
        writer.text().then_some(writer.out)
    }
}

/// One text on its way into the expression language.
struct Writer<'t, 'a, 'n, 's, 'w> {
    terms: &'t mut Terms<'a, 'n>,
    source: &'s str,
    at: usize,
    span: Span,
    out: String,
    reads: Vec<usize>,
    reader: &'t mut Reader<'w>,
}

/// One step down a path.
#[derive(Debug, PartialEq)]
enum Part<'s> {
    Key(&'s str),
    Index(usize),
}

impl<'t, 'a, 'n, 's, 'w> Writer<'t, 'a, 'n, 's, 'w> {
    fn new(terms: &'t mut Terms<'a, 'n>, source: &'s str, span: Span, reader: &'t mut Reader<'w>) -> Self {
        Writer { terms, source, at: 0, span, out: String::with_capacity(source.len()), reads: Vec::new(), reader }
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn copy(&mut self, bytes: usize) {
        let end = (self.at + bytes).min(self.source.len());
        self.out.push_str(&self.source[self.at..end]);
        self.at = end;
    }

    /// The run of letters, digits and `_` at a place.
    fn word_at(&self, at: usize) -> &'s str {
        let rest = &self.source[at..];
        &rest[..rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())]
    }

    /// Text: tags with a `$` are code, all else stays as it is. Was there any code?
    fn text(&mut self) -> bool {
        let mut found = false;
        let mut plain = String::new();
        while let Some(open) = self.rest().find("{{") {
            plain.push_str(&self.rest()[..open]);
            self.at += open;
            match self.is_term() {
                true => {
                    found = true;
                    self.out.push_str(&escaped(&std::mem::take(&mut plain)));
                    self.tag();
                }
                false => {
                    plain.push('{');
                    self.at += 1;
                }
            }
        }
        plain.push_str(self.rest());
        self.out.push_str(&escaped(&plain));
        found
    }

    /// Does a tag with a `$` outside of quoted text begin here?
    fn is_term(&self) -> bool {
        let mut quote = None;
        for (at, c) in self.rest().char_indices().skip(2).take(MAX_TAG_CHARS) {
            match (quote, c) {
                (None, '$') => return !self.word_at(self.at + at + 1).is_empty(),
                (None, '\'' | '"') => quote = Some(c),
                (None, '}' | '{') => return false,
                (Some(open), c) if c == open => quote = None,
                (None | Some(_), _) => {}
            }
        }
        false
    }

    /// `{{ code }}`.
    fn tag(&mut self) {
        let start = self.at;
        self.copy(2);
        self.code("}}", false);
        if self.rest().is_empty() {
            let problem = Problem::error(self.place(start, start + 2), "`{{` is not closed by `}}`");
            self.reader.problems.push(problem);
            self.out.push_str("}}");
        }
        self.copy(2);
    }

    /// Code up to `end`. `nested` allows `{{ … }}` in it.
    fn code(&mut self, end: &str, nested: bool) {
        let mut depth = 0usize;
        while let Some(c) = self.rest().chars().next() {
            if depth == 0 && !end.is_empty() && self.rest().starts_with(end) {
                return;
            }
            match c {
                '{' if nested && self.rest().starts_with("{{") => self.tag(),
                '\'' | '"' => self.string(c, nested),
                '$' => self.dollar(),
                c if c.is_alphanumeric() || c == '_' => self.word(),
                c => {
                    match c {
                        '{' => depth += 1,
                        '}' => depth = depth.saturating_sub(1),
                        _ => {}
                    }
                    self.copy(c.len_utf8());
                }
            }
        }
    }

    /// Quoted text, with what stands in it between braces.
    fn string(&mut self, quote: char, nested: bool) {
        self.copy(quote.len_utf8());
        let mut escaped = false;
        while let Some(c) = self.rest().chars().next() {
            if nested && self.rest().starts_with("{{") {
                self.tag();
                continue;
            }
            self.copy(c.len_utf8());
            if c == quote && !escaped {
                return;
            }
            escaped = c == '\\' && !escaped;
        }
    }

    fn word(&mut self) {
        let word = self.word_at(self.at);
        let follows = self.rest()[word.len()..].starts_with(['.', '[']);
        // A field may be called `steps`, too.
        if word == STEPS && follows && !self.out.ends_with('.') {
            return self.reference(word.len());
        }
        self.copy(word.len());
    }

    fn dollar(&mut self) {
        let word = self.word_at(self.at + 1);
        if word == STEPS {
            return self.reference(1 + word.len());
        }
        let (start, end) = (self.at, self.at + 1 + word.len());
        let problem = Problem::error(self.place(start, end), format!("unknown name `${word}`"));
        let near =
            nearest(word, [STEPS]).map_or("outputs are read as `$steps.ID.output`", |_| "did you mean `$steps`?");
        self.reader.problems.push(problem.help(near));
        self.at = end;
        self.abandon();
    }

    /// `$steps` and the path below it; `bytes` is the length of the name itself.
    fn reference(&mut self, bytes: usize) {
        let start = self.at;
        self.at += bytes;
        match self.resolved(start) {
            Ok(text) => self.out.push_str(&text),
            Err(problem) => {
                self.reader.problems.push(problem);
                self.abandon();
            }
        }
    }

    /// Leaves out the rest of a wrong reference.
    fn abandon(&mut self) {
        while self.part(true).is_some() {}
        self.out.push_str(WRONG);
    }

    fn resolved(&mut self, start: usize) -> Result<String, Problem> {
        let dot = self.at;
        let id = match self.part(true) {
            Some(Part::Key(id)) => Some(id),
            // An id of digits alone.
            Some(Part::Index(_)) => self.source[dot..self.at].strip_prefix('.'),
            None => None,
        };
        let Some(id) = id else {
            let problem = Problem::error(self.place(start, self.at), "`$steps` needs the id of a step");
            return Err(problem.help("such as `$steps.writer.output`"));
        };
        let Some(&step) = self.terms.tree.ids.get(id) else {
            let problem = Problem::error(self.place(start, self.at), format!("no step is called `{id}`"));
            let tree = self.terms.tree;
            let near = self.reader.near(id, tree.items.iter().map(|item| item.id.as_str()));
            return Err(match near {
                Some(near) => problem.help(format!("did you mean `{near}`?")),
                None => problem.help("a reference names the id of a step, or its agent where it has none"),
            });
        };
        self.below(step, start)
    }

    /// The part of a step that is meant; children of a parallel step are followed down.
    fn below(&mut self, step: usize, start: usize) -> Result<String, Problem> {
        let tree = self.terms.tree;
        let mut step = step;
        let mut inside = false;
        // Each turn goes one level down the tree.
        loop {
            let item = &tree.items[step];
            let What::Parallel { children, .. } = &item.what else {
                return self.single(step, start, inside);
            };
            let next = match self.part(true) {
                Some(Part::Key("output")) => match self.part(true) {
                    None => return Ok(self.block(step, *children)),
                    part => part,
                },
                part => part,
            };
            match next {
                Some(Part::Key("order")) => return Ok(self.order(*children)),
                Some(Part::Key(word @ ("status" | "error"))) => return Ok(self.read(step, word)),
                Some(Part::Key("outputs" | "steps")) => match self.part(true) {
                    Some(part) => step = self.child(step, *children, &part, start)?,
                    None => return Ok(self.read(step, "outputs")),
                },
                // The flat form: `outputs.inner.x`.
                Some(part @ Part::Key(_)) if inside => step = self.child(step, *children, &part, start)?,
                None if inside => return Ok(self.block(step, *children)),
                _ => return Err(self.no_part(start, &item.id, &["outputs", "steps", "order", "status", "error"])),
            }
            inside = true;
        }
    }

    /// A part of a step that is no block.
    fn single(&mut self, step: usize, start: usize, inside: bool) -> Result<String, Problem> {
        let item = &self.terms.tree.items[step];
        let agent = match &item.what {
            What::Agent(agent) => Some(agent.text.as_str()),
            What::Goto(_) => {
                let problem = Problem::error(self.place(start, self.at), format!("`{}` only goes back", item.id));
                return Err(problem.help("read the step that it goes back to"));
            }
            What::Nothing => {
                while self.part(true).is_some() {}
                return Ok(WRONG.to_owned());
            }
            What::Condition { .. } | What::Parallel { .. } => None,
        };
        match self.part(false) {
            Some(Part::Key("output")) => self.output(step, agent, start),
            Some(Part::Key(word @ ("status" | "error"))) => Ok(self.read(step, word)),
            Some(Part::Key("agent")) if agent.is_some() => Ok(agent.map(quote).unwrap_or_default()),
            None if inside => {
                let output = self.read(step, "output");
                let agent = agent.map_or_else(|| WRONG.to_owned(), quote);
                Ok(format!("{{'output': {output}, 'agent': {agent}}}"))
            }
            _ => Err(self.no_part(start, &item.id, &["output", "status", "error", "agent"])),
        }
    }

    /// Fields are read only of an answer that has a declared form.
    fn output(&mut self, step: usize, agent: Option<&str>, start: usize) -> Result<String, Problem> {
        let end = self.at;
        let reads_field = self.part(false).is_some() && !self.rest().starts_with('(');
        let path_end = self.at;
        self.at = end;
        match agent.filter(|agent| reads_field && !self.terms.staff.is_structured(agent)) {
            Some(agent) => {
                let written = &self.source[start..path_end];
                let message = format!("`{written}`: the agent `{agent}` has no `structured_output`, so no fields");
                let help = format!("declare `structured_output` with a schema for `{agent}`, or read the whole output");
                Err(Problem::error(self.place(start, path_end), message).help(help))
            }
            None => Ok(self.read(step, "output")),
        }
    }

    fn child(&mut self, block: usize, children: usize, part: &Part<'_>, start: usize) -> Result<usize, Problem> {
        let tree = self.terms.tree;
        let steps = tree.children(children);
        let block = &tree.items[block].id;
        let named = |name: &str| steps.iter().copied().find(|step| tree.items[*step].id == name);
        let found = match part {
            Part::Index(index) => steps.get(*index).copied(),
            // The flat form as one key: `outputs['inner.x']`.
            Part::Key(name) => named(name).or_else(|| self.flat(children, name)),
        };
        found.ok_or_else(|| {
            let place = self.place(start, self.at);
            let ids = || steps.iter().map(|step| tree.items[*step].id.as_str());
            match part {
                Part::Index(index) => Problem::error(place, format!("`{block}` has no child {index}"))
                    .help(format!("its children are numbered from 0 to {}", steps.len().saturating_sub(1))),
                Part::Key(name) => {
                    let problem = Problem::error(place, format!("`{block}` has no child `{name}`"));
                    match self.reader.near(name, ids()) {
                        Some(near) => problem.help(format!("did you mean `{near}`?")),
                        None => {
                            problem.help(format!("its children are {}", ids().take(8).collect::<Vec<_>>().join(", ")))
                        }
                    }
                }
            }
        })
    }

    fn flat(&self, children: usize, name: &str) -> Option<usize> {
        let tree = self.terms.tree;
        let mut list = children;
        let mut found = None;
        for id in name.split('.') {
            let step = tree.children(list).iter().copied().find(|step| tree.items[*step].id == id)?;
            list = match &tree.items[step].what {
                What::Parallel { children, .. } => *children,
                What::Agent(_) | What::Condition { .. } | What::Goto(_) | What::Nothing => usize::MAX,
            };
            found = Some(step);
        }
        found
    }

    fn no_part(&mut self, start: usize, id: &str, known: &[&'static str]) -> Problem {
        let written = &self.source[start..self.at];
        let last = written.rsplit(['.', '[']).next().unwrap_or_default();
        let problem = Problem::error(self.place(start, self.at), format!("`{written}` is no part of the step `{id}`"));
        match self.reader.near(last, known.iter().copied()) {
            Some(near) => problem.help(format!("did you mean `{near}`?")),
            None => problem.help(format!("it has {}", known.join(", "))),
        }
    }

    /// What a step gave, as the expression language reads it.
    fn read(&mut self, step: usize, part: &str) -> String {
        self.reads.push(step);
        format!("{}.{part}", step_of(&self.terms.tree.items[step].id))
    }

    /// A block as one value: its steps, and their order.
    fn block(&mut self, step: usize, children: usize) -> String {
        format!("{{'steps': {}, 'order': {}}}", self.read(step, "outputs"), self.order(children))
    }

    fn order(&self, children: usize) -> String {
        let tree = self.terms.tree;
        let ids: Vec<String> = tree.children(children).iter().map(|step| quote(&tree.items[*step].id)).collect();
        format!("[{}]", ids.join(", "))
    }

    /// The next step down: `.key`, `[0]` or `['key']`. An id may hold `-`, which elsewhere is a minus.
    fn part(&mut self, id: bool) -> Option<Part<'s>> {
        let rest = self.rest();
        if let Some(after) = rest.strip_prefix('.') {
            let end =
                after.find(|c: char| !(c.is_alphanumeric() || c == '_' || (id && c == '-'))).unwrap_or(after.len());
            let key = after.get(..end).filter(|key| !key.is_empty())?;
            self.at += 1 + end;
            return Some(key.parse().map_or(Part::Key(key), Part::Index));
        }
        let (inside, _) = rest.strip_prefix('[')?.split_once(']')?;
        let text = inside.trim();
        let part = match text.strip_prefix(['\'', '"']).and_then(|text| text.strip_suffix(['\'', '"'])) {
            Some(key) => Part::Key(key),
            None => Part::Index(text.parse().ok()?),
        };
        self.at += inside.len() + 2;
        Some(part)
    }

    /// A place in the file, where the text stands there letter by letter; else that of the whole text.
    fn place(&self, start: usize, end: usize) -> Span {
        let first = self.span.start as usize;
        match (self.span.end as usize).saturating_sub(first) == self.source.len() {
            true => Span::new(first + start, first + end),
            false => self.span,
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use relais_plan::{Op, Plan, Source};

    struct Nowhere;

    impl crate::Loader for Nowhere {
        fn load(&self, reference: &str, _from: &str) -> Result<Source, String> {
            Err(reference.to_owned())
        }
    }

    const FILE: &str = "\
agents:
  w: { model: m, instruction: Write. }
  s: { model: m, instruction: Say., structured_output: { schema: { x: [string], ok: boolean } } }
  i: { model: m, instruction: \"INSTRUCTION\" }
workflow:
  - { type: agent, name: w }
  - { id: my-s, type: agent, name: s }
  - id: p
    type: parallel
    steps:
      - { id: a, type: agent, name: w }
      - { id: in-ner, type: parallel, steps: [{ id: b-1, type: agent, name: s }, { id: c, type: agent, name: w }] }
  - { type: agent, name: i }
  - { id: if, type: condition, condition: \"CONDITION\", true: [{ type: agent, name: w }, { type: agent, name: w }] }
";

    /// The plan, or the first problem with the text that it marks.
    fn read(instruction: &str, condition: &str) -> Result<Plan, String> {
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let text = FILE.replace("INSTRUCTION", &quoted(instruction)).replace("CONDITION", &quoted(condition));
        let source = Source { name: "t.yaml".into(), text };
        let loaded = crate::read(&source, &Nowhere, &Default::default());
        match loaded.problems.first() {
            Some(problem) => {
                let marked = &source.text[problem.span.start as usize..problem.span.end as usize];
                Err(format!("{marked}: {}", problem.message))
            }
            None => Ok(loaded.plan.unwrap()),
        }
    }

    #[test]
    fn conditions_are_translated() {
        let check = |condition: &str, expected: &str| {
            let plan = read("Hi.", condition).unwrap_or_else(|problem| panic!("{condition}: {problem}"));
            let Op::Choose { arms, .. } = &plan.node(plan.find("if").unwrap()).op else { panic!("{condition}") };
            assert_eq!(arms[0].when.source(), expected, "{condition}");
        };
        check("{{ $steps.w.output }}", "steps.w.output");
        check("$steps.w.output == 'a'", "steps.w.output == 'a'");
        check("{{$steps.w.output}} == 'a'", "{{steps.w.output}} == 'a'");
        check("'{{ $steps.w.output }}' == '$steps.w'", "'{{ steps.w.output }}' == '$steps.w'");
        check("{{ $steps.my-s.output.x[0] == \"it's\" }}", "steps[\"my-s\"].output.x[0] == \"it's\"");
        check("$steps['my-s'].output.ok and not false", "steps[\"my-s\"].output.ok and not false");
        check("$steps.w.output.strip() == ''", "steps.w.output.strip() == ''");
        check("$steps.p.outputs.a.output == 'x'", "steps.a.output == 'x'");
        check("$steps.p.outputs[1].outputs[0].output.ok", "steps[\"b-1\"].output.ok");
        check("$steps.p.outputs.in-ner.outputs.b-1.output.ok", "steps[\"b-1\"].output.ok");
        check("$steps.p.outputs.in-ner.c.output == ''", "steps.c.output == ''");
        check("$steps.p.outputs['in-ner.c'].output == ''", "steps.c.output == ''");
        check("$steps.p.steps.a.agent == 'w'", "\"w\" == 'w'");
        check("$steps.p.order[0] == 'a'", "[\"a\", \"in-ner\"][0] == 'a'");
        check("'a' in $steps.p.outputs", "'a' in steps.p.outputs");
        check("input.steps.x == {'a': {'b': 1}}", "input.steps.x == {'a': {'b': 1}}");
    }

    #[test]
    fn only_tags_with_a_dollar_are_templates() {
        let check = |instruction: &str, expected: &str| {
            let plan = read(instruction, "true").unwrap_or_else(|problem| panic!("{instruction}: {problem}"));
            let text = serde_json::to_string(&plan.agents["i"].instructions).unwrap();
            assert_eq!(text, expected, "{instruction}");
        };
        check("Hi {{ name }}", r#"{"text":"Hi {{ '{' }}{ name }}"}"#);
        check("{{ $steps.w.output }}", r#"{"ref":"steps.w.output"}"#);
        check(
            "a {% if %} {{ $steps.w.output | upper }}",
            r#"{"text":"a {{ '{' }}% if %} {{ steps.w.output | upper }}"}"#,
        );
        check("{{ '$steps' }} costs $5 {{", r#"{"text":"{{ '{' }}{ '$steps' }} costs $5 {{ '{' }}{{ '{' }}"}"#);
    }

    #[test]
    fn mistakes_are_marked_where_they_are() {
        let check = |text: &str, expected: &str| {
            let found = [read(text, "true"), read("Hi.", text)].map(|read| read.map(|_| ()).unwrap_err());
            assert_eq!(found, [expected, expected], "{text}");
        };
        check("{{ $steps.x.output }}", "$steps.x: no step is called `x`");
        check("{{ $stpes.x.output }}", "$stpes: unknown name `$stpes`");
        check("{{ $steps.w.outptu.x }}", "$steps.w.outptu: `$steps.w.outptu` is no part of the step `w`");
        check("{{ $steps.p.outputs.z.output }}", "$steps.p.outputs.z: `p` has no child `z`");
        check("{{ $steps.p.outputs[2].output }}", "$steps.p.outputs[2]: `p` has no child 2");
        check("{{ $steps.if }}", "$steps.if: `$steps.if` is no part of the step `if`");
        check(
            "{{ $steps.w.output.x.y }}",
            "$steps.w.output.x: `$steps.w.output.x`: the agent `w` has no `structured_output`, so no fields",
        );
        check("{{ $steps.w.output", "{{: `{{` is not closed by `}}`");
    }
}
