//! Lists of runs: filters, order, cursors.

use relais_engine::RunStatus::{Completed, Failed, Running};
use relais_engine::{ErrorKind, Failure, Target};

use super::*;
use crate::{Filter, Page};

fn ids(page: &Page) -> Vec<RunId> {
    page.rows.iter().map(|row| row.summary.run).collect()
}

async fn listed(store: &dyn Store, filter: Filter) -> Vec<RunId> {
    ids(&store.list(filter).await.unwrap())
}

pub(super) async fn filters(Handles { here, .. }: Handles) {
    let made = |at, status| Summary { started_at: at, ..summary(run(), status) };
    let a = created(&*here, made(1, Completed)).await;
    let b = created(&*here, Summary { user: "ben".into(), ..made(2, Failed) }).await;
    let c = created(&*here, Summary { workflow: "other".into(), thread: "t".into(), ..made(3, Running) }).await;
    let d = created(&*here, Summary { parent: Some(a), thread: "t".into(), ..made(4, Completed) }).await;
    let text = |text: &str| Some(text.to_owned());
    let all = Filter::default;
    let cases = [
        (all(), vec![d, c, b, a]),
        (Filter { run: Some(b), ..all() }, vec![b]),
        (Filter { run: Some(b), user: text("ann"), ..all() }, vec![]),
        (Filter { user: text("ann"), ..all() }, vec![d, c, a]),
        (Filter { workflow: text("other"), ..all() }, vec![c]),
        (Filter { workflow: text("report"), user: text("ann"), status: vec![Completed], ..all() }, vec![d, a]),
        (Filter { thread: text("t"), ..all() }, vec![d, c]),
        (Filter { thread: text("t"), status: vec![Running], ..all() }, vec![c]),
        (Filter { thread: text(""), ..all() }, vec![b, a]),
        (Filter { status: vec![Failed, Running, Failed], ..all() }, vec![c, b]),
        (Filter { parent: Some(a), ..all() }, vec![d]),
        (Filter { roots_only: true, status: vec![Completed], ..all() }, vec![a]),
        (Filter { started_after: Some(1), started_before: Some(4), ..all() }, vec![c, b]),
        (Filter { user: text("nobody"), ..all() }, vec![]),
    ];
    for (filter, expected) in cases {
        assert_eq!(listed(&*here, filter.clone()).await, expected, "{filter:?}");
    }
    let bad = here.list(Filter { cursor: text("page 2"), ..all() }).await;
    assert!(matches!(bad, Err(Error::NotFound(_))), "{bad:?}");
}

/// What a run of the small world of `every_combination_of_filters` is like: each bit is one property.
fn made_of(bits: u32) -> Summary {
    let given = |place: u32| bits & (1 << place) != 0;
    let word = |place: u32| if given(place) { "x".to_owned() } else { String::new() };
    Summary {
        user: word(0),
        workflow: word(1),
        target: Target { workflow: word(2), version: bits, ..Target::default() },
        thread: word(3),
        parent: given(4).then(run),
        started_at: i64::from(bits % 7),
        ..summary(run(), if given(5) { Failed } else { Completed })
    }
}

