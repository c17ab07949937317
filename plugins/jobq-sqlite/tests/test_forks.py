"""Forks beside other threads: none crashes, none waits for ever, and a child has nothing open of its parent's."""

import fcntl
import gc
import os
import signal
import threading
import warnings
from contextlib import suppress

import pytest

from jobq.errors import StoreLocked
from jobq.store import Query
from jobq.testing import START
from jobq.testing.forks import Fork
from jobq_sqlite import finding, forking, reading, writequeue

WITHIN = 60


@pytest.fixture(autouse=True)
def no_warning_of_threads():
    """That there are others is what this is about."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def fork():
    """Fork a child that ends at once; its exit code."""
    pid = None
    while pid is None:
        with suppress(RuntimeError):  # filelock, which the kernel uses, refuses one beside another
            pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def together(*acts):
    """Run these at once, each in a thread; what they raised."""
    raised = []

    def run(act):
        try:
            act()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=[act], daemon=True) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WITHIN)
        assert not thread.is_alive(), "it waits for ever"
    return raised


def many(kit, number=1500):
    store = kit.open()
    kit.add(store, *(f"j{each:04}" for each in range(number)))
    return store


def test_a_search_in_another_thread_goes_on(kit):
    many(kit)
    mine, found, over = kit.open(), [], threading.Event()

    def read():
        try:
            found.extend(len(kit.ids(mine)) for _ in range(15))
        finally:
            over.set()

    def forks():
        while not over.is_set():
            assert fork() == 0

    assert together(read, forks) == []
    assert found == [1500] * 15


def test_nobody_forks_in_the_middle_of_a_page(kit, monkeypatch):
    store = many(kit)
    free, some = [], reading.islice

    def paged(records, most):
        for number, record in enumerate(some(records, most)):
            if number == 3:
                asker = threading.Thread(target=lambda: free.append(store._database.using.acquire(blocking=False)))
                asker.start()
                asker.join()
            yield record

    monkeypatch.setattr(reading, "islice", paged)
    assert len(kit.ids(store)) == 1500
    assert len(free) > 5
    assert not any(free)


def test_threads_that_fork_at_once_all_come_through(kit):
    many(kit, 10)
    second = kit.open()
    kit.ids(second)

    def forks():
        for _ in range(15):
            assert fork() == 0

    assert together(*[forks] * 4) == []
    assert forking._closed == []
    for store in kit.stores:
        assert together(lambda store=store: kit.ids(store)) == [], "its lock was given back"


def test_what_cannot_be_read_before_a_fork_is_told_to_who_takes_it(kit, monkeypatch):
    store = many(kit)
    found = store.find(Query())
    assert next(found).id == "j0000"
    (under_way,) = store._database._readings

    def broken():
        raise OSError(5, "the disk is broken")
        yield

    under_way._records = broken()
    assert fork() == 0
    assert store._database._readings == set()
    with pytest.raises(Exception, match="the disk is broken"):
        list(found)
    assert list(found) == []


def test_a_handler_that_forks_in_the_middle_of_a_read_leaves_it_alone(kit, monkeypatch):
    store = many(kit)
    both = [store.find(Query()), store.find(Query())]
    while both:
        list(both.pop())
    assert len(store._database._idle) == 2
    codes, only = [], finding.only

    def interrupted(cursor):
        if not codes:
            codes.append(None)
            signal.raise_signal(signal.SIGUSR1)
            assert store._database._idle == [], "the others were closed"
        return only(cursor)

    before = signal.signal(signal.SIGUSR1, lambda *_: codes.append(fork()))
    try:
        monkeypatch.setattr(finding, "only", interrupted)
        assert kit.ids(store, prefix="j") == [f"j{each:04}" for each in range(1500)]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert codes == [None, 0]
    assert store.check() == []


def test_a_search_that_is_given_up_while_the_database_is_used_waits_for_nobody(kit):
    store = many(kit)
    found = store.find(Query())
    has, done = threading.Event(), threading.Event()

    def use():
        with store._database.using:
            has.set()
            assert done.wait(WITHIN)

    user = threading.Thread(target=use)
    user.start()
    assert has.wait(WITHIN)
    del found
    gc.collect()
    assert len(store._database._readings) == 1  # as long as it is used: whoever uses it next ends what is unwanted
    done.set()
    user.join()
    kit.ids(store)
    assert store._database._readings == set()


def test_a_child_writes_while_its_parent_waits_no_more_for_the_turn(kit, monkeypatch):
    """The descriptor on which a thread of the parent waited in vain is the child's too, and the lock with it."""
    store = many(kit, 3)
    monkeypatch.setattr(writequeue, "LIMIT", 0.05)
    with (kit.home / "queue.sqlite3.lock").open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked):
            kit.add(store, "late")

        def live(say):
            say("here")
            signal.pause()

        child = Fork(live)
        with child:
            assert child.hear() == "here"
            fcntl.flock(held, fcntl.LOCK_UN)
            monkeypatch.setattr(writequeue, "LIMIT", 10)
            kit.add(store, "new")
            store.pause("a", True, now=START)
    assert "new" in kit.ids(store)
