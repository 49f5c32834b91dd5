//! `relais show`: the trace of a run, as a tree or one step in full.

use relais_engine::{RunStatus, StepStatus, Stored};
use relais_plan::text::cut;
use relais_plan::time::format_duration;
use relais_service::trace::{AnswerTrace, CallTrace, StepTrace};
use relais_service::{Format, Trace};
use serde_json::Value;

use crate::exit::Exit;
use crate::screen::{self, Paint};
use crate::session::{Global, Session};
use crate::which::RunChoice;
use crate::{definition, questions, words};

/// Show what a run did: steps, timings, tokens, cost, tool calls
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  relais show --last
  relais show 0198c9d2 --step 'loop[2]/fetch'
  relais show --last --json | jq .usage
  relais show --last --format chain")]
pub struct Args {
    #[command(flatten)]
    run: RunChoice,
    /// The whole trace as one JSON object
    #[arg(long)]
    json: bool,
    /// One step in full: prompts, messages, tool calls, outputs
    #[arg(long, value_name = "PATH")]
    step: Option<String>,
    /// The run as JSON in the words of a format; `native` is the trace
    #[arg(long, value_name = "FORMAT", value_parser = definition::formats(), conflicts_with_all = ["json", "step"])]
    format: Option<Format>,
}

pub fn run(args: Args, global: &Global) -> anyhow::Result<Exit> {
    global.serve(async |session: &Session| {
        let run = args.run.find(session).await?;
        if let Some(format) = args.format {
            screen::data(&serde_json::to_string_pretty(&session.view(run, format).await?)?)?;
            return Ok(Exit::Done);
        }
        let trace = session.trace(run).await?;
        let paint = Paint::stdout();
        let text = match (&args.step, args.json) {
            (Some(path), json) => step(&trace, path, json, paint)?,
            (None, true) => serde_json::to_string(&trace)?,
            (None, false) => tree(&trace, paint),
        };
        if args.json {
            screen::data(&text)?
        } else {
            screen::out(&text)?
        }
        if trace.status == RunStatus::Interrupted.word() && !args.json {
            screen::note(&format!("nobody works on this run any more; `relais resume {run}` goes on with it"));
        }
        if trace.status == "waiting" && !args.json {
            for block in questions::told(session, run).await? {
                screen::note(&block);
            }
        }
        Ok(Exit::Done)
    })
}

/// How much of an argument, a result or an output a line of the tree shows.
const LINE_CHARS: usize = 120;
/// The whole output is what people came for; beyond this they can ask for JSON.
const OUTPUT_CHARS: usize = 4_000;

fn tree(trace: &Trace, paint: Paint) -> String {
    let mut text = head(trace, paint);
    for step in &trace.steps {
        text.push_str(&branch(step, paint));
    }
    for artifact in &trace.artifacts {
        let about =
            format!("{} v{}  {}  {} bytes", artifact.name, artifact.version, artifact.media_type, artifact.bytes);
        text.push_str(&format!("artifact {}\n", words::line(&about)));
    }
    if !trace.tolerated.is_empty() {
        text.push_str(&format!("tolerated: {}\n", words::line(&trace.tolerated.join(", "))));
    }
    if let Some(error) = &trace.error {
        text.push_str(&format!("{} {}\n", paint.red("error:"), words::hanging(&error.to_string())));
    }
    if let Some(output) = output(trace).filter(|o| !o.is_null()) {
        text.push_str(&format!("{} {}\n", paint.bold("output:"), cut(&words::full(&output), OUTPUT_CHARS)));
    }
    text
}

fn head(trace: &Trace, paint: Paint) -> String {
    let ms = trace.ended_at.map(|at| words::elapsed(trace.started_at, at));
    let effort = words::effort(ms, &trace.usage);
    let status = status_word(&trace.status, paint);
    let mut text = format!("{}  {status}  {effort}\nrun {}", paint.bold(&words::line(&trace.workflow)), trace.run);
    text.push_str(&format!("  started {}", words::instant(trace.started_at)));
    let marks = [
        trace.simulated.then(|| "simulated".to_owned()),
        (!trace.made_up.is_empty()).then(|| format!("made up: {}", trace.made_up.join(", "))),
        trace.forked_from.map(|run| format!("forked from {run}")),
        trace.parent.map(|run| format!("part of run {run}")),
        words::cost(trace.lost.usd_nanos).map(|usd| format!("{usd} perhaps lost to interrupted calls")),
    ];
    marks.into_iter().flatten().for_each(|mark| text.push_str(&format!("  {mark}")));
    text.push('\n');
    if let Stored::Value(input) = &trace.input
        && input.as_object().is_none_or(|fields| !fields.is_empty())
    {
        text.push_str(&format!("input: {}\n", words::brief(input, LINE_CHARS)));
    }
    if let Some(drift) = &trace.drift {
        text.push_str(&format!("{} {}\n", paint.yellow("warning:"), words::line(drift)));
    }
    for signal in &trace.signals {
        let line = format!("· {}  {} by {}", words::instant(signal.at), signal.what, signal.by);
        text.push_str(&format!("{}\n", paint.dim(&words::line(line.trim_end_matches(" by ")))));
    }
    text
}

