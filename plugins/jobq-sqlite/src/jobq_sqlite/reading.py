"""A search under way, as the database knows it: whoever takes from it, closes, forks or lets the log grow, is no matter."""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING

from jobq.errors import StoreError

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from jobq_sqlite.database import Database


class Reading:
    """Reads records through a connection that it holds, and with it what it reads, until it is through.

    Args:
        database: to which the connection is given back.
        connection: in a transaction.
        records: reads through the connection.
        page: how many are read at once; a search that finds fewer holds nothing.

    Attributes:
        unwanted: whether nobody takes anything any more.
    """

    def __init__(
        self, database: Database, connection: sqlite3.Connection, records: Iterator[bytes], *, page: int
    ) -> None:
        self._database, self._page = database, page
        self._connection: sqlite3.Connection | None = connection
        self._records = records
        self._ready: deque[bytes] = deque()
        self._error: StoreError | None = None
        self.unwanted = False

    def take(self) -> bytes | None:
        """The next record; None at the end.

        Raises:
            StoreError: it cannot be read.
        """
        with self._database.using:
            if not self._ready:
                self.fill()
            return self._ready.popleft() if self._ready else None

    def fill(self) -> None:
        """Have the next page ready.

        Raises:
            StoreError: it cannot be read.
        """
        error, self._error = self._error, None
        if error is not None:
            raise error
        self._read(self._page)

    def drain(self) -> None:
        """Have the rest ready, and free the connection; who takes what cannot be read is told so."""
        try:
            self._read(None)
        except StoreError as error:
            self._error = error
        except ValueError:  # this very thread is about to read, and forks in a signal's handler
            return

    def give_up(self) -> None:
        """Take nothing more. It may be called from any thread at any moment, and waits for none of them."""
        self.unwanted = True
        if self._database.using.acquire(blocking=False):
            try:
                self.release()
            finally:
                self._database.using.release()

    def release(self) -> None:
        """Free the connection."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._records = iter(())
            self._database.give_back(connection, self)

    def _read(self, most: int | None) -> None:
        if self._connection is None:
            return
        before = len(self._ready)
        try:
            with self._database.telling():
                self._ready.extend(islice(self._records, most))
        except StoreError:
            self.release()
            raise
        if most is None or len(self._ready) - before < most:
            self.release()
