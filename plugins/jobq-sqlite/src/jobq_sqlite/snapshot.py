"""What a search found, taken one by one, all of it as it was at the moment of the call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobq.job import Job
    from jobq_sqlite.reading import Reading


class Snapshot:
    """An iterator over jobs.

    Args:
        reading: the search.
        accept: the job of a record; None where it is not sought.
        limit: the most jobs; None for all.
    """

    def __init__(self, reading: Reading, accept: Callable[[bytes], Job | None], limit: int | None) -> None:
        self._reading, self._accept = reading, accept
        self._left = -1 if limit is None else limit

    def __iter__(self) -> Iterator[Job]:
        return self

    def __next__(self) -> Job:
        while self._left:
            record = self._reading.take()
            if record is None:
                break
            job = self._accept(record)
            if job is None:
                continue
            self._left -= 1
            if not self._left:
                self._reading.give_up()
            return job
        self._reading.give_up()
        raise StopIteration

    def __del__(self) -> None:
        self._reading.give_up()
