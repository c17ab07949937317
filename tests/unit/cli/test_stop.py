"""Workers that are stopped from another machine: through the store, where no signal reaches."""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from click.testing import CliRunner

from jobq import processes
from jobq.app import App
from jobq.cli.base import Globals
from jobq.cli.work import list_, stop
from jobq.draining import DRAIN, NOW
from jobq.executor import Kind, Outcome
from jobq.queue import Queue
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor, make_info
from jobq.worker import Worker

SUCCESS = Outcome(kind=Kind.SUCCESS, exit_code=0)


class SpanningStore(MemoryStore):
    """It says that its workers are on several machines."""

    capabilities = MemoryStore.capabilities | {"hosts"}


class Scene(FakeClock):
    """A worker with one job, that is asked to stop at the first moment at which it waits."""

    def __init__(self, tmp_path, level):
        super().__init__()
        self.notes, self._level, self._ends = [], level, None
        self.storage = MemoryStorage()
        self.executor = ScriptedExecutor(lambda job: None)
        self.app = App(
            home=str(tmp_path / "home"),
            environ={},
            clock=self,
            warn=self.notes.append,
            store=SpanningStore(self.storage),
            executor=self.executor,
        )
        Queue(self.app).enqueue(command="sleep 5", id="one")
        self.worker = Worker(self.app, note=self.notes.append)

    def wait(self, wake, seconds):
        if self._level:
            (info,) = self.app.store.workers()
            SpanningStore(self.storage).ask_to_stop(info, self._level)
            self._level = 0
            self._ends = self.monotonic() + 3
        elif self.monotonic() >= self._ends and "one" in self.executor.running:
            self.executor.running["one"].end(SUCCESS)
        assert self.monotonic() < 100, "the worker never ends"
        return super().wait(wake, seconds)


def test_a_worker_that_is_asked_to_stop_finishes_what_it_runs(tmp_path):
    scene = Scene(tmp_path, DRAIN)
    summary = scene.worker.run()
    assert (summary.completed, summary.forced) == (1, False)


def test_one_that_is_asked_to_stop_now_hands_back_what_it_runs(tmp_path):
    scene = Scene(tmp_path, NOW)
    summary = scene.worker.run()
    assert (summary.released, summary.forced) == (1, True)
    assert scene.storage.jobs["one"].state == "pending"


class Desk:
    """The command, on a store with two workers elsewhere and one here, which is this very process or is gone."""

    def __init__(self, tmp_path, store):
        clock, self.storage = FakeClock(), MemoryStorage()
        self.app = App(
            home=str(tmp_path / "home"), environ={}, clock=clock, warn=pytest.fail, store=store(self.storage)
        )
        near = replace(make_info("near", name="near", host=processes.host()), pid=os.getpid(), start_time=1)
        for info in (near, make_info("far", name="far", host="h2"), make_info("further", name="further", host="h3")):
            self.app.store.join(info)

    def invoke(self, command, *arguments):
        state = Globals()
        state.__dict__.update(app=self.app, queue=Queue(self.app), quiet=False)
        result = CliRunner().invoke(command, arguments, obj=state, standalone_mode=False)
        assert result.exception is None, result.exception
        return result

    def __call__(self, *arguments):
        result = self.invoke(stop, *arguments)
        return result.return_value, result.stderr


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path, SpanningStore)


def test_without_all_hosts_those_elsewhere_are_left_alone(desk):
    code, told = desk()
    assert (code, desk.storage.stops) == (0, {})
    assert "is gone already" in told
    code, told = desk("far")
    assert (code, desk.storage.stops) == (3, {})
    assert "no worker 'far' on this host" in told


def test_with_all_hosts_those_elsewhere_are_asked(desk):
    code, told = desk("--all-hosts")
    assert (code, desk.storage.stops) == (0, {"far": DRAIN, "further": DRAIN})
    assert "on h2 to stop" in told
    code, _ = desk("--all-hosts", "--now", "far")
    assert (code, desk.storage.stops) == (0, {"far": NOW, "further": DRAIN})


def test_one_that_is_nowhere_is_told(desk):
    code, told = desk("--all-hosts", "nobody")
    assert (code, desk.storage.stops) == (3, {})
    assert "no worker 'nobody'; " in told


def test_the_list_says_on_which_host_each_is_where_there_are_several(desk):
    heading, *rows = (line.split() for line in desk.invoke(list_).stdout.splitlines())
    place = heading.index("HOST")
    assert {(row[0], row[place]) for row in rows} == {("near", processes.host()), ("far", "h2"), ("further", "h3")}
    for worker in ("far", "further"):
        del desk.storage.members[worker]
    assert "HOST" not in desk.invoke(list_).stdout
