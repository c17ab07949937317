"""What is acknowledged is on the disk, and what is recorded is acknowledged."""

import errno
import os
import sqlite3

import pytest

from jobq.errors import StoreUnavailable, StoreUnreadable
from jobq.job import State
from jobq.store import Wanted
from jobq.testing import START, make_info
from jobq.testing.store_fixtures import failure, success
from jobq_sqlite import notices, schema
from jobq_sqlite.connecting import Lasting


def watched(monkeypatch):
    """What is done to files and directories from now on, in its order: the call, and on what."""
    done = []

    def opened(descriptor):
        return os.readlink(f"/proc/self/fd/{descriptor}")

    def watch(name, path_of):
        act = getattr(os, name)

        def watching(*arguments, **options):
            done.append((name, str(path_of(*arguments))))
            return act(*arguments, **options)

        monkeypatch.setattr(os, name, watching)

    for name in ("mkdir", "unlink"):
        watch(name, lambda path, *_: path)
    for name in ("rename", "replace", "link"):
        watch(name, lambda old, new: new)
    for name in ("fsync", "fdatasync"):
        watch(name, opened)
    return done


def test_what_went_to_a_database_that_is_no_longer_there_is_not_acknowledged(kit, monkeypatch):
    """It is taken away in the middle of the transaction, and the commit goes with it."""
    kit.furnish()
    (store,) = kit.stores
    read = notices.read

    def meanwhile(connection):
        kit.path.rename(kit.home / "elsewhere")
        return read(connection)

    with monkeypatch.context() as patch:
        patch.setattr(notices, "read", meanwhile)
        with pytest.raises(StoreUnreadable, match="gone"):
            kit.add(store, "new")


def test_where_no_mark_can_be_left_nothing_is_recorded(kit, monkeypatch):
    """A worker would say an end again that is recorded already, and be told that it came too late."""
    store = kit.open()
    kit.add(store, "one")
    presence = store.join(make_info())
    (held,) = store.claim(presence, wanted=Wanted(), limit=1, now=START).claims
    (kit.home / "queue.sqlite3.made").unlink()
    again = kit.open()

    def refuse(*_, **__):
        raise StoreUnavailable("no space for it")

    with monkeypatch.context() as patch:
        patch.setattr("jobq_sqlite.place.files.replace", refuse)
        with pytest.raises(StoreUnavailable):
            again.finish(presence, [success(held)], now=START)
    assert store.get("one").state is State.PROCESSING
    assert again.finish(presence, [success(held)], now=START) == []
    presence.close()


def test_no_trouble_comes_behind_what_is_recorded(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one", "two")
    presence = store.join(make_info())
    first, second = store.claim(presence, wanted=Wanted(), limit=2, now=START).claims
    (kit.home / "queue.sqlite3.bell").unlink(missing_ok=True)
    (kit.home / "queue.sqlite3.bell").symlink_to(kit.home / "elsewhere")
    store._bell.close()
    assert store.finish(presence, [failure(first)], now=START) == []
    lstat, committed = os.lstat, []

    def failing(path, **options):
        if committed and str(path) == str(kit.path):
            raise OSError(errno.EIO, "the disk is broken")
        return lstat(path, **options)

    class Watching(Lasting):
        def execute(self, statement, *arguments):
            done = super().execute(statement, *arguments)
            if statement == "COMMIT":
                committed.append(statement)
            return done

    kit.close()
    with monkeypatch.context() as patch:
        patch.setattr("jobq_sqlite.connecting.Lasting", Watching)
        (kit.home / "queue.sqlite3.bell").unlink()
        again = kit.open()
        patch.setattr("jobq_sqlite.place.os.lstat", failing)
        assert again.finish(presence, [success(second)], now=START) == []
    assert committed
    assert kit.open().get("two").state is State.COMPLETED
    presence.close()


def test_the_old_one_is_kept_for_sure_before_a_mended_one_takes_its_place(kit, monkeypatch):
    kit.furnish()
    kit.sql("UPDATE lanes SET jobs = 99")
    kit.close()
    done = watched(monkeypatch)
    kit.open().repair()
    linked = done.index(("link", f"{kit.path}.damaged-1"))
    synced = done.index(("fsync", str(kit.home)), linked)
    renamed = done.index(("rename", str(kit.path)))
    assert linked < synced < renamed < done.index(("fsync", str(kit.home)), renamed)


@pytest.mark.parametrize("url", ["", "below/jobs.db", "below/deeper/jobs.db"])
def test_a_database_is_on_the_disk_before_anything_in_it_is_acknowledged(kit, monkeypatch, url):
    """Its content, then its name, then the names of the directories that it is in, and the mark."""
    kit.url = url
    done = watched(monkeypatch)
    kit.add(kit.open(), "one")
    path = str(kit.home / (url or "queue.sqlite3"))
    directory = os.path.dirname(path)

    def at(name, wanted):
        found = [number for number, (each, of) in enumerate(done) if each == name and wanted(of)]
        assert found, (name, done)
        return found[-1]

    content = at("fdatasync", lambda of: of.startswith(f"{directory}/.{os.path.basename(path)}.new."))
    name = at("rename", lambda of: of == path)
    entry = at("fsync", lambda of: of == directory)
    assert content < name < entry
    for number, (act, of) in enumerate(done):
        if act == "mkdir" and of != str(kit.home):  # which is the kernel's
            synced = done.index(("fsync", os.path.dirname(of)), number)
            assert synced < name, f"{of} may be gone after a loss of power"
    assert at("replace", lambda of: of.endswith(".made")) > name


def test_a_database_whose_log_would_stay_behind_is_not_put_in_force(kit, monkeypatch):
    """As when the system refuses what SQLite does as it closes it, of which it says nothing."""
    create, others = schema.create, []

    def looked_at(connection, meta):
        create(connection, meta)
        ((_, _, path),) = connection.execute("PRAGMA database_list")
        others.append(sqlite3.connect(path))
        others[0].execute("SELECT * FROM jobs").fetchall()

    with monkeypatch.context() as patch:
        patch.setattr(schema, "create", looked_at)
        with pytest.raises(StoreUnavailable, match="cannot be made"):
            kit.add(kit.open(), "new")
    others[0].close()
    assert list(kit.home.glob(".*")) == []
    kit.add(kit.open(), "new")
