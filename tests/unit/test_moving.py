"""Moving a queue between two stores in memory, and going on wherever it was interrupted."""

from __future__ import annotations

import pytest

from jobq import lifecycle
from jobq.app import App
from jobq.errors import Conflict, DuplicateJob, InvalidInput, NotSupported, StoreError, StoreMoved, StoreUnreadable
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.moving import BATCH, Move, abandon
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.spool import backwards, batches
from jobq.store import Ended, Query, Wanted
from jobq.testing import FakeClock, MemoryStorage, MemoryStore, ScriptedExecutor, aged, make_info, make_job, new

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

    def post(self, notice, *, now):
        self._count("post")
        super().post(notice, now=now)
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


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    for app in made.apps:
        app.close()


LEFT_FOR_NEW = Notice(state=LEFT, url="json:new")


def test_everything_is_there_as_it_was_in_order(scene):
    before = scene.fill()
    move, seen = scene.move(), []
    assert not move.is_done()
    assert move.check() == JOBS
    assert move.run(seen.append) == JOBS
    assert seen[-1] == JOBS
    assert scene.state("new") == before
    assert scene.notices() == (LEFT_FOR_NEW, None)
    assert move.is_done()


def test_killed_at_whatever_call_it_goes_on_when_run_again(tmp_path):
    step = 0
    while True:
        scene = Scene(tmp_path)
        before = scene.fill()
        killed = False
        try:
            scene.move(calls={"left": step}).run()
        except Killed:
            killed = True
        again = scene.move()
        if not again.is_done():
            assert again.run() in (JOBS, None)
        assert scene.state("new") == before, step
        assert scene.notices() == (LEFT_FOR_NEW, None), step
        for app in scene.apps:
            app.close()
        if not killed:
            break
        step += 1
    assert step >= 10


def test_an_abort_killed_at_whatever_call_goes_on_when_run_again(tmp_path):
    for steps in range(30):
        for reached in (3, 5, 6):
            scene = Scene(tmp_path)
            before = scene.fill()
            own = make_job("own")
            scene.store("new").add(new(own), now=scene.clock.now())
            with pytest.raises(Killed):
                scene.move(calls={"left": reached}).run()
            try:
                scene.move(calls={"left": steps}).abort()
            except Killed:
                scene.move().abort()
            assert scene.state("old") == before
            assert scene.state("new") == ([own.record()], {})
            assert scene.notices() == (None, None)
            for app in scene.apps:
                app.close()


def test_it_waits_for_what_runs(scene):
    scene.fill()
    store = scene.store("old")
    worker = store.join(make_info())
    (claim,) = store.claim(worker, wanted=Wanted(queues=("b",)), limit=1, now=scene.clock.now()).claims
    waits = []

    class Ending(FakeClock):
        def wait(self, wake, seconds):
            waits.append(seconds)
            self.advance(seconds)
            if len(waits) == 150:
                outcome = Outcome(kind=Kind.SUCCESS, exit_code=0)
                change = lifecycle.after(claim, outcome, now=self.now(), delay=lambda *_: None)
                assert not store.finish(worker, [Ended(claim, change)], now=self.now())
            return wake.clear()

    scene.clock.__class__ = Ending
    scene.move().run()
    assert len(waits) == 150
    assert scene.notes == ["waiting for 1 running job to end"] * 2
    assert scene.store("new").get(claim.job.id).state is State.COMPLETED


def test_what_a_dead_worker_held_is_given_back_and_moved(scene):
    scene.fill()
    store = scene.store("old")
    doomed = store.join(make_info())
    (claim,) = store.claim(doomed, wanted=Wanted(queues=("b",)), limit=1, now=scene.clock.now()).claims
    doomed.die()

    class Patient(FakeClock):
        def wait(self, wake, seconds):
            import time

            time.sleep(0.001)  # recovery works in a thread of its own
            return super().wait(wake, seconds)

    scene.clock.__class__ = Patient
    scene.move().run()
    job = scene.store("new").get(claim.job.id)
    assert (job.state, job.losses) == (State.PENDING, claim.job.losses + 1)


def test_jobs_that_are_there_already_stay_and_come_first(scene):
    scene.fill()
    scene.store("new").add(new(make_job("own", priority=2)), now=scene.clock.now())
    assert scene.move().run() == JOBS
    assert next(scene.store("new").find(Query())).id == "own"


def test_ids_that_others_have_there_are_named_and_nothing_is_changed(scene):
    before = scene.fill()
    scene.store("new").add(new(make_job("j003"), make_job("j004")), now=scene.clock.now())
    for act in (scene.move().check, scene.move().run):
        with pytest.raises(DuplicateJob) as caught:
            act()
        assert set(caught.value.ids) == {"j003", "j004"}
    assert scene.notices() == (None, None)
    assert scene.state("old") == before


def test_it_moves_back_to_where_it_came_from(scene):
    scene.fill()
    scene.move().run()
    store = scene.store("new")
    store.delete([store.get("j000")])
    store.pause("a", False, now=scene.clock.now())
    store.add(new(make_job("fresh")), now=scene.clock.now())
    before = scene.state("new")
    back = scene.move("new", "old")
    assert not back.is_done()
    assert back.check() == JOBS
    back.run()
    assert scene.state("old") == before
    assert scene.notices() == (None, Notice(state=LEFT, url="json:old"))


