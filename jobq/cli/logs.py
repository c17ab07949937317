"""`logs`: what a job printed; byte for byte where it is piped, harmless on a terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self

import click

from jobq.cli.base import Globals, command
from jobq.cli.progress import line, reported
from jobq.cli.selection import find_job, latest_job
from jobq.cli.terminal import StatusLine
from jobq.cli.text import VisibleBytes, in_words, one_line
from jobq.clock import Wake
from jobq.errors import NotFound
from jobq.executor import Kind
from jobq.job import ENDED, State
from jobq.output import Reading
from jobq.processes import host

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from jobq.job import Job, Run

FOLLOW_SECONDS = 0.1
STATUS_SECONDS = 0.5


@command("logs", short_help="Show what a job printed.")
@click.argument("job_id", metavar="[ID]", required=False)
@click.option("--run", metavar="N", type=click.IntRange(min=1), help="Of this run; default: of the latest.")
@click.option("-f", "--follow", is_flag=True, help="Go on while the job runs, through its later attempts.")
@click.option("-n", "--lines", metavar="LINES", type=click.IntRange(min=0), help="Only so many lines from the end.")
@click.option("--raw", is_flag=True, help="The very bytes, on a terminal too: they may steer it.")
def logs_command(
    state: Globals, job_id: str | None, run: int | None, follow: bool, lines: int | None, raw: bool
) -> None:
    """Show what a job printed in its latest run; without an id, the job that changed last.

    Output goes to stdout unchanged. On a terminal, what would steer the terminal is shown as an escape instead.
    """
    job = latest_job(state) if job_id is None else find_job(state, job_id)
    if run is not None and run > job.run:
        raise NotFound(f"job {job.id} has no run {run}: it ran {job.run} times")
    with _Output(raw=raw, quiet=state.quiet) as out:
        if follow:
            _follow(state, job, run or max(job.run, 1), out, last=run, lines=lines)
            return
        if job.run == 0:
            state.note(f"job {job.id} has not run yet")
            return
        run = run or job.run
        out.write(_last_lines(_reading(state, job, run).read(), lines))
        if _tell_rest(state, job, run, out, lines):
            return
        if not out.written and lines != 0:
            state.note(_nothing(state, job, run))
        elif job.run > 1:
            state.note(f"this is run {run} of {job.run}; --run N shows another")


def follow_job(state: Globals, job_id: str) -> None:
    """Show what a job prints in all its attempts, as it prints it; returns when the job has ended.

    New output is shown within 0.2 s. What happens between attempts is told on stderr.
    """
    with _Output(raw=False, quiet=state.quiet) as out:
        _follow(state, state.queue.get(job_id), 1, out)


class _Output:
    """stdout for the output of jobs: raw bytes, or visible text on a terminal.

    Where both it and stderr are terminals, a line below the output tells how far the job has come. It is never there
    while output is written, and not below a line that the job has not ended yet.
    """

    def __init__(self, *, raw: bool, quiet: bool) -> None:
        self._visible = VisibleBytes() if sys.stdout.isatty() and not raw else None
        self._status = StatusLine(hidden=quiet or self._visible is None)
        self._line_open = False
        self.written = False  # of the run that is shown

    def __enter__(self) -> Self:
        self._status.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._status.__exit__(*error)
        if error[0] is None:
            self.end_line()

    @property
    def has_status(self) -> bool:
        """Whether `show_status` may show something now."""
        return self._status.visible and not self._line_open

    def show_status(self, text: str) -> None:
        """Show `text` below the output until more of it comes; "" for nothing."""
        if self.has_status:
            self._status.draw(text)

    def write(self, pieces: Iterable[bytes]) -> None:
        """Write and flush; a character that is cut between two pieces waits for its rest."""
        wrote = False
        for piece in pieces:
            wrote = wrote or bool(piece)
            self._status.erase()
            if self._visible is None:
                sys.stdout.buffer.write(piece)
            else:
                self._text(self._visible.feed(piece))
        if wrote:
            self.written = True
            sys.stdout.flush()
            sys.stdout.buffer.flush()

    def end_line(self) -> None:
        """On a terminal: what is said next begins on a line of its own."""
        self._status.erase()
        if self._visible is not None:
            self._text(self._visible.feed(b"", final=True))
            if self._line_open:
                self._text("\n")
            sys.stdout.flush()

    def _text(self, text: str) -> None:
        if text:
            sys.stdout.write(text)
            self._line_open = not text.endswith("\n")


def _follow(
    state: Globals, job: Job, run: int, out: _Output, *, last: int | None = None, lines: int | None = None
) -> None:
    """Show run `run` and those after it, until the job has ended, or until run `last` is over."""
    queue, clock, nothing = state.queue, state.app.clock, Wake()
    reading = _reading(state, job, run)
    told, status_due = 0, clock.monotonic()
    try:
        if job.run == 0 and job.state not in ENDED:
            state.note(f"job {job.id} is {job.state}; its output follows when it runs")
        out.write(_last_lines(reading.read(), lines))
        while True:
            # The record is read before the output: what it calls ended has written all that it will.
            job = queue.get(job.id)
            while run < job.run:
                out.write(reading.read())
                if run == last:
                    return
                _tell_run(state, job, run, out, told)
                told = run
                run += 1
                reading = _reading(state, job, run)
                out.written = False
            out.write(reading.read())
            over = job.state is not State.PROCESSING and job.run >= run
            if job.state in ENDED or (over and run == last):
                _tell_rest(state, job, run, out, lines)
                return
            if over and run > told:
                _tell_run(state, job, run, out, told)
                told = run
            if out.has_status and clock.monotonic() >= status_due:
                status_due = clock.monotonic() + STATUS_SECONDS
                progress = reported(queue.workers()).get((job.id, job.run))
                out.show_status("" if progress is None else line(progress))
            clock.wait(nothing, FOLLOW_SECONDS)
    except KeyboardInterrupt:
        out.end_line()
        if job.state not in ENDED:
            state.note("no longer following; the job goes on")
        raise click.exceptions.Exit(130) from None
    finally:
        nothing.close()


def _tell_run(state: Globals, job: Job, run: int, out: _Output, told: int) -> None:
    """Say how a run that is not the last one ended, and what comes next."""
    if run <= told:
        return
    ended = _ended(job, run)
    if ended is None:
        return
    _tell_rest(state, job, run, out)
    out.end_line()
    why = f": {one_line(ended.error)}" if ended.error else ""
    state.note(f"run {run} {ended.outcome.replace('-', ' ')}{why}{_next(job, state.app.clock.now())}")


def _tell_rest(state: Globals, job: Job, run: int, out: _Output, lines: int | None = None) -> bool:
    """Show what the store has of the output of a run that is not here, or say that not all of it could be kept.

    Whether there was anything to say.
    """
    ended = _ended(job, run)
    if ended is None:
        return False
    if ended.tail and not out.written and lines != 0:
        out.write(_last_lines(iter([ended.tail.encode()]), lines))
        out.end_line()
        whole = "the whole is not here any more" if ended.host == host() else f"{one_line(ended.host)} keeps all of it"
        state.note(f"this is the end of what run {run} printed; {whole}")
        return True
    if ended.output_error is None:
        return False
    out.end_line()
    state.note(f"not all output of run {run} could be kept: {one_line(ended.output_error)}")
    return True


def _ended(job: Job, run: int) -> Run | None:
    return next((item for item in job.history if item.run == run), None)


def _next(job: Job, now: datetime) -> str:
    if job.state is State.FAILED:
        return f"; retry {job.attempts + 1}/{job.max_attempts} in {in_words(job.run_at - now)}"
    return "; it will run again" if job.state is State.PENDING else ""


def _reading(state: Globals, job: Job, run: int) -> Reading:
    return Reading(state.app.home.path, job.id, run)


def _last_lines(pieces: Iterator[bytes], lines: int | None) -> Iterator[bytes]:
    """The pieces; or, where `lines` is given, only that many lines from the end of all of them."""
    if lines is None:
        yield from pieces
        return
    data = b"".join(pieces)
    start = len(data) - data.endswith(b"\n")
    for _ in range(lines):
        start = data.rfind(b"\n", 0, start)
        if start < 0:
            break
    yield data[start + 1 :] if lines else b""


def _nothing(state: Globals, job: Job, run: int) -> str:
    """Why there is nothing to show of a run."""
    if job.state is State.PROCESSING and run == job.run:
        worker = next((info for info in state.queue.workers() if info.id == job.worker), None)
        if worker is not None and worker.host != host():
            return f"run {run} of job {job.id} runs on {one_line(worker.host)}; its output is there until it ends"
    ended = _ended(job, run)
    if ended is not None and ended.outcome == Kind.CANNOT_START:
        return f"run {run} of job {job.id} could not be started: {one_line(ended.error or '')}"
    return f"run {run} of job {job.id} printed nothing, as far as it is kept here"
