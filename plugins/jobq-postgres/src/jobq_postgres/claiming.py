"""One transaction that records what ended and claims what is next, in two round trips: look, then write and commit."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

import psycopg

from jobq import lifecycle
from jobq.job import State
from jobq.notices import heed
from jobq.store import Claim, Claimed, runs_alone
from jobq_postgres import writing
from jobq_postgres.batches import milliseconds, moment
from jobq_postgres.eras import PLACE, STARTS
from jobq_postgres.reading import locked
from jobq_postgres.rows import BESIDE, live
from jobq_postgres.transactions import as_notice

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobq.job import Job
    from jobq.members import Presence
    from jobq.store import Ended, Wanted
    from jobq_postgres.batches import Statement
    from jobq_postgres.eras import Eras
    from jobq_postgres.transactions import Transactions

_CHOOSE = f"""
SELECT id, state, run, rev, worker, {milliseconds("started_at")}, {milliseconds("updated_at")}, record, seq, era, {PLACE}
FROM @schema@.choose(%s, {STARTS}, %s::text[], %s::text[], %s, %s, %s)
"""  # noqa: S608 - of constants alone

_ENTER = "SELECT NULL, notice_state, NULL, NULL, notice_url FROM @schema@.enter()"

Key = tuple[str, int, datetime]
"""A run: job, number, and when the job was made, since an id may be used again."""


class Ends:
    """What ended, as it is recorded in one transaction.

    Args:
        unsure: runs whose ends were sent in a transaction of which it is not known whether it took effect, and whether
            a cancel had changed them.

    Attributes:
        applied: the runs of which the end is recorded, and whether a cancel has changed it.
        rings: whether others should be woken.
    """

    def __init__(self, ended: Sequence[Ended], unsure: Mapping[Key, bool], now: datetime) -> None:
        self.applied: dict[Key, bool] = {}
        self.rings = False
        self._unsure, self._now = unsure, now
        self._todo: dict[Key, Ended] = {}
        self._keys = [_key(item.claim) for item in ended]
        self._claims = [item.claim for item in ended]
        for key, item in zip(self._keys, ended, strict=True):
            self._todo.setdefault(key, item)
        self._pairs: dict[Key, writing.Pair] = {}
        self._writing = writing.Writing(())

    @property
    def refused(self) -> list[Claim]:
        """Those that the fencing rule refused, each time that they were given."""
        first = {key: index for index, key in reversed(list(enumerate(self._keys)))}
        return [
            claim
            for index, (key, claim) in enumerate(zip(self._keys, self._claims, strict=True))
            if key not in self.applied or first[key] != index
        ]

    @property
    def cancelled(self) -> list[Claim]:
        """Those that a cancel has changed."""
        return [item.claim for key, item in self._todo.items() if self.applied.get(key)]

    def statements(self) -> list[Statement]:
        """What writes the ends of runs that nobody has touched since they were claimed."""
        self._pairs = {
            key: (
                _as_held(item.claim),
                item.claim.job.changed(lifecycle.settled(item.claim.job, item.change), now=self._now),
            )
            for key, item in self._todo.items()
        }
        self._writing = writing.Writing(list(self._pairs.values()))
        return self._writing.statements

    def settle(
        self, connection: psycopg.Connection[Any], transactions: Transactions, answers: Sequence[Sequence[Any]]
    ) -> bool:
        """Look what was written, and apply the fencing rule to the rest; whether more was written for that.

        Args:
            answers: the rows that the statements had.
        """
        written = self._writing.written(answers)
        self.rings = writing.rings(written)
        done = set(map(id, written))
        rest = []
        for key, item in self._todo.items():
            if id(self._pairs[key]) in done:
                self.applied[key] = lifecycle.settled(item.claim.job, item.change) is not item.change
            else:
                rest.append((key, item))
        if not rest:
            return False
        stored = locked(connection, transactions.address, {item.claim.job.id for _, item in rest})
        pairs = []
        for key, item in rest:
            there = stored.get(item.claim.job.id)
            if there is not None and item.claim.holds(there):
                change = lifecycle.settled(there, item.change)
                pairs.append((there, there.changed(change, now=self._now)))
                self.applied[key] = change is not item.change
            elif key in self._unsure and not _was_lost(item.claim, there):
                self.applied[key] = self._unsure[key]  # it is this very end, said again because nobody had answered
        if pairs:
            transactions.run(connection, writing.Writing(pairs).statements)
        self.rings = self.rings or writing.rings(pairs)
        return bool(pairs)


def _key(claim: Claim) -> Key:
    return claim.job.id, claim.run, claim.job.created_at


def _was_lost(claim: Claim, there: Job | None) -> bool:
    """Whether the run was taken from its worker before it ended."""
    history = there.history if there is not None and there.created_at == claim.job.created_at else ()
    return any(run.run == claim.run and run.outcome == "lost" for run in history)


def claim(
    transactions: Transactions,
    eras: Callable[[], Eras],
    worker: Presence,
    *,
    wanted: Wanted,
    limit: int,
    ended: Sequence[Ended],
    unsure: dict[Key, bool],
    now: datetime,
) -> Claimed:
    """Record what ended, then claim, as `Store.claim` says.

    `unsure` is replaced by what is not known to have taken effect, where the answer to the commit does not come.

    Raises:
        StoreError: it did not take effect, or nobody knows whether it did.
        StoreMoved: the jobs are elsewhere.
    """
    ends = Ends(ended, unsure, now)
    with transactions.line.use() as connection:
        where = eras()
        look: Statement = (_ENTER, ())
        if limit > 0:
            look = _CHOOSE, [worker.id, *where.starts, *wishes(wanted), now, limit]
        begin = transactions.beginning
        answers = transactions.run(connection, [*begin, *ends.statements(), look])
        found = answers[-1]
        if ends.settle(connection, transactions, answers[len(begin) : -1]):
            (found,) = transactions.run(connection, [look])
        *rows, last = found
        notice = as_notice((last[1], last[4]))
        heed(notice, "claim")
        claims = [] if notice is not None else _claims(rows, worker, wanted, now)
        unsure.clear()
        unsure.update(ends.applied)
        took = [writing.taken(each.job for each in claims)] if claims else []
        transactions.run(connection, [*took, *transactions.ending(rings=ends.rings)])
        unsure.clear()
        if limit > 0:
            where.heed(connection, latest=last[9], walked=last[8], found=len(rows), place=last[10])
    return Claimed(claims, ends.refused, ends.cancelled)


def wishes(wanted: Wanted) -> list[Any]:
    """The queues, handlers and `alone` of what is wanted, as the functions of the schema take them."""
    return [
        None if wanted.queues is None else list(wanted.queues),
        None if wanted.handlers is None else sorted(wanted.handlers),
        wanted.alone,
    ]


def _claims(rows: Sequence[Sequence[Any]], worker: Presence, wanted: Wanted, now: datetime) -> list[Claim]:
    claims: list[Claim] = []
    for row in rows:
        job = live((*row[:5], moment(row[5]), moment(row[6]), row[7]))
        if wanted.leading is not None and not wanted.leading(job):
            break
        change = lifecycle.claimed(job, worker.id, now=now)
        assert change.fields.keys() <= BESIDE  # noqa: S101 - columns hold these; the record stays as it is
        claims.append(Claim(job.changed(change, now=now), worker.id, worker.host))
        if runs_alone(job):
            break
    return claims


def _as_held(claim: Claim) -> Job:
    """The job as it is stored if the claim holds and nobody has changed it since."""
    job = claim.job
    if job.worker == claim.worker and job.state is State.PROCESSING:
        return job
    return replace(job, worker=claim.worker)
