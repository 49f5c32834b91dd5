//! The views over a journal written by hand.

use relais_engine::{ErrorKind, Event, Failure, RunStatus, Summary};
use rusqlite::types::ValueRef;
use serde_json::{Value, json};

use super::*;
use crate::conformance::{batch, entry, new_run, run, summary};

fn plan() -> Document {
    let body = json!({
        "name": "report",
        "nodes": [
            {"key": "write", "op": {"call": {"task": {"agent": {"agent": "writer"}}}}, "region": 0, "kind": "agent"},
            {"key": "fetch", "op": {"call": {"task": {"tool": {"tool": "http.get", "with": {}}}}}, "region": 0, "kind": "tool"},
            {"key": "check", "op": {"choose": {"arms": [], "other": null}}, "region": 0, "kind": "if", "hidden": true},
            {"key": "send", "name": "Mailer", "op": {"call": {"task": {"tool": {"tool": "mail.send", "with": {}}}}}, "region": 0, "kind": "tool"},
        ],
        "agents": {"writer": {"models": ["sim/one"], "instructions": {"literal": "Write."}}},
    });
    let key = DocumentKey { kind: "plan".into(), owner: String::new(), name: "plan-hash".into() };
    Document { key, version: 1, at: 0, body }
}

/// One agent step with a tool call and a retry, one failed tool step, one hidden and one skipped step.
fn journal(run: RunId) -> Vec<Vec<Value>> {
    let budget = json!({});
    let opened = json!({"run": run, "workflow": "report", "plan": "plan-hash", "user": "ann",
        "input": {"value": {"topic": "tea"}}, "budget": budget});
    let model = |say: Value| json!({"call_model": {"model": "sim/one", "say": say, "reserve": {}}});
    let say = json!([{"role": "system", "text": "Write."}, {"role": "user", "text": "tea"}]);
    let reply = json!({"finish": "tool_calls", "model": "one-2026",
        "calls": [{"id": "c1", "tool": "web.search", "arguments": {"q": "tea"}}]});
    let search = json!({"call_tool": {"tool": "web.search", "arguments": {"q": "tea"}, "effect": "read"}});
    let get = json!({"call_tool": {"tool": "http.get", "arguments": {"url": "x"}, "effect": "read"}});
    let late = json!({"kind": "timeout", "message": "no answer in 5 s"});
    let asked =
        |id: u32, node: u32, command: Value| json!({"asked": {"id": id, "scope": 0, "node": node, "command": command}});
    let answered = |id: u32, answer: Value| json!({"answered": {"id": id, "answer": answer}});
    vec![
        vec![json!({"opened": opened})],
        vec![json!({"entered": {"scope": 0, "node": 0}}), asked(1, 0, model(say))],
        vec![
            answered(1, json!({"body": {"replied": reply}, "usage": {"prompt": 10, "completion": 2}, "ms": 7})),
            asked(2, 0, search),
        ],
        vec![
            answered(2, json!({"body": {"returned": {"value": {"value": ["green"]}}}, "ms": 3})),
            json!({"entered": {"scope": 0, "node": 0, "attempt": 1, "kept": true}}),
            asked(3, 0, model(json!([{"role": "user", "text": "again"}]))),
        ],
        vec![
            answered(
                3,
                json!({"body": {"replied": {"text": "Tea is good.", "finish": "stop"}}, "usage": {"prompt": 20, "completion": 5}}),
            ),
            json!({"left": {"scope": 0, "node": 0, "status": "completed", "output": {"value": {"text": "Tea is good."}}, "to": 2}}),
            json!({"entered": {"scope": 0, "node": 2}}),
            json!({"left": {"scope": 0, "node": 2, "status": "completed", "to": 1}}),
            json!({"entered": {"scope": 0, "node": 1}}),
            asked(4, 1, get),
        ],
        vec![
            answered(4, json!({"body": {"failed": late}, "ms": 5000})),
            json!({"left": {"scope": 0, "node": 1, "status": "failed", "error": late}}),
            json!({"left": {"scope": 0, "node": 3, "status": "skipped"}}),
            json!({"closed": {"status": "failed", "error": late}}),
        ],
    ]
}

