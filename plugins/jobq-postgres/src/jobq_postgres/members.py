"""Workers: a row with a lease on the server's clock, and lock files on their own host.

On its host a worker's death is seen at once, by its lock, and as long as that is held nobody there takes it for dead.
Everywhere else the lease counts. A worker that cannot renew its lease ends what it runs before that is over.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from jobq import presence, processes
from jobq.codec import encode, loads
from jobq.errors import StoreError, StoreUnreadable
from jobq.files import private_directory
from jobq.members import Presence, WorkerInfo
from jobq_postgres.connecting import Line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    import psycopg

    from jobq_postgres.address import Address

_JOIN = """
INSERT INTO @schema@.workers (id, place, started, lease, seen, info)
VALUES (%s, %s, %s, %s, clock_timestamp(), %s::json)
ON CONFLICT (id) DO UPDATE SET seen = excluded.seen, place = excluded.place, lease = excluded.lease
"""
_RENEW = "UPDATE @schema@.workers SET seen = clock_timestamp() WHERE id = %s"
_LEAVE = "DELETE FROM @schema@.workers WHERE id = %s"
_GIVE_UP = "UPDATE @schema@.workers SET seen = '-infinity' WHERE id = %s"
_ASK_TO_STOP = "UPDATE @schema@.workers SET stop = greatest(stop, %s) WHERE id = %s"
_STOP = "SELECT stop FROM @schema@.workers WHERE id = %s"
_REPORT = "UPDATE @schema@.workers SET info = %s::json WHERE id = %s"
# A server that has been away gives everybody the time of a lease to come back
_MEMBERS = """
SELECT info::text, place,
       seen + lease < clock_timestamp()
       AND (seen = '-infinity' OR clock_timestamp() - pg_postmaster_start_time() > lease)
