"""Jobs that wait, in the order in which they are claimed.

Those that no claim tells apart (of one state, queue, priority, handler, alone or not) are a lane, in the partial index
`waiting` one behind the other by (run_at, seq). So a worker passes over what it does not want, and over what is not due,
without looking at it, however much there is of that.
"""

from __future__ import annotations

from heapq import merge
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from jobq_sqlite import rows, schema
from jobq_sqlite.trouble import only

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Iterator, Sequence

    from jobq.store import Wanted
    from jobq_sqlite.changes import Lane

Waiting = tuple[int, int, bytes]
"""`run_at`, `seq` and `record`."""

FOR_EVER = 1 << 62
"""A time in milliseconds, by which everything is due."""

LANES = "SELECT state, queue, priority, handler, alone FROM lanes WHERE state IN ('pending', 'failed') AND jobs > 0"

_IN_LANE = f"""
FROM jobs INDEXED BY waiting
WHERE {schema.WAITING} AND state = ? AND queue = ? AND priority = ? AND handler = ? AND alone = ?
"""
DUE = f"SELECT run_at, seq, {rows.RECORD} {_IN_LANE} AND run_at <= ? AND (run_at, seq) > (?, ?) ORDER BY run_at, seq LIMIT ?"
FIRST = f"SELECT run_at {_IN_LANE} ORDER BY run_at LIMIT 1"
LAST = f"SELECT run_at {_IN_LANE} ORDER BY run_at DESC LIMIT 1"
LATER = f"SELECT count(*) {_IN_LANE} AND run_at > ?"

_MOST = 256


def wanted_lanes(connection: sqlite3.Connection, wanted: Wanted) -> list[Lane]:
    """The lanes of jobs that a worker may claim now or later."""
    paused = {queue for (queue,) in connection.execute("SELECT queue FROM paused")}
    return [
        lane
        for lane in connection.execute(LANES)
        if lane[1] not in paused
        and (wanted.queues is None or lane[1] in wanted.queues)
        and (wanted.handlers is None or not lane[3] or lane[3] in wanted.handlers)
        and wanted.alone in (None, bool(lane[4]))
    ]


def in_order(
    connection: sqlite3.Connection, lanes: Sequence[Lane], *, until: int = FOR_EVER, most: int = _MOST
) -> Iterator[Waiting]:
    """The jobs of these lanes in claim order, those due at `until` (milliseconds since 1970).

    Args:
        most: about how many of them will be taken.
    """
    by_priority = itemgetter(2)
    for _, level in groupby(sorted(lanes, key=by_priority, reverse=True), by_priority):
        equal = list(level)
        # Of many lanes few jobs each will be taken
        size = max(1, min(most, _MOST) // len(equal))
        yield from merge(*(_lane(connection, lane, until, size) for lane in equal), key=itemgetter(0, 1))


def next_due(connection: sqlite3.Connection, lanes: Sequence[Lane]) -> int | None:
    """The earliest `run_at` of these lanes, in milliseconds since 1970."""
    return min((run_at for lane in lanes for (run_at,) in connection.execute(FIRST, lane)), default=None)


def later(connection: sqlite3.Connection, now: int) -> int:
    """How many pending jobs are due after `now` (milliseconds since 1970); only where some are, any are counted."""
    pending = connection.execute(
        "SELECT state, queue, priority, handler, alone, jobs FROM lanes WHERE state = 'pending'"
    )
    total = 0
    for *lane, jobs in pending.fetchall():
        if _one(connection, LAST, lane) <= now:
            continue
        total += jobs if _one(connection, FIRST, lane) > now else _one(connection, LATER, (*lane, now))
    return total


def _lane(connection: sqlite3.Connection, lane: Lane, until: int, size: int) -> Iterator[Waiting]:
    """The jobs of one lane by the page, so that no statement is left open; each page is larger than the one before."""
    at = (-FOR_EVER, 0)
    while True:
        page: list[Waiting] = connection.execute(DUE, (*lane, until, *at, size)).fetchall()
        yield from page
        if len(page) < size:
            return
        at, size = page[-1][:2], min(4 * size, _MOST)


def _one(connection: sqlite3.Connection, query: str, arguments: Sequence[Any]) -> int:
    found: int = only(connection.execute(query, arguments))[0]
    return found
