"""A disk that fails: nothing is acknowledged that is not there, nothing is lost that was acknowledged."""

import contextlib
import errno
import fcntl
import os

import pytest

from jobq import files, lifecycle
from jobq.errors import InvalidInput, StoreLocked, StoreUnavailable
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_info
from jobq_json import access, compaction, directory, journal, locking
from jobq_json.archiving import ArchiveWriter


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


def _ended(claim, kind, **fields):
    outcome = Outcome(kind=kind, finished=START, **fields)
    return Ended(claim, lifecycle.after(claim, outcome, now=START, delay=lambda *_: None))


ENDS = {
    "success": (lambda claim: _ended(claim, Kind.SUCCESS, exit_code=0), State.COMPLETED, 1),
    "taken back": (lambda claim: Ended(claim, lifecycle.taken_back(claim, now=START)), State.PENDING, 0),
    "cancelled": (lambda claim: _ended(claim, Kind.SIGNAL), State.CANCELLED, 1),
}


@pytest.mark.parametrize("what", ENDS)
def test_an_end_that_could_not_be_acknowledged_is_no_news_the_second_time(kit, failing, what):
    end, state, runs = ENDS[what]
    store = kit.open()
    kit.add(store, "one", "two")
    presence = store.join(make_info())
    (claim,) = store.claim(presence, wanted=Wanted(), limit=1, now=START).claims
    if what == "cancelled":
        store.change(store.get("one"), lifecycle.ask(START), now=START)
    ended = [end(claim)]
    failing({0, 1})
    with pytest.raises(StoreUnavailable):
        store.finish(presence, ended, now=START)
    failing(set())
    told = store.claim(presence, wanted=Wanted(), limit=0, now=START, ended=ended)
    assert told.refused == []
    assert [each.job.id for each in told.cancelled] == (["one"] if what == "cancelled" else [])
    job = kit.open().get("one")
    assert (job.state, len(job.history)) == (state, runs)
    presence.close()


def test_an_end_that_was_refused_and_could_not_be_acknowledged_is_refused_the_second_time(kit, failing):
    store = kit.open()
    kit.add(store, "one", "two")
    presence = store.join(make_info())
    one, two = store.claim(presence, wanted=Wanted(), limit=2, now=START).claims
    store.change(one.job, lifecycle.lost(one, now=START, counted=True, max_losses=3), now=START)
    ended = [_ended(one, Kind.SUCCESS, exit_code=0), _ended(two, Kind.SUCCESS, exit_code=0)]
    failing({0, 1})
    with pytest.raises(StoreUnavailable):
        store.finish(presence, ended, now=START)
    failing(set())
    assert store.finish(presence, ended, now=START) == [one]
    presence.close()


@pytest.mark.parametrize("written", [0, 1, 50])
def test_a_full_disk_leaves_the_state_before(kit, monkeypatch, written):
    store = kit.open()
    kit.add(store, "one")
    kit.jobs(store)
    whole = kit.journal()
    real = os.pwrite

    def write(descriptor, data, at):
        if len(data) <= written:
            raise OSError(errno.ENOSPC, "No space left on device")
        if written:
            return real(descriptor, bytes(data)[:written], at)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal.os, "pwrite", write)
    monkeypatch.setattr(files, "write_all", _refuse)
    with pytest.raises(StoreUnavailable, match="No space left"):
        kit.add(store, "two")
    with pytest.raises(StoreUnavailable, match="No space left"):
        store.pause("default", True, now=START)
    monkeypatch.undo()
    assert kit.journal() == whole
    assert store.counts(now=START).paused == {}
    assert names(kit) == ["one"]
    kit.add(store, "two")
    assert names(kit) == ["one", "two"]


