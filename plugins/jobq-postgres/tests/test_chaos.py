"""Connections that are lost, servers that die, refuse or are full: nothing acknowledged is lost, nothing is done twice."""

import random
import threading
import time

import psycopg
import pytest

from jobq.errors import StoreError, StoreUnavailable
from jobq.job import State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, ids, success

from .conftest import own_server, with_parameter
from .sizes import ADD_STEP, ANSWER_STEP, CRASHES, CUT_STEP, FULL, TERMINATIONS

WITHIN = 60.0


def persistently(act, within=WITHIN):
    """What `act` answers when the store does."""
    end = time.monotonic() + within
    while True:
        try:
            return act()
        except StoreError:
            if time.monotonic() > end:
                raise
            time.sleep(0.01)


@pytest.mark.timeout(1800)
def test_work_goes_on_while_backends_are_terminated(open_on, sql, schema):
    """Backends are terminated at random moments; after each, a job has to be completed."""
    store = open_on()
    worker = store.join(make_info())
    chance = random.Random(1)
    over = threading.Event()
    terminated = []
    with psycopg.connect(sql.url, autocommit=True) as killer:

        def kill():
            while not over.wait(chance.uniform(0, 0.1)):
                found = killer.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'jobq%' ORDER BY random() LIMIT 1"
                ).fetchall()
                terminated.extend(found)

        thread = threading.Thread(target=kill)
        thread.start()
        completed, number, end = [], 0, time.monotonic() + 30 * TERMINATIONS
        try:
            while len(terminated) < TERMINATIONS and time.monotonic() < end:
                job = make_job(f"job-{number}")
                number += 1
                persistently(lambda job=job: added_or_there(store, store, [job]))
                claims = persistently(lambda: claim(store, worker)) or list(
                    map(as_claim(worker), persistently(lambda: store.held(worker)))
                )
                ended = [success(each) for each in claims]
                refused = persistently(lambda ended=ended: list(store.finish(worker, ended, now=START)))
                assert refused == [], "an end that took effect is not refused when it is said again"
                completed += ids(claims)
        finally:
            over.set()
            thread.join()
    assert len(terminated) >= TERMINATIONS
    assert sorted(completed) == sorted(f"job-{each}" for each in range(number))
    stored = {job.id: job for job in persistently(lambda: list(store.find(Query())))}
    assert {job.state for job in stored.values()} == {State.COMPLETED}
    assert {len(job.history) for job in stored.values()} == {1}, "each outcome is recorded once"
    assert persistently(store.check) == []
    persistently(worker.close)


def as_claim(worker):
    from jobq.store import Claim

    return lambda job: Claim(job, worker.id, worker.host)


@pytest.mark.timeout(3600)
def test_nothing_acknowledged_is_lost_when_the_server_is_killed(tmp_path, open_on):
    """Writers add and complete jobs; the server is killed with all its processes, and started again."""
    with own_server() as server:
        address = with_parameter(server.url, "schema=crash")
        main = open_on("main", address=address)
        worker = main.join(make_info())
        over = threading.Event()
        added, ended, troubles = [], [], []

        def add(number):
            store, count = open_on(f"adder{number}", address=address), 0
            while not over.is_set():
                job = make_job(f"job-{number}-{count}")
                count += 1
                try:
                    store.add(new(job), now=START)
                    added.append(job.id)
                except StoreUnavailable:
                    time.sleep(0.01)
                except BaseException as trouble:
                    troubles.append(trouble)
                    return

        def work():
            store, pending = open_on("worker", address=address), []
            while not over.is_set():
                try:
                    answer = store.claim(worker, wanted=Wanted(), limit=5, now=START, ended=pending)
                    ended.extend(each.claim.job.id for each in pending)
                    assert not answer.refused
                    pending = [success(each) for each in answer.claims]
                    if not pending:
                        pending = [success(as_claim(worker)(job)) for job in store.held(worker)]
                except StoreUnavailable:
                    time.sleep(0.01)
                except BaseException as trouble:
                    troubles.append(trouble)
                    return

        threads = [threading.Thread(target=add, args=[0]), threading.Thread(target=add, args=[1])]
        threads.append(threading.Thread(target=work))
        for thread in threads:
            thread.start()
        chance = random.Random(2)
        for _ in range(CRASHES):
            before = len(added), len(ended)
            end = time.monotonic() + WITHIN
            while (len(added), len(ended)) <= before or len(ended) == before[1]:
                assert time.monotonic() < end, troubles or "nothing goes on"
                time.sleep(0.01)
            time.sleep(chance.uniform(0, 0.1))
            server.kill()
            server.start()
        over.set()
        for thread in threads:
            thread.join()
        assert troubles == []
        states = {job.id: job.state for job in persistently(lambda: list(main.find(Query())))}
        assert [job_id for job_id in added if job_id not in states] == [], "an acknowledged job is there"
        assert {states[job_id] for job_id in ended} == {State.COMPLETED}
        assert persistently(main.check) == []
        persistently(worker.close)


