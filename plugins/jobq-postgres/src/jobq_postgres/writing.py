"""How jobs are written: each statement compares the version of what is stored, and says which jobs it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.job import ENDED, WAITING, Job, State
from jobq_postgres.rows import claims, documents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import psycopg

    from jobq_postgres.address import Address

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
        self._cursors: list[tuple[list[Pair], psycopg.Cursor[Any]]] = []

    def send(self, connection: psycopg.Connection[Any], address: Address) -> None:
        """Write them: those that end into the archive."""
        if self._ends:
            cursor = connection.execute(address.sql(_END), _documents(self._ends))
            self._cursors.append((self._ends, cursor))
        if self._stays:
            enters = any(after.state in WAITING for _, after in self._stays)
            cursor = connection.execute(address.sql(_CHANGE), [enters, *_documents(self._stays)])
            self._cursors.append((self._stays, cursor))

    def written(self) -> list[Pair]:
        """Those that were as before, and so were written; to be asked once."""
        return [pairs[row[0] - 1] for pairs, cursor in self._cursors for row in cursor]


def taken(connection: psycopg.Connection[Any], address: Address, jobs: Iterable[Job]) -> None:
    """Write claims of jobs that this transaction has locked."""
    connection.execute(address.sql(_TAKE), [claims(jobs)])


def rings(pairs: Iterable[Pair]) -> bool:
    """Whether one of the changes is a reason to wake a worker."""
    return any(
        after.state in WAITING
        or (after.state is State.PROCESSING and after.cancel_requested_at != before.cancel_requested_at)
        for before, after in pairs
    )


def _documents(pairs: Sequence[Pair]) -> list[str]:
    return documents([after for _, after in pairs], [before for before, _ in pairs])
