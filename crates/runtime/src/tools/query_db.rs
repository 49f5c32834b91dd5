//! `query_db`: reading SQL on a configured SQLite file. Nothing that this tool is given can change a file.

use std::collections::BTreeMap;
use std::time::Duration;

use base64::Engine;
use relais_engine::{ErrorKind, Failure};
use relais_plan::Effect;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::types::{Value as Sql, ValueRef};
use rusqlite::{Connection, InterruptHandle, OpenFlags, Statement};
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::blocking;
use super::{arguments, listed, wrong};
use crate::model::BoxFuture;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

const ROWS: usize = 100;
const ROWS_MAX: usize = 1_000;
/// All rows together; further ones are left out with `truncated`.
const RESULT_BYTES_MAX: usize = 2 * 1024 * 1024;
/// One text or blob; SQLite refuses to make longer ones.
const VALUE_BYTES_MAX: i32 = 1024 * 1024;
/// A writer may hold the file for a moment.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

pub struct QueryDb {
    spec: ToolSpec,
    /// Name to file.
    databases: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Arguments {
    database: String,
    sql: String,
    #[serde(default)]
    parameters: Parameters,
    limit: Option<usize>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Parameters {
    Positional(Vec<Value>),
    Named(BTreeMap<String, Value>),
}

impl Default for Parameters {
    fn default() -> Parameters {
        Parameters::Positional(Vec::new())
    }
}

impl QueryDb {
    pub fn new(databases: BTreeMap<String, String>) -> QueryDb {
        QueryDb { spec: spec(&databases), databases }
    }

    fn file(&self, name: &str) -> Result<String, Failure> {
        let Some(address) = self.databases.get(name) else {
            let known = listed(self.databases.keys().map(String::as_str));
            return Err(wrong(format!(
                "there is no database `{name}`; configured: {known}. relais.toml names them: [tools.databases] \
                 {name} = \"/path/to/file.db\""
            )));
        };
        match address.split_once("://") {
            None => Ok(address.strip_prefix("sqlite:").unwrap_or(address).to_owned()),
            Some(("sqlite" | "file", path)) => Ok(path.to_owned()),
            Some((scheme, _)) => Err(Failure::new(
                ErrorKind::Config,
                format!("database `{name}` is a {scheme} address; this build of query_db reads SQLite files only"),
            )),
        }
    }

    async fn query(&self, call: ToolCall<'_>) -> Result<Returned, Failure> {
        let given: Arguments = arguments(&call)?;
        let (name, file) = (given.database.clone(), self.file(&given.database)?);
        let connection = blocking(move || open(&file).map_err(|error| unreadable(&name, &error))).await?;
        // A dropped call must not leave the query running.
        let _interrupt = InterruptOnDrop(connection.get_interrupt_handle());
        let value = blocking(move || read(&connection, &given)).await?;
        Ok(Returned { value, ..Returned::default() })
    }
}

impl Tool for QueryDb {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(self.query(call))
    }
}

struct InterruptOnDrop(InterruptHandle);

impl Drop for InterruptOnDrop {
    fn drop(&mut self) {
        self.0.interrupt();
    }
}

fn unreadable(name: &str, error: &rusqlite::Error) -> Failure {
    Failure::new(ErrorKind::Config, format!("database `{name}` cannot be opened for reading: {error}"))
}

fn open(file: &str) -> rusqlite::Result<Connection> {
    let connection =
        Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "query_only", true)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, VALUE_BYTES_MAX)?;
    connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
    connection.authorizer(Some(authorize))?;
    Ok(connection)
}

/// Reading and nothing else: no other files, no settings of the connection, no extensions.
fn authorize(context: AuthContext<'_>) -> Authorization {
    match context.action {
        AuthAction::Select | AuthAction::Read { .. } | AuthAction::Recursive => Authorization::Allow,
        AuthAction::Function { function_name } if !function_name.eq_ignore_ascii_case("load_extension") => {
            Authorization::Allow
        }
        AuthAction::Pragma { pragma_name, .. } if is_describing(pragma_name) => Authorization::Allow,
        _ => Authorization::Deny,
    }
}

fn is_describing(pragma: &str) -> bool {
    let describing = ["table_info", "table_xinfo", "table_list", "index_list", "index_info", "foreign_key_list"];
    describing.iter().any(|name| pragma.eq_ignore_ascii_case(name))
}

fn read(connection: &Connection, given: &Arguments) -> Result<Value, Failure> {
    let mut statement = connection.prepare(&given.sql).map_err(sql_failure)?;
    if !statement.readonly() {
        return Err(wrong("only reading SQL is allowed here: a single SELECT"));
    }
    bind(&mut statement, &given.parameters)?;
    let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let limit = given.limit.unwrap_or(ROWS).min(ROWS_MAX);
    let (rows, truncated) = rows(&mut statement, columns.len(), limit)?;
    Ok(json!({"columns": columns, "rows": rows, "truncated": truncated}))
}

