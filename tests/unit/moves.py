"""Two stores in memory, a move between them, and a process that ends at the Nth call of it."""

from __future__ import annotations

import pytest

from jobq.app import App
from jobq.job import State
from jobq.moving import Move
from jobq.notices import LEFT, Notice
from jobq.store import Query
from jobq.takeback import take_back
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor, aged, make_job

JOBS = 30


class Killed(BaseException):
    """The process is gone at this moment."""


class Named(MemoryStore):
    """A store in memory with a name, which may end its process at the Nth call that may change it."""

    def __init__(self, storage, url, calls=None):
        super().__init__(storage)
        self.url, self.calls = url, calls

    def _count(self, what):
        if self.calls is None:
            return
        self.calls["left"] -= 1
        if self.calls["left"] < 0:
            raise Killed(what)

    def restore(self, jobs, *, now):
        self._count("restore")
        done = super().restore(jobs, now=now)
        self._count("restored")
        return done

    def identity(self):
        return f"memory:{id(self.storage)}"

    def post(self, notice, *, before, now):
        self._count("post")
        super().post(notice, before=before, now=now)
        self._count("posted")

    def pause(self, *args, **kwargs):
        self._count("pause")
        super().pause(*args, **kwargs)

    def delete(self, jobs):
        self._count("delete")
        return super().delete(jobs)


class Scene:
    """Two stores, and a move between them."""

    def __init__(self, tmp_path):
        self.home, self.clock, self.notes = tmp_path / "home", FakeClock(), []
        self.storages = {"old": MemoryStorage(), "new": MemoryStorage()}
        self.apps = []

    def store(self, name, calls=None):
        return Named(self.storages[name], f"json:{name}", calls)

    def move(self, source="old", target="new", calls=None):
        app = App(
            home=str(self.home),
            environ={},
            clock=self.clock,
            warn=self.notes.append,
            store=self.store(source, calls),
            executor=ScriptedExecutor(lambda job: None),
        )
        self.apps.append(app)
        return Move(app, self.store(target, calls), note=self.notes.append)

    def take_back(self, source="old", target="new", calls=None, *, force=False):
        move = self.move(source, target, calls)
        return take_back(move._app, move._target, force=force)

    def stop(self, step, source="old", target="new"):
        """Begin a move that is killed at a call."""
        with pytest.raises(Killed):
            self.move(source, target, calls={"left": step}).run()

    def fill(self):
        """Jobs in every state but processing, in several queues and priorities; what they are, in order."""
        store, now = self.store("old"), self.clock.now()
        kinds = [state for state in State if state is not State.PROCESSING]
        jobs = [
            aged(make_job(f"j{number:03}", queue=("a", "b")[number % 2], priority=number % 3), kinds[number % 5])
            for number in range(JOBS)
        ]
        store.restore(jobs, now=now)
        store.pause("a", True, reason="so", now=now)
        store.pause("empty", True, now=now)
        return self.state("old")

    def state(self, name):
        storage = self.storages[name]
        notice, storage.notice = storage.notice, None
        store = self.store(name)
        found = [job.record() for job in store.find(Query())], dict(storage.paused)
        storage.notice = notice
        return found

    def notices(self):
        return tuple(self.storages[name].notice for name in ("old", "new"))


LEFT_FOR_NEW = Notice(state=LEFT, url="json:new")
