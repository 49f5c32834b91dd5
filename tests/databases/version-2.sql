-- A database as the program made it when its tables had version 2: a run that waits for a person, one that waits for an
-- event, and one that has ended. Made by `relais run` and written down by `sqlite3 .dump`; the views are left out, since
-- every program makes its own.
BEGIN TRANSACTION;
CREATE TABLE entries (
    run BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, version INTEGER NOT NULL, events TEXT NOT NULL,
    PRIMARY KEY (run, seq)
);
INSERT INTO entries VALUES(X'01a1e50ff0cb7180afed8ecbde6cb2df',1,1794844389579,1,'[{"opened":{"run":"01a1e50f-f0cb-7180-afed-8ecbde6cb2df","workflow":"ask","plan":"f5e4e4ed4eb2479f7028b51b772d4cf4c2880eb63186bc0fca30bbf08051a9f4","input":{"value":{}},"trigger":{"type":"manual"},"user":"local","budget":{"model_calls":1000},"manifest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","target":{"workflow":"8b51acd9-1aa4-5236-864d-d0cb01f22c53","version":1}}}]');
INSERT INTO entries VALUES(X'01a1e50ff0cb7180afed8ecbde6cb2df',2,1794844389581,1,'[{"entered":{"scope":0,"node":0}},{"left":{"scope":0,"node":0,"status":"completed","output":{"value":{"greeting":"hello"}},"vars":{"greeting":"hello"},"to":1}},{"entered":{"scope":0,"node":1}},{"asked":{"id":1,"scope":0,"node":1,"command":{"ask_person":{"question":"Shall it go on?","answer":{"type":"string"}}}}}]');
INSERT INTO entries VALUES(X'01a1e50ff0e975a5bcf93dc00e2f47fd',1,1794844389609,1,'[{"opened":{"run":"01a1e50f-f0e9-75a5-bcf9-3dc00e2f47fd","workflow":"quick","plan":"ac147e7890bd2bb1d9bd4481e579cd3d9e4eb86ac49ff9086a35d6ac000ee68c","input":{"value":{}},"trigger":{"type":"manual"},"user":"local","budget":{"model_calls":1000},"manifest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","target":{"workflow":"0387b25e-59d7-58b6-b7d2-a103a7baaee4","version":1}}}]');
INSERT INTO entries VALUES(X'01a1e50ff0e975a5bcf93dc00e2f47fd',2,1794844389615,1,'[{"entered":{"scope":0,"node":0}},{"left":{"scope":0,"node":0,"status":"completed","output":{"value":{"x":1}},"vars":{"x":1},"to":1}},{"entered":{"scope":0,"node":1}},{"asked":{"id":1,"scope":0,"node":1,"command":{"await":{"event":"order.paid"}}}}]');
INSERT INTO entries VALUES(X'01a1e50ff111775b97afab7ae8c653d1',1,1794844389649,1,'[{"opened":{"run":"01a1e50f-f111-775b-97af-ab7ae8c653d1","workflow":"done","plan":"0cbd467f3c1b4982f1b6c802d5b28ad12bcfa554db5bd3815299c00faada0388","input":{"value":{}},"trigger":{"type":"manual"},"user":"local","budget":{"model_calls":1000},"manifest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","target":{"workflow":"5c8d3c1d-88d2-5632-b35d-970adc4f2f4c","version":1}}}]');
INSERT INTO entries VALUES(X'01a1e50ff111775b97afab7ae8c653d1',2,1794844389652,1,'[{"entered":{"scope":0,"node":0}},{"left":{"scope":0,"node":0,"status":"completed","output":{"value":{"x":1}},"vars":{"x":1}}},{"settled":{"scope":0,"status":"completed","output":{"value":1}}},{"closed":{"status":"completed","output":{"value":1}}}]');
CREATE TABLE runs (
    run BLOB NOT NULL PRIMARY KEY,
    workflow TEXT NOT NULL, plan TEXT NOT NULL, user TEXT NOT NULL, thread TEXT NOT NULL, parent BLOB,
    status TEXT NOT NULL, started_at INTEGER NOT NULL, ended_at INTEGER, wake_at INTEGER,
    awaits TEXT NOT NULL, usage TEXT NOT NULL, error TEXT,
    start_key TEXT, owner TEXT
, workflow_id TEXT NOT NULL DEFAULT '', target TEXT NOT NULL DEFAULT '{}', unreported INTEGER NOT NULL DEFAULT 0, reported INTEGER NOT NULL DEFAULT 0, root INTEGER NOT NULL DEFAULT 1) WITHOUT ROWID;
INSERT INTO runs VALUES(X'01a1e50ff0cb7180afed8ecbde6cb2df','ask','f5e4e4ed4eb2479f7028b51b772d4cf4c2880eb63186bc0fca30bbf08051a9f4','local','',NULL,'waiting',1794844389579,NULL,NULL,'["person:1"]','{}',NULL,NULL,NULL,'8b51acd9-1aa4-5236-864d-d0cb01f22c53','{"workflow":"8b51acd9-1aa4-5236-864d-d0cb01f22c53","version":1}',0,0,1);
INSERT INTO runs VALUES(X'01a1e50ff0e975a5bcf93dc00e2f47fd','quick','ac147e7890bd2bb1d9bd4481e579cd3d9e4eb86ac49ff9086a35d6ac000ee68c','local','',NULL,'waiting',1794844389609,NULL,NULL,'["event:order.paid"]','{}',NULL,NULL,NULL,'0387b25e-59d7-58b6-b7d2-a103a7baaee4','{"workflow":"0387b25e-59d7-58b6-b7d2-a103a7baaee4","version":1}',0,0,1);
INSERT INTO runs VALUES(X'01a1e50ff111775b97afab7ae8c653d1','done','0cbd467f3c1b4982f1b6c802d5b28ad12bcfa554db5bd3815299c00faada0388','local','',NULL,'completed',1794844389649,1794844389652,NULL,'[]','{}',NULL,NULL,NULL,'5c8d3c1d-88d2-5632-b35d-970adc4f2f4c','{"workflow":"5c8d3c1d-88d2-5632-b35d-970adc4f2f4c","version":1}',1,0,1);
CREATE TABLE owners (owner TEXT NOT NULL PRIMARY KEY, lease_until INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO owners VALUES('host-pid|12235|74321|0063d796403244c19490417df85064fd',1794844399579);
INSERT INTO owners VALUES('host-pid|12270|74325|4426ad96602a4c6f84f283288a7997e8',1794844399609);
INSERT INTO owners VALUES('host-pid|12296|74329|501cc8048d484ec4ada287ba5464f379',1794844399649);
CREATE TABLE documents (
    kind TEXT NOT NULL, owner TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL, at INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (kind, owner, name, version)
);
INSERT INTO documents VALUES('plan','','f5e4e4ed4eb2479f7028b51b772d4cf4c2880eb63186bc0fca30bbf08051a9f4',1,1794844389578,'{"name":"ask","nodes":[{"key":"first","op":{"choose":{"arms":[],"other":null}},"region":0,"next":1,"kind":"set","assign":[["greeting",{"literal":"hello"}]]},{"key":"go","op":{"wait":{"person":{"question":{"literal":"Shall it go on?"},"answer":{"type":"string"},"on_deadline":"fail"}}},"region":0,"next":2,"kind":"ask"},{"key":"last","op":{"choose":{"arms":[],"other":null}},"region":0,"kind":"set","assign":[["done",{"literal":"yes"}]]}],"regions":[{"opener":null,"lane":0,"parent":null}],"entry":0,"output":{"ref":"vars.done"},"limits":{"budget":{"model_calls":1000},"inline_bytes":65536},"on_failure":"fail","on_tool_drift":"warn","notify":{"on_complete":false,"on_failure":true}}');
INSERT INTO documents VALUES('workflow','local','8b51acd9-1aa4-5236-864d-d0cb01f22c53',1,1794844389577,'{"definition":"name: ask\nsteps:\n  - id: first\n    set: { greeting: hello }\n  - id: go\n    ask: Shall it go on?\n  - id: last\n    set: { done: ''yes'' }\noutput: ''{{ vars.done }}''\n","format":"native","plan":"f5e4e4ed4eb2479f7028b51b772d4cf4c2880eb63186bc0fca30bbf08051a9f4","branches":{},"manifest":{"version":"2026-11-16","hash":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"agents":[],"reason":"published from a file"}');
INSERT INTO documents VALUES('plan','','ac147e7890bd2bb1d9bd4481e579cd3d9e4eb86ac49ff9086a35d6ac000ee68c',1,1794844389606,'{"name":"quick","nodes":[{"key":"a","op":{"choose":{"arms":[],"other":null}},"region":0,"next":1,"kind":"set","assign":[["x",{"literal":1}]]},{"key":"wait","op":{"wait":{"event":{"event":"order.paid","filter":null}}},"region":0,"kind":"wait"}],"regions":[{"opener":null,"lane":0,"parent":null}],"entry":0,"output":{"ref":"vars.x"},"limits":{"budget":{"model_calls":1000},"inline_bytes":65536},"on_failure":"fail","on_tool_drift":"warn","notify":{"on_complete":false,"on_failure":true}}');
INSERT INTO documents VALUES('workflow','local','0387b25e-59d7-58b6-b7d2-a103a7baaee4',1,1794844389606,'{"definition":"name: quick\nsteps:\n  - { id: a, set: { x: 1 } }\n  - id: wait\n    wait: { event: order.paid }\noutput: ''{{ vars.x }}''\n","format":"native","plan":"ac147e7890bd2bb1d9bd4481e579cd3d9e4eb86ac49ff9086a35d6ac000ee68c","branches":{},"manifest":{"version":"2026-11-16","hash":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"agents":[],"reason":"published from a file"}');
INSERT INTO documents VALUES('plan','','0cbd467f3c1b4982f1b6c802d5b28ad12bcfa554db5bd3815299c00faada0388',1,1794844389646,'{"name":"done","nodes":[{"key":"a","op":{"choose":{"arms":[],"other":null}},"region":0,"kind":"set","assign":[["x",{"literal":1}]]}],"regions":[{"opener":null,"lane":0,"parent":null}],"entry":0,"output":{"ref":"vars.x"},"limits":{"budget":{"model_calls":1000},"inline_bytes":65536},"on_failure":"fail","on_tool_drift":"warn","notify":{"on_complete":false,"on_failure":true}}');
INSERT INTO documents VALUES('workflow','local','5c8d3c1d-88d2-5632-b35d-970adc4f2f4c',1,1794844389643,'{"definition":"name: done\nsteps:\n  - { id: a, set: { x: 1 } }\noutput: ''{{ vars.x }}''\n","format":"native","plan":"0cbd467f3c1b4982f1b6c802d5b28ad12bcfa554db5bd3815299c00faada0388","branches":{},"manifest":{"version":"2026-11-16","hash":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"agents":[],"reason":"published from a file"}');
CREATE TABLE blobs (hash TEXT NOT NULL PRIMARY KEY, body BLOB NOT NULL);
CREATE TABLE blob_uses (run BLOB NOT NULL, hash TEXT NOT NULL, PRIMARY KEY (run, hash)) WITHOUT ROWID;
CREATE TABLE fresh_blobs (hash TEXT NOT NULL PRIMARY KEY, put_at INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE awaited_events (
    user TEXT NOT NULL, event TEXT NOT NULL, run BLOB NOT NULL,
    PRIMARY KEY (user, event, run)
) WITHOUT ROWID;
INSERT INTO awaited_events VALUES('local','order.paid',X'01a1e50ff0e975a5bcf93dc00e2f47fd');
CREATE TABLE records (
    kind TEXT NOT NULL, owner TEXT NOT NULL, id TEXT NOT NULL, label TEXT NOT NULL, due_at INTEGER,
    revision INTEGER NOT NULL, at INTEGER NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (kind, owner, id)
);
INSERT INTO records VALUES('workflow','local','8b51acd9-1aa4-5236-864d-d0cb01f22c53','ask',NULL,1,1794844389578,'{"id":"8b51acd9-1aa4-5236-864d-d0cb01f22c53","name":"ask","description":"","status":"active","version":1,"format":"native","plan":"f5e4e4ed4eb2479f7028b51b772d4cf4c2880eb63186bc0fca30bbf08051a9f4","published":false,"steps":[],"thread_id":"","manifest":{"version":"2026-11-16","hash":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"schedule_type":"immediate","file":"ask.yaml","created_at":1794844389577,"updated_at":1794844389577}');
INSERT INTO records VALUES('workflow','local','0387b25e-59d7-58b6-b7d2-a103a7baaee4','quick',NULL,1,1794844389607,'{"id":"0387b25e-59d7-58b6-b7d2-a103a7baaee4","name":"quick","description":"","status":"active","version":1,"format":"native","plan":"ac147e7890bd2bb1d9bd4481e579cd3d9e4eb86ac49ff9086a35d6ac000ee68c","published":false,"steps":[],"thread_id":"","manifest":{"version":"2026-11-16","hash":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"schedule_type":"immediate","file":"quick.yaml","created_at":1794844389606,"updated_at":1794844389606}');
INSERT INTO records VALUES('workflow','local','5c8d3c1d-88d2-5632-b35d-970adc4f2f4c','done',NULL,1,1794844389646,'{"id":"5c8d3c1d-88d2-5632-b35d-970adc4f2f4c","name":"done","description":"","status":"active","version":1,"format":"native","plan":"0cbd467f3c1b4982f1b6c802d5b28ad12bcfa554db5bd3815299c00faada0388","published":false,"steps":[],"thread_id":"","manifest":{"version":"2026-11-16","hash":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"schedule_type":"immediate","file":"done.yaml","created_at":1794844389643,"updated_at":1794844389643}');
CREATE TABLE meta (key TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES('views','journal_events journal_runs journal_visits journal_commands journal_messages journal_steps workflow_runs workflow_executor_runs workflow_tool_calls workflow_instances workflow_step_instances workflows workflow_steps triggers');
INSERT INTO meta VALUES('views_hash','5fbfc3f91a3d491d2f2a1ff3e7ea39be50f92b810b8eb3bcc535e41daeecb994');
CREATE INDEX runs_parent ON runs (parent, started_at, run) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (status, ended_at) WHERE ended_at IS NOT NULL;
CREATE UNIQUE INDEX runs_start_key ON runs (user, start_key) WHERE start_key IS NOT NULL;
CREATE INDEX runs_due ON runs (wake_at) WHERE status = 'waiting' AND wake_at IS NOT NULL;
CREATE INDEX runs_open ON runs (owner, started_at) WHERE status IN ('pending', 'running');
CREATE INDEX runs_held ON runs (owner) WHERE owner IS NOT NULL AND status IN ('pending', 'running', 'waiting');
CREATE INDEX blob_uses_hash ON blob_uses (hash);
CREATE INDEX fresh_blobs_put_at ON fresh_blobs (put_at);
CREATE INDEX runs_status ON runs (status, root, started_at, run);
CREATE INDEX runs_user ON runs (user, status, root, started_at, run, workflow);
CREATE INDEX runs_user_workflow ON runs (user, workflow_id, status, root, started_at, run, workflow)
    WHERE workflow_id <> '';
CREATE INDEX runs_user_thread ON runs (user, thread, status, root, started_at, run, workflow_id, workflow)
    WHERE thread <> '';
CREATE INDEX runs_unreported ON runs (ended_at, run) WHERE unreported = 1;
CREATE INDEX awaited_events_run ON awaited_events (run);
CREATE INDEX records_id ON records (kind, id, owner);
CREATE INDEX records_label ON records (kind, label, id, owner);
CREATE INDEX records_owner_label ON records (kind, owner, label, id);
CREATE INDEX records_due ON records (kind, due_at, id, owner, label) WHERE due_at IS NOT NULL;
PRAGMA user_version = 2;
PRAGMA application_id = 0x524C4953;
COMMIT;
