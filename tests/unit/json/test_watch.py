"""Being woken by the bell and by the end of a worker."""

import os
import signal
import threading
import time

import pytest

from jobq import lifecycle, watching
from jobq.job import Change
from jobq.store import Wanted
from jobq.testing import START, make_info

SOON = 10
"""Seconds within which a wake must come; it comes within one millisecond, but machines are busy."""


@pytest.fixture(params=["inotify", "looking"])
def woken(kit, monkeypatch, request):
    """A store that is watched, and the event that its wakes set."""
    if request.param == "looking":
        monkeypatch.setattr(watching, "_inotify", _none)
    event = threading.Event()
    store = kit.open()
    assert store.watch(event.set)
    return event


def _none(*_):
    raise OSError("no inotify")


def test_what_makes_a_job_claimable_wakes(kit, woken):
    other = kit.open()
    presence = other.join(make_info())
    kit.add(other, "one")
    assert woken.wait(SOON)
    (claim,) = other.claim(presence, wanted=Wanted(), limit=1, now=START).claims
    woken.clear()
    other.change(claim.job, lifecycle.cancel(claim.job, now=START), now=START)
    assert woken.wait(SOON)
    kit.add(other, "two")
    woken.clear()
    other.change(other.get("two"), Change({"priority": 5}), now=START)
    assert woken.wait(SOON)
    woken.clear()
    other.pause("default", True, now=START)
    other.pause("default", False, now=START)
    assert woken.wait(SOON)
    presence.close()


def test_a_killed_worker_wakes_the_others_who_find_what_it_held(kit, woken):
    store = kit.open()
    kit.add(store, "one")
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            mine = kit.open()
            presence = mine.join(make_info("doomed"))
            mine.claim(presence, wanted=Wanted(), limit=1, now=START)
            os.write(write, b"!")
            signal.pause()
        finally:
            os._exit(1)
    assert os.read(read, 1) == b"!"
    assert [each.id for each in store.workers()] == ["doomed"]
    assert store.lost(now=START) == []
    woken.clear()
    os.kill(pid, signal.SIGKILL)
    assert woken.wait(SOON)
    end = time.monotonic() + SOON
    while not (lost := store.lost(now=START)):  # it may have been woken for something else first
        assert time.monotonic() < end
        woken.wait(0.05)
    ((worker, (claim,)),) = lost
    assert (worker.id, claim.job.id, claim.run) == ("doomed", "one", 1)
    os.waitpid(pid, 0)
    os.close(read)
    os.close(write)


@pytest.mark.parametrize("means", ["inotify", "looking"])
def test_a_worker_that_leaves_wakes(kit, monkeypatch, means):
    if means == "looking":
        monkeypatch.setattr(watching, "_inotify", _none)
    presence = kit.open().join(make_info())
    event = threading.Event()
    kit.open().watch(event.set)
    presence.close()
    assert event.wait(SOON)


def test_reports_of_progress_wake_nobody(kit, monkeypatch):
    event = threading.Event()
    store = kit.open()
    info = make_info()
    presence = store.join(info)
    assert store.watch(event.set)
    seen = []
    monkeypatch.setattr(store._watch, "_wake", lambda: (seen.append("wake"), event.set()))
    for _ in range(5):
        store.report(presence, info)
    kit.add(store, "one")
    assert event.wait(SOON)
    store._watch.close()
    assert seen == ["wake"]
    presence.close()


def test_nothing_is_woken_after_the_end(kit, woken):
    store = kit.stores[0]
    store.close()
    threads = [thread.name for thread in threading.enumerate()]
    assert "jobq-watch" not in threads
    woken.clear()
    kit.add(kit.open(), "one")
    assert not woken.is_set()


def test_watching_twice_leaves_one_watch(kit):
    store = kit.open()
    first, second = threading.Event(), threading.Event()
    store.watch(first.set)
    store.watch(second.set)
    kit.add(kit.open(), "one")
    assert second.wait(SOON)
    assert not first.is_set()
    assert [thread.name for thread in threading.enumerate()].count("jobq-watch") == 1


def test_a_worker_without_files_is_lost_with_what_it_held(kit):
    store = kit.open()
    kit.add(store, "one")
    presence = store.join(make_info("vanished"))
    store.claim(presence, wanted=Wanted(), limit=1, now=START)
    presence.close()
    ((worker, (claim,)),) = kit.open().lost(now=START)
    assert (worker.id, claim.job.id) == ("vanished", "one")


def test_a_worker_that_came_and_died_between_two_looks_is_seen(kit, monkeypatch):
    monkeypatch.setattr(watching, "_inotify", _none)
    store = kit.open()
    kit.add(store, "one")
    looking = watching.Watch(kit.queue / "bell", kit.queue.parent / "workers", lambda: None)
    try:
        before = looking._state()
        presence = store.join(make_info("short-lived"))
        presence.close(clean=False)
        assert looking._state() != before
    finally:
        looking.close()
