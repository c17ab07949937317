"""Compaction, what is left of the archive after it, and mending."""

import gc
import json
import weakref
from datetime import timedelta
from pathlib import Path

import pytest

from jobq import lifecycle
from jobq.errors import DuplicateJob, JobNotFound, StoreUnreadable
from jobq.executor import Kind
from jobq.store import Query
from jobq.testing import START
from jobq_json import access, archiving, compaction
from jobq_json.view import View

DAY = timedelta(days=1)


def _refuse(*_):
    raise AssertionError("a job was searched for")


def finish(kit, store, *names, now, kind=Kind.SUCCESS):
    """Jobs that completed, or were cancelled, at that time."""
    kit.add(store, *names, now=now)
    if kind is Kind.SUCCESS:
        assert set(kit.work(store, limit=len(names), now=now)) == set(names)
    else:
        for name in names:
            job = store.get(name)
            store.change(job, lifecycle.cancel(job, now=now), now=now)


def ids(kit, store=None):
    return [job.id for job in kit.jobs(store or kit.open())]


def test_a_compaction_keeps_all(kit):
    shown = kit.furnish()
    store = kit.open()
    before = kit.jobs(store)
    counts = store.counts(now=START)
    kit.compact(store)
    after = kit.jobs(kit.open())
    assert after == before
    assert all(job in shown for job in after)
    assert kit.open().counts(now=START) == counts
    assert store.check() == []
    kit.compact(store)
    assert kit.jobs(kit.open()) == before


def test_untouched_lines_are_copied_as_they_are(kit):
    store = kit.open()
    kit.add(store, *(f"job-{number}" for number in range(20)))
    kit.compact(store)
    before = set(kit.file("jobs").read_bytes().split(b"\n")[1:-2])
    kit.work(store, limit=3)
    kit.compact(store)
    assert set(kit.file("jobs").read_bytes().split(b"\n")[1:-2]) < before


def test_the_sorted_run_is_in_claim_order(kit):
    store = kit.open()
    for step in (3, 1, 2, 0):
        for priority in (0, 5):
            kit.add(store, f"{priority}-{step}", priority=priority, run_at=START + step * DAY)
        kit.compact(store)
    assert ids(kit) == [f"{priority}-{step}" for priority in (5, 0) for step in range(4)]
    assert store.check() == []
    waiting = store.access.look().manifest.sections
    assert [(section.lane.priority, section.lines) for section in waiting] == [(5, 4), (0, 4)]


def test_files_of_no_generation_are_swept(kit):
    store = kit.open()
    kit.add(store, "one")
    for name in ("jobs-9.jsonl", "journal-9.jsonl", "done-77.jsonl", ".queue.json.1.new"):
        (kit.queue / name).write_bytes(b"left over")
    (kit.queue / "notes.txt").write_bytes(b"a person's own")
    kit.compact(store)
    left = {path.name for path in kit.queue.iterdir()}
    assert left == {
        "queue.json",
        "jobs-2.jsonl",
        "journal-2.jsonl",
        "queue.lock",
        "compact.lock",
        "bell",
        "notes.txt",
    }


def test_only_one_compacts_and_nobody_waits(kit):
    store, other = kit.open(), kit.open()
    kit.add(store, "one")
    with compaction.only_one(other.access.directory) as alone:
        assert alone
        assert not store.access.compact()
    kit.compact(store)


def test_what_somebody_else_compacted_meanwhile_is_left_alone(kit):
    store, other = kit.open(), kit.open()
    kit.add(store, "one")
    view = store.access.look()
    kit.compact(other)
    kit.add(other, "two")
    before = {path.name: path.read_bytes() for path in kit.queue.iterdir()}
    assert not compaction.compact(store.access.directory, view)
    assert {path.name: path.read_bytes() for path in kit.queue.iterdir()} == before


