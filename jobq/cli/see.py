"""`list` and `wait`: many jobs at once."""

from __future__ import annotations

import sys
from datetime import timedelta
from itertools import islice
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command, show_json, show_json_lines
from jobq.cli.selection import Selection, find, select, selection
from jobq.cli.text import columns, local_time, reason, state_text
from jobq.errors import JobNotFound, JobqError
from jobq.job import ENDED, State
from jobq.times import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobq.job import Job

NO_CODE = 125
"""What `wait --exit-code` exits with where the job has no exit code of its own."""


@command("list", short_help="List jobs.")
@selection
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), default=1000, show_default=True, help="At most so many."
)
@click.option("--json", "as_json", is_flag=True, help="Print the jobs' records as one JSON list.")
@click.option("--jsonl", "as_lines", is_flag=True, help="Print the jobs' records, one JSON object a line.")
@click.option("--ids", "only_ids", is_flag=True, help="Print nothing but ids, one a line.")
def list_command(
    state: Globals, selection: Selection, limit: int, as_json: bool, as_lines: bool, only_ids: bool
) -> int:
    """List jobs: running ones, waiting ones in the order they will run, dead ones, then finished ones, latest first.

    \b
    jobq list                         all of them
    jobq list -s failed,dead -q mail  by state and queue
    jobq list --since 1h --match png  what changed in the last hour and has that text in it
    """
    if as_json + as_lines + only_ids > 1:
        raise click.UsageError("give one of --json, --jsonl and --ids")
    code = 0
    if selection.ids:
        jobs, code = select(state, selection, whole_ids=False)
        rest = iter(jobs)
    else:
        rest = find(state, selection, limit=limit)
    shown = list(islice(rest, limit))
    if as_json:
        show_json([job.full_record() for job in shown])
    elif as_lines:
        show_json_lines(job.full_record() for job in shown)
    elif only_ids:
        for job in shown:
            click.echo(job.id)
    else:
        _show_table(state, shown)
    if not shown and not code:
        state.note("no jobs")
    elif len(shown) == limit and not state.quiet and (total := _total(state, selection, limit, rest)) > limit:
        state.note(f"these are {limit} of {total} jobs; --limit shows more")
    return code


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
    ended: dict[str, Job] = {job.id: job for job in jobs if job.state in ENDED}
    waiting = [job.id for job in jobs if job.id not in ended]
    hidden = state.quiet or len(jobs) < 2 or not sys.stderr.isatty()
    try:
        with click.progressbar(length=len(jobs), label="waiting", file=sys.stderr, hidden=hidden) as bar:
            bar.update(len(ended))

            def seen(job: Job) -> None:
                ended[job.id] = job
                bar.update(1)

            code = _wait_for_all(state, waiting, limit, seen, code)
    except KeyboardInterrupt:
        state.note(f"\nno longer waiting; {_count(len(jobs) - len(ended), 'job')} will go on")
        return 130
    finally:
        _tell(state, [ended[job.id] for job in jobs if job.id in ended])
    if exit_code:
        return NO_CODE if code else _own_code(ended[jobs[0].id])
    return code or (0 if all(job.state is State.COMPLETED for job in ended.values()) else 7)


def _wait_for_all(
    state: Globals, ids: list[str], limit: timedelta | None, seen: Callable[[Job], None], code: int
) -> int:
    """Wait for all of them; one that is deleted meanwhile is told and no longer waited for."""
    clock = state.app.clock
    started = clock.monotonic()
    gone: set[str] = set()
    told: set[str] = set()

    def once(job: Job) -> None:
        if job.id not in told:
            told.add(job.id)
            seen(job)

    while left := [job_id for job_id in ids if job_id not in gone and job_id not in told]:
        rest = None if limit is None else max(limit - timedelta(seconds=clock.monotonic() - started), timedelta())
        try:
            state.queue.wait(left, timeout=rest, seen=once)
        except JobNotFound as error:
            state.warn(f"{error}: it was deleted")
            gone.add(error.job_id)
            code = code or error.exit_code
    return code


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
            return _signal_code(last.error.removeprefix("signal "))
        if job.handler is not None and last.outcome == "failed":
            return 1
    return NO_CODE


def _signal_code(name: str) -> int:
    import signal

    if name.isdigit():
        return 128 + int(name)
    return 128 + signal.Signals[name] if name in signal.Signals.__members__ else NO_CODE


def _show_table(state: Globals, jobs: Sequence[Job]) -> None:
    now = state.app.clock.now()
    rows = [
        (job.id, job.what, state_text(job, now), f"{job.attempts}/{job.max_attempts}", local_time(job.created_at))
        for job in jobs
    ]
    for line in columns(rows, sys.stdout, flexible=1, states=(2, [job.state for job in jobs])):
        click.echo(line)


def _total(state: Globals, chosen: Selection, shown: int, rest: Iterator[Job]) -> int:
    """How many jobs the selection has, of which `shown` were taken and `rest` are left."""
    if not chosen.countable:
        return shown + sum(1 for _ in rest)
    counts = state.queue.counts().queues
    return sum(
        count
        for queue, states in counts.items()
        if not chosen.queues or queue in chosen.queues
        for name, count in states.items()
        if chosen.states is None or name in chosen.states
    )


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
