"""How jobs are written: each statement compares the version of what is stored, and says which jobs it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.job import ENDED, WAITING, Job, State
from jobq_postgres.rows import claims, documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobq_postgres.batches import Statement

    Pair = tuple[Job, Job]

_CHANGE = "SELECT * FROM @schema@.change_jobs(%s, %s::json, %s::json)"
_END = "SELECT * FROM @schema@.end_jobs(%s::json, %s::json)"
_TAKE = "SELECT @schema@.take_jobs(%s::json)"


class Writing:
    """Jobs that are being written, each in place of what it was before.

    Args:
        pairs: what each was, and what it becomes; in the order in which what ends is to have ended.
    """

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self._ends = [pair for pair in pairs if pair[1].state in ENDED]
        self._stays = [pair for pair in pairs if pair[1].state not in ENDED]

    @property
    def statements(self) -> list[Statement]:
        """What writes them: those that end into the archive."""
        found: list[Statement] = []
        if self._ends:
            found.append((_END, _documents(self._ends)))
        if self._stays:
            enters = any(after.state in WAITING for _, after in self._stays)
            found.append((_CHANGE, [enters, *_documents(self._stays)]))
        return found

    def written(self, answers: Sequence[Sequence[Any]]) -> list[Pair]:
        """Those that were as before, and so were written.

        Args:
            answers: the rows of each of the statements.
        """
        parts = [part for part in (self._ends, self._stays) if part]
        return [part[row[0] - 1] for part, rows in zip(parts, answers, strict=True) for row in rows]


def taken(jobs: Iterable[Job]) -> Statement:
    """What writes claims of jobs that this transaction has locked."""
    return _TAKE, [claims(jobs)]


def rings(pairs: Iterable[Pair]) -> bool:
    """Whether one of the changes is a reason to wake a worker."""
    return any(
        after.state in WAITING
        or (after.state is State.PROCESSING and after.cancel_requested_at != before.cancel_requested_at)
        for before, after in pairs
    )


def _documents(pairs: Sequence[Pair]) -> list[str]:
    return documents([after for _, after in pairs], [before for before, _ in pairs])
