"""Where the database is: what is refused, what is private, and that one which is gone is never an empty queue."""

import os
import shutil
import subprocess
import sys

import pytest

from jobq import filesystem
from jobq.errors import InvalidInput, NotSupported, StoreUnavailable, StoreUnreadable, UnsafeHome
from jobq.testing import START, make_job, new

READS = (lambda store: store.counts(now=START), lambda store: store.get("one"), lambda store: store.check())


def test_reading_where_nothing_was_stored_makes_nothing(kit):
    store = kit.open()
    assert store.counts(now=START).queues == {}
    assert (kit.ids(store), store.notice(), store.check(), store.repair()) == ([], None, [], [])
    assert list(kit.home.iterdir()) == []


def test_all_files_are_private_whatever_the_umask(kit):
    before = os.umask(0)
    try:
        kit.furnish()
        names = {path.name for path in kit.home.iterdir() if path.is_file()}
        assert {"queue.sqlite3", "queue.sqlite3-wal", "queue.sqlite3-shm", "queue.sqlite3.lock"} <= names
        assert {path.stat().st_mode & 0o777 for path in kit.home.iterdir() if path.is_file()} == {0o600}
    finally:
        os.umask(before)


def test_a_database_that_is_gone_is_an_error_until_it_is_begun_anew(kit):
    kit.furnish()
    kit.close()
    kit.path.unlink()
    for act in (*READS, lambda store: store.add(new(make_job("new")), now=START)):
        with pytest.raises(StoreUnreadable, match="is gone"):
            act(kit.open())
    assert not kit.path.exists()
    assert "empty database was begun" in kit.open().repair()[0]
    kit.add(kit.open(), "one")
    assert kit.ids(kit.open()) == ["one"]


@pytest.mark.parametrize("again", [False, True])
def test_a_database_that_is_taken_away_while_it_is_in_use_is_an_error(kit, again):
    kit.furnish()
    (store,) = kit.stores
    kit.path.unlink()
    if again:
        for path in kit.home.glob("queue.sqlite3*"):
            path.unlink()
        kit.add(kit.open(), "another")
    for act in (*READS, lambda store: store.add(new(make_job("new")), now=START)):
        with pytest.raises(StoreUnreadable, match=r"gone|replaced"):
            act(store)


def test_a_log_without_its_database_is_a_loss_too(kit):
    kit.furnish()
    kit.path.rename(kit.home / "elsewhere")
    (kit.home / "queue.sqlite3.made").unlink()
    with pytest.raises(StoreUnreadable, match="is gone"):
        kit.open().counts(now=START)


@pytest.mark.parametrize("url", ["", "jobs.db", "below/jobs.db", "below/deeper/50%.db"])
@pytest.mark.parametrize("whole", [False, True])
def test_one_anywhere_in_the_home_that_is_gone_is_an_error(kit, url, whole):
    kit.url = url
    kit.path = kit.home / (url or "queue.sqlite3")
    kit.add(kit.open(), "one")
    kit.close()
    if whole and kit.path.parent != kit.home:
        shutil.rmtree(kit.home / url.partition("/")[0])
    else:
        for path in kit.home.rglob(f"{kit.path.name}*"):
            if not path.name.endswith(".made"):
                path.unlink()
    for act in (*READS, lambda store: store.add(new(make_job("new")), now=START)):
        with pytest.raises(StoreUnreadable, match="is gone"):
            act(kit.open())
    assert "empty database was begun" in kit.open().repair()[0]
    assert kit.ids(kit.open()) == []


def test_marks_are_of_one_database_each(kit):
    for kit.url in ("a/b.db", "a%2fb.db"):
        kit.add(kit.open(), "one")
    kit.close()
    assert {path.name for path in kit.home.glob("*.made")} == {"a%2fb.db.made", "a%252fb.db.made"}


def test_nothing_outside_the_home_is_marked(kit, tmp_path):
    kit.url = str(tmp_path / "elsewhere" / "jobs.db")
    kit.add(kit.open(), "one")
    assert not (tmp_path / "elsewhere" / "jobs.db.made").exists()


@pytest.mark.parametrize("end", ["", "-wal", "-shm", ".lock", ".bell"])
def test_links_are_refused(kit, tmp_path, end):
    kit.furnish()
    kit.close()
    path, target = kit.home / f"queue.sqlite3{end}", tmp_path / "target"
    if path.exists():
        path.rename(target)
    else:
        target.touch()
    path.symlink_to(target)
    with pytest.raises(UnsafeHome, match="not a regular file"):
        kit.add(kit.open(), "new")


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(kit, make):
    kit.home.mkdir(mode=0o700)
    make(kit.path)
    with pytest.raises(UnsafeHome, match="not a regular file"):
        kit.open().counts(now=START)


def test_files_of_others_are_refused(kit, monkeypatch):
    kit.furnish()
    owner = os.geteuid()
    monkeypatch.setattr("os.geteuid", lambda: owner + 1)
    with pytest.raises(UnsafeHome, match="belongs to user"):
        kit.open().counts(now=START)


def test_a_directory_that_is_open_to_others_is_refused(kit, tmp_path):
    (tmp_path / "open").mkdir(mode=0o755)
    kit.url = str(tmp_path / "open" / "jobs.db")
    with pytest.raises(UnsafeHome, match="open to other users"):
        kit.add(kit.open(), "one")
    assert list((tmp_path / "open").iterdir()) == []