@pytest.mark.parametrize("late", [False, True])
def test_what_is_written_during_a_compaction_is_carried_over(kit, monkeypatch, late):
    store, other = kit.open(), kit.open()
    kit.add(store, "ended", "claimed", "deleted", "dead", "cancelled", "stays")
    kit.work(store)
    kit.work(store, Kind.FAILURE)
    kit.compact(store)
    kit.add(store, "young", "younger")
    real = compaction._Generation.catch_up
    before = []

    def catch_up(self):
        if late:
            real(self)
        kit.add(other, "new")
        assert len(kit.work(other, limit=2)) == 2
        assert len(other.delete([other.get("claimed"), other.get("ended"), other.get("young")])) == 3
        job = other.get("cancelled")
        other.change(job, lifecycle.cancel(job, now=START), now=START)
        other.pause("mail", True, now=START)
        before.extend(kit.jobs(other))
        if not late:
            real(self)

    monkeypatch.setattr(compaction._Generation, "catch_up", catch_up)
    kit.compact(store)
    monkeypatch.undo()
    monkeypatch.setattr(View, "locate", _refuse)  # every record knows where its job's line is in the new generation
    reader = kit.open()
    assert kit.jobs(reader) == before
    monkeypatch.undo()
    assert reader.check() == []
    assert set(reader.counts(now=START).paused) == {"mail"}
    for name in ("claimed", "ended", "young"):
        with pytest.raises(JobNotFound):
            reader.get(name)


def test_a_reader_in_the_middle_of_a_list_sees_the_state_of_its_call(kit, monkeypatch):
    monkeypatch.setattr(archiving, "SEGMENT_SIZE", 500)
    store = kit.open()
    finish(kit, store, *(f"done-{number}" for number in range(10)), now=START)
    kit.compact(store)
    kit.add(store, "one", "two")
    reader = kit.open()
    before = ids(kit, reader)
    found = reader.find(Query())
    next(found)
    store.delete([store.get("done-3"), store.get("two")])
    kit.compact(store)
    kit.compact(store)
    assert [job.id for job in found] == before[1:]
    assert len(ids(kit, reader)) == len(before) - 2


def test_a_segment_is_written_again_without_what_was_deleted_or_retried(kit):
    store = kit.open()
    finish(kit, store, "one", "two", "three", now=START)
    finish(kit, store, "four", now=START, kind=None)
    kit.compact(store)
    before = kit.file("done").name
    store.delete([store.get("two")])
    store.change(store.get("four"), lifecycle.retry(store.get("four"), now=START), now=START)
    assert ids(kit) == ["four", "three", "one"]
    kit.compact(store)
    assert kit.file("done").name != before
    assert ids(kit) == ["four", "three", "one"]
    assert b'"two"' not in kit.file("done").read_bytes()
    assert store.check() == []


def test_what_stands_behind_the_size_of_a_segment_is_no_data(kit):
    store = kit.open()
    finish(kit, store, "one", now=START)
    kit.compact(store)
    line = kit.file("done").read_bytes().split(b"\n")[1]
    with kit.file("done").open("ab") as file:
        file.write(line.replace(b"one", b"two") + b"\n" + line[:50])
    assert ids(kit) == ["one"]
    kit.add(store, "two")
    kit.work(store)
    kit.compact(store)
    assert sorted(ids(kit)) == ["one", "two"]
    assert store.check() == []


def test_a_lost_manifest_is_built_again(kit):
    kit.furnish()
    store = kit.open()
    before, counts = kit.jobs(store), store.counts(now=START)
    (kit.queue / "queue.json").unlink()
    with pytest.raises(StoreUnreadable):
        kit.jobs(kit.open())
    store = kit.open()
    (done,) = store.repair()
    assert "generation 2" in done
    assert kit.jobs(kit.open()) == before
    assert store.counts(now=START) == counts
    assert store.check() == []
    assert store.repair() == []


@pytest.mark.parametrize("content", [b"", b"{}", b'{"generation": 1}\n'])
def test_a_first_manifest_is_built_again(kit, content):
    store = kit.open()
    kit.add(store, "one")
    (kit.queue / "queue.json").write_bytes(content)
    kit.open().repair()
    assert ids(kit) == ["one"]