FROM @schema@.workers ORDER BY started, id
"""

RENEWALS = 6
"""How often a lease is renewed in its time."""

LAPSE = 2 / 3
"""The part of the lease after which a worker that could not renew it ends what it runs."""


def place_of(directory: str) -> str:
    """What tells a directory of lock files from every other one: machine and boot, file system, number.

    Raises:
        StoreError: it cannot be made or looked at.
    """
    private_directory(directory)
    facts = os.stat(directory)
    return f"{processes.boot_id()}:{facts.st_dev}:{facts.st_ino}"


class LeasePresence(Presence):
    """A worker's membership: two lock files, and a row whose lease a thread of its own renews over a line of its own.

    Args:
        directory: of the lock files.
        lease: how long others wait.
        lapsed: called, from the thread, when the lease could not be renewed for so long that the worker counts as gone.
        stop: asks the server how this worker was asked to stop.

    Raises:
        StoreError: the files or the row cannot be made.
    """

    def __init__(
        self,
        address: Address,
        directory: str,
        info: WorkerInfo,
        lease: timedelta,
        lapsed: Callable[[], None],
        stop: Callable[[str], int],
    ) -> None:
        self.id, self.host = info.id, info.host
        self._address, self._directory, self._lease, self._on_lapse = address, directory, lease, lapsed
        self._stop = stop
        seconds = lease.total_seconds()
        self._pause = self._patience = seconds / RENEWALS
        self._line = Line(address, name=f"jobq lease {info.name}", silence=self._patience, patience=self._patience)
        self._lapses_after = seconds * LAPSE
        self._missing = False
        self._files = presence.FilePresence(directory, info)
        try:
            self._renewed = time.monotonic()
            self._insert(info)
        except BaseException:
            self._files.close()
            self._line.close()
            raise
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"jobq-lease-{self.id}", daemon=True)
        self._thread.start()

    @property
    def jobs_fd(self) -> int | None:  # type: ignore[override]  # of the files, which may be made anew
        """The locked descriptor of the jobs file."""
        return self._files.jobs_fd

    @property
    def lapsed(self) -> bool:
        """Whether others may soon take this worker for gone, or have already."""
        return self._missing or time.monotonic() - self._renewed > self._lapses_after

    @property
    def stop_asked(self) -> int:
        """How it was asked to stop; asked anew each time.

        Raises:
            StoreError: the server does not tell.
        """
        return self._stop(self.id)

    def renew(self, info: WorkerInfo) -> bool:
        """Make files or row anew if somebody removed them."""
        anew = self._files.renew(info)
        if self._missing:
            began = time.monotonic()
            self._insert(info)
            self._renewed, self._missing = began, False
            return True
        return anew

    def close(self, *, clean: bool = True) -> None:
        """Leave; without `clean`, as one that is found dead."""
        if self._over.is_set():
            return
        self._over.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        try:
            with suppress(StoreError):  # then the lease runs out
                self._tell(_LEAVE if clean else _GIVE_UP)
            self._line.close()
        finally:
            self._files.close(clean=clean)

    def die(self) -> None:
        """Be gone without a word, as a worker that was killed; for tests."""
        self._over.set()
        self._thread.join()
        self._line.close()
        self._files.close(clean=False)

    def _insert(self, info: WorkerInfo) -> None:
        with self._line.use() as connection:
            connection.execute(
                self._address.sql(_JOIN),
                [info.id, place_of(self._directory), info.started, self._lease, encode(info.record())],
            )
            connection.execute("SELECT pg_notify(%s, '')", [self._address.channel])

    def _tell(self, statement: str) -> int:
        with self._line.use() as connection:
            row = connection.execute(self._address.sql(statement), [self.id]).rowcount
            if statement is not _RENEW:
                connection.execute("SELECT pg_notify(%s, '')", [self._address.channel])
            return row

    def _keep(self) -> None:
        told = False
        while not self._over.wait(self._pause):
            began = time.monotonic()
            try:
                if self._tell(_RENEW):
                    self._renewed = began
                else:
                    self._missing = True
            except StoreError:
                self._over.wait(min(1.0, self._pause / 4))
            if self.lapsed and not told:
                self._on_lapse()
            told = self.lapsed


def report(connection: psycopg.Connection[Any], address: Address, info: WorkerInfo) -> None:
    """Replace what is told of a worker; not synced."""
    with connection.pipeline():
        connection.execute("BEGIN")
        connection.execute("SET LOCAL synchronous_commit = off")
        connection.execute(address.sql(_REPORT), [encode(info.record()), info.id])
        connection.execute("COMMIT")


def ask_to_stop(connection: psycopg.Connection[Any], address: Address, worker: str, level: int) -> bool:
    """Leave word for a worker to stop; whether it has a row."""
    return connection.execute(address.sql(_ASK_TO_STOP), [level, worker]).rowcount > 0


def stop_of(connection: psycopg.Connection[Any], address: Address, worker: str) -> int:
    """How a worker was asked to stop; 0: not, or it has no row."""
    row = connection.execute(address.sql(_STOP), [worker]).fetchone()
    return 0 if row is None else int(row[0])


def everybody(connection: psycopg.Connection[Any], address: Address, directory: str) -> list[tuple[WorkerInfo, bool]]:
    """Every worker that has a row, and whether it is there; the oldest first.

    Raises:
        StoreError: a row is none of a worker, or lock files cannot be looked at.
    """
    here = place_of(directory)
    found = []
    for text, place, expired in connection.execute(address.sql(_MEMBERS)).fetchall():
        try:
            info = WorkerInfo.from_record(loads(text))
        except (ValueError, KeyError, TypeError) as error:
            raise StoreUnreadable(f"a row of {address.schema}.workers is no worker ({error})") from None
        alive = presence.is_alive(directory, info.id) if place == here else not expired
        found.append((info, alive))
    return found


def unknown(directory: str, workers: Iterable[str]) -> list[WorkerInfo]:
    """What is told of workers that hold jobs and have no row, unless they live here and only lost it."""
    return [presence.unknown_worker(worker) for worker in workers if not presence.is_alive(directory, worker)]


def forget(connection: psycopg.Connection[Any], address: Address, directory: str, worker: WorkerInfo) -> None:
    """Remove the row and the files of a worker that is gone."""
    connection.execute(address.sql(_LEAVE), [worker.id])
    if not presence.is_alive(directory, worker.id):
        presence.forget(directory, worker.id)