fn status_word(word: &str, paint: Paint) -> String {
    match word {
        "completed" | "stopped" => paint.green(word),
        "failed" | "partial_success" => paint.red(word),
        _ => paint.yellow(word),
    }
}

fn branch(step: &StepTrace, paint: Paint) -> String {
    let indent = "  ".repeat(step.depth);
    // What was never begun took no time.
    let ms = step.worked_ms().filter(|_| step.attempts > 0);
    let mut line = format!("{indent}{} {}", mark(step.status, paint), words::line(&step.path));
    if let Some(name) = &step.name {
        line.push_str(&format!("  {}", words::shorten(name, LINE_CHARS)));
    }
    line.push_str(&format!("  {}", paint.dim(&step.kind)));
    let attempts = (step.attempts > 1).then(|| format!("{} attempts", step.attempts));
    let effort = Some(words::effort(ms, &step.usage)).filter(|e| !e.is_empty());
    let tolerated = step.tolerated.then(|| "tolerated".to_owned());
    for part in [effort, attempts, step.note.clone(), tolerated].into_iter().flatten() {
        line.push_str(&format!("  {}", words::line(&part)));
    }
    line.push('\n');
    for call in &step.calls {
        line.push_str(&format!("{indent}    {}\n", call_line(call, paint)));
    }
    for (name, value) in step.vars.iter().filter(|_| step.kind != "set") {
        line.push_str(&format!("{indent}    {} {name} = {}\n", paint.dim("set"), words::brief(value, LINE_CHARS)));
    }
    if let Some(error) = &step.error {
        line.push_str(&format!("{indent}    {}\n", paint.red(&words::shorten(&error.to_string(), 4 * LINE_CHARS))));
    }
    line
}

fn mark(status: StepStatus, paint: Paint) -> String {
    match status {
        StepStatus::Completed => paint.green("✓"),
        StepStatus::Failed => paint.red("✗"),
        StepStatus::Skipped => paint.dim("-"),
        StepStatus::Cancelled => paint.yellow("■"),
        StepStatus::Waiting => paint.yellow("…"),
        StepStatus::Running | StepStatus::Pending => paint.yellow("▸"),
    }
}

fn call_line(call: &CallTrace, paint: Paint) -> String {
    let data = match &*call.what {
        // Prompts are long; `--step` has them.
        "model" => String::new(),
        _ => format!(" {}", words::brief(&call.input, LINE_CHARS)),
    };
    let data = if call.input.is_null() { String::new() } else { data };
    let result = match (&call.error, &call.output) {
        (Some(error), _) => format!(" → {}", paint.red(&words::shorten(&error.to_string(), LINE_CHARS))),
        (None, Value::Null) => String::new(),
        (None, output) => format!(" → {}", said(&call.what, output)),
    };
    let taken = if call.answered_at.is_some() { format_duration(call.ms) } else { call.status.clone().into_owned() };
    let again = match call.interrupted {
        0 => String::new(),
        n => format!("  interrupted {}", words::counted(n as usize, "time")),
    };
    let late = if call.late { "  too late" } else { "" };
    let tokens = words::effort(None, &call.usage);
    let tokens = if tokens.is_empty() { tokens } else { format!("  {tokens}") };
    let who = answered_by(call);
    let notes: String = call.notes.iter().map(|note| format!("  {}", paint.yellow(note))).collect();
    format!("{} {}{data}{result}  {taken}{tokens}{again}{late}{notes}{who}", call.what, words::line(&call.name))
}

/// Who has answered a question, in order.
fn answered_by(call: &CallTrace) -> String {
    let one = |answer: &AnswerTrace| {
        let changed = if answer.changed.is_some() { " with changes" } else { "" };
        format!("{}{changed}", words::line(&answer.by))
    };
    let people: Vec<String> = call.answers.iter().map(one).collect();
    if people.is_empty() { String::new() } else { format!("  answered by {}", people.join(", ")) }
}

