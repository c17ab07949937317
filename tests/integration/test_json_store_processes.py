"""The JSON store under several real processes at once, some of them killed at random instants."""

import contextlib
import os
import random
import signal
import time
import traceback
from collections import Counter
from dataclasses import replace

import pytest

import jobq_json
from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.store import Ended, Query, Wanted
from jobq.testing import START, make_context, make_info, make_job, make_settings, new
from jobq_json import access

(PROVIDER,) = jobq_json.jobq_stores()
DEADLINE = 60


@pytest.fixture
def open_store(tmp_path):
    """Opens handles on one store; a warning of theirs fails the test."""
    context = replace(make_context(tmp_path / "home"), warn=pytest.fail)
    return lambda **values: PROVIDER.make(make_settings(values=values), context)


@pytest.fixture
def children():
    """Starts children by fork, each with a function of its own; those still there at the end are killed."""
    started = []

    def start(act, *arguments):
        pid = os.fork()
        if pid == 0:
            try:
                act(*arguments)
                os._exit(0)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        started.append(pid)
        return pid

    def wait(pid):
        status = os.waitpid(pid, 0)[1]
        started.remove(pid)
        return os.waitstatus_to_exitcode(status)

    start.wait = wait
    yield start
    for pid in started:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def note(path, text):
    """Append a line to a file that all processes share."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{text}\n".encode())
    os.close(descriptor)


def noted(path):
    with contextlib.suppress(FileNotFoundError):
        return [line for line in path.read_text().split("\n")[:-1] if line]
    return []


def add_jobs(open_store, prefix, count, log):
    store = open_store()
    for number in range(count):
        store.add(new(make_job(f"{prefix}-{number}"), generated=number % 2 == 0), now=START)
        note(log, f"{prefix}-{number}")


def work(open_store, total, log, limit=3):
    """Claim and complete jobs until `total` are completed."""
    store = open_store()
    presence = store.join(make_info())
    ended = []
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        claimed = store.claim(presence, wanted=Wanted(), limit=limit, now=START, ended=ended)
        assert not claimed.refused
        for claim in claimed.claims:
            note(log, f"{claim.job.id} {claim.run}")
        outcome = Outcome(kind=Kind.SUCCESS, exit_code=0, finished=START)
        ended = [
            Ended(each, lifecycle.after(each, outcome, now=START, delay=lambda *_: None)) for each in claimed.claims
        ]
        if not ended and store.counts(now=START).states[State.COMPLETED] >= total:
            presence.close()
            return
    raise AssertionError("not all jobs were completed in time")


def recover(store):
    """Give back what dead workers held, as the kernel does; how many claims that were."""
    returned = 0
    for worker, claims in store.lost(now=START):
        for claim in claims:
            change = lifecycle.lost(claim, now=START, counted=False, max_losses=3)
            store.change(claim.job, change, now=START)
            returned += 1
        store.forget(worker)
    return returned


@pytest.mark.parametrize("least", [pytest.param(access.LEAST, id="few compactions"), pytest.param(2000, id="many")])
def test_each_job_is_run_once_by_several_processes(open_store, children, tmp_path, monkeypatch, least):
    monkeypatch.setattr(access, "LEAST", least)
    added, ran = tmp_path / "added", tmp_path / "ran"
    pids = [children(add_jobs, open_store, f"adder{n}", 60, added) for n in range(3)]
    pids += [children(work, open_store, 180, ran) for _ in range(3)]
    assert [children.wait(pid) for pid in pids] == [0] * 6
    assert len(noted(added)) == 180
    assert Counter(noted(ran)) == Counter(f"{job_id} 1" for job_id in noted(added))
    store = open_store()
    assert store.check() == []
    assert {job.state for job in store.find(Query())} == {State.COMPLETED}
    assert store.lost(now=START) == []
    store.close()


def test_what_was_acknowledged_survives_the_death_of_its_writer(open_store, children, tmp_path, monkeypatch):
    monkeypatch.setattr(access, "LEAST", 5000)
    monkeypatch.setattr(access, "BLIND_LIMIT", 5000)
    chance = random.Random(1)
    log = tmp_path / "added"
    for round_number in range(60):
        pid = children(add_jobs, open_store, f"round{round_number}", 1000, log)
        time.sleep(chance.uniform(0.002, 0.03))  # not for a state: the instant of death is what is drawn
        os.kill(pid, signal.SIGKILL)
        assert children.wait(pid) == -signal.SIGKILL
        if round_number % 10 == 0:
            store = open_store()
            assert store.check() == []
            store.close()
    store = open_store()
    stored = [job.id for job in store.find(Query())]
    assert len(set(stored)) == len(stored)
    assert set(noted(log)) <= set(stored)
    assert len(stored) - len(noted(log)) <= 60
    assert store.check() == []
    store.close()


def test_what_a_killed_worker_held_is_run_by_another(open_store, children, tmp_path, monkeypatch):
    monkeypatch.setattr(access, "LEAST", 5000)
    chance = random.Random(2)
    log = tmp_path / "ran"
    store = open_store()
    names = [f"job-{number}" for number in range(400)]
    store.add(new(*map(make_job, names)), now=START)
    rounds = 0
    while store.counts(now=START).states[State.COMPLETED] < len(names) and rounds < 200:
        rounds += 1
        pids = [children(work, open_store, len(names), log) for _ in range(2)]
        time.sleep(chance.uniform(0.005, 0.04))  # not for a state: the instant of death is what is drawn
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            assert children.wait(pid) in (0, -signal.SIGKILL)
        recover(store)
        assert store.counts(now=START).states[State.PROCESSING] == 0
    jobs = list(store.find(Query()))
    assert sorted(job.id for job in jobs) == sorted(names)
    assert {job.state for job in jobs} == {State.COMPLETED}
    for job in jobs:
        assert [run.outcome for run in job.history] == ["lost"] * (job.run - 1) + ["completed"]
    assert len(set(noted(log))) == len(noted(log))  # no run of a job was given out twice
    assert store.check() == []
    store.close()


def test_a_compaction_loses_nothing_of_what_others_write_meanwhile(open_store, children, tmp_path):
    added, ran = tmp_path / "added", tmp_path / "ran"
    pids = [children(add_jobs, open_store, f"adder{n}", 150, added) for n in range(2)]
    pids.append(children(work, open_store, 300, ran))
    store = open_store()
    made = 0
    while store.counts(now=START).states[State.COMPLETED] < 300:
        made += store.access.compact()
    assert [children.wait(pid) for pid in pids] == [0, 0, 0]
    assert made >= 2
    assert Counter(noted(ran)) == Counter(f"{job_id} 1" for job_id in noted(added))
    assert store.check() == []
    store.close()


def test_a_compaction_killed_at_any_instant_leaves_the_store_whole(open_store, children, tmp_path):
    def compact_for_ever():
        mine = open_store()
        while True:
            mine.access.compact()

    chance = random.Random(3)
    store = open_store()
    names = []
    for round_number in range(60):
        names.append(f"job-{round_number}")
        store.add(new(make_job(names[-1])), now=START)
        pid = children(compact_for_ever)
        time.sleep(chance.uniform(0.001, 0.02))  # not for a state: the instant of death is what is drawn
        os.kill(pid, signal.SIGKILL)
        children.wait(pid)
        assert [job.id for job in store.find(Query())] == names
        assert store.check() == []
    assert store.access.compact()
    left = {path.name for path in (tmp_path / "home" / "queue").iterdir()}
    assert left == store.access.look().manifest.files | {"queue.lock", "compact.lock", "bell"}
    store.close()


def test_several_compactors_at_once_do_not_touch_what_is_in_force(open_store, children, tmp_path):
    def compact_time_and_again(turns):
        mine = open_store()
        for _ in range(turns):
            mine.access.compact()

    added = tmp_path / "added"
    store = open_store()
    store.add(new(make_job("first")), now=START)
    pids = [children(compact_time_and_again, 60) for _ in range(3)]
    pids += [children(add_jobs, open_store, f"adder{n}", 60, added) for n in range(2)]
    assert [children.wait(pid) for pid in pids] == [0] * 5
    assert sorted(job.id for job in store.find(Query())) == sorted(["first", *noted(added)])
    assert store.check() == []
    store.close()
