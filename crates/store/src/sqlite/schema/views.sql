-- For people who read the database: views with the column names of two older designs. No surface of the program uses
-- them. They look into events, which the store itself never does, and are meant to be right rather than fast. What
-- the journal does not know is NULL. Times are UTC, ids of step rows are `run/position in the journal`.

CREATE VIEW journal_events AS
SELECT lower(substr(hex(e.run), 1, 8) || '-' || substr(hex(e.run), 9, 4) || '-' || substr(hex(e.run), 13, 4) || '-'
        || substr(hex(e.run), 17, 4) || '-' || substr(hex(e.run), 21)) || '/' || (e.seq * 1000000 + j.key) AS row_id,
    e.run AS run, e.seq * 1000000 + j.key AS position, e.at AS at, k.key AS event, k.value AS body
FROM entries e, json_each(e.events) j, json_each(CASE WHEN j.type = 'object' THEN j.value ELSE '{}' END) k;

CREATE VIEW journal_runs AS
SELECT r.*,
    -- How the ids of its outputs begin: when it began, and some bits of the run. The position in the journal follows.
    substr(printf('%012x', r.started_at), 1, 8) || '-' || substr(printf('%012x', r.started_at), 9) || '-8'
        || lower(substr(hex(r.run), 30)) || '-' AS output_prefix,
    lower(substr(hex(r.run), 1, 8) || '-' || substr(hex(r.run), 9, 4) || '-' || substr(hex(r.run), 13, 4) || '-'
        || substr(hex(r.run), 17, 4) || '-' || substr(hex(r.run), 21)) AS run_id,
    (SELECT d.body FROM documents d WHERE d.kind = 'plan' AND d.owner = '' AND d.name = r.plan
        ORDER BY d.version DESC LIMIT 1) AS plan_body,
    (SELECT v.body FROM journal_events v WHERE v.run = r.run AND v.event = 'opened' ORDER BY v.position LIMIT 1) AS opened,
    (SELECT v.body FROM journal_events v WHERE v.run = r.run AND v.event = 'closed'
        ORDER BY v.position DESC LIMIT 1) AS closed,
    (SELECT max(e.at) FROM entries e WHERE e.run = r.run) AS changed_at
FROM runs r;

-- One row each time a step is begun; retries belong to the visit. A step that was skipped was never entered.
CREATE VIEW journal_visits AS
WITH openings AS (
    SELECT run, position, at, body ->> '$.scope' AS scope, body ->> '$.node' AS node, event
    FROM journal_events WHERE event = 'entered' AND coalesce(body ->> '$.attempt', 0) = 0
    UNION ALL
    SELECT l.run, l.position, l.at, l.body ->> '$.scope', l.body ->> '$.node', l.event
    FROM journal_events l
    WHERE l.event = 'left' AND l.body ->> '$.status' = 'skipped' AND NOT EXISTS (
        SELECT 1 FROM journal_events n WHERE n.run = l.run AND n.event = 'entered' AND n.position < l.position
            AND n.body ->> '$.scope' = l.body ->> '$.scope' AND n.body ->> '$.node' = l.body ->> '$.node')
), spans AS (
    SELECT *, lead(position, 1, 9223372036854775807)
        OVER (PARTITION BY run, scope, node ORDER BY position) AS until
    FROM openings
), tries AS (
    SELECT s.*,
        (SELECT count(*) FROM journal_events n WHERE n.run = s.run AND n.event = 'entered'
            AND n.position > s.position AND n.position < s.until
            AND n.body ->> '$.scope' = s.scope AND n.body ->> '$.node' = s.node) AS retries,
        (SELECT max(n.position) FROM journal_events n WHERE n.run = s.run AND n.event = 'entered'
            AND n.position >= s.position AND n.position < s.until
            AND n.body ->> '$.scope' = s.scope AND n.body ->> '$.node' = s.node) AS last_try
    FROM spans s
)
SELECT t.run, t.position, t.until, t.scope, t.node, t.retries, l.position AS left_position,
    CASE WHEN t.event = 'entered' THEN t.at END AS started_at, t.at AS seen_at, l.at AS ended_at, l.body AS outcome
