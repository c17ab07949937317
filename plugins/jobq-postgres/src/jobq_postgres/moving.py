"""Jobs that come from another store, and the notice at the door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.notices import Notice, arrivals, empties
from jobq_postgres import changing, reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

    from jobq.job import Job
    from jobq_postgres.address import Address

    Connection = psycopg.Connection[Any]

_NOTICE = "SELECT state, url, other FROM @schema@.notice"
_POST = "INSERT INTO @schema@.notice (state, url, other) VALUES (%s, %s, %s)"
_TAKE_DOWN = "DELETE FROM @schema@.notice"
_JOBS = "SELECT (SELECT count(*) FROM @schema@.jobs) + (SELECT count(*) FROM @schema@.archive)"
_EMPTY = ("jobs", "archive", "tally", "paused")
_IDENTITY = """
SELECT d.oid, v.applied_at FROM pg_database d, @schema@.versions v
WHERE d.datname = current_database() ORDER BY v.version LIMIT 1
"""


def restore(connection: Connection, address: Address, jobs: Sequence[Job]) -> list[str]:
    """Store jobs as they are, as `Store.restore` says, in a transaction that the caller commits.

    Raises:
        DuplicateJob, InvalidInput: as there.
    """
    stored = reading.locked(connection, address, [job.id for job in jobs])
    new = arrivals(jobs, {job_id: job.version for job_id, job in stored.items()})
    changing.insert(connection, address, new)
    return [job.id for job in new]


def notice(connection: Connection, address: Address) -> Notice | None:
    """The notice at the door, None where there is none."""
    row = connection.execute(address.sql(_NOTICE)).fetchone()
    return None if row is None else Notice(state=row[0], url=row[1], left=row[2])


def post(connection: Connection, address: Address, new: Notice | None, *, before: Notice | None) -> bool:
    """Put up a notice, or take it down, in a transaction that the caller commits; whether that changes anything.

    It waits for whoever is writing jobs, and so for applications that enqueue in transactions of their own; after two
    seconds it gives up, so that they are not kept waiting in their turn.

    Raises:
        NoticeChanged, NotEmpty: as `jobq.notices.empties` says.
    """
    connection.execute("SET LOCAL lock_timeout = '2s'")
    connection.execute("SELECT pg_advisory_xact_lock(%s, 0)", [address.space])
    ((jobs,),) = connection.execute(address.sql(_JOBS)).fetchall()
    emptied = empties(new, before=before, stands=notice(connection, address), jobs=jobs, url=address.url)
    connection.execute(address.sql(_TAKE_DOWN))
    if new is not None:
        connection.execute(address.sql(_POST), [new.state, new.url, new.left])
    if emptied:
        for table in _EMPTY:
            connection.execute(address.sql(f"DELETE FROM @schema@.{table}"))  # noqa: S608 - of constants alone
    return new != before


def identity(connection: Connection, address: Address) -> str:
    """What tells this schema from every other one, under whatever address it is reached: where it is, and its birth."""
    database, born = connection.execute(address.sql(_IDENTITY)).fetchone() or (0, None)
    return f"postgresql:{database}:{address.schema}:{born}"
