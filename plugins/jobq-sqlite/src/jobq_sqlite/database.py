"""A process's access to the database: connections, and the transactions in which everything is done.

There is a connection for each thing that is under way: one, and one more for each search whose answers are still being
taken.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from typing import TYPE_CHECKING

from jobq.errors import Conflict, InvalidInput, NotFound, NotSupported, StoreMoved, StoreUnavailable, StoreUnreadable
from jobq.files import unavailable
from jobq.light import contextmanager, suppress
from jobq.notices import heed
from jobq_sqlite import connecting, notices, schema
from jobq_sqlite.connecting import Lasting
from jobq_sqlite.forking import close_for_forks
from jobq_sqlite.logwatch import LogWatch
from jobq_sqlite.publishing import publish
from jobq_sqlite.reading import Reading
from jobq_sqlite.trouble import told
from jobq_sqlite.writequeue import WriteQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TypeVar

    from jobq.job import Job
    from jobq_sqlite.place import Place

    T = TypeVar("T")


class Database:
    """Access to the database at one place.

    Args:
        place: where; it need not exist before something is written.
        durable: whether a commit is on the disk when it returns.

    Attributes:
        place: where it is.
        using: had by the thread that uses it.
    """

    def __init__(self, place: Place, *, durable: bool) -> None:
        self.place = place
        self._durable = durable
        self._queue = WriteQueue(place.lock)
        self._idle: list[sqlite3.Connection] = []
        self._readings: set[Reading] = set()
        self._log = LogWatch(self)
        self._identity: tuple[int, int] | None = None
        self.using = threading.RLock()
        close_for_forks(self)

    def asked(self, ask: Callable[[sqlite3.Connection], T], empty: T, act: str = "read") -> T:
        """What `ask` answers of one state of the database; `empty` where nothing was ever stored.

        Args:
            act: what the notice at its door must allow; "": nothing.

        Raises:
            StoreError: it cannot be read, or its jobs are elsewhere.
        """
        with self.using, self.telling():
            connection = self._take()
            if connection is None:
                return empty
            try:
                self._begin(connection, act)
                answer = ask(connection)
            except BaseException as error:
                self._drop(connection, error)
                raise
            self.give_back(connection)
            return answer

    def search(self, begin: Callable[[sqlite3.Connection], Iterator[bytes]], *, page: int) -> Reading | None:
        """A search of the present state, for which `begin` finds records; None where nothing was ever stored.

        Raises:
            StoreError: as `asked`.
        """
        with self.using, self.telling():
            connection = self._take()
            if connection is None:
                return None
            try:
                self._begin(connection, "read")
                reading = Reading(self, connection, begin(connection), page=page)
            except BaseException as error:
                self._drop(connection, error)
                raise
            self._readings.add(reading)
            reading.fill()
            if self._readings:
                self._log.begin()
            return reading

    def searched(self) -> bool:
        """Whether a search is under way; those that nobody wants any more are ended."""
        for reading in list(self._readings):
            if reading.unwanted:
                reading.release()
        return bool(self._readings)

    def drain(self) -> None:
        """Have the rest of all searches read, and their connections free."""
        for reading in list(self._readings):
            reading.drain()

    def give_back(self, connection: sqlite3.Connection, reading: Reading | None = None) -> None:
        """Take back a connection through which something was read."""
        if reading is not None:
            self._readings.discard(reading)
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:  # it was closed, or fails: there will be another one
            connecting.leave(connection)
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
        with self.using, self.telling():
            connection = self._take() or self._create()
            try:
                self.place.leave_mark()  # no trouble with it may come behind what is recorded
                with self._queue.taken():
                    connection.execute("BEGIN IMMEDIATE")
                    self._enter(connection, act, before)
                    yield connection
                    connection.execute("COMMIT")
                self._check_still_there()
            except BaseException as error:
                self._drop(connection, error)
                raise
            self._keep(connection)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the writers' turn with no connection open, to put another database in force.

        Raises:
            StoreError: others write for long, or the system refused.
        """
        with self.using, self.telling():
            self.close()
            self.place.prepare()
            with self._queue.taken():
                yield
                self._identity = None

    def create(self) -> None:
        """Make the database where there is none yet.

        Raises:
            StoreError: the system refused.
        """
        with self.writing(""):
            pass

    def close(self) -> None:
        """Free everything; a search that is being taken goes on with what it read until then."""
        with self.using:
            self.searched()
            self.drain()
            self._log.end()
            while self._idle:
                connecting.leave(self._idle.pop())
            self._queue.close()

    def before_fork(self) -> None:
        """Close everything, and let nobody open it again before `after_fork`; raises nothing."""
        self.using.acquire()
        with suppress(Exception):  # of what cannot be closed nobody would hear
            self.close()

    def after_fork(self) -> None:
        """Go on, as parent or as child."""
        self.using.release()

    def connect(self, path: str) -> sqlite3.Connection:
        """A connection to a database of jobq that is there, upgraded where it is an older one.

        Raises:
            sqlite3.Error: SQLite or the system refused.
            StoreError: it is no database of jobq, a newer one, or another home's.
        """
        connection = connecting.connect(path, durable=self._durable)
        try:
            if schema.version(connection) != schema.VERSION:
                self.at_once(connection, schema.upgrade)
            self.check_home(connection)
        except BaseException:
            connecting.leave(connection)
            raise
        return connection

    def _create(self) -> sqlite3.Connection:
        """Publish a database with nothing in it, unless somebody is faster; a connection to what is there then."""
        self.place.prepare()
        with self._queue.taken():
            if self.place.identity() is None:
                publish(self.place)
        connection = self._take()
        if connection is None:
            raise StoreUnreadable(f"the database {self.place.path} was removed while it was made")
        return connection

    def _take(self) -> sqlite3.Connection | None:
        """An idle connection to the file that is there now, or a new one; None where there never was a file."""
        identity = self._check_place()
        if self._readings:
            self.searched()
        if self._idle:
            return self._idle.pop()
        if identity is None:
            return None
        connection = self.connect(self.place.path)
        self._identity = identity
        self._check_place()
        return connection

    def _keep(self, connection: sqlite3.Connection) -> None:
        if isinstance(connection, Lasting):
            self._idle.append(connection)
        else:
            connecting.leave(connection)

    def _drop(self, connection: sqlite3.Connection, error: BaseException) -> None:
        """Undo what led to an error; only where that says nothing of the database, the connection is used again."""
        if isinstance(error, (Conflict, NotFound, InvalidInput, StoreMoved)):
            connection.execute("ROLLBACK")
            self._keep(connection)
        else:
            connecting.leave(connection)

    def _check_place(self) -> tuple[int, int] | None:
        identity = self.place.identity()
        if self._identity is not None and identity != self._identity:
            raise StoreUnreadable(f"the database {self.place.path} was replaced while it was in use")
        return identity

    def _check_still_there(self) -> None:
        """Raise where what was committed went to a file that is no longer there: that is not acknowledged.

        Where the file cannot be looked at, it is taken to be there: what is recorded must not be recorded again.
        """
        with suppress(StoreUnavailable):
            self._check_place()

    def check_home(self, connection: sqlite3.Connection) -> None:
        """Raise where a database outside of this home is another home's.

        Whether a worker lives, only its own home can tell: here it would be taken for dead, and its jobs given away.

        Raises:
            NotSupported: it is.
            sqlite3.Error: that cannot be read.
        """
        if self.place.inside:
            return
        found = connection.execute("SELECT value FROM meta WHERE name = 'home'").fetchone()
        home = found[0] if found else None
        if home and (home == self.place.home or _is_same(home, self.place.home)):
            return
        if home and not os.path.isdir(f"{home}/workers"):  # that home was moved here, or is no more
            meta = "UPDATE meta SET value = ? WHERE name = 'home'"
            self.at_once(connection, lambda connection: connection.execute(meta, (self.place.home,)))
        else:
            of = f"of the home {home}" if home else "of the home that it is in"
            raise NotSupported(
                f"{self.place.path} is the database {of}, and {self.place.home} cannot tell who works on it; "
                "`--home` chooses a home, `jobq export` and `jobq import` bring jobs from one to another"
            )

    def at_once(self, connection: sqlite3.Connection, act: Callable[[sqlite3.Connection], object]) -> None:
        """One transaction through this connection.

        Raises:
            sqlite3.Error, StoreError: the system refused, or `act` did; the transaction may be open still.
        """
        with self._queue.taken():
            connection.execute("BEGIN IMMEDIATE")
            act(connection)
            connection.execute("COMMIT")

    def _begin(self, connection: sqlite3.Connection, act: str) -> None:
        connection.execute("BEGIN")
        self._enter(connection, act)

    def _enter(self, connection: sqlite3.Connection, act: str, before: Job | None = None) -> None:
        """Begin to see one state of the database: it may have been upgraded, or moved, since the last time."""
        schema.version(connection)
        if act:
            heed(notices.read(connection), act, before)

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


def _is_same(one: str, other: str) -> bool:
    """Whether two paths lead to the same directory."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