async fn written(store: &SqliteStore, run: RunId) {
    store.put_document(plan()).await.unwrap();
    for (number, events) in journal(run).into_iter().enumerate() {
        let seq = number as u64 + 1;
        let events: Vec<Event> = serde_json::from_value(Value::Array(events)).unwrap();
        let entry = Entry { events, ..entry(seq) };
        if seq == 1 {
            let new = NewRun { entry, ..new_run(summary(run, RunStatus::Running)) };
            store.create(new).await.unwrap();
        } else {
            let error = Some(Failure::new(ErrorKind::Timeout, "no answer in 5 s"));
            let summary = Summary { error, ..summary(run, RunStatus::Failed) };
            store.append(Batch { entry: entry.into(), summary: Some(summary), ..batch(run, seq) }).await.unwrap();
        }
    }
}

/// As the surfaces put it together: when the run began (at 1 s), bits of the run, the position in its journal.
fn output_id(run: RunId, position: u64) -> String {
    let run = run.simple().to_string();
    format!("00000000-03e8-8{}-8000-{position:012x}", &run[29..])
}

/// Rows as JSON objects, columns named as in the view; text that is JSON stays text.
fn rows(db: &rusqlite::Connection, sql: &str) -> Vec<Value> {
    let mut statement = db.prepare(sql).unwrap();
    let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
    let row = |row: &rusqlite::Row<'_>| {
        let cell = |column: usize| match row.get_ref(column).unwrap() {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => json!(number),
            other => json!(other.as_str().unwrap()),
        };
        Ok(names.iter().cloned().enumerate().map(|(column, name)| (name, cell(column))).collect())
    };
    statement.query_map([], row).unwrap().map(Result::unwrap).collect()
}

