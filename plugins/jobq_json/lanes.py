"""Which waiting job is next: one queue of jobs for each lane, read from the sorted run and from memory."""

from __future__ import annotations

from bisect import insort
from heapq import heapify, heappop, heappush, heapreplace
from itertools import count
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from jobq.store import Wanted
    from jobq_json.kept import Kept
    from jobq_json.sections import Lane, Section

_numbers = count()


class _Cursor:
    """The first job of a section of the sorted run that the journal has not touched."""

    __slots__ = ("_end", "_head", "_next", "_offset", "_read", "_section")

    def __init__(self, section: Section, read: Callable[[int, Section], tuple[Kept | None, int]]) -> None:
        self._offset, self._end = section.start, section.end
        self._next = section.start
        self._head: Kept | None = None
        self._read, self._section = read, section

    def peek(self, delta: Mapping[str, Kept | None]) -> Kept | None:
        """The first job; it stays the first."""
        while self._offset < self._end:
            if self._head is None:
                self._head, self._next = self._read(self._offset, self._section)
            if self._head is not None and self._head.id not in delta:
                return self._head
            self.take()
        return None

    def take(self) -> None:
        """Pass over the first job."""
        self._offset, self._head = self._next, None


class LaneQueue:
    """The waiting jobs of one lane in order of (run_at, seq).

    Jobs that the journal touched lie in a heap, which may hold some that wait no longer; the others are read from
    the sorted run, one at a time.
    """

    __slots__ = ("_cursors", "_delta", "_heap", "_source", "lane")

    def __init__(self, lane: Lane, delta: Mapping[str, Kept | None]) -> None:
        self.lane = lane
        self._delta = delta
        self._heap: list[tuple[str, int, int, Kept]] = []
        self._cursors: list[_Cursor] = []
        self._source: _Cursor | None = None

    def add_section(self, section: Section, read: Callable[[int, Section], tuple[Kept | None, int]]) -> None:
        """Read from this section too."""
        self._cursors.append(_Cursor(section, read))

    def push(self, kept: Kept) -> None:
        """A job waits here from now on (again)."""
        heappush(self._heap, (kept.run_at, kept.seq, next(_numbers), kept))

    def peek(self) -> Kept | None:
        """The first job, or None."""
        heap, delta = self._heap, self._delta
        best = None
        while heap:
            kept = heap[0][3]
            if delta.get(kept.id, kept) is kept:
                best = kept
                break
            heappop(heap)
        self._source = None
        for cursor in self._cursors:
            head = cursor.peek(delta)
            if head is not None and (best is None or (head.run_at, head.seq) < (best.run_at, best.seq)):
                best, self._source = head, cursor
        return best

    def take(self) -> None:
        """Pass over the job that `peek` answered with last."""
        if self._source is not None:
            self._source.take()
        else:
            heappop(self._heap)


class Lanes:
    """All lanes.

    Args:
        delta: the jobs that the journal touched, by id; None for those deleted. The view keeps changing it.
    """

    def __init__(self, delta: Mapping[str, Kept | None]) -> None:
        self._delta = delta
        self._lanes: dict[Lane, LaneQueue] = {}
        self._levels: dict[int, list[LaneQueue]] = {}
        self._priorities: list[int] = []  # negated, so that the highest is first

    def lane(self, lane: Lane) -> LaneQueue:
        """The queue of a lane, made where it is new."""
        queue = self._lanes.get(lane)
        if queue is None:
            queue = self._lanes[lane] = LaneQueue(lane, self._delta)
            if lane.priority not in self._levels:
                self._levels[lane.priority] = []
                insort(self._priorities, -lane.priority)
            self._levels[lane.priority].append(queue)
        return queue

    def push(self, kept: Kept) -> None:
        """A job waits from now on (again)."""
        self.lane(kept.lane).push(kept)

    def choose(self, wanted: Wanted, paused: Mapping[str, str], *, limit: int, now: str) -> list[Kept]:
        """Take up to `limit` due jobs as `Store.claim` says which. The caller claims them, or drops the lanes."""
        chosen: list[Kept] = []
        for priority in self._priorities if limit > 0 else ():
            heads = [
                (kept.run_at, kept.seq, next(_numbers), queue, kept)
                for queue in self._wanted(self._levels[-priority], wanted, paused)
                if (kept := queue.peek()) is not None and kept.run_at <= now
            ]
            heapify(heads)
            while heads and len(chosen) < limit:
                _, _, _, queue, kept = heads[0]
                if queue.lane.alone and chosen:
                    heappop(heads)
                    continue
                if wanted.leading is not None and not wanted.leading(kept.job):
                    limit = len(chosen)
                    break
                queue.take()
                chosen.append(kept)
                if queue.lane.alone:
                    limit = 1
                following = queue.peek()
                if following is not None and following.run_at <= now:
                    heapreplace(heads, (following.run_at, following.seq, next(_numbers), queue, following))
                else:
                    heappop(heads)
            if len(chosen) >= limit:
                break
        return chosen

    def next_due(self, wanted: Wanted, paused: Mapping[str, str]) -> str | None:
        """When the first of the wanted jobs is due, as written; None where there is none."""
        heads = (queue.peek() for queue in self._wanted(self._lanes.values(), wanted, paused))
        return min((kept.run_at for kept in heads if kept is not None), default=None)

    def _wanted(self, queues: Iterable[LaneQueue], wanted: Wanted, paused: Mapping[str, str]) -> Iterator[LaneQueue]:
        for queue in queues:
            lane = queue.lane
            if (
                lane.queue not in paused
                and (wanted.queues is None or lane.queue in wanted.queues)
                and (wanted.handlers is None or lane.handler is None or lane.handler in wanted.handlers)
                and wanted.alone in (None, lane.alone)
            ):
                yield queue
