"""`cancel`, `retry`, `delete`, `prune`, `pause`, `resume`, and the dead letter queue."""

from __future__ import annotations

import functools
import json
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from jobq.changing import BATCH
from jobq.cli.base import Globals, Group, command, confirm, first_failure, with_globals
from jobq.cli.selection import Selection, exact_job, find, select, selection
from jobq.cli.streams import show_json
from jobq.cli.text import columns, one_line
from jobq.errors import JobqError, StoreUnavailable, WaitTimeout, WrongState
from jobq.job import State
from jobq.store import Query
from jobq.times import format_time, parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jobq.job import Job

ONE_LINE_EACH = 100
RECOVER_SECONDS = 1.0
"""How long a cancel waits for a worker before it looks whether that worker has died."""

_PAST = {"cancel": "cancelled", "retry": "retried", "delete": "deleted", "purge": "purged"}
_DEAD = frozenset({State.DEAD})


_dry_run = click.option("--dry-run", is_flag=True, help="Only show which jobs it would be.")


def bulk(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options of commands that may change many jobs at once."""
    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print the jobs' records afterwards."),
        _dry_run,
        click.option("--yes", is_flag=True, help="Do not ask."),
    ):
        function = option(function)
    return function


@command("cancel", short_help="Cancel jobs; running ones are stopped.")
@bulk
@selection
def cancel_command(state: Globals, selection: Selection, **options: Any) -> int:
    """Cancel waiting jobs, and stop running ones with all their processes; returns when those are gone."""
    selection = _in_states(selection, State.PENDING, State.FAILED, State.PROCESSING)
    held_up: dict[str | None, str] = {}

    def recover() -> None:
        held_up.clear()
        held_up.update((held.worker.id, held.why) for held in state.queue.recover())

    def cancel(jobs: list[Job]) -> dict[str, Job | JobqError]:
        if any(job.state is State.PROCESSING for job in jobs):
            recover()
        return state.queue.cancel_many([job.id for job in jobs])

    def finish(job: Job) -> Job:
        while job.state is State.PROCESSING:
            if job.worker in held_up:
                raise StoreUnavailable(
                    f"job {job.id} is cancelled as soon as what its dead worker left has ended: {held_up[job.worker]}"
                )
            try:
                (job,) = state.queue.wait([job.id], timeout=RECOVER_SECONDS)
            except WaitTimeout:
                recover()
                job = state.queue.get(job.id)
        if job.state is not State.CANCELLED:
            raise WrongState(job.id, job.state, "cancel")
        return job

    return _change(state, selection, _Act("cancel", cancel, already=State.CANCELLED, finish=finish), **options)


@command("retry", short_help="Try failed, dead or cancelled jobs again, now.")
@bulk
@selection
def retry_command(state: Globals, selection: Selection, **options: Any) -> int:
    """Make jobs pending now: a failed one keeps its attempts, a dead or cancelled one starts from 0."""
    selection = _in_states(selection, State.FAILED, State.DEAD, State.CANCELLED)
    return _change(state, selection, _retry(state), **options)


@command("delete", short_help="Delete jobs and their output.")
@bulk
@selection
def delete_command(state: Globals, selection: Selection, **options: Any) -> int:
    """Delete jobs, whatever their state, with their output. A running one is refused: cancel it first."""
    selection = _in_states(selection, *(set(State) - {State.PROCESSING}))
    return _change(state, selection, _delete(state, "delete"), **options)


@command("prune", short_help="Delete jobs that ended long ago.")
@click.option("--older-than", metavar="D", default="7d", show_default=True, help="Ended longer ago than that.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(["completed", "cancelled"]),
    help="Only these; default: both.",
)
@_dry_run
def prune_command(state: Globals, older_than: str, states: tuple[str, ...], dry_run: bool) -> None:
    """Delete completed and cancelled jobs, and their output, that ended long ago. Dead ones stay: see `dlq purge`."""
    age = parse_duration("--older-than", older_than)
    chosen = frozenset(State(name) for name in states or ("completed", "cancelled"))
    if dry_run:
        _show(state, "prune", list(state.queue.find(Query(states=chosen, before=state.app.clock.now() - age))))
        return
    state.note(f"{_jobs(state.queue.prune(older_than=age, states=chosen))} pruned")


@command("pause", short_help="Let no more jobs of a queue start.")
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
@click.option("--reason", default="", metavar="TEXT", help="Shown by status and why.")
def pause_command(state: Globals, queues: tuple[str, ...], reason: str) -> int:
    """Let no more jobs of these queues start; running ones go on, and enqueueing too.

    A queue that is paused already keeps its reason, unless another one is given.
    """

    def pause(queue: str) -> None:
        counts = state.queue.counts()
        state.queue.pause(queue, reason=reason)
        before = counts.paused.get(queue)
        if before is not None and reason in ("", before):
            state.note(f"Queue {queue} is paused already" + (f" ({one_line(before)})" if before else ""))
        else:
            state.note(f"Queue {queue} paused" + ("" if queue in counts.queues else " (there are no jobs in it)"))

    return first_failure([lambda queue=queue: pause(queue) for queue in queues])  # type: ignore[misc]


@command("resume", short_help="Let jobs of a paused queue start again.")
@click.argument("queues", metavar="QUEUE...", nargs=-1, required=True)
def resume_command(state: Globals, queues: tuple[str, ...]) -> int:
    """Let jobs of these queues start again."""
    paused = state.queue.counts().paused

    def resume(queue: str) -> None:
        state.queue.resume(queue)
        state.note(f"Queue {queue} resumed" if queue in paused else f"Queue {queue} is not paused")

    return first_failure([lambda queue=queue: resume(queue) for queue in queues])  # type: ignore[misc]


@click.group("dlq", cls=Group, short_help="The dead letter queue: jobs that gave up.")
def dlq_command() -> None:
    """The dead letter queue holds the jobs that used up their attempts, failed for good, or took workers down."""


@dlq_command.command("list", short_help="List the dead jobs.")
@click.option("--json", "as_json", is_flag=True, help="Print their records.")
@with_globals
@selection
def dlq_list(state: Globals, selection: Selection, as_json: bool) -> int:
    """List the dead jobs with what they died of."""
    jobs, code = select(state, _in_states(selection, State.DEAD), whole_ids=False)
    jobs = [job for job in jobs if job.state is State.DEAD]
    if as_json:
        show_json([job.full_record() for job in jobs])
    elif not jobs:
        state.note("the dead letter queue is empty" if selection.nothing else "no such job in the dead letter queue")
    else:
        click.echo("\n".join(columns([_dead_row(job) for job in jobs], sys.stdout, flexible=2)))
    return code


@dlq_command.command("retry", short_help="Start dead jobs again, from 0 attempts.")
@click.option("--all", "everything", is_flag=True, help="Every dead job.")
@bulk
@with_globals
@selection
def dlq_retry(state: Globals, selection: Selection, everything: bool, **options: Any) -> int:
    """Make dead jobs pending again, with attempts 0."""
    selection = _dead_only(selection, everything)
    return _change(state, selection, replace(_retry(state), only_dead=True), **options)


@dlq_command.command("purge", short_help="Delete dead jobs and their output.")
@click.option("--all", "everything", is_flag=True, help="Every dead job.")
@bulk
@with_globals
@selection
def dlq_purge(state: Globals, selection: Selection, everything: bool, **options: Any) -> int:
    """Delete dead jobs and their output."""
    selection = _dead_only(selection, everything)
    return _change(state, selection, replace(_delete(state, "purge"), only_dead=True), **options)


@dataclass(frozen=True, slots=True)
class _Act:
    """What is done to selected jobs.

    Attributes:
        verb: what it is called.
        many: does it; by id the job after that, or why it could not be done.
        already: jobs in this state are so already.
        only_dead: others than dead ones are refused.
        finish: waits for what is not done at once, and answers with the job as it is then.
    """

    verb: str
    many: Callable[[list[Job]], dict[str, Job | JobqError]]
    already: State | None = None
    only_dead: bool = False
    finish: Callable[[Job], Job] = lambda job: job

    def on(self, jobs: Sequence[Job]) -> dict[str, Job | JobqError]:
        """Do it; the answers, by id. There is none for a job that is so already."""
        what = f"{self.verb} from the dead letter queue"
        answers: dict[str, Job | JobqError] = {
            job.id: WrongState(job.id, job.state, what, (State.DEAD,))
            for job in jobs
            if self.only_dead and job.state is not State.DEAD
        }
        return answers | self.many([job for job in jobs if job.id not in answers and job.state is not self.already])


def _show(state: Globals, verb: str, jobs: Sequence[Job]) -> None:
    """Say which jobs it would be."""
    state.note(f"would {verb} {_jobs(len(jobs))}")
    click.echo("".join(f"{job.id}\n" for job in jobs), nl=False)


def _change(state: Globals, chosen: Selection, act: _Act, *, yes: bool, dry_run: bool, as_json: bool) -> int:
    """Do something to the selected jobs, a batch at a time; the exit code of the first failure."""
    if chosen.nothing:
        raise click.UsageError("say which jobs: ids, or conditions as --state")
    if dry_run:
        jobs, code = select(state, chosen, whole_ids=True)
        _show(state, act.verb, jobs)
        return code
    if chosen.ids:
        looked_up = [_looked_up(state, job_id) for job_id in chosen.ids]
    else:
        looked_up = list(find(state, chosen))
        if not looked_up:
            state.note("no jobs are selected")
            return 0
        confirm(f"{act.verb.capitalize()} {_jobs(len(looked_up))}?", yes=yes)
    records: list[Job] = []
    changed: list[Job] = []

    def settle(job: Job | JobqError, answers: Mapping[str, Job | JobqError]) -> None:
        if isinstance(job, JobqError):
            raise job
        answer = answers.get(job.id)
        if isinstance(answer, WrongState) and not chosen.ids:
            return  # it was selected by what it was a moment ago
        if isinstance(answer, JobqError):
            raise answer
        if answer is None:
            state.note(f"Job {job.id} is {job.state} already")
        else:
            changed.append(answer)
        records.append(answer or job)

    code = 0
    for start in range(0, len(looked_up), BATCH):
        batch = looked_up[start : start + BATCH]
        answers = act.on([job for job in batch if not isinstance(job, JobqError)])
        code = code or first_failure(functools.partial(settle, job, answers) for job in batch)
    done: dict[str, Job] = {}

    def complete(job: Job) -> None:
        done[job.id] = act.finish(job)

    later = first_failure(functools.partial(complete, job) for job in changed)
    if as_json:
        show_json([done.get(job.id, job).full_record() for job in records])
    if len(done) > ONE_LINE_EACH:
        state.note(f"{_jobs(len(done))} {_PAST[act.verb]}")
    else:
        for job in done.values():
            told = f" ({job.state})" if act.verb == "retry" else ""
            state.note(f"Job {job.id} {_PAST[act.verb]}{told}")
    return code or later


def _looked_up(state: Globals, job_id: str) -> Job | JobqError:
    try:
        return exact_job(state, job_id)
    except JobqError as error:
        return error


def _in_states(chosen: Selection, *states: State) -> Selection:
    """The selection, where it is by conditions that name no state, limited to those that the command is about."""
    if chosen.ids or chosen.nothing or chosen.states is not None:
        return chosen
    return replace(chosen, states=frozenset(states))


def _dead_only(chosen: Selection, everything: bool) -> Selection:
    if everything and chosen.ids:
        raise click.UsageError("give ids or --all, not both")
    if everything or not (chosen.ids or chosen.nothing):
        return replace(chosen, states=_DEAD)
    return chosen


def _retry(state: Globals) -> _Act:
    return _Act("retry", lambda jobs: state.queue.retry_many([job.id for job in jobs]), already=State.PENDING)


def _delete(state: Globals, verb: str) -> _Act:
    return _Act(verb, lambda jobs: state.queue.delete_many([job.id for job in jobs]))


def _dead_row(job: Job) -> list[str]:
    reason = (job.last_error or "").partition("\n")[0]
    return [
        job.id,
        f"attempts={job.attempts}/{job.max_attempts}",
        f"error={json.dumps(reason, ensure_ascii=False)}",
        f"updated={format_time(job.updated_at)}",
    ]


def _jobs(count: int) -> str:
    return f"{count} job" if count == 1 else f"{count} jobs"
