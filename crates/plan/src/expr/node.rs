//! An expression as a tree of ours, with every name resolved and every mistake that can be known found.
//!
//! The syntax is minijinja's, read by its parser. Names, functions and types are ours: the tree holds only what the
//! evaluator knows, so an unknown name is refused here and not at run time.

use std::ops::Range;

use minijinja::machinery::{Span as Place, ast};
use serde_json::Value;

use super::rewrite::{Flaw, Rewritten};
use super::{Part, Root, vocabulary};
use crate::path::{self, Segment};
use crate::problem::nearest;

/// Deeper nesting than this is a mistake, and would need a deep stack to evaluate.
const MAX_DEPTH: usize = 128;

/// The names an expression can begin with.
const ROOTS: [&str; 12] =
    ["input", "trigger", "previous", "steps", "item", "index", "loop", "vars", "run", "workflow", "now", "event"];

const PARTS: [&str; 4] = ["output", "outputs", "status", "error"];

#[derive(Debug, Clone)]
pub enum Node {
    Const(Value),
    /// A root and the constant path below it.
    Path(Root, Vec<Segment>),
    /// A name set by `{% for %}` or `{% set %}`, and the constant path below it.
    Local(String, Vec<Segment>),
    Item(Box<Node>, Box<Node>),
    Slice(Box<Node>, [Option<Box<Node>>; 3]),
    Not(Box<Node>),
    Negative(Box<Node>),
    And(Box<Node>, Box<Node>),
    Or(Box<Node>, Box<Node>),
    Arithmetic(Arithmetic, Box<Node>, Box<Node>),
    /// Two values as one text.
    Join(Box<Node>, Box<Node>),
    Compare(Box<Node>, Vec<(Comparison, Node)>),
    If(Box<[Node; 3]>),
    Filter(&'static str, Box<Node>, Vec<Argument>),
    Test(&'static str, Box<Node>, Vec<Argument>),
    Range(Vec<Node>),
    List(Vec<Node>),
    Map(Vec<(Node, Node)>),
}

#[derive(Debug, Clone)]
pub struct Argument {
    pub name: Option<String>,
    pub value: Node,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arithmetic {
    Add,
    Subtract,
    Multiply,
    Divide,
    DivideWhole,
    Remainder,
    Power,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    NotIn,
}

/// What an expression or text reads, and where it says so.
pub type Reference = (Root, Vec<Segment>);

/// Turns the parser's tree into ours and collects what it reads.
pub struct Lowering<'r> {
    rewritten: &'r Rewritten,
    source: &'r str,
    pub refs: Vec<Reference>,
    pub places: Vec<Range<usize>>,
    /// Which of them may be missing: the expression says what to take then, or asks whether they are there.
    pub excused: Vec<bool>,
    excuses: usize,
    locals: Vec<String>,
    depth: usize,
}

impl<'r> Lowering<'r> {
    pub fn new(rewritten: &'r Rewritten, source: &'r str) -> Lowering<'r> {
        let (refs, places, excused) = (Vec::new(), Vec::new(), Vec::new());
        Lowering { rewritten, source, refs, places, excused, excuses: 0, locals: Vec::new(), depth: 0 }
    }

    pub fn place(&self, place: Place) -> Range<usize> {
        self.rewritten.origin(place.start_offset as usize..place.end_offset as usize)
    }

    /// What was written at this place.
    pub fn written(&self, place: Place) -> &'r str {
        self.source.get(self.place(place)).unwrap_or("")
    }

    pub fn flaw(&self, place: Place, message: impl Into<String>) -> Flaw {
        Flaw::new(self.place(place), message)
    }

    /// Local names declared from here on are forgotten by [`Lowering::close`].
    pub fn open(&self) -> usize {
        self.locals.len()
    }

    pub fn close(&mut self, mark: usize) {
        self.locals.truncate(mark);
    }

    pub fn declare(&mut self, name: &str) {
        self.locals.push(name.to_owned());
    }

