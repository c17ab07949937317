"""What a search found, taken one by one, all of it as it was at the moment of the call."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator

    from jobq.job import Job
    from jobq_sqlite.database import Database


class Snapshot:
    """An iterator over jobs that holds a connection, and with it what it reads, until it is through.

    Args:
        database: to which the connection is given back.
        connection: in a transaction.
        jobs: reads through the connection.
    """

    def __init__(self, database: Database, connection: sqlite3.Connection, jobs: Iterator[Job]) -> None:
        self._database = database
        self._connection: sqlite3.Connection | None = connection
        self._jobs = jobs
        self._drained: deque[Job] = deque()
        database.keep(self)

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        if self._drained:
            return self._drained.popleft()
        if self._connection is None:
            raise StopIteration
        with self._database.telling():
            for job in self._jobs:
                return job
        self._release()
        raise StopIteration

    def __del__(self) -> None:
        self._release()

    def drain(self) -> None:
        """Read the rest now, and free the connection."""
        if self._connection is not None:
            rest = list(self)
            self._drained.extend(rest)

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._jobs = iter(())
            self._database.give_back(connection)