def _refuse(descriptor, data, at=None):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_claim_that_cannot_be_written_was_not_made(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    presence = store.join(make_info())
    monkeypatch.setattr(journal.os, "pwrite", _refuse)
    with pytest.raises(StoreUnavailable):
        store.claim(presence, wanted=Wanted(), limit=1, now=START)
    monkeypatch.undo()
    assert store.held(presence) == []
    assert [each.job.id for each in store.claim(presence, wanted=Wanted(), limit=1, now=START).claims] == ["one"]
    presence.close()


def a_part(data):
    return bytes(data)[: max(1, min(len(data) // 2, 100))]


def test_short_writes_are_completed(kit, monkeypatch):
    store = kit.open()
    write, pwrite = os.write, os.pwrite
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, a_part(data)))
    monkeypatch.setattr(os, "pwrite", lambda descriptor, data, at: pwrite(descriptor, a_part(data), at))
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


def fail_beside(kit, failing, store):
    """A sync of another process fails while somebody compacts: it publishes a generation all the same."""
    failing({0})
    kit.add(store, "acknowledged")
    failing(set())


def test_a_generation_published_right_after_a_compaction_is_not_swept(kit, monkeypatch, failing):
    store, other = kit.open(), kit.open()
    kit.add(store, "one", "two")
    real = directory.Directory.held
    due = [store.access.directory]

    @contextlib.contextmanager
    def held(self):
        with real(self):
            yield
        if self in due:
            due.clear()
            fail_beside(kit, failing, other)

    kit.jobs(store)
    monkeypatch.setattr(directory.Directory, "held", held)
    kit.compact(store)
    assert not due
    assert names(kit) == ["one", "two", "acknowledged"]
    kit.add(store, "three")
    kit.compact(store)
    assert len(list(kit.queue.glob("jobs-*"))) == 1
    assert names(kit) == ["one", "two", "acknowledged", "three"]


def test_a_generation_published_right_before_a_compaction_stands(kit, monkeypatch, failing):
    store, other = kit.open(), kit.open()
    kit.add(store, "one", "two")
    kit.jobs(store)
    kit.jobs(other)
    real = compaction._Generation.catch_up

    def interrupted(self):
        real(self)
        fail_beside(kit, failing, other)

    monkeypatch.setattr(compaction._Generation, "catch_up", interrupted)
    assert not store.access.compact()
    assert names(kit) == ["one", "two", "acknowledged"]
    monkeypatch.setattr(compaction._Generation, "catch_up", real)
    kit.compact(store)
    assert names(kit) == ["one", "two", "acknowledged"]


@pytest.mark.parametrize("moment", ["append", "_last", "finish"])
@pytest.mark.parametrize("archive", [True, False])
def test_two_compactions_write_to_no_file_of_each_other(kit, monkeypatch, failing, archive, moment):
    store, other = kit.open(), kit.open()
    kit.add(store, *(f"old-{number}" for number in range(3)))
    kit.work(store, limit=3)
    if archive:
        kit.compact(store)
    kit.add(store, *(f"new-{number}" for number in range(5)))
    kit.work(store, limit=5)
    kit.jobs(other)
    real = getattr(ArchiveWriter, moment)
    seen = {}

    def interrupted(self, *arguments):
        monkeypatch.setattr(ArchiveWriter, moment, real)
        kit.add(other, "later")
        kit.work(other)
        fail_beside(kit, failing, other)
        result = real(self, *arguments)
        seen["jobs"] = kit.jobs(kit.open())
        seen["open"] = kit.open().find(Query())
        return result

    monkeypatch.setattr(ArchiveWriter, moment, interrupted)
    assert not store.access.compact()
    assert len(seen["jobs"]) == 10
    assert list(seen["open"]) == seen["jobs"]
    assert names(kit) == [job.id for job in seen["jobs"]]
    kit.compact(store)
    assert names(kit) == [job.id for job in seen["jobs"]]
    assert len(list(kit.queue.glob("jobs-*"))) == 1


def test_mending_waits_for_a_compaction_but_not_for_ever(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    monkeypatch.setattr(locking, "LOCK_LIMIT", 0.05)
    with compaction.only_one(store.access.directory) as alone:
        assert alone
        with pytest.raises(StoreLocked, match="compact"):
            kit.open().repair()
    assert kit.open().repair() == []


def test_a_large_torn_tail_does_not_hold_up_a_compaction(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    kit.jobs(store)
    with kit.file("journal").open("ab") as file:
        file.write(b'{"op":"add","sizes":[' + b"1," * compaction._CATCH_UP)
    real, calls = compaction._Generation._carry_over, iter(range(5))

    def carry_over(self):
        next(calls)
        return real(self)

    monkeypatch.setattr(compaction._Generation, "_carry_over", carry_over)
    kit.compact(store)
    assert names(kit) == ["one"]


def test_a_record_without_its_line_feed_is_carried_over(kit):
    store = kit.open()
    kit.add(store, "one")
    kit.add(store, "two")
    kit.overwrite(kit.file("journal"), kit.journal()[:-1])
    kit.compact(kit.open())
    assert names(kit) == ["one", "two"]


def test_an_end_that_cannot_be_written_is_named_and_stops_no_other(kit):
    store = kit.open()
    kit.add(store, "one", "two")
    presence = store.join(make_info())
    claims = store.claim(presence, wanted=Wanted(), limit=2, now=START).claims
    deep = []
    for _ in range(100_000):
        deep = [deep]
    size = kit.file("journal").stat().st_size
    for result in (deep, object(), float("nan")):
        outcomes = [Outcome(kind=Kind.SUCCESS, result=value, finished=START) for value in (1, result)]
        ends = [
            Ended(claim, lifecycle.after(claim, outcome, now=START, delay=lambda *_: None))
            for claim, outcome in zip(claims, outcomes, strict=True)
        ]
        with pytest.raises(InvalidInput, match="job two "):
            store.finish(presence, ends, now=START)
    assert kit.file("journal").stat().st_size == size
    assert store.finish(presence, ends[:1], now=START) == []
    assert kit.open().get("one").state is State.COMPLETED
    assert kit.open().get("two").state is State.PROCESSING
    presence.close()


def failing_once(monkeypatch, module, name, number, *, when=lambda *_given: True):
    """The next call of a function fails with that error."""
    call, failed = getattr(module, name), []

    def fail(*given):
        if when(*given) and not failed:
            failed.append(given)
            raise OSError(number, os.strerror(number))
        return call(*given)

    monkeypatch.setattr(module, name, fail)
    return failed


def test_a_lock_that_cannot_be_let_go_of_is_closed(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    failed = failing_once(monkeypatch, fcntl, "flock", errno.ENOLCK, when=lambda _, how: how == fcntl.LOCK_UN)
    kit.add(store, "two")
    assert failed
    kit.add(kit.open(), "three")
    kit.add(store, "four")
    assert names(kit) == ["one", "two", "three", "four"]


@pytest.mark.parametrize("ask", ["read", "write"])
def test_a_journal_that_cannot_be_read_is_an_error_of_the_store(kit, monkeypatch, ask):
    kit.add(kit.open(), "one")
    store = kit.open()
    failed = failing_once(monkeypatch, os, "pread", errno.EIO, when=lambda _, size, __: size >= 1 << 12)
    with pytest.raises(StoreUnavailable, match="Input/output error"):
        kit.jobs(store) if ask == "read" else kit.add(store, "two")
    assert failed
    assert [job.id for job in kit.jobs(store)] == ["one"]
