"""What a handle saw before it had the lock, brought with it over a fork, or was told by a record, is not believed."""

import contextlib
import os

import pytest

from jobq import lifecycle
from jobq.codec import encode
from jobq.errors import JobChanged, JobNotFound, StoreLocked
from jobq.job import Change
from jobq.store import Wanted
from jobq.testing import make_info
from jobq_json import directory, locking


@pytest.fixture
def before_lock(monkeypatch):
    """`before_lock(act)`: once, somebody does something right before the lock is taken."""
    real, acts = directory.Directory.held, []

    @contextlib.contextmanager
    def held(self):
        if acts:
            acts.pop()()
        with real(self):
            yield

    monkeypatch.setattr(directory.Directory, "held", held)
    return acts.append


def cancel(store, name, now):
    job = store.get(name)
    return store.change(job, lifecycle.cancel(job, now=now), now=now)


def test_what_was_changed_before_the_lock_is_not_changed_by_an_old_copy(kit, before_lock):
    store, other = kit.open(), kit.open()
    kit.add(store, "one", "two")
    kit.compact(store)
    job = store.get("one")
    before_lock(lambda: cancel(other, "one", kit.START))
    with pytest.raises(JobChanged):
        store.change(job, Change({"priority": 7}), now=kit.START)
    before_lock(lambda: other.delete([other.get("two")]))
    with pytest.raises(JobNotFound):
        store.change(store.get("two"), Change({"priority": 7}), now=kit.START)


@pytest.mark.parametrize("act", ["change", "delete", "prune"])
def test_what_was_moved_before_the_lock_is_found_again(kit, before_lock, act):
    store, other = kit.open(), kit.open()
    kit.add(store, "one", "two", "three")
    cancel(store, "two", kit.START)
    cancel(store, "one", kit.START)
    kit.add(store, "four", "five")
    kit.compact(store)
    kit.add(store, "first", priority=1)
    kit.jobs(store)

    def move():
        other.delete([other.get("two")])
        kit.compact(other)

    before_lock(move)
    if act == "prune":
        states = frozenset({store.get("one").state})
        before = kit.START.replace(year=kit.START.year + 1)
        assert store.prune(states=states, before=before, limit=10) == ["one"]
        left = ["first", "three", "four", "five"]
    elif act == "delete":
        assert store.delete([store.get("four")]) == ["four"]
        left = ["first", "three", "five", "one"]
    else:
        cancel(store, "four", kit.START)
        left = ["first", "three", "five", "four", "one"]
    for _ in range(2):
        assert [job.id for job in kit.jobs(kit.open())] == left
        assert store.check() == []
        kit.compact(store)


def test_a_forked_handle_does_not_share_the_lock_of_its_parent(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    monkeypatch.setattr(locking, "LOCK_LIMIT", 0.05)
    with store.access.directory.held():
        pid = os.fork()
        if pid == 0:
            try:
                kit.add(store, "two")
                os._exit(1)
            except StoreLocked:
                os._exit(0)
            except BaseException:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [job.id for job in kit.jobs(store)] == ["one"]


def test_the_place_in_a_record_is_a_hint(kit):
    store = kit.open()
    kit.add(store, "one", "two", "three")
    kit.compact(store)
    with store.access.writing() as generation:
        view = generation.view_locked()
        places = {name: place for name, (_, place) in view.locate(["one", "two", "three"]).items()}
        record = {"op": "del", "jobs": [["one", places["two"]], ["three", 10**9]]}
        generation.journal.append(encode(record), next_seq=view.seq)
    assert [job.id for job in kit.jobs(kit.open())] == ["two"]
    assert kit.open().check() == []
    assert kit.warned == []


def test_what_somebody_else_has_claimed_is_claimed_by_nobody_else(kit):
    store, other = kit.open(), kit.open()
    kit.add(store, "one", "two", "three")
    kit.compact(store)
    here, there = store.join(make_info()), other.join(make_info())
    for handle, member in ((store, here), (other, there)):
        assert handle.claim(member, wanted=Wanted(), limit=0, now=kit.START).claims == []
        assert handle.next_due(Wanted(), now=kit.START) == kit.START
    claimed = [
        each.job.id
        for handle, member in ((store, here), (other, there), (store, here), (other, there))
        for each in handle.claim(member, wanted=Wanted(), limit=1, now=kit.START).claims
    ]
    assert claimed == ["one", "two", "three"]
    assert store.next_due(Wanted(), now=kit.START) is None
    here.close()
    there.close()


def test_a_compaction_puts_each_job_into_its_place_once(kit):
    store = kit.open()
    kit.add(store, "third", "fourth")
    kit.compact(store)
    kit.add(store, "fifth")
    for name, priority in (("second", 1), ("third", 0), ("first", 2)):
        if name == "third":
            cancel(store, name, kit.START)
            job = store.get(name)
            store.change(job, lifecycle.retry(job, now=kit.START), now=kit.START)
        else:
            kit.add(store, name, priority=priority)
    early = kit.START.replace(year=kit.START.year - 1)
    kit.add(store, "soon", "sooner", run_at=early)
    job = store.get("sooner")
    store.change(job, Change({"run_at": early.replace(year=early.year - 1)}), now=kit.START)
    order = ["first", "second", "sooner", "soon", "third", "fourth", "fifth"]
    for _ in range(2):
        assert [job.id for job in kit.jobs(kit.open())] == order
        assert store.check() == []
        kit.compact(store)
