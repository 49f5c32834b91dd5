//! Create, append, load, tail.

use std::time::Duration;

use relais_engine::RunStatus;
use tokio::sync::broadcast::error::RecvError;
use tokio::task::JoinSet;

use super::*;
use crate::{Change, Filter, NewRun};

pub(super) async fn created_once(Handles { here, there }: Handles) {
    let run = started(&*here, RunStatus::Running).await;
    let again = new_run(summary(run, RunStatus::Running));
    assert_eq!(there.create(again.clone()).await, Ok(run), "the same run again is no error");
    let other = NewRun { entry: Entry { at: 5, ..entry(1) }, ..again };
    assert_eq!(here.create(other).await, Err(Error::Conflict { run, seq: 1 }), "another run under this id is");
    assert_eq!(numbers(&*there, run).await, [1]);
    let late = NewRun { entry: entry(2), ..new_run(summary(super::run(), RunStatus::Running)) };
    assert!(matches!(here.create(late).await, Err(Error::Internal(_))), "a run starts with entry 1");
    let gap = NewRun { more: vec![entry(2), entry(4)], ..new_run(summary(super::run(), RunStatus::Running)) };
    assert!(matches!(here.create(gap).await, Err(Error::Internal(_))), "and goes on with the next one");
    let long = NewRun { more: vec![entry(2), entry(3)], ..new_run(summary(super::run(), RunStatus::Pending)) };
    let run = here.create(long).await.unwrap();
    there.append(batch(run, 4)).await.unwrap();
    assert_eq!(numbers(&*here, run).await, [1, 2, 3, 4], "all that it began with is there");
}

pub(super) async fn created_once_per_key_and_user(Handles { here, there }: Handles) {
    let keyed = |user: &str, key: &str| {
        let summary = Summary { user: user.into(), ..summary(run(), RunStatus::Running) };
        NewRun { key: Some(key.into()), ..new_run(summary) }
    };
    let first = here.create(keyed("ann", "monday")).await.unwrap();
    let second = keyed("ann", "monday");
    assert_eq!(there.create(second.clone()).await, Ok(first));
    assert!(numbers(&*here, second.summary.run).await.is_empty(), "nothing was written for the second");
    assert_ne!(here.create(keyed("ann", "tuesday")).await, Ok(first));
    assert_ne!(here.create(keyed("ben", "monday")).await, Ok(first));
    assert_eq!(here.list(Filter::default()).await.unwrap().rows.len(), 3);
}

pub(super) async fn numbers_are_checked(Handles { here, there }: Handles) {
    let run = started(&*here, RunStatus::Running).await;
    here.append(batch(run, 2)).await.unwrap();
    there.append(batch(run, 3)).await.unwrap();
    for wrong in [0, 1, 2, 3, 5, u64::from(u32::MAX)] {
        assert_conflict(here.append(batch(run, wrong)).await, run, wrong);
    }
    here.append(batch(run, 4)).await.unwrap();
    assert_eq!(numbers(&*there, run).await, [1, 2, 3, 4]);
    for seq in [1, 2] {
        let missing = here.append(batch(super::run(), seq)).await;
        assert!(matches!(missing, Err(Error::NotFound(_))), "{missing:?}");
    }
}

pub(super) async fn a_conflict_leaves_nothing(Handles { here, .. }: Handles) {
    let run = started(&*here, RunStatus::Running).await;
    let hash = here.put_blob(b"kept".to_vec()).await.unwrap();
    let done = Some(summary(run, RunStatus::Completed));
    let late = Batch { summary: done, release: Some("a".into()), blobs: vec![hash], ..batch(run, 7) };
    assert_conflict(here.append(late).await, run, 7);
    let page = here.list(Filter { run: Some(run), ..Filter::default() }).await.unwrap();
    assert_eq!((page.rows[0].summary.status, page.rows[0].seq), (RunStatus::Running, 1));
    assert_eq!(numbers(&*here, run).await, [1]);
}

pub(super) async fn loads_after_a_number(Handles { here, there }: Handles) {
    let run = started(&*here, RunStatus::Running).await;
    for seq in 2..=5 {
        here.append(batch(run, seq)).await.unwrap();
    }
    assert_eq!(there.load(run, 0).await.unwrap(), (1..=5).map(entry).collect::<Vec<_>>());
    assert_eq!(there.load(run, 3).await.unwrap(), [entry(4), entry(5)]);
    assert_eq!(there.load(run, 5).await.unwrap(), []);
    assert_eq!(there.load(run, u64::MAX).await.unwrap(), []);
    assert_eq!(there.load(super::run(), 0).await.unwrap(), []);
}

