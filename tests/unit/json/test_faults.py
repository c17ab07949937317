"""A disk that fails: nothing is acknowledged that is not there, nothing is lost that was acknowledged."""

import errno
import os

import pytest

from jobq import files, lifecycle
from jobq.errors import StoreUnavailable
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.store import Ended, Wanted
from jobq.testing import START, make_info
from jobq_json import access, journal


def names(kit):
    store = kit.open()
    assert store.check() == []
    return [job.id for job in kit.jobs(store)]


@pytest.fixture
def failing(monkeypatch):
    """Makes syncs fail: those whose number is in the set given, counted from the call on."""

    real = files.sync

    def install(numbers):
        count = iter(range(10**9))

        def sync(descriptor):
            if next(count) in numbers:
                raise OSError(errno.EIO, "Input/output error")
            real(descriptor)

        monkeypatch.setattr(files, "sync", sync)

    return install


def test_after_a_failed_sync_a_new_generation_is_acknowledged(kit, failing):
    store = kit.open()
    kit.add(store, "one")
    before = kit.file("journal")
    failing({0})
    kit.add(store, "two")
    assert kit.file("journal") != before
    assert names(kit) == ["one", "two"]
    kit.add(store, "three")
    assert names(kit) == ["one", "two", "three"]


def test_a_journal_whose_sync_failed_is_not_written_to_again(kit, failing):
    store = kit.open()
    kit.add(store, "one")
    before = kit.file("journal")
    failing({0, 1, 2, 3})
    with pytest.raises(StoreUnavailable):
        kit.add(store, "two")
    size = before.stat().st_size
    with pytest.raises(StoreUnavailable):
        kit.add(store, "three")
    assert before.stat().st_size == size
    failing(set())
    kit.add(store, "four")
    assert not before.exists()
    assert names(kit)[0] == "one"
    assert names(kit)[-1] == "four"


@pytest.mark.parametrize("number", range(4), ids=["archive", "run", "manifest", "journal"])
def test_a_compaction_whose_sync_fails_changes_nothing(kit, failing, number):
    store = kit.open()
    kit.add(store, "one", "two")
    kit.work(store)
    failing({number})
    with pytest.raises(StoreUnavailable):
        kit.compact(store)
    assert {path.name for path in kit.queue.glob("j*.jsonl")} == {"jobs-1.jsonl", "journal-1.jsonl"}
    failing(set())
    assert sorted(names(kit)) == ["one", "two"]
    kit.compact(store)
    assert sorted(names(kit)) == ["one", "two"]


def test_an_end_that_could_not_be_acknowledged_is_no_news_the_second_time(kit, failing):
    store = kit.open()
    kit.add(store, "one")
    presence = store.join(make_info())
    (claim,) = store.claim(presence, wanted=Wanted(), limit=1, now=START).claims
    outcome = Outcome(kind=Kind.SUCCESS, exit_code=0, finished=START)
    ended = [Ended(claim, lifecycle.after(claim, outcome, now=START, delay=lambda *_: None))]
    failing({0, 1})
    with pytest.raises(StoreUnavailable):
        store.finish(presence, ended, now=START)
    failing(set())
    assert store.finish(presence, ended, now=START) == []
    assert store.finish(presence, ended, now=START) == []
    assert kit.open().get("one").state is State.COMPLETED
    assert len(kit.open().get("one").history) == 1
    presence.close()


@pytest.mark.parametrize("written", [0, 1, 50])
def test_a_full_disk_leaves_the_state_before(kit, monkeypatch, written):
    store = kit.open()
    kit.add(store, "one")
    kit.jobs(store)
    whole = kit.file("journal").read_bytes()
    real = os.write

    def write(descriptor, data):
        if len(data) <= written:
            raise OSError(errno.ENOSPC, "No space left on device")
        if written:
            return real(descriptor, bytes(data)[:written])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal.os, "write", write)
    monkeypatch.setattr(files, "write_all", _refuse)
    with pytest.raises(StoreUnavailable, match="No space left"):
        kit.add(store, "two")
    with pytest.raises(StoreUnavailable, match="No space left"):
        store.pause("default", True, now=START)
    monkeypatch.undo()
    assert kit.file("journal").read_bytes() == whole
    assert store.counts(now=START).paused == {}
    assert names(kit) == ["one"]
    kit.add(store, "two")
    assert names(kit) == ["one", "two"]


def _refuse(descriptor, data):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_claim_that_cannot_be_written_was_not_made(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    presence = store.join(make_info())
    monkeypatch.setattr(journal.os, "write", _refuse)
    with pytest.raises(StoreUnavailable):
        store.claim(presence, wanted=Wanted(), limit=1, now=START)
    monkeypatch.undo()
    assert store.held(presence) == []
    assert [each.job.id for each in store.claim(presence, wanted=Wanted(), limit=1, now=START).claims] == ["one"]
    presence.close()


def test_short_writes_are_completed(kit, monkeypatch):
    store = kit.open()
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, bytes(data)[: max(1, len(data) // 2)]))
    kit.add(store, "one", "two")
    kit.work(store)
    kit.compact(store)
    kit.add(store, "three")
    monkeypatch.undo()
    assert sorted(names(kit)) == ["one", "three", "two"]


def test_a_compaction_that_fails_by_itself_fails_no_operation(kit, monkeypatch, failing):
    monkeypatch.setattr(access, "LEAST", 0)
    store = kit.open()
    kit.add(store, "one")
    kit.jobs(store)
    failing({1})
    kit.add(store, "two")
    assert any("could not be compacted" in sentence for sentence in kit.warned)
    assert names(kit) == ["one", "two"]
