"""What a worker tells while it works: one line for each attempt that ended, and a summary."""

from __future__ import annotations

import sys
import threading
from collections import deque
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from jobq.cli.streams import abandon
from jobq.cli.text import coloured, local_time, masked, one_line
from jobq.job import State
from jobq.times import format_duration

if TYPE_CHECKING:
    from jobq.job import Job
    from jobq.summary import Summary

BATCH_SECONDS = 0.1
MOST_KEPT = 10_000
"""Lines that wait for a terminal that takes none; what comes then is only counted."""
_NONE = timedelta(0)


class Lines:
    """Prints one line for each attempt that ended, to stdout.

    A thread of its own writes them, many at once where there are many: a terminal that is slow, or stopped by Ctrl-S,
    holds up no job.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._jobs: deque[Job] = deque()
        self._left_out = 0
        self._some, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._write, name="jobq-lines", daemon=True)

    def __enter__(self) -> Self:
        if not self._quiet:
            self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Return when everything is written, or nobody reads it any more."""
        self._closed.set()
        self._some.set()
        if self._thread.ident is not None:
            self._thread.join()

    def __call__(self, job: Job) -> None:
        """Tell of the latest attempt of `job`; returns at once."""
        if self._quiet:
            return
        if len(self._jobs) < MOST_KEPT:
            self._jobs.append(job)
        else:
            self._left_out += 1
        self._some.set()

    def _write(self) -> None:
        told = 0
        while not self._quiet and not (self._closed.is_set() and not self._jobs):
            self._some.wait()
            self._some.clear()
            text = "".join(line(self._jobs.popleft()) for _ in range(len(self._jobs)))
            if (left_out := self._left_out) > told:
                text += f"… and {left_out - told} more\n"
                told = left_out
            try:
                sys.stdout.write(text)
                sys.stdout.flush()
            except (OSError, ValueError):  # the terminal is gone: the work goes on, and was done all the same
                self._quiet = True
                abandon(1)
            self._closed.wait(BATCH_SECONDS)


def line(job: Job) -> str:
    """What became of the latest attempt of a job, on one line."""
    run = job.history[-1] if job.history else None
    took = ""
    if run is not None and run.started is not None:
        took = f" after {format_duration(max(run.finished - run.started, _NONE))}"
    when = local_time(job.updated_at)[11:]
    ended = coloured(job.state.value, job.state.value, sys.stdout)
    reason = ""
    if job.state is State.PENDING:
        snoozed = job.run_at - job.updated_at
        ended = "snoozed" if snoozed > _NONE else "handed back"
        reason = f"; again in {format_duration(snoozed)}" if snoozed > _NONE else ""
    if job.state in (State.FAILED, State.DEAD):
        reason = f": {(job.last_error or '').partition(chr(10))[0][:200]}"
    if job.state is State.FAILED:
        wait = format_duration(max(job.run_at - job.updated_at, _NONE))
        reason += f"; attempt {job.attempts + 1}/{job.max_attempts} in {wait}"
    return f"{when}  {job.id}  {ended}{took}{one_line(reason)}  [{masked('', one_line(job.what))[:100]}]\n"


def told(summary: Summary) -> str:
    """What a worker did, when it is over."""
    plural = "" if summary.failed + summary.dead == 1 else "s"
    parts = [
        f"{count} {name}"
        for name, count in (
            ("completed", summary.completed),
            (f"failed attempt{plural}", summary.failed + summary.dead),
            ("dead", summary.dead),
            ("cancelled", summary.cancelled),
            ("snoozed", summary.snoozed),
            ("handed back", summary.released),
            ("discarded", summary.discarded),
        )
        if count or name == "completed"
    ]
    left = f"; {summary.left} left waiting" if summary.left else ""
    return f"worker ended: {', '.join(parts)}{left}"
