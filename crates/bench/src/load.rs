//! What loading costs: reading, building and checking generated files of every format and of three sizes, beside a bare
//! YAML parse of the same text. Nothing is run.

use std::fmt::Write;
use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use relais_dialects::{Format, Options};
use relais_plan::check::{World, check};
use relais_plan::problem::has_errors;
use relais_plan::{Plan, Problems, Source};
use saphyr_parser::Parser;
use serde_json::Value;

use crate::protocol::{Args, print as say};
use crate::rig::NoFiles;

/// A way to write a file of so many nodes.
struct Kind {
    name: &'static str,
    format: Format,
    text: fn(usize) -> String,
}

const KINDS: &[Kind] = &[
    Kind { name: "native, a line", format: Format::Native, text: native_line },
    Kind { name: "native, needs", format: Format::Native, text: native_needs },
    Kind { name: "chain, all earlier", format: Format::Chain, text: |nodes| chain(nodes, "Do it.") },
    Kind { name: "chain, previous", format: Format::Chain, text: |nodes| chain(nodes, "Use $previous_output.v.") },
    Kind { name: "steps, placeholders", format: Format::Steps, text: steps },
    Kind { name: "pipeline, a line", format: Format::Pipeline, text: pipeline_line },
    Kind { name: "pipeline, parallel", format: Format::Pipeline, text: pipeline_blocks },
    Kind { name: "graph, a line", format: Format::Graph, text: |nodes| graph(nodes, &line(nodes)) },
    Kind { name: "graph, fans of 20", format: Format::Graph, text: |nodes| graph(nodes, &fans(nodes)) },
    Kind { name: "dag, a line", format: Format::Dag, text: |nodes| dag(nodes, 1) },
    Kind { name: "dag, layers of 10", format: Format::Dag, text: |nodes| dag(nodes, 10) },
];

/// Nothing is known outside of the file.
struct Nowhere;

impl World for Nowhere {
    fn tools(&self) -> Option<Vec<(String, Value)>> {
        None
    }

    fn servers(&self) -> Vec<String> {
        Vec::new()
    }

    fn price_known(&self, _model: &str) -> bool {
        true
    }
}

/// One row per kind: medians in milliseconds for a quarter of the nodes, for all, and for four times as many.
pub fn print(args: &Args) -> Result<()> {
    let (nodes, rounds) = (args.number("nodes")?.max(4), args.number("rounds")?.max(1));
    let sizes = [nodes / 4, nodes, nodes * 4];
    say(&format!(
        "{:<20} {:>9} {:>9} {:>9} {:>7} {:>9} {:>9} {:>7}",
        "median ms of nodes:", sizes[0], sizes[1], sizes[2], "4n : n", "KiB of n", "parse n", "× parse"
    ))?;
    let mut refused = Vec::new();
    for kind in KINDS {
        match row(kind, sizes, rounds) {
            Ok(row) => say(&row)?,
            Err(problem) => refused.push(format!("{}: {problem}", kind.name)),
        }
    }
    match refused.as_slice() {
        [] => Ok(()),
        refused => bail!("not measured:\n{}", refused.join("\n")),
    }
}

fn row(kind: &Kind, sizes: [usize; 3], rounds: usize) -> Result<String> {
    let sources = sizes.map(|nodes| Source { name: "bench.yaml".to_owned(), text: (kind.text)(nodes) });
    let mut loads: [Vec<Duration>; 3] = Default::default();
    let mut parses = Vec::new();
    for source in &sources {
        verify(kind, source)?;
    }
    // Side by side, so that whatever else the machine does meets all of them.
    for _ in 0..rounds {
        for (source, times) in sources.iter().zip(&mut loads) {
            times.push(timed(|| loaded(kind, source)));
        }
        parses.push(timed(|| Parser::new_from_str(&sources[1].text).filter(|event| event.is_ok()).count()));
    }
    let [quarter, all, fourfold] = loads.map(median);
    let parse = median(parses);
    Ok(format!(
        "{:<20} {quarter:>9.2} {all:>9.2} {fourfold:>9.2} {:>7.2} {:>9} {parse:>9.2} {:>7.2}",
        kind.name,
        fourfold / all,
        sources[1].text.len() / 1024,
        all / parse
    ))
}

/// All that `relais validate` does with a text.
fn loaded(kind: &Kind, source: &Source) -> (Option<Plan>, Problems) {
    let options = Options { format: Some(kind.format), branch: None };
    let loaded = relais_dialects::read(source, &NoFiles, &options);
    let mut problems = loaded.problems;
    problems.extend(loaded.plan.iter().flat_map(|plan| check(plan, &Nowhere)));
    (loaded.plan, problems)
}

fn verify(kind: &Kind, source: &Source) -> Result<()> {
    let (plan, problems) = loaded(kind, source);
    match (plan, problems.first()) {
        (Some(plan), _) if !has_errors(&problems) && !plan.nodes.is_empty() => Ok(()),
        (_, Some(problem)) => bail!("{}", problem.message),
        (_, None) => bail!("it has no steps"),
    }
}

