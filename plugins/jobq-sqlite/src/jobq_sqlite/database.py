"""A process's access to the database: connections, and the transactions in which everything is done.

There is a connection for each thing that is under way: one, and one more for each search whose answers are still being
taken. None of them is there during a fork: in a child, SQLite would believe that it holds locks that are its parent's.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import weakref
from typing import TYPE_CHECKING

from jobq.errors import Conflict, InvalidInput, NotFound, NotSupported, StoreMoved, StoreUnreadable
from jobq.files import open_private, sync, sync_directory, unavailable
from jobq.light import contextmanager, suppress
from jobq.notices import heed
from jobq_sqlite import notices, schema
from jobq_sqlite.trouble import primary, told
from jobq_sqlite.turns import LIMIT, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from jobq.job import Job
    from jobq_sqlite.place import Place
    from jobq_sqlite.snapshot import Snapshot

    T = TypeVar("T")

_UNREADABLE_HERE = frozenset({sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY})


class Database:
    """Access to the database at one place.

    Args:
        place: where; it need not exist before something is written.
        durable: whether a commit is on the disk when it returns.

    Attributes:
        place: where it is.
    """

    def __init__(self, place: Place, *, durable: bool) -> None:
        self.place = place
        self._durable = durable
        self._turns = Turns(place.lock)
        self._idle: list[sqlite3.Connection] = []
        self._snapshots: weakref.WeakSet[Snapshot] = weakref.WeakSet()
        self._identity: tuple[int, int] | None = None
        self._using = threading.RLock()
        _opened.add(self)

    def asked(self, ask: Callable[[sqlite3.Connection], T], empty: T, act: str = "read") -> T:
        """What `ask` answers of one state of the database; `empty` where nothing was ever stored.

        Args:
            act: what the notice at its door must allow; "": nothing.

        Raises:
            StoreError: it cannot be read, or its jobs are elsewhere.
        """
        with self._using, self.telling():
            connection = self._take()
            if connection is None:
                return empty
            try:
                self._begin(connection, act)
                answer = ask(connection)
            except BaseException:
                _leave(connection)
                raise
            self.give_back(connection)
            return answer

    def snapshot(self) -> sqlite3.Connection | None:
        """A connection that goes on seeing the present state, to be given back; None where nothing was ever stored.

        Raises:
            StoreError: as `asked`.
        """
        with self._using, self.telling():
            connection = self._take()
            if connection is not None:
                try:
                    self._begin(connection, "read")
                except BaseException:
                    _leave(connection)
                    raise
            return connection

    def keep(self, snapshot: Snapshot) -> None:
        """Have what is left of a snapshot read when its connection must be closed."""
        self._snapshots.add(snapshot)

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Take back a connection through which something was read."""
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:  # it was closed, or fails: there will be another one
            _leave(connection)
        else:
            self._keep(connection)

    @contextmanager
    def writing(self, act: str, before: Job | None = None) -> Iterator[sqlite3.Connection]:
        """A transaction that writes: durable at its end, undone if there is an error. The first time, all is made.

        Args:
            act, before: what the notice at the door must allow, as `jobq.notices.heed` takes it; "": nothing.

        Raises:
            StoreError: others write for long, the system refused, or its jobs are elsewhere.
        """
        with self._using, self.telling():
            connection = self._take() or self._create()
            try:
                with self._turns.taken():
                    connection.execute("BEGIN IMMEDIATE")
                    self._enter(connection, act, before)
                    yield connection
                    connection.execute("COMMIT")
                self._check_place()  # what went to a file that is no longer there is not acknowledged
                self.place.leave_mark()
            except (Conflict, NotFound, InvalidInput, StoreMoved):
                connection.execute("ROLLBACK")
                self._keep(connection)
                raise
            except BaseException:
                _leave(connection)
                raise
            self._keep(connection)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the writers' turn with no connection open, to put another database in force.

        Raises:
            StoreError: others write for long, or the system refused.
        """
        with self._using, self.telling():
            self.close()
            self.place.prepare()
            with self._turns.taken():
                yield

    def create(self) -> None:
        """Make the database where there is none yet.

        Raises:
            StoreError: the system refused.
        """
        with self.writing(""):
            pass

    def close(self) -> None:
        """Free everything; a search that is being taken goes on with what it read until then."""
        with self._using:
            for snapshot in list(self._snapshots):
                snapshot.drain()
            while self._idle:
                _leave(self._idle.pop())
            self._turns.close()

    def before_fork(self) -> None:
        """Close everything, and let nobody open it again before `after_fork`."""
        self._using.acquire()
        self.close()

    def after_fork(self) -> None:
        """Go on, as parent or as child."""
        self._using.release()

    def connect(self, path: str, mode: str = "rw") -> sqlite3.Connection:
        """A connection to a database of jobq that is there.

        Raises:
            sqlite3.Error: SQLite or the system refused.
            StoreError: it is no database of jobq, or a newer one.
        """
        connection = _open(path, mode)
        try:
            schema.check_kind(connection, path)
            # FULL syncs each commit; NORMAL only what a checkpoint moves
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'NORMAL'}")
            connection.execute(f"PRAGMA fullfsync = {int(self._durable)}")
            connection.execute("PRAGMA checkpoint_fullfsync = 1")
            connection.execute("PRAGMA cache_size = -16384")
            connection.execute("PRAGMA temp_store = MEMORY")
            if schema.version(connection) != schema.VERSION:
                with self._turns.taken():
                    connection.execute("BEGIN IMMEDIATE")
                    schema.upgrade(connection)
                    connection.execute("COMMIT")
            self._check_home(connection)
        except BaseException:
            _leave(connection)
            raise
        return connection

    def make(self, path: str) -> None:
        """Make a database with nothing in it.

        Raises:
            StoreError, sqlite3.Error: the system refused.
            FileExistsError: there is one.
        """
        os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
        connection = _open(path, "rw")
        try:
            schema.create(connection, {} if self.place.inside else {"home": self.place.home})
        finally:
            connection.close()

    def publish(self, fill: Callable[[str], None]) -> None:
        """With the writers' turn: put a new database, which `fill` is given the path of, in the place of any other.

        Raises:
            StoreError, OSError, sqlite3.Error: the system refused; what was there stands.
        """
        self._sweep()
        temporary = f"{self._unpublished}{os.urandom(8).hex()}"
        try:
            self.make(temporary)
            fill(temporary)
            descriptor = open_private(temporary, os.O_RDWR)
            try:
                sync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(temporary, self.place.path)
        except BaseException:
            self._sweep()
            raise
        sync_directory(self.place.directory)
        self._identity = None

    def _create(self) -> sqlite3.Connection:
        """Publish a database with nothing in it, unless somebody is faster; a connection to what is there then."""
        self.place.prepare()
        with self._turns.taken():
            if self.place.identity() is None:
                self.publish(lambda _: None)
        connection = self._take()
        if connection is None:
            raise StoreUnreadable(f"the database {self.place.path} was removed while it was made")
        return connection

    def _take(self) -> sqlite3.Connection | None:
        """An idle connection to the file that is there now, or a new one; None where there never was a file."""
        identity = self._check_place()
        if self._idle:
            return self._idle.pop()
        if identity is None:
            return None
        try:
            connection = self.connect(self.place.path)
        except sqlite3.Error as error:
            if primary(error) not in _UNREADABLE_HERE:
                raise
            connection = self._connect_to_read()
        self._identity = identity
        self._check_place()
        return connection

    def _connect_to_read(self) -> sqlite3.Connection:
        """A connection where nothing can be written, not even what SQLite keeps beside the database."""
        try:
            return self.connect(self.place.path, "ro")
        except sqlite3.Error:
            with suppress(FileNotFoundError):
                if os.path.getsize(f"{self.place.path}-wal"):
                    raise
            # All that was committed is in the file itself, and nobody can change it here
            return self.connect(self.place.path, "ro&immutable=1")

    def _keep(self, connection: sqlite3.Connection) -> None:
        if isinstance(connection, _Lasting):
            self._idle.append(connection)
        else:
            _leave(connection)

    def _check_place(self) -> tuple[int, int] | None:
        identity = self.place.identity()
        if self._identity is not None and identity != self._identity:
            raise StoreUnreadable(f"the database {self.place.path} was replaced while it was in use")
        return identity

    def _check_home(self, connection: sqlite3.Connection) -> None:
        """Raise where a database outside of this home is another home's.

        Whether a worker lives, only its own home can tell: here it would be taken for dead, and its jobs given away.
        """
        if self.place.inside:
            return
        found = connection.execute("SELECT value FROM meta WHERE name = 'home'").fetchone()
        home = found[0] if found else None
        if home != self.place.home:
            of = f"of the home {home}" if home else "of the home that it is in"
            raise NotSupported(
                f"{self.place.path} is the database {of}, and {self.place.home} cannot tell who works on it; "
                "`--home` chooses a home, `jobq export` and `jobq import` bring jobs from one to another"
            )

    def _begin(self, connection: sqlite3.Connection, act: str) -> None:
        connection.execute("BEGIN")
        self._enter(connection, act)

    def _enter(self, connection: sqlite3.Connection, act: str, before: Job | None = None) -> None:
        """Begin to see one state of the database: it may have been upgraded, or moved, since the last time."""
        schema.version(connection)
        if act:
            heed(notices.read(connection), act, before)

    @property
    def _unpublished(self) -> str:
        """How the path of a database begins that is not yet in force."""
        return os.path.join(self.place.directory, f".{os.path.basename(self.place.path)}.new.")

    def _sweep(self) -> None:
        """Remove what there is of databases that never came into force; whoever makes one has the writers' turn."""
        beginning = os.path.basename(self._unpublished)
        for name in os.listdir(self.place.directory):
            if name.startswith(beginning):
                with suppress(OSError):
                    os.unlink(os.path.join(self.place.directory, name))

    @contextmanager
    def telling(self) -> Iterator[None]:
        """What SQLite and the system raise in this block is an error of the store.

        Raises:
            StoreError: they did.
        """
        try:
            yield
        except sqlite3.Error as error:
            raise told(error, self.place.path) from None
        except OSError as error:
            raise unavailable(error, error.filename or self.place.path) from None


class _Lasting(sqlite3.Connection):
    """A connection that is used again: one that can only read would not see that the directory can be written to."""


def _open(path: str, mode: str) -> sqlite3.Connection:
    name = path.replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    return sqlite3.connect(
        f"file:{name}?mode={mode}",
        uri=True,
        timeout=LIMIT,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=256,
        factory=_Lasting if mode == "rw" else sqlite3.Connection,
    )


def _leave(connection: sqlite3.Connection) -> None:
    """Undo what the connection was about, and close it."""
    with suppress(sqlite3.Error):
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    with suppress(sqlite3.Error):
        connection.close()


_opened: weakref.WeakSet[Database] = weakref.WeakSet()
_forking: list[Database] = []


def _before_fork() -> None:
    _forking.extend(_opened)
    for database in _forking:
        database.before_fork()


def _after_fork() -> None:
    while _forking:
        _forking.pop().after_fork()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
