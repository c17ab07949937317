"""One connection of a handle: opened when it is needed, again after a loss and in a forked process."""

from __future__ import annotations

import os
import socket
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.adapt import Loader
from psycopg.pq import Format

from jobq.light import UTC, datetime, timedelta
from jobq_postgres.trouble import told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from psycopg.abc import PQGen

    from jobq_postgres.address import Address

    Buffer = bytes | bytearray | memoryview

# As long as a transaction is open that nobody will end, others wait for what it has locked; the server's own defaults
# let that be hours.
_LET_GO = """
SELECT set_config(name, value, false) FROM (VALUES
    ('idle_in_transaction_session_timeout', %(limit)s || 's'), ('tcp_user_timeout', %(limit)s || 's'),
    ('tcp_keepalives_idle', %(idle)s), ('tcp_keepalives_interval', %(interval)s), ('tcp_keepalives_count', %(count)s)
) AS it (name, value)
"""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_left_to_parents: list[object] = []
"""Connections of a process that this one was forked from: to end them would end the parent's."""


class _InUtc(Loader):
    """An instant in the binary form of the protocol, which knows no time zones."""

    format = Format.BINARY

    def load(self, data: Buffer) -> datetime:
        return _EPOCH + timedelta(microseconds=int.from_bytes(data, "big", signed=True))


class _Bounded(psycopg.Connection[Any]):
    """A connection that waits for each answer no longer than `patience` seconds, whatever becomes of the other side."""

    patience: float | None = None

    def wait(self, gen: PQGen[Any], *args: Any, **kwargs: Any) -> Any:
        if self.patience is not None:
            kwargs["timeout"] = self.patience
        return super().wait(gen, *args, **kwargs)


class Line:
    """A connection to the server, for one thread at a time.

    Args:
        address: of the store.
        name: what the server shows of it (`application_name`), unless the URL says another one.
        silence: seconds after which a connection whose other side does not answer is given up, by either side; the
            server also gives up one that is silent in a transaction.
        patience: the longest wait for one answer; None: without end, as long as the other side's system is there.
        opened: called with each new connection before it is used.
    """

    def __init__(
        self,
        address: Address,
        *,
        name: str,
        silence: float,
        patience: float | None = None,
        opened: Callable[[psycopg.Connection[Any]], None] = lambda connection: None,
    ) -> None:
        self._address, self._name, self._silence, self._patience = address, name, silence, patience
        self._opened = opened
        self._pid = os.getpid()
        self._connection: psycopg.Connection[Any] | None = None
        self.pooled = False

    @property
    def is_open(self) -> bool:
        """Whether there is a connection that has not failed."""
        return self._pid == os.getpid() and self._connection is not None and not self._connection.closed

    @contextmanager
    def use(self) -> Iterator[psycopg.Connection[Any]]:
        """The connection, outside of any transaction; what fails in the block is an error of the store.

        Raises:
            NotConnected: there is no connection, and there was none.
            StoreError: it was lost, or the server refused; nothing is left of a transaction.
        """
        connection = None
        try:
            connection = self._get()
            yield connection
        except psycopg.Error as error:
            self._recover()
            raise told(error, self._address, connected=connection is not None) from None
        except BaseException:
            self._recover()
            raise

    def cut(self) -> None:
        """Break the connection, from any thread: a call that waits for the server fails at once."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as own:
            own.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End the connection; the next use opens another one."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._pid != os.getpid():
            _left_to_parents.append(connection)
            return
        with suppress(psycopg.Error):
            connection.close()

    def _get(self) -> psycopg.Connection[Any]:
        if not self.is_open:
            self.close()
            self._pid = os.getpid()
            self._connection = self._open()
        assert self._connection is not None  # noqa: S101 - for type checkers
        return self._connection

    def _open(self) -> psycopg.Connection[Any]:
        limit = max(1, int(self._silence))
        idle, interval, count = max(1, limit // 2), max(1, limit // 6), 3
        settings = {
            "connect_timeout": max(2, limit),
            "keepalives_idle": idle,
            "keepalives_interval": interval,
            "keepalives_count": count,
            "tcp_user_timeout": limit * 1000,
            "fallback_application_name": self._name,
            "client_encoding": "utf8",
        }
        given = psycopg.conninfo.conninfo_to_dict(self._address.conninfo)
        connection = _Bounded.connect(
            self._address.conninfo,
            autocommit=True,
            **{name: value for name, value in settings.items() if name not in given},  # type: ignore[arg-type]
        )
        try:
            connection.patience = self._patience
            connection.adapters.register_loader("timestamptz", _InUtc)
            (backend,) = connection.execute("SELECT pg_backend_pid()").fetchone() or (0,)
            # A pooler hands out numbers of its own, and what is kept with a session there is lost between two calls.
            self.pooled = backend != connection.info.backend_pid
            if self.pooled:
                connection.prepare_threshold = None
            else:
                parts = {"limit": limit, "idle": idle, "interval": interval, "count": count}
                connection.execute(_LET_GO, {name: str(value) for name, value in parts.items()})
            self._opened(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _recover(self) -> None:
        """After trouble: be outside of any transaction, or closed."""
        connection = self._connection
        if connection is None or connection.closed:
            return
        try:
            if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
                connection.execute("ROLLBACK")
        except psycopg.Error:
            self.close()
