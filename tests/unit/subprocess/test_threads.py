"""Threads are made when they are needed and kept."""

import os
import threading
import time

import pytest

from jobq_subprocess.threads import Threads

WITHIN = 30


def test_one_that_is_free_is_used_again():
    threads = Threads("test", print)
    seen = []
    done = threading.Semaphore(0)

    def work(wake):
        seen.append(threading.get_ident())
        threads.free()
        done.release()

    for _ in range(10):
        threads.run(work)
        assert done.acquire(timeout=WITHIN)
    threads.close(WITHIN)
    assert len(set(seen)) == 1


def test_an_idle_thread_holds_no_descriptor():
    threads = Threads("test", print)
    before = os.listdir("/proc/self/fd")
    barrier = threading.Barrier(5)
    over = threading.Semaphore(0)
    for _ in range(4):
        threads.hand(lambda wake: barrier.wait(WITHIN), over.release)
    barrier.wait(WITHIN)
    for _ in range(4):
        assert over.acquire(timeout=WITHIN)
    deadline = time.monotonic() + WITHIN
    while os.listdir("/proc/self/fd") != before:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    threads.close(WITHIN)


def test_work_never_waits_for_other_work():
    threads = Threads("test", print)
    barrier = threading.Barrier(5)

    def work(wake):
        barrier.wait(WITHIN)
        threads.free()

    for _ in range(4):
        threads.run(work)
    barrier.wait(WITHIN)
    threads.close(WITHIN)
    assert not barrier.broken
    assert not [thread for thread in threading.enumerate() if thread.name == "test"]


def test_a_thread_that_cannot_be_started_costs_no_descriptor(monkeypatch):
    def fail(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", fail)
    threads = Threads("test", print)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(RuntimeError):
        threads.run(lambda wake: None)
    assert os.listdir("/proc/self/fd") == before
