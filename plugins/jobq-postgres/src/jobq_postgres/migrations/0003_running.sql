-- What runs, by era too: a session that holds an old snapshot keeps an entry of every job that ran since, and each look at
-- what a worker holds passed over all of them. In an era that is over nothing can run any more, and it is left out.

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

REVOKE EXECUTE ON FUNCTION @schema@.held, @schema@.holders FROM PUBLIC;
