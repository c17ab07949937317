"""What claims read, and what becomes of what has ended."""

import json
from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from jobq.job import ENDED, FINISHED, State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, failure, finish, ids, release, success
from jobq_postgres import eras


def test_claims_use_the_index(open_on, sql, schema, server_url):
    store = open_on()
    store.add(new(*(make_job(f"j{number}", priority=number % 3) for number in range(300))), now=START)
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute("LOAD 'auto_explain'")
        plans = []
        connection.add_notice_handler(lambda notice: plans.append(notice.message_primary))
        for setting in ("log_min_duration = 0", "log_nested_statements = on", "log_analyze = on", "log_level = notice"):
            connection.execute(f"SET auto_explain.{setting}")
        connection.execute("SET auto_explain.log_format = 'json'")
        connection.execute(f"SELECT * FROM \"{schema}\".heads('{{1}}', '[]', NULL, NULL, NULL, %s, 10)", [START])
    scans = [node for plan in plans for node in nodes(json.loads(plan.partition("plan:")[2]))]
    on_jobs = [node for node in scans if node.get("Relation Name") == "jobs"]
    assert on_jobs
    assert {node["Index Name"] for node in on_jobs} == {"jobs_waiting"}
    assert not [node for node in scans if node["Node Type"] == "Seq Scan" and node.get("Relation Name") == "jobs"]


def nodes(plan):
    if isinstance(plan, list):
        for each in plan:
            yield from nodes(each)
    elif isinstance(plan, dict):
        if "Node Type" in plan:
            yield plan
        for value in plan.values():
            yield from nodes(value)


def test_an_old_snapshot_does_not_make_claims_slow(open_on, server_url, schema, monkeypatch):
    """A session that holds its snapshot for long: what was claimed since cannot be cleared away."""
    monkeypatch.setattr(eras, "WALKED", 100)
    monkeypatch.setattr(eras, "PAUSE", 0.0)
    store, other = open_on(), open_on("other")
    worker, colleague = store.join(make_info()), other.join(make_info())
    read, heed = [], eras.Eras.heed

    def spy(self, connection, *, walked, **facts):
        read.append(walked)
        heed(self, connection, walked=walked, **facts)

    monkeypatch.setattr(eras.Eras, "heed", spy)
    store.add(new(make_job("later", run_at=START + timedelta(days=1))), now=START)
    with psycopg.connect(server_url) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute(f'SELECT count(*) FROM "{schema}".jobs')
        ended, turn = {store: [], other: []}, 0
        for number in range(60):
            jobs = [make_job(f"j{number}-{part}", run_at=START + timedelta(seconds=number)) for part in range(40)]
            other.add(new(*jobs), now=START)
            for handle, member in ((store, worker), (other, colleague)):
                now = START + timedelta(seconds=number)
                answer = handle.claim(member, wanted=Wanted(), limit=20, now=now, ended=ended[handle])
                assert ids(answer.claims) == [f"j{number}-{part}" for part in range(turn, turn + 20)], "in exact order"
                ended[handle] = [success(each, now=now) for each in answer.claims]
                turn = (turn + 20) % 40
            if number % 10 == 5:  # something that stands before all that was claimed meanwhile, and is found at once
                store.add(new(make_job(f"first{number}", run_at=START - timedelta(days=number))), now=START)
                assert ids(claim(store, worker, limit=1)) == [f"first{number}"]
        assert max(read) < 1000, "of 2400 jobs that were claimed"
    assert store.next_due(Wanted(), now=START) == START + timedelta(days=1)
    worker.close()
    colleague.close()


