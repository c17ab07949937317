"""What a recovery gives back of what a dead worker held, where others were faster or a run had not begun."""

import os

import pytest

from jobq import lifecycle, processes
from jobq.app import App
from jobq.executor import Recovered
from jobq.job import State
from jobq.queue import Queue
from jobq.recovery import Recovery
from jobq.started import REGION, StartedRuns, path_of
from jobq.store import Wanted
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor, make_info


class RacingStore(MemoryStore):
    """Somebody else does something right before each change.

    Attributes:
        before_change: what, given the job's id.
    """

    before_change = staticmethod(lambda job_id: None)

    def change(self, before, change, *, now):
        self.before_change(before.id)
        return super().change(before, change, now=now)


class Scene:
    """A dead worker that held jobs, and an app that recovers."""

    def __init__(self, home):
        self.storage, self.clock = MemoryStorage(), FakeClock()
        self.store, self.others = RacingStore(self.storage), MemoryStore(self.storage)
        self.app = App(
            home=str(home),
            flags={},
            environ={},
            clock=self.clock,
            warn=lambda sentence: None,
            store=self.store,
            executor=ScriptedExecutor(lambda job: None),
        )
        self.queue = Queue(self.app)

    def lose(self, *specs, **facts):
        """Have jobs claimed by a worker that dies, with facts of its own; the claims and the worker."""
        for spec in specs:
            self.queue.enqueue(allow_unknown_handler=True, **spec)
        presence = self.others.join(make_info(**facts))
        claims = self.others.claim(presence, wanted=Wanted(), limit=len(specs), now=self.clock.now()).claims
        assert len(claims) == len(specs)
        presence.die()
        return claims, presence.id

    def lost(self):
        """The ids of the dead workers that are not forgotten."""
        return [info.id for info, _ in self.others.lost(now=self.clock.now())]


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path / "home")
    yield made
    made.app.close()


def note(scene, worker, *begun):
    """A worker's notes tell that these jobs had begun."""
    notes = path_of(scene.app.home.path, worker)
    notes.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(notes, os.O_RDWR | os.O_CREAT, 0o600)
    os.ftruncate(descriptor, REGION)
    region = StartedRuns(descriptor, 0)
    for job in begun:
        region.note(job)
    region.close()
    os.close(descriptor)


def test_of_handlers_only_what_had_begun_is_a_loss(scene):
    specs = [{"id": name, "handler": "resize"} for name in ("begun", "sent-ahead")]
    (begun, _, _), worker = scene.lose(*specs, {"id": "command", "command": "true"})
    note(scene, worker, begun.job)
    assert Recovery(scene.app).settle() == ()
    jobs = {name: scene.queue.get(name) for name in ("begun", "sent-ahead", "command")}
    assert {job.state for job in jobs.values()} == {State.PENDING}
    assert {name: job.losses for name, job in jobs.items()} == {"begun": 1, "sent-ahead": 0, "command": 1}


@pytest.mark.parametrize(("its", "this"), [("one", "another"), ("", "")], ids=["another", "untold"])
def test_notes_that_may_be_of_another_boot_are_not_believed(scene, monkeypatch, its, this):
    """Nothing had brought them to the disk."""
    monkeypatch.setattr(processes, "boot_id", lambda: this)
    _, worker = scene.lose({"id": "begun", "handler": "resize"}, boot_id=its)
    note(scene, worker)
    assert Recovery(scene.app).settle() == ()
    assert scene.queue.get("begun").history[-1].error == "the worker was gone"


def test_who_is_slower_changes_nothing_and_forgets_nobody(scene):
    (first, second), worker = scene.lose({"id": "first", "command": "true"}, {"id": "second", "command": "true"})

    def ask_to_stop(job_id):
        if job_id == "first" and not scene.others.get(job_id).cancel_requested_at:
            now = scene.clock.now()
            scene.others.change(first.job, lifecycle.ask(now), now=now)

    scene.store.before_change = ask_to_stop
    recovery = Recovery(scene.app)
    recovery.poll()
    for thread in list(recovery._threads.values()):
        thread.join()
    assert recovery.poll() == 1
    assert [scene.queue.get(each.job.id).state for each in (first, second)] == [State.PROCESSING, State.PENDING]
    assert scene.lost() == [worker], "it still holds what was not given back"
    assert recovery.settle() == ()
    assert scene.queue.get("first").state is State.CANCELLED
    assert scene.lost() == []


def test_what_was_deleted_meanwhile_stops_nothing_else(scene):
    (_, second), _ = scene.lose({"id": "first", "command": "true"}, {"id": "second", "command": "true"})

    def take_away(job_id):
        if job_id == "first" and "first" in scene.storage.jobs:
            scene.storage.drop("first")

    scene.store.before_change = take_away
    assert Recovery(scene.app).settle() == ()
    assert scene.others.get_many(["first", "second"]).keys() == {"second"}
    assert scene.queue.get(second.job.id).state is State.PENDING


@pytest.mark.parametrize(("state", "losses"), [("running", 1), ("draining", 0)])
def test_of_a_store_that_spans_machines_another_machines_worker_needs_no_look_here(scene, monkeypatch, state, losses):
    monkeypatch.setattr(RacingStore, "capabilities", frozenset({"hosts"}))
    scene.app.executor.recovery = Recovered(clean=False, why="it ran elsewhere")
    scene.lose({"id": "one", "command": "true"}, boot_id="another", host="elsewhere", state=state)
    assert Recovery(scene.app).poll() == 1
    assert scene.app.executor.recovered == []
    job = scene.queue.get("one")
    assert (job.state, job.losses) == (State.PENDING, losses)
    assert scene.lost() == []


def test_of_such_a_store_a_worker_of_this_machine_is_looked_for(scene, monkeypatch):
    monkeypatch.setattr(RacingStore, "capabilities", frozenset({"hosts"}))
    scene.app.executor.recovery = Recovered(clean=False, why="something of it runs")
    scene.lose({"id": "one", "command": "true"})
    ((held),) = Recovery(scene.app).settle()
    assert held.why == "something of it runs"
    assert scene.queue.get("one").state is State.PROCESSING
