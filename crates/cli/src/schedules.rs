//! The triggers of a workflow as they were understood, with their next times.
//!
//! Nothing is started here, and nothing is kept: times in words are told from now, as if the triggers were set now.

use jiff::Timestamp;
use relais_plan::schedule::{self, Schedule};
use relais_plan::{Plan, Trigger};

/// As many as show a rhythm, a weekend included.
const SHOWN: usize = 5;

/// A line for each trigger that fires by time, or why one of them cannot.
pub fn lines(plan: &Plan) -> Result<Vec<String>, String> {
    lines_at(plan, Timestamp::now().as_millisecond())
}

fn lines_at(plan: &Plan, now_ms: i64) -> Result<Vec<String>, String> {
    let lines = plan.triggers.iter().map(|trigger| line(trigger, now_ms));
    lines.filter_map(Result::transpose).collect()
}

fn line(trigger: &Trigger, now_ms: i64) -> Result<Option<String>, String> {
    let schedule = schedule::parse(trigger, schedule::DEFAULT_TIMEZONE, now_ms)?;
    Ok(schedule.map(|schedule| with_times(&schedule, now_ms)))
}

fn with_times(schedule: &Schedule, now_ms: i64) -> String {
    let times: Vec<String> = schedule.next_times(now_ms, SHOWN).into_iter().map(|at| schedule.show(at)).collect();
    let times = match times.as_slice() {
        [] if schedule.has_clock() => ": already past, it fires no more".to_owned(),
        [] => String::new(),
        times => format!(": {}", times.join(", ")),
    };
    format!("{}{times}", schedule.describe())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use relais_plan::{TriggerOn, time};

    use super::*;

    fn shown(on: TriggerOn, timezone: Option<&str>) -> Option<String> {
        let trigger = Trigger { timezone: timezone.map(str::to_owned), ..Trigger::new(on) };
        line(&trigger, time::parse_instant("2026-11-13T12:00:00Z").unwrap()).unwrap()
    }

    #[test]
    fn five_times_are_shown() {
        let cron = shown(TriggerOn::Cron("0 9 * * MON-FRI".into()), Some("Europe/Paris"));
        let expected = "cron \"0 9 * * MON-FRI\" Europe/Paris: Mon 2026-11-16 09:00 +01:00, \
                        Tue 2026-11-17 09:00 +01:00, Wed 2026-11-18 09:00 +01:00, Thu 2026-11-19 09:00 +01:00, \
                        Fri 2026-11-20 09:00 +01:00";
        assert_eq!(cron.as_deref(), Some(expected));
        let once = shown(TriggerOn::At("in 20 minutes".into()), None);
        assert_eq!(once.as_deref(), Some("at \"in 20 minutes\": Fri 2026-11-13 12:20 +00:00"));
        assert_eq!(shown(TriggerOn::Manual, None), None);
    }
}