#[tokio::test]
async fn views_tell_what_the_journal_tells() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relais.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let run = run();
    written(&store, run).await;
    let db = rusqlite::Connection::open(&path).unwrap();
    let cases = [
        (
            "SELECT run_id, workflow_id, user_id, thread_id, status, current_executor, total_executors, result, \
             final_output_ref, error_message, started_at, completed_at FROM workflow_runs",
            json!([{"run_id": run, "workflow_id": "report", "user_id": "ann", "thread_id": "", "status": "failed",
                "current_executor": 1, "total_executors": 3, "result": null, "final_output_ref": null,
                "error_message": "no answer in 5 s", "started_at": "1970-01-01T00:00:01.000Z",
                "completed_at": "1970-01-01T00:00:02.000Z"}]),
        ),
        (
            "SELECT executor_id, executor_name, model, tools_used, status, structured_output, total_tokens, \
             prompt_tokens, completion_tokens, duration_ms, error_message, retry_count FROM workflow_executor_runs \
             ORDER BY id",
            json!([
                {"executor_id": "write", "executor_name": "writer", "model": "sim/one", "tools_used": "[\"web.search\"]",
                    "status": "success", "structured_output": "{\"text\":\"Tea is good.\"}", "total_tokens": 37,
                    "prompt_tokens": 30, "completion_tokens": 7, "duration_ms": 3, "error_message": null, "retry_count": 1},
                {"executor_id": "fetch", "executor_name": "http.get", "model": null, "tools_used": "[\"http.get\"]",
                    "status": "failed", "structured_output": null, "total_tokens": 0, "prompt_tokens": 0,
                    "completion_tokens": 0, "duration_ms": 1, "error_message": "no answer in 5 s", "retry_count": 0},
                {"executor_id": "send", "executor_name": "Mailer", "model": null, "tools_used": "[]",
                    "status": "skipped", "structured_output": null, "total_tokens": null, "prompt_tokens": null,
                    "completion_tokens": null, "duration_ms": null, "error_message": null, "retry_count": 0},
            ]),
        ),
        (
            "SELECT t.tool_name, t.tool_input, t.tool_output, t.status, t.error_message, t.duration_ms, \
             e.executor_id FROM workflow_tool_calls t JOIN workflow_executor_runs e ON e.id = t.executor_run_id \
             ORDER BY t.id",
            json!([
                {"tool_name": "web.search", "tool_input": "{\"q\":\"tea\"}", "tool_output": "[\"green\"]",
                    "status": "success", "error_message": null, "duration_ms": 3, "executor_id": "write"},
                {"tool_name": "http.get", "tool_input": "{\"url\":\"x\"}", "tool_output": null, "status": "timeout",
                    "error_message": "no answer in 5 s", "duration_ms": 5000, "executor_id": "fetch"},
            ]),
        ),
        (
            "SELECT uuid, user_id, workflow_definition_uuid, status, trigger_output FROM workflow_instances",
            json!([{"uuid": run, "user_id": "ann", "workflow_definition_uuid": "report", "status": "failed",
                "trigger_output": json!({"uuid": output_id(run, 0), "raw_data": {"topic": "tea"},
                    "summary": "{\"topic\":\"tea\"}", "markdown_representation": null}).to_string()}]),
        ),
        (
            "SELECT workflow_instance_uuid, step_definition_uuid, status, output, error_message, \
             json_array_length(messages) AS messages, details ->> '$.messages[1].text' AS said, output_id \
             FROM workflow_step_instances ORDER BY uuid",
            json!([
                {"workflow_instance_uuid": run, "step_definition_uuid": "write", "status": "completed",
                    "output": json!({"uuid": output_id(run, 5_000_001), "raw_data": {"text": "Tea is good."},
                        "summary": "{\"text\":\"Tea is good.\"}", "markdown_representation": null}).to_string(),
                    "error_message": null, "messages": 5, "said": "tea", "output_id": output_id(run, 5_000_001)},
                {"workflow_instance_uuid": run, "step_definition_uuid": "fetch", "status": "failed", "output": null,
                    "error_message": "no answer in 5 s", "messages": 0, "said": null, "output_id": null},
                {"workflow_instance_uuid": run, "step_definition_uuid": "send", "status": "skipped", "output": null,
                    "error_message": null, "messages": 0, "said": null, "output_id": null},
            ]),
        ),
    ];
    for (sql, expected) in cases {
        assert_eq!(json!(rows(&db, sql)), expected, "{sql}");
    }
}

fn put(kind: &str, id: &str, label: &str, due_at: Option<Millis>, body: Value) -> Edit {
    let key = RecordKey { kind: kind.into(), owner: "ann".into(), id: id.into() };
    Edit::Put { key, label: label.into(), due_at, body, expect: crate::Expect::Any }
}

/// A workflow with all that belongs to one, and others with one schedule each or none.
fn kept_records() -> Vec<Edit> {
    let [workflow, step, trigger] = full_records();
    vec![
        put("workflow", "w1", "report", None, workflow),
        put("workflow", "w2", "", None, json!({"id": "w2", "name": "Bare", "definition": "a text"})),
        put("tally", "w1", "", None, json!({"total": 5, "successful": 3, "failed": 2})),
        put("step", "s1", "custom_llm", None, step),
        put("trigger", "t1", "w1", Some(9_000), trigger),
        put(
            "trigger",
            "t2",
            "w1",
            Some(8_000),
            json!({"uuid": "t2", "origin": "call", "said": "weekdays at 9",
            "on": {"on": {"cron": "0 9 * * MON-FRI"}}}),
        ),
        put(
            "trigger",
            "t4",
            "w1",
            None,
            json!({"uuid": "t4", "origin": "definition", "on": {"on": {"cron": "0 9 * * 1"}}}),
        ),
        put(
            "trigger",
            "t5",
            "w2",
            None,
            json!({"uuid": "t5", "origin": "call", "off": "its schedule was cancelled",
            "on": {"on": {"every": {"ms": 5}}}}),
        ),
        put("workflow", "w3", "", None, json!({"id": "w3", "name": "Once"})),
        put(
            "trigger",
            "t6",
            "w3",
            None,
            json!({"uuid": "t6", "origin": "call", "on": {"on": {"at": "9am"}}, "next_at": 5000}),
        ),
        put("workflow", "w4", "", None, json!({"id": "w4", "definition": {"cron_expression": "mondays at 9"}})),
        put(
            "trigger",
            "t7",
            "w4",
            None,
            json!({"uuid": "t7", "origin": "definition", "on": {"on": {"cron": "0 9 * * 1"}}}),
        ),
        put("trigger", "t3", "w1", None, json!({"uuid": "t3"})),
    ]
}

