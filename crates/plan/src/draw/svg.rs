//! The outline as SVG: boxes and arrows from top to bottom, frames around lanes and loops. No scripts, no outside
//! fonts; light and dark by the reader's preference.
//!
//! Each part is laid out on its own, from its own origin, and then moved to its place by its parent.

use super::outline::{Block, Form, Item, Outline};

const LINE_HEIGHT: f64 = 16.0;
const PADDING: f64 = 10.0;
const GAP: f64 = 28.0;
/// Room for the label of an arm between the choice and its first step.
const ARM_GAP: f64 = 40.0;
const LANE_GAP: f64 = 24.0;
const MARGIN: f64 = 16.0;
const MIN_WIDTH: f64 = 90.0;
/// Lanes side by side before a new row begins, so that a thousand lanes still fit a page's width.
const LANES_PER_ROW: usize = 6;
/// Average advance of a 13 px sans-serif letter, and of one that is as wide as high.
const NARROW: f64 = 7.2;
const WIDE: f64 = 13.0;

const STYLE: &str = "\
svg{color-scheme:light dark;font:13px system-ui,sans-serif}\
.ground{fill:#fff}.box{fill:#f4f6fa;stroke:#5b6b8c}.choice{fill:#fff7e0;stroke:#a07a1c}\
.frame{fill:none;stroke:#8a94a8;stroke-dasharray:5 4}\
text{fill:#1b2333}.key{font-weight:600}.note{fill:#566074;font-size:12px}\
.line{fill:none;stroke:#5b6b8c}.head{fill:#5b6b8c}\
@media(prefers-color-scheme:dark){\
.ground{fill:#12161f}.box{fill:#1e2635;stroke:#8fa3cc}.choice{fill:#33290f;stroke:#d8b04a}\
.frame{stroke:#6b7690}text{fill:#e6eaf3}.note{fill:#a5afc4}.line{stroke:#8fa3cc}.head{fill:#8fa3cc}}";

pub(super) fn render(outline: &Outline) -> String {
    let mut parts: Vec<Part> = outline.body.iter().map(item).collect();
    if parts.is_empty() {
        parts.push(boxed("box", &[Line::note("no steps")]));
    }
    let body = stack(parts);
    let exits: Vec<Part> =
        outline.exits.iter().map(|exit| framed(&[Line::key(&exit.label)], sequence(&exit.items))).collect();
    let whole = column(std::iter::once(body).chain(exits).collect());
    let title = Line::key(&outline.name);
    let width = whole.width.max(title.width()) + 2.0 * MARGIN;
    let height = whole.height + 2.0 * MARGIN + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\"><title>{}</title><style>{STYLE}</style>\n",
        escape(&outline.name)
    );
    svg.push_str("<rect class=\"ground\" width=\"100%\" height=\"100%\"/>\n");
    svg.push_str(&title.at(MARGIN, MARGIN + LINE_HEIGHT));
    svg.push_str(&whole.at((width - whole.width) / 2.0, MARGIN + GAP));
    svg.push_str("</svg>\n");
    svg
}

/// Something laid out: it is entered at the middle of its top and left at the middle of its bottom.
struct Part {
    width: f64,
    height: f64,
    svg: String,
    /// Control leaves at the bottom.
    goes_on: bool,
}

struct Line<'t> {
    class: &'static str,
    text: &'t str,
}

impl Part {
    fn at(&self, x: f64, y: f64) -> String {
        format!("<g transform=\"translate({x:.1} {y:.1})\">\n{}</g>\n", self.svg)
    }
}

