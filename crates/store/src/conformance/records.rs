//! Records, their edits, and the outbox of ended runs.

use relais_engine::RunStatus::{self, Completed, Failed, Running, Waiting};
use serde_json::Value;

use super::*;
use crate::{Change, Document, DocumentKey, Edit, Expect, Filter, Find, Prune, Record, RecordKey};

fn key(kind: &str, owner: &str, id: &str) -> RecordKey {
    RecordKey { kind: kind.into(), owner: owner.into(), id: id.into() }
}

fn put(key: RecordKey, label: &str, due_at: Option<Millis>, expect: Expect) -> Edit {
    let body = json!({ "id": key.id, "text": "«é\u{0}'\"" });
    Edit::Put { key, label: label.into(), due_at, body, expect }
}

fn remove(key: RecordKey, expect: Expect) -> Edit {
    Edit::Remove { key, expect }
}

#[track_caller]
fn assert_changed<T: std::fmt::Debug>(outcome: Result<T, Error>, name: &str) {
    match outcome {
        Err(Error::Changed(what)) => assert!(what.contains(name), "{what} should name {name}"),
        other => panic!("{other:?} should be Changed"),
    }
}

pub(super) async fn replaced_whole(Handles { here, there }: Handles) {
    let flow = key("workflow", "ann", "w1");
    assert_eq!(here.get_record(flow.clone()).await, Ok(None));
    assert_eq!(here.change(vec![put(flow.clone(), "red", Some(5), Expect::Any)], 10).await, Ok(vec![1]));
    let body = json!({ "z": 1, "a": [1.5, null] });
    let edit = |label: &str, due_at, body: &Value| Edit::Put {
        key: flow.clone(),
        label: label.into(),
        due_at,
        body: body.clone(),
        expect: Expect::Any,
    };
    assert_eq!(there.change(vec![edit("red", Some(5), &json!(2))], 11).await, Ok(vec![2]), "the body alone");
    assert_eq!(here.change(vec![edit("blue", None, &body)], 12).await, Ok(vec![3]));
    let record = Record { key: flow.clone(), label: "blue".into(), due_at: None, revision: 3, at: 12, body };
    assert_eq!(there.get_record(flow.clone()).await, Ok(Some(record.clone())));
    for other in [key("agent", "ann", "w1"), key("workflow", "ben", "w1"), key("workflow", "ann", "w")] {
        assert_eq!(there.get_record(other).await, Ok(None));
    }
    let find = Find { kind: "workflow".into(), label: Some("red".into()), ..Find::default() };
    assert_eq!(there.records(find.clone()).await, Ok(vec![]), "it is not found by what it was");
    assert_eq!(there.records(Find { label: Some("blue".into()), ..find }).await, Ok(vec![record]));
    assert_eq!(there.next_due("workflow".into()).await, Ok(None));
    assert_eq!(here.change(vec![remove(flow.clone(), Expect::Any)], 13).await, Ok(vec![0]));
    assert_eq!(there.get_record(flow).await, Ok(None));
    assert_eq!(here.change(Vec::new(), 14).await, Ok(vec![]));
}

pub(super) async fn expectations(Handles { here, there }: Handles) {
    let flow = || key("workflow", "ann", "w1");
    let expect = |expect| put(flow(), "", None, expect);
    assert_changed(here.change(vec![expect(Expect::Revision(1))], 1).await, "workflow w1");
    assert_changed(here.change(vec![remove(flow(), Expect::Revision(1))], 1).await, "workflow w1");
    for harmless in [Expect::Any, Expect::Absent] {
        assert_eq!(here.change(vec![remove(flow(), harmless)], 1).await, Ok(vec![0]), "{harmless:?}");
    }
    assert_eq!(here.change(vec![expect(Expect::Absent)], 1).await, Ok(vec![1]));
    assert_changed(there.change(vec![expect(Expect::Absent)], 2).await, "workflow w1");
    assert_changed(there.change(vec![remove(flow(), Expect::Absent)], 2).await, "workflow w1");
    assert_eq!(there.change(vec![expect(Expect::Revision(1))], 2).await, Ok(vec![2]));
    for wrong in [0, 1, 3] {
        assert_changed(here.change(vec![expect(Expect::Revision(wrong))], 3).await, "workflow w1");
        assert_changed(here.change(vec![remove(flow(), Expect::Revision(wrong))], 3).await, "workflow w1");
    }
    let record = here.get_record(flow()).await.unwrap().unwrap();
    assert_eq!((record.revision, record.at), (2, 2), "what was refused left nothing");
    assert_eq!(here.change(vec![remove(flow(), Expect::Revision(2))], 4).await, Ok(vec![0]));
    assert_eq!(there.get_record(flow()).await, Ok(None));
}

