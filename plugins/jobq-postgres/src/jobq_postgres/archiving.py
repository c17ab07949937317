"""Ended jobs that are kept no longer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from jobq.job import State
    from jobq_postgres.address import Address

    Connection = psycopg.Connection[Any]

AHEAD = 7
"""Days for which the archive has parts ahead."""

_PRUNE = """
WITH old AS (
    SELECT id FROM @schema@.archive WHERE state = ANY (%s) AND updated_at < %s ORDER BY ended LIMIT %s
    FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM @schema@.archive a WHERE a.id = ANY (ARRAY(SELECT id FROM old)) RETURNING a.id, a.queue, a.state
), counted AS (
    INSERT INTO @schema@.tally SELECT queue, state, -count(*) FROM gone GROUP BY queue, state
)
SELECT id FROM gone
"""
_FOLD = """
WITH gone AS (DELETE FROM @schema@.tally RETURNING queue, state, jobs)
INSERT INTO @schema@.tally SELECT queue, state, sum(jobs) FROM gone GROUP BY queue, state HAVING sum(jobs) <> 0
"""


def prune(
    connection: Connection, address: Address, *, states: frozenset[State], before: datetime, limit: int
) -> list[str]:
    """Delete up to `limit` ended jobs of these states last updated before then; their ids."""
    names = sorted(str(state) for state in states)
    return [row[0] for row in connection.execute(address.sql(_PRUNE), [names, before, limit])]


def expire(
    connection: Connection, address: Address, *, states: frozenset[State], before: datetime, limit: int
) -> list[str]:
    """As `prune`, but days that passed whole are dropped, and what is left of a day waits for the rest of it.

    Where less than a day is to be kept, that would be too long, and rows are deleted one by one.
    """
    sql = address.sql
    names = sorted(str(state) for state in states)
    connection.execute(sql("SELECT @schema@.expire_days(%s, %s)"), [names, before])
    told = [row[0] for row in connection.execute(sql("SELECT * FROM @schema@.next_expired(%s)"), [limit])]
    if told:
        return told
    (soon,) = connection.execute("SELECT now() - %s < interval '1 day'", [before]).fetchone() or (False,)
    return prune(connection, address, states=states, before=before, limit=limit) if soon else []


def tidy(connection: Connection, address: Address) -> None:
    """Make the archive's parts of the days to come, and sum up what was counted."""
    make_days(connection, address)
    connection.execute(address.sql(_FOLD))


def make_days(connection: Connection, address: Address) -> None:
    """Make the archive's parts of the days to come."""
    connection.execute(address.sql("SELECT @schema@.make_days(%s)"), [AHEAD])
