"""`why`: one sentence for every cause there is, on an injected clock and a store in memory."""

from __future__ import annotations

import fcntl
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from jobq.app import App
from jobq.cli.base import Globals
from jobq.cli.why import explain
from jobq.executor import Kind, Outcome
from jobq.lifecycle import after, cancel
from jobq.members import RunningJob
from jobq.queue import Queue
from jobq.store import ALONE_LOSSES, Claim, Ended, Wanted
from jobq.testing import START, FakeClock, MemoryStore, make_info, make_job, new

SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)
FAILURE = Outcome(kind=Kind.FAILURE, reason="exit code 4", exit_code=4)
LOCAL = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"


class Desk:
    """A queue in memory, members that are only said to be there, and the question."""

    def __init__(self, tmp_path):
        self.clock = FakeClock()
        self.app = App(home=str(tmp_path / "home"), environ={}, clock=self.clock, warn=pytest.fail, store=MemoryStore())
        self.state = Globals()
        self.state.__dict__.update(app=self.app, queue=Queue(self.app))
        self.presences = {}

    def add(self, *ids, **fields):
        for job_id in ids:
            self.app.store.add(new(make_job(job_id, **fields)), now=self.clock.now())

    def member(self, name, *running, **fields):
        """A worker; each of `running` is an id, or an id with the seconds for which it has been running."""
        known = self.presences.get(name)
        told = tuple(
            RunningJob(job=job, run=1, started=self.clock.now() - timedelta(seconds=seconds))
            for job, seconds in ((each, 0) if isinstance(each, str) else each for each in running)
        )
        info = make_info(known.id if known else None, name=name, pid=7, host="h", running=told, **fields)
        if known is None:
            self.presences[name] = self.app.store.join(info)
        else:
            self.app.store.report(known, info)
        return self.presences[name]

    def claim(self, member, limit=1):
        wanted = Wanted(queues=None, handlers=frozenset({"resize"}))
        return self.app.store.claim(member, wanted=wanted, limit=limit, now=self.clock.now()).claims

    def end(self, member, claim, outcome, delay=timedelta(seconds=30)):
        change = after(claim, outcome, now=self.clock.now(), delay=lambda *args: delay)
        ended = [Ended(Claim(claim.job, claim.worker, claim.host), change)]
        wanted = Wanted(queues=None, handlers=frozenset())
        self.app.store.claim(member, wanted=wanted, limit=0, now=self.clock.now(), ended=ended)

    def why(self, job_id):
        sentence = explain(self.state, self.app.store.get(job_id))
        assert sentence.startswith(f"Job {job_id} ")
        assert sentence.endswith(".")
        assert "\n" not in sentence
        return sentence.removeprefix(f"Job {job_id} ")


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    yield made
    made.app.close()


def test_not_due_tells_when(desk):
    desk.add("a", run_at=START + timedelta(minutes=90))
    assert re.fullmatch(rf"is not due before {LOCAL} \(in 1 h 30 m\)\.", desk.why("a"))


def test_waiting_for_a_retry_tells_when_and_why_the_last_one_failed(desk):
    desk.add("a")
    member = desk.member("w")
    (claim,) = desk.claim(member)
    desk.end(member, claim, FAILURE)
    pattern = rf"waits for retry 2/3 at {LOCAL} \(in 30 s\): the last attempt ended with exit code 4\."
    assert re.fullmatch(pattern, desk.why("a"))


def test_no_worker_at_all(desk):
    desk.add("a")
    assert desk.why("a") == "is due, but no worker is running; `jobq worker start` starts one."


def test_no_worker_for_its_queue(desk):
    desk.add("a", queue="mail")
    desk.member("w", queues=("default",))
    told = "is due, but no worker serves the queue mail; `jobq worker start -q mail` starts one."
    assert desk.why("a") == told


def test_all_workers_busy_tells_since_when_and_how_many_are_ahead(desk):
    desk.add("r1", "r2", "first", "second")
    one, two = desk.member("one"), desk.member("two")
    desk.claim(one)
    desk.claim(two)
    desk.member("one", ("r1", 100))
    desk.member("two", ("r2", 40))
    assert desk.why("first") == (
        "waits for its turn: all 2 workers that may take it have been busy for 40 s, and it is the next one."
    )
    assert desk.why("second").endswith("have been busy for 40 s, and 1 job is ahead of it.")
    desk.add("hurried", priority=5)
    assert desk.why("second").endswith("and 2 jobs are ahead of it.")


def test_one_busy_worker_is_named_and_who_cannot_take_the_job_does_not_count(desk):
    desk.add("r1", "a", queue="mail")
    busy = desk.member("busy", queues=("mail",))
    desk.claim(busy)
    desk.member("busy", ("r1", 3), queues=("mail",))
    desk.member("idle", queues=("other",))
    told = "waits for its turn: worker busy (pid 7 on h) has been busy for 3 s, and it is the next one."
    assert desk.why("a") == told


def test_jobs_that_are_not_due_paused_or_for_others_are_not_ahead(desk):
    desk.add("r1")
    worker = desk.member("w")
    desk.claim(worker)
    desk.member("w", "r1")
    desk.add("later", run_at=START + timedelta(hours=1), priority=9)
    desk.add("paused", queue="held", priority=9)
    desk.app.store.pause("held", True, now=desk.clock.now())
    desk.add("handler", handler="nosuch", priority=9)
    desk.add("a")
    assert desk.why("a").endswith("it is the next one.")


