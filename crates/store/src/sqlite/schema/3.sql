-- Version 3: tags and kinds of errors.

-- What runs are found by besides: their tags, and the kind of their error. A run that has none has no row. The columns
-- before the time are those that every page is asked for by, so that a page is a walk of its own length.
CREATE TABLE run_marks (
    user TEXT NOT NULL, mark TEXT NOT NULL, status TEXT NOT NULL, root INTEGER NOT NULL, started_at INTEGER NOT NULL,
    run BLOB NOT NULL,
    PRIMARY KEY (user, mark, status, root, started_at, run)
) WITHOUT ROWID;
CREATE INDEX run_marks_run ON run_marks (run, mark);
INSERT INTO run_marks (user, mark, status, root, started_at, run)
    SELECT user, 'error:' || (error ->> '$.kind'), status, root, started_at, run FROM runs
    WHERE error ->> '$.kind' IS NOT NULL;
