//! Lists of runs, newest first. Each query walks one index in order and stops at the page's end, however many runs
//! there are: every combination of status and root is a query of its own, merged here. They find ids only; the rows of
//! the page are read afterwards.

use relais_engine::{Millis, RunId, RunStatus, Summary};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params, params_from_iter};

use super::journal::{id, parsed, run_id};
use super::trouble::Trouble;
use crate::page;
use crate::{Awaited, Error, Filter, Page, Row};

const COLUMNS: &str = "SELECT r.run, r.workflow, r.plan, r.user, r.thread, r.parent, r.status, r.started_at, \
     r.ended_at, r.wake_at, r.awaits, r.usage, r.error, (SELECT max(seq) FROM entries e WHERE e.run = r.run), \
     r.owner, (SELECT lease_until FROM owners o WHERE o.owner = r.owner), r.target, r.reported FROM runs r";

const ENDED: &str = "SELECT ended_at, run FROM runs INDEXED BY runs_unreported WHERE unreported = 1 \
     ORDER BY ended_at, run LIMIT ?1";

pub(super) fn list(db: &Connection, filter: &Filter) -> Result<Page, Trouble> {
    let limit = page::rows(filter.limit);
    let mut places = Vec::new();
    for query in queries(filter, choice(db, filter)?, limit)? {
        let mut statement = db.prepare_cached(&query.sql)?;
        let found = statement.query_map(params_from_iter(query.values), place)?;
        places.extend(found.collect::<Result<Vec<_>, _>>()?);
    }
    places.sort_unstable_by_key(|place| std::cmp::Reverse(*place));
    let more = places.len() > limit;
    places.truncate(limit);
    let rows = rows(db, &places)?;
    let last = places.last().filter(|_| more);
    Ok(Page { rows, cursor: last.map(|(at, run)| page::cursor(*at, *run)) })
}

pub(super) fn ended(db: &Connection, limit: usize) -> Result<Vec<Row>, Trouble> {
    let mut statement = db.prepare_cached(ENDED)?;
    let places = statement.query_map([page::sql_rows(limit)], |row| Ok((0, run_id(row, 1)?)))?;
    let places: Vec<Place> = places.collect::<Result<_, _>>()?;
    Ok(rows(db, &places)?)
}

const AWAITING: &str =
    "SELECT run FROM awaited_events WHERE user = ?1 AND event = ?2 AND run > ?3 ORDER BY run LIMIT ?4";

pub(super) fn awaiting(db: &Connection, awaited: &Awaited) -> Result<Vec<RunId>, Trouble> {
    let Awaited { user, event, after, limit } = awaited;
    // No bytes come before all ids.
    let after = after.as_ref().map_or(&[][..], id);
    let mut statement = db.prepare_cached(AWAITING)?;
    let runs = statement.query_map(params![user, event, after, page::sql_rows(*limit)], |row| run_id(row, 0))?;
    Ok(runs.collect::<Result<_, _>>()?)
}

const COUNT: &str = "SELECT count(*) FROM runs INDEXED BY runs_status WHERE status = ?1";

pub(super) fn unfinished(db: &Connection) -> Result<Vec<(RunStatus, u64)>, Trouble> {
    let mut statement = db.prepare_cached(COUNT)?;
    let mut count = |status: RunStatus| -> Result<(RunStatus, u64), Trouble> {
        let found: i64 = statement.query_row([status.word()], |row| row.get(0))?;
        Ok((status, found.cast_unsigned()))
    };
    RunStatus::UNFINISHED.into_iter().map(&mut count).collect()
}

type Place = (Millis, RunId);

fn place(row: &SqlRow<'_>) -> rusqlite::Result<Place> {
    Ok((row.get(0)?, run_id(row, 1)?))
}