FROM tries t LEFT JOIN journal_events l ON l.run = t.run AND l.position = (
    SELECT max(n.position) FROM journal_events n WHERE n.run = t.run AND n.event = 'left'
        AND n.position >= coalesce(t.last_try, t.position) AND n.position < t.until
        AND n.body ->> '$.scope' = t.scope AND n.body ->> '$.node' = t.node);

CREATE VIEW journal_commands AS
SELECT a.run AS run, a.position AS position, a.body ->> '$.id' AS id, a.body ->> '$.scope' AS scope,
    a.body ->> '$.node' AS node, a.at AS asked_at, a.body -> '$.command' AS command,
    b.at AS answered_at, b.position AS answer_position, b.body -> '$.answer' AS answer
FROM journal_events a LEFT JOIN journal_events b
    ON b.run = a.run AND b.event = 'answered' AND b.body ->> '$.id' = a.body ->> '$.id'
WHERE a.event = 'asked';

-- What was said in a visit, by both sides, in order.
CREATE VIEW journal_messages AS
SELECT c.run AS run, c.scope AS scope, c.node AS node, c.position AS asked, c.position AS position, s.key AS place,
    s.value AS message
FROM journal_commands c, json_each(c.command, '$.call_model.say') s
UNION ALL
SELECT c.run, c.scope, c.node, c.position, c.answer_position, 0, json_object('role', 'assistant',
    'text', coalesce(c.answer ->> '$.body.replied.text', ''),
    'calls', json(coalesce(c.answer -> '$.body.replied.calls', '[]')))
FROM journal_commands c WHERE c.answer -> '$.body.replied' IS NOT NULL;

-- Values that are kept apart, by their hashes.
CREATE VIEW journal_values AS SELECT hash, CAST(body AS TEXT) AS value FROM blobs;

-- How often a model was told what is wrong with its answer: what is said to it after the first time that it was asked in
-- an attempt, and is no result of a tool.
CREATE VIEW journal_corrections AS
SELECT c.run AS run, c.scope AS scope, c.node AS node, c.position AS position FROM journal_commands c
WHERE EXISTS (SELECT 1 FROM json_each(c.command, '$.call_model.say') m WHERE m.value ->> '$.role' IN ('user', 'tool'))
    AND EXISTS (SELECT 1 FROM journal_events p WHERE p.run = c.run AND p.event = 'asked' AND p.position < c.position
        AND p.body ->> '$.scope' = c.scope AND p.body ->> '$.node' = c.node
        AND p.body -> '$.command.call_model' IS NOT NULL
        AND p.position > (SELECT max(n.position) FROM journal_events n WHERE n.run = c.run AND n.event = 'entered'
            AND n.position < c.position AND n.body ->> '$.scope' = c.scope AND n.body ->> '$.node' = c.node));

