//! Tools for when workflows run by themselves, and for stopping them.

use relais_mcp::serving::{Given, Trouble};
use relais_service::access::Scope;
use relais_service::{Backfill, Origin, Rhythm, SetSchedule, Timed, backfill_time};
use serde_json::{Value, json};
use uuid::Uuid;

use super::arguments::{Arguments, WORKFLOW};
use super::attend::Attended;
use super::render::given;
use super::tools::{Effect, Spec, same_as, text, user_id};
use super::trouble::trouble;
use super::{Guest, runs};
use crate::api::views::BackfillView;

const TYPES: [&str; 3] = ["immediate", "scheduled", "recurring"];

pub fn schedule_spec() -> Spec {
    Spec {
        name: "schedule_workflow",
        title: "Schedule a workflow",
        about: "Says when a workflow runs by itself, in place of what an earlier call of this tool said; schedules \
                that were set otherwise stay. immediate: \
                runs it now, like run_workflow. scheduled: once at schedule_time. recurring: by cron_expression, until \
                cancel_workflow. Answers what was understood and the next times; what cannot be understood is refused \
                with the forms that can. Times are fired while `relais serve` or `relais mcp` runs.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"schedule_type\": \"recurring\", \"cron_expression\": \
                \"every weekday at 9am\", \"timezone\": \"Europe/Paris\"}",
        takes: json!({
            "workflow_id": text("Id, alias or name of the workflow."),
            "id": same_as("workflow_id"),
            "workflowId": same_as("workflow_id"),
            "schedule_type": { "enum": TYPES, "description": "When to run: now, once, or again and again." },
            "schedule_time": text("For scheduled: `tomorrow 9am`, `in 20 minutes`, or RFC 3339."),
            "cron_expression": text("For recurring: `0 9 * * *`, words such as `daily at 9am`, or `weekly@1,3,5@09:00`."),
            "timezone": text("IANA name such as Europe/Paris; left out, that of the server."),
            "input": { "type": "object", "description": "What each of the runs is given; get_workflow shows what it takes." },
            "user_id": user_id(),
        }),
        required: &["schedule_type"],
        scope: Scope::Write,
        effect: Effect::Sets,
    }
}

pub async fn schedule(guest: &Guest, mut arguments: Arguments, client: &Attended) -> Result<Given, Trouble> {
    let kind = arguments.text(&["schedule_type"])?.unwrap_or_default();
    let timezone = arguments.text(&["timezone"])?;
    let time = when(&kind, &mut arguments)?;
    let Some(set) = time else {
        // Whoever may only change things may not start them.
        guest.access.may(Scope::Run).map_err(trouble)?;
        return runs::run(guest, arguments, client).await;
    };
    let workflow = guest.wanted_workflow(&mut arguments).await?.it;
    let input = arguments.0.remove("input").unwrap_or_default();
    let set = SetSchedule { timezone, input, ..set };
    let timed = guest.service.schedule(&workflow.id.to_string(), set).await.map_err(trouble)?;
    let mut content = shown(&timed);
    content["workflow_id"] = json!(workflow.id);
    content["schedule_type"] = json!(kind);
    Ok(given(content))
}

