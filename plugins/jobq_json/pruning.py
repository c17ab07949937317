"""Which ended jobs are old enough to be deleted."""

from __future__ import annotations

from bisect import bisect_left
from itertools import islice
from typing import TYPE_CHECKING

from jobq.job import FINISHED, State
from jobq_json.kept import DEAD, Kept, of_line

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobq_json.view import Place, View


def batch(view: View, *, states: frozenset[State], before: datetime, limit: int) -> list[tuple[Kept, Place]]:
    """Up to `limit` jobs in these (ended) states last changed before then, and where their lines are.

    The same question asked again goes on where the answer before ended, until there are no more; the caller has
    deleted the former ones by then, or drops the view. Some may have been changed since they were looked at.

    Raises:
        FileNotFoundError: the generation is over.
    """
    asked = states, before
    if view.pruning is None or view.pruning[0] != asked:
        view.pruning = asked, _old(view, states, before)
    found = list(islice(view.pruning[1], limit))
    if len(found) < limit:
        view.pruning = None
    return found


def _old(view: View, states: frozenset[State], before: datetime) -> Iterator[tuple[Kept, Place]]:
    if states & FINISHED:
        yield from _archived(view, states, before)
        finished = list(view.finished.values())
        end = bisect_left(finished, before, key=lambda kept: kept.job.updated_at)
        for kept in finished[:end]:
            if kept.state in states and kept.job.updated_at < before:
                yield kept, None
    if State.DEAD in states:
        for kept in [kept for kept in view.delta.values() if kept is not None and kept.state == DEAD]:
            if kept.job.updated_at < before:
                yield kept, None
        for section in view.manifest.sections:
            for kept in view.jobs_of(section) if section.state == DEAD else ():
                if kept.id not in view.delta and kept.job.updated_at < before:
                    yield kept, kept.offset


def _archived(view: View, states: frozenset[State], before: datetime) -> Iterator[tuple[Kept, Place]]:
    """Those of the archive, the first finished first.

    They lie in order of finishing, so nothing young is looked at but what the bisection of a segment meets. Where the
    clock was put back in between, some that are old enough may lie behind younger ones: they come a later time.
    """

    def old(line: bytes) -> bool:
        kept = of_line(line)
        return kept is None or kept.job.updated_at < before

    for name, segment in view.archive.segments.items():
        mapped = view.archive.mapped(name)
        for offset, line in mapped.lines(segment.start, mapped.bisect(segment.start, segment.size, old)):
            if offset in view.archived.get(name, ()):
                continue
            kept = of_line(line, offset)
            if kept is None:
                view.note_damage(name, offset, line)
            elif kept.state in states and kept.job.updated_at < before:
                yield kept, [name, offset]