@pytest.mark.parametrize("published", [True, False])
def test_of_two_complete_generations_the_one_that_was_in_force_is_taken(kit, published):
    store = kit.open()
    kit.add(store, "one", "two")
    kit.compact(store)
    old = {path.name: path.read_bytes() for path in kit.queue.glob("j*-2.jsonl")}
    kit.compact(store)
    if published:
        kit.add(store, "three")
    for name, content in old.items():
        (kit.queue / name).write_bytes(content)
        (kit.queue / name).chmod(0o600)
    (kit.queue / "queue.json").unlink()
    if not published:
        new = {path.name: path.read_bytes() for path in kit.queue.glob("j*-3.jsonl")}
        for name in new:
            (kit.queue / name).unlink()
        kit.open().repair()
        kit.add(kit.open(), "three")
        for name, content in new.items():
            (kit.queue / name).write_bytes(content)
            (kit.queue / name).chmod(0o600)
        (kit.queue / "queue.json").unlink()
    kit.open().repair()
    assert ids(kit) == ["one", "two", "three"]
    assert json.loads((kit.queue / "queue.json").read_bytes())["generation"] == (3 if published else 2)


def cut(path):
    data = path.read_bytes()
    path.write_bytes(data[: data.rindex(b'"id":')])


def behead(path):
    path.write_bytes(b"~" + path.read_bytes()[1:])


@pytest.mark.parametrize("with_manifest", [True, False])
@pytest.mark.parametrize("hurt", [cut, behead, Path.unlink])
@pytest.mark.parametrize("kind", ["jobs", "journal", "done"])
def test_what_can_still_be_read_is_taken_out_of_damaged_files(kit, kind, hurt, with_manifest):
    store = kit.open()
    finish(kit, store, "done-1", "done-2", "done-3", now=START)
    kit.add(store, "jobs-1", "jobs-2", "jobs-3", now=START)
    kit.add(store, "jobs-0", queue="mail", handler="send", now=START)
    kit.compact(store)
    for number in range(3):
        kit.add(store, f"journal-{number}")
    before = {job.id: job for job in kit.jobs(store)}
    store.close()
    hurt(kit.file(kind))
    if not with_manifest:
        (kit.queue / "queue.json").unlink()
    done = kit.open().repair()
    assert any("can still be read" in sentence for sentence in done) or (kind, hurt) == ("journal", cut)
    reader = kit.open()
    after = {job.id: job for job in kit.jobs(reader)}
    lost = before.keys() - after.keys()
    assert all(after[name] == before[name] for name in after)
    if hurt is Path.unlink:
        assert lost == {name for name in before if name.startswith(kind)}
    else:
        assert len(lost) == (1 if hurt is cut else 0)
    assert sum(reader.counts(now=START).states.values()) == len(after)
    assert all("set aside before" in sentence for sentence in reader.check())
    kit.add(reader, "more")
    with pytest.raises(DuplicateJob):
        kit.add(reader, *after)
    kit.compact(kit.open())
    assert len(ids(kit)) == len(after) + 1


@pytest.mark.parametrize("hurt", [behead, Path.unlink])
@pytest.mark.parametrize("kind", ["jobs", "journal", "done"])
def test_a_mending_that_fails_touches_nothing(kit, monkeypatch, kind, hurt):
    store = kit.open()
    finish(kit, store, "done-1", "done-2", now=START)
    kit.add(store, "jobs-1")
    kit.compact(store)
    kit.add(store, "journal-1")
    before = set(ids(kit, store))
    store.close()
    hurt(kit.file(kind))
    files = {path.name: path.read_bytes() for path in kit.queue.glob("*.json*")}
    with monkeypatch.context() as patched:
        patched.setattr(compaction._Generation, "publish", _refuse)
        for _ in range(2):
            with pytest.raises(AssertionError):
                kit.open().repair()
    for name in (*files, "jobs-2.jsonl", "journal-2.jsonl", "done-1.jsonl"):
        assert (kit.queue / name).exists() == (name in files)
    assert {name: (kit.queue / name).read_bytes() for name in files} == files
    kit.open().repair()
    assert set(ids(kit)) == (before if hurt is behead else {name for name in before if not name.startswith(kind)})
    assert not list(kit.queue.glob("*.mended.*"))
    assert kit.open().check() == []


