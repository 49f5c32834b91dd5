//! What happens, while it happens: spinners on a terminal, plain lines elsewhere, one JSON object per line on demand.
//!
//! Fed with notices only; knows nothing of where they come from.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use relais_engine::{Failure, Usage};
use relais_plan::time::format_duration;
use relais_service::narrate::{Notice, What};

use crate::screen::{self, Paint};
use crate::words;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Json,
    Terminal,
    Plain,
    /// Every event as a line on standard output.
    Stream,
}

impl Style {
    pub fn of(json: bool) -> Style {
        match (json, io::stderr().is_terminal()) {
            (true, _) => Style::Json,
            (false, true) => Style::Terminal,
            (false, false) => Style::Plain,
        }
    }
}

pub struct Progress {
    style: Style,
    verbose: bool,
    paint: Paint,
    screen: MultiProgress,
    spinners: HashMap<String, ProgressBar>,
    /// Tokens and cost of all steps, below the spinners.
    foot: Option<ProgressBar>,
    used: HashMap<String, Usage>,
    total: Usage,
    /// Live text was left without an end of line.
    mid_line: bool,
}

/// Spinners at once; the steps beyond are counted, or the terminal would scroll.
const MAX_SPINNERS: usize = 12;
const TICK: Duration = Duration::from_millis(100);
/// How much of an error's text fits on a progress line; `show` has all of it.
const ERROR_CHARS: usize = 300;

impl Progress {
    pub fn new(style: Style, verbose: bool) -> Progress {
        Progress {
            style,
            // Whoever reads along wants to know what began, too.
            verbose: verbose || style == Style::Stream,
            paint: if style == Style::Stream { Paint::stdout() } else { Paint::stderr() },
            screen: MultiProgress::new(),
            spinners: HashMap::new(),
            foot: None,
            used: HashMap::new(),
            total: Usage::default(),
            mid_line: false,
        }
    }

    /// What happened just now; `shown` is false for what a former process has shown already.
    pub fn tell(&mut self, notice: &Notice, shown: bool) -> io::Result<()> {
        self.count(&notice.what);
        if self.style == Style::Json {
            let line = || serde_json::to_string(notice).unwrap_or_default();
            return if shown { screen::data_if_read(&line()) } else { Ok(()) };
        }
        self.spin(&notice.what);
        let Some(line) = self.line_of(notice).filter(|_| shown) else { return Ok(()) };
        // Whatever the names in it say, it is one line.
        let line = line.replace('\n', "\\n");
        if self.style == Style::Stream {
            return screen::out_if_read(&line);
        }
        self.say(&line);
        Ok(())
    }

    /// A line for people, above the spinners.
    pub fn say(&mut self, line: &str) {
        if std::mem::take(&mut self.mid_line) {
            self.screen.suspend(|| screen::piece("\n"));
        }
        self.screen.suspend(|| screen::note(line));
    }

    /// A piece of what a model is saying.
    pub fn live(&mut self, text: &str) {
        // Where secrets are masked, a piece may be held back until the next.
        if self.style == Style::Json || text.is_empty() {
            return;
        }
        self.mid_line = !text.ends_with('\n');
        self.screen.suspend(|| screen::piece(text));
    }

    /// Nothing moves on the screen any more.
    pub fn close(&mut self) {
        if std::mem::take(&mut self.mid_line) {
            screen::piece("\n");
        }
        self.spinners.drain().for_each(|(_, bar)| bar.finish_and_clear());
        if let Some(foot) = self.foot.take() {
            foot.finish_and_clear();
        }
    }

    fn count(&mut self, what: &What) {
        if let What::ModelAnswered { step, usage, .. } = what {
            self.used.entry(step.clone()).or_default().add(usage);
            self.total.add(usage);
        }
    }

    fn spin(&mut self, what: &What) {
        if self.style != Style::Terminal {
            return;
        }
        match what {
            What::StepStarted { step, kind, .. } => self.start(step, kind),
            What::StepCompleted { step, .. } | What::StepFailed { step, .. } => self.end(step),
            What::StepSkipped { step } | What::StepCancelled { step } => self.end(step),
            What::ModelCalled { step, model } => self.message(step, model),
            What::ToolCalled { step, tool } => self.message(step, tool),
            What::Corrected { step } => self.message(step, "correcting its answer"),
            What::Retried { step, attempt } => self.message(step, &format!("attempt {}", attempt + 1)),
            What::ChildStarted { step, workflow, .. } => self.message(step, workflow),
            What::Asked { step, .. } => self.message(step, "waits for an answer"),
            What::Waiting { step, what, .. } => self.message(step, &format!("waits for {what}")),
            What::ModelAnswered { .. } => self.foot(),
            What::ToolAnswered { .. } | What::RunStarted { .. } | What::Signalled { .. } | What::RunEnded { .. } => {}
        }
    }

