"""The writers' lock: who waits for it, and how."""

import fcntl
import os

import pytest
from filelock import FileLock, Timeout

from jobq.errors import StoreLocked
from jobq_json import locking
from jobq_json.locking import LOCK_LIMIT, PATIENCE, WritersLock


@pytest.fixture
def lock(tmp_path):
    lock = WritersLock(tmp_path)
    lock.open()
    yield lock
    lock.close()


@pytest.fixture
def pauses(monkeypatch):
    """How long each pause of those who wait was, with the moment of its beginning; no time goes by but by pausing."""
    now, pauses = [1000.0], []

    def sleep(seconds):
        pauses.append((now[0] - 1000.0, seconds))
        now[0] += seconds

    monkeypatch.setattr(locking.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(locking.time, "sleep", sleep)
    return pauses


def test_who_waits_long_asks_as_often_as_one_that_has_just_come(lock, tmp_path, pauses):
    with open(tmp_path / locking.LOCK, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreLocked, match=r"queue\.lock for 30 s"), lock.held(lambda: None):
            pass
    early = [seconds for moment, seconds in pauses if moment < PATIENCE]
    late = [seconds for moment, seconds in pauses if moment >= PATIENCE]
    assert early == sorted(early)
    assert early[0] <= 0.0001
    assert max(early) == 0.005
    assert set(late[1:]) == {0.0005}
    assert sum(early) + sum(late) == pytest.approx(LOCK_LIMIT, abs=0.01)


def test_it_is_let_go_of(lock, tmp_path):
    with lock.held(lambda: None), open(tmp_path / locking.LOCK, "rb") as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_SH | fcntl.LOCK_NB)
    with open(tmp_path / locking.LOCK, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_one_that_was_closed_meanwhile_is_let_go_of_already(lock, tmp_path):
    with lock.held(lambda: None):
        lock.close()
        os.close(os.open(tmp_path / locking.LOCK, os.O_RDONLY))
    assert not lock.opened


def filelock(directory):
    return FileLock(directory / locking.LOCK, fallback_to_soft=False)


def test_it_and_filelock_keep_one_another_out(lock, tmp_path, pauses):
    with lock.held(lambda: None), pytest.raises(Timeout):
        filelock(tmp_path).acquire(timeout=0)
    with filelock(tmp_path), pytest.raises(StoreLocked), lock.held(lambda: None):
        pass
    assert sum(seconds for _, seconds in pauses) == pytest.approx(LOCK_LIMIT, abs=0.01)
    with filelock(tmp_path).acquire(timeout=0):
        pass
    with lock.held(lambda: None):
        pass