def test_a_worker_with_room_is_about_to_take_it(desk):
    desk.add("a")
    desk.member("w", count=2)
    assert desk.why("a") == "is due, and worker w (pid 7 on h) is about to take it."


def test_a_paused_queue_with_and_without_a_reason(desk):
    desk.add("a", queue="mail")
    desk.app.store.pause("mail", True, now=desk.clock.now())
    assert desk.why("a") == "waits because its queue mail is paused; `jobq resume mail` lets it go on."
    desk.app.store.pause("mail", True, reason="too\nmuch", now=desk.clock.now())
    assert "its queue mail is paused (too\\nmuch);" in desk.why("a")


def test_a_handler_that_no_worker_has_tells_which_workers_are_there(desk):
    desk.add("a", handler="resize")
    desk.member("one", handlers=("mail",))
    desk.member("two")
    desk.member("three", queues=("other",), handlers=("resize",))
    sentence = desk.why("a")
    assert sentence.startswith("needs a worker that has the handler resize installed, and none of those that serve")
    listed = sentence.partition("has it: ")[2]
    assert sorted(listed.rstrip(".").split(", ")) == ["worker one (pid 7 on h)", "worker two (pid 7 on h)"]
    for number in range(9):
        desk.member(f"more-{number}")
    assert "and 6 more." in desk.why("a")


def test_workers_that_take_nothing_now(desk):
    desk.add("a")
    desk.member("w", state="draining")
    assert desk.why("a") == "waits: worker w (pid 7 on h) takes no jobs now (draining)."


def test_a_job_that_took_workers_down_waits_for_an_idle_one(desk):
    desk.add("a", losses=ALONE_LOSSES)
    desk.member("w", "x")
    assert desk.why("a").startswith("waits for a worker that is idle: it lost its worker 2 times")


def test_running_tells_where_since_when_how_far_and_whether_it_is_being_stopped(desk):
    desk.add("a")
    worker = desk.member("w")
    desk.claim(worker)
    desk.clock.advance(65)
    assert desk.why("a") == "has been running for 1 m 5 s in worker w (pid 7 on h)."
    info = desk.app.store.workers()[0]
    told = RunningJob(job="a", run=1, started=START, progress={"done": 3, "total": 10, "note": "resizing"})
    desk.app.store.report(worker, replace(info, running=(told,)))
    assert desk.why("a").endswith("(pid 7 on h) and says that it is at 3/10 (30%) resizing.")
    stored = desk.app.store.get("a")
    desk.app.store.change(stored, cancel(stored, now=desk.clock.now()), now=desk.clock.now())
    assert desk.why("a").endswith("resizing, and was asked to stop.")


def test_lost_is_given_back_by_whoever_works_or_will(desk):
    desk.add("a")
    worker = desk.member("w")
    desk.claim(worker)
    worker.die()
    assert desk.why("a").startswith("was left by a worker that is gone; the next worker that starts gives it back")
    desk.member("other")
    assert desk.why("a").startswith("is about to be given back: its worker is gone")


def test_lost_with_something_of_it_still_running_is_held_up(desk):
    desk.add("a")
    worker = desk.member("w")
    desk.claim(worker)
    worker.die()
    desk.app.create_home()
    directory = desk.app.home.path / "workers"
    lock = directory / f"{worker.id}.jobs"
    with lock.open("w") as held:
        lock.chmod(0o600)
        fcntl.flock(held, fcntl.LOCK_EX)
        held_up = (
            "is held up: its worker is gone, but something that it started still runs, and both must not run at once"
        )
        assert desk.why("a") == f"{held_up}; the next worker that starts ends it (`jobq worker start`)."
    assert desk.why("a").startswith("was left by a worker that is gone")


def test_ended_ones_tell_how(desk):
    desk.add("fine", "bad", "unwanted", max_attempts=1)
    worker = desk.member("w")
    fine, bad, unwanted = desk.claim(worker, 3)
    desk.clock.advance(2)
    desk.end(worker, fine, SUCCESS)
    desk.end(worker, bad, FAILURE)
    assert re.fullmatch(rf"completed at {LOCAL}, after 2s\.", desk.why("fine"))
    assert re.fullmatch(
        rf"has been dead since {LOCAL}, with 1 of 1 attempts failed: exit code 4; `jobq retry bad` gives it new ones\.",
        desk.why("bad"),
    )
    desk.end(worker, unwanted, Outcome(kind=Kind.RELEASED, reason="handed back"))
    stored = desk.app.store.get("unwanted")
    desk.app.store.change(stored, cancel(stored, now=desk.clock.now()), now=desk.clock.now())
    assert re.fullmatch(rf"was cancelled at {LOCAL}; `jobq retry unwanted` runs it after all\.", desk.why("unwanted"))


def test_dead_before_its_attempts_were_used_up_tells_what_forbade_more(desk):
    desk.add("start")
    desk.add("rule", no_retry_on=(4,))
    desk.add("only", retry_on=(5,))
    desk.add("both", retry_on=(5,), no_retry_on=(6,))
    worker = desk.member("w")
    start, rule, only, both = desk.claim(worker, 4)
    desk.end(worker, start, Outcome(kind=Kind.CANNOT_START, reason="no such file"))
    for claim in (rule, only, both):
        desk.end(worker, claim, FAILURE)
    assert "no such file (what cannot be started is not tried again);" in desk.why("start")
    assert "exit code 4 (its no_retry_on allows no retry of that);" in desk.why("rule")
    assert "exit code 4 (its retry_on allows no retry of that);" in desk.why("only")
    assert "exit code 4 (its retry_on and no_retry_on allow no retry of that);" in desk.why("both")