-- Visits with what the plan says about the step and what its commands took.
CREATE VIEW journal_steps AS
SELECT r.run_id || '/' || v.position AS id, r.run_id, r.user, v.*,
    coalesce(json_extract(r.plan_body, '$.nodes[' || v.node || '].key'), 'node ' || v.node) AS step,
    json_extract(r.plan_body, '$.nodes[' || v.node || '].op') AS op,
    json_extract(r.plan_body, '$.nodes[' || v.node || '].op.call.task') AS task,
    json_extract(r.plan_body, '$.nodes[' || v.node || '].name') AS called,
    r.plan_body, r.opened,
    v.outcome ->> '$.status' AS status,
    v.outcome -> '$.output.value' AS output_value,
    v.outcome -> '$.output.blob' AS output_blob,
    CASE WHEN v.outcome ->> '$.status' = 'completed' THEN r.output_prefix
        || printf('8%03x-%012x', v.left_position >> 48, v.left_position & 281474976710655) END AS output_id,
    v.outcome ->> '$.error.message' AS error_message,
    v.retries + (SELECT count(*) FROM journal_corrections c WHERE c.run = v.run AND c.scope = v.scope
        AND c.node = v.node AND c.position > v.position AND c.position < v.until) AS retry_count,
    (SELECT coalesce(c.command -> '$.call_model.say', c.command -> '$.call_tool.arguments',
            c.command -> '$.start_run.input.value', c.command -> '$.start_run.input.blob')
        FROM journal_commands c WHERE c.run = v.run AND c.scope = v.scope AND c.node = v.node
        AND c.position > v.position AND c.position < v.until ORDER BY c.position LIMIT 1) AS input,
    (SELECT c.position FROM journal_commands c WHERE c.run = v.run AND c.scope = v.scope AND c.node = v.node
        AND c.position > v.position AND c.position < v.until ORDER BY c.position LIMIT 1) AS input_position,
    (SELECT json_group_array(tool) FROM (
        SELECT DISTINCT c.command ->> '$.call_tool.tool' AS tool FROM journal_commands c
        WHERE c.run = v.run AND c.scope = v.scope AND c.node = v.node AND c.position > v.position
        AND c.position < v.until AND c.command -> '$.call_tool' IS NOT NULL)) AS tools,
    -- Ordered inside: an ORDER BY in the aggregate would keep SQLite before 3.44 from opening the file at all.
    (SELECT json_group_array(json(message)) FROM (
        SELECT m.message AS message FROM journal_messages m
        WHERE m.run = v.run AND m.scope = v.scope AND m.node = v.node AND m.asked > v.position
        AND m.asked < v.until ORDER BY m.position, m.place)) AS messages,
    (SELECT coalesce(nullif(c.answer ->> '$.body.replied.model', ''), nullif(c.command ->> '$.call_model.model', ''))
        FROM journal_commands c WHERE c.run = v.run AND c.scope = v.scope AND c.node = v.node
        AND c.position > v.position AND c.position < v.until AND c.command -> '$.call_model' IS NOT NULL
        ORDER BY c.position DESC LIMIT 1) AS model,
    (SELECT sum(coalesce(c.answer ->> '$.usage.prompt', 0)) FROM journal_commands c
        WHERE c.run = v.run AND c.scope = v.scope AND c.node = v.node AND c.position > v.position
        AND c.position < v.until) AS prompt_tokens,
    (SELECT sum(coalesce(c.answer ->> '$.usage.completion', 0)) FROM journal_commands c
        WHERE c.run = v.run AND c.scope = v.scope AND c.node = v.node AND c.position > v.position
        AND c.position < v.until) AS completion_tokens
FROM journal_visits v JOIN journal_runs r ON r.run = v.run
WHERE NOT coalesce(json_extract(r.plan_body, '$.nodes[' || v.node || '].hidden'), 0);

CREATE VIEW workflow_runs AS
SELECT run_id AS id, run_id, coalesce(nullif(workflow_id, ''), workflow) AS workflow_id, user AS user_id, thread AS thread_id,
    CASE status WHEN 'waiting' THEN 'running' WHEN 'stopped' THEN 'completed' ELSE status END AS status,
    (SELECT count(*) FROM journal_steps s WHERE s.run = journal_runs.run AND s.task IS NOT NULL
        AND s.status = 'completed') AS current_executor,
    (SELECT count(*) FROM json_each(plan_body, '$.nodes') n WHERE n.value -> '$.op.call' IS NOT NULL
        AND NOT coalesce(n.value ->> '$.hidden', 0)) AS total_executors,
    closed -> '$.output.value' AS result,
    CASE WHEN closed -> '$.output.blob' IS NOT NULL
        THEN json_object('type', 'db', 'table', 'blobs', 'row_id', closed ->> '$.output.blob.hash')
        END AS final_output_ref,
    coalesce(closed ->> '$.output.blob.summary', substr(closed -> '$.output.value', 1, 200)) AS final_output_summary,
    error ->> '$.message' AS error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000.0, 'unixepoch') AS completed_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS created_at
FROM journal_runs;