@pytest.mark.parametrize("step", range(12))
def test_the_way_back_goes_on_too(scene, step):
    scene.fill()
    scene.move().run()
    store = scene.store("new")
    store.delete([store.get("j000")])
    before = scene.state("new")
    with pytest.raises(Killed):
        scene.move("new", "old", calls={"left": step}).run()
    again = scene.move("new", "old")
    if not again.is_done():
        again.run()
    assert scene.state("old") == before
    assert scene.notices() == (None, Notice(state=LEFT, url="json:old"))


@pytest.mark.parametrize(
    ("old", "new_", "error"),
    [
        (Notice(state=LEAVING, url="json:x"), None, StoreMoved),
        (Notice(state=LEFT, url="json:x"), None, StoreMoved),
        (Notice(state=ARRIVING, url="json:x"), None, StoreMoved),
        (None, Notice(state=ARRIVING, url="json:x"), Conflict),
        (None, Notice(state=LEAVING, url="json:x"), Conflict),
    ],
)
def test_stores_in_another_move_are_refused(scene, old, new_, error):
    scene.storages["old"].notice, scene.storages["new"].notice = old, new_
    with pytest.raises(error):
        scene.move().is_done()
    assert scene.notices() == (old, new_)


def test_a_store_that_cannot_be_moved_is_refused(scene):
    move = scene.move()
    move._target.__class__ = type("Rigid", (Named,), {"capabilities": frozenset()})
    with pytest.raises(NotSupported, match="json:new cannot be moved"):
        move.is_done()


def test_the_same_store_under_its_own_name_is_done(scene):
    assert scene.move("old", "old").is_done()


def test_the_same_store_under_another_name_is_refused(scene):
    before = scene.fill()
    scene.storages["new"] = scene.storages["old"]
    with pytest.raises(InvalidInput, match="is the store that the queue is in"):
        scene.move().run()
    assert scene.notices() == (None, None)
    assert scene.state("old") == before


def test_one_move_at_a_time(scene):
    scene.fill()
    first, second = scene.move(), scene.move()
    with first._alone(), pytest.raises(Conflict, match="another `jobq move`"):
        second.run()
    second.run()


def test_a_target_that_loses_jobs_is_told_and_the_source_stays(scene):
    scene.fill()
    move = scene.move()
    forgetful = move._target
    forgetful.restore = lambda jobs, *, now: Named.restore(forgetful, jobs[1:], now=now)
    with pytest.raises(StoreUnreadable, match="1 jobs did not arrive in json:new as they were"):
        move.run()
    assert scene.notices()[0].state == LEAVING
    scene.move().abort()
    assert scene.notices() == (None, None)


def test_an_abort_without_the_other_store_is_for_who_insists(scene):
    before = scene.fill()
    with pytest.raises(Killed):
        scene.move(calls={"left": 5}).run()
    copied = scene.state("new")[0]
    assert copied
    move = scene.move()

    def gone():
        raise StoreError("no route")

    move._target.notice = gone
    with pytest.raises(StoreError, match="no route"):
        move.abort()
    assert scene.notices()[0] is not None
    assert str(move.abort(force=True)) == "no route"
    assert scene.state("old") == before
    assert scene.notices() == (None, Notice(state=ARRIVING, url="json:old")), "what is there does not run"
    store = scene.store("old")
    for job in store.find(Query()):
        store.delete([job])
    for act in (scene.move().check, scene.move().run):
        with pytest.raises(Conflict, match=f"{len(copied)} jobs are in json:new behind the notice of an earlier move"):
            act()
    assert scene.notices()[0] is None
    there = scene.store("new")
    assert len(there.delete(list(there.find(Query())))) == len(copied)
    assert scene.move().run() == 0


def test_a_move_to_a_store_that_cannot_be_opened_is_abandoned_until_it_is_complete(scene):
    before = scene.fill()
    app = scene.move()._app
    with pytest.raises(Conflict, match="no move from here is under way"):
        abandon(app)
    scene.storages["old"].notice = Notice(state=LEAVING, url="json:new")
    abandon(app)
    assert scene.notices() == (None, None)
    assert scene.state("old") == before
    scene.storages["old"].notice = LEFT_FOR_NEW
    with pytest.raises(Conflict):
        abandon(app)
    assert scene.notices()[0] == LEFT_FOR_NEW


def test_a_complete_move_is_not_taken_back(scene):
    scene.fill()
    move = scene.move()
    move.run()
    with pytest.raises(Conflict, match="move it back from there"):
        move.abort()


def test_a_store_error_leaves_what_can_be_gone_on_with(scene):
    before = scene.fill()
    move = scene.move()

    def broken(jobs, *, now):
        raise StoreError("full")

    move._target.restore = broken
    with pytest.raises(StoreError, match="full"):
        move.run()
    scene.move().run()
    assert scene.state("new") == before


def test_jobs_come_backwards_from_a_file(tmp_path):
    jobs = [aged(make_job(f"j{number}"), State.COMPLETED) for number in range(5)]
    with backwards(iter(jobs), tmp_path) as found:
        assert list(found) == jobs[::-1]
    with backwards([], tmp_path) as found:
        assert list(found) == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError, match="No such file"), backwards(jobs, tmp_path / "gone"):
        pass


def test_batches_leave_nothing_out():
    jobs = [make_job() for _ in range(BATCH * 2 + 1)]
    found = list(batches(jobs, BATCH))
    assert [len(batch) for batch in found] == [BATCH, BATCH, 1]
    assert [job for batch in found for job in batch] == jobs