/// None means now. A time that the type does not use contradicts it.
pub fn when(kind: &str, arguments: &mut Arguments) -> Result<Option<SetSchedule>, Trouble> {
    let time = arguments.text(&["schedule_time"])?;
    let cron = arguments.text(&["cron_expression"])?;
    let wrong = |text: &str| Err(Trouble::Invalid(text.to_owned()));
    // An assistant says one schedule of a workflow: what it says now replaces what it said before.
    let set = SetSchedule { replaces: true, by_tool: true, ..SetSchedule::default() };
    match (kind, time, cron) {
        ("immediate", None, None) => Ok(None),
        ("immediate", _, _) => {
            wrong("`immediate` means now; with a time say `scheduled`, with a cron_expression `recurring`.")
        }
        ("scheduled", Some(time), None) => Ok(Some(SetSchedule { at: Some(time), ..set })),
        ("scheduled", None, _) => wrong("`scheduled` needs `schedule_time`, such as `tomorrow 9am`."),
        ("scheduled", Some(_), Some(_)) => wrong("`scheduled` runs once; cron_expression belongs to `recurring`."),
        (_, None, Some(cron)) => Ok(Some(SetSchedule { cron: Some(cron), ..set })),
        (_, _, None) => wrong("`recurring` needs `cron_expression`, such as `0 9 * * MON-FRI` or `daily at 9am`."),
        (_, Some(_), Some(_)) => wrong("`recurring` goes by cron_expression; schedule_time belongs to `scheduled`."),
    }
}

pub fn shown(timed: &Timed) -> Value {
    let trigger = &timed.trigger;
    json!({
        "schedule_id": trigger.uuid,
        "schedule": timed.understood.words,
        "next_times": timed.understood.next_times,
        "branchId": trigger.branch,
        "set_by": match trigger.origin {
            Origin::Definition => "definition",
            Origin::Call if trigger.by_tool => "schedule_workflow",
            Origin::Call => "call",
        },
        "off": timed.off,
    })
}

pub fn backfill_spec() -> Spec {
    Spec {
        name: "backfill_workflow",
        title: "Run a schedule's past times",
        about: "Starts the runs of a past range: one for each time at which the workflow's schedule would have fired. Use \
                it when runs were missed or a new schedule is to cover the past. A time whose run is there is not run \
                again. Without `confirm: true` it only answers the times: tell the person how many, ask once, and call \
                it again with `confirm: true`. The runs start one after another, unless the schedule lets them overlap.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"from\": \"2026-11-01\", \"to\": \"2026-11-08\"}",
        takes: json!({
            "workflow_id": text("Id, alias or name of the workflow."),
            "id": same_as("workflow_id"),
            "workflowId": same_as("workflow_id"),
            "schedule_id": text("Which schedule, where the workflow has several; get_workflow shows them."),
            "from": text("The first time (RFC 3339), or day, which begins at midnight UTC."),
            "to": text("The last time."),
            "confirm": { "type": "boolean", "default": false, "description": "Start the runs; else only show the times." },
            "user_id": user_id(),
        }),
        required: &["from", "to"],
        scope: Scope::Run,
        effect: Effect::Sets,
    }
}

pub async fn backfill(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let workflow = guest.wanted_workflow(&mut arguments).await?.it.id.to_string();
    let schedule = arguments.text(&["schedule_id"])?;
    let unclear = |text: &str| Trouble::Invalid(format!("`schedule_id`: `{text}` is no id; get_workflow shows them."));
    let schedule = schedule.map(|text| text.parse::<Uuid>().map_err(|_| unclear(&text))).transpose()?;
    let mut time = |name: &'static str| {
        let text = arguments.must(&[name], "a time such as 2026-11-01T09:00:00Z, or a day")?;
        backfill_time(name, &text).map_err(trouble)
    };
    let wanted = Backfill { workflow, schedule, from: time("from")?, to: time("to")? };
    if !arguments.flag("confirm").unwrap_or(false) {
        let shown = BackfillView::from(guest.service.preview_backfill(&wanted).await.map_err(trouble)?);
        let next = format!(
            "Nothing was started. To start these {} runs, call it again with confirm: true.",
            shown.times.len()
        );
        return Ok(given(json!({ "times": shown.times, "at_once": shown.at_once, "next": next })));
    }
    let done = BackfillView::from(guest.service.backfill(&wanted).await.map_err(trouble)?);
    Ok(given(json!({ "owed": done.times.len(), "times": done.times, "at_once": done.at_once })))
}