    fn start(&mut self, step: &str, kind: &str) {
        if self.spinners.len() >= MAX_SPINNERS {
            return;
        }
        let bar = self.screen.insert_before_foot(self.foot.as_ref(), ProgressBar::new_spinner());
        if let Ok(style) = ProgressStyle::with_template("{spinner} {prefix}  {elapsed}  {msg}") {
            bar.set_style(style);
        }
        bar.set_prefix(words::shorten(step, 60));
        bar.set_message(words::shorten(kind, 60));
        bar.enable_steady_tick(TICK);
        self.spinners.insert(step.to_owned(), bar);
    }

    fn message(&self, step: &str, text: &str) {
        if let Some(bar) = self.spinners.get(step) {
            bar.set_message(words::shorten(text, 60));
        }
    }

    fn end(&mut self, step: &str) {
        if let Some(bar) = self.spinners.remove(step) {
            bar.finish_and_clear();
            self.screen.remove(&bar);
        }
    }

    fn foot(&mut self) {
        let text = words::effort(None, &self.total);
        let screen = &self.screen;
        let foot = self.foot.get_or_insert_with(|| {
            let bar = screen.add(ProgressBar::new_spinner());
            if let Ok(style) = ProgressStyle::with_template("  {msg}") {
                bar.set_style(style);
            }
            bar
        });
        foot.set_message(text);
    }

    fn line_of(&self, notice: &Notice) -> Option<String> {
        let paint = self.paint;
        match &notice.what {
            What::StepCompleted { step, ms, .. } => Some(self.ended(paint.green("✓"), step, Some(*ms))),
            What::StepFailed { step, ms, error, tolerated, .. } => {
                let mark = if *tolerated { paint.yellow("!") } else { paint.red("✗") };
                let tolerated = if *tolerated { "  (tolerated)" } else { "" };
                Some(format!("{}  {}{tolerated}", self.ended(mark, step, Some(*ms)), shown(error)))
            }
            What::StepCancelled { step } => Some(format!("{}  cancelled", self.ended(paint.yellow("■"), step, None))),
            What::StepSkipped { step } => self.verbose.then(|| paint.dim(&format!("- {step}  skipped"))),
            What::Retried { step, attempt } => Some(paint.yellow(&format!("↻ {step}  attempt {}", attempt + 1))),
            What::Corrected { step } => Some(paint.yellow(&format!("↻ {step}  asked to correct its answer"))),
            What::ToolAnswered { step, tool, error: Some(error), .. } => {
                Some(paint.yellow(&format!("! {step}  {tool}: {}", shown(error))))
            }
            What::ModelAnswered { step, error: Some(error), .. } => {
                Some(paint.yellow(&format!("! {step}  {}", shown(error))))
            }
            What::Asked { step, question, .. } => Some(format!("? {step}  {}", words::shorten(question, ERROR_CHARS))),
            What::Waiting { step, until, what } => Some(waiting(step, *until, what)),
            What::Signalled { signal, .. } if signal == "adopted" => {
                Some(paint.dim("· taken over after an interruption"))
            }
            What::RunStarted { made_up, .. } if !made_up.is_empty() => {
                Some(paint.dim(&format!("· made up, since it was not given: {}", made_up.join(", "))))
            }
            What::Signalled { signal, by } => Some(paint.dim(&format!("· {signal} by {by}"))),
            other => self.detail(other).filter(|_| self.verbose).map(|text| paint.dim(&text)),
        }
    }

    /// What only `--verbose` shows.
    fn detail(&self, what: &What) -> Option<String> {
        match what {
            What::RunStarted { workflow, .. } => Some(format!("▸ {workflow}")),
            What::StepStarted { step, kind, .. } => Some(format!("▸ {step}  {kind}")),
            What::ModelCalled { step, model } => Some(format!("  {step}  asks {model}")),
            What::ModelAnswered { step, ms, usage, .. } => {
                Some(format!("  {step}  answered  {}", words::effort(Some(*ms), usage)))
            }
            What::ToolCalled { step, tool } => Some(format!("  {step}  calls {tool}")),
            What::ToolAnswered { step, tool, ms, .. } => Some(format!("  {step}  {tool}  {}", format_duration(*ms))),
            What::ChildStarted { step, child, workflow } => Some(format!("  {step}  starts {workflow} as run {child}")),
            _ => None,
        }
    }

    fn ended(&self, mark: String, step: &str, ms: Option<u64>) -> String {
        let used = self.used.get(step).copied().unwrap_or_default();
        let effort = words::effort(ms, &used);
        let gap = if effort.is_empty() { "" } else { "  " };
        format!("{mark} {step}{gap}{effort}")
    }
}

trait Footed {
    fn insert_before_foot(&self, foot: Option<&ProgressBar>, bar: ProgressBar) -> ProgressBar;
}

impl Footed for MultiProgress {
    fn insert_before_foot(&self, foot: Option<&ProgressBar>, bar: ProgressBar) -> ProgressBar {
        match foot {
            Some(foot) => self.insert_before(foot, bar),
            None => self.add(bar),
        }
    }
}

fn shown(error: &Failure) -> String {
    words::shorten(&error.to_string(), ERROR_CHARS)
}

fn waiting(step: &str, until: Option<i64>, what: &str) -> String {
    match until {
        Some(at) => format!("… {step}  waits for {what} until {}", words::instant(at)),
        None => format!("… {step}  waits for {what}"),
    }
}
