"""A worker while its queue is moved: it drains, waits, and goes on or tells where the queue is now."""

from __future__ import annotations

import pytest

from jobq.app import App
from jobq.door import Door
from jobq.errors import StoreMoved
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.queue import Queue
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor
from jobq.worker import Worker

SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)


def notice(state):
    return Notice(state=state, url="json:/new")


class Scene(FakeClock):
    """A worker on a store in memory; `then` are called one by one, each at a moment at which the worker waits."""

    def __init__(self, tmp_path, *then, until=None, script=lambda job: SUCCESS):
        super().__init__()
        self.storage, self.notes, self.then = MemoryStorage(), [], list(then)
        self.executor = ScriptedExecutor(script)
        self.app = App(
            home=str(tmp_path / "home"),
            environ={},
            clock=self,
            warn=self.notes.append,
            store=MemoryStore(self.storage),
            executor=self.executor,
        )
        self.queue, self.mover = Queue(self.app), MemoryStore(self.storage)
        self.worker = Worker(self.app, until=until, note=self.notes.append)

    def wait(self, wake, seconds):
        if self.then:
            self.then.pop(0)(self)
        assert self.monotonic() < 100, "the worker never ends"
        return super().wait(wake, seconds)

    def post(self, state):
        self.mover.post(None if state is None else notice(state), before=self.mover.notice(), now=self.now())

    def close(self, state):
        """Put up a notice at the door of a store with one job, which runs at once when it is taken down."""
        made = self.queue.enqueue(id="one", command="true")
        if state == ARRIVING:
            self.mover.delete([made])
        self.post(state)
        if state == ARRIVING:
            self.mover.restore([made], now=self.now())

    def states(self):
        return [info.state for info in self.mover.workers()]

    def job(self, job_id):
        return self.storage.jobs[job_id]


def pause(scene):
    """Let it look around."""


def test_it_finishes_what_runs_waits_and_then_tells_where_the_queue_is(tmp_path):
    seen = []

    def end(scene):
        seen.append((scene.job("first").state, scene.job("second").state, scene.states()))
        scene.executor.running["first"].end(SUCCESS)

    def look(scene):
        seen.append((scene.job("first").state, scene.job("second").state, scene.states()))

    scene = Scene(
        tmp_path,
        lambda scene: scene.post(LEAVING),
        pause,
        end,
        pause,
        look,
        lambda scene: scene.post(LEFT),
        script=lambda job: None,
    )
    for name in ("first", "second"):
        scene.queue.enqueue(id=name, command="true")
    with pytest.raises(StoreMoved) as caught:
        scene.worker.run()
    assert caught.value.url == "json:/new"
    waiting = ["waiting: the queue is being moved to json:/new"]
    assert seen == [
        (State.PROCESSING, State.PENDING, waiting),
        (State.COMPLETED, State.PENDING, waiting),
    ]
    assert scene.notes == [
        "the queue is being moved to json:/new; finishing what runs, and waiting until it is there",
        "the queue has moved to json:/new",
    ]
    assert scene.mover.workers() == []
    assert scene.mover.lost(now=scene.now()) == []


@pytest.mark.parametrize("state", [LEAVING, ARRIVING])
def test_it_goes_on_when_the_notice_is_taken_down(tmp_path, state):
    scene = Scene(tmp_path, pause, lambda scene: scene.post(None), until="empty")
    scene.close(state)
    summary = scene.worker.run()
    assert summary.completed == 1
    assert scene.job("one").run == 1
    assert scene.notes[-1] == "the notice at the store is gone; going on"


@pytest.mark.parametrize("until", ["idle", "empty"])
def test_one_that_is_to_end_when_nothing_is_left_waits_for_what_arrives(tmp_path, until):
    scene = Scene(
        tmp_path,
        *[pause] * 5,
        lambda scene: scene.mover.restore([made], now=scene.now()),
        lambda scene: scene.post(None),
        until=until,
    )
    made = scene.queue.enqueue(id="one", command="true")
    scene.mover.delete([made])
    scene.post(ARRIVING)
    assert scene.worker.run().completed == 1


@pytest.mark.parametrize("state", [LEAVING, ARRIVING])
def test_it_is_stopped_as_ever_while_it_waits(tmp_path, state):
    scene = Scene(tmp_path, pause, pause, lambda scene: scene.worker.stop())
    scene.close(state)
    summary = scene.worker.run()
    assert (summary.completed, summary.left) == (0, 1)


def test_it_begins_nothing_on_a_store_that_was_left(tmp_path):
    scene = Scene(tmp_path)
    scene.post(LEFT)
    joined = []
    with pytest.raises(StoreMoved, match="has moved to json:/new; use --store json:/new"):
        scene.worker.run(joined.append)
    assert joined == []


def test_runs_that_were_others_when_the_queue_left_are_ended_and_discarded(tmp_path):
    def lose(scene):
        job = scene.job("one")
        scene.storage.drop("one")  # as if it had been recovered and moved, while this worker was suspended
        assert job.state is State.PROCESSING
        scene.post(LEFT)

    scene = Scene(tmp_path, lose, script=lambda job: None)
    scene.executor.stopped = Outcome(kind=Kind.SIGNAL, reason="signal SIGKILL")
    scene.queue.enqueue(id="one", command="true")
    with pytest.raises(StoreMoved):
        scene.worker.run()
    assert scene.worker.summary.discarded == 1
    assert scene.executor.running == {}


def test_a_notice_that_is_newer_than_the_look_is_no_trouble_of_the_store(tmp_path):
    scene = Scene(tmp_path, lambda scene: scene.post(LEFT), script=lambda job: None)
    with pytest.raises(StoreMoved):
        scene.worker.run()
    assert not [note for note in scene.notes if "trouble" in note]


def test_it_heeds_without_a_bell_too(tmp_path):
    scene = Scene(tmp_path, lambda scene: scene.post(LEAVING), pause, lambda scene: scene.post(LEFT))
    scene.mover.storage.wake = lambda changer=None: None
    with pytest.raises(StoreMoved):
        scene.worker.run()
    assert scene.monotonic() <= 5


def test_nothing_is_said_twice():
    notes = []
    door, store = Door(notes.append), MemoryStore()
    store.post(notice(ARRIVING), before=store.notice(), now=FakeClock().now())
    assert [door.look(store), door.look(store)] == [True, False]
    assert len(notes) == 1
    assert door.left is None
