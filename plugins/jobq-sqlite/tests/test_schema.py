"""The schema: upgraded in one step, and whatever is no database of ours refused and left as it is."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from jobq.errors import NewerFormat, StoreUnreadable
from jobq.store import Query
from jobq.testing import START, make_job, new
from jobq_sqlite import schema


@pytest.fixture
def older(kit, monkeypatch):
    """A database as this version makes it, which is an older one from now on: the next has one more column."""
    listed = kit.furnish()
    kit.close()
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    steps = [
        "ALTER TABLE jobs ADD COLUMN shade TEXT NOT NULL DEFAULT 'grey'",
        "UPDATE jobs SET shade = 'red' WHERE tagged",
    ]
    monkeypatch.setattr(schema, "STEPS", {schema.VERSION - 1: steps})
    return listed


def test_an_older_database_is_upgraded_when_it_is_opened(kit, older):
    assert kit.ids(kit.open()) == older
    assert kit.sql("PRAGMA user_version") == [(schema.VERSION,)]
    assert kit.sql("SELECT count(*) FROM jobs WHERE shade = 'red'") == [(5,)]
    kit.add(kit.open(), "new")
    assert kit.open().check() == []


def test_an_upgrade_that_fails_leaves_the_older_database(kit, older, monkeypatch):
    steps = [*schema.STEPS[schema.VERSION - 1], "INSERT INTO missing VALUES (1)"]
    with monkeypatch.context() as patch:
        patch.setattr(schema, "STEPS", {schema.VERSION - 1: steps})
        with pytest.raises(StoreUnreadable, match="missing"):
            kit.ids(kit.open())
    assert kit.sql("PRAGMA user_version") == [(schema.VERSION - 1,)]
    assert "shade" not in [row[1] for row in kit.sql("PRAGMA table_info(jobs)")]
    assert kit.ids(kit.open()) == older


def test_two_that_upgrade_at_once_do_it_once(kit, older):
    first, second = kit.open(), kit.open()
    assert kit.ids(first) == kit.ids(second) == older


def test_a_version_that_never_was_is_refused(kit, older):
    kit.sql("PRAGMA user_version = 0")
    with pytest.raises(StoreUnreadable, match="format 0"):
        kit.open().get("one")


def test_a_newer_database_is_refused_by_all(kit):
    kit.furnish()
    store = kit.stores[0]
    kit.sql(f"PRAGMA user_version = {schema.VERSION + 1}")
    for handle in (store, kit.open()):  # one of them had it open before
        for act in (
            lambda each: each.get("one"),
            lambda each: each.counts(now=START),
            lambda each: each.find(Query()),
            lambda each: each.add(new(make_job("new")), now=START),
            lambda each: each.repair(),
        ):
            with pytest.raises(NewerFormat, match="newer"):
                act(handle)
    assert kit.sql("SELECT count(*) FROM jobs") == [(7,)]


def contents(path):
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("content", [b"", b"{}", b"SQLite format 3\0" + b"\0" * 20, b"\x89PNG" * 4096])
def test_a_foreign_file_is_no_empty_queue(kit, content):
    kit.home.mkdir(mode=0o700)
    kit.path.write_bytes(content)
    for act in (
        lambda store: store.counts(now=START),
        lambda store: store.add(new(make_job("new")), now=START),
        lambda store: store.repair(),
    ):
        with pytest.raises(StoreUnreadable, match=r"queue\.sqlite3"):
            act(kit.open())
    assert kit.path.read_bytes() == content


def test_a_database_of_something_else_is_left_alone(kit):
    kit.home.mkdir(mode=0o700)
    kit.sql("CREATE TABLE jobs (id TEXT)", "INSERT INTO jobs VALUES ('theirs')")
    for act in (lambda store: store.get("theirs"), lambda store: store.repair()):
        with pytest.raises(StoreUnreadable, match="no database of jobq"):
            act(kit.open())
    assert kit.sql("SELECT * FROM jobs") == [("theirs",)]


@pytest.mark.parametrize("share", [0.01, 0.3, 0.7, 0.99])
def test_a_truncated_database_is_no_empty_queue(kit, share):
    store = kit.open()
    kit.add(store, *(f"j{number}" for number in range(500)))
    kit.close()
    with kit.path.open("r+b") as file:
        file.truncate(int(kit.path.stat().st_size * share))
    store = kit.open()
    with pytest.raises(StoreUnreadable, match="damaged"):
        kit.ids(store)


def test_what_a_database_is_called_by_others(kit):
    kit.furnish()
    kit.close()
    assert kit.sql("PRAGMA application_id") == [(0x6A6F6271,)]
    assert kit.sql("PRAGMA journal_mode") == [("wal",)]
    assert kit.sql("PRAGMA integrity_check") == [("ok",)]
    assert kit.sql("SELECT count(*) FROM tags") == [(7,)]


@pytest.mark.parametrize(("setting", "level"), [("full", 2), ("normal", 1)])
def test_a_commit_is_as_durable_as_the_setting_says(kit, setting, level):
    store = kit.open(durability=setting)
    kit.add(store, "one")
    assert store._database.asked(lambda connection: connection.execute("PRAGMA synchronous").fetchall(), None) == [
        (level,)
    ]


GOLDEN = Path(__file__).with_name("version-1.sql")


@pytest.fixture
def golden(kit):
    """A database as version 1 made it, with jobs in every state; it must open for ever."""
    kit.home.mkdir(mode=0o700)
    kit.path.touch(mode=0o600)
    with closing(sqlite3.connect(kit.path)) as connection:
        connection.executescript(GOLDEN.read_text(encoding="utf-8"))
    return kit


def test_a_database_of_version_1_opens_for_ever(golden):
    store = golden.open()
    assert store.check() == []
    assert golden.ids(store) == ["one", "mail", "two", "three", "dead", "aged", "done-2", "done-1"]
    assert golden.ids(store, tag="übung") == ["aged"]
    job = store.get("aged")
    assert (job.run, job.attempts, job.extra, len(job.history)) == (2, 2, {"from_a_newer_one": True}, 2)
    assert store.counts(now=START).paused == {"mail": "later"}
    ((_, (held,)),) = store.lost(now=START)
    assert (held.job.id, held.worker) == ("one", "w" * 16)
    assert golden.work(store, limit=9) == ["two", "three"]


@pytest.mark.skipif(schema.VERSION > 1, reason="the schema is another one by now")
def test_the_schema_is_not_changed_without_a_new_version(golden, tmp_path):
    def tables(connection):
        return sorted(connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))

    with (
        closing(sqlite3.connect(tmp_path / "new", isolation_level=None)) as new,
        closing(sqlite3.connect(golden.path)) as old,
    ):
        schema.create(new, {})
        assert tables(new) == tables(old)
