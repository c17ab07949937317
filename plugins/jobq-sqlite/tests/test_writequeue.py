"""Writers take turns: in their order, within a limit, and whatever becomes of one."""

import _thread
import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from jobq.errors import StoreLocked, StoreUnavailable
from jobq.testing import START, make_job, new
from jobq.testing.forks import Fork
from jobq_sqlite import writequeue
from jobq_sqlite.writequeue import WriteQueue

WITHIN = 10


@pytest.fixture
def make_queue(tmp_path):
    made = []

    def make():
        made.append(WriteQueue(str(tmp_path / "lock")))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def limit(monkeypatch):
    monkeypatch.setattr(writequeue, "LIMIT", 0.05)


@pytest.fixture
def held(tmp_path):
    """The lock, held by somebody else until it is closed."""
    descriptor = os.open(tmp_path / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    with open(descriptor, "rb") as file:
        yield file


def until(ask):
    end = time.monotonic() + WITHIN
    while not ask():
        assert time.monotonic() < end
        time.sleep(0.002)


def is_free(path):
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_who_waits_gets_the_turn_when_it_is_free(make_queue, held, tmp_path):
    mine, had = make_queue(), threading.Event()

    def write():
        for _ in range(3):
            with mine.taken():
                assert not is_free(tmp_path / "lock")
        had.set()

    thread = threading.Thread(target=write)
    thread.start()
    assert not had.wait(0.05)
    held.close()
    assert had.wait(WITHIN)
    thread.join()
    assert is_free(tmp_path / "lock")


def test_who_has_the_turn_keeps_it(make_queue, tmp_path):
    mine = make_queue()
    with mine.taken():
        with mine.taken():
            pass
        assert not is_free(tmp_path / "lock")
    assert is_free(tmp_path / "lock")


def test_a_wait_has_an_end_and_leaves_nothing_behind(make_queue, held, limit, tmp_path):
    mine = make_queue()
    for _ in range(3):
        with pytest.raises(StoreLocked, match="has held"), mine.taken():
            raise AssertionError("nobody let go of it")
    held.close()
    until(lambda: is_free(tmp_path / "lock"))  # those who waited in vain have let go of it too
    with mine.taken():
        assert not is_free(tmp_path / "lock")


def test_a_wait_that_is_interrupted_leaves_nothing_behind(make_queue, held, monkeypatch, tmp_path):
    mine = make_queue()
    wait = writequeue._Waiter.wait

    def interrupted(waiter, limit):
        wait(waiter, 0.05)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(writequeue._Waiter, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), mine.taken():
            raise AssertionError("nobody let go of it")
    held.close()
    until(lambda: is_free(tmp_path / "lock"))
    with mine.taken():
        pass


def test_without_room_for_a_thread_it_is_an_error_of_the_store(make_queue, held, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(writequeue._thread, "start_new_thread", refuse)
    with pytest.raises(StoreUnavailable, match="thread"), make_queue().taken():
        raise AssertionError("nobody let go of it")


def test_threads_that_waited_end_with_their_handle(make_queue, held):
    before = _thread._count()
    mine = make_queue()
    thread = threading.Thread(target=lambda: mine.taken().__enter__())
    thread.start()
    held.close()
    thread.join()
    mine.close()
    until(lambda: _thread._count() <= before)


def waits_in_the_system(path):
    """Whether somebody is in the system's own queue for the lock of a file, as proc_locks(5) shows it."""
    inode = f":{path.stat().st_ino} "
    return any("->" in line and inode in line for line in Path("/proc/locks").read_text().splitlines())


@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the system does not tell who waits for a lock")
def test_who_waits_is_in_the_systems_queue_and_does_not_ask_again_and_again(make_queue, held, tmp_path):
    """Those who ask let thousands of turns of others pass, who never pause."""
    had = threading.Event()

    def take():
        with make_queue().taken():
            had.set()

    thread = threading.Thread(target=take)
    thread.start()
    until(lambda: waits_in_the_system(tmp_path / "lock"))
    assert not had.is_set()
    held.close()
    thread.join()
    assert had.is_set()
    assert not waits_in_the_system(tmp_path / "lock")


def test_a_store_whose_turn_is_held_says_so_and_reads_on(kit, limit):
    listed = kit.furnish()
    with (kit.home / "queue.sqlite3.lock").open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        store = kit.open()
        with pytest.raises(StoreLocked) as caught:
            store.add(new(make_job("new")), now=START)
        assert caught.value.exit_code == 5
        assert kit.ids(store) == listed
    kit.add(store, "new")


def test_the_death_of_who_has_the_turn_frees_it(make_queue):
    def die(say):
        mine = make_queue()
        with mine.taken():
            say("mine")
            threading.Event().wait()

    with Fork(die) as fork:
        assert fork.hear() == "mine"
        fork.kill()
        with make_queue().taken():
            pass