impl<'t> Line<'t> {
    fn key(text: &'t str) -> Line<'t> {
        Line { class: "key", text }
    }

    fn note(text: &'t str) -> Line<'t> {
        Line { class: "note", text }
    }

    fn width(&self) -> f64 {
        self.text.chars().map(|c| if (c as u32) < 0x1100 { NARROW } else { WIDE }).sum()
    }

    fn at(&self, x: f64, y: f64) -> String {
        format!("<text class=\"{}\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>\n", self.class, escape(self.text))
    }
}

fn item(item: &Item) -> Part {
    let summary = item.summary();
    let leaps: Vec<String> = item.leaps().collect();
    let undo = item.undo.as_ref().map(|undo| format!("undo: {} {}", undo.key, undo.summary()));
    let mut lines = vec![Line::key(&item.key), Line { class: "kind", text: &summary }];
    lines.extend(item.notes.iter().chain(&leaps).chain(&undo).map(|note| Line::note(note)));
    lines.retain(|line| !line.text.is_empty());
    let mut part = match &item.form {
        Form::Step => boxed("box", &lines),
        Form::Choice(arms) => choice(boxed("choice", &lines), arms),
        Form::Lanes(blocks) => framed(&lines, lanes(blocks)),
        Form::Frame(items) => framed(&lines, sequence(items)),
    };
    part.goes_on &= !item.ends_here;
    part
}

fn sequence(items: &[Item]) -> Part {
    stack(items.iter().map(item).collect())
}

fn boxed(class: &str, lines: &[Line<'_>]) -> Part {
    let width = lines.iter().map(Line::width).fold(MIN_WIDTH, f64::max) + 2.0 * PADDING;
    let height = lines.len() as f64 * LINE_HEIGHT + 2.0 * PADDING;
    let mut svg = format!("<rect class=\"{class}\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"6\"/>\n");
    for (row, line) in lines.iter().enumerate() {
        svg.push_str(&line.at(PADDING, PADDING + row as f64 * LINE_HEIGHT + 12.0));
    }
    Part { width, height, svg, goes_on: true }
}

/// One below the other, joined by arrows where control goes on.
fn stack(parts: Vec<Part>) -> Part {
    pile(parts, true)
}

fn column(parts: Vec<Part>) -> Part {
    pile(parts, false)
}

fn pile(parts: Vec<Part>, joined: bool) -> Part {
    let width = parts.iter().map(|part| part.width).fold(0.0, f64::max);
    let goes_on = parts.last().is_none_or(|last| last.goes_on);
    let mut whole = Part { width, height: 0.0, svg: String::new(), goes_on };
    let mut open = false;
    for (position, part) in parts.iter().enumerate() {
        if position > 0 {
            if open && joined {
                whole.svg.push_str(&arrow(&[(width / 2.0, whole.height), (width / 2.0, whole.height + GAP)]));
            }
            whole.height += GAP;
        }
        whole.svg.push_str(&part.at((width - part.width) / 2.0, whole.height));
        whole.height += part.height;
        open = part.goes_on;
    }
    whole
}

fn framed(title: &[Line<'_>], inner: Part) -> Part {
    let title_width = title.iter().map(Line::width).fold(MIN_WIDTH, f64::max);
    let top = title.len() as f64 * LINE_HEIGHT + PADDING * 1.5;
    let width = inner.width.max(title_width) + 2.0 * PADDING;
    let height = top + inner.height + PADDING;
    let mut svg = format!("<rect class=\"frame\" width=\"{width:.1}\" height=\"{height:.1}\" rx=\"8\"/>\n");
    for (row, line) in title.iter().enumerate() {
        svg.push_str(&line.at(PADDING, PADDING + row as f64 * LINE_HEIGHT + 10.0));
    }
    svg.push_str(&inner.at((width - inner.width) / 2.0, top));
    Part { width, height, svg, goes_on: true }
}

/// The question, its arms side by side, and a line below where they meet again.
fn choice(head: Part, arms: &[Block]) -> Part {
    let parts: Vec<Part> =
        arms.iter().map(|arm| widened(sequence(&arm.items), Line::note(&arm.label).width())).collect();
    let (xs, row_width) = side_by_side(&parts);
    let width = row_width.max(head.width);
    let shift = (width - row_width) / 2.0;
    let top = head.height + ARM_GAP;
    let tallest = parts.iter().map(|part| part.height).fold(0.0, f64::max);
    let bottom = top + tallest + GAP / 2.0;
    let mut svg = head.at((width - head.width) / 2.0, 0.0);
    for ((arm, part), x) in arms.iter().zip(&parts).zip(xs) {
        let (left, middle) = (x + shift, x + shift + part.width / 2.0);
        let knee = head.height + ARM_GAP / 3.0;
        let way = [(width / 2.0, head.height), (width / 2.0, knee), (middle, knee), (middle, top)];
        svg.push_str(&if arm.items.is_empty() { line(&way) } else { arrow(&way) });
        svg.push_str(&Line::note(&arm.label).at(middle + 4.0, top - 10.0));
        svg.push_str(&part.at(left, top));
        if part.goes_on {
            svg.push_str(&line(&[(middle, top + part.height), (middle, bottom), (width / 2.0, bottom)]));
        }
    }
    Part { width, height: bottom, svg, goes_on: parts.iter().any(|part| part.goes_on) }
}

/// At least so wide that a label beside its middle fits.
fn widened(part: Part, label_width: f64) -> Part {
    let width = part.width.max(2.0 * label_width + PADDING);
    let svg = part.at((width - part.width) / 2.0, 0.0);
    Part { width, svg, ..part }
}

fn side_by_side(parts: &[Part]) -> (Vec<f64>, f64) {
    let mut x = 0.0;
    let mut xs = Vec::with_capacity(parts.len());
    for part in parts {
        xs.push(x);
        x += part.width + LANE_GAP;
    }
    (xs, (x - LANE_GAP).max(0.0))
}

/// Lanes in rows, each below those it comes after.
fn lanes(blocks: &[Block]) -> Part {
    let parts: Vec<Part> = blocks.iter().map(lane).collect();
    let rows = rows(blocks);
    let widths: Vec<f64> = rows.iter().map(|row| row_width(row, &parts)).collect();
    let width = widths.iter().copied().fold(0.0, f64::max);
    let mut origins = vec![(0.0, 0.0); parts.len()];
    let mut y = 0.0;
    let mut svg = String::new();
    for (row, row_width) in rows.iter().zip(widths) {
        let mut x = (width - row_width) / 2.0;
        for &lane in row {
            origins[lane] = (x, y);
            svg.push_str(&parts[lane].at(x, y));
            x += parts[lane].width + LANE_GAP;
        }
        y += row.iter().map(|&lane| parts[lane].height).fold(0.0, f64::max) + GAP;
    }
    svg.push_str(&lane_arrows(blocks, &parts, &origins));
    Part { width, height: (y - GAP).max(0.0), svg, goes_on: true }
}

fn lane(block: &Block) -> Part {
    let inner = sequence(&block.items);
    if block.is_one_step() { inner } else { framed(&[Line::key(&block.label)], inner) }
}

fn row_width(row: &[usize], parts: &[Part]) -> f64 {
    let lanes: f64 = row.iter().map(|&lane| parts[lane].width).sum();
    lanes + LANE_GAP * row.len().saturating_sub(1) as f64
}

fn lane_arrows(blocks: &[Block], parts: &[Part], origins: &[(f64, f64)]) -> String {
    let middle = |lane: usize| origins[lane].0 + parts[lane].width / 2.0;
    let mut svg = String::new();
    for (lane, block) in blocks.iter().enumerate() {
        for &before in block.after.iter().filter(|&&before| before < parts.len()) {
            let bottom = origins[before].1 + parts[before].height;
            svg.push_str(&arrow(&[(middle(before), bottom), (middle(lane), origins[lane].1)]));
        }
    }
    svg
}

/// The lanes by how many come before them, in rows of at most [`LANES_PER_ROW`].
fn rows(blocks: &[Block]) -> Vec<Vec<usize>> {
    let levels = levels(blocks);
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.sort_by_key(|&lane| levels[lane]);
    let same_level = order.chunk_by(|&a, &b| levels[a] == levels[b]);
    same_level.flat_map(|level| level.chunks(LANES_PER_ROW).map(<[usize]>::to_vec)).collect()
}

/// The longest way to each lane; lanes on a cycle, which the builder refuses, stay at the top.
fn levels(blocks: &[Block]) -> Vec<usize> {
    let mut levels = vec![0; blocks.len()];
    let mut waits: Vec<usize> = blocks.iter().map(|block| block.after.len()).collect();
    let mut followers = vec![Vec::new(); blocks.len()];
    for (lane, block) in blocks.iter().enumerate() {
        for &before in block.after.iter().filter(|&&before| before < blocks.len()) {
            followers[before].push(lane);
        }
    }
    let mut ready: Vec<usize> = (0..blocks.len()).filter(|&lane| waits[lane] == 0).collect();
    while let Some(lane) = ready.pop() {
        for &follower in &followers[lane] {
            levels[follower] = levels[follower].max(levels[lane] + 1);
            waits[follower] -= 1;
            if waits[follower] == 0 {
                ready.push(follower);
            }
        }
    }
    levels
}

fn line(points: &[(f64, f64)]) -> String {
    let points: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    format!("<polyline class=\"line\" points=\"{}\"/>\n", points.join(" "))
}

/// A line with a head that points down: every arrow here enters from above.
fn arrow(points: &[(f64, f64)]) -> String {
    let Some(&(x, y)) = points.last() else { return String::new() };
    let head = format!("<path class=\"head\" d=\"M{:.1} {:.1}h8l-4 7z\"/>\n", x - 4.0, y - 7.0);
    format!("{}{head}", line(points))
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            // Not characters of XML.
            '\u{fffe}' | '\u{ffff}' => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}