    /// One level deeper, as far as that is allowed.
    pub fn descend<T>(&mut self, place: Place, inner: impl FnOnce(&mut Self) -> Result<T, Flaw>) -> Result<T, Flaw> {
        if self.depth == MAX_DEPTH {
            return Err(self.flaw(place, format!("nested more than {MAX_DEPTH} levels deep")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    pub fn expr(&mut self, expr: &ast::Expr<'_>) -> Result<Node, Flaw> {
        self.descend(expr.span(), |this| this.expr_here(expr))
    }

    fn boxed(&mut self, expr: &ast::Expr<'_>) -> Result<Box<Node>, Flaw> {
        self.expr(expr).map(Box::new)
    }

    fn expr_here(&mut self, expr: &ast::Expr<'_>) -> Result<Node, Flaw> {
        match expr {
            ast::Expr::Var(_) | ast::Expr::GetAttr(_) | ast::Expr::GetItem(_) => self.access(expr),
            ast::Expr::Const(constant) => self.constant(&constant.value, constant.span()),
            ast::Expr::Slice(slice) => self.slice(slice),
            ast::Expr::UnaryOp(unary) => {
                let inner = self.boxed(&unary.expr)?;
                Ok(match unary.op {
                    ast::UnaryOpKind::Not => Node::Not(inner),
                    ast::UnaryOpKind::Neg => Node::Negative(inner),
                })
            }
            ast::Expr::BinOp(binary) => self.binary(binary),
            ast::Expr::Compare(compare) => self.compare(compare),
            ast::Expr::IfExpr(choice) => self.choice(choice),
            ast::Expr::Filter(filter) => self.filter(filter),
            ast::Expr::Test(test) => self.test(test),
            ast::Expr::Call(call) => self.call(call),
            ast::Expr::List(list) => Ok(Node::List(self.all(&list.items)?)),
            ast::Expr::Tuple(tuple) => Ok(Node::List(self.all(&tuple.items)?)),
            ast::Expr::Map(map) => {
                let keys = self.all(&map.keys)?;
                Ok(Node::Map(keys.into_iter().zip(self.all(&map.values)?).collect()))
            }
        }
    }

    fn all(&mut self, items: &[ast::Expr<'_>]) -> Result<Vec<Node>, Flaw> {
        items.iter().map(|item| self.expr(item)).collect()
    }

    fn constant(&self, value: &minijinja::Value, place: Place) -> Result<Node, Flaw> {
        serde_json::to_value(value).map(Node::Const).map_err(|_| self.flaw(place, "this constant is not a JSON value"))
    }

    fn slice(&mut self, slice: &ast::Slice<'_>) -> Result<Node, Flaw> {
        let value = self.boxed(&slice.expr)?;
        let mut bounds = [None, None, None];
        for (bound, part) in bounds.iter_mut().zip([&slice.start, &slice.stop, &slice.step]) {
            *bound = part.as_ref().map(|expr| self.boxed(expr)).transpose()?;
        }
        Ok(Node::Slice(value, bounds))
    }

    fn binary(&mut self, binary: &ast::BinOp<'_>) -> Result<Node, Flaw> {
        let left = self.boxed(&binary.left)?;
        let right = self.boxed(&binary.right)?;
        let compare = |op| move |left, right: Box<Node>| Node::Compare(left, vec![(op, *right)]);
        let arithmetic = |op| move |left, right| Node::Arithmetic(op, left, right);
        Ok(match binary.op {
            ast::BinOpKind::Eq => compare(Comparison::Equal)(left, right),
            ast::BinOpKind::Ne => compare(Comparison::NotEqual)(left, right),
            ast::BinOpKind::Lt => compare(Comparison::Less)(left, right),
            ast::BinOpKind::Lte => compare(Comparison::LessOrEqual)(left, right),
            ast::BinOpKind::Gt => compare(Comparison::Greater)(left, right),
            ast::BinOpKind::Gte => compare(Comparison::GreaterOrEqual)(left, right),
            ast::BinOpKind::In => compare(Comparison::In)(left, right),
            ast::BinOpKind::ScAnd => Node::And(left, right),
            ast::BinOpKind::ScOr => Node::Or(left, right),
            ast::BinOpKind::Concat => Node::Join(left, right),
            ast::BinOpKind::Add => arithmetic(Arithmetic::Add)(left, right),
            ast::BinOpKind::Sub => arithmetic(Arithmetic::Subtract)(left, right),
            ast::BinOpKind::Mul => arithmetic(Arithmetic::Multiply)(left, right),
            ast::BinOpKind::Div => arithmetic(Arithmetic::Divide)(left, right),
            ast::BinOpKind::FloorDiv => arithmetic(Arithmetic::DivideWhole)(left, right),
            ast::BinOpKind::Rem => arithmetic(Arithmetic::Remainder)(left, right),
            ast::BinOpKind::Pow => arithmetic(Arithmetic::Power)(left, right),
        })
    }

    fn compare(&mut self, compare: &ast::Compare<'_>) -> Result<Node, Flaw> {
        let first = self.boxed(&compare.expr)?;
        let mut others = Vec::with_capacity(compare.ops.len());
        for part in &compare.ops {
            let op = match part.op {
                ast::CompareOpKind::Eq => Comparison::Equal,
                ast::CompareOpKind::Ne => Comparison::NotEqual,
                ast::CompareOpKind::Lt => Comparison::Less,
                ast::CompareOpKind::Lte => Comparison::LessOrEqual,
                ast::CompareOpKind::Gt => Comparison::Greater,
                ast::CompareOpKind::Gte => Comparison::GreaterOrEqual,
                ast::CompareOpKind::In => Comparison::In,
                ast::CompareOpKind::NotIn => Comparison::NotIn,
            };
            others.push((op, self.expr(&part.expr)?));
        }
        Ok(Node::Compare(first, others))
    }

    fn choice(&mut self, choice: &ast::IfExpr<'_>) -> Result<Node, Flaw> {
        let test = self.expr(&choice.test_expr)?;
        let yes = self.expr(&choice.true_expr)?;
        let no = choice.false_expr.as_ref().map_or(Ok(Node::Const(Value::Null)), |no| self.expr(no))?;
        Ok(Node::If(Box::new([test, yes, no])))
    }

    /// What is read inside may be missing, if `excused`.
    fn excused<T>(&mut self, excused: bool, inner: impl FnOnce(&mut Self) -> T) -> T {
        self.excuses += usize::from(excused);
        let result = inner(self);
        self.excuses -= usize::from(excused);
        result
    }

    fn filter(&mut self, filter: &ast::Spanned<ast::Filter<'_>>) -> Result<Node, Flaw> {
        let Some(input) = &filter.expr else {
            return Err(self.flaw(filter.span(), "a filter needs a value before it"));
        };
        let name = self.known("filter", filter.name, vocabulary::FILTERS, filter.span())?;
        let input = self.excused(matches!(name, "default" | "d"), |this| this.boxed(input))?;
        Ok(Node::Filter(name, input, self.arguments(&filter.args, filter.span())?))
    }

    fn test(&mut self, test: &ast::Spanned<ast::Test<'_>>) -> Result<Node, Flaw> {
        let name = self.known("test", test.name, vocabulary::TESTS, test.span())?;
        let input = self.excused(matches!(name, "defined" | "undefined"), |this| this.boxed(&test.expr))?;
        Ok(Node::Test(name, input, self.arguments(&test.args, test.span())?))
    }

    fn arguments(&mut self, args: &[ast::CallArg<'_>], place: Place) -> Result<Vec<Argument>, Flaw> {
        let mut arguments = Vec::with_capacity(args.len());
        for arg in args {
            arguments.push(match arg {
                ast::CallArg::Pos(expr) => Argument { name: None, value: self.expr(expr)? },
                ast::CallArg::Kwarg(name, expr) => Argument { name: Some((*name).to_owned()), value: self.expr(expr)? },
                ast::CallArg::PosSplat(_) | ast::CallArg::KwargSplat(_) => {
                    return Err(self.flaw(place, "`*` and `**` arguments are not part of the language"));
                }
            });
        }
        Ok(arguments)
    }

    /// `len(x)` and `x.lower()` are other ways to write a filter.
    fn call(&mut self, call: &ast::Spanned<ast::Call<'_>>) -> Result<Node, Flaw> {
        let place = call.span();
        match &call.expr {
            ast::Expr::Var(function) if function.id == "range" => {
                let bounds = self.arguments(&call.args, place)?;
                if bounds.is_empty() || bounds.len() > 3 || bounds.iter().any(|bound| bound.name.is_some()) {
                    return Err(self.flaw(place, "range takes one to three whole numbers"));
                }
                Ok(Node::Range(bounds.into_iter().map(|bound| bound.value).collect()))
            }
            ast::Expr::Var(function) => {
                let arguments = self.arguments(&call.args, place)?;
                self.applied("function", function.id, arguments, place)
            }
            ast::Expr::GetAttr(method) => {
                let mut arguments = vec![Argument { name: None, value: self.expr(&method.expr)? }];
                arguments.extend(self.arguments(&call.args, place)?);
                self.applied("method", method.name, arguments, place)
            }
            _ => Err(self.flaw(place, "only functions and methods can be called")),
        }
    }

    /// A function or method as the filter of that name, applied to its first argument.
    fn applied(&mut self, kind: &str, name: &str, mut arguments: Vec<Argument>, place: Place) -> Result<Node, Flaw> {
        let name = vocabulary::CALLS.iter().find(|(call, _)| *call == name).map_or(name, |(_, filter)| filter);
        let name = self.known(kind, name, vocabulary::FILTERS, place)?;
        if matches!(name, "min" | "max") && arguments.len() > 1 {
            let items = arguments.drain(..).map(|argument| argument.value).collect();
            return Ok(Node::Filter(name, Box::new(Node::List(items)), Vec::new()));
        }
        if arguments.is_empty() || arguments[0].name.is_some() {
            return Err(self.flaw(place, format!("{name} needs a value")));
        }
        let input = arguments.remove(0).value;
        Ok(Node::Filter(name, Box::new(input), arguments))
    }

    fn known(
        &self,
        kind: &str,
        name: &str,
        words: &'static [&'static str],
        place: Place,
    ) -> Result<&'static str, Flaw> {
        words.iter().copied().find(|word| *word == name).ok_or_else(|| {
            let mut flaw = self.flaw(place, format!("unknown {kind} `{name}`"));
            flaw.help = Some(match nearest(name, words.iter().copied()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known are: {}", words.join(", ")),
            });
            flaw
        })
    }

    /// A name with what is read of it: the longest constant path, then computed indexes.
    fn access(&mut self, expr: &ast::Expr<'_>) -> Result<Node, Flaw> {
        let mut segments = Vec::new();
        let mut at = expr;
        loop {
            let next = match at {
                ast::Expr::GetAttr(attr) => (&attr.expr, Some(Segment::Key(attr.name.to_owned()))),
                ast::Expr::GetItem(item) => (&item.expr, constant_segment(&item.subscript_expr)),
                _ => break,
            };
            let (inner, Some(segment)) = next else { break };
            segments.push(segment);
            at = inner;
            if segments.len() > path::MAX_SEGMENTS {
                let message = format!("a path has at most {} parts", path::MAX_SEGMENTS);
                return Err(self.flaw(expr.span(), message));
            }
        }
        segments.reverse();
        match at {
            ast::Expr::Var(var) => {
                // The parser's place of `a.b.c` begins at its last part.
                let whole = Place { start_offset: var.span().start_offset, ..expr.span() };
                self.named(var.id, segments, whole)
            }
            ast::Expr::GetItem(item) => self.computed(item, segments),
            other => {
                let value = self.expr(other)?;
                Ok(segments.into_iter().fold(value, below))
            }
        }
    }

    fn computed(&mut self, item: &ast::GetItem<'_>, segments: Vec<Segment>) -> Result<Node, Flaw> {
        if matches!(&item.expr, ast::Expr::Var(var) if var.id == "steps" && !self.is_local("steps")) {
            let mut flaw = self.flaw(item.subscript_expr.span(), "a step is named by a constant id");
            flaw.help = Some("write steps.ID.output or steps['ID'].output".to_owned());
            return Err(flaw);
        }
        let value = self.boxed(&item.expr)?;
        let index = self.boxed(&item.subscript_expr)?;
        Ok(segments.into_iter().fold(Node::Item(value, index), below))
    }

    fn is_local(&self, name: &str) -> bool {
        self.locals.iter().any(|local| local == name)
    }

    fn named(&mut self, name: &str, segments: Vec<Segment>, place: Place) -> Result<Node, Flaw> {
        if self.is_local(name) {
            return Ok(Node::Local(name.to_owned(), segments));
        }
        if matches!(name, "null" | "undefined") && segments.is_empty() {
            return Ok(Node::Const(Value::Null));
        }
        let (root, below) = match name {
            "steps" => self.step(segments, place)?,
            _ => (self.root(name, &segments, place)?, segments),
        };
        self.refs.push((root.clone(), below.clone()));
        self.places.push(self.place(place));
        self.excused.push(self.excuses > 0);
        Ok(Node::Path(root, below))
    }

    fn root(&self, name: &str, segments: &[Segment], place: Place) -> Result<Root, Flaw> {
        Ok(match name {
            "input" => Root::Input,
            "trigger" => Root::Trigger,
            "previous" => Root::Previous,
            "earlier" => Root::Earlier,
            "item" => Root::Item,
            "index" => Root::Index,
            "loop" => Root::Loop,
            "vars" => Root::Vars,
            "run" => Root::Run,
            "workflow" => Root::Workflow,
            "now" => Root::Now,
            "event" => Root::Event,
            _ => {
                let mut flaw = self.flaw(place, format!("unknown name `{name}`"));
                let of_step = match segments.first() {
                    Some(Segment::Key(part)) => Part::named(part).map(|_| part),
                    _ => None,
                };
                flaw.help = Some(match (of_step, nearest(name, ROOTS)) {
                    (Some(part), _) => format!("did you mean `steps.{name}.{part}`?"),
                    (None, Some(near)) => format!("did you mean `{near}`?"),
                    (None, None) => {
                        format!("names are: {}; text needs quotes, and a key with `-` is ['…']", ROOTS.join(", "))
                    }
                });
                return Err(flaw);
            }
        })
    }

    fn step(&self, mut segments: Vec<Segment>, place: Place) -> Result<Reference, Flaw> {
        let wanted = |flaw: Flaw, help: String| Flaw { help: Some(help), ..flaw };
        let Some(Segment::Key(key)) = segments.first().cloned() else {
            let flaw = self.flaw(place, "`steps` needs the id of a step");
            return Err(wanted(flaw, "write steps.ID.output or steps['ID'].output".to_owned()));
        };
        let part = match segments.get(1) {
            Some(Segment::Key(part)) => part.as_str(),
            _ => {
                let flaw = self.flaw(place, format!("`steps.{key}` needs the part of the step that is meant"));
                return Err(wanted(flaw, format!("write steps.{key}.output, .outputs, .status or .error")));
            }
        };
        let Some(part) = Part::named(part) else {
            let flaw = self.flaw(place, format!("a step has no part `{part}`"));
            let help = match nearest(part, PARTS) {
                Some(near) => format!("did you mean `{near}`?"),
                None => {
                    format!("its parts are: {}; fields are below output: steps.{key}.output.{part}", PARTS.join(", "))
                }
            };
            return Err(wanted(flaw, help));
        };
        Ok((Root::Step { key, part }, segments.split_off(2)))
    }
}

/// Extends a path by a constant segment, or looks up below a computed value.
fn below(value: Node, segment: Segment) -> Node {
    let key = match segment {
        Segment::Key(key) => Value::from(key),
        Segment::Index(index) => Value::from(index),
    };
    Node::Item(Box::new(value), Box::new(Node::Const(key)))
}

/// The subscript as a path segment, where it is a constant text or whole number.
fn constant_segment(expr: &ast::Expr<'_>) -> Option<Segment> {
    let value = expr.as_const()?;
    if let Some(key) = value.as_str() {
        return Some(Segment::Key(key.to_owned()));
    }
    if value.is_integer() { i64::try_from(value).ok().map(Segment::Index) } else { None }
}
