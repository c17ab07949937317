"""Searches: the jobs that match a query, in the order of listings.

What runs and what is dead is sorted, what waits comes by its lanes, and what is finished from the newest back through an
index that knows of each job what a query may ask, so that those which do not match are passed over unread. By tag and
by the beginning of an id few are found, and those are sorted.
"""

from __future__ import annotations

import sqlite3
from itertools import chain
from typing import TYPE_CHECKING, Any

from jobq.job import FINISHED, WAITING, State
from jobq.store import Counts
from jobq_sqlite import lanes, rows, schema
from jobq_sqlite.trouble import only

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobq.store import Query

PAGE = 256
"""Records that are read at once."""
_CLAIM_ORDER = "priority DESC, run_at, seq"
_RUNNING = "INDEXED BY running WHERE state = 'processing'"
_DEAD = "INDEXED BY dead WHERE state = 'dead'"
_FINISHED = f"INDEXED BY finished WHERE {schema.FINISHED}"
_BEYOND = "\U0010ffff"
"""Is sorted behind every character of an id."""


def counts(connection: sqlite3.Connection, *, now: datetime) -> Counts:
    """The counts as `Store.counts` has them.

    Raises:
        sqlite3.Error: they cannot be read.
    """
    paused = dict(connection.execute("SELECT queue, reason FROM paused ORDER BY queue").fetchall())
    queues = {queue: dict.fromkeys(State, 0) for queue in paused}
    for queue, state, jobs in connection.execute("SELECT queue, state, jobs FROM lanes"):
        by_state = queues.setdefault(queue, dict.fromkeys(State, 0))
        if state not in _STATES:
            raise sqlite3.DatabaseError(f"jobs are counted in a state {state!r}, which there is not")
        by_state[_STATES[state]] += jobs
    ((damaged,),) = connection.execute("SELECT count(*) FROM damaged")
    later = lanes.later(connection, rows.ms(now))
    return Counts(queues=dict(sorted(queues.items())), paused=paused, later=later, damaged=damaged)


def find(connection: sqlite3.Connection, query: Query) -> Iterator[bytes]:
    """The records of the jobs that may match, read as they are taken."""
    states = frozenset(State) if query.states is None else query.states
    conditions, values = _conditions(query)
    if query.tag is not None or query.prefix:
        return _few(connection, query, states, conditions, values)
    return _groups(connection, query, states, conditions, values)


def _groups(
    connection: sqlite3.Connection, query: Query, states: frozenset[State], conditions: str, values: list[Any]
) -> Iterator[bytes]:
    def selected(source: str, order: str) -> Iterator[bytes]:
        text = f"SELECT seq FROM jobs {source} {conditions} ORDER BY {order}"  # noqa: S608 - of constants
        return _read(connection, text, values)

    parts: list[Iterator[bytes]] = []
    if State.PROCESSING in states:
        parts.append(selected(_RUNNING, _CLAIM_ORDER))
    if states & WAITING:
        chosen = [
            lane
            for lane in connection.execute(lanes.LANES).fetchall()
            if lane[0] in states
            and query.queue in (None, lane[1])
            and (query.handler is None or lane[3] == query.handler)
        ]
        parts.append(record for _, _, record in lanes.in_order(connection, chosen, most=query.limit or PAGE))
    if State.DEAD in states:
        parts.append(selected(_DEAD, _CLAIM_ORDER))
    if ended := states & FINISHED:
        only = "" if ended == FINISHED else f" AND state = '{next(iter(ended))}'"
        parts.append(selected(_FINISHED + only, "ended DESC"))
    return chain.from_iterable(parts)


def _few(
    connection: sqlite3.Connection, query: Query, states: frozenset[State], conditions: str, values: list[Any]
) -> Iterator[bytes]:
    """What has the tag, or an id that begins so, sorted."""
    if query.tag is not None:
        source, sought = "tags CROSS JOIN jobs USING (seq) WHERE tag = ?", [query.tag]
    else:
        beginning = query.prefix or ""
        source, sought = "jobs INDEXED BY ids WHERE id >= ? AND id < ?", [beginning, beginning + _BEYOND]
    names = sorted(states)
    order = (
        "CASE state WHEN 'processing' THEN 0 WHEN 'pending' THEN 1 WHEN 'failed' THEN 1 WHEN 'dead' THEN 2 ELSE 3 END,"
        f" ended DESC, {_CLAIM_ORDER}"
    )
    text = f"SELECT seq FROM {source} AND state IN ({rows.marks(names)}) {conditions} ORDER BY {order}"  # noqa: S608
    return _read(connection, text, [*sought, *names, *values])


def _conditions(query: Query) -> tuple[str, list[Any]]:
    """What else SQLite can tell of a row."""
    asked = (
        ("queue = ?", query.queue),
        ("handler = ?", query.handler),
        ("updated >= ?", None if query.since is None else rows.first_ms(query.since)),
        ("updated < ?", None if query.before is None else rows.first_ms(query.before)),
    )
    given = [(text, value) for text, value in asked if value is not None]
    return "".join(f" AND {text}" for text, _ in given), [value for _, value in given]


def _read(connection: sqlite3.Connection, text: str, values: list[Any]) -> Iterator[bytes]:
    """The records of the rows that a statement finds, by the page: what is sorted are their numbers alone."""
    numbers = connection.execute(text, values)
    while page := numbers.fetchmany(PAGE):
        for found in page:
            yield only(connection.execute(rows.RECORD_OF, found))[0]


_STATES = {state.value: state for state in State}
