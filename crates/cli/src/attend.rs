//! A run attended to its rest: progress shown, Ctrl-C heard, the result printed.

use std::time::Duration;

use relais_engine::{RunId, RunStatus};
use relais_runtime::Rest;
use relais_runtime::perform::LiveText;
use relais_service::Error;
use relais_service::narrate::{Notice, What};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::Instant;

use crate::exit::Exit;
use crate::interrupts::{Interrupt, Interrupts};
use crate::progress::{Progress, Style};
use crate::screen::{self, Paint};
use crate::session::{Followed, Session};
use crate::{questions, words};

#[derive(Debug, Clone, Copy)]
pub struct Manner {
    pub style: Style,
    pub verbose: bool,
    /// Stay while the run waits for a person, a signal or an event.
    pub wait: bool,
}

/// A cancelled body has 5 s, its exit steps 60 s; whoever takes longer than both is left behind.
const CANCEL_LIMIT: Duration = Duration::from_secs(70);

/// Names of failed steps on one line.
const LET_PASS_SHOWN: usize = 5;

/// Shows a run from entry `since` on until it has ended or waits for somebody.
pub async fn attend(session: &Session, ear: Ear, run: RunId, since: u64, manner: Manner) -> anyhow::Result<Exit> {
    let following = session.follow(run).await?;
    let progress = Progress::new(manner.style, manner.verbose);
    let (ended, failed, give_up_at) = (None, Vec::new(), None);
    let mut attended = Attended { session, ear, run, since, manner, following, progress, ended, failed, give_up_at };
    let outcome = attended.work().await;
    attended.progress.close();
    match outcome? {
        Left::Rest(rest) => attended.finish(rest).await,
        Left::AtOnce => Ok(attended.stopped_at_once()),
        Left::LetGo => Ok(attended.let_go()),
    }
}

/// Why nobody attends the run any more.
enum Left {
    Rest(Rest),
    /// A second Ctrl-C.
    AtOnce,
    LetGo,
}

struct Attended<'s> {
    session: &'s Session,
    ear: Ear,
    run: RunId,
    since: u64,
    manner: Manner,
    following: Followed,
    progress: Progress,
    ended: Option<Notice>,
    /// Steps of the run that have failed.
    failed: Vec<String>,
    give_up_at: Option<Instant>,
}

