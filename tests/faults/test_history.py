"""The checker of histories finds each fault that it is there to find."""

import os
from copy import deepcopy

import pytest

from jobq import processes

from .history import History

GONE = "999999999 1"
RUN = {"worker": "w", "error": None}


@pytest.fixture
def history(tmp_path):
    """Numbers 0 (a quick command), 1 (a quick handler) and 6 (one that fails once) have been enqueued and have run."""
    history = History(tmp_path / "history")
    history.asked([0, 1])
    history.acknowledged([0, 1], ["own-0", "one"])
    history.asked([6])
    history.acknowledged([6], ["own-6"])
    write(history, "own-0", f"start 1 {GONE} 1", f"end 1 {GONE}")
    write(history, "one", f"start 1 {GONE} 1", f"start 2 {GONE} 1", f"end 2 {GONE}")
    write(history, "own-6", f"start 1 {GONE} 1", f"end 1 {GONE}", f"start 2 {GONE} 2", f"end 2 {GONE}")
    return history


def write(history, job_id, *lines):
    with (history.directory / "runs" / job_id).open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


@pytest.fixture
def jobs(history):
    """What a sound store says of it."""

    def job(number, job_id, attempts, *outcomes):
        runs = [RUN | {"run": run, "outcome": outcome} for run, outcome in enumerate(outcomes, 1)]
        done = {"state": "completed", "attempts": attempts, "run": len(runs), "history": runs}
        return {"id": job_id, **history.spec(number), **done}

    return {
        "own-0": job(0, "own-0", 0, "completed"),
        "one": job(1, "one", 0, "lost", "completed"),
        "own-6": job(6, "own-6", 1, "failed", "completed"),
    }


def found(history, jobs, **more):
    """The names of the rules that are broken."""
    return {sentence.split()[0] for sentence in history.wrong(list(jobs.values()), over=True, **more)}


def test_a_sound_store_is_found_sound(history, jobs):
    assert history.wrong(list(jobs.values()), told=["own-0", "one"], over=True) == []
    history.asked([7, 8])
    assert history.wrong(list(jobs.values()), over=True) == [], "what was not acknowledged need not be there"


def forgotten(jobs):
    del jobs["own-0"]


def under_another_id(jobs):
    jobs["one"]["id"] = "two"


def stored_twice(jobs):
    jobs["again"] = jobs["one"] | {"id": "again"}


def altered(jobs):
    jobs["own-0"]["command"] = ["true"]


def never_asked_for(jobs):
    jobs["new"] = jobs["own-0"] | {"id": "new", "tags": ["n99"]}


@pytest.mark.parametrize("fault", [forgotten, under_another_id, stored_twice, altered, never_asked_for])
def test_what_clients_were_told(history, jobs, fault):
    fault(jobs)
    assert "H1" in found(history, jobs)


def test_what_was_stored_in_part(history, jobs):
    history.asked([12, 13])
    jobs["own-12"] = deepcopy(jobs["own-0"]) | {"id": "own-12", **history.spec(12)}
    assert "H1" in found(history, jobs)


def completed_twice(jobs):
    jobs["one"]["history"][0]["outcome"] = "completed"


def an_outcome_too_many(jobs):
    jobs["one"]["history"].append(RUN | {"run": 2, "outcome": "failed"})


def without_its_end(jobs):
    jobs["one"]["history"] = [RUN | {"run": 1, "outcome": "completed"}]


def out_of_order(jobs):
    jobs["own-6"]["history"].reverse()


def one_attempt_too_many(jobs):
    jobs["own-6"]["attempts"] = 2


def failed_for_no_reason(jobs):
    jobs["one"]["history"][0]["outcome"] = "failed"
    jobs["one"]["attempts"] = 1


def completed_too_early(jobs):
    jobs["one"] |= {"run": 1, "history": [RUN | {"run": 1, "outcome": "completed"}]}


@pytest.mark.parametrize(
    "fault",
    [
        completed_twice,
        an_outcome_too_many,
        without_its_end,
        out_of_order,
        one_attempt_too_many,
        failed_for_no_reason,
        completed_too_early,
    ],
)
def test_outcomes(history, jobs, fault):
    fault(jobs)
    assert "H2" in found(history, jobs)


def test_what_workers_told(history, jobs):
    assert "H2" in found(history, jobs, told=["one", "one"])
    assert "H2" in found(history, jobs, told=["another"])


@pytest.mark.parametrize("line", [f"overlap 2 {GONE}", f"end 1 {GONE}", f"start 1 {GONE} 1"])
def test_a_run_beside_another(history, jobs, line):
    write(history, "one", line)
    assert "H3" in found(history, jobs)


def test_a_process_that_is_left(history, jobs):
    pid, start = processes.process(os.getpid()).identity
    write(history, "one", f"start 2 {pid} {start} 1")
    assert "H3" in found(history, jobs)


def test_a_start_without_a_reason(history, jobs):
    write(history, "own-0", f"start 1 {GONE} 1")
    assert "H4" in found(history, jobs)


def test_a_start_that_is_not_recorded(history, jobs):
    del jobs["own-6"]["history"][0]
    write(history, "own-6", f"start 3 {GONE} 1")
    assert "H4" in found(history, jobs)


def test_a_loss_that_was_not_counted(history, jobs):
    jobs["one"]["history"][0]["error"] = "the worker was gone before it began"
    assert "H4" in found(history, jobs)


@pytest.mark.parametrize("state", ["pending", "processing", "failed"])
def test_a_job_without_an_end(history, jobs, state):
    jobs["own-0"] |= {"state": state, "history": []}
    assert "H6" in found(history, jobs)