fn sql_failure(error: rusqlite::Error) -> Failure {
    match &error {
        rusqlite::Error::MultipleStatement => wrong("give one SQL statement, not several"),
        rusqlite::Error::SqliteFailure(code, _)
            if code.code == rusqlite::ErrorCode::AuthorizationForStatementDenied =>
        {
            wrong("only reading SQL is allowed here: a single SELECT on this database")
        }
        // SQLite has no code of its own for a function that is not allowed.
        _ if error.to_string().contains("not authorized") => {
            wrong("only reading SQL is allowed here, without extensions")
        }
        _ => wrong(format!("the SQL failed: {error}")),
    }
}

fn bind(statement: &mut Statement<'_>, parameters: &Parameters) -> Result<(), Failure> {
    let wanted = statement.parameter_count();
    match parameters {
        Parameters::Positional(values) => {
            if values.len() != wanted {
                return Err(wrong(format!("the SQL has {wanted} parameters and {} values are given", values.len())));
            }
            for (index, value) in values.iter().enumerate() {
                statement.raw_bind_parameter(index + 1, sql(value)).map_err(sql_failure)?;
            }
        }
        Parameters::Named(values) => {
            for index in 1..=wanted {
                let name = statement.parameter_name(index).unwrap_or("?").to_owned();
                let value = values.get(&name[1..]).or_else(|| values.get(&name));
                let value = value.ok_or_else(|| wrong(format!("`parameters` has no value for `{name}`")))?;
                statement.raw_bind_parameter(index, sql(value)).map_err(sql_failure)?;
            }
        }
    }
    Ok(())
}

fn sql(value: &Value) -> Sql {
    match value {
        Value::Null => Sql::Null,
        Value::Bool(flag) => Sql::Integer((*flag).into()),
        Value::Number(number) => match number.as_i64() {
            Some(integer) => Sql::Integer(integer),
            None => number.as_f64().map_or(Sql::Null, Sql::Real),
        },
        Value::String(text) => Sql::Text(text.clone()),
        other => Sql::Text(other.to_string()),
    }
}

fn rows(statement: &mut Statement<'_>, columns: usize, limit: usize) -> Result<(Vec<Value>, bool), Failure> {
    let mut found = Vec::new();
    let mut bytes = 0;
    let mut cursor = statement.raw_query();
    while let Some(row) = cursor.next().map_err(sql_failure)? {
        let cells: Result<Vec<Value>, _> = (0..columns).map(|index| row.get_ref(index).map(cell)).collect();
        let cells = Value::Array(cells.map_err(sql_failure)?);
        bytes += cells.to_string().len();
        if found.len() == limit || bytes > RESULT_BYTES_MAX {
            return Ok((found, true));
        }
        found.push(cells);
    }
    Ok((found, false))
}

fn cell(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(integer) => integer.into(),
        ValueRef::Real(real) => real.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => json!({"base64": base64::engine::general_purpose::STANDARD.encode(bytes)}),
    }
}