impl Attended<'_> {
    async fn work(&mut self) -> anyhow::Result<Left> {
        let mut interrupts = Interrupts::listen()?;
        loop {
            let rest = match self.until_rest(&mut interrupts).await? {
                Left::Rest(rest) => rest,
                other => return Ok(other),
            };
            self.catch_up().await?;
            if matches!(rest, Rest::Ended(_)) || !self.manner.wait {
                return Ok(Left::Rest(rest));
            }
            self.ask().await?;
            if let Some(left) = self.until_change(&mut interrupts).await? {
                return Ok(left);
            }
        }
    }

    async fn until_rest(&mut self, interrupts: &mut Interrupts) -> anyhow::Result<Left> {
        let session = self.session;
        let mut settled = std::pin::pin!(session.settle(self.run));
        let mut told_all = false;
        loop {
            let give_up_at = self.give_up_at;
            tokio::select! {
                interrupt = interrupts.next() => {
                    if let Some(left) = self.interrupted(interrupt).await? {
                        return Ok(left);
                    }
                }
                notices = self.following.next(), if !told_all => match notices? {
                    Some(notices) => self.tell(&notices).await?,
                    None => told_all = true,
                },
                rest = &mut settled => return Ok(Left::Rest(rest?)),
                piece = self.ear.next() => self.hear(&piece),
                () = tokio::time::sleep_until(give_up_at.unwrap_or_else(Instant::now)), if give_up_at.is_some() => {
                    return Ok(Left::AtOnce);
                }
            }
        }
    }

    /// The run rests, but whoever asked wants to stay: until something is appended.
    async fn until_change(&mut self, interrupts: &mut Interrupts) -> anyhow::Result<Option<Left>> {
        tokio::select! {
            interrupt = interrupts.next() => self.interrupted(interrupt).await,
            notices = self.following.next() => {
                self.tell(&notices?.unwrap_or_default()).await?;
                Ok(None)
            }
        }
    }

    /// Tells what was said or is in the journal and was not told yet.
    async fn catch_up(&mut self) -> anyhow::Result<()> {
        while let Some(piece) = self.ear.heard() {
            self.hear(&piece);
        }
        // What is told comes in batches; whoever is behind has more than one to hear.
        loop {
            let notices = self.following.so_far().await?;
            if notices.is_empty() {
                return Ok(());
            }
            self.tell(&notices).await?;
        }
    }

    fn hear(&mut self, piece: &LiveText) {
        match piece.is_note() {
            true if piece.run == self.run => self.progress.say(piece.text.trim()),
            true => {}
            false => self.progress.live(&piece.text),
        }
    }

    async fn tell(&mut self, notices: &[Notice]) -> anyhow::Result<()> {
        for notice in notices {
            self.tell_said(notice).await?;
            self.progress.tell(notice, notice.seq > self.since)?;
            let is_new = notice.run == self.run && notice.seq > self.since;
            match &notice.what {
                What::RunEnded { .. } => self.ended = Some(notice.clone()),
                What::StepFailed { step, .. } if is_new => self.failed.push(step.clone()),
                _ => {}
            }
        }
        Ok(())
    }

    /// What a model has said is heard here while it speaks; what it says on a server, when it has spoken.
    async fn tell_said(&mut self, notice: &Notice) -> anyhow::Result<()> {
        let is_heard = matches!(self.session, Session::Local(_)) || notice.seq <= self.since;
        if self.manner.verbose && !is_heard && matches!(notice.what, What::ModelAnswered { .. }) {
            let said = self.session.said(notice).await?;
            self.progress.live(&said);
        }
        Ok(())
    }

    async fn interrupted(&mut self, interrupt: Interrupt) -> anyhow::Result<Option<Left>> {
        if interrupt == Interrupt::Leave {
            return Ok(Some(Left::LetGo));
        }
        if self.give_up_at.is_some() {
            return Ok(Some(Left::AtOnce));
        }
        self.progress.say("cancelling; press Ctrl-C again to stop at once");
        self.give_up_at = Some(Instant::now() + CANCEL_LIMIT);
        match self.session.cancel(self.run).await {
            // It has ended by itself meanwhile.
            Ok(()) | Err(Error::Conflict(_)) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn ask(&mut self) -> anyhow::Result<()> {
        for block in questions::told(self.session, self.run).await? {
            self.progress.say(&block);
        }
        Ok(())
    }

    async fn finish(&mut self, rest: Rest) -> anyhow::Result<Exit> {
        match rest {
            Rest::Ended(status) => self.finish_ended(status).await,
            Rest::Waiting(awaits) => {
                if self.manner.style == Style::Json {
                    let line = json!({ "event": "waiting", "run": self.run, "awaits": awaits });
                    screen::data_if_read(&line.to_string())?;
                }
                self.ask().await?;
                screen::note(&format!("run {} is waiting", self.run));
                Ok(Exit::Waiting)
            }
        }
    }

    async fn finish_ended(&self, status: RunStatus) -> anyhow::Result<Exit> {
        let output = self.session.output(self.run).await?;
        if self.manner.style == Style::Json {
            let line = json!({ "event": "output", "run": self.run, "status": status, "output": output });
            screen::data_if_read(&line.to_string())?;
            return Ok(Exit::of(status));
        }
        self.sum_up(status);
        let has_result = status.is_success() || status == RunStatus::PartialSuccess;
        if has_result && !output.is_null() {
            screen::data_if_read(&words::full(&output))?;
        }
        Ok(Exit::of(status))
    }

    /// The last line: how it ended, what it took, and what can be done about it.
    fn sum_up(&self, status: RunStatus) {
        let paint = Paint::stderr();
        let word = status.word();
        let colored = if status.is_success() { paint.green(word) } else { paint.red(word) };
        let Some(Notice { what: What::RunEnded { usage, ms, error, .. }, .. }) = &self.ended else { return };
        screen::note(&format!("{colored}  {}  run {}", words::effort(Some(*ms), usage), self.run));
        if let Some(error) = error {
            screen::note(&format!("{} {}", paint.red("error:"), words::hanging(&error.to_string())));
        }
        if status.is_success() && !self.failed.is_empty() {
            let shown = self.failed.iter().take(LET_PASS_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
            let more = self.failed.len().saturating_sub(LET_PASS_SHOWN);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            screen::note(&format!("{} {shown}{more} failed, and the workflow let it pass", paint.yellow("!")));
        }
        if !status.is_success() {
            screen::note(&format!("  relais show {run}\n  relais resume {run}", run = self.run));
        }
    }

    fn stopped_at_once(&self) -> Exit {
        screen::note(&match self.session {
            Session::Local(_) => format!("stopped at once; `relais resume {}` goes on", self.run),
            Session::Remote(_) => format!("left; the server goes on with run {}", self.run),
        });
        Exit::Cancelled
    }

    fn let_go(&self) -> Exit {
        screen::note(&match self.session {
            Session::Local(_) => format!("let go; `relais resume {}` goes on", self.run),
            Session::Remote(_) => format!("left; the server goes on with run {}", self.run),
        });
        Exit::LetGo
    }
}

/// Hears what models say while they say it, where the session can, and what is waited for.
pub struct Ear {
    receiver: Option<Receiver<LiveText>>,
    /// Also what models say.
    verbose: bool,
}

impl Ear {
    /// To be opened before the run is started or spoken to: what was said before is not heard.
    pub fn open(session: &Session, verbose: bool) -> Ear {
        Ear { receiver: session.live(), verbose }
    }

    /// The next piece; never anything where nothing can be heard.
    async fn next(&mut self) -> LiveText {
        loop {
            let Some(receiver) = &mut self.receiver else { return std::future::pending().await };
            match receiver.recv().await {
                Ok(piece) if self.verbose || piece.is_note() => return piece,
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => self.receiver = None,
            }
        }
    }

    /// A piece that has been said and was not asked for yet.
    fn heard(&mut self) -> Option<LiveText> {
        loop {
            match self.receiver.as_mut()?.try_recv() {
                Ok(piece) if self.verbose || piece.is_note() => return Some(piece),
                Ok(_) | Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => return None,
            }
        }
    }
}