def test_an_old_snapshot_does_not_make_it_slow_to_see_what_runs(open_on, server_url, sql, schema, monkeypatch):
    """A worker looks at what it holds, and at what others hold, all the time: not at all that ran since."""
    monkeypatch.setattr(eras, "WALKED", 100)
    monkeypatch.setattr(eras, "PAUSE", 0.0)
    store, other = open_on(), open_on("other")
    worker, colleague = store.join(make_info()), other.join(make_info())
    store.add(new(make_job("long"), make_job("theirs")), now=START)
    long, theirs = claim(store, worker, limit=1), claim(other, colleague, limit=1)
    with psycopg.connect(server_url) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute(f'SELECT count(*) FROM "{schema}".jobs')
        ended = []
        for number in range(60):
            other.add(new(*(make_job(f"j{number}-{part}") for part in range(40))), now=START)
            other.add(new(make_job(f"later{number}", run_at=START + timedelta(days=1))), now=START)
            answer = store.claim(worker, wanted=Wanted(), limit=40, now=START, ended=ended)
            assert len(answer.claims) == 40
            ended = [success(each) for each in answer.claims]
        with store.line.use() as connection, connection.transaction():
            before = entries_read(connection, schema)
            assert {job.id for job in store.held(worker)} == {"long", *(f"j59-{part}" for part in range(40))}
            colleague.die()
            sql(f'DELETE FROM "{schema}".workers WHERE id = %s', colleague.id)
            ((gone, claims),) = store.lost(now=START)
            assert (gone.id, [each.job.id for each in claims]) == (colleague.id, ["theirs"])
            read = entries_read(connection, schema) - before
        assert read < 2000, "of 2400 jobs that ran, in three looks"
        finish(store, worker, *ended, *map(success, long))
        assert store.held(worker) == []
    assert theirs
    worker.close()


def entries_read(connection, schema):
    """How many entries of the index of what runs this session has read."""
    ((number,),) = connection.execute(
        "SELECT pg_stat_get_xact_tuples_returned(%s::regclass)", [f'"{schema}".jobs_running']
    ).fetchall()
    return number


def test_what_is_known_of_eras_does_not_outlive_a_restore(open_on, server_url, sql, schema, monkeypatch):
    """The connection may: behind a pooler always, and without one where only the tables are restored."""
    monkeypatch.setattr(eras, "WALKED", 10)
    monkeypatch.setattr(eras, "PAUSE", 0.0)
    store = open_on()
    worker = store.join(make_info())
    store.add(new(*(make_job(f"j{number}") for number in range(200)), make_job("later", queue="slow")), now=START)
    sql(f'CREATE TABLE "{schema}".backup AS TABLE "{schema}".jobs')
    with psycopg.connect(server_url) as session:
        session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        session.execute(f'SELECT count(*) FROM "{schema}".jobs')
        while claims := claim(store, worker, limit=20, queues=("default",)):
            finish(store, worker, *map(success, claims))
    sql(f'TRUNCATE "{schema}".jobs, "{schema}".archive, "{schema}".tally')
    sql(f'INSERT INTO "{schema}".jobs SELECT * FROM "{schema}".backup')
    sql(f"SELECT setval('\"{schema}\".eras', 1)")
    found = []
    for _ in range(20):
        claims = claim(store, worker, limit=20, queues=("default",))
        found += ids(claims)
        finish(store, worker, *map(success, claims))
    assert found == [f"j{number}" for number in range(200)]
    worker.close()


def test_nothing_is_missed_in_an_era_that_a_transaction_keeps_open(open_on, server_url, schema, monkeypatch):
    monkeypatch.setattr(eras, "WALKED", 10)
    monkeypatch.setattr(eras, "PAUSE", 0.0)
    from jobq.store import NewJob

    store = open_on()
    worker = store.join(make_info())
    store.add(new(*(make_job(f"a{number}") for number in range(100))), now=START)
    with psycopg.connect(server_url) as application:
        application.execute("SELECT 1")
        store.add_within(application, [NewJob(make_job("slow", priority=9), generated=False)], now=START)
        with psycopg.connect(server_url) as session:
            session.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            session.execute(f'SELECT count(*) FROM "{schema}".jobs')
            while claims := claim(store, worker, limit=7):
                finish(store, worker, *map(success, claims))
            store.add(new(*(make_job(f"b{number}") for number in range(100))), now=START)
            claims = claim(store, worker, limit=90)
            finish(store, worker, *map(release, claims))
            application.commit()
            assert ids(claim(store, worker, limit=2)) == ["slow", "b0"]
            assert len(claim(store, worker)) == 99
            assert claim(open_on(), worker) == []
    worker.close()


