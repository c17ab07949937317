"""`wait`: until jobs have ended, with one bar for all of them on a terminal."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.cli.progress import of_all, reported
from jobq.cli.selection import Selection, select, selection
from jobq.cli.submitting import note_unserved
from jobq.cli.terminal import StatusLine
from jobq.cli.text import reason
from jobq.errors import JobNotFound, JobqError, WaitTimeout
from jobq.job import ENDED, WAITING, State
from jobq.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.job import Job

NO_CODE = 125
"""What `wait --exit-code` exits with where the job has no exit code of its own."""
BAR_SECONDS = timedelta(seconds=0.5)


@command("wait", short_help="Wait until jobs have ended.")
@selection
@click.option("--timeout", metavar="DURATION", help="Give up after that, with 124.")
@click.option("--exit-code", is_flag=True, help="Exit with the job's own exit code (128 + n for a signal).")
def wait_command(state: Globals, selection: Selection, timeout: str | None, exit_code: bool) -> int:
    """Wait until jobs have ended: completed, dead or cancelled. Exits with 7 unless all of them completed.

    \b
    jobq wait ID                      one job
    jobq wait -t nightly              every job that has this tag now
    jobq wait --exit-code ID          exit as the job did; 125 if jobq itself could not tell

    Ctrl-C ends the waiting, never the job.
    """
    if selection.nothing:
        raise click.UsageError("say which jobs: ids, or conditions such as -q QUEUE or -t TAG")
    if exit_code and len(selection.ids) != 1:
        raise click.UsageError("--exit-code takes one id")
    limit = None if timeout is None else parse_duration("--timeout", timeout)
    try:
        jobs, code = select(state, selection, whole_ids=False)
        if not jobs and not code:
            state.note("no jobs to wait for")
        note_unserved(state, [job for job in jobs if job.state in WAITING])
        return _wait(state, jobs, limit, code, exit_code=exit_code)
    except JobqError as error:
        if not exit_code:
            raise
        state.warn(str(error))
        return NO_CODE


def wait_for(state: Globals, ids: Sequence[str]) -> int:
    """Wait until these jobs have ended, and tell how: 0, or 7 where one is dead or cancelled, 130 after Ctrl-C."""
    return _wait(state, [state.queue.get(job_id) for job_id in ids], None, 0)


def _wait(state: Globals, jobs: Sequence[Job], limit: timedelta | None, code: int, *, exit_code: bool = False) -> int:
    """Wait; the exit code: `code` where it is not 0, else that of the first failure."""
    waiting = _Waiting(state, jobs)
    for queue in sorted({job.queue for job in jobs if job.state in WAITING} & state.queue.counts().paused.keys()):
        state.note(f"queue {queue} is paused: its jobs wait for `jobq resume {queue}`")
    try:
        failed = waiting.for_all(limit)
        code = code or failed
    except KeyboardInterrupt:
        state.note(f"\nno longer waiting for {_count(len(waiting.ids), 'job')}")
        return 130
    finally:
        _tell(state, [waiting.ended[job.id] for job in jobs if job.id in waiting.ended])
    if exit_code:
        return NO_CODE if code else _own_code(waiting.ended[jobs[0].id])
    return code or (0 if all(job.state is State.COMPLETED for job in waiting.ended.values()) else 7)


class _Waiting:
    """The jobs that are waited for.

    Attributes:
        ids: those that have not ended.
        ended: the others, by id.
    """

    def __init__(self, state: Globals, jobs: Sequence[Job]) -> None:
        self._state = state
        self.ended = {job.id: job for job in jobs if job.state in ENDED}
        self.ids = {job.id: None for job in jobs if job.id not in self.ended}

    def for_all(self, limit: timedelta | None) -> int:
        """Wait for all of them; one that is deleted meanwhile is told, no longer waited for, and makes the exit code.

        Raises:
            WaitTimeout: the time ran out.
        """
        clock, code = self._state.app.clock, 0
        started, total = clock.monotonic(), len(self.ids) + len(self.ended)
        with StatusLine(hidden=self._state.quiet) as bar:
            while self.ids:
                rest = (
                    None if limit is None else max(limit - timedelta(seconds=clock.monotonic() - started), timedelta())
                )
                last = not bar.visible or (rest is not None and rest <= BAR_SECONDS)
                self._draw(bar)
                try:
                    self._state.queue.wait(list(self.ids), timeout=rest if last else BAR_SECONDS, seen=self._seen)
                except WaitTimeout:
                    if last:
                        raise WaitTimeout(f"{len(self.ids)} of {total} jobs have not ended in time") from None
                except JobNotFound as error:
                    bar.erase()
                    self._state.warn(f"{error}: it was deleted")
                    del self.ids[error.job_id]
                    code = code or error.exit_code
        return code

    def _seen(self, job: Job) -> None:
        self.ended[job.id] = job
        del self.ids[job.id]

    def _draw(self, bar: StatusLine) -> None:
        if bar.visible:
            bar.draw(of_all(self.ids, len(self.ended), reported(self._state.queue.workers())))


def _tell(state: Globals, jobs: Sequence[Job]) -> None:
    """One sentence a job; over 100 jobs, one line for all of them."""
    if len(jobs) > 100:
        counts = {name: sum(job.state is name for job in jobs) for name in ENDED}
        state.note(", ".join(f"{count} {name}" for name, count in sorted(counts.items()) if count))
        return
    for job in jobs:
        why = reason(job) if job.state is State.DEAD else ""
        state.note(f"Job {job.id} {'is ' if job.state is State.DEAD else ''}{job.state}{f': {why}' if why else ''}")


def _own_code(job: Job) -> int:
    """The exit code of a job that ended; 128 + n for signal n, 1 for a handler that failed."""
    if job.exit_code is not None:
        return job.exit_code
    if job.state is State.COMPLETED:
        return 0
    last = job.history[-1] if job.history else None
    if job.state is State.DEAD and last is not None:
        if last.outcome == "signal" and last.error:
            return _signal_code(last.error.removeprefix("signal ").partition(" ")[0])
        if job.handler is not None and last.outcome == "failed":
            return 1
    return NO_CODE


def _signal_code(name: str) -> int:
    import signal

    if name.isdigit():
        return 128 + int(name)
    return 128 + signal.Signals[name] if name in signal.Signals.__members__ else NO_CODE


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
