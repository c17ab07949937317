-- What is done on the server: it takes one round trip, or must be the same for whoever does it.

-- The era that jobs enter which become claimable now. Whoever enters one holds it until the end of its transaction, so
-- that it can be told when nobody will enter it any more. Neither the number nor the lock knows of snapshots.
CREATE FUNCTION @schema@.open_era() RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    era integer;
BEGIN
    LOOP
        SELECT last_value INTO era FROM @schema@.eras;
        PERFORM pg_advisory_xact_lock_shared(@space@, era + 16);
        EXIT WHEN era = (SELECT last_value FROM @schema@.eras);
    END LOOP;
    RETURN era;
END $$;

-- To be called first in a transaction that writes jobs: no notice goes up until it ends. Answers with that which is up.
CREATE FUNCTION @schema@.enter(OUT notice_state text, OUT notice_url text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(@space@, 0);
    SELECT n.state, n.url INTO notice_state, notice_url FROM @schema@.notice n;
END $$;

-- Jobs as they are handed in: their columns in one document, their records in another.
CREATE FUNCTION @schema@.handed(p_columns json, p_records json) RETURNS TABLE (
        id text, chosen boolean, queue text, handler text, alone boolean, rank smallint, run_at timestamptz, state text,
        run bigint, rev bigint, worker text, created_at timestamptz, started_at timestamptz, updated_at timestamptz,
        old_rev bigint, old_created_at timestamptz, old_worker text,
        record json, nth bigint
) LANGUAGE sql IMMUTABLE ROWS 10 AS $$
    SELECT * FROM ROWS FROM (
        json_to_recordset(p_columns) AS (
        id text, chosen boolean, queue text, handler text, alone boolean, rank smallint, run_at timestamptz, state text,
        run bigint, rev bigint, worker text, created_at timestamptz, started_at timestamptz, updated_at timestamptz,
        old_rev bigint, old_created_at timestamptz, old_worker text
        ),
        json_array_elements(p_records)
    ) WITH ORDINALITY
$$;

-- Adds jobs, all or none; raises JQ001 with the notice that forbids it, JQ002 with the ids that are taken.
CREATE FUNCTION @schema@.add_jobs(p_columns json, p_records json) RETURNS void LANGUAGE plpgsql
SET enable_seqscan = off SET plan_cache_mode = force_generic_plan
AS $$
DECLARE
    notice record;
    taken text[];
    asked text[] := ARRAY(
        SELECT c.id FROM json_to_recordset(p_columns) AS c(id text, chosen boolean) WHERE c.chosen
    );
BEGIN
    SELECT * INTO notice FROM @schema@.enter();
    IF notice.notice_state IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'JQ001', MESSAGE = notice.notice_state || ' ' || notice.notice_url;
    END IF;
    WITH new AS (
        SELECT * FROM @schema@.handed(p_columns, p_records)
    ), added AS (
        INSERT INTO @schema@.jobs
            (era, id, queue, handler, alone, rank, run_at, state, run, rev, created_at, started_at, updated_at, record)
        SELECT e.era, n.id, n.queue, n.handler, n.alone, n.rank, n.run_at, n.state, n.run, n.rev, n.created_at,
               n.started_at, n.updated_at, n.record
        FROM (SELECT * FROM new ORDER BY nth) n CROSS JOIN (SELECT @schema@.open_era() AS era) e
        ON CONFLICT (id) DO NOTHING
        RETURNING id
    )
    SELECT array_agg(new.id) INTO taken FROM new WHERE new.id NOT IN (SELECT added.id FROM added);
    -- After the insert, which has waited for whoever was archiving a job of that id just now.
    IF cardinality(asked) > 0 THEN
        SELECT taken || array_agg(a.id) INTO taken FROM @schema@.archive a WHERE a.id = ANY (asked);
    END IF;
    IF cardinality(taken) > 0 THEN
        RAISE EXCEPTION USING ERRCODE = 'JQ002', MESSAGE = array_to_string(taken, ' ');
    END IF;
END $$;

-- The lanes of some eras in which something waits: one step for each lane, however much is in it.
CREATE FUNCTION @schema@.lanes(p_eras integer[])
RETURNS TABLE (era integer, queue text, handler text, alone boolean, rank smallint)
LANGUAGE sql STABLE ROWS 10
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
    WITH RECURSIVE lane AS (
        SELECT f.* FROM unnest(p_eras) e(era) CROSS JOIN LATERAL (
            SELECT j.era, j.queue, j.handler, j.alone, j.rank FROM @schema@.jobs j
            WHERE j.state IN ('pending', 'failed') AND j.era = e.era
            ORDER BY j.era, j.queue, j.handler, j.alone, j.rank LIMIT 1
        ) f
        UNION ALL
        SELECT n.* FROM lane CROSS JOIN LATERAL (
            SELECT j.era, j.queue, j.handler, j.alone, j.rank FROM @schema@.jobs j
            WHERE j.state IN ('pending', 'failed') AND j.era = lane.era
              AND (j.queue, j.handler, j.alone, j.rank) > (lane.queue, lane.handler, lane.alone, lane.rank)
            ORDER BY j.era, j.queue, j.handler, j.alone, j.rank LIMIT 1
        ) n
    )
    SELECT lane.* FROM lane
$$;

-- Where the lanes of closed eras begin, as a handle remembers it.
CREATE FUNCTION @schema@.marks(p_marks json) RETURNS TABLE (
    era integer, queue text, handler text, alone boolean, rank smallint, run_at timestamptz, seq bigint
) LANGUAGE sql IMMUTABLE ROWS 10 AS $$
    SELECT * FROM json_to_recordset(p_marks) AS m(
        era integer, queue text, handler text, alone boolean, rank smallint, run_at timestamptz, seq bigint
    )
$$;

-- Where claims begin: the lanes of open eras from their beginning on, those of closed ones from a mark on;
-- of them those that are wanted.
CREATE FUNCTION @schema@.starts(
    p_eras integer[], p_marks json, p_queues text[], p_handlers text[], p_alone boolean
) RETURNS TABLE (
    era integer, queue text, handler text, alone boolean, rank smallint, run_at timestamptz, seq bigint
) LANGUAGE sql STABLE ROWS 10
AS $$
    SELECT s.* FROM (
        SELECT l.*, '-infinity'::timestamptz, 0::bigint FROM @schema@.lanes(p_eras) l
        UNION ALL
        SELECT m.* FROM @schema@.marks(p_marks) m
    ) AS s(era, queue, handler, alone, rank, run_at, seq)
    WHERE (p_queues IS NULL OR s.queue = ANY (p_queues))
      AND (p_handlers IS NULL OR s.handler = '' OR s.handler = ANY (p_handlers))
      AND (p_alone IS NULL OR s.alone = p_alone)
      AND NOT EXISTS (SELECT FROM @schema@.paused p WHERE p.queue = s.queue)
$$;

-- The first of what waits behind these starts, at most `wide` of each and in all, in claim order; due by `p_now`.
CREATE FUNCTION @schema@.heads(
    p_eras integer[], p_marks json, p_queues text[], p_handlers text[], p_alone boolean, p_now timestamptz,
    p_wide integer
) RETURNS TABLE (id text, alone boolean, rank smallint, run_at timestamptz, seq bigint)
LANGUAGE sql STABLE ROWS 10
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
    SELECT w.* FROM @schema@.starts(p_eras, p_marks, p_queues, p_handlers, p_alone) l CROSS JOIN LATERAL (
        SELECT j.id, j.alone, j.rank, j.run_at, j.seq FROM @schema@.jobs j
        WHERE j.state IN ('pending', 'failed') AND j.era = l.era AND j.queue = l.queue AND j.handler = l.handler
          AND j.alone = l.alone AND j.rank = l.rank AND (j.run_at, j.seq) >= (l.run_at, l.seq) AND j.run_at <= p_now
        ORDER BY j.run_at, j.seq LIMIT p_wide
    ) w ORDER BY w.rank, w.run_at, w.seq LIMIT p_wide
$$;

-- The eras from one on; it reads what knows of no snapshot, and so is said to change.
CREATE FUNCTION @schema@.eras_above(p_known integer) RETURNS integer[] LANGUAGE sql VOLATILE AS $$
    SELECT ARRAY(SELECT generate_series(p_known + 1, (SELECT last_value FROM @schema@.eras)::integer))
$$;

-- The first of what waits in one lane, from a mark on.
CREATE FUNCTION @schema@.head(
    p_era integer, p_queue text, p_handler text, p_alone boolean, p_rank smallint, p_run_at timestamptz, p_seq bigint
) RETURNS TABLE (run_at timestamptz, seq bigint) LANGUAGE sql STABLE ROWS 1
SET enable_seqscan = off SET enable_bitmapscan = off SET plan_cache_mode = force_generic_plan
AS $$
    SELECT j.run_at, j.seq FROM @schema@.jobs j
    WHERE j.state IN ('pending', 'failed') AND j.era = p_era AND j.queue = p_queue AND j.handler = p_handler
      AND j.alone = p_alone AND j.rank = p_rank AND (j.run_at, j.seq) >= (p_run_at, p_seq)
    ORDER BY j.run_at, j.seq LIMIT 1
$$;

-- When the first of what is wanted is due; NULL where nothing waits.
CREATE FUNCTION @schema@.next_due(
    p_eras integer[], p_known integer, p_marks json, p_queues text[], p_handlers text[], p_alone boolean
) RETURNS timestamptz LANGUAGE plpgsql
AS $$
BEGIN
    RETURN (SELECT min(h.run_at) FROM @schema@.starts(
        p_eras || @schema@.eras_above(p_known), p_marks, p_queues, p_handlers, p_alone
    ) s CROSS JOIN LATERAL @schema@.head(s.era, s.queue, s.handler, s.alone, s.rank, s.run_at, s.seq) h);
END $$;

-- Locks the jobs that a claim may take, at most `p_limit`, in claim order; none where the worker is no member, or a notice
-- is up. A job that must run alone comes by itself, and only where it is first. What somebody else claims just now is
-- passed over. The last row is no job: `state` and `worker` are state and URL of the notice, `seq` says how many entries of
-- the index were read, `era` which era is the latest.
CREATE FUNCTION @schema@.choose(
    p_worker text, p_eras integer[], p_known integer, p_marks json, p_queues text[], p_handlers text[],
    p_alone boolean, p_now timestamptz, p_limit integer
) RETURNS TABLE (
    id text, seq bigint, era integer, state text, run bigint, rev bigint, worker text, started_at timestamptz,
    updated_at timestamptz, record text
) LANGUAGE plpgsql ROWS 10
SET enable_seqscan = off SET enable_bitmapscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
DECLARE
    notice record;
    before bigint := pg_stat_get_xact_tuples_returned('@schema@.jobs_waiting'::regclass);
    newer integer[] := @schema@.eras_above(p_known);
    wide integer := p_limit;
    ids text[];
    alones boolean[];
    first integer;
    got text[];
BEGIN
    SELECT * INTO notice FROM @schema@.enter();
    IF notice.notice_state IS NULL AND EXISTS (
        SELECT FROM @schema@.workers w WHERE w.id = p_worker AND w.seen + w.lease >= clock_timestamp()
    ) THEN
        LOOP
            SELECT array_agg(h.id ORDER BY h.rank, h.run_at, h.seq),
                   array_agg(h.alone ORDER BY h.rank, h.run_at, h.seq)
            INTO ids, alones
            FROM @schema@.heads(p_eras || newer, p_marks, p_queues, p_handlers, p_alone, p_now, wide) h;
            EXIT WHEN ids IS NULL;
            -- Asked so that the index of what waits is of no use: only that of ids is to be read here.
            first := 1;
            got := '{}';
            WHILE alones[first] LOOP
                got := ARRAY(
                    SELECT j.id FROM @schema@.jobs j
                    WHERE j.id = ids[first] AND j.state <> 'processing' FOR UPDATE SKIP LOCKED
                );
                EXIT WHEN cardinality(got) > 0;
                first := first + 1;
            END LOOP;
            EXIT WHEN cardinality(got) > 0;
            got := ARRAY(
                SELECT j.id FROM unnest(ids, alones) WITH ORDINALITY c(id, alone, nth) JOIN @schema@.jobs j USING (id)
                WHERE NOT c.alone AND j.state <> 'processing'
                ORDER BY c.nth LIMIT p_limit FOR UPDATE OF j SKIP LOCKED
            );
            EXIT WHEN cardinality(got) >= p_limit OR cardinality(ids) < wide;
            wide := wide * 4;
        END LOOP;
    END IF;
    RETURN QUERY
        SELECT j.id, j.seq, j.era, j.state, j.run, j.rev, j.worker, j.started_at, j.updated_at, j.record::text
        FROM unnest(got) c(id) JOIN @schema@.jobs j USING (id)
        ORDER BY j.rank, j.run_at, j.seq;
    RETURN QUERY SELECT
        NULL, pg_stat_get_xact_tuples_returned('@schema@.jobs_waiting'::regclass) - before,
        coalesce(newer[cardinality(newer)], p_known), notice.notice_state, NULL::bigint, NULL::bigint,
        notice.notice_url, NULL::timestamptz, NULL::timestamptz, NULL;
END $$;

-- The three that follow find jobs by their ids: what the planner last heard of the table's size says nothing.

-- Writes what a claim changes, of jobs that this transaction has locked.
CREATE FUNCTION @schema@.take_jobs(p_columns json) RETURNS void LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    UPDATE @schema@.jobs j SET
        state = e.state, run = e.run, rev = e.rev, worker = e.worker, started_at = e.started_at,
        updated_at = e.updated_at
    FROM json_to_recordset(p_columns) AS e(
        id text, state text, run bigint, rev bigint, worker text, started_at timestamptz, updated_at timestamptz
    )
    WHERE j.id = e.id
$$;

-- Writes jobs that are not archived, where they are as they were; the places of those in what was handed in.
CREATE FUNCTION @schema@.change_jobs(p_enter boolean, p_columns json, p_records json) RETURNS SETOF bigint LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    UPDATE @schema@.jobs j SET
        era = coalesce((SELECT @schema@.open_era() WHERE p_enter), j.era), queue = e.queue, handler = e.handler,
        alone = e.alone, rank = e.rank, run_at = e.run_at, state = e.state, run = e.run, rev = e.rev,
        worker = e.worker, created_at = e.created_at, started_at = e.started_at, updated_at = e.updated_at,
        record = e.record
    FROM @schema@.handed(p_columns, p_records) e
    WHERE j.id = e.id AND j.rev = e.old_rev AND j.created_at = e.old_created_at
      AND j.worker IS NOT DISTINCT FROM e.old_worker
    RETURNING e.nth
$$;

-- Moves jobs to the archive, where they are as they were; the places of those in what was handed in.
CREATE FUNCTION @schema@.end_jobs(p_columns json, p_records json) RETURNS SETOF bigint LANGUAGE sql
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
AS $$
    WITH gone AS (
        DELETE FROM @schema@.jobs j
        USING @schema@.handed(p_columns, p_records) e
        WHERE j.id = e.id AND j.rev = e.old_rev AND j.created_at = e.old_created_at
          AND j.worker IS NOT DISTINCT FROM e.old_worker
        RETURNING e.id, j.seq, e.queue, e.handler, e.state, e.updated_at, e.record, e.nth
    ), kept AS (
        INSERT INTO @schema@.archive (id, seq, ended, queue, handler, state, updated_at, record)
        SELECT o.id, o.seq, nextval('@schema@.ends'), o.queue, o.handler, o.state, o.updated_at, o.record
        FROM (SELECT * FROM gone ORDER BY nth) o
    ), counted AS (
        INSERT INTO @schema@.tally SELECT queue, state, count(*) FROM gone GROUP BY queue, state
    )
    SELECT nth FROM gone
$$;

-- Makes the parts of the archive for today and some days ahead; what there is stays. Done as the owner, since a worker's
-- role may make no tables.
CREATE FUNCTION @schema@.make_days(ahead integer) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    kind text;
    day date;
    part text;
BEGIN
    FOREACH kind IN ARRAY ARRAY['completed', 'cancelled'] LOOP
        FOR day IN SELECT (now() AT TIME ZONE 'UTC')::date + n FROM generate_series(0, ahead) n LOOP
            part := format('archive_%s_%s', kind, to_char(day, 'YYYYMMDD'));
            CONTINUE WHEN to_regclass(format('%s.%I', '@schema@', part)) IS NOT NULL;
            PERFORM pg_advisory_xact_lock(@space@, 2);
            CONTINUE WHEN to_regclass(format('%s.%I', '@schema@', part)) IS NOT NULL;
            EXECUTE format(
                'CREATE TABLE %1$s.%2$I (LIKE %1$s.archive INCLUDING DEFAULTS INCLUDING CONSTRAINTS INCLUDING INDEXES) '
                'WITH (autovacuum_vacuum_insert_scale_factor = 0.5)', '@schema@', part
            );
            -- Attached, not made in place: that would lock the archive against everybody.
            EXECUTE format(
                'ALTER TABLE %1$s.archive_%2$s ATTACH PARTITION %1$s.%3$I FOR VALUES FROM (%4$L) TO (%5$L)', '@schema@',
                kind, part, day || ' 00:00+00', (day + 1) || ' 00:00+00'
            );
        END LOOP;
    END LOOP;
END $$;
SELECT @schema@.make_days(7);

-- Takes out of the archive the days of which every job was last updated before a time, oldest first. Where somebody reads
-- the archive for long, it is left for another time.
CREATE FUNCTION @schema@.expire_days(p_states text[], p_before timestamptz) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET lock_timeout = '1s' AS $$
DECLARE
    kind text;
    part text;
    passed boolean;
BEGIN
    FOR kind, part IN
        SELECT s.state, c.relname FROM unnest(p_states) s(state)
        JOIN pg_inherits i ON i.inhparent = to_regclass('@schema@.archive_' || s.state)
        JOIN pg_class c ON c.oid = i.inhrelid
        WHERE (right(c.relname, 8)::date + 1) AT TIME ZONE 'UTC' <= least(p_before, now())
        ORDER BY c.relname
    LOOP
        EXECUTE format('SELECT NOT EXISTS (SELECT FROM %s.%I WHERE updated_at >= %L)', '@schema@', part, p_before)
        INTO passed;
        CONTINUE WHEN NOT passed;
        BEGIN
            EXECUTE format('ALTER TABLE %1$s.archive_%2$s DETACH PARTITION %1$s.%3$I', '@schema@', kind, part);
        EXCEPTION WHEN lock_not_available THEN
            RETURN;
        END;
        EXECUTE format(
            'INSERT INTO %1$s.tally SELECT queue, state, -count(*) FROM %1$s.%2$I GROUP BY queue, state', '@schema@', part
        );
        INSERT INTO @schema@.expired VALUES (part, 0);
    END LOOP;
END $$;

-- The next ids of what was taken out, each told once; a table of which all are told is dropped.
CREATE FUNCTION @schema@.next_expired(p_limit integer) RETURNS SETOF text LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    found @schema@.expired;
    ids text[];
    last bigint;
BEGIN
    LOOP
        SELECT * INTO found FROM @schema@.expired ORDER BY name LIMIT 1 FOR UPDATE SKIP LOCKED;
        EXIT WHEN found.name IS NULL;
        EXECUTE format(
            'SELECT array_agg(id ORDER BY ended), max(ended) FROM ('
            'SELECT id, ended FROM %s.%I WHERE ended > $1 ORDER BY ended LIMIT $2) n', '@schema@', found.name
        ) INTO ids, last USING found.told, p_limit;
        IF ids IS NOT NULL THEN
            UPDATE @schema@.expired e SET told = last WHERE e.name = found.name;
            -- One that was added anew since is another job.
            RETURN QUERY
                SELECT n.id FROM unnest(ids) n(id)
                WHERE NOT EXISTS (SELECT FROM @schema@.jobs j WHERE j.id = n.id)
                  AND NOT EXISTS (SELECT FROM @schema@.archive a WHERE a.id = n.id);
            RETURN;
        END IF;
        EXECUTE format('DROP TABLE %s.%I', '@schema@', found.name);
        DELETE FROM @schema@.expired e WHERE e.name = found.name;
    END LOOP;
END $$;

-- What anybody may call by default would be done as the owner.
REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA @schema@ FROM PUBLIC;
