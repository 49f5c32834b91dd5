//! Runs are found by their tags and by the kind of their error.

use relais_engine::RunStatus::{Completed, Failed, Pending};
use relais_engine::{ErrorKind, Failure, Target, error_mark, tag_mark};

use super::*;
use crate::{Filter, Prune};

fn tagged(at: Millis, status: RunStatus, tags: &[(&str, &str)]) -> Summary {
    let tags = tags.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Summary { started_at: at, target: Target { tags, ..Target::default() }, ..summary(run(), status) }
}

async fn found(store: &dyn Store, marks: &[String], more: Filter) -> Vec<RunId> {
    let filter = Filter { user: Some("ann".into()), marks: marks.to_vec(), ..more };
    store.list(filter).await.unwrap().rows.iter().map(|row| row.summary.run).collect()
}

pub(super) async fn found_by_tag_and_error(Handles { here, there }: Handles) {
    let a = created(&*here, tagged(1, Completed, &[("team", "sales"), ("env", "test")])).await;
    let b = created(&*here, tagged(2, Pending, &[("team", "sales")])).await;
    let other = Summary { user: "ben".into(), ..tagged(3, Completed, &[("team", "sales")]) };
    created(&*here, other).await;
    created(&*here, tagged(4, Completed, &[])).await;
    let (sales, test, error) = (tag_mark("team", "sales"), tag_mark("env", "test"), error_mark(ErrorKind::Timeout));
    let all = Filter::default;
    let row = there.list(Filter { run: Some(a), ..all() }).await.unwrap().rows.remove(0);
    assert_eq!(row.summary.target.tags.len(), 2);
    let (one, two) = ([sales.clone()], [sales.clone(), test]);
    assert_eq!(found(&*there, &one, all()).await, [b, a]);
    assert_eq!(found(&*there, &two, all()).await, [a]);
    assert_eq!(found(&*there, &one, Filter { status: vec![Completed], ..all() }).await, [a]);
    assert!(found(&*there, &one, Filter { workflow: Some("other".into()), ..all() }).await.is_empty());
    assert_eq!(found(&*there, &one, Filter { started_after: Some(1), ..all() }).await, [b]);
    assert_eq!(there.list(Filter { marks: one.to_vec(), ..all() }).await.unwrap().rows.len(), 3);
    let page = there.list(Filter { user: Some("ann".into()), marks: one.to_vec(), limit: 1, ..all() }).await.unwrap();
    assert_eq!(found(&*there, &one, Filter { cursor: page.cursor, ..all() }).await, [a]);
    // What it is found by changes with how it stands.
    let failed = Some(Failure::new(ErrorKind::Timeout, "late"));
    let ended = Summary { run: b, error: failed, ended_at: Some(5), ..tagged(2, Failed, &[("team", "sales")]) };
    here.append(Batch { summary: Some(ended.clone()), ..batch(b, 2) }).await.unwrap();
    assert_eq!(found(&*there, std::slice::from_ref(&error), all()).await, [b]);
    assert_eq!(found(&*there, &[sales.clone(), error.clone()], Filter { status: vec![Failed], ..all() }).await, [b]);
    assert!(found(&*there, &one, Filter { status: vec![Pending], ..all() }).await.is_empty());
    let again = Summary { status: Pending, error: None, ended_at: None, ..ended };
    here.append(Batch { summary: Some(again), ..batch(b, 3) }).await.unwrap();
    assert!(found(&*there, &[error], all()).await.is_empty());
    here.prune(Prune { before: vec![(Completed, 9_000)], limit: 0 }).await.unwrap();
    assert_eq!(found(&*there, &one, all()).await, [b]);
}