fn timed<T>(work: impl Fn() -> T) -> Duration {
    let start = Instant::now();
    let done = black_box(work());
    let took = start.elapsed();
    drop(done);
    took
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times.get(times.len() / 2).map_or(0.0, |time| time.as_secs_f64() * 1e3)
}

/// A head and one line for each node.
fn lines(head: &str, nodes: usize, line: impl Fn(usize) -> String) -> String {
    let mut text = head.to_owned();
    for node in 0..nodes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", line(node));
    }
    text
}

/// What stands for the node before, if there is one.
fn before(node: usize, written: impl Fn(usize) -> String) -> String {
    node.checked_sub(1).map(written).unwrap_or_default()
}

const NATIVE: &str =
    "agents: { w: { model: openai/gpt-4o-mini, instructions: Work., output: { v: string } } }\nsteps:\n";

fn native_line(nodes: usize) -> String {
    lines(NATIVE, nodes, |node| {
        let from = before(node, |node| format!(" {{{{ steps.s{node}.output.v }}}}"));
        format!("  - {{ id: s{node}, agent: w, prompt: \"Go on with{from}.\" }}")
    })
}

fn native_needs(nodes: usize) -> String {
    lines(NATIVE, nodes, |node| {
        let needs = before(node, |node| format!(", needs: [s{}]", node / 2));
        format!("  - {{ id: s{node}, agent: w, prompt: Go on.{needs} }}")
    })
}

fn chain(nodes: usize, prompt: &str) -> String {
    lines("name: chain\nexecutors:\n", nodes, |node| {
        format!(
            "  - {{ executor_id: e{node}, name: E, model: gpt-4o-mini, tools: [], output_schema: {{ v: str }}, \
             system_prompt: \"{prompt}\" }}"
        )
    })
}

fn steps(nodes: usize) -> String {
    lines("name: steps\nsteps:\n", nodes, |node| {
        let from = before(node, |node| format!(" <<step_output.u{node}>>"));
        format!(
            "  - {{ uuid: u{node}, name: Step {node}, type: custom_llm, model: gpt-4o-mini, system_prompt: \
             \"Go on with{from} and <<trigger_output>>.\" }}"
        )
    })
}

const PIPELINE: &str = "agents: { w: { model: openai/gpt-4o-mini, instruction: Work. } }\nworkflow:\n";

fn pipeline_line(nodes: usize) -> String {
    lines(PIPELINE, nodes, |node| format!("  - {{ id: s{node}, type: agent, name: w }}"))
}

/// Blocks of ten.
fn pipeline_blocks(nodes: usize) -> String {
    lines(PIPELINE, nodes, |node| {
        let step = format!("      - {{ id: s{node}, type: agent, name: w }}");
        match node % 10 {
            0 => format!("  - id: block{node}\n    type: parallel\n    steps:\n{step}"),
            _ => step,
        }
    })
}

fn graph(nodes: usize, edges: &str) -> String {
    let head = "name: graph\nagents: { w: { model: openai/gpt-4o-mini } }\nnodes:\n";
    lines(head, nodes, |node| format!("  - {{ id: n{node}, config: {{ agentId: w }} }}")) + "edges:\n" + edges
}

fn line(nodes: usize) -> String {
    lines("", nodes - 1, |node| format!("  - {{ from: n{node}, to: n{} }}", node + 1))
}

/// Every twentieth node is where the ones before it meet and the ones after it part.
fn fans(nodes: usize) -> String {
    lines("", nodes, |node| {
        let hub = node - node % 20;
        let meet = Some(hub + 20).filter(|next| *next < nodes);
        let part = format!("  - {{ from: n{hub}, to: n{node} }}");
        match (node == hub, meet) {
            (true, _) => String::new(),
            (false, None) => part,
            (false, Some(next)) => format!("{part}\n  - {{ from: n{node}, to: n{next} }}"),
        }
    })
}

/// Ten personas; each node depends on one in the layer before.
fn dag(nodes: usize, width: usize) -> String {
    let schema = "{ type: object, properties: { v: { type: string } }, required: [v] }";
    let personas = lines("personas:\n", 10, |persona| {
        format!(
            "  - {{ agent_name: P{persona}, model: openai/gpt-4o-mini, instruction: Work., input_schema: {schema}, \
             output_schema: {schema} }}"
        )
    });
    let head = format!("{personas}workflow:\n  name: dag\n  input_schema: {schema}\n  nodes:\n");
    lines(&head, nodes, |node| {
        let persona = node % 10;
        match node.checked_sub(width) {
            None => format!("    - {{ id: n{node}, agent_persona: P{persona} }}"),
            Some(above) => format!(
                "    - {{ id: n{node}, agent_persona: P{persona}, depends_on: [n{above}], input: {{ v: \
                 \"{{{{n{above}.output.v}}}}\" }} }}"
            ),
        }
    })
}
