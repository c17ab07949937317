"""A disk that is full or fails, and a database that others hold: exit code 5, and everything as it was before."""

import resource
import signal
import sqlite3
from contextlib import closing, suppress

import pytest

from jobq.errors import StoreError, StoreLocked, StoreUnavailable, StoreUnreadable
from jobq.job import FINISHED, State
from jobq.store import Query, Wanted
from jobq.testing import START, make_info, make_job, new
from jobq.testing.forks import Fork
from jobq.testing.store_fixtures import success
from jobq_sqlite import connecting, finding, notices
from jobq_sqlite.trouble import told


def test_a_full_disk_is_an_error_of_the_store_and_nothing_is_half_done(kit):
    listed = kit.furnish()
    kit.close()

    def fill(say):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        store = kit.open()
        presence = store.join(make_info("w" * 16))
        (held,) = store.claim(presence, wanted=Wanted(), limit=1, now=START).claims
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, resource.RLIM_INFINITY))
        for _ in range(3):
            try:
                store.add(new(*(make_job(handler="h", payload="x" * 100_000) for _ in range(10))), now=START)
                say("added")
            except StoreUnavailable as error:
                say([error.exit_code, "queue.sqlite3" in str(error)])
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert store.finish(presence, [success(held)], now=START) == []
        presence.close()
        say(held.job.id)

    with Fork(fill) as fork:
        assert [fork.hear() for _ in range(3)] == [[5, True]] * 3
        done = fork.hear()
        assert fork.wait() == 0
    store = kit.open()
    assert sorted(kit.ids(store)) == sorted(listed)
    assert store.get(done).state is State.COMPLETED
    assert store.check() == []


def test_a_database_that_cannot_grow_is_full(kit, monkeypatch):
    listed = kit.furnish()
    kit.close()
    set_up = connecting._set_up

    def bounded(path, mode, **options):
        connection = set_up(path, mode, **options)
        ((pages,),) = connection.execute("PRAGMA page_count")
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    with monkeypatch.context() as patch:
        patch.setattr(connecting, "_set_up", bounded)
        store = kit.open()
        with pytest.raises(StoreUnavailable, match="full"):
            store.add(new(*(make_job(handler="h", payload="x" * 10_000) for _ in range(10))), now=START)
        assert kit.ids(store) == listed
        assert store.check() == []
    kit.add(kit.open(), "new")


def test_somebody_elses_transaction_that_lasts_is_told(kit, monkeypatch):
    kit.furnish()
    kit.close()
    monkeypatch.setattr(connecting, "LIMIT", 0.05)
    with closing(sqlite3.connect(kit.path, isolation_level=None)) as theirs:
        theirs.execute("BEGIN IMMEDIATE")
        store = kit.open()
        with pytest.raises(StoreLocked, match="held"):
            kit.add(store, "new")
        theirs.execute("ROLLBACK")
    kit.add(store, "new")
    assert "new" in kit.ids(store)


def test_who_writes_keeps_others_out_from_the_beginning_on(kit, monkeypatch):
    """What it reads first is what it changes: nobody comes between."""
    kit.furnish()
    (store,) = kit.stores
    read, refused = notices.read, []

    def meanwhile(connection):
        found = read(connection)
        with closing(sqlite3.connect(kit.path, timeout=0, isolation_level=None)) as theirs:
            try:
                theirs.execute("DELETE FROM jobs")
            except sqlite3.OperationalError as error:
                refused.append(str(error))
        return found

    monkeypatch.setattr(notices, "read", meanwhile)
    kit.add(store, "new")
    assert refused == ["database is locked"]


def without_rows(pages, root):
    """To SQLite its pages are sound, and there is nothing in them; in other tables and indexes there is."""
    del root
    emptied = [
        page[:3] + bytes(2) + page[5:] if page[0] == LEAF and b'"created_at"' in page else page for page in pages
    ]
    assert emptied != pages
    return emptied


def zeros(pages, root):
    return [*pages[: root - 1], bytes(len(pages[0])), *pages[root:]]


LEAF = 13
"""With this byte SQLite begins a page with rows of a table."""


@pytest.mark.parametrize(("table", "damage"), [("jobs", without_rows), ("jobs", zeros), ("lanes", zeros)])
def test_what_contradicts_itself_is_damaged(kit, table, damage):
    """Every way to look at jobs says so, or answers."""
    kit.furnish()
    kit.close()
    ((root, size),) = kit.sql(f"SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = '{table}'")
    data = kit.path.read_bytes()
    kit.path.write_bytes(b"".join(damage([data[at : at + size] for at in range(0, len(data), size)], root)))
    store = kit.open()
    presence = store.join(make_info())
    for ask in (
        lambda: list(store.find(Query())),
        lambda: list(store.find(Query(states=FINISHED))),
        lambda: list(store.find(Query(tag="red"))),
        lambda: store.counts(now=START),
        lambda: store.next_due(Wanted(), now=START),
        lambda: store.get_many(["one"]),
        lambda: store.claim(presence, wanted=Wanted(), limit=1, now=START),
        store.notice,
    ):
        with suppress(StoreError):
            ask()
    presence.close()
    assert store.check() != []


@pytest.mark.parametrize(
    "statement",
    [
        "INSERT INTO lanes VALUES ('pending', 'nowhere', 0, '', 0, 1)",
        "INSERT INTO lanes VALUES ('Pending', 'nowhere', 0, '', 0, 1)",
        "INSERT INTO meta VALUES ('notice', '{')",
        "INSERT INTO meta VALUES ('notice', '{}')",
        'INSERT INTO meta VALUES (\'notice\', \'{"state":"leavinG","url":"json:"}\')',
    ],
)
def test_what_cannot_be_is_damaged(kit, statement):
    kit.furnish()
    kit.close()
    kit.sql(statement)
    with pytest.raises(StoreUnreadable, match="is not as jobq made it"):
        kit.open().counts(now=START)


def test_a_search_that_meets_damage_on_its_way_says_so(kit, monkeypatch):
    """What it read at first was sound: an index names a row that is no longer there."""
    *_, first, last = kit.furnish()
    kit.close()
    kit.sql(
        "CREATE TEMP TABLE kept AS SELECT * FROM sqlite_master WHERE name = 'finished'",
        "PRAGMA writable_schema = ON",
        "DELETE FROM sqlite_master WHERE name = 'finished'",
        "PRAGMA writable_schema = RESET",
        f"DELETE FROM jobs WHERE id = '{last}'",
        "PRAGMA writable_schema = ON",
        "INSERT INTO sqlite_master SELECT * FROM kept",
    )
    monkeypatch.setattr(finding, "PAGE", 1)
    found = kit.open().find(Query(states=FINISHED))
    assert next(found).id == first
    with pytest.raises(StoreUnreadable):
        next(found)


def test_whatever_sqlite_says_is_an_error_of_the_store():
    for error in (sqlite3.OperationalError("any"), sqlite3.ProgrammingError("closed"), sqlite3.DatabaseError("any")):
        found = told(error, "/somewhere")
        assert isinstance(found, StoreError)
        assert found.exit_code == 5
        assert "/somewhere" in str(found)
