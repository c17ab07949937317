"""Taking a move back, and the ways out where one of its stores is gone for good, between two stores in memory."""

from __future__ import annotations

import pytest

from jobq.app import App
from jobq.errors import Conflict, NoticeChanged, StoreError, StoreMoved
from jobq.job import Change
from jobq.moveends import Ends
from jobq.notices import ARRIVING, LEAVING, LEFT, UNKNOWN, Notice
from jobq.store import Query
from jobq.takeback import abandon, open_up
from jobq.testing import make_job, new

from .moves import JOBS, LEFT_FOR_NEW, Killed, Scene

COPIED = 5
"""At this call of a move jobs have been copied, and it is not complete."""


@pytest.fixture
def scene(tmp_path):
    made = Scene(tmp_path)
    yield made
    for app in made.apps:
        app.close()


@pytest.fixture
def given_up(scene):
    """A move that was taken back while its target could not be reached; what was copied is there."""
    scene.before = scene.fill()
    scene.stop(COPIED)
    abandon(scene.move()._app)
    assert scene.notices() == (None, Notice(state=ARRIVING, url="json:old"))
    assert scene.state("new")[0]
    return scene


def opened(scene, monkeypatch, *, gone=False, force=True):
    """Open the target with what has arrived."""

    def store_at(app, url):
        if gone:
            raise StoreError("no route")
        return scene.store(url.partition(":")[2])

    monkeypatch.setattr(App, "store_at", store_at)
    return open_up(scene.move("new", "old")._app, force=force)


def test_what_does_not_stand_is_not_taken_back(scene):
    scene.fill()
    with pytest.raises(Conflict, match="no move from json:old to json:new is under way"):
        scene.take_back()


def test_a_complete_move_is_not_taken_back(scene):
    scene.fill()
    scene.move().run()
    with pytest.raises(Conflict, match="move it back from there"):
        scene.take_back()


def test_one_whose_target_fails_is_taken_back_by_who_insists(scene, monkeypatch):
    before = scene.fill()
    scene.stop(COPIED)

    def gone(ends):
        raise StoreError("no route")

    monkeypatch.setattr(Ends, "empty", gone)
    with pytest.raises(StoreError, match="no route"):
        scene.take_back()
    assert scene.notices()[0] == Notice(state=LEAVING, url="json:new")
    assert str(scene.take_back(force=True)) == "no route"
    assert scene.state("old") == before
    assert scene.notices() == (None, Notice(state=ARRIVING, url="json:old")), "what is there does not run"


def test_a_move_to_a_store_that_cannot_be_opened_is_abandoned_until_it_is_complete(scene):
    before = scene.fill()
    app = scene.move()._app
    with pytest.raises(Conflict, match="no move from here is under way"):
        abandon(app)
    for notice in (Notice(state=LEAVING, url="json:new"), UNKNOWN):
        scene.storages["old"].notice = notice
        abandon(app)
        assert scene.notices() == (None, None)
    assert scene.state("old") == before
    scene.storages["old"].notice = LEFT_FOR_NEW
    with pytest.raises(Conflict):
        abandon(app)
    assert scene.notices()[0] == LEFT_FOR_NEW


def test_what_a_move_that_was_given_up_has_left_does_not_run_when_it_is_taken_back_later(given_up):
    scene = given_up
    store = scene.store("old")
    store.delete(list(store.find(Query(queue="a"))))
    store.add(new(make_job("more")), now=scene.clock.now())
    with pytest.raises(Conflict, match="are not in json:old; they may be nowhere else"):
        scene.take_back()
    scene.take_back(force=True)
    assert scene.notices() == (None, None)
    assert scene.state("new") == ([], {})


def test_a_move_after_one_that_was_given_up_begins_anew(given_up):
    scene = given_up
    store = scene.store("old")
    for job in list(store.find(Query(queue="a")))[:3]:
        store.change(job, Change({"priority": 7}), now=scene.clock.now())
    before = scene.state("old")
    assert scene.move().check() == JOBS
    assert scene.move().run() == JOBS
    assert scene.state("new") == before
    assert scene.notices() == (LEFT_FOR_NEW, None)


