"""`status --watch`: how the queue stands, again and again: on a terminal's whole screen, or line by line elsewhere."""

from __future__ import annotations

import sys
from collections import deque
from typing import TYPE_CHECKING

import click

from jobq.cli.progress import in_full, progress_of
from jobq.cli.status import lines_of, notes_of, record_of
from jobq.cli.streams import show_json_lines
from jobq.cli.terminal import Screen, can_draw
from jobq.cli.text import in_words, one_line
from jobq.clock import Wake
from jobq.job import ENDED

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    from jobq.cli.base import Globals
    from jobq.members import WorkerInfo
    from jobq.store import Counts

SECONDS = 1.0
RATE_SECONDS = 10.0


def watch_status(state: Globals, *, as_json: bool) -> None:
    """Show the status until Ctrl-C (on a terminal also q): what changes in place, or a block or object each time."""
    if as_json:
        _watch_as_json(state)
    elif can_draw(sys.stdout):
        _watch_on_screen(state)
    else:
        _watch_as_text(state)


class Rate:
    """How many jobs end a second, from how many there were at several moments of the last 10 s."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, int]] = deque()
        self._ended = self._before = 0

    def see(self, counts: Counts, now: float) -> None:
        """Note how many ended jobs there are at `now`, a moment of the monotonic clock; deleted ones are no loss."""
        there = sum(counts.states[name] for name in ENDED)
        if self._seen:
            self._ended += max(0, there - self._before)
        self._before = there
        self._seen.append((now, self._ended))
        while len(self._seen) > 2 and self._seen[1][0] <= now - RATE_SECONDS:
            self._seen.popleft()

    def text(self) -> str:
        """For people: `finished 12.3 a second`; "" after one look."""
        (first, before), (last, after) = self._seen[0], self._seen[-1]
        return f"finished {(after - before) / (last - first):.1f} a second" if last > first else ""


def _watch_as_json(state: Globals) -> None:
    with Wake() as nothing:
        while True:
            show_json_lines([record_of(state, state.queue.counts(), state.queue.workers())])
            sys.stdout.flush()
            state.app.clock.wait(nothing, SECONDS)


def _watch_as_text(state: Globals) -> None:
    """One block for each change; the time that goes by is none."""
    before: list[str] = []
    with Wake() as nothing:
        while True:
            counts, workers = state.queue.counts(), state.queue.workers()
            now = [*lines_of(counts, workers), *_activity(workers, None)]
            if now != before:
                click.echo("\n".join(["", *now] if before else now))
                sys.stdout.flush()
            before = now
            state.app.clock.wait(nothing, SECONDS)


def _watch_on_screen(state: Globals) -> None:
    queue, clock, rate = state.queue, state.app.clock, Rate()
    with Screen() as screen:
        keys = ""
        while not {"q", "Q", "\x04"} & set(keys):
            counts, workers = queue.counts(), queue.workers()
            rate.see(counts, clock.monotonic())
            notes = notes_of(state, counts, workers)
            screen.draw([*lines_of(counts, workers), rate.text(), *notes, "", *_activity(workers, clock.now())])
            keys = screen.wait(SECONDS)


def _activity(workers: Sequence[WorkerInfo], now: datetime | None) -> Iterator[str]:
    """One line a worker, one a running job; with `now` each tells for how long it has been running."""
    for worker in workers:
        yield f"worker {one_line(worker.name)} (pid {worker.pid}): {len(worker.running)} of {worker.count} busy"
        for job in worker.running:
            since = "" if now is None else f"  {in_words(now - job.started)}"
            progress = progress_of(job.progress)
            yield f"  {job.job}{since}  {one_line(job.what)}{'' if progress is None else f'  {in_full(progress)}'}"