CREATE VIEW workflow_executor_runs AS
SELECT id, run_id, run_id AS workflow_run_id, step AS executor_id,
    coalesce(called, task ->> '$.agent.agent', task ->> '$.tool.tool', task ->> '$.workflow.workflow', step) AS executor_name,
    CASE WHEN length(input) <= 65536 THEN input END AS input_data,
    CASE WHEN length(input) > 65536
        THEN json_object('type', 'db', 'table', 'journal_events', 'row_id', run_id || '/' || input_position)
        END AS input_ref,
    substr(input, 1, 200) AS input_summary,
    coalesce(model, opened ->> '$.mode.model',
        (SELECT a.value ->> '$.models[0]' FROM json_each(plan_body, '$.agents') a
            WHERE a.key = task ->> '$.agent.agent')) AS model,
    tools AS tools_used,
    CASE status WHEN 'completed' THEN 'success' WHEN 'skipped' THEN 'skipped' WHEN 'failed' THEN 'failed'
        WHEN 'cancelled' THEN 'failed' END AS status,
    output_value AS structured_output,
    CASE WHEN output_blob IS NOT NULL
        THEN json_object('type', 'db', 'table', 'blobs', 'row_id', output_blob ->> '$.hash')
        END AS structured_output_ref,
    coalesce(output_blob ->> '$.summary', substr(output_value, 1, 200)) AS structured_output_summary,
    prompt_tokens + completion_tokens AS total_tokens, prompt_tokens, completion_tokens,
    ended_at - started_at AS duration_ms, error_message, retry_count,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000.0, 'unixepoch') AS completed_at
FROM journal_steps WHERE task IS NOT NULL OR plan_body IS NULL;

CREATE VIEW workflow_tool_calls AS
SELECT r.run_id || '/' || c.position AS id,
    (SELECT r.run_id || '/' || max(v.position) FROM journal_visits v WHERE v.run = c.run AND v.scope = c.scope
        AND v.node = c.node AND v.position < c.position) AS executor_run_id,
    r.run_id, c.command ->> '$.call_tool.tool' AS tool_name,
    CASE WHEN length(c.command -> '$.call_tool.arguments') <= 65536 THEN c.command -> '$.call_tool.arguments' END
        AS tool_input,
    CASE WHEN length(c.command -> '$.call_tool.arguments') > 65536
        THEN json_object('type', 'db', 'table', 'journal_events', 'row_id', r.run_id || '/' || c.position)
        END AS tool_input_ref,
    c.answer -> '$.body.returned.value.value' AS tool_output,
    CASE WHEN c.answer -> '$.body.returned.value.blob' IS NOT NULL
        THEN json_object('type', 'db', 'table', 'blobs', 'row_id', c.answer ->> '$.body.returned.value.blob.hash')
        END AS tool_output_ref,
    CASE WHEN c.answer IS NULL THEN NULL WHEN c.answer -> '$.body.returned' IS NOT NULL THEN 'success'
        WHEN c.answer ->> '$.body.failed.kind' = 'timeout' THEN 'timeout' ELSE 'failed' END AS status,
    c.answer ->> '$.body.failed.message' AS error_message,
    CASE WHEN c.answer IS NOT NULL THEN coalesce(c.answer ->> '$.ms', 0) END AS duration_ms,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.asked_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', c.answered_at / 1000.0, 'unixepoch') AS completed_at
FROM journal_commands c JOIN journal_runs r ON r.run = c.run WHERE c.command -> '$.call_tool' IS NOT NULL;

CREATE VIEW workflow_instances AS
SELECT run_id AS uuid, user AS user_id, coalesce(nullif(workflow_id, ''), workflow) AS workflow_definition_uuid,
    CASE status WHEN 'pending' THEN 'running' WHEN 'waiting' THEN 'running' WHEN 'cancelled' THEN 'failed'
        WHEN 'partial_success' THEN 'failed' ELSE status END AS status,
    json_object('uuid', output_prefix || '8000-000000000000',
        'raw_data', json(coalesce(opened -> '$.input.value',
            (SELECT b.value FROM journal_values b WHERE b.hash = opened ->> '$.input.blob.hash'))),
        'summary', coalesce(opened ->> '$.input.blob.summary', substr(opened ->> '$.input.value', 1, 200)),
        'markdown_representation', CASE json_type(opened, '$.input.value') WHEN 'text' THEN opened ->> '$.input.value'
            ELSE opened ->> '$.input.value.markdown' END) AS trigger_output,
    coalesce(error ->> '$.message', CASE status WHEN 'cancelled' THEN 'the run was cancelled' END) AS error_message,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000.0, 'unixepoch') AS finished_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', changed_at / 1000.0, 'unixepoch') AS updated_at