/// All filters by equality on all kinds of runs, against what the filter says in words.
pub(super) async fn every_combination_of_filters(Handles { here, .. }: Handles) {
    let runs: Vec<Summary> = (0..64).map(made_of).collect();
    for made in &runs {
        created(&*here, made.clone()).await;
    }
    for bits in 0..256_u32 {
        let given = |place: u32| bits & (1 << place) != 0;
        let text = |place: u32| given(place).then(|| "x".to_owned());
        let filter = Filter {
            user: text(0),
            workflow: text(1),
            workflow_id: text(2),
            thread: text(3),
            roots_only: given(4),
            status: if given(5) { vec![Failed] } else { vec![] },
            started_after: given(6).then_some(2),
            started_before: given(7).then_some(5),
            ..Filter::default()
        };
        let wanted = |made: &&Summary| {
            (!given(0) || made.user == "x")
                && (!given(1) || made.workflow == "x")
                && (!given(2) || made.target.workflow == "x")
                && (!given(3) || made.thread == "x")
                && (!given(4) || made.parent.is_none())
                && (!given(5) || made.status == Failed)
                && (!given(6) || made.started_at > 2)
                && (!given(7) || made.started_at < 5)
        };
        let mut expected: Vec<Summary> = runs.iter().filter(wanted).cloned().collect();
        expected.sort_unstable_by_key(|made| std::cmp::Reverse((made.started_at, made.run)));
        let page = here.list(filter.clone()).await.unwrap();
        let found: Vec<Summary> = page.rows.into_iter().map(|row| row.summary).collect();
        assert_eq!(found, expected, "{filter:?}");
    }
    let without = Filter { workflow_id: Some(String::new()), thread: Some(String::new()), ..Filter::default() };
    assert_eq!(listed(&*here, without).await.len(), 16);
}

pub(super) async fn cursors_hold_still(Handles { here, there }: Handles) {
    let mut expected = Vec::new();
    for number in 0..25_i64 {
        // Several runs start in the same millisecond, with different statuses.
        let status = if number % 3 == 0 { Failed } else { Completed };
        let made = Summary { started_at: number / 5, ..summary(run(), status) };
        expected.push((made.started_at, created(&*here, made).await));
    }
    expected.sort_unstable_by_key(|place| std::cmp::Reverse(*place));
    let mut cursor = None;
    let mut seen = Vec::new();
    loop {
        let page =
            there.list(Filter { limit: 4, cursor, user: Some("ann".into()), ..Filter::default() }).await.unwrap();
        assert!(page.rows.len() <= 4);
        seen.extend(ids(&page));
        cursor = page.cursor;
        if cursor.is_none() {
            break;
        }
        // What starts meanwhile does not show up on later pages.
        created(&*here, Summary { started_at: 100, ..summary(run(), Running) }).await;
    }
    assert_eq!(seen, expected.into_iter().map(|(_, run)| run).collect::<Vec<_>>());
}

pub(super) async fn rows_tell_what_was_written(Handles { here, there }: Handles) {
    let run = started(&*here, Running).await;
    let branch = Some("else".into());
    let full = Summary {
        thread: "chat".into(),
        target: Target {
            workflow: "w1".into(),
            version: 3,
            branch,
            trigger: Some("t1".into()),
            traceparent: Some("00-a-b-01".into()),
            drift: Some("`look` is new".into()),
            tags: [("team".to_owned(), "sales".to_owned())].into(),
        },
        parent: Some(super::run()),
        wake_at: Some(77),
        awaits: vec!["person:3".into(), "signal:go".into()],
        usage: Usage { prompt: 12, usd_nanos: 34, ..Usage::default() },
        error: Some(Failure::new(ErrorKind::Tool, "it broke")),
        ..summary(run, Failed)
    };
    let last = Batch { summary: Some(full.clone()), ..batch(run, 2) };
    there.append(last).await.unwrap();
    let page = here.list(Filter { run: Some(run), ..Filter::default() }).await.unwrap();
    assert_eq!(page.rows[0].summary, full);
    assert_eq!((page.rows[0].seq, &page.rows[0].owner, page.rows[0].lease_until), (2, &None, None));
    assert!(page.cursor.is_none());
    // The same row with another amount used, then another status.
    for (seq, status, prompt) in [(3, Failed, 13), (4, Running, 13), (5, Completed, 14)] {
        let usage = Usage { prompt, ..full.usage };
        let next = Summary { status, usage, ended_at: status.is_final().then_some(seq as i64), ..full.clone() };
        here.append(Batch { summary: Some(next.clone()), ..batch(run, seq) }).await.unwrap();
        let page = there.list(Filter { status: vec![status], ..Filter::default() }).await.unwrap();
        assert_eq!(page.rows[0].summary, next);
        assert_eq!(page.rows.len(), 1);
    }
}