fn full_records() -> [Value; 3] {
    let workflow = json!({"id": "w1", "name": "Report", "alias": "report", "description": "Weekly", "status": "paused",
        "format": "chain", "version": 3, "plan": "hash", "trigger_uuid": "t1", "steps": ["s1"],
        "template_id": "t", "template_version": "1", "created_at": 1000, "updated_at": 2000, "thread_id": "chat",
        "manifest": {"hash": "h", "version": "2", "tools": ["web.search"]}, "definition": {"executors": [{"id": "a"}], "cron_expression": "mondays at 9"}});
    let step = json!({"uuid": "s1", "type": "custom_llm", "name": "Write", "description": "It writes",
        "details": {"model": "sim/one"}, "created_at": 1000, "updated_at": 2000});
    let trigger = json!({"uuid": "t1", "workflow_uuid": "w1", "type": "schedule", "filter_rules": {"a": 1},
        "initial_data_description": "The week", "created_at": 1000, "updated_at": 2000});
    [workflow, step, trigger]
}

fn kept_rows() -> [(&'static str, Value); 5] {
    [
        (
            "SELECT workflow_id, user_id, thread_id, name, description, executors, steps, status, is_active, \
             schedule_type, schedule_time, cron_expression, next_run_time, total_runs, successful_runs, failed_runs, \
             tool_manifest_hash, tool_manifest_json, tool_manifest_version, created_at, updated_at FROM workflows \
             WHERE uuid = 'w1'",
            json!([{"workflow_id": "w1", "user_id": "ann", "thread_id": "chat", "name": "Report",
                "description": "Weekly", "executors": "[{\"id\":\"a\"}]", "steps": "[\"s1\"]", "status": "paused",
                "is_active": 0, "schedule_type": "recurring", "schedule_time": null,
                "cron_expression": "weekdays at 9", "next_run_time": "1970-01-01T00:00:08.000Z", "total_runs": 5,
                "successful_runs": 3, "failed_runs": 2, "tool_manifest_hash": "h",
                "tool_manifest_json": "[\"web.search\"]", "tool_manifest_version": "2",
                "created_at": "1970-01-01T00:00:01.000Z", "updated_at": "1970-01-01T00:00:02.000Z"}]),
        ),
        (
            "SELECT id, schedule_type, schedule_time, cron_expression FROM workflows WHERE id <> 'w1' ORDER BY id",
            json!([
                {"id": "w2", "schedule_type": "immediate", "schedule_time": null, "cron_expression": null},
                {"id": "w3", "schedule_type": "scheduled", "schedule_time": "1970-01-01T00:00:05.000Z", "cron_expression": null},
                {"id": "w4", "schedule_type": "recurring", "schedule_time": null, "cron_expression": "mondays at 9"},
            ]),
        ),
        (
            "SELECT id, name, thread_id, executors, status, is_active, total_runs, next_run_time, created_at FROM workflows \
             WHERE id = 'w2'",
            json!([{"id": "w2", "name": "Bare", "thread_id": "", "executors": null, "status": "active", "is_active": 1,
                "total_runs": 0, "next_run_time": null, "created_at": null}]),
        ),
        (
            "SELECT * FROM workflow_steps",
            json!([{"uuid": "s1", "user_id": "ann", "name": "Write", "type": "custom_llm",
                "description": "It writes", "details": "{\"model\":\"sim/one\"}",
                "created_at": "1970-01-01T00:00:01.000Z", "updated_at": "1970-01-01T00:00:02.000Z"}]),
        ),
        (
            "SELECT uuid, user_id, workflow_uuid, filter_rules, initial_data_description, details ->> '$.type' AS type, \
             next_run_time, created_at FROM triggers WHERE uuid IN ('t1', 't3') ORDER BY uuid",
            json!([
                {"uuid": "t1", "user_id": "ann", "workflow_uuid": "w1", "filter_rules": "{\"a\":1}",
                    "initial_data_description": "The week", "type": "schedule",
                    "next_run_time": "1970-01-01T00:00:09.000Z", "created_at": "1970-01-01T00:00:01.000Z"},
                {"uuid": "t3", "user_id": "ann", "workflow_uuid": "w1", "filter_rules": "{}",
                    "initial_data_description": null, "type": null, "next_run_time": null, "created_at": null},
            ]),
        ),
    ]
}

// keeps A-26, B-36
#[tokio::test]
async fn views_tell_what_records_tell() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relais.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    store.change(kept_records(), 1).await.unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    for (sql, expected) in kept_rows() {
        assert_eq!(json!(rows(&db, sql)), expected, "{sql}");
    }
}

