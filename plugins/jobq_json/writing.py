"""Writing the sorted run of a new generation: old lines copied raw, changed ones put in their place."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from typing import TYPE_CHECKING

from jobq_json.filewriter import FileWriter
from jobq_json.heads import head_of
from jobq_json.kept import CANCELLED, COMPLETED, DEAD, FAILED, PENDING, PROCESSING, Kept
from jobq_json.manifest import run_header
from jobq_json.mapped import Shifts
from jobq_json.sections import Lane, Section

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobq_json.directory import Directory
    from jobq_json.mapped import Mapped

_ORDER = {PROCESSING: 0, PENDING: 1, FAILED: 2, DEAD: 3}
LIVE = frozenset(_ORDER)


def section_order(key: tuple[str, Lane]) -> tuple[int, str, int, str, bool]:
    """Where a section stands in the run: by state, queue, priority (high first), handler, alone."""
    state, lane = key
    return _ORDER[state], lane.queue, -lane.priority, lane.handler or "", lane.alone


class RunWriter:
    """Writes one sorted run and remembers where everything went.

    Args:
        directory: where.
        generation: its number.
        old: the run of the generation before.
        sections: its sections.
        touched: the offsets of its lines that are to be left out.
        changed: the jobs to put in.

    Attributes:
        sections: of the run, as far as it is written.
        places: the offsets of the jobs that were put in.
        moved: where the old lines are.

    Raises:
        StoreUnavailable: the system refused, at this or a later call.
    """

    def __init__(
        self,
        directory: Directory,
        generation: int,
        *,
        old: Mapped,
        sections: Sequence[Section],
        touched: Iterable[int],
        changed: Iterable[Kept],
    ) -> None:
        self._old = old
        self._sections = {(section.state, section.lane): section for section in sections}
        self._touched = sorted(set(touched))
        self._changed: dict[tuple[str, Lane], list[Kept]] = defaultdict(list)
        for kept in changed:
            if kept.state not in (COMPLETED, CANCELLED):
                self._changed[kept.state, kept.lane].append(kept)
        self.sections: list[Section] = []
        self.places: dict[str, int] = {}
        self.moved = Shifts()
        name = f"jobs-{generation}.jsonl"
        self._file = FileWriter(directory.create(name), f"{directory.path}/{name}")
        self._file.put(run_header(generation))

    def write(self) -> None:
        """Write the run, all but its footer."""
        for key in sorted(self._sections.keys() | self._changed.keys(), key=section_order):
            self._section(key, self._sections.get(key), self._changed.get(key, []))

    def finish(self, footer: bytes) -> int:
        """Write the lines behind the last job and bring everything to the disk; the size of the run."""
        self._file.put(footer)
        self._file.finish()
        return self._file.offset

    def close(self) -> None:
        """Free the descriptor."""
        self._file.close()

    def _section(self, key: tuple[str, Lane], old: Section | None, changed: list[Kept]) -> None:
        changed.sort(key=lambda kept: (kept.run_at, kept.seq))
        start, count = self._file.offset, len(changed)
        if old is None:
            for kept in changed:
                self._insert(kept)
            first, last = changed[0].run_at, changed[-1].run_at
        else:
            position, end = old.start, old.end
            left_out = self._touched[bisect_left(self._touched, position) : bisect_left(self._touched, end)]
            count += old.lines - len(left_out)
            for kept in changed:
                at = self._place_of(kept, position, old)
                self._copy(position, at, left_out)
                position = at
                self._insert(kept)
            self._copy(position, end, left_out)
            first = min([old.first, *(kept.run_at for kept in changed[:1])])
            last = max([old.last, *(kept.run_at for kept in changed[-1:])])
        if self._file.offset > start:
            self.sections.append(Section(*key, start, self._file.offset, count, first, last))

    def _place_of(self, kept: Kept, low: int, section: Section) -> int:
        """The offset, from `low` on, of the first old line of the section that belongs behind a changed job."""
        if kept.run_at > section.last:
            return section.end
        key = kept.run_at, kept.seq

        def before(line: bytes) -> bool:
            other = head_of(line)
            return other is None or (other.run_at, other.seq) < key

        return self._old.bisect(low, section.end, before)

    def _copy(self, start: int, end: int, left_out: Sequence[int]) -> None:
        for first, last in self._old.stretches(start, end, left_out):
            self.moved.note(first, self._file.offset)
            self._file.copy(self._old.data, first, last)

    def _insert(self, kept: Kept) -> None:
        self.places[kept.id] = self._file.offset
        self._file.put(kept.line + b"\n")
