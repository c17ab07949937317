"""How a job changes: every transition, computed from (job, what happened, now) and nothing else.

Each function answers with a `Change`, or None where the job is already so. No plugin decides a transition; a backoff
only says how long to wait, or to give up. docs/reference/jobs.md has the table.
"""

from __future__ import annotations

from dataclasses import replace

from jobq.errors import WrongState
from jobq.executor import Kind, Outcome
from jobq.job import ERROR_LIMIT, FINISHED, WAITING, Change, Job, Run, State
from jobq.times import ceil_ms

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta
    from typing import Any

    from jobq.store import Claim


def claimed(job: Job, worker: str, *, now: datetime) -> Change:
    """A worker takes a waiting job: a new run begins."""
    return Change({"state": State.PROCESSING, "run": job.run + 1, "worker": worker, "started_at": now})


def after(
    claim: Claim,
    outcome: Outcome,
    *,
    now: datetime,
    delay: Callable[[int, Outcome], timedelta | None],
    keep_tail: bool = False,
) -> Change:
    """An attempt ended with `outcome`. `delay(attempts, outcome)` is the backoff; None from it gives up.

    With `keep_tail` the end of its output goes into the history, for those who cannot read the whole.
    """
    job = claim.job
    finished = outcome.finished or now
    if outcome.kind is Kind.RELEASED:
        return released(claim, outcome, now=now, keep_tail=keep_tail)
    fields: dict[str, Any] = {}
    if job.losses:
        fields["losses"] = 0
    if job.exit_code != outcome.exit_code:
        fields["exit_code"] = outcome.exit_code
    if job.last_error != (error := _error(outcome)):
        fields["last_error"] = error
    fields |= {"worker": None, "finished_at": finished}
    if outcome.kind is Kind.SUCCESS:
        fields["state"] = State.COMPLETED
        fields["cancel_requested_at"] = None  # which the claim may not know of
        if outcome.result is not None:
            fields["result"] = outcome.result
    else:
        attempts = job.attempts + 1
        fields["attempts"] = attempts
        wait = None
        if attempts < job.max_attempts and _retryable(job, outcome):
            wait = delay(attempts, outcome)
        if wait is None:
            fields["state"] = State.DEAD
        else:
            fields |= {"state": State.FAILED, "run_at": ceil_ms(now + wait), "finished_at": None}
    if outcome.started is not None:
        fields["started_at"] = outcome.started
    return Change(fields, _ended(claim, outcome, finished, keep_tail=keep_tail))


def released(claim: Claim, outcome: Outcome, *, now: datetime, keep_tail: bool = False) -> Change:
    """A run is handed back unfinished (a graceful stop, a snooze): pending again, nothing counted."""
    fields = _back(claim.job, now=now)
    if outcome.delay is not None:
        fields["run_at"] = ceil_ms(now + outcome.delay)
    return Change(fields, _ended(claim, outcome, outcome.finished or now, keep_tail=keep_tail))


def taken_back(claim: Claim, *, now: datetime) -> Change:
    """A run was claimed ahead and has not begun: as if it had never been claimed, but for its number."""
    return Change(_back(claim.job, now=now))


def lost(claim: Claim, *, now: datetime, counted: bool, max_losses: int) -> Change:
    """A run's worker is gone, and nothing of the run lives any more.

    `counted` is False where it says nothing about the job: the machine went down, or the worker was draining.
    """
    job = claim.job
    losses = job.losses + counted
    fields = _back(job, now=now) | {"losses": losses}
    reason = "the worker was gone"
    if job.on_lost == "dead":
        reason = "its worker died while it ran, and on_lost is dead"
    elif counted and losses >= max_losses:
        reason = f"its worker died while it ran, {losses} times in a row"
    else:
        return Change(fields, _lost(claim, reason, now))
    fields |= {"state": State.DEAD, "last_error": reason, "exit_code": None, "finished_at": now}
    return Change(fields, _lost(claim, reason, now))


def lost_unstarted(claim: Claim, *, now: datetime) -> Change:
    """A run's worker is gone, and the run had not begun: as if it had never been claimed."""
    return Change(_back(claim.job, now=now), _lost(claim, "the worker was gone before it began", now))


