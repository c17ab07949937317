"""Mending: what can be read is in a new database, what cannot is kept, and a sound one is left as it is."""

import os

import pytest

from jobq.errors import StoreLocked, StoreMoved, StoreUnavailable, StoreUnreadable
from jobq.job import FINISHED
from jobq.notices import Notice
from jobq.store import Wanted
from jobq.testing import START, make_info
from jobq_sqlite import schema


def test_a_sound_database_is_left_as_it_is(kit):
    listed = kit.furnish()
    kit.close()
    before = kit.path.stat().st_ino
    assert kit.open().repair() == []
    assert kit.path.stat().st_ino == before
    assert kit.ids(kit.open()) == listed


def test_numbers_columns_and_tags_are_made_again_from_the_records(kit):
    listed = kit.furnish()
    kit.stores[0].post(Notice(state="leaving", url="json:"), before=kit.stores[0].notice(), now=START)
    kit.close()
    kit.sql("UPDATE lanes SET jobs = 99", "DELETE FROM tags", "UPDATE jobs SET queue = 'x' WHERE id = 'one'")
    store = kit.open()
    (told,) = store.repair()
    assert told.startswith("7 jobs were brought into a new database")
    assert store.check() == []
    assert kit.ids(store) == listed
    assert kit.ids(store, tag="blue") == ["done-2", "done-1"]
    assert store.counts(now=START).paused == {"mail": "later"}
    assert store.notice() == Notice(state="leaving", url="json:")
    store.post(None, before=store.notice(), now=START)
    kit.add(store, "new")
    assert (kit.home / "queue.sqlite3.damaged-1").stat().st_mode & 0o777 == 0o600


def test_an_older_database_is_upgraded_on_the_way(kit, monkeypatch):
    listed = kit.furnish()
    kit.close()
    kit.sql("UPDATE lanes SET jobs = 99")
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "STEPS", {schema.VERSION - 1: ["CREATE TABLE more (it TEXT)"]})
    store = kit.open()
    assert store.repair() != []
    assert kit.ids(store) == listed


def test_the_order_of_finishing_is_kept(kit):
    store = kit.open()
    kit.add(store, *"abcd")
    for _ in range(2):
        kit.work(store)
    kit.add(store, "first", priority=9)
    kit.work(store)
    kit.close()
    kit.sql("UPDATE lanes SET jobs = 99")
    store = kit.open()
    store.repair()
    assert kit.ids(store, states=FINISHED) == ["first", "b", "a"]
    kit.work(store)
    assert kit.ids(store, states=FINISHED) == ["c", "first", "b", "a"]


def test_a_damaged_record_is_set_aside_and_counted(kit):
    kit.furnish()
    kit.close()
    kit.sql("UPDATE jobs SET record = '{\"id\":' WHERE id = 'one'")
    store = kit.open()
    assert store.repair()[1] == "1 damaged record was set aside, in the table `damaged`"
    assert "one" not in kit.ids(store)
    assert store.counts(now=START).damaged == 1
    assert store.check() == [
        "1 damaged record was set aside before, in the table `damaged`; delete them when done with them"
    ]
    assert store.repair() == []
    assert kit.sql("SELECT record FROM damaged") == [(b'{"id":',)]


