"""Handles across forks, in several processes, and killed in the middle of what they do."""

import os
import random
import signal
from datetime import timedelta

import pytest

from jobq import lifecycle
from jobq.errors import JobNotFound
from jobq.job import ENDED, WAITING, Change, State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.forks import Fork
from jobq_sqlite.database import Database


def fill(kit, store, count=1000):
    kit.add(store, *(f"j{number:04}" for number in range(count)))


def test_a_handle_and_a_search_go_on_in_parent_and_child(kit):
    store = kit.open()
    fill(kit, store)
    found = store.find(Query())
    assert next(found).id == "j0000"

    def child(say):
        store.add(new(make_job("child")), now=START)
        say([len(list(found)), len(kit.ids(store))])

    with Fork(child) as fork:
        assert fork.hear() == [999, 1001]
        assert fork.wait() == 0
    assert [job.id for job in found][-1] == "j0999"
    assert store.get("child").state is State.PENDING
    assert store.check() == []


def test_what_a_child_stores_is_there_after_its_parent_closed(kit):
    """In the child SQLite must not think that it holds its parent's locks: the log would go away under its feet."""
    store = kit.open()
    fill(kit, store, 10)

    def child(say):
        mine = kit.open()
        kit.add(mine, "before")
        say("added")
        signal.sigwait({signal.SIGUSR1})
        kit.add(mine, "after")
        say("added")

    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    try:
        with Fork(child) as fork:
            assert fork.hear() == "added"
            kit.close()
            other = kit.open()
            kit.add(other, "meanwhile")
            kit.close()
            os.kill(fork._pid, signal.SIGUSR1)
            assert fork.hear() == "added"
            assert fork.wait() == 0
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGUSR1})
    assert kit.ids(kit.open())[-3:] == ["before", "meanwhile", "after"]
    assert kit.open().check() == []


def test_a_search_is_of_its_moment_whatever_is_done_meanwhile(kit):
    store, other = kit.open(), kit.open()
    fill(kit, store)
    found = store.find(Query())
    first = next(found)
    assert len(kit.work(other, limit=900)) == 900
    other.prune(states=ENDED, before=START + timedelta(days=1), limit=900)
    store.add(new(make_job("new")), now=START)
    assert [first.id, *(job.id for job in found)] == [f"j{number:04}" for number in range(1000)]
    assert len(kit.ids(store)) == 101


def test_a_search_that_is_given_up_holds_nothing(kit):
    store = kit.open()
    fill(kit, store)
    for _ in range(50):
        next(store.find(Query()))
    assert len(store._database._idle) <= 2


def test_a_search_ends_with_what_it_read_when_its_store_is_closed(kit):
    store = kit.open()
    fill(kit, store)
    found = store.find(Query())
    store.close()
    assert sum(1 for _ in found) == 1000