def settled(stored: Job, change: Change) -> Change:
    """What becomes of a run's end where a cancel was asked for meanwhile: a success stands, all else is cancelled.

    `stored` is the job as it is stored, which may know of a request that the run's worker does not.
    """
    if stored.cancel_requested_at is None or change.fields["state"] is State.COMPLETED:
        return change
    finished = change.run.finished if change.run is not None else stored.cancel_requested_at
    fields = {"state": State.CANCELLED, "worker": None, "cancel_requested_at": None, "finished_at": finished}
    run = change.run
    return Change(fields, None if run is None else replace(run, outcome="cancelled"))


def cancel(job: Job, *, now: datetime) -> Change | None:
    """A person does not want the job any more. A running one is asked to stop; the others are cancelled at once.

    Raises:
        WrongState: it is completed or dead.
    """
    if job.state in WAITING:
        return Change({"state": State.CANCELLED, "finished_at": now})
    if job.state is State.PROCESSING:
        return None if job.cancel_requested_at else ask(now)
    if job.state is State.CANCELLED:
        return None
    raise WrongState(job.id, job.state, "cancel", ("waiting", "running"))


def ask(now: datetime) -> Change:
    """A running job is asked to stop."""
    return Change({"cancel_requested_at": now})


def retry(job: Job, *, now: datetime) -> Change | None:
    """A person wants it tried again: at once if a retry is due anyway, from 0 attempts if it had given up.

    Raises:
        WrongState: it is processing or completed.
    """
    if job.state is State.PENDING:
        return None
    if job.state is State.FAILED:
        return Change({"state": State.PENDING, "run_at": now})
    if job.state in (State.DEAD, State.CANCELLED):
        return Change({"state": State.PENDING, "run_at": now, "attempts": 0, "losses": 0, "finished_at": None})
    raise WrongState(job.id, job.state, "retry", ("failed", "dead", "cancelled"))


def check_deletable(job: Job) -> None:
    """Everything may be deleted but a running job.

    Raises:
        WrongState: it is processing.
    """
    if job.state is State.PROCESSING:
        raise WrongState(job.id, job.state, "delete", ("waiting", "ended"))


def kept_until(job: Job, keep: timedelta) -> datetime | None:
    """When a finished job may be pruned; None for one that is not finished."""
    return job.updated_at + keep if job.state in FINISHED else None


def _back(job: Job, *, now: datetime) -> dict[str, Any]:
    # It was due when it was claimed, and stays so when the clock has been set back since
    return {"state": State.PENDING, "worker": None, "started_at": None, "run_at": min(job.run_at, now)}


def _ended(claim: Claim, outcome: Outcome, finished: datetime, *, keep_tail: bool) -> Run:
    return Run(
        run=claim.run,
        worker=claim.worker,
        host=claim.host,
        started=outcome.started or claim.job.started_at,
        finished=finished,
        outcome=outcome.kind.value,
        error=outcome.reason,
        progress=None if outcome.progress is None else outcome.progress.record(),
        output_error=outcome.output_error,
        tail=(outcome.tail or None) if keep_tail else None,
    )


def _lost(claim: Claim, reason: str, now: datetime) -> Run:
    return Run(
        run=claim.run,
        worker=claim.worker,
        host=claim.host,
        started=claim.job.started_at,
        finished=now,
        outcome="lost",
        error=reason,
    )


def _error(outcome: Outcome) -> str | None:
    if outcome.kind is Kind.SUCCESS:
        return None
    reason = outcome.reason or outcome.kind.value
    tail = outcome.tail.rstrip("\n")[-ERROR_LIMIT:]
    return f"{reason}\n{tail}" if tail else reason


def _retryable(job: Job, outcome: Outcome) -> bool:
    if outcome.permanent or outcome.kind is Kind.CANNOT_START or _named(job.no_retry_on, outcome):
        return False
    return not job.retry_on or _named(job.retry_on, outcome)


def _named(conditions: tuple[str | int, ...], outcome: Outcome) -> bool:
    """Whether one of a job's retry conditions names how the attempt ended."""
    for condition in conditions:
        if isinstance(condition, int):
            matched = outcome.exit_code == condition
        elif condition in ("timeout", "signal"):
            matched = outcome.kind.value == condition
        elif condition[0].isdigit():
            low, high = condition.split("-")
            matched = outcome.exit_code is not None and int(low) <= outcome.exit_code <= int(high)
        else:
            matched = outcome.exception == condition
        if matched:
            return True
    return False