/// A run that was removed meanwhile is left out.
fn rows(db: &Connection, places: &[Place]) -> rusqlite::Result<Vec<Row>> {
    let sql = format!("{COLUMNS} WHERE r.run = ?1");
    let mut statement = db.prepare_cached(&sql)?;
    let mut found = Vec::with_capacity(places.len());
    for (_, run) in places {
        found.extend(statement.query_row([id(run)], read).optional()?);
    }
    Ok(found)
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

fn queries(filter: &Filter, index: Option<Index>, limit: usize) -> Result<Vec<Query>, Error> {
    let mut statuses = if filter.status.is_empty() { RunStatus::all().collect() } else { filter.status.clone() };
    statuses.sort_unstable();
    statuses.dedup();
    let roots: &[bool] = if filter.roots_only { &[true] } else { &[true, false] };
    if index.is_none_or(|index| !index.by_status) {
        return Ok(vec![query(filter, index, &statuses, roots, limit)?]);
    }
    let each = statuses.iter().flat_map(|status| roots.iter().map(move |root| (*status, *root)));
    each.map(|(status, root)| query(filter, index, &[status], &[root], limit)).collect()
}

#[derive(Debug, Clone, Copy)]
struct Index {
    name: &'static str,
    /// The index has status and root before the time.
    by_status: bool,
}

/// Not an index of `runs` but a table of its own, which is walked in the same way.
const MARKS: &str = "run_marks";

/// Where a filter names both a thread and a workflow's id, a list that ends within so many runs is walked rather than one
/// that does not. Beyond that, both are so long that what they have in common is likely to be met soon.
const SHORT_LIST: i64 = 2_000;

fn choice(db: &Connection, filter: &Filter) -> Result<Option<Index>, Trouble> {
    let usable = usable(filter);
    for index in usable.iter().filter(|_| usable.len() > 1) {
        if length(db, filter, *index)? < SHORT_LIST {
            return Ok(Some(*index));
        }
    }
    Ok(usable.first().copied())
}

/// How many runs an index has for this filter whatever their status, as far as it matters.
fn length(db: &Connection, filter: &Filter, index: Index) -> rusqlite::Result<i64> {
    let mut query = Query::of("SELECT count(*) FROM (SELECT 1 FROM runs r", Some(index));
    query.text("r.user = ?", filter.user.as_deref());
    match index.name {
        "runs_user_thread" => query.partial("r.thread", filter.thread.as_deref()),
        _ => query.partial("r.workflow_id", filter.workflow_id.as_deref()),
    }
    query.sql.push_str(" LIMIT ?)");
    query.values.push(Value::Integer(SHORT_LIST));
    db.prepare_cached(&query.sql)?.query_row(params_from_iter(query.values), |row| row.get(0))
}

/// The indexes that serve, likely the shortest first; none where the run itself is named. An empty thread or id has
/// no index, and neither has a thread or an id without a user.
fn usable(filter: &Filter) -> Vec<Index> {
    let given = |text: &Option<String>| filter.user.is_some() && text.as_ref().is_some_and(|text| !text.is_empty());
    let by_status = |name| Index { name, by_status: true };
    if filter.run.is_some() {
        return Vec::new();
    }
    if filter.user.is_some() && !filter.marks.is_empty() && filter.parent.is_none() {
        return vec![by_status(MARKS)];
    }
    if filter.parent.is_some() {
        return vec![Index { name: "runs_parent", by_status: false }];
    }
    let mut usable = Vec::new();
    usable.extend(given(&filter.thread).then(|| by_status("runs_user_thread")));
    usable.extend(given(&filter.workflow_id).then(|| by_status("runs_user_workflow")));
    if usable.is_empty() {
        usable.push(by_status(if filter.user.is_some() { "runs_user" } else { "runs_status" }));
    }
    usable
}

fn query(
    filter: &Filter,
    index: Option<Index>,
    statuses: &[RunStatus],
    roots: &[bool],
    limit: usize,
) -> Result<Query, Error> {
    let (mut query, marks) = match (index, filter.marks.as_slice()) {
        (Some(Index { name: MARKS, .. }), [first, rest @ ..]) => {
            (Query::of_marked(filter, first, statuses, roots), rest)
        }
        (index, marks) => (Query::of("SELECT r.started_at, r.run FROM runs r", index), marks),
    };
    let walked = if marks.len() < filter.marks.len() { "m" } else { "r" };
    for mark in marks {
        let has = "EXISTS (SELECT 1 FROM run_marks x INDEXED BY run_marks_run WHERE x.run = r.run AND x.mark = ?)";
        query.text(has, Some(mark.as_str()));
    }
    query.run("r.run = ?", filter.run);
    query.run("r.parent = ?", filter.parent);
    query.text("r.user = ?", filter.user.as_deref());
    query.text("r.workflow = ?", filter.workflow.as_deref());
    query.partial("r.workflow_id", filter.workflow_id.as_deref());
    query.partial("r.thread", filter.thread.as_deref());
    query.status(statuses);
    if let [root] = roots {
        query.number("r.root = ?", Some(i64::from(*root)));
    }
    query.number("r.started_at > ?", filter.started_after);
    query.number("r.started_at < ?", filter.started_before);
    if let Some(cursor) = &filter.cursor {
        let (at, run) = page::position(cursor)?;
        query.sql.push_str(&format!(" AND ({walked}.started_at, {walked}.run) < (?, ?)"));
        query.values.extend([Value::Integer(at), Value::Blob(id(&run).to_vec())]);
    }
    query.sql.push_str(&format!(" ORDER BY {walked}.started_at DESC, {walked}.run DESC LIMIT ?"));
    // One more than the page tells whether there is another.
    query.values.push(Value::Integer(i64::try_from(limit + 1).unwrap_or(i64::MAX)));
    Ok(query)
}

impl Query {
    fn of(select: &str, index: Option<Index>) -> Query {
        let by = index.map_or_else(String::new, |index| format!(" INDEXED BY {}", index.name));
        Query { sql: format!("{select}{by} WHERE 1"), values: Vec::new() }
    }

    /// A walk along the runs that have a mark, each looked up for what else is asked of it.
    fn of_marked(filter: &Filter, mark: &str, statuses: &[RunStatus], roots: &[bool]) -> Query {
        let select = "SELECT m.started_at, m.run FROM run_marks m CROSS JOIN runs r ON r.run = m.run";
        let mut query = Query::of(select, None);
        query.text("m.user = ?", filter.user.as_deref());
        query.text("m.mark = ?", Some(mark));
        if let ([status], [root]) = (statuses, roots) {
            query.text("m.status = ?", Some(status.word()));
            query.number("m.root = ?", Some(i64::from(*root)));
        }
        query
    }

    fn and(&mut self, condition: &str, value: Option<Value>) {
        if let Some(value) = value {
            self.sql.push_str(" AND ");
            self.sql.push_str(condition);
            self.values.push(value);
        }
    }

    fn run(&mut self, condition: &str, run: Option<RunId>) {
        self.and(condition, run.map(|run| Value::Blob(id(&run).to_vec())));
    }

    fn text(&mut self, condition: &str, text: Option<&str>) {
        self.and(condition, text.map(|text| Value::Text(text.to_owned())));
    }

    /// A column whose index leaves out empty texts: SQLite must see that none is asked for.
    fn partial(&mut self, column: &str, text: Option<&str>) {
        self.text(&format!("{column} = ?"), text);
        if text.is_some_and(|text| !text.is_empty()) {
            self.sql.push_str(&format!(" AND {column} <> ''"));
        }
    }

    fn number(&mut self, condition: &str, number: Option<i64>) {
        self.and(condition, number.map(Value::Integer));
    }

    fn status(&mut self, statuses: &[RunStatus]) {
        let marks = vec!["?"; statuses.len()].join(", ");
        self.sql.push_str(&match statuses.len() {
            1 => " AND r.status = ?".to_owned(),
            _ => format!(" AND r.status IN ({marks})"),
        });
        self.values.extend(statuses.iter().map(|status| Value::Text(status.word().to_owned())));
    }
}

fn read(row: &SqlRow<'_>) -> rusqlite::Result<Row> {
    let parent: Option<[u8; 16]> = row.get(5)?;
    let failed = row.get_ref(12)? != rusqlite::types::ValueRef::Null;
    let error = if failed { Some(parsed(row, 12)?) } else { None };
    let summary = Summary {
        run: run_id(row, 0)?,
        workflow: row.get(1)?,
        plan: row.get(2)?,
        user: row.get(3)?,
        thread: row.get(4)?,
        parent: parent.map(RunId::from_bytes),
        target: parsed(row, 16)?,
        status: status(row)?,
        started_at: row.get(7)?,
        ended_at: row.get(8)?,
        wake_at: row.get(9)?,
        awaits: parsed(row, 10)?,
        usage: parsed(row, 11)?,
        error,
    };
    let (seq, reported): (Option<i64>, i64) = (row.get(13)?, row.get(17)?);
    let (seq, reported) = (seq.unwrap_or_default().cast_unsigned(), reported.cast_unsigned());
    Ok(Row { summary, seq, reported, owner: row.get(14)?, lease_until: row.get(15)? })
}

fn status(row: &SqlRow<'_>) -> rusqlite::Result<RunStatus> {
    let word = row.get_ref(6)?.as_str()?;
    RunStatus::named(word).ok_or_else(|| {
        let unknown = format!("`{word}` is not a status of a run");
        rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, unknown.into())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
fn plan(db: &Connection, sql: &str, values: Vec<Value>) -> Vec<String> {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
    let steps = statement.query_map(params_from_iter(values), |row| row.get(3)).unwrap();
    steps.map(Result::unwrap).collect()
}

/// The plan of a query must be a walk along one index, without a sort.
#[cfg(test)]
pub(super) fn assert_walks(db: &Connection, sql: &str, values: Vec<Value>) {
    for step in plan(db, sql, values) {
        assert!(!step.contains("SCAN") && !step.contains("TEMP"), "{step} in {sql}");
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sqlite::schema;

    fn tables() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        schema::migrate(&db, std::path::Path::new("memory")).unwrap();
        db
    }

    /// Every combination of what may be given. Keeps A-41.
    fn filters() -> impl Iterator<Item = Filter> {
        let cursor = format!("5.{}", RunId::nil().simple());
        (0..512_u16).map(move |bits| {
            let given = |place: u16| bits & (1 << place) != 0;
            let text = |place: u16| given(place).then(|| "x".to_owned());
            Filter {
                user: text(0),
                workflow: text(1),
                workflow_id: text(2),
                thread: text(3),
                status: if given(4) { vec![RunStatus::Failed, RunStatus::Failed, RunStatus::Running] } else { vec![] },
                roots_only: given(5),
                started_after: given(6).then_some(1),
                started_before: given(7).then_some(9),
                cursor: given(8).then(|| cursor.clone()),
                ..Filter::default()
            }
        })
    }

    #[test]
    fn no_filter_sorts_or_scans() {
        let db = tables();
        let empty = || Some(String::new());
        let other = [
            Filter { thread: empty(), started_after: Some(1), ..Filter::default() },
            Filter { workflow_id: empty(), user: empty(), ..Filter::default() },
            Filter { parent: Some(RunId::nil()), started_before: Some(9), ..Filter::default() },
            Filter { run: Some(RunId::nil()), user: empty(), ..Filter::default() },
            Filter { user: empty(), marks: vec!["a=b".into()], started_after: Some(1), ..Filter::default() },
            Filter { user: empty(), marks: vec!["a=b".into(), "c=d".into()], thread: empty(), ..Filter::default() },
            Filter { marks: vec!["a=b".into()], ..Filter::default() },
        ];
        for filter in filters().chain(other) {
            let indexes: Vec<_> = usable(&filter).into_iter().map(Some).collect();
            let indexes = if indexes.is_empty() { vec![None] } else { indexes };
            for query in indexes.into_iter().flat_map(|index| queries(&filter, index, 10).unwrap()) {
                assert_walks(&db, &query.sql, query.values);
            }
        }
    }

    /// A thread and an id: whichever list is short is walked, else the first.
    #[test]
    fn the_shorter_list_is_walked() {
        let db = tables();
        let insert = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000) \
             INSERT INTO runs (run, workflow, plan, user, thread, status, started_at, awaits, usage, workflow_id) \
             SELECT randomblob(16), iif(i < 10, 'few', 'many'), '', 'ann', 'many', 'completed', i, '[]', '{}', \
             iif(i < 10, 'few', 'many') FROM n";
        db.execute_batch(insert).unwrap();
        let cases = [
            ("many", "few", "runs_user_workflow"),
            ("none", "few", "runs_user_thread"),
            ("many", "many", "runs_user_thread"),
        ];
        for (thread, workflow_id, expected) in cases {
            let text = |text: &str| Some(text.to_owned());
            let (thread, workflow_id) = (text(thread), text(workflow_id));
            let filter = Filter { user: text("ann"), thread, workflow_id, ..Filter::default() };
            assert_eq!(choice(&db, &filter).unwrap().unwrap().name, expected, "{filter:?}");
        }
    }

    /// However many runs wait for something else.
    #[test]
    fn an_event_walks_to_the_runs_that_wait_for_it() {
        let text = |text: &str| Value::Text(text.into());
        let values = vec![text("ann"), text("order.paid"), Value::Blob(vec![7; 16]), Value::Integer(1)];
        let plan = plan(&tables(), AWAITING, values);
        assert_eq!(plan, ["SEARCH awaited_events USING PRIMARY KEY (user=? AND event=? AND run>?)"]);
    }

    /// All that the index of unreported runs holds is wanted, in its order.
    #[test]
    fn the_outbox_does_not_sort() {
        let plan = plan(&tables(), ENDED, vec![Value::Integer(1)]);
        assert_eq!(plan, ["SCAN runs USING COVERING INDEX runs_unreported"]);
    }

    /// What is left of a filter is decided inside the index: a walk over a user's runs never fetches rows.
    #[test]
    fn every_walk_stays_inside_its_index() {
        let db = tables();
        for filter in filters().filter(|filter| filter.user.is_some()) {
            for query in queries(&filter, usable(&filter).first().copied(), 10).unwrap() {
                let plan = plan(&db, &query.sql, query.values);
                assert!(plan.iter().all(|step| step.contains("COVERING INDEX")), "{plan:?} in {}", query.sql);
            }
        }
    }
}