/// An append whose answer was lost is made again: by whoever made it, and by somebody who came to the same entry.
pub(super) async fn the_same_append_again(Handles { here, there }: Handles) {
    let run = started(&*here, RunStatus::Running).await;
    let (mine, mut tail) = (batch(run, 2), here.tail());
    here.append(mine.clone()).await.unwrap();
    assert_eq!(here.append(mine.clone()).await, Ok(()), "the same entry by the same writer");
    assert_eq!(there.append(mine.clone()).await, Ok(()), "by another way, too");
    assert_conflict(here.append(batch(run, 2)).await, run, 2);
    let other = Batch { entry: Entry { at: 5, ..entry(2) }.into(), ..mine.clone() };
    assert_conflict(here.append(other).await, run, 2);
    there.append(batch(run, 3)).await.unwrap();
    assert_eq!(here.append(mine.clone()).await, Ok(()), "whoever came behind it");
    let later = Batch { entry: entry(3).into(), ..mine };
    assert_conflict(here.append(later).await, run, 3);
    assert_eq!(numbers(&*there, run).await, [1, 2, 3]);
    assert_eq!(next(&mut tail).await, Change { run, seq: 2 });
    here.append(batch(run, 4)).await.unwrap();
    while next(&mut tail).await != (Change { run, seq: 4 }) {}
}

const RUNS: usize = 64;
const EACH: u64 = 20;

pub(super) async fn many_runs_at_once(Handles { here, there }: Handles) {
    let mut tasks = JoinSet::new();
    for number in 0..RUNS {
        let store = if number % 2 == 0 { here.clone() } else { there.clone() };
        tasks.spawn(async move {
            let run = started(&*store, RunStatus::Running).await;
            for seq in 2..=EACH {
                store.append(batch(run, seq)).await.unwrap();
            }
            run
        });
    }
    for run in tasks.join_all().await {
        assert_eq!(numbers(&*here, run).await, (1..=EACH).collect::<Vec<_>>());
    }
}

/// Each takes the number after the last it knows; who comes too late reads on and tries again.
pub(super) async fn many_writers_on_one_run(Handles { here, there }: Handles) {
    let run = started(&*here, RunStatus::Running).await;
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let store = if number % 2 == 0 { here.clone() } else { there.clone() };
        tasks.spawn(async move {
            let mut mine = Vec::new();
            while u64::try_from(mine.len()).unwrap() < EACH {
                let next = numbers(&*store, run).await.len() as u64 + 1;
                match store.append(batch(run, next)).await {
                    Ok(()) => mine.push(next),
                    Err(error) => assert_eq!(error, Error::Conflict { run, seq: next }),
                }
            }
            mine
        });
    }
    let mut won: Vec<u64> = tasks.join_all().await.concat();
    won.sort_unstable();
    let all: Vec<u64> = (2..=8 * EACH + 1).collect();
    assert_eq!(won, all, "each number was given once");
    assert_eq!(numbers(&*there, run).await[1..], all);
}

/// Far more than the time in which a change must be seen; only a broken store waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) async fn tail_sees_own_and_foreign_changes(Handles { here, there }: Handles) {
    let mut own = here.tail();
    let mut foreign = there.tail();
    let run = started(&*here, RunStatus::Running).await;
    here.append(batch(run, 2)).await.unwrap();
    assert_conflict(here.append(batch(run, 2)).await, run, 2);
    here.append(batch(run, 3)).await.unwrap();
    for seq in 1..=3 {
        assert_eq!(next(&mut own).await, Change { run, seq }, "own changes come in order, refused ones do not");
    }
    while numbers(&*there, run).await.len() < 3 || !next(&mut foreign).await.concerns(run) {}
}

pub(super) async fn next(tail: &mut tokio::sync::broadcast::Receiver<Change>) -> Change {
    let next = tokio::time::timeout(PATIENCE, tail.recv()).await;
    next.expect("a change must be seen").unwrap_or_else(|error: RecvError| panic!("{error}"))
}
