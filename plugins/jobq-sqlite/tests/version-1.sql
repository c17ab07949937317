PRAGMA journal_mode = WAL;
PRAGMA application_id = 1785684593;
BEGIN TRANSACTION;
CREATE TABLE damaged (seq INTEGER PRIMARY KEY, id TEXT, record BLOB);
CREATE TABLE jobs (
    seq INTEGER PRIMARY KEY,        -- the order in which they were added
    id TEXT NOT NULL,
    state TEXT NOT NULL,
    queue TEXT NOT NULL,
    handler TEXT NOT NULL,          -- '' for a command
    alone INTEGER NOT NULL,         -- 1 where it must run alone
    priority INTEGER NOT NULL,
    run_at INTEGER NOT NULL,
    worker TEXT,
    rev INTEGER NOT NULL,
    created INTEGER NOT NULL,
    updated INTEGER NOT NULL,
    ended INTEGER,                  -- the order in which they finished; NULL while they have not
    tagged INTEGER NOT NULL,        -- 1 where it has tags
    record TEXT NOT NULL
);
INSERT INTO "jobs" VALUES(1,'done-1','completed','default','',0,0,1783803478316,NULL,3,1783803478316,1783803478316,1,1,'{"id":"done-1","command":"true","run_at":"2026-07-11T20:57:58.316Z","tags":["red","blue"],"created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z","state":"completed","run":1,"started_at":"2026-07-11T20:57:58.316Z","rev":3,"finished_at":"2026-07-11T20:57:58.316Z","history":[{"run":1,"worker":"qf34hunaitxj5b4l","host":"alpha","started":"2026-07-11T20:57:58.316Z","finished":"2026-07-11T20:57:58.316Z","outcome":"completed","error":"because"}]}');
INSERT INTO "jobs" VALUES(2,'done-2','completed','default','',0,0,1783803478316,NULL,3,1783803478316,1783803478316,2,1,'{"id":"done-2","command":"true","run_at":"2026-07-11T20:57:58.316Z","tags":["red","blue"],"created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z","state":"completed","run":1,"started_at":"2026-07-11T20:57:58.316Z","rev":3,"finished_at":"2026-07-11T20:57:58.316Z","history":[{"run":1,"worker":"qf34hunaitxj5b4l","host":"alpha","started":"2026-07-11T20:57:58.316Z","finished":"2026-07-11T20:57:58.316Z","outcome":"completed","error":"because"}]}');
INSERT INTO "jobs" VALUES(3,'dead','dead','default','',0,0,1783803478316,NULL,3,1783803478316,1783803478316,NULL,0,'{"id":"dead","command":"true","run_at":"2026-07-11T20:57:58.316Z","created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z","state":"dead","run":1,"started_at":"2026-07-11T20:57:58.316Z","rev":3,"finished_at":"2026-07-11T20:57:58.316Z","last_error":"because","attempts":1,"history":[{"run":1,"worker":"2dfoianghba75bpi","host":"alpha","started":"2026-07-11T20:57:58.316Z","finished":"2026-07-11T20:57:58.316Z","outcome":"failed","error":"because"}]}');
INSERT INTO "jobs" VALUES(4,'mail','pending','mail','send',0,3,1783803478316,NULL,1,1783803478316,1783803478316,NULL,0,'{"id":"mail","handler":"send","payload":{"to":"\u00e9\n"},"queue":"mail","priority":3,"run_at":"2026-07-11T20:57:58.316Z","created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z"}');
INSERT INTO "jobs" VALUES(5,'one','processing','default','',0,0,1783803478316,'wwwwwwwwwwwwwwww',2,1783803478316,1783803478316,NULL,1,'{"id":"one","command":"true","run_at":"2026-07-11T20:57:58.316Z","tags":["red"],"created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z","state":"processing","run":1,"worker":"wwwwwwwwwwwwwwww","started_at":"2026-07-11T20:57:58.316Z","rev":2}');
INSERT INTO "jobs" VALUES(6,'two','pending','default','',0,0,1783803478316,NULL,1,1783803478316,1783803478316,NULL,1,'{"id":"two","command":"true","run_at":"2026-07-11T20:57:58.316Z","tags":["red"],"created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z"}');
INSERT INTO "jobs" VALUES(7,'three','pending','default','',0,0,1783803478316,NULL,1,1783803478316,1783803478316,NULL,1,'{"id":"three","command":"true","run_at":"2026-07-11T20:57:58.316Z","tags":["red"],"created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:57:58.316Z"}');
INSERT INTO "jobs" VALUES(8,'aged','cancelled','other','',0,0,1783803478316,NULL,5,1783803478316,1783803481316,3,1,'{"id":"aged","command":"true","queue":"other","state":"cancelled","attempts":2,"losses":1,"run":2,"rev":5,"run_at":"2026-07-11T20:57:58.316Z","tags":["\u00fcbung"],"meta":{"x.y":1},"result":{"\u00e9":[1,null]},"exit_code":1,"last_error":"exit code 1\nthe last words","history":[{"run":1,"worker":"wwwwwwwwwwwwwwww","host":"h","started":"2026-07-11T20:57:59.316Z","finished":"2026-07-11T20:57:59.316Z","outcome":"failed","error":null},{"run":2,"worker":"wwwwwwwwwwwwwwww","host":"h","started":"2026-07-11T20:58:00.316Z","finished":"2026-07-11T20:58:00.316Z","outcome":"failed","error":null}],"created_at":"2026-07-11T20:57:58.316Z","updated_at":"2026-07-11T20:58:01.316Z","started_at":"2026-07-11T20:58:00.316Z","finished_at":"2026-07-11T20:58:01.316Z","from_a_newer_one":true}');
CREATE TABLE lanes (
    state TEXT NOT NULL,
    queue TEXT NOT NULL,
    priority INTEGER NOT NULL,      -- this and the next two are 0, '' and 0 of jobs that do not wait
    handler TEXT NOT NULL,
    alone INTEGER NOT NULL,
    jobs INTEGER NOT NULL,
    PRIMARY KEY (state, queue, priority, handler, alone)
) WITHOUT ROWID;
INSERT INTO "lanes" VALUES('cancelled','other',0,'',0,1);
INSERT INTO "lanes" VALUES('completed','default',0,'',0,2);
INSERT INTO "lanes" VALUES('dead','default',0,'',0,1);
INSERT INTO "lanes" VALUES('pending','default',0,'',0,2);
INSERT INTO "lanes" VALUES('pending','mail',3,'send',0,1);
INSERT INTO "lanes" VALUES('processing','default',0,'',0,1);
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE paused (queue TEXT PRIMARY KEY, reason TEXT NOT NULL) WITHOUT ROWID;
INSERT INTO "paused" VALUES('mail','later');
CREATE TABLE tags (tag TEXT NOT NULL, seq INTEGER NOT NULL, PRIMARY KEY (tag, seq)) WITHOUT ROWID;
INSERT INTO "tags" VALUES('blue',1);
INSERT INTO "tags" VALUES('blue',2);
INSERT INTO "tags" VALUES('red',1);
INSERT INTO "tags" VALUES('red',2);
INSERT INTO "tags" VALUES('red',5);
INSERT INTO "tags" VALUES('red',6);
INSERT INTO "tags" VALUES('red',7);
INSERT INTO "tags" VALUES('übung',8);
CREATE UNIQUE INDEX ids ON jobs (id);
CREATE INDEX waiting ON jobs (state, queue, handler, alone, priority, run_at) WHERE state IN ('pending', 'failed');
CREATE INDEX running ON jobs (worker) WHERE state = 'processing';
CREATE INDEX dead ON jobs (priority DESC, run_at) WHERE state = 'dead';
CREATE INDEX finished ON jobs (ended, state, queue, handler, updated) WHERE state IN ('completed', 'cancelled');
CREATE INDEX old ON jobs (state, updated) WHERE state IN ('completed', 'cancelled', 'dead');
PRAGMA user_version = 1;
COMMIT;
