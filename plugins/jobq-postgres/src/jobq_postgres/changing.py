"""Changes of single jobs, wherever they are, deletions and pauses: each in a transaction that the caller commits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.job import ENDED, State
from jobq_postgres import batches, reading, writing
from jobq_postgres.rows import documents

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    import psycopg

    from jobq.job import Change, Job
    from jobq_postgres.address import Address

    Connection = psycopg.Connection[Any]

_HOT = "id, queue, handler, alone, rank, run_at, state, run, rev, worker, created_at, started_at, updated_at, record"
_SOURCE = """(
    SELECT e.*, s.seq FROM @schema@.handed(%s::json, %s::json) e
    LEFT JOIN unnest(%s::text[], %s::bigint[]) s(old, seq) ON s.old = e.id ORDER BY nth
) o"""
_INSERT = f"""
INSERT INTO @schema@.jobs (seq, era, {_HOT})
SELECT coalesce(o.seq, nextval('@schema@.seqs')), era.era, {_HOT}
FROM {_SOURCE} CROSS JOIN (SELECT @schema@.open_era() AS era) era
"""  # noqa: S608 - of constants alone
_KEEP = f"""
WITH kept AS (
    INSERT INTO @schema@.archive (id, seq, ended, queue, handler, state, updated_at, record)
    SELECT o.id, coalesce(o.seq, nextval('@schema@.seqs')), nextval('@schema@.ends'), o.queue, o.handler, o.state,
           o.updated_at, o.record
    FROM {_SOURCE}
    RETURNING queue, state
)
INSERT INTO @schema@.tally SELECT queue, state, count(*) FROM kept GROUP BY queue, state
"""  # noqa: S608 - of constants alone
_DROP = """
WITH gone AS (DELETE FROM @schema@.archive WHERE id = ANY (%s) RETURNING id, seq, queue, state),
counted AS (INSERT INTO @schema@.tally SELECT queue, state, -count(*) FROM gone GROUP BY queue, state)
SELECT id, seq FROM gone
"""
_DELETE = "DELETE FROM @schema@.jobs WHERE id = ANY (%s)"
_PAUSE = """
INSERT INTO @schema@.paused AS p VALUES (%s, %s)
ON CONFLICT (queue) DO UPDATE SET reason = excluded.reason WHERE p.reason <> excluded.reason
"""
_RESUME = "DELETE FROM @schema@.paused WHERE queue = %s"


def change(
    connection: Connection, address: Address, changes: Sequence[tuple[Job, Change]], *, now: datetime
) -> tuple[list[Job], bool]:
    """Apply changes as `Store.change_many` says; the jobs after them, and whether others should be woken."""
    stored = reading.locked(connection, address, [before.id for before, _ in changes])
    pairs = [
        (stored[before.id], stored[before.id].changed(new, now=now))
        for before, new in changes
        if before.id in stored and stored[before.id].version == before.version
    ]
    ended = [pair for pair in pairs if pair[0].state in ENDED]
    if ended:
        seqs = dict(connection.execute(address.sql(_DROP), [[before.id for before, _ in ended]]).fetchall())
        insert(connection, address, [after for _, after in ended], seqs)
    if statements := writing.Writing([pair for pair in pairs if pair[0].state not in ENDED]).statements:
        batches.run(connection, [(address.sql(text), values) for text, values in statements])
    return [after for _, after in pairs], writing.rings(pairs)


def insert(connection: Connection, address: Address, jobs: Sequence[Job], seqs: dict[str, int] | None = None) -> None:
    """Store jobs of which none is there, in any state but `processing`, in order.

    Args:
        seqs: the sequence numbers of those that had one.
    """
    old = [list((seqs or {}).keys()), list((seqs or {}).values())]
    for statement, chosen in (
        (_INSERT, [job for job in jobs if job.state not in ENDED]),
        (_KEEP, [job for job in jobs if job.state in ENDED]),
    ):
        if chosen:
            connection.execute(address.sql(statement), [*documents(chosen), *old])


def delete(connection: Connection, address: Address, jobs: Sequence[Job]) -> list[str]:
    """Delete those that have the version given and are not `processing`; the ids deleted."""
    stored = reading.locked(connection, address, [job.id for job in jobs])
    gone = [
        job
        for job in jobs
        if job.id in stored and stored[job.id].version == job.version and job.state is not State.PROCESSING
    ]
    archived = [job.id for job in gone if job.state in ENDED]
    waiting = [job.id for job in gone if job.state not in ENDED]
    if archived:
        connection.execute(address.sql(_DROP), [archived])
    if waiting:
        connection.execute(address.sql(_DELETE), [waiting])
    return [job.id for job in gone]


def pause(connection: Connection, address: Address, queue: str, reason: str | None) -> bool:
    """Pause a queue for a reason, or with None resume it; whether others should be woken."""
    if reason is not None:
        connection.execute(address.sql(_PAUSE), [queue, reason])
        return False
    return connection.execute(address.sql(_RESUME), [queue]).rowcount > 0
