"""Where claims begin to look, so that they do not pass again and again over what was claimed long ago.

A claimed job leaves an entry in the index of what waits. Usually such entries are soon marked as dead and skipped; as
long as some session holds an old snapshot, each scan has to look at every one of them. So jobs that become claimable
enter the latest of several **eras**, which lead the index. When a claim has had to pass over many dead entries, the next
era is begun. An era that nobody can enter any more is **closed**: of each of its lanes a handle remembers where the first
job stands, and begins there, since nothing can come to stand before that. Whether it is closed is asked by a lock that
everybody holds who enters it. What is claimed enters the latest era too: in a closed one in which nothing runs nothing
will, and what runs is looked for in the others alone. All of this is kept for one connection and for one making of the
table, so that it never outlives a restore of the database.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from jobq.codec import encode

if TYPE_CHECKING:
    import psycopg

    from jobq_postgres.address import Address

_MARK = ("era", "queue", "handler", "alone", "rank", "run_at", "seq")

WALKED = 1000
"""Index entries that a claim may read beyond those of the jobs that it finds, before something is done about it."""

PAUSE = 0.5
"""Seconds between two beginnings of an era by one handle."""

_CLOSED = "SELECT e FROM unnest(%s::integer[]) e WHERE pg_try_advisory_xact_lock(@space@, e + 16)"
_LANES = """
SELECT l.era, l.queue, l.handler, l.alone, l.rank, h.run_at::text, h.seq
FROM @schema@.lanes(%s::integer[]) l
CROSS JOIN LATERAL @schema@.head(l.era, l.queue, l.handler, l.alone, l.rank, '-infinity', 0) h
"""
_ONWARD = """
SELECT m.era, m.queue, m.handler, m.alone, m.rank, h.run_at::text, h.seq FROM @schema@.marks(%s::json) m
CROSS JOIN LATERAL @schema@.head(m.era, m.queue, m.handler, m.alone, m.rank, m.run_at, m.seq) h
"""
_ALIVE = "SELECT DISTINCT era FROM @schema@.holders(%s::integer[], %s)"
_BEGIN = "SELECT nextval('@schema@.eras') FROM @schema@.eras WHERE last_value = %s"

PLACE = "pg_postmaster_start_time()::text || pg_relation_filenode('@schema@.jobs')"
"""SQL for what changes when the table of jobs is made anew or restored; behind a pooler a connection outlives even that."""

STARTS = "%s::integer[], %s::integer, %s::json"
"""Placeholders for what `Eras.starts` answers with."""


class Eras:
    """What one connection knows of the eras.

    Attributes:
        known: the latest era that was seen; 0 at first.
    """

    def __init__(self, address: Address) -> None:
        self._address = address
        self.known = 0
        self._place: str | None = None
        self._open: list[int] = []
        self._alive: list[int] = []
        self._marks = "[]"
        self._begun = float("-inf")

    @property
    def starts(self) -> list[Any]:
        """The open eras, the latest known one, and the marks."""
        return [_array(self._open), self.known, self._marks]

    @property
    def alive(self) -> list[Any]:
        """The eras in which something may run, and the latest known one."""
        return [_array(self._alive), self.known]

    def heed(
        self, connection: psycopg.Connection[Any], *, latest: int, walked: int, found: int, place: str | None = None
    ) -> None:
        """After a claim, outside of its transaction: close eras, move marks on, begin an era, where there is reason to.

        Args:
            latest: the latest era, as the claim saw it.
            walked: how many entries of the index it read.
            found: how many jobs it found.
            place: what `PLACE` said. Where it is another one than before, what was known is of no use.
        """
        if self._place is not None and place != self._place:
            self.__dict__.update(Eras(self._address).__dict__)
            return
        self._place = place
        news = latest > self.known
        self._open += range(self.known + 1, latest + 1)
        self._alive += range(self.known + 1, latest + 1)
        self.known = max(self.known, latest)
        idle = walked <= WALKED + 8 * found
        if idle and not news:
            return
        if not idle and time.monotonic() - self._begun >= PAUSE:
            self._begun = time.monotonic()
            begun = connection.execute(self._address.sql(_BEGIN), [self.known]).fetchone()
            if begun is not None:
                self._open.append(begun[0])
                self._alive.append(begun[0])
                self.known = begun[0]
        self._close(connection)

    def _close(self, connection: psycopg.Connection[Any]) -> None:
        """Look which eras nobody can enter any more, and from where on their jobs stand."""
        asked = [era for era in self._open if era != self.known]
        sql = self._address.sql
        closed = {era for (era,) in connection.execute(sql(_CLOSED), [asked])} if asked else set[int]()
        marks = connection.execute(sql(_ONWARD), [self._marks]).fetchall() if self._marks != "[]" else []
        if closed:
            # By a snapshot that is younger than the last who could have entered
            marks += connection.execute(sql(_LANES), [sorted(closed)]).fetchall()
        self._open = [era for era in self._open if era not in closed]
        runs = {era for (era,) in connection.execute(sql(_ALIVE), [_array(self._alive), self.known])}
        self._alive = [era for era in self._alive if era in self._open or era in runs]
        self._marks = encode([dict(zip(_MARK, mark, strict=True)) for mark in marks])


def _array(numbers: list[int]) -> str:
    return f"{{{','.join(map(str, numbers))}}}"