fn spec(databases: &BTreeMap<String, String>) -> ToolSpec {
    let known = listed(databases.keys().map(String::as_str));
    ToolSpec {
        name: "query_db".into(),
        description: format!(
            "Runs one SELECT on a configured SQLite database and returns {{columns, rows, truncated}}, each row a list \
             in the order of columns. Reading only. Databases: {known}. `SELECT name, sql FROM sqlite_schema` shows \
             the tables."
        ),
        parameters: json!({
            "type": "object",
            "properties": {
                "database": {"type": "string", "description": format!("one of: {known}")},
                "sql": {"type": "string", "minLength": 1, "description": "one SELECT; put values in as ? or :name"},
                "parameters": {"type": ["array", "object"], "description": "a list for ?, an object for :name"},
                "limit": {"type": "integer", "minimum": 1, "maximum": ROWS_MAX, "description": "rows, 100 if left out"}
            },
            "required": ["database", "sql"],
            "additionalProperties": false
        }),
        effect: Effect::Read,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    fn tool(bench: &Bench) -> QueryDb {
        let file = bench.workspace().join("shop.db");
        let setup = Connection::open(&file).unwrap();
        setup.execute_batch("CREATE TABLE p(id INTEGER, name TEXT, price REAL, pic BLOB)").unwrap();
        setup.execute_batch("INSERT INTO p VALUES (1,'a',1.5,x'ff'),(2,'b',NULL,NULL)").unwrap();
        let other = bench.workspace().join("other.db");
        Connection::open(&other).unwrap().execute_batch("CREATE TABLE t(x)").unwrap();
        let file = file.to_str().unwrap();
        let pairs = [
            ("shop", file.to_owned()),
            ("url", format!("sqlite://{file}")),
            ("pg", "postgres://h/d".into()),
            ("gone", "/no/such.db".into()),
        ];
        QueryDb::new(pairs.into_iter().map(|(name, at)| (name.to_owned(), at)).collect())
    }

    #[tokio::test]
    async fn reads_rows() {
        let bench = Bench::new();
        let tool = tool(&bench);
        let query = |sql: &str| json!({"database": "shop", "sql": sql});
        let columns = json!(["id", "name", "price", "pic"]);
        let first = json!({"columns": columns, "rows": [[1, "a", 1.5, {"base64": "/w=="}]], "truncated": false});
        bench.check(&tool, query("SELECT * FROM p WHERE id = 1"), first).await;
        bench
            .check(
                &tool,
                json!({"database": "url", "sql": "SELECT name FROM p WHERE id = ?", "parameters": [2]}),
                json!({"columns": ["name"], "rows": [["b"]], "truncated": false}),
            )
            .await;
        bench
            .check(
                &tool,
                json!({"database": "shop", "sql": "SELECT name FROM p WHERE id = :id", "parameters": {"id": 2}}),
                json!({"columns": ["name"], "rows": [["b"]], "truncated": false}),
            )
            .await;
        bench
            .check(
                &tool,
                json!({"database": "shop", "sql": "SELECT id FROM p", "limit": 1}),
                json!({"columns": ["id"], "rows": [[1]], "truncated": true}),
            )
            .await;
        let endless =
            "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n+1 FROM c) SELECT hex(zeroblob(20000)) FROM c";
        let bounded = bench.call(&tool, query(endless)).await.unwrap();
        assert_eq!(bounded.value["truncated"], true);
        bench.call(&tool, query("PRAGMA table_info(p)")).await.unwrap();
    }

    #[tokio::test]
    async fn refuses_everything_else() {
        let bench = Bench::new();
        let tool = tool(&bench);
        let other = bench.workspace().join("other.db");
        for sql in [
            "DELETE FROM p",
            "INSERT INTO p VALUES (3,'c',1,NULL)",
            "CREATE TABLE x(y)",
            "CREATE TEMP TABLE x(y)",
            "PRAGMA query_only = 0",
            "PRAGMA journal_mode = DELETE",
            "BEGIN",
            "VACUUM INTO '/tmp/x.db'",
            "SELECT load_extension('/x.so')",
            &format!("ATTACH '{}' AS o", other.display()),
        ] {
            bench.check_fails(&tool, json!({"database": "shop", "sql": sql}), "only reading").await;
        }
        let fails = |database: &str, sql: &str, parameters: Value| json!({"database": database, "sql": sql, "parameters": parameters});
        bench.check_fails(&tool, fails("shop", "SELECT 1; SELECT 2", json!([])), "one SQL statement").await;
        bench.check_fails(&tool, fails("shop", "SELECT ?", json!([])), "1 parameters").await;
        bench.check_fails(&tool, fails("shop", "SELECT :a", json!({"b": 1})), "no value for `:a`").await;
        bench.check_fails(&tool, fails("shop", "SELEC", json!([])), "syntax error").await;
        bench.check_fails(&tool, fails("nope", "SELECT 1", json!([])), "configured: gone, pg, shop, url").await;
        bench.check_fails(&tool, fails("pg", "SELECT 1", json!([])), "SQLite files only").await;
        bench.check_fails(&tool, fails("gone", "SELECT 1", json!([])), "cannot be opened").await;
    }

    #[tokio::test]
    async fn a_dropped_query_is_interrupted() {
        let connection = Connection::open_in_memory().unwrap();
        let handle = InterruptOnDrop(connection.get_interrupt_handle());
        let (started, waiting) = tokio::sync::oneshot::channel();
        let work = tokio::task::spawn_blocking(move || {
            let started = std::sync::Mutex::new(Some(started));
            connection
                .create_scalar_function("tick", 0, rusqlite::functions::FunctionFlags::SQLITE_UTF8, move |_| {
                    started.lock().unwrap().take().map(|started| started.send(()));
                    Ok(1)
                })
                .unwrap();
            connection.query_row(
                "WITH RECURSIVE c(n) AS (SELECT tick() UNION ALL SELECT n+1 FROM c) SELECT max(n) FROM c",
                [],
                |row| row.get::<_, i64>(0),
            )
        });
        waiting.await.unwrap();
        drop(handle);
        assert!(work.await.unwrap().is_err());
    }
}