/// A model's answer is what it said, and the tools it asked for.
fn said(what: &str, output: &Value) -> String {
    if what != "model" {
        return words::brief(output, LINE_CHARS);
    }
    let text = output["text"].as_str().unwrap_or_default();
    let calls = output["calls"].as_array().map_or(&[][..], Vec::as_slice);
    let tools: Vec<&str> = calls.iter().filter_map(|call| call["tool"].as_str()).collect();
    let asks = if tools.is_empty() { String::new() } else { format!("asks for {}", words::line(&tools.join(", "))) };
    let gap = if text.is_empty() || asks.is_empty() { "" } else { "; " };
    format!("{}{gap}{asks}", words::shorten(text, LINE_CHARS))
}

fn output(trace: &Trace) -> Option<Value> {
    match (&trace.large_output, &trace.output) {
        (Some(value), _) => Some(value.clone()),
        (None, Some(stored)) => Some(plain(stored)),
        (None, None) => None,
    }
}

fn plain(stored: &Stored) -> Value {
    match stored {
        Stored::Value(value) => value.clone(),
        Stored::Blob(blob) => Value::String(format!("{} bytes, {}: {}…", blob.bytes, blob.hash, blob.summary)),
    }
}

/// Every instance of a step in full.
fn step(trace: &Trace, path: &str, json: bool, paint: Paint) -> anyhow::Result<String> {
    let found: Vec<&StepTrace> = trace.steps.iter().filter(|s| s.path == path || s.key == path).collect();
    if found.is_empty() {
        let mut paths: Vec<&str> = trace.steps.iter().map(|s| s.path.as_str()).collect();
        paths.dedup();
        anyhow::bail!("run {} has no step `{path}`; it has: {}", trace.run, paths.join(", "));
    }
    if json {
        return Ok(serde_json::to_string(&found)?);
    }
    Ok(found.into_iter().map(|step| whole(step, paint)).collect::<Vec<_>>().join("\n"))
}

fn whole(step: &StepTrace, paint: Paint) -> String {
    let mut text = branch(&StepTrace { depth: 0, calls: Vec::new(), error: None, ..step.clone() }, paint);
    for call in &step.calls {
        text.push_str(&whole_call(call, paint));
    }
    let mut part = |name: &str, body: String| text.push_str(&format!("{}\n{}\n", paint.bold(name), body.trim_end()));
    if let Some(raw) = &step.text {
        part("text", raw.clone());
    }
    if let Some(output) = &step.output {
        part("output", words::full(&plain(output)));
    }
    if let Some(error) = &step.error {
        part("error", format!("{}: {}", error.kind, error.in_full()));
    }
    text
}

fn whole_call(call: &CallTrace, paint: Paint) -> String {
    let effort = words::effort(call.answered_at.map(|_| call.ms), &call.usage);
    let mut text = format!("{} {}  {}  {effort}\n", paint.bold(&call.what), words::line(&call.name), call.status);
    let mut part = |name: &str, body: &str| text.push_str(&format!("  {}\n{}\n", paint.dim(name), indented(body)));
    match (&*call.what, call.input.as_array()) {
        ("model", Some(messages)) => {
            for message in messages {
                part(message["role"].as_str().unwrap_or("message"), &message_text(message));
            }
        }
        _ if call.input.is_null() => {}
        _ => part("given", &words::full(&call.input)),
    }
    match (&*call.what, &call.output) {
        (_, Value::Null) => {}
        ("model", reply) => part("answer", &message_text(reply)),
        (_, output) => part("result", &words::full(output)),
    }
    for AnswerTrace { by, at, value, changed } in &call.answers {
        let mut said = format!("{} {}", words::instant(*at), words::brief(value, LINE_CHARS));
        said.extend(changed.iter().map(|arguments| format!("\narguments: {}", words::full(arguments))));
        part(&format!("answered by {}", words::line(by)), &said);
    }
    for note in &call.notes {
        part("note", note);
    }
    if let Some(error) = &call.error {
        part("error", &error.to_string());
    }
    text
}

/// What was said, and which tools were asked for.
fn message_text(message: &Value) -> String {
    let mut parts = vec![message["text"].as_str().unwrap_or_default().to_owned()];
    for call in message["calls"].as_array().map_or(&[][..], Vec::as_slice) {
        parts.push(format!("{} {}", call["tool"].as_str().unwrap_or_default(), call["arguments"]));
    }
    parts.retain(|part| !part.is_empty());
    parts.join("\n")
}

fn indented(body: &str) -> String {
    body.trim_end().lines().map(|line| format!("    {line}")).collect::<Vec<_>>().join("\n")
}