@pytest.mark.parametrize("kind", ["jobs", "journal", "done"])
def test_damaged_records_are_set_aside_and_counted(kit, kind):
    store = kit.open()
    finish(kit, store, "done-1", "done-2", "done-3", now=START)
    kit.add(store, "run-1", "run-2", "run-3")
    kit.compact(store)
    kit.add(store, "journal-1")
    kit.add(store, "journal-2")
    kit.add(store, "journal-3")
    prefix = {"jobs": "run", "journal": "journal", "done": "done"}[kind]
    path = kit.file(kind)
    data = path.read_bytes()
    spot = data.index(b'"command":"true"', data.index(f'"id":"{prefix}-2"'.encode()))
    path.write_bytes(data[:spot] + b'"command":"evil"' + data[spot + 16 :])
    expected = [name for name in ids(kit, store) if name != f"{prefix}-2"]
    reader = kit.open()
    assert ids(kit, reader) == expected
    assert any(path.name in sentence for sentence in kit.warned)
    assert reader.counts(now=START).damaged == 1
    with pytest.raises(JobNotFound):
        reader.get(f"{prefix}-2")
    assert any(path.name in sentence for sentence in reader.check())
    mender = kit.open()
    (done,) = mender.repair()
    assert done.startswith("1 damaged record")
    assert ids(kit) == expected
    counts = kit.open().counts(now=START)
    assert counts.damaged == 1
    assert sum(counts.states.values()) == len(expected)
    aside = kit.file("damaged")
    assert b"evil" in aside.read_bytes()
    (told,) = kit.open().check()
    assert aside.name in told
    kit.compact(mender)
    assert kit.open().counts(now=START).damaged == 1
    aside.unlink()
    kit.compact(mender)
    assert kit.open().counts(now=START).damaged == 0
    assert kit.open().check() == []
    kit.add(kit.open(), f"{prefix}-2")


def test_changes_of_a_job_whose_record_is_damaged_count_as_damage(kit):
    store = kit.open()
    kit.add(store, "one")
    kit.add(store, "two")
    kit.work(store, limit=2)
    data = kit.file("journal").read_bytes()
    kit.file("journal").write_bytes(data.replace(b'{"id":"one","seq"', b'{"id":"onf","seq"'))
    reader = kit.open()
    assert ids(kit, reader) == ["two"]
    assert reader.counts(now=START).damaged == 3
    assert any("one" in sentence for sentence in kit.warned)


def test_a_change_of_an_unknown_kind_is_of_a_newer_jobq(kit):
    from jobq.errors import NewerFormat
    from jobq_json.lines import seal

    store = kit.open()
    kit.add(store, "one")
    kit.write_behind(seal('{"op":"merge","seq":2}') + b"\n")
    with pytest.raises(NewerFormat, match="merge"):
        kit.jobs(kit.open())
    with pytest.raises(NewerFormat, match="merge"):
        kit.work(kit.open())


def test_a_store_at_rest_compacts_where_little_is_left_of_the_sorted_run(kit, monkeypatch):
    monkeypatch.setattr(access, "LEAST", 500)
    store = kit.open(durability="normal")
    kit.add(store, *(f"job-{number}" for number in range(40)))
    kit.compact(store)
    before = kit.file("journal").name
    kit.work(store, limit=5)
    store.rest()
    assert kit.file("journal").name == before  # 35 jobs would be written anew
    kit.work(store, limit=30)
    jobs = kit.jobs(store)
    store.rest()
    assert kit.file("journal").name != before
    assert kit.jobs(kit.open()) == jobs
    after = kit.file("journal").name
    store.rest()
    assert kit.file("journal").name == after


def test_a_view_that_is_over_is_freed_at_once(kit):
    store = kit.open()
    kit.add(store, "one", "two", "three")
    kit.compact(store)
    kit.work(store)
    view = weakref.ref(store.access.look())
    gc.disable()
    try:
        kit.compact(store)
        assert view() is None
        view = weakref.ref(store.access.look())
        store.close()
        assert view() is None
    finally:
        gc.enable()