def test_a_network_file_system_is_refused_unless_forced(kit, monkeypatch):
    monkeypatch.setattr("jobq_sqlite.place.os.major", lambda _: 0)
    monkeypatch.setattr("jobq_sqlite.place.kind", lambda _: "nfs4")
    assert "nfs4" in filesystem.NETWORK
    with pytest.raises(NotSupported, match="JOBQ_ALLOW_NETWORK_FS=1"):
        kit.add(kit.open(), "one")
    monkeypatch.setenv("JOBQ_ALLOW_NETWORK_FS", "1")
    kit.add(kit.open(), "one")


@pytest.mark.parametrize(
    "url", [".", "workers", "output", "output/jobs.db", "cache", "config.toml", "trusted", "token", "below/../workers"]
)
def test_the_homes_own_places_are_refused(kit, url):
    kit.url = url
    with pytest.raises(InvalidInput, match="is for other things of this home"):
        kit.open()
    kit.url = str(kit.home / url)
    with pytest.raises(InvalidInput, match="is for other things of this home"):
        kit.open()


def test_the_address_is_relative_to_the_home(kit):
    kit.url = "below/jobs?#%.db"
    kit.add(kit.open(), "one")
    kit.close()
    assert (kit.home / "below" / "jobs?#%.db").is_file()
    assert (kit.home / "below").stat().st_mode & 0o777 == 0o700
    assert kit.ids(kit.open()) == ["one"]


def test_a_database_elsewhere_belongs_to_one_home(kit, tmp_path):
    """Another home does not know who works on it, and would give away what they run."""
    kit.url = str(tmp_path / "elsewhere" / "jobs.db")
    kit.add(kit.open(), "one")
    (kit.home / "workers").mkdir(mode=0o700, exist_ok=True)
    kit.close()
    first, kit.home = kit.home, tmp_path / "other"
    with pytest.raises(NotSupported, match="is the database of the home"):
        kit.open().counts(now=START)
    first.rename(kit.home.with_name("moved"))
    kit.home = kit.home.with_name("moved")
    assert kit.ids(kit.open()) == ["one"], "a home may be moved"
    kit.close()
    inside = kit.home.with_name("inside")
    shutil.copytree(kit.home, inside)
    kit.home, kit.url = inside, ""
    kit.add(kit.open(), "in it")
    kit.home, kit.url = kit.home.with_name("moved"), str(inside / "queue.sqlite3")
    with pytest.raises(NotSupported, match="the home that it is in"):
        kit.open().counts(now=START)


def test_a_home_is_the_same_by_whatever_path(kit, tmp_path):
    kit.home.mkdir(mode=0o700)
    kit.url = str(tmp_path / "elsewhere" / "jobs.db")
    kit.add(kit.open(), "one")
    (kit.home / "workers").mkdir(mode=0o700, exist_ok=True)
    kit.close()
    (tmp_path / "other").symlink_to(tmp_path)
    kit.home = tmp_path / "other" / kit.home.name
    assert kit.ids(kit.open()) == ["one"]
    kit.add(kit.open(), "two")
    kit.close()
    kit.path = tmp_path / "elsewhere" / "jobs.db"
    kit.sql(f"UPDATE meta SET value = '{kit.home}' WHERE name = 'home'")
    kit.home = tmp_path / kit.home.name
    assert kit.ids(kit.open()) == ["one", "two"]


def test_a_directory_above_one_that_is_elsewhere_is_not_made(kit, tmp_path):
    kit.url = str(tmp_path / "no" / "such" / "jobs.db")
    with pytest.raises(StoreUnavailable, match="is no directory"):
        kit.add(kit.open(), "one")
    assert not (tmp_path / "no").exists()


def test_a_durability_that_is_none_is_refused(kit):
    with pytest.raises(InvalidInput, match="full or normal"):
        kit.open(durability="some")


def test_a_sqlite_that_is_too_old_is_told(kit, monkeypatch):
    monkeypatch.setattr("sqlite3.sqlite_version_info", (3, 34, 1))
    with pytest.raises(NotSupported, match="too old"):
        kit.open()


def powerless():
    """What runs a command with no other rights to files than their modes give."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        pytest.skip("needs setpriv, since root may write everywhere")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]


@pytest.mark.parametrize("killed", [False, True], ids=["closed", "with a log"])
def test_where_nothing_can_be_written_reading_commands_answer(kit, killed):
    listed = kit.furnish()
    (kit.home / "workers").mkdir(mode=0o700, exist_ok=True)
    if not killed:
        kit.close()
    for path in kit.home.iterdir():
        path.chmod(0o500 if path.is_dir() else 0o400)
    kit.home.chmod(0o500)

    def jobq(*words):
        command = [*powerless(), sys.executable, "-m", "jobq", "--home", str(kit.home), "--store", "sqlite:", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    try:
        code, told, trouble = jobq("list", "--ids")
        assert (code, told.split()) == (0, listed), trouble
        assert jobq("show", "one", "--json")[0] == 0
        assert jobq("status")[0] == 0
        code, _, trouble = jobq("add", "--", "true")
        assert code == 5, trouble
        assert "Traceback" not in trouble
    finally:
        kit.home.chmod(0o700)
        for path in kit.home.iterdir():
            path.chmod(0o700 if path.is_dir() else 0o600)
    assert kit.ids(kit.open()) == listed