impl Guest {
    pub async fn schedules(&self, workflow: Uuid) -> Result<Vec<Value>, Trouble> {
        Ok(self.service.schedules_of(&workflow.to_string()).await.map_err(trouble)?.iter().map(shown).collect())
    }
}

pub fn cancel_spec() -> Spec {
    Spec {
        name: "cancel_workflow",
        title: "Cancel a workflow or its schedule",
        about: "Stops a workflow: cancels its runs that are going and takes its schedules away, so that nothing starts \
                by itself any more. With schedule_type only schedules of that type are taken away and runs go on. The \
                workflow itself stays and can be run again. To stop a single run use cancel_run. Answers what was \
                cancelled.\n\
                Example: {\"workflow_id\": \"Price Monitor\", \"schedule_type\": \"recurring\"}",
        takes: json!({
            "workflow_id": text("Id, alias or name of the workflow; must be given."),
            "id": same_as("workflow_id"),
            "workflowId": same_as("workflow_id"),
            "schedule_type": { "enum": TYPES, "description": "Only schedules of this type: scheduled or recurring." },
            "user_id": user_id(),
        }),
        required: &[],
        scope: Scope::Write,
        effect: Effect::Ends,
    }
}

pub async fn cancel(guest: &Guest, mut arguments: Arguments, _: &Attended) -> Result<Given, Trouble> {
    let kind = arguments.text(&["schedule_type"])?;
    let which = match kind.as_deref() {
        None => Rhythm::Any,
        Some("scheduled") => Rhythm::Once,
        Some("recurring") => Rhythm::Recurring,
        Some(_) => {
            let text = "`immediate` leaves no schedule that could be cancelled; leave schedule_type out to cancel runs";
            return Err(Trouble::Invalid(format!("{text}, or say `scheduled` or `recurring`.")));
        }
    };
    let help = "say which workflow is to be cancelled, by id, alias or name; list_workflows lists them";
    let workflow = guest.workflow(&arguments.must(WORKFLOW, help)?).await?.it;
    let schedules = guest.service.cancel_schedules(workflow.id, which).await.map_err(trouble)?;
    let runs = match kind {
        Some(_) => Vec::new(),
        None => {
            guest.access.may(Scope::Run).map_err(trouble)?;
            guest.service.cancel_runs_of(workflow.id).await.map_err(trouble)?
        }
    };
    let words: Vec<&str> = schedules.iter().map(|timed| timed.understood.words.as_str()).collect();
    let content = json!({ "workflow_id": workflow.id, "cancelled_schedules": words, "cancelled_runs": runs });
    Ok(given(content))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_time_must_fit_the_type() {
        let check = |kind: &str, given: Value, expected: Result<Option<(&str, &str)>, &str>| {
            let Value::Object(given) = given else { panic!("no object") };
            match (when(kind, &mut Arguments(given)), expected) {
                (Ok(found), Ok(expected)) => {
                    let said = found.map(|set| (set.at.unwrap_or_default(), set.cron.unwrap_or_default()));
                    assert_eq!(said.as_ref().map(|(at, cron)| (at.as_str(), cron.as_str())), expected);
                }
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (found, expected) => panic!("{found:?}, not {expected:?}"),
            }
        };
        check("immediate", json!({}), Ok(None));
        check("immediate", json!({ "schedule_time": "9am" }), Err("means now"));
        check("scheduled", json!({ "schedule_time": "9am" }), Ok(Some(("9am", ""))));
        check("scheduled", json!({}), Err("needs `schedule_time`"));
        check("scheduled", json!({ "schedule_time": "9am", "cron_expression": "@daily" }), Err("runs once"));
        check("recurring", json!({ "cron_expression": "@daily" }), Ok(Some(("", "@daily"))));
        check("recurring", json!({}), Err("needs `cron_expression`"));
        check(
            "recurring",
            json!({ "schedule_time": "9am", "cron_expression": "@daily" }),
            Err("belongs to `scheduled`"),
        );
    }
}
