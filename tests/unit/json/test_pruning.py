"""Pruning: what is old goes, quickly, and compaction leaves it out; what is not pruned stays for ever."""

from datetime import timedelta

import pytest

from jobq import lifecycle
from jobq.errors import StoreLocked
from jobq.executor import Kind
from jobq.job import ENDED, FINISHED, State
from jobq.store import Query
from jobq.testing import START, make_job, new
from jobq_json import archiving, compaction, locking, pruning
from jobq_json.view import View

DAY = timedelta(days=1)
COMPLETED, CANCELLED = frozenset({State.COMPLETED}), frozenset({State.CANCELLED})
LATE = START + 1000 * DAY


def finish(kit, store, *names, now=START, kind=Kind.SUCCESS):
    """Jobs that completed, died (by another kind), or were cancelled (kind None) at that time."""
    kit.add(store, *names, now=now, max_attempts=1)
    if kind is None:
        for name in names:
            job = store.get(name)
            store.change(job, lifecycle.cancel(job, now=now), now=now)
    else:
        kit.work(store, kind, limit=len(names), now=now)


def prune(store, states=FINISHED, before=LATE, limit=1000):
    return store.prune(states=states, before=before, limit=limit)


def ids(kit):
    return {job.id for job in kit.jobs(kit.open())}


@pytest.fixture
def read(monkeypatch):
    """The lines that pruning read, to be counted."""
    lines = []
    real = pruning.of_line
    monkeypatch.setattr(pruning, "of_line", lambda line, offset=-1: lines.append(line) or real(line, offset))
    return lines


@pytest.fixture(params=[1, 1500, archiving.SEGMENT_SIZE])
def segments(request, monkeypatch):
    """Segments of one job, of a few, of all."""
    monkeypatch.setattr(archiving, "SEGMENT_SIZE", request.param)


@pytest.mark.usefixtures("segments")
def test_compaction_keeps_what_nobody_pruned_and_forgets_what_was(kit):
    store = kit.open()
    for day in range(8):
        finish(kit, store, f"completed-{day}", now=START + day * DAY)
        finish(kit, store, f"cancelled-{day}", now=START + day * DAY, kind=None)
        kit.compact(store)
    assert len(ids(kit)) == 16
    assert set(prune(store, COMPLETED, START + 3 * DAY)) == {f"completed-{day}" for day in range(3)}
    assert set(prune(store, FINISHED, START + 2 * DAY)) == {f"cancelled-{day}" for day in range(2)}
    left = ids(kit)
    assert len(left) == 11
    kit.compact(store)
    assert ids(kit) == left
    assert store.check() == []
    assert len(prune(store)) == 11
    kit.compact(store)
    assert list(kit.queue.glob("done-*")) == []
    assert store.check() == []
    kit.add(store, *left)


def test_the_start_of_a_segment_moves_over_what_was_pruned(kit):
    store = kit.open()
    finish(kit, store, *(f"job-{number}" for number in range(10)))
    kit.compact(store)
    path = kit.file("done")
    before = path.read_bytes()
    assert len(prune(store, limit=4)) == 4
    kit.compact(store)
    (segment,) = store.access.look().manifest.archive
    assert (segment.file, segment.size) == (path.name, len(before))
    assert before[segment.start :].count(b"\n") == 6
    finish(kit, store, "more")
    kit.compact(store)
    assert path.read_bytes().startswith(before)
    assert len(ids(kit)) == 7
    assert store.check() == []


def test_nothing_is_looked_at_but_what_goes(kit, read):
    store = kit.open()
    for day in range(64):
        finish(kit, store, f"job-{day}", now=START + day * DAY)
    kit.compact(store)
    assert prune(store, before=START) == []
    assert len(read) < 10
    read.clear()
    assert prune(store, before=START + 4 * DAY) == [f"job-{day}" for day in range(4)]
    assert len(read) < 4 + 10
    read.clear()
    assert len(prune(store, limit=5)) == 5
    assert len(read) < 5 + 10


def test_batch_after_batch_looks_at_each_job_once(kit, read, monkeypatch):
    store = kit.open()
    for number in range(40):
        finish(kit, store, f"completed-{number}")
        finish(kit, store, f"cancelled-{number}", kind=None)
        finish(kit, store, f"dead-{number}", kind=Kind.FAILURE)
    kit.compact(store)
    dead = []
    real = View.read
    monkeypatch.setattr(View, "locate", _refuse)
    monkeypatch.setattr(View, "read", lambda view, *place: dead.append(place) or real(view, *place))
    for states, count in ((COMPLETED, 40), (frozenset({State.DEAD}), 40), (ENDED, 40)):
        read.clear()
        dead.clear()
        gone = []
        while len(gone) < count:
            gone += prune(store, states, limit=3)
        assert len(read) <= 80 + 10
        assert len(dead) <= 40
        assert prune(store, states) == []
    assert ids(kit) == set()
    assert store.check() == []


