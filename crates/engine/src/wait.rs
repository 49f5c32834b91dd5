//! Wait: for time, a signal, an event, a person.

use relais_plan::{Ask, Expr, OnDeadline, Schema, Until};
use serde_json::Value;

use crate::command::*;
use crate::decide::{Again, Events, Step, Unready};
use crate::event::*;
use crate::names::View;
use crate::run::*;

/// So much of an answer that does not fit is said back.
const MAX_ANSWER_CHARS: usize = 100;

pub(crate) fn decide(step: Step<'_>, instance: &Instance, until: &Until) -> Events {
    match &instance.work {
        Work::Fresh if step.run.paused => Ok(Vec::new()),
        Work::Fresh => match command(step, until) {
            Ok(command) => Ok(begin(step, command)),
            Err(unready) => step.unready(unready),
        },
        Work::Received(value) => received(step, until, value),
        Work::Answered(answer) => answered(step, until, answer),
        Work::Asked(_) | Work::Resting(_) | Work::Rested | Work::Chose(_) => Ok(Vec::new()),
        Work::Agent(_) | Work::Fan(_) | Work::Each(_) => Ok(Vec::new()),
    }
}

/// A signal that came before anybody waited is taken at once.
fn begin(step: Step<'_>, command: Command) -> Vec<Event> {
    let early = if let Command::Await(Awaiting::Signal(name)) = &command {
        step.run.sent.iter().find(|(sent, _)| sent == name).map(|(_, value)| value.clone())
    } else {
        None
    };
    let id = step.run.next_command;
    let mut events = vec![step.ask(command)];
    events.extend(early.map(|value| Event::Received { id, value, by: String::new() }));
    events
}

/// A signal that came while somebody already waits for it by name.
pub(crate) fn sent(step: Step<'_>, id: CommandId) -> Option<Event> {
    let Command::Await(Awaiting::Signal(name)) = &*step.run.owed.get(&id)?.command else { return None };
    let (_, value) = step.run.sent.iter().find(|(sent, _)| sent == name)?;
    Some(Event::Received { id, value: value.clone(), by: String::new() })
}

fn command(step: Step<'_>, until: &Until) -> Result<Command, Unready> {
    match until {
        Until::For(template) => {
            let ms = duration(&step.render(template)?)?;
            Ok(Command::Sleep { until: step.run.at.saturating_add(ms as Millis), retry: false })
        }
        Until::At(template) => Ok(Command::Sleep { until: instant(&step.render(template)?)?, retry: false }),
        Until::Signal { name } => Ok(Command::Await(Awaiting::Signal(name.clone()))),
        Until::Event { event, .. } => Ok(Command::Await(Awaiting::Event(event.clone()))),
        Until::Person(ask) => question(step, ask),
    }
}

fn question(step: Step<'_>, ask: &Ask) -> Result<Command, Unready> {
    let question = relais_plan::template::in_text(&step.render(&ask.question)?);
    let show = match &ask.show {
        Some(show) => step.render(show)?,
        None => Value::Null,
    };
    let deadline = ask.deadline_ms.map(|ms| step.run.at.saturating_add(ms as Millis));
    let answer = ask.answer.json().clone();
    let people = ask.people.clone();
    Ok(Command::AskPerson(Box::new(Question { question, show, answer, deadline, approves: None, people })))
}

/// Ten years: a longer wait is a mistake in the unit.
const MAX_WAIT_MS: u64 = 10 * 366 * 24 * 3_600_000;

