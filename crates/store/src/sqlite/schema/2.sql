-- Version 2: which kept workflow a run is of, the outbox of ended runs, and records.

ALTER TABLE runs ADD COLUMN workflow_id TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN target TEXT NOT NULL DEFAULT '{}';
-- 1 from the end of a run until somebody has taken note of it. Runs from before this version count as noted.
ALTER TABLE runs ADD COLUMN unreported INTEGER NOT NULL DEFAULT 0;
-- Number of the last entry that was taken note of: a run that ends again is not counted twice.
ALTER TABLE runs ADD COLUMN reported INTEGER NOT NULL DEFAULT 0;
-- Whether there is no parent. Not a generated column: SQLite would read the row for it although an index has it.
ALTER TABLE runs ADD COLUMN root INTEGER NOT NULL DEFAULT 1;
UPDATE runs SET root = 0 WHERE parent IS NOT NULL;

-- Pages: surfaces show a user what is the user's. So what is asked for often has an index that begins with the user and
-- has status and root before the time: a page is a walk of its own length for each of their sixteen combinations, however
-- few runs remain. The columns after `run` let what is left of a filter be decided inside the index. Every index with a
-- status is written at each turn of a run, so there are no more than these.
DROP INDEX runs_status;
DROP INDEX runs_user;
DROP INDEX runs_workflow;
DROP INDEX runs_thread;
CREATE INDEX runs_status ON runs (status, root, started_at, run);
CREATE INDEX runs_user ON runs (user, status, root, started_at, run, workflow);
CREATE INDEX runs_user_workflow ON runs (user, workflow_id, status, root, started_at, run, workflow)
    WHERE workflow_id <> '';
CREATE INDEX runs_user_thread ON runs (user, thread, status, root, started_at, run, workflow_id, workflow)
    WHERE thread <> '';
CREATE INDEX runs_unreported ON runs (ended_at, run) WHERE unreported = 1;

-- What runs wait for among events, so that an event finds those that it concerns. A run that waits for none has no row.
CREATE TABLE awaited_events (
    user TEXT NOT NULL, event TEXT NOT NULL, run BLOB NOT NULL,
    PRIMARY KEY (user, event, run)
) WITHOUT ROWID;
CREATE INDEX awaited_events_run ON awaited_events (run);
INSERT INTO awaited_events (user, event, run)
    SELECT DISTINCT r.user, substr(a.value, length('event:') + 1), r.run FROM runs AS r, json_each(r.awaits) AS a
    WHERE r.status = 'waiting' AND a.value LIKE 'event:%';

-- With a rowid: bodies may be large, and a walk along an index should not step over them.
CREATE TABLE records (
    kind TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, label TEXT NOT NULL, due_at INTEGER,
    revision INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (kind, owner, id)
);
CREATE INDEX records_id ON records (kind, id, owner);
CREATE INDEX records_label ON records (kind, label, id, owner);
CREATE INDEX records_owner_label ON records (kind, owner, label, id);
CREATE INDEX records_due ON records (kind, due_at, id, owner, label) WHERE due_at IS NOT NULL;

-- What the program notes about the file itself.
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
