"""A disk that is full or fails, and a database that others hold: exit code 5, and everything as it was before."""

import resource
import signal
import sqlite3
from contextlib import closing

import pytest

from jobq.errors import StoreError, StoreLocked, StoreUnavailable
from jobq.job import State
from jobq.store import Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.forks import Fork
from jobq.testing.store_fixtures import success
from jobq_sqlite import connecting
from jobq_sqlite.trouble import told


def test_a_full_disk_is_an_error_of_the_store_and_nothing_is_half_done(kit):
    listed = kit.furnish()
    kit.close()

    def fill(say):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store = kit.open()
        presence = store.join(make_info("w" * 16))
        (held,) = store.claim(presence, wanted=Wanted(), limit=1, now=START).claims
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, resource.RLIM_INFINITY))
        for _ in range(3):
            try:
                store.add(new(*(make_job(handler="h", payload="x" * 100_000) for _ in range(10))), now=START)
                say("added")
            except StoreUnavailable as error:
                say([error.exit_code, "queue.sqlite3" in str(error)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert store.finish(presence, [success(held)], now=START) == []
        presence.close()
        say(held.job.id)

    with Fork(fill) as fork:
        assert [fork.hear() for _ in range(3)] == [[5, True]] * 3
        done = fork.hear()
        assert fork.wait() == 0
    store = kit.open()
    assert sorted(kit.ids(store)) == sorted(listed)
    assert store.get(done).state is State.COMPLETED
    assert store.check() == []


def test_a_database_that_cannot_grow_is_full(kit, monkeypatch):
    listed = kit.furnish()
    kit.close()
    set_up = connecting._set_up

    def bounded(path, mode, *, durable):
        connection = set_up(path, mode, durable=durable)
        ((pages,),) = connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(connecting, "_set_up", bounded)
        store = kit.open()
        with pytest.raises(StoreUnavailable, match="full"):
            store.add(new(*(make_job(handler="h", payload="x" * 10_000) for _ in range(10))), now=START)
        assert kit.ids(store) == listed
        assert store.check() == []
    kit.add(kit.open(), "new")


def test_somebody_elses_transaction_that_lasts_is_told(kit, monkeypatch):
    kit.furnish()
    kit.close()
    monkeypatch.setattr(connecting, "LIMIT", 0.05)
    with closing(sqlite3.connect(kit.path, isolation_level=None)) as theirs:
        theirs.execute("BEGIN IMMEDIATE")
        store = kit.open()
        with pytest.raises(StoreLocked, match="held"):
            kit.add(store, "new")
        theirs.execute("ROLLBACK")
    kit.add(store, "new")
    assert "new" in kit.ids(store)


def test_whatever_sqlite_says_is_an_error_of_the_store():
    for error in (sqlite3.OperationalError("any"), sqlite3.ProgrammingError("closed"), sqlite3.DatabaseError("any")):
        found = told(error, "/somewhere")
        assert isinstance(found, StoreError)
        assert found.exit_code == 5
        assert "/somewhere" in str(found)