fn duration(value: &Value) -> Result<u64, Unready> {
    let ms = match value {
        Value::Number(n) => n.as_f64().filter(|s| *s >= 0.0).map(|s| (s * 1000.0) as u64),
        Value::String(text) => relais_plan::time::parse_duration(text),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    let wrong = || format!("`{value}` is not a duration; write seconds, or text such as 90s, 10m, 1h30m");
    ms.filter(|ms| *ms <= MAX_WAIT_MS).ok_or_else(|| Unready::Fail(Failure::new(ErrorKind::Schema, wrong())))
}

fn instant(value: &Value) -> Result<Millis, Unready> {
    let wrong = || format!("`{value}` is not a time; write RFC 3339 such as 2026-03-01T09:00:00Z");
    let at = value.as_str().and_then(relais_plan::time::parse_instant);
    at.ok_or_else(|| Unready::Fail(Failure::new(ErrorKind::Schema, wrong())))
}

fn answered(step: Step<'_>, until: &Until, answer: &Answer) -> Events {
    match (&answer.body, until) {
        (Body::Slept, Until::Person(ask)) => deadline_passed(step, ask),
        (Body::Slept, _) => step.complete(Some(Stored::null()), None),
        (Body::Failed(failure), _) => step.fail(failure.clone(), Again::Allowed),
        (Body::Returned { .. } | Body::Replied(_) | Body::Ended { .. } | Body::Cancelled, _) => {
            let failure = Failure::new(ErrorKind::Cancelled, "the wait was cancelled from outside");
            step.fail(failure, Again::Never)
        }
    }
}

fn deadline_passed(step: Step<'_>, ask: &Ask) -> Events {
    let late = relais_plan::time::format_duration(ask.deadline_ms.unwrap_or(0));
    match &ask.on_deadline {
        OnDeadline::Fail => {
            let message = format!("nobody answered `{}` within {late}", step.plan().key);
            step.fail(Failure::new(ErrorKind::Timeout, message), Again::Never)
        }
        OnDeadline::Value(template) => match step.render(template) {
            Ok(value) => step.complete(Some(Stored::Value(value)), None),
            Err(unready) => step.unready(unready),
        },
    }
}

fn received(step: Step<'_>, until: &Until, value: &Value) -> Events {
    match until {
        Until::Event { event, filter: Some(filter) } => filtered(step, event, filter, value),
        Until::Person(ask) => match ask.answer.check(value) {
            Ok(()) => step.complete(Some(Stored::Value(value.clone())), None),
            // The surface checks first; an answer that does not fit is asked for again.
            Err(_) => match question(step, ask) {
                Ok(command) => Ok(vec![step.ask(command)]),
                Err(unready) => step.unready(unready),
            },
        },
        Until::Event { filter: None, .. } | Until::Signal { .. } | Until::For(_) | Until::At(_) => {
            step.complete(Some(Stored::Value(value.clone())), None)
        }
    }
}

fn filtered(step: Step<'_>, event: &str, filter: &Expr, value: &Value) -> Events {
    let view = View { event: Some(value), ..step.view() };
    match filter.test(&view) {
        Ok(true) => step.complete(Some(Stored::Value(value.clone())), None),
        Ok(false) => Ok(vec![step.ask(Command::Await(Awaiting::Event(event.to_owned())))]),
        Err(error) => step.unready(error.into()),
    }
}

/// Does a person's answer fit what was asked? For surfaces, before they append it.
pub fn check_answer(question: &Question, value: &Value) -> Result<(), String> {
    if question.approves.is_some() {
        let fits = value.is_boolean() || value.get("approve").is_some_and(Value::is_boolean);
        let form = "or {\"approve\": true, \"arguments\": {…}, \"reason\": \"…\"}";
        let wrong = || unfit(&format!("yes or no (`true` or `false` in JSON), {form}"), value);
        return if fits { Ok(()) } else { Err(wrong()) };
    }
    let schema = Schema::new(question.answer.clone());
    schema.check(value).map_err(|violations| match schema.in_words() {
        Some(wanted) => unfit(&wanted, value),
        None => schema.explain("the answer", &violations, value),
    })
}

fn unfit(wanted: &str, value: &Value) -> String {
    format!("the answer must be {wanted}, and not {}", relais_plan::text::cut(&value.to_string(), MAX_ANSWER_CHARS))
}