def test_what_can_be_read_of_damaged_pages_is_taken_out(kit):
    store = kit.open()
    kit.add(store, *(f"j{number:04}" for number in range(2000)))
    kit.close()
    size = kit.path.stat().st_size
    with kit.path.open("r+b") as file:
        for page in range(size // 4096 // 3, size // 4096 // 3 + 12):
            file.seek(page * 4096)
            file.write(b"\xa5" * 4096)
    store = kit.open()
    assert any("damaged" in sentence for sentence in store.check())
    kit.close()
    store = kit.open()
    store.repair()
    assert store.check() == []
    left = kit.ids(store)
    assert 1000 < len(left) < 2000
    assert left == sorted(left)
    kit.add(store, "new")
    assert (kit.home / "queue.sqlite3.damaged-1").stat().st_size == size


def test_others_that_have_it_open_are_not_robbed_of_it(kit):
    kit.furnish()
    kit.sql("UPDATE lanes SET jobs = 99")
    mine = kit.open()
    with pytest.raises(StoreLocked, match="stop the workers"):
        mine.repair()
    kit.stores[0].close()
    assert mine.repair() != []
    with pytest.raises(StoreUnreadable, match="replaced"):
        kit.stores[0].counts(now=START)


def spoil(path, offset, content):
    """What a disk may do to a file."""
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(content)


def page_of(kit, table):
    """Where the page of a table begins."""
    ((root,),) = kit.sql(f"SELECT rootpage FROM sqlite_master WHERE name = '{table}'")
    kit.sql("PRAGMA wal_checkpoint(TRUNCATE)")
    return (root - 1) * 4096


@pytest.mark.parametrize(
    ("offset", "content"),
    [(0, b"X" * 100), (100, b"X" * 300), (0, b"\0" * 4096), (0, b"")],
    ids=["header", "schema", "zeros", "cut off"],
)
def test_where_nothing_can_be_read_an_empty_one_is_begun_and_the_old_one_kept(kit, offset, content):
    kit.furnish()
    kit.close()
    if content:
        spoil(kit.path, offset, content)
    else:
        os.truncate(kit.path, 0)
    before = kit.path.read_bytes()
    with pytest.raises(StoreUnreadable, match="doctor --repair"):
        kit.open().counts(now=START)
    first, *told = kit.open().repair()
    assert "an empty one was begun" in first
    assert any("moved" in sentence for sentence in told)
    assert (kit.home / "queue.sqlite3.damaged-1").read_bytes() == before
    store = kit.open()
    assert store.check() == []
    kit.add(store, "new")
    assert kit.ids(store) == ["new"]
    assert store.repair() == []


def test_one_that_was_cut_off_is_read_as_far_as_it_goes(kit):
    store = kit.open()
    kit.add(store, *(f"j{number:04}" for number in range(2000)))
    kit.close()
    os.truncate(kit.path, kit.path.stat().st_size // 2)
    store = kit.open()
    told = store.repair()
    assert "some jobs cannot be read any more" in told
    assert store.check() == []
    assert 100 < len(kit.ids(store)) < 2000


@pytest.mark.parametrize("damage", ["page", "text", "record"])
@pytest.mark.parametrize("left", [False, True])
def test_where_its_notice_cannot_be_read_nothing_runs(kit, damage, left):
    """The jobs that one which was left still has are elsewhere, and would run in both."""
    kit.furnish()
    kit.stores[0].post(
        Notice(state="left", url="json:other") if left else None, before=kit.stores[0].notice(), now=START
    )
    kit.close()
    if damage == "page":
        spoil(kit.path, page_of(kit, "meta"), b"\xff" * 64)
    else:
        value = "CAST(x'80' AS TEXT)" if damage == "text" else "'{}'"
        kit.sql(f"INSERT OR REPLACE INTO meta VALUES ('notice', {value})")
    for act in (lambda store: store.notice(), lambda store: store.counts(now=START)):
        with pytest.raises(StoreUnreadable, match="doctor --repair"):
            act(kit.open())
    told = kit.open().repair()
    assert any("whether the queue was moved" in sentence for sentence in told)
    assert any("jobq move --abort --force" in sentence for sentence in told)
    store = kit.open()
    assert store.notice().state == "leaving"
    presence = store.join(make_info())
    assert store.claim(presence, wanted=Wanted(), limit=9, now=START).claims == []
    with pytest.raises(StoreMoved):
        kit.add(store, "new")
    presence.close()
    store.post(None, before=store.notice(), now=START)
    assert kit.work(store, limit=9) == ["one", "two", "three"]


def test_a_notice_that_can_be_read_stays(kit):
    kit.furnish()
    kit.stores[0].post(Notice(state="left", url="json:other"), before=kit.stores[0].notice(), now=START)
    kit.close()
    kit.sql("UPDATE lanes SET jobs = 99")
    (told,) = kit.open().repair()
    assert "7 jobs were brought" in told
    assert kit.open().notice() == Notice(state="left", url="json:other")


@pytest.mark.parametrize("whole", [False, True])
def test_pauses_that_cannot_be_read_are_told(kit, whole):
    kit.furnish()
    kit.stores[0].pause("a", True, now=START)
    kit.close()
    if whole:
        spoil(kit.path, page_of(kit, "paused"), b"\xff" * 64)
    else:
        kit.sql("UPDATE paused SET reason = CAST(x'80' AS TEXT) WHERE queue = 'mail'", "UPDATE lanes SET jobs = 99")
    store = kit.open()
    assert any("which queues were paused cannot be read in full" in sentence for sentence in store.repair())
    assert list(store.counts(now=START).paused) == ([] if whole else ["a"])


def test_what_cannot_be_stored_is_set_aside(kit):
    kit.furnish()
    kit.close()
    kit.sql(
        'UPDATE jobs SET record = replace(record, \'"tags":["red"]\', \'"tags":["\\ud8e9"]\') WHERE id = \'one\'',
        "UPDATE jobs SET record = json_set(record, '$.priority', 1e30) WHERE id = 'two'",
        "UPDATE jobs SET record = replace(record, '\"priority\":3', '\"priority\":3333333333333333333333') WHERE id = 'mail'",
    )
    store = kit.open()
    assert "the record of job one is damaged" in store.check()
    assert "3 damaged records were set aside, in the table `damaged`" in store.repair()
    assert [sentence for sentence in store.check() if "set aside before" not in sentence] == []


@pytest.mark.parametrize("column", ["id", "queue", "worker", "state"])
def test_a_column_that_is_no_text_any_more_is_made_again(kit, column):
    listed = kit.furnish()
    kit.close()
    kit.sql(f"UPDATE jobs SET {column} = CAST(x'80' AS TEXT) WHERE id = 'one'")
    store = kit.open()
    assert any("damaged" in sentence or "columns" in sentence for sentence in store.check())
    assert store.repair() != []
    assert store.check() == []
    assert kit.ids(store) == listed


def test_a_log_that_cannot_be_brought_in_stops_it(kit, monkeypatch):
    """Else what it holds would be gone from the database if the mending were interrupted right then."""
    kit.furnish()
    kit.sql("UPDATE lanes SET jobs = 99")
    kit.close()
    monkeypatch.setattr("jobq_sqlite.repairing.os.path.getsize", lambda path: 1)
    before = kit.path.stat().st_ino
    with monkeypatch.context() as patch:
        patch.setattr("jobq_sqlite.place.Place.log", property(lambda place: f"{place.path}.lock"))
        with pytest.raises(StoreUnavailable, match="nothing was changed"):
            kit.open().repair()
    assert kit.path.stat().st_ino == before
    assert not (kit.home / "queue.sqlite3.damaged-1").exists()


@pytest.mark.parametrize("step", ["link", "unlink", "rename"])
def test_one_that_is_interrupted_can_be_done_again(kit, monkeypatch, step):
    listed = kit.furnish()
    kit.sql("UPDATE lanes SET jobs = 99")
    kit.close()

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(f"jobq_sqlite.repairing.os.{step}", interrupted)
        with pytest.raises(KeyboardInterrupt):
            kit.open().repair()
    store = kit.open()
    assert store.repair() != []
    assert kit.ids(store) == listed
    assert store.check() == []
    assert [path.name for path in kit.home.glob(".*")] == []
