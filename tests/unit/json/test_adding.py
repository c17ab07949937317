"""Adding without a view: taken ids are found wherever they are, and nothing heavy is imported."""

import subprocess
import sys

import pytest

from jobq.errors import DuplicateJob
from jobq.testing import START, make_job, new
from jobq_json import finder

BULK = [f"bulk-{number}" for number in range(100)]


@pytest.mark.parametrize("crowd", [[], BULK], ids=["one by one", "in bulk"])
@pytest.mark.parametrize("where", ["journal", "run", "archive", "all over"])
def test_a_taken_id_is_found_wherever_its_job_is(kit, where, crowd):
    store = kit.open()
    kit.add(store, "first", "taken", "last")
    if where == "archive":
        assert kit.work(store, limit=3) == ["first", "taken", "last"]
    if where != "journal":
        kit.compact(store)
    if where == "all over":
        assert kit.work(store, limit=1) == ["first"]
        kit.compact(store)
        store.delete([store.get("last")])
        kit.add(store, "more")
    writer = kit.open()
    with pytest.raises(DuplicateJob) as raised:
        kit.add(writer, *crowd, "fresh", "taken", "first")
    assert raised.value.ids == ("taken", "first")
    assert len(kit.jobs(store)) == 3
    kit.add(writer, *crowd, "fresh")
    with pytest.raises(DuplicateJob) as raised:
        kit.add(kit.open(), *crowd, "fresh")
    assert raised.value.ids == (*crowd, "fresh")


@pytest.mark.parametrize("compacted", [False, True])
def test_a_deleted_id_is_free_again(kit, compacted):
    store = kit.open()
    kit.add(store, "one", "two")
    if compacted:
        kit.compact(store)
    store.delete([store.get("one")])
    writer = kit.open()
    kit.add(writer, "one", payload={"second": True}, handler="h")
    assert kit.open().get("one").payload == {"second": True}
    kit.compact(writer)
    assert kit.open().get("one").payload == {"second": True}
    assert store.check() == []


def test_an_id_within_a_payload_is_not_taken(kit):
    store = kit.open()
    payload = {"jobs": [{"id": "inner"}, '\n{"id":"inner"'], "id": "inner"}
    kit.add(store, "outer", payload=payload, handler="h")
    kit.add(kit.open(), "inner")
    kit.compact(store)
    store.delete([store.get("inner")])
    kit.add(kit.open(), "inner")
    assert {job.id for job in kit.jobs(store)} == {"outer", "inner"}


def test_an_id_that_is_the_beginning_of_another_is_free(kit):
    store = kit.open()
    kit.add(store, "job-10")
    kit.compact(store)
    kit.add(store, "job-1", "ob-10")
    assert len(kit.jobs(store)) == 3


def test_searching_time_and_again_keeps_the_ids(kit):
    store = kit.open()
    kit.add(store, *BULK)
    kit.compact(store)
    for number in range(2 * finder._MANY):
        kit.add(store, f"own-{number}")
        with pytest.raises(DuplicateJob):
            kit.add(store, f"own-{number}")
        with pytest.raises(DuplicateJob):
            kit.add(store, BULK[number])
    assert len(kit.jobs(store)) == len(BULK) + 2 * finder._MANY


def test_ids_of_another_handle_are_seen_in_between(kit):
    store, other = kit.open(), kit.open()
    kit.add(store, *BULK)
    kit.add(other, "theirs")
    with pytest.raises(DuplicateJob):
        kit.add(store, *(f"{name}-again" for name in BULK), "theirs")
    kit.compact(other)
    with pytest.raises(DuplicateJob):
        kit.add(store, *(f"{name}-again" for name in BULK), "theirs")


def test_numbers_go_on_across_handles_and_generations(kit):
    store = kit.open()
    for number in range(6):
        kit.add(kit.open(), f"job-{number}")
        if number % 2:
            kit.compact(store)
    view = store.access.look()
    lines = [view.read(section.start)[0] for section in view.manifest.sections]
    assert [job.id for job in kit.jobs(store)] == [f"job-{number}" for number in range(6)]
    assert view.seq == 7
    assert lines[0].seq == 1


def test_nothing_to_add_creates_nothing(kit):
    assert kit.open().add([], now=START) == []
    assert not kit.queue.exists()


def test_adding_imports_neither_the_view_nor_anything_heavy(tmp_path):
    script = f"""
import sys
from pathlib import Path
import jobq_json
from jobq.job import Job
from jobq.store import NewJob
from jobq.options import KERNEL_OPTIONS
from jobq.settings import Settings
from jobq.providers import Context
from jobq.clock import SystemClock
context = Context(directory={str(tmp_path)!r}, url="", clock=SystemClock(), handlers={{}}, warn=print)
before = set(sys.modules)
store = jobq_json.jobq_stores()[0].make(Settings(KERNEL_OPTIONS, lambda: ({{}}, None), environ={{}}), context)
now = SystemClock().now()
for own in (True, False):
    store.add([NewJob(Job(id=f"job-{{own}}", command="true", run_at=now), generated=own)], now=now)
print(*sorted(set(sys.modules) - before), sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    brought = done.stdout.split()
    assert "jobq_json.adding" in brought
    heavy = {"view", "lanes", "compaction", "writing", "archive", "watch", "checking", "finding", "transactions"}
    assert not {f"jobq_json.{name}" for name in heavy} & set(brought)
    assert not {"asyncio", "logging", "subprocess", "ctypes", "sqlite3", "filelock", "jobq.presence"} & set(brought)


def test_a_repeated_id_is_told_once(kit):
    with pytest.raises(DuplicateJob) as raised:
        kit.open().add(new(*(make_job(name) for name in ("a", "b", "a", "c", "b", "a"))), now=START)
    assert raised.value.ids == ("a", "b")