FROM journal_runs;

CREATE VIEW workflow_step_instances AS
SELECT id AS uuid, user AS user_id, run_id AS workflow_instance_uuid, step AS step_definition_uuid,
    CASE WHEN status IS NULL THEN 'running' WHEN status = 'cancelled' THEN 'failed' ELSE status END AS status,
    strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS started_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000.0, 'unixepoch') AS finished_at,
    error_message, messages, input AS input_data, CASE WHEN output_value IS NOT NULL OR output_blob IS NOT NULL
        THEN output_id END AS output_id,
    CASE WHEN output_id IS NOT NULL AND (output_value IS NOT NULL OR output_blob IS NOT NULL)
        THEN json_object('uuid', output_id,
        'raw_data', json(coalesce(output_value,
            (SELECT b.value FROM journal_values b WHERE b.hash = output_blob ->> '$.hash'))),
        'summary', coalesce(output_blob ->> '$.summary', substr(output_value ->> '$', 1, 200)),
        'markdown_representation', CASE json_type(output_value) WHEN 'text' THEN output_value ->> '$'
            ELSE output_value ->> '$.markdown' END) END AS output,
    json_object('messages', json(messages), 'error_message', error_message, 'input_data', json(input)) AS details,
    strftime('%Y-%m-%dT%H:%M:%fZ', seen_at / 1000.0, 'unixepoch') AS created_at
FROM journal_steps;

-- When a workflow runs by itself: the trigger that says so, one that a call set before those of the definition. One that
-- was cancelled says nothing any more.
CREATE VIEW journal_schedules AS
SELECT w.id AS workflow, w.owner AS owner, (
    SELECT t.body FROM records t WHERE t.kind = 'trigger' AND t.label = w.id AND t.owner = w.owner
        AND coalesce(t.body ->> '$.off', '') <> 'its schedule was cancelled'
        AND coalesce(t.body -> '$.on.on.at', t.body -> '$.on.on.cron', t.body -> '$.on.on.every',
            t.body -> '$.on.on.calendar', t.body -> '$.on.on.continuous') IS NOT NULL
        ORDER BY t.body ->> '$.origin' = 'call' DESC, t.id DESC LIMIT 1) AS body
FROM records w WHERE w.kind = 'workflow';

-- Runs that have ended and that nobody has counted yet: where no server is at work, that is done by whoever asks next.
CREATE VIEW journal_uncounted AS
SELECT run, user, workflow_id, status FROM runs WHERE unreported = 1 AND reported = 0 AND root = 1;

