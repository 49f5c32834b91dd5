-- Version 1. `events` and the JSON columns of `runs` are text, so that a person can read them.

-- With a rowid on purpose: entries of all runs fill the same last page, and only the small index entries are spread by
-- run. WITHOUT ROWID writes a page per run and commit: half as many appends a second with 64 runs at once.
CREATE TABLE entries (
    run BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, version INTEGER NOT NULL, events TEXT NOT NULL,
    PRIMARY KEY (run, seq)
);

CREATE TABLE runs (
    run BLOB NOT NULL PRIMARY KEY,
    workflow TEXT NOT NULL, plan TEXT NOT NULL, user TEXT NOT NULL, thread TEXT NOT NULL, parent BLOB,
    status TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER, wake_at INTEGER,
    awaits TEXT NOT NULL, usage TEXT NOT NULL, error TEXT,
    start_key TEXT, owner TEXT
) WITHOUT ROWID;

-- Pages: a filter on several statuses is one query per status, merged, so that no query sorts.
CREATE INDEX runs_status ON runs (status, started_at, run);
CREATE INDEX runs_user ON runs (user, status, started_at, run);
CREATE INDEX runs_workflow ON runs (workflow, status, started_at, run);
CREATE INDEX runs_thread ON runs (thread, started_at, run) WHERE thread <> '';
CREATE INDEX runs_parent ON runs (parent, started_at, run) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (status, ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX runs_start_key ON runs (user, start_key) WHERE start_key IS NOT NULL;
-- Claims: these hold only rows that may be taken, so a million waiting runs cost nothing.
CREATE INDEX runs_due ON runs (wake_at) WHERE status = 'waiting' AND wake_at IS NOT NULL;
CREATE INDEX runs_open ON runs (owner, started_at) WHERE status IN ('pending', 'running');
CREATE INDEX runs_held ON runs (owner) WHERE owner IS NOT NULL AND status IN ('pending', 'running', 'waiting');

-- One lease per owner, not per run: renewing a thousand runs is one row.
CREATE TABLE owners (owner TEXT NOT NULL PRIMARY KEY, lease_until INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE documents (
    kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (kind, owner, name, version)
);

CREATE TABLE blobs (hash TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE blob_uses (run BLOB NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (run, hash)) WITHOUT ROWID;
CREATE INDEX blob_uses_hash ON blob_uses (hash);
-- Blobs put lately: they stay although nobody refers to them yet.
CREATE TABLE fresh_blobs (hash TEXT NOT NULL PRIMARY KEY, put_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX fresh_blobs_put_at ON fresh_blobs (put_at);