SIDES = ("sent", "answered")


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("side", SIDES)
def test_an_outcome_is_recorded_once_wherever_its_exchange_is_cut(open_on, proxy, proxied, side, figure):
    """The connection is cut after each number of bytes of a completion that also claims."""
    far, near = open_on(address=proxied), open_on()
    worker = near.join(make_info())
    near.add(new(make_job("warm"), make_job("up")), now=START)
    for _ in range(2):  # statements are prepared, so that all exchanges are alike
        far.claim(worker, wanted=Wanted(), limit=1, now=START, ended=[])
    far.finish(worker, [success(as_claim(worker)(job)) for job in near.held(worker)], now=START)
    number, unanswered, whole = 0, 0, False
    while not whole:
        one, two = f"one-{number:05}", f"two-{number:05}"  # of one length, so that each exchange is as long
        near.add(new(make_job(one, priority=1), make_job(two)), now=START)
        (held,) = persistently(lambda: claim(far, worker, limit=1))
        after = number * CUT_STEP
        proxy.cut_after(**{side: after})
        ended = [success(held)]

        def act(ended=ended):
            return far.claim(worker, wanted=Wanted(), limit=1, now=START, ended=ended)

        try:
            answer = act()
        except StoreUnavailable:
            unanswered += near.get(one).state is State.COMPLETED
            answer = persistently(act)
        whole = proxy.whole()
        assert answer.refused == [], f"cut after {after} bytes"
        job = near.get(one)
        assert (job.state, [run.outcome for run in job.history]) == (State.COMPLETED, ["completed"])
        left = near.held(worker)
        assert [each.id for each in left] == [two], "claimed by the first call or by the second"
        near.finish(worker, [success(as_claim(worker)(each)) for each in left], now=START)
        number += 1
    assert number > (500 if FULL else 5), "the exchange was cut at many places"
    assert near.check() == []
    worker.close()
    figure(
        f"F43 a completion that claims, cut after each number of bytes {side}",
        f"{number - 1} cuts, {CUT_STEP} bytes apart, {unanswered} after the commit; each outcome recorded once, what was "
        "claimed is held once",
    )


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", [1, 60])
def test_jobs_are_added_once_wherever_the_exchange_is_cut(open_on, proxy, proxied, side, count, figure):
    """By one statement, and by COPY; the store itself asks what became of them."""
    far, near = open_on(address=proxied), open_on()
    far.add(new(*(make_job() for _ in range(count)), generated=True), now=START)
    expected = near.counts(now=START).states[State.PENDING]
    number, told, whole = 0, 0, False
    step = ADD_STEP[count] if side == "sent" else ANSWER_STEP
    while not whole:
        jobs = [make_job() for _ in range(count)]
        proxy.cut_after(**{side: number * step})
        try:
            far.add(new(*jobs), now=START)
        except StoreUnavailable:
            told += 1
            persistently(lambda jobs=jobs: added_or_there(far, near, jobs))
        whole = proxy.whole()
        expected += count
        number += 1
        if FULL or number % 20 == 0 or whole:
            assert near.counts(now=START).states[State.PENDING] == expected, f"cut {number}"
    assert number > 5, "the exchange was cut at many places"
    assert near.check() == []
    figure(
        f"F43 {count} added at once, cut after each number of bytes {side}",
        f"{number - 1} cuts, {step} bytes apart; all there once, {told} calls had to be said again",
    )


def added_or_there(far, near, jobs):
    """A caller that asks again with the same jobs, as one does that was told nothing."""
    from jobq.errors import DuplicateJob

    try:
        far.add(new(*jobs), now=START)
    except DuplicateJob as error:
        there = near.get_many(job.id for job in jobs).keys()
        if not set(error.ids) == {job.id for job in jobs} == there:
            raise


def test_a_server_that_becomes_read_only_is_trouble_and_passes(tmp_path, open_on):
    with own_server() as server:
        address = with_parameter(server.url, "schema=calm")
        store = open_on(address=address)
        worker = store.join(make_info())
        store.add(new(make_job("one")), now=START)
        (held,) = claim(store, worker)
        with psycopg.connect(server.url, autocommit=True) as admin:
            admin.execute("ALTER SYSTEM SET default_transaction_read_only = on")
            admin.execute("SELECT pg_reload_conf()")
            end = time.monotonic() + WITHIN
            while True:  # each session takes it when it is idle
                try:
                    store.add(new(make_job()), now=START)
                except StoreUnavailable:
                    break
                assert time.monotonic() < end
            with pytest.raises(StoreUnavailable, match="read-only"):
                store.finish(worker, [success(held)], now=START)
            assert store.get("one").state is State.PROCESSING, "it can be read"
            admin.execute("SET default_transaction_read_only = off")
            admin.execute("ALTER SYSTEM RESET default_transaction_read_only")
            admin.execute("SELECT pg_reload_conf()")
        assert persistently(lambda: store.finish(worker, [success(held)], now=START)) == []
        assert store.get("one").state is State.COMPLETED
        worker.close()


def test_a_server_without_room_for_another_connection_says_so(tmp_path, open_on):
    with own_server(max_connections="12", superuser_reserved_connections="3") as server:
        address = with_parameter(server.url, "schema=full")
        first = open_on(address=address)
        first.add(new(make_job("one")), now=START)
        open_ones = []

        def open_many():
            for number in range(20):
                open_ones.append(open_on(f"home{number}", address=address))
                open_ones[-1].get("one")

        with pytest.raises(StoreUnavailable, match=r"too many|remaining connection slots"):
            open_many()
        assert first.get("one").id == "one", "who is connected works on"
        last = open_ones.pop()
        open_ones.pop().close()
        assert persistently(lambda: last.get("one")).id == "one"


def test_a_server_that_is_not_there_is_trouble_of_the_store(open_on):
    store = open_on(address="postgresql://nobody:secret@127.0.0.1:1/none")
    with pytest.raises(StoreUnavailable) as caught:
        store.add(new(make_job("one")), now=START)
    assert "not known" not in str(caught.value), "nothing was sent"
    with pytest.raises(StoreUnavailable) as caught:
        store.get("one")
    assert "secret" not in str(caught.value)
    assert "127.0.0.1" in str(caught.value)