pub(super) async fn all_or_nothing(Handles { here, there }: Handles) {
    let (flow, trigger) = (key("workflow", "ann", "w1"), key("trigger", "ann", "t1"));
    let document = Document {
        key: DocumentKey { kind: "plan".into(), owner: String::new(), name: "p".into() },
        version: 1,
        at: 7,
        body: json!("plan"),
    };
    let run = started(&*here, Completed).await;
    let edits = |trigger_is: Expect| {
        vec![
            put(flow.clone(), "", None, Expect::Any),
            Edit::Document(document.clone()),
            Edit::Reported { run, seq: 1 },
            put(trigger.clone(), "w1", Some(9), trigger_is),
        ]
    };
    assert_changed(here.change(edits(Expect::Revision(4)), 1).await, "trigger t1");
    assert_eq!(there.get_record(flow.clone()).await, Ok(None));
    assert_eq!(there.get_document(document.key.clone(), None).await, Ok(None));
    assert_eq!(there.ended(0).await.unwrap().len(), 1);
    assert_eq!(here.change(edits(Expect::Absent), 2).await, Ok(vec![1, 0, 0, 1]));
    assert_eq!(there.get_document(document.key.clone(), None).await, Ok(Some(document.clone())));
    assert_eq!(there.ended(0).await.unwrap().len(), 0);
    assert_changed(here.change(edits(Expect::Any), 3).await, &run.to_string());
    let revision = async |key: &RecordKey| there.get_record(key.clone()).await.unwrap().unwrap().revision;
    assert_eq!((revision(&flow).await, revision(&trigger).await), (1, 1));
    let twice = vec![
        put(flow.clone(), "", None, Expect::Revision(1)),
        put(flow.clone(), "", None, Expect::Revision(2)),
        remove(flow.clone(), Expect::Revision(3)),
        put(flow.clone(), "", None, Expect::Absent),
    ];
    assert_eq!(here.change(twice, 4).await, Ok(vec![2, 3, 0, 1]), "each edit sees those before it");
}

/// Many take a record up at once; each number is given once.
pub(super) async fn one_of_many_wins(Handles { here, there }: Handles) {
    let flow = key("workflow", "ann", "w1");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..20 {
        let store = if number % 2 == 0 { here.clone() } else { there.clone() };
        let edit = put(flow.clone(), "", None, Expect::Absent);
        tasks.spawn(async move { store.change(vec![edit], number).await.is_ok() });
    }
    let won = tasks.join_all().await.into_iter().filter(|won| *won).count();
    assert_eq!(won, 1);
}

pub(super) async fn found_in_order(Handles { here, there }: Handles) {
    // owner, id, label, due_at
    let all = [
        ("ann", "a", "red", Some(30)),
        ("ben", "b", "red", Some(10)),
        ("ann", "c", "blue", None),
        ("ann", "d", "red", Some(10)),
        ("ben", "e", "", Some(20)),
    ];
    let edits = all.iter().map(|(owner, id, label, due_at)| put(key("t", owner, id), label, *due_at, Expect::Any));
    let other = put(key("other", "ann", "x"), "red", Some(1), Expect::Any);
    here.change(edits.chain([other]).collect(), 1).await.unwrap();
    let text = |text: &str| Some(text.to_owned());
    let find = || Find { kind: "t".into(), ..Find::default() };
    let cases = [
        (find(), "abcde"),
        (Find { newest_first: true, ..find() }, "edcba"),
        (Find { owner: text("ann"), ..find() }, "acd"),
        (Find { owner: text("ann"), newest_first: true, limit: 2, ..find() }, "dc"),
        (Find { label: text("red"), ..find() }, "abd"),
        (Find { label: text(""), ..find() }, "e"),
        (Find { label: text("red"), owner: text("ann"), ..find() }, "ad"),
        (Find { label: text("red"), owner: text("ann"), after: text("a"), ..find() }, "d"),
        (Find { after: text("b"), limit: 2, ..find() }, "cd"),
        (Find { after: text("bb"), newest_first: true, ..find() }, "ba"),
        (Find { after: text("e"), ..find() }, ""),
        (Find { due_by: Some(9), ..find() }, ""),
        (Find { due_by: Some(20), ..find() }, "bde"),
        (Find { due_by: Some(99), ..find() }, "bdea"),
        (Find { due_by: Some(99), after: text("z"), newest_first: true, limit: 2, ..find() }, "bd"),
        (Find { due_by: Some(99), owner: text("ann"), ..find() }, "da"),
        (Find { due_by: Some(99), label: text("red"), ..find() }, "bda"),
        (Find { due_by: Some(99), label: text("red"), owner: text("ben"), ..find() }, "b"),
        (Find::default(), ""),
    ];
    for (find, expected) in cases {
        let found = there.records(find.clone()).await.unwrap();
        let ids: String = found.iter().map(|record| record.key.id.as_str()).collect();
        assert_eq!(ids, expected, "{find:?}");
    }
    assert_eq!(there.next_due("t".into()).await, Ok(Some(10)));
    assert_eq!(there.next_due("other".into()).await, Ok(Some(1)));
    assert_eq!(there.next_due("none".into()).await, Ok(None));
}

