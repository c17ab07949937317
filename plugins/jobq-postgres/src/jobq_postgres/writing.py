"""How jobs are written: each statement compares the version of what is stored, and says which jobs it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.job import ENDED, WAITING, Job, State
from jobq_postgres.rows import NAMES, NEW, documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg

    from jobq_postgres.address import Address

    Pair = tuple[Job, Job]

_SAME = """
j.id = e.id AND j.rev = e.old_rev AND j.created_at = e.old_created_at AND j.worker IS NOT DISTINCT FROM e.old_worker
"""

_STAY = f"""
UPDATE @schema@.jobs j SET
    era = coalesce((SELECT @schema@.open_era() WHERE %s), j.era), queue = e.queue, handler = e.handler, alone = e.alone,
    rank = e.rank, run_at = e.run_at, state = e.state, run = e.run, rev = e.rev, worker = e.worker,
    created_at = e.created_at, started_at = e.started_at, updated_at = e.updated_at, record = e.record
FROM {NEW} AS e({NAMES})
WHERE {_SAME} RETURNING e.nth
"""
_TAKE = """
UPDATE @schema@.jobs j SET
    state = e.state, run = e.run, rev = e.rev, worker = e.worker, started_at = e.started_at, updated_at = e.updated_at
FROM json_to_recordset(%s::json) AS e(id text, state text, run bigint, rev bigint, worker text, started_at timestamptz,
    updated_at timestamptz)
WHERE j.id = e.id
"""
_END = f"""
WITH gone AS (
    DELETE FROM @schema@.jobs j
    USING {NEW} AS e({NAMES})
    WHERE {_SAME}
    RETURNING e.id, j.seq, e.queue, e.handler, e.state, e.updated_at, e.record, e.nth
), kept AS (
    INSERT INTO @schema@.archive (id, seq, ended, queue, handler, state, updated_at, record)
    SELECT o.id, o.seq, nextval('@schema@.ends'), o.queue, o.handler, o.state, o.updated_at, o.record
    FROM (SELECT * FROM gone ORDER BY nth) o
), counted AS (
    INSERT INTO @schema@.tally SELECT queue, state, count(*) FROM gone GROUP BY queue, state
)
SELECT nth FROM gone
"""  # noqa: S608 - of constants alone


class Writing:
    """Jobs that are being written, each in place of what it was before.

    Args:
        pairs: what each was, and what it becomes; in the order in which what ends is to have ended.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._ends = [pair for pair in pairs if pair[1].state in ENDED]
        self._stays = [pair for pair in pairs if pair[1].state not in ENDED]
        self._cursors: list[tuple[list[Pair], psycopg.Cursor[Any]]] = []

    def send(self, connection: psycopg.Connection[Any], address: Address) -> None:
        """Write them: those that end into the archive."""
        if self._ends:
            cursor = connection.execute(address.sql(_END), _documents(self._ends))
            self._cursors.append((self._ends, cursor))
        if self._stays:
            enters = any(after.state in WAITING for _, after in self._stays)
            cursor = connection.execute(address.sql(_STAY), [enters, *_documents(self._stays)])
            self._cursors.append((self._stays, cursor))

    def written(self) -> list[Pair]:
        """Those that were as before, and so were written; to be asked once."""
        return [pairs[row[0] - 1] for pairs, cursor in self._cursors for row in cursor]


def taken(connection: psycopg.Connection[Any], address: Address, jobs: Iterable[Job]) -> None:
    """Write claims of jobs that this transaction has locked."""
    connection.execute(address.sql(_TAKE), documents(list(jobs))[:1])


def rings(pairs: Iterable[Pair]) -> bool:
    """Whether one of the changes is a reason to wake a worker."""
    return any(
        after.state in WAITING
        or (after.state is State.PROCESSING and after.cancel_requested_at != before.cancel_requested_at)
        for before, after in pairs
    )


def _documents(pairs: Sequence[Pair]) -> list[str]:
    return documents([after for _, after in pairs], [before for before, _ in pairs])
