"""Moving a queue between two stores in memory, and going on wherever it was interrupted."""

from __future__ import annotations

import pytest

from jobq import lifecycle, moving
from jobq.errors import (
    Conflict,
    InvalidInput,
    NotEmpty,
    NoticeChanged,
    NotSupported,
    StoreError,
    StoreMoved,
    StoreUnreadable,
)
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.moveends import alone
from jobq.moving import BATCH
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.spool import backwards, batches
from jobq.store import Ended, Wanted
from jobq.takeback import take_back
from jobq.testing import FakeClock, aged, make_info, make_job, new

from .moves import JOBS, LEFT_FOR_NEW, Killed, Named, Scene


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    for app in made.apps:
        app.close()


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
            scene.stop(reached)
            try:
                scene.take_back(calls={"left": steps})
            except Killed:
                if scene.notices() != (None, None):
                    scene.take_back()
            assert scene.state("old") == before
            assert scene.state("new") == ([], {})
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


@pytest.mark.parametrize("notice", [None, Notice(state=LEAVING, url="json:new")])
def test_a_store_with_jobs_of_its_own_is_refused_and_nothing_is_changed(scene, notice):
    before = scene.fill()
    scene.storages["old"].notice = notice
    scene.store("new").add(new(make_job("own")), now=scene.clock.now())
    for act in (scene.move().check, scene.move().run):
        with pytest.raises(NotEmpty, match=r"1 job is in json:new already.*jobq export"):
            act()
    assert scene.notices() == (notice, None)
    assert scene.state("old") == before
    assert len(scene.state("new")[0]) == 1


def test_a_job_that_is_added_there_at_the_last_moment_is_not_lost(scene):
    scene.fill()
    move = scene.move()
    check = move.check

    def late():
        number = check()
        scene.store("new").add(new(make_job("own")), now=scene.clock.now())
        return number

    move.check = late
    with pytest.raises(NotEmpty):
        move.run()
    assert scene.notices() == (None, None)
    assert [job["id"] for job in scene.state("new")[0]] == ["own"]


def test_the_pauses_of_the_queue_take_the_place_of_those_that_were_there(scene):
    before, store = scene.fill(), scene.store("new")
    for queue, reason in (("a", "old"), ("b", "old")):
        store.pause(queue, True, reason=reason, now=scene.clock.now())
    scene.stop(4)
    store.pause("c", True, now=scene.clock.now())
    scene.move().run()
    assert scene.state("new") == before


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
    for act in (scene.move().is_done, scene.move(calls={"left": 0}).run):
        with pytest.raises(InvalidInput, match="is the store that the queue is in"):
            act()
    assert scene.notices() == (None, None)
    assert scene.state("old") == before


def test_one_move_at_a_time(scene):
    scene.fill()
    first, second = scene.move(), scene.move()
    with alone(first._app):
        for act in (second.run, lambda: take_back(second._app, second._target)):
            with pytest.raises(Conflict, match="another `jobq move`"):
                act()
    second.run()


def test_a_target_that_loses_jobs_is_told_and_the_source_stays(scene):
    scene.fill()
    move = scene.move()
    forgetful = move._target
    forgetful.restore = lambda jobs, *, now: Named.restore(forgetful, jobs[1:], now=now)
    with pytest.raises(StoreUnreadable, match="1 jobs did not arrive in json:new as they were"):
        move.run()
    assert scene.notices()[0].state == LEAVING
    scene.take_back()
    assert scene.notices() == (None, None)


def test_a_move_that_somebody_else_takes_back_is_not_completed(scene):
    """By way of another home: what was copied is out of date when the source works on."""
    before = scene.fill()
    move = scene.move()
    verify = move._verify

    def late(*args):
        verify(*args)
        other = scene.store("old")
        other.post(None, before=other.notice(), now=scene.clock.now())

    move._verify = late
    with pytest.raises(NoticeChanged):
        move.run()
    assert scene.notices()[0] is None
    assert scene.state("old") == before


def test_a_move_to_a_store_that_somebody_has_opened_meanwhile_is_not_completed(scene):
    scene.fill()
    move = scene.move()
    copy = move._copy

    def late(progress):
        moved = copy(progress)
        scene.storages["new"].notice = None
        return moved

    move._copy = late
    with pytest.raises(Conflict, match="is not that of this move any more"):
        move.run()
    assert scene.notices() == (Notice(state=LEAVING, url="json:new"), None)


def test_it_begins_with_what_it_saw(scene):
    scene.fill()
    move = scene.move()
    check = move.check

    def late():
        scene.storages["old"].notice = Notice(state=LEAVING, url="json:third")
        return check()

    move.check = late
    with pytest.raises(Conflict):
        move.run()
    assert scene.notices()[0] == Notice(state=LEAVING, url="json:third")


def test_it_returns_when_nothing_is_recovered_any_more(scene, monkeypatch):
    """The last job is given back while its recovery still removes what is kept of the worker."""
    scene.fill()
    polls = []

    class Slow:
        def __init__(self, app, wake):
            pass

        def poll(self):
            polls.append(scene.notices()[0].state)

        def news(self):
            return []

        @property
        def under_way(self):
            return len(polls) < 3

    monkeypatch.setattr(moving, "Recovery", Slow)
    scene.move().run()
    assert polls == [LEAVING] * 3


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
