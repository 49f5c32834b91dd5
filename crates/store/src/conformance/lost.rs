//! Every write whose answer was lost is made again: what is there then is what one of them would have left.

use relais_engine::RunStatus::{Completed, Running};

use super::*;
use crate::{Document, DocumentKey, Edit, Expect, Filter, Prune, Pruned, RecordKey};

/// Each method in turn on one store, each twice.
pub(super) async fn answers(Handles { here, there }: Handles) {
    let new = NewRun { lease: Some(("a".into(), 100)), ..new_run(summary(run(), Running)) };
    let run = here.create(new.clone()).await.unwrap();
    assert_eq!(there.create(new).await, Ok(run));
    let append = Batch { release: Some("a".into()), ..batch(run, 2) };
    for store in [&here, &there] {
        assert_eq!(store.append(append.clone()).await, Ok(()));
    }
    assert_eq!(numbers(&*here, run).await, [1, 2]);
    assert_eq!(here.claim(claim("b", 10, Which::Any)).await, Ok(vec![Claimed { run, from: None }]));
    assert_eq!(there.claim(claim("b", 10, Which::Any)).await, Ok(vec![]), "it is b's, so nobody gets it again");
    assert_eq!(there.held("b".into()).await, Ok(vec![run]), "and this is how b learns of it");
    for store in [&here, &there] {
        store.renew("b".into(), 700).await.unwrap();
    }
    let row = here.list(Filter { run: Some(run), ..Filter::default() }).await.unwrap().rows.remove(0);
    assert_eq!((row.owner.as_deref(), row.lease_until), (Some("b"), Some(700)));
    for store in [&here, &there] {
        store.release(run, "b".into()).await.unwrap();
    }
    assert_eq!(here.held("b".into()).await, Ok(vec![]));
    contents(&*here, &*there).await;
    let end = Batch { summary: Some(summary(run, Completed)), ..batch(run, 3) };
    here.append(end.clone()).await.unwrap();
    here.change(vec![Edit::Reported { run, seq: 3 }], 1).await.unwrap();
    there.append(end).await.unwrap();
    assert_eq!(here.ended(0).await.unwrap().len(), 0, "an end that was noted is not told again");
    let prune = Prune { before: vec![(Completed, i64::MAX)], ..Prune::default() };
    assert_eq!(here.prune(prune.clone()).await, Ok(Pruned { runs: 1, blobs: 1 }));
    assert_eq!(there.prune(prune).await, Ok(Pruned::default()));
}

/// Documents and blobs are the same twice; of a change the second learns that it was made.
async fn contents(here: &dyn Store, there: &dyn Store) {
    let key = DocumentKey { kind: "plan".into(), owner: String::new(), name: "p".into() };
    let document = Document { key: key.clone(), version: 1, at: 1, body: json!(1) };
    let hash = here.put_blob(b"twice".to_vec()).await.unwrap();
    assert_eq!(there.put_blob(b"twice".to_vec()).await, Ok(hash));
    for store in [here, there] {
        store.put_document(document.clone()).await.unwrap();
        store.probe().await.unwrap();
    }
    assert_eq!(here.list_versions(key, 0).await.unwrap(), [document]);
    let key = RecordKey { kind: "agent".into(), owner: "ann".into(), id: "a".into() };
    let (label, due_at, body, expect) = (String::new(), None, json!(1), Expect::Absent);
    let put = Edit::Put { key: key.clone(), label, due_at, body, expect };
    assert_eq!(here.change(vec![put.clone()], 1).await, Ok(vec![1]));
    assert!(matches!(there.change(vec![put], 1).await, Err(Error::Changed(_))));
    assert_eq!(there.get_record(key).await.unwrap().map(|record| record.revision), Some(1));
}
