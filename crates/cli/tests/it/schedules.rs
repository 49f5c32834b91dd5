//! What `validate` and `plan` say of triggers: what was understood, and when they fire.

use crate::support::{Home, ONE_CALL};

fn with_triggers(triggers: &str) -> Home {
    Home::new(&format!("{ONE_CALL}triggers: [{triggers}]\n"))
}

#[test]
fn triggers_are_shown_with_their_next_five_times() {
    let home = with_triggers(
        "{ cron: every weekday at 9am, timezone: Europe/Paris }, { every: 15m }, { weekly: \"0,6@18:30\" }, \
         { continuous: true }, { event: order.paid }, { at: \"2020-01-01T00:00:00Z\" }",
    );
    for command in ["validate", "plan"] {
        let shown = home.relais(&[command, "flow.yaml"]);
        shown.expect(0);
        let lines: Vec<&str> = shown.out.lines().map(str::trim).collect();
        let line = |begin: &str| *lines.iter().find(|line| line.starts_with(begin)).unwrap();
        let times = |begin: &str| line(begin).strip_prefix(begin).unwrap().split(", ").collect::<Vec<_>>();
        let cron = times("cron \"0 9 * * MON-FRI\" Europe/Paris: ");
        assert_eq!(cron.len(), 5);
        for time in cron {
            let (day, rest) = time.split_at(3);
            assert!(["Mon", "Tue", "Wed", "Thu", "Fri"].contains(&day), "{time}");
            assert!(rest.ends_with(" 09:00 +01:00") || rest.ends_with(" 09:00 +02:00"), "{time}");
        }
        assert_eq!(times("every 15m: ").len(), 5);
        let weekly = times("weekly@0,6@18:30 UTC: ");
        assert!(weekly.len() == 5 && weekly.iter().all(|time| time.starts_with('S') && time.ends_with("18:30 +00:00")));
        assert_eq!(line("continuous"), "continuous, 1s after each run");
        assert_eq!(line("at "), "at \"2020-01-01T00:00:00Z\": already past, it fires no more");
        assert!(!shown.out.contains("order.paid"), "{}", shown.out);
    }
}

#[test]
fn triggers_that_can_never_fire_are_refused() {
    for (trigger, expected) in [
        ("{ cron: 0 0 30 2 * }", "`0 0 30 2 *` can never fire: there is no day 30 in the months 2"),
        ("{ cron: 0 0 31 APR * }", "can never fire"),
        ("{ cron: 0 9 * * WEDX }", "`WEDX` is no weekday"),
        ("{ cron: 5/15 * * * * }", "such as `5-59/15`"),
        ("{ every: 9999999d }", "can never fire"),
        ("{ at: today at 0:00 }", "is already past"),
    ] {
        let home = with_triggers(trigger);
        home.relais(&["validate", "flow.yaml"]).expect(2).says(expected).says("1 error");
    }
}
