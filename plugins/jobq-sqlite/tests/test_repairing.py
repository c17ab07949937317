"""Mending: what can be read is in a new database, what cannot is kept, and a sound one is left as it is."""

import pytest

from jobq.errors import StoreLocked, StoreUnreadable
from jobq.job import FINISHED
from jobq.notices import Notice
from jobq.testing import START
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
    kit.stores[0].post(Notice(state="arriving", url="json:"), now=START)
    kit.close()
    kit.sql("UPDATE lanes SET jobs = 99", "DELETE FROM tags", "UPDATE jobs SET queue = 'x' WHERE id = 'one'")
    store = kit.open()
    (told,) = store.repair()
    assert told.startswith("7 jobs were brought into a new database")
    assert store.check() == []
    assert kit.ids(store) == listed
    assert kit.ids(store, tag="blue") == ["done-2", "done-1"]
    assert store.counts(now=START).paused == {"mail": "later"}
    assert store.notice() == Notice(state="arriving", url="json:")
    store.post(None, now=START)
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
    assert kit.sql("SELECT record FROM damaged") == [('{"id":',)]


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
