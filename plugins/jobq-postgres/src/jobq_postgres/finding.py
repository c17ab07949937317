"""Listings and counts: each one statement, and so of one moment, which holds no snapshot after it has answered."""

from __future__ import annotations

import tempfile
from typing import TYPE_CHECKING, Any

from psycopg import sql

from jobq.codec import encode, loads
from jobq.job import FINISHED, WAITING, State
from jobq.store import Counts
from jobq_postgres.batches import moment
from jobq_postgres.rows import archived, live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    import psycopg

    from jobq.job import Job
    from jobq.store import Query
    from jobq_postgres.address import Address

IN_MEMORY = 8 << 20
"""Bytes of a listing beyond which it waits in a file to be read."""

_LIVE = """
SELECT {group} AS part, rank::bigint AS first, run_at AS second, seq AS third, id, state, run, rev, worker,
       (extract(epoch FROM started_at) * 1000)::bigint AS started, (extract(epoch FROM updated_at) * 1000)::bigint,
       record::text
FROM @schema@.jobs WHERE {states}
"""
_ARCHIVED = """
SELECT {group}, CASE state WHEN 'dead' THEN ended ELSE -ended END, NULL::timestamptz, NULL::bigint, id, NULL, NULL::bigint, NULL::bigint, NULL, NULL::bigint,
       NULL::bigint, record::text
FROM @schema@.archive WHERE {states}
"""
_COUNTS = """
SELECT queue, state, count(*), count(*) FILTER (WHERE state = 'pending' AND run_at > %s), NULL
FROM @schema@.jobs GROUP BY queue, state
UNION ALL
SELECT queue, state, sum(jobs)::bigint, 0, NULL FROM @schema@.tally GROUP BY queue, state HAVING sum(jobs) <> 0
UNION ALL
SELECT queue, NULL, 0, 0, reason FROM @schema@.paused
"""
_PARTS = (
    (_LIVE, frozenset({State.PROCESSING})),
    (_LIVE, WAITING),
    (_ARCHIVED, frozenset({State.DEAD})),
    (_ARCHIVED, FINISHED),
)


def find(connection: psycopg.Connection[Any], address: Address, query: Query) -> Iterator[Job]:
    """The matching jobs, as `Store.find` says."""
    statement = _statement(address, query)
    if statement is None:
        return iter(())
    file = tempfile.SpooledTemporaryFile(max_size=IN_MEMORY)  # noqa: SIM115 - read later, closed at its end
    with connection.cursor() as cursor, cursor.copy(sql.SQL("COPY ({}) TO STDOUT").format(statement)) as copy:
        for row in copy.rows():
            file.write(encode(row[4:]).encode() + b"\n")
    file.seek(0)
    return _jobs(file)


def counts(cursor: psycopg.Cursor[Any]) -> Counts:
    """What the rows of `count` say."""
    queues: dict[str, dict[State, int]] = {}
    paused: dict[str, str] = {}
    later = 0
    for queue, state, number, not_due, reason in cursor:
        numbers = queues.setdefault(queue, dict.fromkeys(State, 0))
        if state is None:
            paused[queue] = reason
        else:
            numbers[State(state)] += number
            later += not_due
    return Counts(queues=dict(sorted(queues.items())), paused=paused, later=later)


def count(connection: psycopg.Connection[Any], address: Address, now: datetime) -> psycopg.Cursor[Any]:
    """Ask for the numbers: of what is not archived they are counted, of the rest they are kept."""
    return connection.execute(address.sql(_COUNTS), [now])


def _jobs(file: tempfile.SpooledTemporaryFile[bytes]) -> Iterator[Job]:
    with file:
        for line in file:
            job_id, state, run, rev, worker, started, updated, text = loads(line)
            if state is None:
                yield archived(text)
            else:
                yield live((job_id, state, int(run), int(rev), worker, moment(started), moment(updated), text))


def _statement(address: Address, query: Query) -> sql.Composable | None:
    """The listing, without parameters, which COPY does not take; None where nothing can match."""
    conditions = _conditions(query)
    limit = sql.SQL(" LIMIT {}").format(query.limit) if query.limit is not None else sql.SQL("")
    parts = []
    for group, (text, states) in enumerate(_PARTS):
        wanted = states if query.states is None else states & query.states
        if not wanted:
            continue
        part = sql.SQL(address.sql(text)).format(
            group=sql.Literal(group), states=_all([_in("state", sorted(str(state) for state in wanted)), *conditions])
        )
        parts.append(sql.SQL("({} ORDER BY 2, 3, 4{})").format(part, limit))
    if not parts:
        return None
    return sql.SQL("SELECT * FROM ({}) AS found ORDER BY 1, 2, 3, 4{}").format(
        sql.SQL(" UNION ALL ").join(parts), limit
    )


def _conditions(query: Query) -> list[sql.Composable]:
    found: list[sql.Composable] = []
    if query.queue is not None:
        found.append(sql.SQL("queue = {}").format(query.queue))
    if query.handler is not None:
        found.append(sql.SQL("handler = {}").format(query.handler))
    if query.tag is not None:
        found.append(
            sql.SQL("EXISTS (SELECT FROM json_array_elements_text(record -> 'tags') t WHERE t = {})").format(query.tag)
        )
    if query.prefix is not None:
        found.append(sql.SQL("starts_with(id, {})").format(query.prefix))
    if query.since is not None:
        found.append(sql.SQL("updated_at >= {}").format(query.since))
    if query.before is not None:
        found.append(sql.SQL("updated_at < {}").format(query.before))
    return found


def _in(column: str, values: list[str]) -> sql.Composable:
    return sql.SQL("{} IN ({})").format(sql.Identifier(column), sql.SQL(", ").join(map(sql.Literal, values)))


def _all(conditions: list[sql.Composable]) -> sql.Composable:
    return sql.SQL(" AND ").join(conditions)