-- Records: `id` and `uuid` are the record's id, `user_id` its owner. A workflow's counters are records of their own.
CREATE VIEW workflows AS
SELECT w.id AS id, w.id AS workflow_id, w.id AS uuid, w.owner AS user_id,
    coalesce(w.body ->> '$.thread_id', '') AS thread_id, w.body ->> '$.name' AS name, w.body ->> '$.alias' AS alias,
    w.body ->> '$.description' AS description, w.body ->> '$.format' AS format, w.body ->> '$.version' AS version,
    w.body ->> '$.plan' AS plan,
    coalesce(w.body -> '$.definition.executors', w.body -> '$.steps') AS executors, w.body -> '$.steps' AS steps,
    w.body ->> '$.trigger_uuid' AS trigger_uuid, coalesce(w.body ->> '$.status', 'active') = 'active' AS is_active,
    w.body ->> '$.template_id' AS template_id, w.body ->> '$.template_version' AS template_version,
    w.body ->> '$.manifest.hash' AS tool_manifest_hash, w.body -> '$.manifest.tools' AS tool_manifest_json,
    w.body ->> '$.manifest.version' AS tool_manifest_version,
    CASE WHEN s.body IS NULL THEN 'immediate' WHEN s.body -> '$.on.on.at' IS NOT NULL THEN 'scheduled' ELSE 'recurring' END
        AS schedule_type,
    CASE WHEN s.body -> '$.on.on.at' IS NOT NULL THEN strftime('%Y-%m-%dT%H:%M:%fZ',
        coalesce(s.body ->> '$.next_at', s.body ->> '$.last_tick') / 1000.0, 'unixepoch') END AS schedule_time,
    CASE WHEN s.body -> '$.on.on.at' IS NULL THEN coalesce(s.body ->> '$.said',
        CASE s.body ->> '$.origin' WHEN 'definition' THEN w.body ->> '$.definition.cron_expression' END,
        s.body ->> '$.on.on.cron', s.body ->> '$.on.on.calendar') END AS cron_expression,
    strftime('%Y-%m-%dT%H:%M:%fZ', (SELECT min(t.due_at) FROM records t WHERE t.kind = 'trigger' AND t.label = w.id)
        / 1000.0, 'unixepoch') AS next_run_time,
    coalesce(w.body ->> '$.status', 'active') AS status,
    coalesce(c.body ->> '$.total', 0) + (SELECT count(*) FROM journal_uncounted u
        WHERE u.workflow_id = w.id AND u.user = w.owner) AS total_runs,
    coalesce(c.body ->> '$.successful', 0) + (SELECT count(*) FROM journal_uncounted u
        WHERE u.workflow_id = w.id AND u.user = w.owner AND u.status IN ('completed', 'stopped')) AS successful_runs,
    coalesce(c.body ->> '$.failed', 0) + (SELECT count(*) FROM journal_uncounted u
        WHERE u.workflow_id = w.id AND u.user = w.owner AND u.status IN ('failed', 'partial_success')) AS failed_runs,
    strftime('%Y-%m-%dT%H:%M:%fZ', (w.body ->> '$.created_at') / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', (w.body ->> '$.updated_at') / 1000.0, 'unixepoch') AS updated_at
FROM records w JOIN journal_schedules s ON s.workflow = w.id AND s.owner = w.owner
    LEFT JOIN records c ON c.kind = 'tally' AND c.id = w.id AND c.owner = w.owner
WHERE w.kind = 'workflow';

CREATE VIEW workflow_steps AS
SELECT s.id AS uuid, s.owner AS user_id, s.body ->> '$.name' AS name, s.body ->> '$.type' AS type,
    s.body ->> '$.description' AS description, s.body -> '$.details' AS details,
    strftime('%Y-%m-%dT%H:%M:%fZ', (s.body ->> '$.created_at') / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', (s.body ->> '$.updated_at') / 1000.0, 'unixepoch') AS updated_at
FROM records s WHERE s.kind = 'step';

CREATE VIEW triggers AS
SELECT t.id AS uuid, t.owner AS user_id, coalesce(t.body ->> '$.workflow_uuid', t.label) AS workflow_uuid,
    t.body ->> '$.type' AS type, coalesce(t.body -> '$.filter_rules', '{}') AS filter_rules,
    t.body ->> '$.initial_data_description' AS initial_data_description,
    json_object('type', t.body ->> '$.type', 'filter_rules', json(coalesce(t.body -> '$.filter_rules', '{}')),
        'initial_data_description', t.body ->> '$.initial_data_description') AS details,
    strftime('%Y-%m-%dT%H:%M:%fZ', t.due_at / 1000.0, 'unixepoch') AS next_run_time,
    strftime('%Y-%m-%dT%H:%M:%fZ', (t.body ->> '$.created_at') / 1000.0, 'unixepoch') AS created_at,
    strftime('%Y-%m-%dT%H:%M:%fZ', (t.body ->> '$.updated_at') / 1000.0, 'unixepoch') AS updated_at
FROM records t WHERE t.kind = 'trigger';