@pytest.mark.parametrize("statement", range(1, 40, 3))
def test_one_that_is_killed_in_the_middle_of_a_transaction_leaves_nothing_of_it(kit, statement):
    listed = kit.furnish()
    kit.close()

    def child(say):
        store = kit.open()
        writing, left = Database.writing, [statement]

        class Counting:
            def __init__(self, connection):
                self._connection = connection

            def __getattr__(self, name):
                left[0] -= 1
                if left[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return getattr(self._connection, name)

        def doomed(database, act, before=None):
            made = writing(database, act, before)
            return Entered(made, Counting(made.__enter__()))

        class Entered:
            def __init__(self, made, connection):
                self._made, self._connection = made, connection

            def __enter__(self):
                return self._connection

            def __exit__(self, *error):
                return self._made.__exit__(*error)

        Database.writing = doomed
        presence = store.join(make_info())
        claims = store.claim(presence, wanted=Wanted(), limit=3, now=START).claims
        say([each.job.id for each in claims])
        store.add(new(*(make_job(f"new-{number}", tags=("x",)) for number in range(20))), now=START)
        say("added")
        signal.pause()

    with Fork(child) as fork:
        said = []
        while (what := fork.hear()) is not None and what != "added":
            said.append(what)
        if what == "added":
            fork.kill()
        assert fork.wait() == -signal.SIGKILL
    store = kit.open()
    assert store.check() == []
    running = kit.ids(store, states=frozenset({State.PROCESSING}))
    assert sorted(running) == (sorted(said[0]) if said else [])
    assert [name for name in kit.ids(store) if name.startswith("new-")] == (
        [f"new-{number}" for number in range(20)] if what == "added" else []
    )
    assert len(listed) == 7
    kit.add(store, "goes-on")


def test_counts_are_right_after_any_history(kit):
    chance, stores = random.Random(7), [kit.open(), kit.open()]
    presence = stores[0].join(make_info())
    now, held = START, []
    for number in range(300):
        store = chance.choice(stores)
        now += timedelta(seconds=chance.random())
        act = chance.randrange(8)
        if act < 3:
            jobs = [
                make_job(
                    f"j{number}-{part}",
                    queue=chance.choice("abc"),
                    priority=chance.choice((0, 0, 5)),
                    losses=chance.choice((0, 0, 2)),
                    tags=chance.choice(((), ("x",), ("x", "y"))),
                    run_at=now + timedelta(seconds=chance.choice((0, 0, 60))),
                    **chance.choice(({}, {"handler": "h"})),
                )
                for part in range(chance.randrange(1, 4))
            ]
            store.add(new(*jobs), now=now)
        elif act < 5:
            held += store.claim(presence, wanted=Wanted(), limit=3, now=now).claims
        elif act == 5 and held:
            from jobq.testing.store_fixtures import failure, release, success

            end = chance.choice((success, failure, release))
            store.finish(presence, [end(held.pop(), now=now)], now=now)
        elif act == 6:
            waiting = list(store.find(Query(states=WAITING, limit=3)))
            if waiting:
                store.change(waiting[-1], chance.choice((lifecycle.cancel(waiting[-1], now=now), MOVE)), now=now)
        else:
            store.prune(states=ENDED, before=now - timedelta(seconds=20), limit=2)
            store.delete(list(store.find(Query(states=ENDED, limit=1))))
        if number % 20 == 0:
            assert store.check() == []
    recount = {}
    for job in stores[1].find(Query()):
        recount.setdefault(job.queue, dict.fromkeys(State, 0))[job.state] += 1
    assert stores[0].counts(now=now).queues == recount
    assert stores[0].check() == []
    presence.close()


MOVE = Change({"queue": "c", "tags": ("moved",), "priority": 9})


def test_check_tells_of_numbers_columns_tags_and_records_that_are_wrong(kit):
    kit.furnish()
    store = kit.stores[0]
    kit.sql("UPDATE lanes SET jobs = jobs + 1 WHERE queue = 'mail'")
    assert store.check() == ["2 pending jobs are counted in queue mail, but 1 are there"]
    kit.sql("UPDATE lanes SET jobs = jobs - 1 WHERE queue = 'mail'", "UPDATE jobs SET priority = 8 WHERE id = 'one'")
    assert store.check() == ["the columns of job one are not what its record says"]
    kit.sql("UPDATE jobs SET priority = 0 WHERE id = 'one'", "DELETE FROM tags WHERE tag = 'red' AND seq = 1")
    assert store.check() == ["the tags of job done-1 are not what its record says"]
    kit.sql("INSERT INTO tags VALUES ('red', 1)", "UPDATE jobs SET record = '{' || record WHERE id = 'two'")
    assert "the record of job two is damaged" in store.check()


def test_what_is_no_unicode_is_found_nowhere(kit):
    kit.furnish()
    (store,) = kit.stores
    for wanted in ({"tag": "\udcff"}, {"queue": "\udcff"}, {"handler": "\udcff"}, {"prefix": "\udcff"}):
        assert kit.ids(store, **wanted) == []
    assert kit.ids(store, tag="ü") == []
    assert store.get_many(["\udcff", "one"]).keys() == {"one"}
    with pytest.raises(JobNotFound):
        store.get("\udcff")
