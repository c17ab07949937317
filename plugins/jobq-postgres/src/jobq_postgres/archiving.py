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
    DELETE FROM @schema@.archive a USING old WHERE a.id = old.id RETURNING a.id, a.queue, a.state
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


def tidy(connection: Connection, address: Address) -> None:
    """Make the archive's parts of the days to come, and sum up what was counted."""
    make_days(connection, address)
    connection.execute(address.sql(_FOLD))


def make_days(connection: Connection, address: Address) -> None:
    """Make the archive's parts of the days to come."""
    connection.execute(address.sql("SELECT @schema@.make_days(%s)"), [AHEAD])
