//! Lists of runs, newest first. Each query walks one index in order and stops at the page's end, however many runs
//! there are: a filter on several statuses becomes one query per status, merged here.

use relais_engine::{RunId, RunStatus, Summary, Target};
use rusqlite::types::Value;
use rusqlite::{Connection, Row as SqlRow, params_from_iter};

use super::journal::{id, parsed, run_id};
use super::trouble::Trouble;
use crate::page;
use crate::{Error, Filter, Page, Row};

const COLUMNS: &str = "SELECT r.run, r.workflow, r.plan, r.user, r.thread, r.parent, r.status, r.started_at, \
     r.ended_at, r.wake_at, r.awaits, r.usage, r.error, (SELECT max(seq) FROM entries e WHERE e.run = r.run), \
     r.owner, (SELECT lease_until FROM owners o WHERE o.owner = r.owner) FROM runs r";

const STATUSES: [RunStatus; 8] = [
    RunStatus::Pending,
    RunStatus::Running,
    RunStatus::Waiting,
    RunStatus::Completed,
    RunStatus::Stopped,
    RunStatus::PartialSuccess,
    RunStatus::Failed,
    RunStatus::Cancelled,
];

pub(super) fn list(db: &Connection, filter: &Filter) -> Result<Page, Trouble> {
    let limit = page::rows(filter.limit);
    let mut rows = Vec::new();
    for query in queries(filter, limit)? {
        let mut statement = db.prepare_cached(&query.sql)?;
        let found = statement.query_map(params_from_iter(query.values), read)?;
        rows.extend(found.collect::<Result<Vec<_>, _>>()?);
    }
    rows.sort_unstable_by_key(|row| std::cmp::Reverse((row.summary.started_at, row.summary.run)));
    let more = rows.len() > limit;
    rows.truncate(limit);
    let cursor = rows.last().filter(|_| more).map(|row| page::cursor(&row.summary));
    Ok(Page { rows, cursor })
}

struct Query {
    sql: String,
    values: Vec<Value>,
}

fn queries(filter: &Filter, limit: usize) -> Result<Vec<Query>, Error> {
    let index = index(filter);
    let statuses: &[RunStatus] = if filter.status.is_empty() { &STATUSES } else { &filter.status };
    let mut statuses = statuses.to_vec();
    statuses.sort_unstable();
    statuses.dedup();
    if index.is_none_or(|index| !index.by_status) {
        return Ok(vec![query(filter, index, &statuses, limit)?]);
    }
    statuses.iter().map(|status| query(filter, index, &[*status], limit)).collect()
}

#[derive(Clone, Copy)]
struct Index {
    name: &'static str,
    /// The index has the status before the time.
    by_status: bool,
}

/// The index that leaves the fewest rows; none where the run itself is named.
fn index(filter: &Filter) -> Option<Index> {
    let threaded = filter.thread.as_ref().is_some_and(|thread| !thread.is_empty());
    let (name, by_status) = match filter {
        Filter { run: Some(_), .. } => return None,
        Filter { parent: Some(_), .. } => ("runs_parent", false),
        _ if threaded => ("runs_thread", false),
        Filter { workflow: Some(_), .. } => ("runs_workflow", true),
        Filter { user: Some(_), .. } => ("runs_user", true),
        _ => ("runs_status", true),
    };
    Some(Index { name, by_status })
}

fn query(filter: &Filter, index: Option<Index>, statuses: &[RunStatus], limit: usize) -> Result<Query, Error> {
    let mut sql = COLUMNS.to_owned();
    if let Some(index) = index {
        sql.push_str(" INDEXED BY ");
        sql.push_str(index.name);
    }
    sql.push_str(" WHERE 1");
    let mut query = Query { sql, values: Vec::new() };
    query.run("r.run = ?", filter.run);
    query.run("r.parent = ?", filter.parent);
    query.text("r.user = ?", filter.user.as_deref());
    query.text("r.workflow = ?", filter.workflow.as_deref());
    query.text("r.thread = ?", filter.thread.as_deref());
    if filter.thread.as_ref().is_some_and(|thread| !thread.is_empty()) {
        query.sql.push_str(" AND r.thread <> ''");
    }
    if filter.roots_only {
        query.sql.push_str(" AND r.parent IS NULL");
    }
    query.number("r.started_at > ?", filter.started_after);
    query.number("r.started_at < ?", filter.started_before);
    query.status(statuses);
    if let Some(cursor) = &filter.cursor {
        let (at, run) = page::position(cursor)?;
        query.sql.push_str(" AND (r.started_at, r.run) < (?, ?)");
        query.values.extend([Value::Integer(at), Value::Blob(id(&run).to_vec())]);
    }
    query.sql.push_str(" ORDER BY r.started_at DESC, r.run DESC LIMIT ?");
    // One more than the page tells whether there is another.
    query.values.push(Value::Integer(i64::try_from(limit + 1).unwrap_or(i64::MAX)));
    Ok(query)
}

impl Query {
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
        target: Target::default(),
        status: status(row)?,
        started_at: row.get(7)?,
        ended_at: row.get(8)?,
        wake_at: row.get(9)?,
        awaits: parsed(row, 10)?,
        usage: parsed(row, 11)?,
        error,
    };
    let seq: Option<i64> = row.get(13)?;
    Ok(Row { summary, seq: seq.unwrap_or_default().cast_unsigned(), owner: row.get(14)?, lease_until: row.get(15)? })
}

fn status(row: &SqlRow<'_>) -> rusqlite::Result<RunStatus> {
    let word = row.get_ref(6)?.as_str()?;
    let known = STATUSES.into_iter().find(|status| status.word() == word);
    known.ok_or_else(|| {
        let unknown = format!("`{word}` is not a status of a run");
        rusqlite::Error::FromSqlConversionFailure(6, rusqlite::types::Type::Text, unknown.into())
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::sqlite::schema;

    /// The plan of every query must be a walk along one index, without a sort.
    #[test]
    fn no_filter_sorts_or_scans() {
        let db = Connection::open_in_memory().unwrap();
        schema::migrate(&db, std::path::Path::new("memory")).unwrap();
        let text = || Some("x".to_owned());
        let cursor = Some(format!("5.{}", RunId::nil().simple()));
        let filters = [
            Filter::default(),
            Filter { cursor: cursor.clone(), ..Filter::default() },
            Filter { user: text(), cursor: cursor.clone(), ..Filter::default() },
            Filter { user: text(), workflow: text(), roots_only: true, ..Filter::default() },
            Filter { workflow: text(), status: vec![RunStatus::Failed, RunStatus::Failed], ..Filter::default() },
            Filter { thread: text(), status: STATUSES.to_vec(), cursor, ..Filter::default() },
            Filter { thread: Some(String::new()), started_after: Some(1), ..Filter::default() },
            Filter { parent: Some(RunId::nil()), started_before: Some(9), ..Filter::default() },
            Filter { run: Some(RunId::nil()), user: text(), ..Filter::default() },
        ];
        for filter in filters {
            for query in queries(&filter, 10).unwrap() {
                let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {}", query.sql)).unwrap();
                let steps = statement.query_map(params_from_iter(query.values), |row| row.get::<_, String>(3)).unwrap();
                for step in steps.map(Result::unwrap) {
                    assert!(!step.contains("SCAN") && !step.contains("TEMP"), "{step} in {}", query.sql);
                }
            }
        }
    }
}
