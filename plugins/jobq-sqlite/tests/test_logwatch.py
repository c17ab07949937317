"""The log is not kept from being begun anew by a search whose answers nobody takes."""

import os
import time

import pytest

from jobq.store import Query
from jobq.testing import START
from jobq_sqlite import connecting, logwatch

WITHIN = 30


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(logwatch, "LIMIT", 1 << 20)
    monkeypatch.setattr(logwatch, "LOOK_SECONDS", 0.01)


def grow(kit, store, beyond):
    """Write until the log is longer than that, with all that is there a reason to begin it anew."""
    log = f"{kit.path}-wal"
    number = 0
    while os.path.getsize(log) <= beyond:
        number += 1
        store.pause(f"q{number % 50}", True, reason=f"{number}" * 40, now=START)


def until(ask):
    end = time.monotonic() + WITHIN
    while not ask():
        assert time.monotonic() < end
        time.sleep(0.002)


def fill(kit):
    store = kit.open(durability="normal")
    kit.add(store, *(f"j{number:04}" for number in range(1000)))
    return store


def test_a_search_that_lets_the_log_grow_is_read_to_its_end(kit):
    store, other = fill(kit), kit.open()
    found = other.find(Query())
    first = next(found)
    grow(kit, store, logwatch.LIMIT)
    until(lambda: not other._database._readings)
    kit.add(store, "later")
    assert [first.id, *(job.id for job in found)] == [f"j{number:04}" for number in range(1000)]


def test_one_that_does_not_goes_on_holding_what_it_reads(kit):
    fill(kit)
    other = kit.open()
    found = other.find(Query())
    next(found)
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        assert other._database._readings
    assert sum(1 for _ in found) == 999


def test_the_log_is_cut_once_it_is_begun_anew(kit, monkeypatch):
    set_up = connecting._set_up

    def limited(*arguments, **options):
        connection = set_up(*arguments, **options)
        assert connection.execute("PRAGMA journal_size_limit").fetchall() == [(logwatch.LIMIT,)]
        return connection

    monkeypatch.setattr(connecting, "_set_up", limited)
    store, other = fill(kit), kit.open()
    monkeypatch.setattr(logwatch, "LOOK_SECONDS", 1000)
    found = other.find(Query())
    grow(kit, store, 8 << 20)
    del found

    def cut():
        store.pause("a", True, reason=str(time.monotonic()), now=START)
        return os.path.getsize(f"{kit.path}-wal") <= logwatch.LIMIT

    until(cut)


def test_its_thread_ends_with_the_last_search(kit):
    fill(kit)
    other = kit.open()
    found = other.find(Query())
    thread = other._database._log._thread
    assert thread.is_alive()
    del found
    thread.join(WITHIN)
    assert not thread.is_alive()
    assert len(kit.ids(other)) == 1000


def test_a_search_that_finds_little_has_no_thread(kit):
    store = kit.open()
    kit.add(store, "one", "two")
    found = store.find(Query())
    assert store._database._log._thread is None
    assert len(list(found)) == 2