def test_a_store_that_was_begun_anew_does_not_do_away_with_what_its_queue_has_become(given_up):
    """The only copy of it, where the old one was lost after its queue had left."""
    scene = given_up
    copied = scene.state("new")
    scene.storages["old"].empty()
    for act in (scene.move().check, scene.move().run, scene.take_back):
        with pytest.raises(Conflict, match=r"of the jobs that have arrived in json:new are not in json:old") as caught:
            act()
        assert "jobq --store json:new move --abort --force` opens" in str(caught.value)
    assert scene.state("new") == copied


def test_a_move_back_that_is_taken_back_leaves_the_door_closed(tmp_path):
    for step in range(2, 6):
        for killed in range(12):
            scene = Scene(tmp_path)
            scene.fill()
            scene.move().run()
            before = scene.state("new")
            scene.storages["old"].notice = Notice(state=LEFT, url="json:third")  # it was there in between
            scene.stop(step, "new", "old")
            try:
                scene.take_back("new", "old", calls={"left": killed})
            except Killed:
                if scene.notices() != (Notice(state=LEFT, url="json:third"), None):
                    scene.take_back("new", "old")
            assert scene.state("new") == before
            assert scene.notices() == (Notice(state=LEFT, url="json:third"), None), (step, killed)
            with pytest.raises(StoreMoved, match="json:third"):
                scene.store("old").add(new(make_job("lost")), now=scene.clock.now())
            for app in scene.apps:
                app.close()


def test_where_the_source_is_gone_what_has_arrived_is_opened(scene, monkeypatch):
    before = scene.fill()
    with pytest.raises(Killed):
        _kill_before_the_end(scene)
    assert scene.notices() == (LEFT_FOR_NEW, Notice(state=ARRIVING, url="json:old"))
    with pytest.raises(Conflict, match=r"jobq --store json:new move --abort --force` opens this one"):
        opened(scene, monkeypatch, gone=True, force=False)
    assert opened(scene, monkeypatch, gone=True) == JOBS
    assert scene.notices()[1] is None
    assert scene.state("new") == before
    with pytest.raises(Conflict, match="no jobs are arriving here"):
        opened(scene, monkeypatch)


def test_where_all_has_left_for_here_it_is_opened_too(scene, monkeypatch):
    scene.fill()
    with pytest.raises(Killed):
        _kill_before_the_end(scene)
    assert opened(scene, monkeypatch) == JOBS


@pytest.mark.parametrize(
    "notice", [None, Notice(state=LEAVING, url="json:new"), Notice(state=LEFT, url="json:third")], ids=str
)
def test_where_the_source_is_not_gone_nothing_is_opened(given_up, monkeypatch, notice):
    scene = given_up
    scene.storages["old"].notice = notice
    with pytest.raises(Conflict, match=r"is not gone: what has arrived here would run twice; `jobq --store json:old"):
        opened(scene, monkeypatch)
    assert scene.notices()[1].state == ARRIVING


def test_one_that_was_begun_anew_is_none_that_jobs_came_from(given_up, monkeypatch):
    given_up.storages["old"].empty()
    assert opened(given_up, monkeypatch) > 0


def test_what_is_taken_back_meanwhile_is_told(scene, monkeypatch):
    scene.fill()
    scene.stop(COPIED)
    empty = Ends.empty

    def late(ends):
        empty(ends)
        scene.storages["new"].notice = None

    monkeypatch.setattr(Ends, "empty", late)
    with pytest.raises(NoticeChanged):
        scene.take_back()


def _kill_before_the_end(scene):
    move = scene.move()
    post = move._ends.post

    def dying(store, notice, before):
        if store is move._target and notice is None:
            raise Killed
        post(store, notice, before)

    move._ends.post = dying
    move.run()