pub(super) async fn pages_are_bounded(Handles { here, .. }: Handles) {
    let put = |number: u32| put(key("t", "ann", &format!("{number:04}")), "", None, Expect::Absent);
    here.change((0..1_100).map(put).collect(), 1).await.unwrap();
    for (limit, expected) in [(0, 100), (7, 7), (1_000, 1_000), (9_999, 1_000)] {
        let find = Find { kind: "t".into(), limit, ..Find::default() };
        assert_eq!(here.records(find).await.unwrap().len(), expected, "{limit}");
    }
}

async fn ended(store: &dyn Store) -> Vec<(RunId, u64)> {
    store.ended(0).await.unwrap().iter().map(|row| (row.summary.run, row.seq)).collect()
}

/// Up to which entry the run's ends were taken note of.
async fn reported(store: &dyn Store, run: RunId) -> u64 {
    store.list(Filter { run: Some(run), ..Filter::default() }).await.unwrap().rows[0].reported
}

pub(super) async fn an_end_is_told_until_it_is_noted(Handles { here, there }: Handles) {
    let ending = |run, status, at| Some(Summary { ended_at: Some(at), ..summary(run, status) });
    let late = started(&*here, Running).await;
    let child = Summary { parent: Some(late), ended_at: Some(1_500), ..summary(run(), Failed) };
    let child = created(&*here, child).await;
    assert_eq!(ended(&*there).await, [(child, 1)], "children too, also when they never ran");
    here.append(Batch { summary: ending(late, Completed, 1_900), ..batch(late, 2) }).await.unwrap();
    let early = created(&*here, Summary { ended_at: Some(1_200), ..summary(run(), Completed) }).await;
    assert_eq!(ended(&*there).await, [(early, 1), (child, 1), (late, 2)], "oldest end first");
    assert_eq!(there.ended(2).await.unwrap().len(), 2);
    let note = async |run, seq| there.change(vec![Edit::Reported { run, seq }], 5).await;
    assert_changed(note(late, 1).await, &late.to_string());
    assert_changed(note(run(), 1).await, "run");
    assert_eq!(reported(&*here, late).await, 0);
    assert_eq!(note(late, 2).await, Ok(vec![0]));
    assert_eq!(reported(&*here, late).await, 2);
    assert_changed(note(late, 2).await, &late.to_string());
    assert_eq!(ended(&*here).await, [(early, 1), (child, 1)]);
    here.append(batch(late, 3)).await.unwrap();
    assert_eq!(ended(&*here).await, [(early, 1), (child, 1)], "an entry without a row changes nothing");
    here.append(Batch { summary: Some(summary(late, Running)), ..batch(late, 4) }).await.unwrap();
    here.append(Batch { summary: ending(late, Failed, 1_950), ..batch(late, 5) }).await.unwrap();
    assert_eq!(ended(&*there).await, [(early, 1), (child, 1), (late, 5)], "it has ended again");
    assert_eq!(reported(&*here, late).await, 2, "what was noted of it stays known");
    here.append(Batch { summary: Some(summary(early, Running)), ..batch(early, 2) }).await.unwrap();
    assert_changed(note(early, 2).await, &early.to_string());
    assert_eq!(ended(&*there).await, [(child, 1), (late, 5)], "it goes on");
    here.append(batch(child, 2)).await.unwrap();
    assert_changed(note(child, 1).await, &child.to_string());
    assert_eq!(note(child, 2).await, Ok(vec![0]));
    here.append(Batch { summary: ending(child, Failed, 1_500), ..batch(child, 3) }).await.unwrap();
    assert_eq!(ended(&*there).await, [(child, 3), (late, 5)], "the end was written once more");
}

pub(super) async fn unfinished_runs_are_counted(Handles { here, there }: Handles) {
    for status in [Running, Waiting, Running, Completed] {
        started(&*here, status).await;
    }
    let counts = there.unfinished().await.unwrap();
    assert_eq!(counts, [(RunStatus::Pending, 0), (Running, 2), (Waiting, 1)]);
}

pub(super) async fn a_pruned_run_is_not_told(Handles { here, there }: Handles) {
    started(&*here, Completed).await;
    here.prune(Prune { before: vec![(Completed, 9_000)], ..Prune::default() }).await.unwrap();
    assert_eq!(ended(&*there).await, []);
}

pub(super) async fn the_own_tail_tells_no_change(Handles { here, .. }: Handles) {
    let mut own = here.tail();
    let run = started(&*here, Completed).await;
    let edits = vec![put(key("t", "ann", "a"), "", None, Expect::Any), Edit::Reported { run, seq: 1 }];
    here.change(edits, 1).await.unwrap();
    here.append(batch(run, 2)).await.unwrap();
    for seq in [1, 2] {
        assert_eq!(journal::next(&mut own).await, Change { run, seq });
    }
    assert_eq!(here.list(Filter::default()).await.unwrap().rows.len(), 1);
}
