"""`show`: everything about one job."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.cli.progress import in_full, progress_of, reported
from jobq.cli.selection import find_job, latest_job
from jobq.cli.streams import show_json
from jobq.cli.text import coloured, columns, in_words, local_time, masked, one_line, pairs, state_text
from jobq.job import WAITING, State
from jobq.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from jobq.job import Job, Run


@command("show", short_help="Show everything about a job.")
@click.argument("job_id", metavar="[ID]", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print the job's record.")
def show_command(state: Globals, job_id: str | None, as_json: bool) -> None:
    """Show everything about a job; without an id, about the one that changed last."""
    job = latest_job(state) if job_id is None else find_job(state, job_id)
    if as_json:
        show_json(job.full_record())
        return
    now = state.app.clock.now()
    rows = [("id", job.id), ("state", state_text(job, now)), *_work(job), *_times(job, now), *_place(state, job, now)]
    lines = pairs([*rows, *_outcome(job)])
    lines[1] = coloured(lines[1], job.state, sys.stdout)
    for line in (*lines, *_history(job)):
        click.echo(line)


def _work(job: Job) -> Iterator[tuple[str, str]]:
    """What it is and how it may run."""
    yield "command" if job.handler is None else "handler", job.what
    if job.payload:
        yield "payload", json.dumps(job.payload, ensure_ascii=False)
    yield "queue", job.queue + (f", priority {job.priority}" if job.priority else "")
    losses = f", lost {job.losses} time{'s' if job.losses > 1 else ''}" if job.losses else ""
    yield "attempts", f"{job.attempts}/{job.max_attempts} failed{losses}"
    if job.tags:
        yield "tags", " ".join(job.tags)
    if job.timeout is not None:
        yield "timeout", f"{format_duration(job.timeout)} an attempt"
    if job.retry_on:
        yield "retry on", ", ".join(map(str, job.retry_on))
    if job.no_retry_on:
        yield "no retry on", ", ".join(map(str, job.no_retry_on))
    if job.on_lost != "retry":
        yield "on loss", job.on_lost
    if job.cwd is not None:
        yield "directory", job.cwd
    if job.env:
        yield "environment", "\n".join(one_line(f"{name}={masked(name, value)}") for name, value in job.env.items())
    if job.meta:
        yield "meta", json.dumps(job.meta, ensure_ascii=False)


def _times(job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    yield "created", local_time(job.created_at)
    if job.state in WAITING:
        wait = job.run_at - now
        yield "due", f"{local_time(job.run_at)} ({f'in {in_words(wait)}' if wait > timedelta() else 'now'})"
    if job.started_at is not None:
        waited = timedelta(seconds=(job.started_at - job.created_at) // timedelta(seconds=1))
        told = f" (waited {in_words(waited)})" if job.run == 1 and waited > timedelta() else ""
        yield "started", f"{local_time(job.started_at)}{told}"
    if job.finished_at is not None:
        took = f" (took {_took(job.started_at, job.finished_at)})" if job.started_at is not None else ""
        yield "finished", f"{local_time(job.finished_at)}{took}"
    if job.cancel_requested_at is not None:
        yield "cancel asked", local_time(job.cancel_requested_at)
    yield "changed", local_time(job.updated_at)


def _place(state: Globals, job: Job, now: datetime) -> Iterator[tuple[str, str]]:
    """Where it runs, and how far it is, or was at its end."""
    if job.state is not State.PROCESSING:
        last = progress_of(job.history[-1].progress) if job.history else None
        if last is not None:
            yield "progress", in_full(last)
        return
    worker = next((worker for worker in state.queue.workers() if worker.id == job.worker), None)
    if worker is None:
        yield "worker", f"{job.worker}, which is gone; `jobq why {job.id}` tells what becomes of it"
        return
    since = "" if job.started_at is None else f", run {job.run} for {in_words(now - job.started_at)}"
    yield "worker", one_line(f"{worker.name} (pid {worker.pid} on {worker.host}){since}")
    progress = reported([worker]).get((job.id, job.run))
    if progress is not None:
        yield "progress", in_full(progress)


def _outcome(job: Job) -> Iterator[tuple[str, str]]:
    if job.result is not None:
        yield "result", json.dumps(job.result, ensure_ascii=False)
    if job.exit_code is not None:
        yield "exit code", str(job.exit_code)
    if job.last_error:
        yield "error", job.last_error.rstrip("\n")


def _history(job: Job) -> list[str]:
    """The runs as a table; the error as the last column, since it may be long."""
    if not job.history:
        return []
    rows = [["run", "outcome", "started", "took", "worker", "host", "error"]]
    rows += [_run_row(run) for run in job.history]
    dropped = job.history[0].run - 1
    title = "history" if dropped < 1 else f"history (the latest {len(job.history)} of {job.history[-1].run} runs)"
    return ["", title, *(f"  {line}" for line in columns(rows, sys.stdout))]


def _run_row(run: Run) -> list[str]:
    return [
        str(run.run),
        run.outcome,
        local_time(run.started),
        "-" if run.started is None else _took(run.started, run.finished),
        run.worker[:8] or "-",
        run.host or "-",
        "; ".join([*filter(None, [run.error]), *_unkept(run)]),
    ]


def _unkept(run: Run) -> list[str]:
    return [] if run.output_error is None else [f"not all output was kept: {run.output_error}"]


def _took(started: datetime | None, finished: datetime) -> str:
    """How long something took; a clock that was set back between does not make it negative."""
    return "-" if started is None else format_duration(max(finished - started, timedelta()))
