"""Writing the sorted run of a new generation: old lines copied raw, changed ones put in their place."""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import defaultdict
from typing import TYPE_CHECKING

from jobq import files
from jobq_json.kept import CANCELLED, COMPLETED, DEAD, FAILED, PENDING, PROCESSING, Kept
from jobq_json.lines import head_of
from jobq_json.manifest import Lane, Section, run_header

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jobq_json.directory import Directory
    from jobq_json.mapped import Mapped

_FLUSH = 1 << 22
_SYNC = 1 << 25
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
        self._directory = directory
        self._path = directory.path / f"jobs-{generation}.jsonl"
        self._header = run_header(generation)
        self._old = old
        self._sections = {(section.state, section.lane): section for section in sections}
        self._touched = sorted(set(touched))
        self._changed: dict[tuple[str, Lane], list[Kept]] = defaultdict(list)
        for kept in changed:
            if kept.state not in (COMPLETED, CANCELLED):
                self._changed[kept.state, kept.lane].append(kept)
        self._buffer: list[bytes] = []
        self._buffered = 0
        self._unsynced = 0
        self._descriptor = -1
        self.offset = 0
        self.sections: list[Section] = []
        self.places: dict[str, int] = {}
        self._old_starts: list[int] = []
        self._shifts: list[int] = []

    def write(self) -> None:
        """Write the run, all but its footer.

        Raises:
            StoreUnavailable: the system refused.
        """
        self._descriptor = self._directory.create(self._path.name)
        self._put(self._header)
        for key in sorted(self._sections.keys() | self._changed.keys(), key=section_order):
            self._section(key, self._sections.get(key), self._changed.get(key, []))

    def finish(self, footer: bytes) -> None:
        """Write the footer line and bring everything to the disk.

        Raises:
            StoreUnavailable: the system refused.
        """
        self._put(footer)
        try:
            self._flush()
            files.sync(self._descriptor)
        except OSError as error:
            raise files.unavailable(error, self._path) from None

    def close(self) -> None:
        """Free the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def moved(self, offset: int) -> int | None:
        """Where the line at an offset of the old run is in the new one; None where it was left out."""
        index = bisect_right(self._old_starts, offset) - 1
        return None if index < 0 else offset + self._shifts[index]

    def _section(self, key: tuple[str, Lane], old: Section | None, changed: list[Kept]) -> None:
        changed.sort(key=lambda kept: (kept.run_at, kept.seq))
        start, count = self.offset, len(changed)
        if old is None:
            for kept in changed:
                self._insert(kept)
            first, last = changed[0].run_at, changed[-1].run_at
        else:
            position, end = old.start, old.end
            low = bisect_right(self._touched, position - 1)
            high = bisect_right(self._touched, end - 1)
            count += old.lines - (high - low)
            left_out = self._touched[low:high]
            for kept in changed:
                at = self._place_of(kept, position, old)
                self._copy(position, at, left_out)
                position = at
                self._insert(kept)
            self._copy(position, end, left_out)
            first = min([old.first, *(kept.run_at for kept in changed[:1])])
            last = max([old.last, *(kept.run_at for kept in changed[-1:])])
        if self.offset > start:
            self.sections.append(Section(*key, start, self.offset, count, first, last))

    def _place_of(self, kept: Kept, low: int, section: Section) -> int:
        """The offset, from `low` on, of the first old line of the section that belongs behind a changed job."""
        high = section.end
        if kept.run_at > section.last:
            return high
        key = kept.run_at, kept.seq
        while low < high:
            middle = (low + high) // 2
            line_start = max(low, self._old.data.rfind(b"\n", low, middle) + 1)
            line, following = self._old.line(line_start)
            other = head_of(line)
            if other is None or (other.run_at, other.seq) < key:
                low = following
            else:
                high = line_start
        return low

    def _copy(self, start: int, end: int, left_out: list[int]) -> None:
        """Copy the old lines from `start` to `end` but for those at the offsets `left_out` (sorted)."""
        index = bisect_right(left_out, start - 1)
        while index < len(left_out) and left_out[index] < end:
            self._copy_raw(start, left_out[index])
            start = self._old.line(left_out[index])[1]
            index += 1
        self._copy_raw(start, end)

    def _copy_raw(self, start: int, end: int) -> None:
        if start >= end:
            return
        self._old_starts.append(start)
        self._shifts.append(self.offset - start)
        while start < end:
            upto = min(end, start + _FLUSH)
            self._put(self._old.data[start:upto])
            start = upto

    def _insert(self, kept: Kept) -> None:
        self.places[kept.id] = self.offset
        self._put(kept.line + b"\n")

    def _put(self, data: bytes) -> None:
        self._buffer.append(data)
        self._buffered += len(data)
        self.offset += len(data)
        if self._buffered >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        try:
            files.write_all(self._descriptor, b"".join(self._buffer))
            self._unsynced += self._buffered
            if self._unsynced >= _SYNC:  # bit by bit: a long sync would hold up the writers of the journal
                files.sync(self._descriptor)
                self._unsynced = 0
        except OSError as error:
            raise files.unavailable(error, self._path) from None
        self._buffer, self._buffered = [], 0
