"""`why`: what a job is waiting for, in one sentence."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.cli.progress import in_full, reported
from jobq.cli.selection import find_job, latest_job
from jobq.cli.text import in_words, local_time, one_line, reason
from jobq.job import WAITING, State
from jobq.store import Query, runs_alone
from jobq.times import format_duration

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobq.job import Job
    from jobq.members import WorkerInfo

MOST_NAMED = 5


@command("why", short_help="Say what a job is waiting for.")
@click.argument("job_id", metavar="[ID]", required=False)
def why_command(state: Globals, job_id: str | None) -> None:
    """Say in one sentence why a job is where it is; without an id, of the job that changed last."""
    job = latest_job(state) if job_id is None else find_job(state, job_id)
    click.echo(explain(state, job))


def explain(state: Globals, job: Job) -> str:
    """One sentence: what the job waits for, or how it ended."""
    name = f"Job {job.id}"
    now = state.app.clock.now()
    if job.state is State.COMPLETED:
        took = f", after {_took(job)}" if job.started_at is not None else ""
        return f"{name} completed at {local_time(job.finished_at)}{took}."
    if job.state is State.CANCELLED:
        return f"{name} was cancelled at {local_time(job.finished_at)}; `jobq retry {job.id}` runs it after all."
    if job.state is State.DEAD:
        return (
            f"{name} has been dead since {local_time(job.finished_at or job.updated_at)}, "
            f"with {job.attempts} of {job.max_attempts} attempts failed: {reason(job) or 'no reason is known'}"
            f"{_no_more(job)}; `jobq retry {job.id}` gives it new ones."
        )
    if job.state is State.PROCESSING:
        return f"{name} {_processing(state, job, now)}."
    return f"{name} {_waiting(state, job, now)}."


def _processing(state: Globals, job: Job, now: datetime) -> str:
    workers = state.queue.workers()
    worker = next((worker for worker in workers if worker.id == job.worker), None)
    if worker is not None:
        ran = in_words(now - (job.started_at or now))
        asked = ", and was asked to stop" if job.cancel_requested_at is not None else ""
        progress = reported([worker]).get((job.id, job.run))
        come = "" if progress is None else f" and says that it is at {in_full(progress)}"
        return f"has been running for {ran} in {_named(worker)}{come}{asked}"
    from jobq import presence

    if presence.left_running(state.app.home.path / "workers", job.worker or ""):
        why = "is held up: its worker is gone, but something that it started still runs, and both must not run at once"
        return why if workers else f"{why}; the next worker that starts ends it (`jobq worker start`)"
    if workers:
        return "is about to be given back: its worker is gone, and another one is looking after that"
    return "was left by a worker that is gone; the next worker that starts gives it back (`jobq worker start`)"


def _waiting(state: Globals, job: Job, now: datetime) -> str:
    counts = state.queue.counts()
    if job.queue in counts.paused:
        why = counts.paused[job.queue]
        return (
            f"waits because its queue {job.queue} is paused{f' ({one_line(why)})' if why else ''}; "
            f"`jobq resume {job.queue}` lets it go on"
        )
    if job.run_at > now:
        when = f"{local_time(job.run_at)} (in {in_words(job.run_at - now)})"
        if job.state is State.PENDING:
            return f"is not due before {when}"
        return f"waits for retry {job.attempts + 1}/{job.max_attempts} at {when}: the last attempt ended with {reason(job)}"
    workers = state.queue.workers()
    if not workers:
        return "is due, but no worker is running; `jobq worker start` starts one"
    serving = [worker for worker in workers if worker.queues is None or job.queue in worker.queues]
    if not serving:
        return f"is due, but no worker serves the queue {job.queue}; `jobq worker start -q {job.queue}` starts one"
    able = [worker for worker in serving if job.handler is None or job.handler in worker.handlers]
    if not able:
        return (
            f"needs a worker that has the handler {one_line(job.handler or '')} installed, and none of those that serve "
            f"the queue {job.queue} has it: {_listed(serving)}"
        )
    ready = [worker for worker in able if worker.state == "running"]
    if not ready:
        return f"waits: {_named(able[0])} takes no jobs now ({one_line(able[0].state)})"
    if runs_alone(job):
        return f"waits for a worker that is idle: it lost its worker {job.losses} times, so it runs alone"
    return _in_line(state, job, ready, set(counts.paused), now)


def _in_line(state: Globals, job: Job, workers: Sequence[WorkerInfo], paused: set[str], now: datetime) -> str:
    """How many due jobs the workers will take before this one."""
    ahead = 0
    for other in state.queue.find(Query(states=WAITING)):
        if other.id == job.id:
            break
        ahead += other.run_at <= now and other.queue not in paused and any(_takes(worker, other) for worker in workers)
    busy = all(len(worker.running) >= worker.count for worker in workers)
    if not busy and not ahead:
        return f"is due, and {_named(workers[0])} is about to take it"
    who, are, have = _named(workers[0]), "is", "has"
    if len(workers) > 1:
        who, are, have = f"all {len(workers)} workers that may take it", "are", "have"
    since = max((item.started for worker in workers for item in worker.running), default=now) if busy else now
    at_work = f"{have} been busy for {in_words(now - since)}" if since < now else f"{are} busy"
    line = "it is the next one" if not ahead else f"{ahead} {'jobs are' if ahead > 1 else 'job is'} ahead of it"
    return f"waits for its turn: {who} {at_work}, and {line}"


def _takes(worker: WorkerInfo, job: Job) -> bool:
    return (worker.queues is None or job.queue in worker.queues) and (
        job.handler is None or job.handler in worker.handlers
    )


def _listed(workers: Sequence[WorkerInfo]) -> str:
    more = f" and {len(workers) - MOST_NAMED} more" if len(workers) > MOST_NAMED else ""
    return ", ".join(map(_named, workers[:MOST_NAMED])) + more


def _named(worker: WorkerInfo) -> str:
    return f"worker {one_line(worker.name)} (pid {worker.pid} on {one_line(worker.host)})"


def _no_more(job: Job) -> str:
    """Why there was no further attempt, where some were left."""
    last = job.history[-1].outcome if job.history else ""
    if job.attempts >= job.max_attempts or last == "lost":
        return ""
    if last == "cannot-start":
        return " (what cannot be started is not tried again)"
    if job.retry_on and job.no_retry_on:
        return " (its retry_on and no_retry_on allow no retry of that)"
    if job.retry_on or job.no_retry_on:
        return f" (its {'retry_on' if job.retry_on else 'no_retry_on'} allows no retry of that)"
    return " (it was not to be tried again)"


def _took(job: Job) -> str:
    if job.started_at is None or job.finished_at is None:
        return "-"
    return format_duration(max(job.finished_at - job.started_at, timedelta()))
