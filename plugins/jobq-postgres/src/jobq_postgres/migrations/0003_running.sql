-- What runs, by era too: a session that holds an old snapshot keeps an entry of every job that ran since, and each look at
-- what a worker holds passed over all of them. In a closed era in which nothing runs nothing will, and it is left out.

DROP INDEX @schema@.jobs_running;
CREATE INDEX jobs_running ON @schema@.jobs (era, worker) WHERE state = 'processing';

-- The jobs of these eras and those after `p_known` that run in these workers.
CREATE FUNCTION @schema@.held(p_eras integer[], p_known integer, p_workers text[]) RETURNS SETOF @schema@.jobs
LANGUAGE sql VOLATILE ROWS 10
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
    SELECT r.* FROM unnest(p_eras || @schema@.eras_above(p_known)) e(era)
    CROSS JOIN unnest(p_workers) w(worker)
    CROSS JOIN LATERAL (
        SELECT j.* FROM @schema@.jobs j WHERE j.state = 'processing' AND j.era = e.era AND j.worker = w.worker OFFSET 0
    ) r
$$;

-- In which of these eras and those after `p_known` something runs, and in which workers.
CREATE FUNCTION @schema@.holders(p_eras integer[], p_known integer) RETURNS TABLE (era integer, worker text)
LANGUAGE sql VOLATILE ROWS 10
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
    SELECT e.era, r.worker FROM unnest(p_eras || @schema@.eras_above(p_known)) e(era)
    CROSS JOIN LATERAL (
        SELECT DISTINCT j.worker FROM @schema@.jobs j WHERE j.state = 'processing' AND j.era = e.era
    ) r
$$;

-- Writes what a claim changes, of jobs that this transaction has locked. They enter the latest era, wherever they waited.
CREATE OR REPLACE FUNCTION @schema@.take_jobs(p_columns json) RETURNS void LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    UPDATE @schema@.jobs j SET
        era = n.era, state = e.state, run = e.run, rev = e.rev, worker = e.worker, started_at = e.started_at,
        updated_at = e.updated_at
    FROM json_to_recordset(p_columns) AS e(
        id text, state text, run bigint, rev bigint, worker text, started_at timestamptz, updated_at timestamptz
    ) CROSS JOIN (SELECT @schema@.open_era() AS era) n
    WHERE j.id = e.id
$$;

REVOKE EXECUTE ON FUNCTION @schema@.held, @schema@.holders FROM PUBLIC;