def _refuse(*_):
    raise AssertionError("a job was searched for")


def test_two_who_prune_at_once_delete_each_job_once(kit, monkeypatch):
    store, other = kit.open(), kit.open()
    names = [f"job-{number}" for number in range(12)]
    finish(kit, store, *names[:6])
    kit.compact(store)
    finish(kit, store, *names[6:])
    gone = []
    real = pruning.batch

    def batch(view, **question):
        found = real(view, **question)
        if len(gone) < 6:
            monkeypatch.setattr(pruning, "batch", real)
            gone.extend(prune(other, limit=3))
            if len(gone) == 6:
                kit.compact(other)
            monkeypatch.setattr(pruning, "batch", batch)
        return found

    monkeypatch.setattr(pruning, "batch", batch)
    while more := prune(store, limit=2):
        gone += more
    assert sorted(gone) == sorted(names)
    assert store.check() == []


def test_what_ends_after_an_answer_is_found_by_the_next(kit):
    store = kit.open()
    finish(kit, store, "one", "two", "three")
    assert len(prune(store, limit=2)) == 2
    finish(kit, store, "four")
    assert len(prune(store, limit=2)) == 1
    assert prune(store, limit=2) == ["four"]
    kit.compact(store)
    finish(kit, store, "five")
    assert prune(store) == ["five"]


def test_what_could_not_be_deleted_is_found_again(kit, monkeypatch):
    store = kit.open()
    finish(kit, store, "one", "two")
    kit.compact(store)

    def busy(self):
        raise StoreLocked("busy")

    monkeypatch.setattr(locking.WritersLock, "_acquire", busy)
    with pytest.raises(StoreLocked):
        prune(store, limit=1)
    monkeypatch.undo()
    assert [prune(store, limit=1), prune(store, limit=1)] == [["one"], ["two"]]


def test_a_clock_that_was_ahead_for_a_while_keeps_nothing_else(kit):
    store = kit.open()
    finish(kit, store, *(f"early-{number}" for number in range(5)))
    finish(kit, store, "ahead", now=LATE)
    finish(kit, store, *(f"job-{number}" for number in range(20)))
    kit.compact(store)
    assert len(prune(store, before=START + DAY)) == 25
    assert ids(kit) == {"ahead"}


def test_a_damaged_line_is_passed_over(kit):
    store = kit.open()
    finish(kit, store, *(f"job-{number}" for number in range(9)))
    kit.compact(store)
    data = kit.file("done").read_bytes()
    kit.overwrite(kit.file("done"), data.replace(b'"job-4"', b'"job-5"'))
    store = kit.open()
    assert len(prune(store)) == 8
    assert store.counts(now=START).damaged == 1
    kit.compact(store)
    assert b"job-5" in kit.file("damaged").read_bytes()


def test_what_is_pruned_during_a_compaction_is_carried_over(kit, monkeypatch):
    store, other = kit.open(), kit.open()
    names = [f"job-{number}" for number in range(12)]
    finish(kit, store, *names[:8])
    kit.compact(store)
    store.delete([store.get("job-5")])  # the segment is written again
    finish(kit, store, *names[8:])
    real = compaction._Generation.catch_up

    def catch_up(self):
        assert len(prune(other, limit=10)) == 10
        real(self)

    monkeypatch.setattr(compaction._Generation, "catch_up", catch_up)
    kit.compact(store)
    monkeypatch.undo()
    monkeypatch.setattr(View, "locate", _refuse)  # the records know where the lines are in the new generation
    assert ids(kit) == {"job-11"}
    monkeypatch.undo()
    assert store.check() == []


def test_jobs_of_one_age_go_in_the_order_in_which_they_ended(kit):
    store = kit.open()
    finish(kit, store, "one", "two")
    kit.compact(store)
    finish(kit, store, "three")
    assert [prune(store, limit=1) for _ in range(4)] == [["one"], ["two"], ["three"], []]
    assert list(store.find(Query())) == []
    store.add(new(make_job("one")), now=START)
