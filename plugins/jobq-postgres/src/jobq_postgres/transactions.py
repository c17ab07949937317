"""Transactions of a handle: how they begin, heed the notice at the door, commit, and wake others."""

from __future__ import annotations

import secrets
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from jobq.notices import Notice, heed
from jobq_postgres import batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from jobq.job import Job
    from jobq_postgres.address import Address
    from jobq_postgres.batches import Statement
    from jobq_postgres.connecting import Line

    Connection = psycopg.Connection[Any]


_NOT_SYNCED = "SET LOCAL synchronous_commit = off"
_SYNCED = """
SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'
"""


class Transactions:
    """Begins and commits.

    Args:
        durable: whether a commit is synced before it is acknowledged.

    Attributes:
        token: what this handle's own notifications say, so that it does not wake itself.
    """

    def __init__(self, line: Line, address: Address, *, durable: bool) -> None:
        self.line, self.address, self._durable = line, address, durable
        self.token = secrets.token_hex(8)

    @contextmanager
    def writing(self, act: str, *before: Job) -> Iterator[Connection]:
        """A connection in a transaction that the notice at the store's door allows; it is for the block to `commit`.

        No other notice is put up before the transaction ends.

        Args:
            act, before: as `jobq.notices.heed` takes them, for each of the jobs.

        Raises:
            StoreMoved: the notice forbids it.
            StoreError: as `Line.use`.
        """
        with self.line.use() as connection:
            with connection.pipeline():
                self.begin(connection)
                entered = connection.execute(self.address.sql("SELECT * FROM @schema@.enter()"))
            notice = as_notice(entered.fetchone())
            for each in before or (None,):
                heed(notice, act, each)
            yield connection

    def begin(self, connection: Connection) -> None:
        """Begin a transaction."""
        for text, _ in self.beginning:
            connection.execute(text)

    @property
    def beginning(self) -> list[Statement]:
        """The statements that begin a transaction."""
        synced = [(_SYNCED, ())] if self.line.pooled else []  # of a session it is said once
        return [("BEGIN", ()), *(synced if self._durable else [(_NOT_SYNCED, ())])]

    def ending(self, *, rings: bool) -> list[Statement]:
        """The statements that commit, and then wake those who watch; as `commit`."""
        told = ("SELECT pg_notify(%s, %s)", [self.address.channel, self.token])
        return [("COMMIT", ()), *([told] if rings else [])]

    def run(self, connection: Connection, statements: Iterable[Statement]) -> list[list[tuple[Any, ...]]]:
        """Execute statements of this schema as one message, as `batches.run`."""
        return batches.run(connection, [(self.address.sql(text), values) for text, values in statements])

    def commit(self, connection: Connection, *, rings: bool = False) -> None:
        """Commit; then wake those who watch.

        The notification is a transaction of its own: one that writes and notifies holds a lock on all notifications of
        the database while its commit is synced.
        """
        connection.execute("COMMIT")
        if rings:
            self.ring(connection)

    def ring(self, connection: Connection) -> None:
        """Wake those who watch, but for this handle; inside of a transaction with its commit."""
        connection.execute("SELECT pg_notify(%s, %s)", [self.address.channel, self.token])


def as_notice(row: Any) -> Notice | None:
    """The notice that a row of state and URL tells of."""
    return None if row is None or row[0] is None else Notice(state=row[0], url=row[1])