def test_counts_read_none_of_what_has_ended(open_on, sql, schema):
    store = open_on()
    worker = store.join(make_info())
    store.add(new(*(make_job(f"j{number}") for number in range(10))), now=START)
    claims = claim(store, worker)
    finish(store, worker, *map(success, claims[:4]), *(failure(each, wait=None) for each in claims[4:6]))
    sql(f'ALTER TABLE "{schema}".archive RENAME TO hidden')
    try:
        counts = store.counts(now=START)
    finally:
        sql(f'ALTER TABLE "{schema}".hidden RENAME TO archive')
    assert counts.states | {} == dict.fromkeys(State, 0) | {State.COMPLETED: 4, State.DEAD: 2, State.PROCESSING: 4}
    store.expire(states=FINISHED, before=START, limit=1)
    assert sql(f'SELECT count(*) FROM "{schema}".tally') == [(2,)], "summed up"
    assert store.counts(now=START) == counts
    worker.close()


@pytest.fixture
def old_days(open_on, sql, schema):
    """A store with three days of completed jobs, two of them long ago."""
    store = open_on()
    worker = store.join(make_info())
    today = datetime.now(UTC)
    for days in (40, 39, 0):
        then = today - timedelta(days=days)
        sql(
            f'CREATE TABLE IF NOT EXISTS "{schema}".archive_completed_{then:%Y%m%d} '
            f"PARTITION OF \"{schema}\".archive_completed FOR VALUES FROM ('{then:%Y-%m-%d} 00:00+00') "
            f"TO ('{then + timedelta(days=1):%Y-%m-%d} 00:00+00')"
        ) if days else None
        store.add(new(*(make_job(f"d{days}-{number}") for number in range(7))), now=then)
        finish(store, worker, *(success(each, now=then) for each in claim(store, worker, now=today)), now=then)
        sql(f'UPDATE "{schema}".archive SET archived = %s WHERE id LIKE %s', then, f"d{days}-%")
    worker.close()
    return store, today


def test_days_that_passed_whole_are_dropped(old_days, sql, schema):
    store, today = old_days
    before = today - timedelta(days=39, hours=-1)
    expired = []
    while ids_ := store.expire(states=frozenset({State.COMPLETED}), before=before, limit=3):
        assert len(ids_) <= 3
        expired += ids_
    assert set(expired) >= {f"d40-{number}" for number in range(7)}
    assert len(expired) == len(set(expired))
    parts = {
        name for (name,) in sql("SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace", f'"{schema}"')
    }
    assert f"archive_completed_{today - timedelta(days=40):%Y%m%d}" not in parts
    assert store.check() == []
    assert store.counts(now=today).states[State.COMPLETED] == 21 - len(expired)
    store.add(new(make_job("d40-0")), now=today)
    assert store.prune(states=ENDED, before=today + timedelta(days=1), limit=100)
    assert [job.id for job in store.find(Query())] == ["d40-0"]


def test_single_jobs_of_an_old_day_can_be_retried_and_deleted(old_days):
    from jobq.job import Change

    store, today = old_days
    job = store.get("d40-3")
    store.change(job, Change({"state": State.PENDING, "run_at": today, "finished_at": None}), now=today)
    assert store.delete([store.get("d40-4")]) == ["d40-4"]
    assert [each.id for each in store.find(Query(states=frozenset({State.PENDING})))] == ["d40-3"]
    assert store.check() == []


def test_a_day_without_a_part_is_made_when_a_job_ends_in_it(open_on, sql, schema):
    store = open_on()
    worker = store.join(make_info())
    store.add(new(make_job("one")), now=START)
    for (name,) in sql(
        "SELECT relname FROM pg_class WHERE relnamespace = %s::regnamespace AND relispartition AND relkind = 'r' "
        "AND relname <> 'archive_dead'",
        f'"{schema}"',
    ):
        sql(f'DROP TABLE "{schema}"."{name}"')
    finish(store, worker, *map(success, claim(store, worker)))
    assert store.get("one").state is State.COMPLETED
    worker.close()
