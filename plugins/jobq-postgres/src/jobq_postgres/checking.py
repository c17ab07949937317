"""What may be wrong with the stored data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.errors import StoreUnreadable
from jobq_postgres.rows import LIVE, archived, live

if TYPE_CHECKING:
    import psycopg

    from jobq_postgres.address import Address

_TWICE = """
SELECT id FROM (SELECT id FROM @schema@.jobs UNION ALL SELECT id FROM @schema@.archive) AS everything
GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT 10
"""
_TALLY = """
SELECT queue, state, coalesce(a.jobs, 0), coalesce(t.jobs, 0)
FROM (SELECT queue, state, count(*) AS jobs FROM @schema@.archive GROUP BY queue, state) a
FULL JOIN (SELECT queue, state, sum(jobs) AS jobs FROM @schema@.tally GROUP BY queue, state) t USING (queue, state)
WHERE coalesce(a.jobs, 0) <> coalesce(t.jobs, 0) ORDER BY queue, state
"""
_LIVE = f"SELECT {LIVE} FROM @schema@.jobs ORDER BY id"  # noqa: S608 - of constants alone
_ARCHIVED = "SELECT id, state, record::text FROM @schema@.archive ORDER BY id"


def check(connection: psycopg.Connection[Any], address: Address) -> list[str]:
    """What is wrong, one sentence each; reads everything, in one snapshot."""
    wrong = []
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        wrong += [f"job {row[0]} is stored twice" for row in connection.execute(address.sql(_TWICE))]
        wrong += [
            f"{there} {state} jobs of queue {queue} are archived, and {told} are counted"
            for queue, state, there, told in connection.execute(address.sql(_TALLY))
        ]
        with connection.cursor("live", binary=True) as cursor:
            for row in cursor.execute(address.sql(_LIVE)):
                wrong += _told(row[0], row[1], lambda row=row: live(row))
        with connection.cursor("archived") as cursor:
            for job_id, state, text in cursor.execute(address.sql(_ARCHIVED)):
                wrong += _told(job_id, state, lambda text=text: archived(text))
    return wrong


def _told(job_id: str, state: str, read: Any) -> list[str]:
    try:
        job = read()
    except StoreUnreadable as error:
        return [f"job {job_id}: {error}"]
    return [] if (job.id, job.state) == (job_id, state) else [f"job {job_id} says that it is {job.id}, {job.state}"]
