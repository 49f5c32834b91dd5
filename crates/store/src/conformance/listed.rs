//! Records that belong to a run are written with its entries.

use relais_engine::RunStatus::Waiting;
use serde_json::json;

use super::*;
use crate::{Edit, Expect, Find, Listed, ListedRecord, RecordKey};

fn record(owner: &str, id: &str) -> ListedRecord {
    ListedRecord { owner: owner.into(), id: id.into(), due_at: Some(7), body: json!({ "of": owner }) }
}

async fn says(store: &dyn Store, run: RunId, seq: u64, records: &[(&str, &str)]) {
    let records = records.iter().map(|(owner, id)| record(owner, id)).collect();
    let listed = Some(Listed { kind: "question".into(), records });
    store.append(Batch { listed, ..batch(run, seq) }).await.unwrap();
}

/// Owner, id and revision of all that there is.
async fn found(store: &dyn Store) -> Vec<(String, String, u64)> {
    let all = store.records(Find { kind: "question".into(), ..Find::default() }).await.unwrap();
    all.into_iter().map(|record| (record.key.owner, record.key.id, record.revision)).collect()
}

fn expected(all: &[(&str, &str, u64)]) -> Vec<(String, String, u64)> {
    all.iter().map(|(owner, id, revision)| ((*owner).into(), (*id).into(), *revision)).collect()
}

pub(super) async fn exactly_those_that_a_run_has(Handles { here, there }: Handles) {
    let (run, other) = (started(&*here, Waiting).await, started(&*here, Waiting).await);
    says(&*here, other, 2, &[("ann", "x.1")]).await;
    says(&*here, run, 2, &[("ann", "a.1"), ("bob", "a.1"), ("ann", "a.2")]).await;
    assert_eq!(
        found(&*there).await,
        expected(&[("ann", "a.1", 1), ("bob", "a.1", 1), ("ann", "a.2", 1), ("ann", "x.1", 1)])
    );
    // What others have made of one of them stays, and so does what they have added under its id.
    let put = |owner: &str| Edit::Put {
        key: RecordKey { kind: "question".into(), owner: owner.into(), id: "a.1".into() },
        label: run.to_string(),
        due_at: None,
        body: json!({ "told": 1 }),
        expect: Expect::Any,
    };
    here.change(vec![put("ann"), put("carol")], 5).await.unwrap();
    says(&*here, run, 3, &[("ann", "a.1"), ("bob", "a.1")]).await;
    let left = [("ann", "a.1", 2), ("bob", "a.1", 1), ("carol", "a.1", 1), ("ann", "x.1", 1)];
    assert_eq!(found(&*there).await, expected(&left));
    // A batch that says nothing of it changes nothing, a refused one neither.
    here.append(batch(run, 4)).await.unwrap();
    let late = Batch { listed: Some(Listed { kind: "question".into(), records: Vec::new() }), ..batch(run, 9) };
    assert_conflict(here.append(late).await, run, 9);
    assert_eq!(found(&*there).await, expected(&left));
    says(&*here, run, 5, &[]).await;
    assert_eq!(found(&*there).await, expected(&[("ann", "x.1", 1)]));
    let due = Find { kind: "question".into(), due_by: Some(7), ..Find::default() };
    assert_eq!(there.records(due).await.unwrap().len(), 1);
}
