-- The tables. The record of a job is JSON as it was written; columns beside it hold what claims ask for, and of a job
-- that is not archived they are what counts: a claim writes them alone.

CREATE SEQUENCE @schema@.eras AS integer;
SELECT setval('@schema@.eras', 1);  -- the first one has begun
CREATE SEQUENCE @schema@.seqs AS bigint;
CREATE SEQUENCE @schema@.ends AS bigint;

CREATE TABLE @schema@.jobs (
    id         text COLLATE "C" PRIMARY KEY,
    seq        bigint      NOT NULL DEFAULT nextval('@schema@.seqs'),
    era        integer     NOT NULL,
    queue      text COLLATE "C" NOT NULL,
    handler    text COLLATE "C" NOT NULL,  -- '' for a command
    alone      boolean     NOT NULL,
    rank       smallint    NOT NULL,       -- the priority, negated
    run_at     timestamptz NOT NULL,
    state      text COLLATE "C" NOT NULL,
    run        bigint      NOT NULL,
    rev        bigint      NOT NULL,
    worker     text COLLATE "C",
    created_at timestamptz NOT NULL,
    started_at timestamptz,
    updated_at timestamptz NOT NULL,
    record     json        NOT NULL,
    CHECK (state IN ('pending', 'failed', 'processing'))
) WITH (
    fillfactor = 80,
    autovacuum_vacuum_scale_factor = 0.02,
    autovacuum_vacuum_threshold = 500,
    autovacuum_vacuum_insert_scale_factor = 0.1,
    autovacuum_analyze_scale_factor = 0.05,
    autovacuum_vacuum_cost_delay = 0
);

-- Lanes: what is alike for every worker stands together, so that what one does not want is passed over in one step.
CREATE INDEX jobs_waiting ON @schema@.jobs (era, queue, handler, alone, rank, run_at, seq)
    WHERE state IN ('pending', 'failed');
CREATE INDEX jobs_running ON @schema@.jobs (worker) WHERE state = 'processing';

-- Ended jobs, by state and by the day on which they ended (on the server's clock), so that a day can be dropped whole.
CREATE TABLE @schema@.archive (
    id         text COLLATE "C" NOT NULL,
    seq        bigint      NOT NULL,
    ended      bigint      NOT NULL,
    archived   timestamptz NOT NULL DEFAULT now(),
    queue      text COLLATE "C" NOT NULL,
    handler    text COLLATE "C" NOT NULL,
    state      text COLLATE "C" NOT NULL,
    updated_at timestamptz NOT NULL,
    record     json        NOT NULL
) PARTITION BY LIST (state);
CREATE INDEX archive_id ON @schema@.archive (id);
CREATE INDEX archive_ended ON @schema@.archive (ended);
CREATE TABLE @schema@.archive_completed PARTITION OF @schema@.archive FOR VALUES IN ('completed')
    PARTITION BY RANGE (archived);
CREATE TABLE @schema@.archive_cancelled PARTITION OF @schema@.archive FOR VALUES IN ('cancelled')
    PARTITION BY RANGE (archived);
CREATE TABLE @schema@.archive_dead PARTITION OF @schema@.archive FOR VALUES IN ('dead');

-- How many jobs were archived, less those that were taken out: rows are added, and now and then summed up.
CREATE TABLE @schema@.tally (
    queue text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    jobs  bigint NOT NULL
);

-- Days that were taken out of the archive whole; `told` is up to where their ids were told.
CREATE TABLE @schema@.expired (
    name text PRIMARY KEY,
    told bigint NOT NULL
);

CREATE TABLE @schema@.paused (
    queue  text COLLATE "C" PRIMARY KEY,
    reason text NOT NULL
);

CREATE TABLE @schema@.workers (
    id      text COLLATE "C" PRIMARY KEY,
    place   text        NOT NULL,  -- the directory of its lock files, by machine, boot and file system
    started timestamptz NOT NULL,
    lease   interval    NOT NULL,
    seen    timestamptz NOT NULL,  -- on the server's clock
    stop    smallint    NOT NULL DEFAULT 0,  -- how it was asked to stop; 0: not
    info    json        NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 50, autovacuum_vacuum_scale_factor = 0);

CREATE TABLE @schema@.notice (
    one   boolean PRIMARY KEY DEFAULT true CHECK (one),
    state text NOT NULL,
    url   text NOT NULL,
    other text NOT NULL  -- the URL of a `left` one that it stands in place of; else ''
);
