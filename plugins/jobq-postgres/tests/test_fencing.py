"""Leases on the server's clock, the fencing rule across machines, and what a worker that is cut off does."""

import threading
import time
from datetime import timedelta

import pytest

from jobq.errors import StoreError
from jobq.job import State
from jobq.members import WorkerInfo
from jobq.store import Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, finish, ids, success

WITHIN = 30.0


def until(ask, within=WITHIN):
    """The first answer that is something."""
    end = time.monotonic() + within
    while not (answer := ask()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
    return answer


def elsewhere(**fields) -> WorkerInfo:
    return make_info(boot_id="another-boot", host="elsewhere", **fields)


@pytest.fixture
def cut_off(open_on, sql, schema):
    """A worker of another machine that holds the job `one`, and whose lease has run out."""
    far = open_on("far")
    worker = far.join(elsewhere())
    far.add(new(make_job("one")), now=START)
    (held,) = claim(far, worker)
    expire(sql, schema, worker.id)
    yield far, worker, held
    worker.close(clean=False)


def expire(sql, schema, worker):
    sql(f"UPDATE \"{schema}\".workers SET seen = clock_timestamp() - interval '1 hour' WHERE id = %s", worker)
    # the server has been up for less than a lease in a test
    sql(f"UPDATE \"{schema}\".workers SET lease = '0.001s' WHERE id = %s", worker)


def test_a_late_result_of_a_worker_whose_lease_ran_out_changes_nothing(cut_off, open_on):
    far, worker, held = cut_off
    near = open_on("near")
    ((info, (lost,)),) = near.lost(now=START)
    assert (info.id, info.host, lost.job.id) == (worker.id, "elsewhere", "one")
    assert [each.id for each in near.workers()] == []
    from jobq import lifecycle

    near.change(lost.job, lifecycle.lost(lost, now=START, counted=True, max_losses=3), now=START)
    colleague = near.join(make_info())
    (again,) = claim(near, colleague)
    assert finish(far, worker, success(held)).refused == [held]
    assert near.get("one") == again.job
    assert finish(near, colleague, success(again)).refused == []
    assert [run.outcome for run in far.get("one").history] == ["lost", "completed"]
    colleague.close()


def test_a_worker_whose_lease_ran_out_claims_nothing_until_it_is_renewed(cut_off):
    far, worker, _ = cut_off
    far.add(new(make_job("two")), now=START)
    assert claim(far, worker) == []


def test_a_lease_is_measured_by_the_server_whatever_the_workers_clocks_say(open_on, sql, schema):
    near, far = open_on("near", lease=3), open_on("far", lease=3)
    for minutes in (-10, 10):
        wrong = START + timedelta(minutes=minutes)
        worker = far.join(elsewhere(started=wrong))
        far.add(new(make_job(f"job{minutes}")), now=wrong)
        held = claim(far, worker, now=wrong + timedelta(minutes=10))
        assert ids(held) == [f"job{minutes}"]
        for now in (START - timedelta(days=1), START, START + timedelta(days=1)):
            assert near.lost(now=now) == []
        finish(far, worker, success(held[0], now=wrong), now=wrong)
        worker.close()


def test_a_lease_is_renewed_while_nobody_uses_the_handle(open_on, sql, schema):
    store = open_on(lease=3)
    worker = store.join(elsewhere())
    (first,) = sql(f'SELECT seen FROM "{schema}".workers')
    until(lambda: sql(f'SELECT seen FROM "{schema}".workers') != [first])
    store.close()
    (second,) = sql(f'SELECT seen FROM "{schema}".workers')
    until(lambda: sql(f'SELECT seen FROM "{schema}".workers') != [second])
    assert not worker.lapsed
    worker.close()


def test_takeover_happens_once(cut_off, open_on):
    far = cut_off[0]
    from jobq import lifecycle
    from jobq.errors import Conflict

    given_back = []

    def reap(store):
        for info, claims in store.lost(now=START):
            for each in claims:
                try:
                    store.change(each.job, lifecycle.lost(each, now=START, counted=True, max_losses=3), now=START)
                    given_back.append(each.job.id)
                except Conflict:
                    pass
            store.forget(info)

    threads = [threading.Thread(target=reap, args=[open_on(f"reaper{number}")]) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert given_back == ["one"]
    job = far.get("one")
    assert (job.state, job.losses, len(job.history)) == (State.PENDING, 1, 1)


def test_on_its_own_host_a_worker_lives_as_long_as_its_lock_is_held(open_on, sql, schema):
    mine, neighbour = open_on("home"), open_on("home")
    worker = mine.join(make_info())
    mine.add(new(make_job("one")), now=START)
    claim(mine, worker)
    expire(sql, schema, worker.id)
    assert neighbour.lost(now=START) == []
    other_home = open_on("elsewhere")
    assert [info.id for info, _ in other_home.lost(now=START)] == [worker.id]
    worker.die()
    assert [info.id for info, _ in neighbour.lost(now=START)] == [worker.id]


def test_death_on_the_same_host_is_seen_without_waiting_for_the_lease(open_on):
    mine, neighbour = open_on("home", lease=3600), open_on("home", lease=3600)
    worker = mine.join(make_info())
    mine.add(new(make_job("one")), now=START)
    claim(mine, worker)
    worker.die()
    ((info, claims),) = neighbour.lost(now=START)
    assert (info.id, ids(claims)) == (worker.id, ["one"])


def test_a_worker_that_cannot_renew_knows_that_it_counts_as_gone(open_on, proxied, proxy):
    store = open_on(address=proxied, lease=3)
    worker = store.join(elsewhere())
    store.add(new(make_job("one")), now=START)
    (held,) = claim(store, worker)
    assert not worker.lapsed
    proxy.stall()
    hung = []

    def ask():
        try:
            store.held(worker)
        except StoreError as error:
            hung.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    until(lambda: worker.lapsed)
    thread.join(WITHIN)
    assert hung, "a call that waits for the server fails when the lease lapses"
    proxy.go_on()
    until(lambda: not worker.lapsed)
    assert finish(store, worker, success(held)).refused == []
    worker.close()


def test_a_forgotten_worker_makes_its_membership_anew(open_on):
    store, other = open_on(lease=3), open_on("other", lease=3)
    info = elsewhere()
    worker = store.join(info)
    other.forget(info)
    until(lambda: worker.lapsed)
    store.add(new(make_job("one")), now=START)
    assert claim(store, worker) == []
    assert worker.renew(info)
    assert not worker.lapsed
    assert ids(claim(store, worker)) == ["one"]
    worker.close()


def test_a_server_that_was_away_gives_its_workers_time_to_come_back(open_on, sql, schema):
    near, far = open_on("near", lease=3600), open_on("far", lease=3600)
    worker = far.join(elsewhere())
    sql(f"UPDATE \"{schema}\".workers SET seen = clock_timestamp() - interval '200 years', lease = '100 years'")
    assert near.lost(now=START) == [], "it has been up for less than the lease"
    worker.close()


def test_a_claim_is_one_commit(open_on, sql, schema):
    store = open_on()
    worker = store.join(make_info())
    store.add(new(*(make_job(f"j{number}") for number in range(30))), now=START)
    ended = [success(each) for each in claim(store, worker, limit=10)]
    answer = store.claim(worker, wanted=Wanted(), limit=10, now=START, ended=ended)
    written = sql(
        f'SELECT DISTINCT xmin::text FROM "{schema}".archive UNION '
        f"SELECT DISTINCT xmin::text FROM \"{schema}\".jobs WHERE state = 'processing'"
    )
    assert (len(answer.claims), len(written)) == (10, 1)
    worker.close()