#[tokio::test]
async fn a_run_of_a_kept_workflow_has_its_id() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relais.db");
    let store = SqliteStore::open(&path, Options::default()).unwrap();
    let mut kept = summary(run(), RunStatus::Completed);
    kept.target.workflow = "w1".into();
    store.create(new_run(kept)).await.unwrap();
    let db = rusqlite::Connection::open(&path).unwrap();
    let sql = "SELECT r.workflow_id, i.workflow_definition_uuid FROM workflow_runs r, workflow_instances i";
    assert_eq!(json!(rows(&db, sql)), json!([{"workflow_id": "w1", "workflow_definition_uuid": "w1"}]));
}

/// The columns that the older designs document, each there under its name.
#[test]
fn columns_are_named_as_documented() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("relais.db");
    drop(SqliteStore::open(&path, Options::default()).unwrap());
    let db = rusqlite::Connection::open(&path).unwrap();
    for columns in [
        "id, run_id, workflow_id, user_id, thread_id, status, current_executor, total_executors, result, \
         final_output_ref, final_output_summary, error_message, started_at, completed_at, created_at FROM workflow_runs",
        "id, run_id, workflow_run_id, executor_id, executor_name, input_data, input_ref, input_summary, model, tools_used, \
         status, structured_output, structured_output_ref, structured_output_summary, total_tokens, prompt_tokens, \
         completion_tokens, duration_ms, error_message, retry_count, started_at, completed_at FROM workflow_executor_runs",
        "id, executor_run_id, tool_name, tool_input, tool_input_ref, tool_output, tool_output_ref, status, error_message, \
         duration_ms, started_at, completed_at FROM workflow_tool_calls",
        "uuid, user_id, workflow_definition_uuid, status, trigger_output, created_at, updated_at FROM workflow_instances",
        "uuid, user_id, workflow_instance_uuid, step_definition_uuid, status, started_at, finished_at, output_id, output, \
         details, error_message, created_at, messages, input_data FROM workflow_step_instances",
        "id, workflow_id, user_id, thread_id, name, description, executors, schedule_type, schedule_time, cron_expression, \
         next_run_time, status, total_runs, successful_runs, failed_runs, tool_manifest_hash, tool_manifest_json, \
         tool_manifest_version, uuid, is_active, trigger_uuid, steps, template_id, template_version, created_at, \
         updated_at FROM workflows",
        "uuid, user_id, name, type, description, details, created_at, updated_at FROM workflow_steps",
        "uuid, user_id, workflow_uuid, details, filter_rules, initial_data_description, created_at, updated_at FROM triggers",
    ] {
        db.prepare(&format!("SELECT {columns}")).unwrap();
    }
}
