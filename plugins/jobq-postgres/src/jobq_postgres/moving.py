"""Jobs that come from another store, and the notice at the door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.errors import HIDDEN, DuplicateJob, InvalidInput
from jobq.job import State
from jobq.notices import LEFT
from jobq_postgres import changing, reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from jobq.job import Job
    from jobq.notices import Notice
    from jobq_postgres.address import Address

    Connection = psycopg.Connection[Any]

_POST = "INSERT INTO @schema@.notice (state, url) VALUES (%s, %s)"
_TAKE_DOWN = "DELETE FROM @schema@.notice RETURNING state, url"
_EMPTY = ("jobs", "archive", "tally", "paused")


def restore(connection: Connection, address: Address, jobs: Sequence[Job]) -> list[str]:
    """Store jobs as they are, as `Store.restore` says, in a transaction that the caller commits.

    Raises:
        DuplicateJob, InvalidInput: as there.
    """
    for job in jobs:
        if job.state is State.PROCESSING:
            raise InvalidInput("state", HIDDEN, f"job {job.id} is processing and cannot be taken over")
    ids = [job.id for job in jobs]
    stored = reading.locked(connection, address, ids)
    fresh: dict[str, Job] = {}
    taken: dict[str, None] = {}
    for job in jobs:
        if job.id in fresh or (job.id in stored and stored[job.id].version != job.version):
            taken[job.id] = None
        fresh[job.id] = job
    if taken:
        raise DuplicateJob(taken)
    new = [job for job in jobs if job.id not in stored]
    changing.insert(connection, address, new)
    return [job.id for job in new]


def post(connection: Connection, address: Address, notice: Notice | None) -> bool:
    """Put up a notice, or take it down, in a transaction that the caller commits; whether that changes anything.

    It waits for whoever is writing jobs, and so for applications that enqueue in transactions of their own; after two
    seconds it gives up, so that they are not kept waiting in their turn.
    """
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", [address.space])
    before = connection.execute(address.sql(_TAKE_DOWN)).fetchone()
    if notice is not None:
        connection.execute(address.sql(_POST), [notice.state, notice.url])
    if before is not None and before[0] == LEFT and (notice is None or notice.state != LEFT):
        for table in _EMPTY:
            connection.execute(address.sql(f"DELETE FROM @schema@.{table}"))  # noqa: S608 - of constants alone
    return before != (None if notice is None else (notice.state, notice.url))
