"""Jobs that come in as they were exported, with their state, attempts and history; everything is checked at this edge."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq import lifecycle
from jobq.errors import HIDDEN, DuplicateJob, InvalidInput
from jobq.executor import Kind, Outcome
from jobq.job import HISTORY_LIMIT, Job, Run, State
from jobq.spec import checked_field, whole_number
from jobq.spool import batches
from jobq.store import Claim
from jobq.strictjson import check_json, check_text
from jobq.times import parse_instant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime

    from jobq.app import App

BATCH = 1000
_MOST = 2**31 - 1
_COUNTED = 2**30
"""The most that a job may have counted when it comes in: what it counts from there on stays below `_MOST`, the most that
stores are asked to keep."""

_RESERVED = frozenset({"seq", "crc"})
"""What stores write beside a job's fields."""

_REQUIRED = ("id", "state", "run", "rev", "run_at", "created_at", "updated_at")
_SPECIFIED = (
    "id",
    "payload",
    "queue",
    "priority",
    "max_attempts",
    "timeout",
    "env",
    "tags",
    "meta",
    "on_lost",
    "retry_on",
    "no_retry_on",
)


def job_of(record: object, *, now: datetime) -> Job:
    """The job of an exported record. One that was processing is pending: nobody here runs it, and that counts nothing.

    Raises:
        InvalidInput: a rule is broken; it names the field.
    """
    if not isinstance(record, dict):
        raise InvalidInput("", record, "a job must be a JSON object")
    values = {name: value for name, value in record.items() if name != "max_retries"}
    if record.get("max_retries", values.get("max_attempts")) != values.get("max_attempts"):
        raise InvalidInput("max_retries", record["max_retries"], "is another number than max_attempts; they are one")
    for name in _REQUIRED:
        if name not in values:
            raise InvalidInput(name, HIDDEN, "is missing: this is no exported job (`jobq enqueue` takes new ones)")
    if (values.get("command") is None) == (values.get("handler") is None):
        raise InvalidInput("", values["id"], "a job has a command or a handler, not both or neither")
    if values.get("handler") is None and values.get("payload") not in (None, {}):
        raise InvalidInput("payload", HIDDEN, "is for handlers; a command has arguments and env")
    for name in _RESERVED & values.keys():
        raise InvalidInput(name, values[name], "is a name that stores use themselves")
    checked = {name: _checked(name, value) for name, value in values.items()}
    unknown = {name: checked.pop(name) for name in values if name not in _CHECKS}
    job = Job(**checked, extra=unknown)
    if job.state is not State.PROCESSING:
        if job.worker is not None:
            raise InvalidInput("worker", job.worker, f"is of a job that is {job.state}, which no worker has")
        return job
    if not job.run:
        raise InvalidInput("run", job.run, "must be at least 1 in a job that is processing")
    claim = Claim(job, job.worker or "", "")
    outcome = Outcome(kind=Kind.RELEASED, reason="it was exported while it ran", finished=now)
    return job.changed(lifecycle.settled(job, lifecycle.released(claim, outcome, now=now)), now=now)


def store_exported(app: App, jobs: Sequence[Job], *, progress: Callable[[int], None] = lambda done: None) -> int:
    """Store jobs as they are, in their order; how many were not there yet.

    What is there with the same version is passed over. Ids are looked for before anything is stored: then only a race
    with another process for the same ids can leave a part of them stored.

    Args:
        progress: called with the number of jobs seen to so far.

    Raises:
        DuplicateJob: ids that are there with another version.
        NotSupported: the store takes over no jobs.
    """
    app.create_home()
    stored = app.store.get_many(job.id for job in jobs)
    if taken := [job.id for job in jobs if job.id in stored and stored[job.id].version != job.version]:
        raise DuplicateJob(taken, "another version")
    fresh = [job for job in jobs if job.id not in stored]
    done = 0
    for batch in batches(fresh, BATCH):
        app.store.restore(batch, now=app.clock.now())
        done += len(batch)
        progress(len(jobs) - len(fresh) + done)
    return len(fresh)


def _checked(name: str, value: object) -> Any:
    check = _CHECKS.get(name)
    if check is None:
        check_json(name, value)
        return value
    return check(name, value)


def _or_none(check: Callable[[str, Any], Any]) -> Callable[[str, Any], Any]:
    return lambda name, value: None if value is None else check(name, value)


def _any_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(name, value, "must be text")
    check_text(name, value)
    return value


def _any_json(name: str, value: object) -> Any:
    check_json(name, value)
    return value


def _state(name: str, value: object) -> State:
    if not isinstance(value, str) or value not in set(State):
        raise InvalidInput(name, value, f"must be {', '.join(State)}")
    return State(value)


def _object(name: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(name, value, "must be an object")
    check_json(name, value)
    return value


def _history(name: str, value: object) -> tuple[Run, ...]:
    if not isinstance(value, list) or len(value) > HISTORY_LIMIT:
        raise InvalidInput(name, value, f"must be a list of at most {HISTORY_LIMIT} runs")
    return tuple(_run(f"{name}[{number}]", each) for number, each in enumerate(value))


def _run(name: str, value: object) -> Run:
    record = _object(name, value)
    for field in ("run", "finished", "outcome"):
        if field not in record:
            raise InvalidInput(f"{name}.{field}", HIDDEN, "is missing")
    for field, each in record.items():
        if field in _RUN_CHECKS:
            _RUN_CHECKS[field](f"{name}.{field}", each)
    return Run.from_record(record)


_RUN_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "run": whole_number(1, _MOST),
    "worker": _any_text,
    "host": _any_text,
    "started": _or_none(parse_instant),
    "finished": parse_instant,
    "outcome": _any_text,
    "error": _or_none(_any_text),
    "progress": _or_none(_object),
    "output_error": _or_none(_any_text),
    "tail": _or_none(_any_text),
}
_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(_SPECIFIED, checked_field),
    **dict.fromkeys(("command", "handler", "cwd"), _or_none(checked_field)),
    **dict.fromkeys(("run_at", "created_at", "updated_at"), parse_instant),
    **dict.fromkeys(("started_at", "finished_at", "cancel_requested_at"), _or_none(parse_instant)),
    **dict.fromkeys(("attempts", "losses", "run"), whole_number(0, _COUNTED)),
    **dict.fromkeys(("worker", "last_error"), _or_none(_any_text)),
    "state": _state,
    "rev": whole_number(1, _COUNTED),
    "result": _any_json,
    "exit_code": _or_none(whole_number(-_MOST, _MOST)),
    "history": _history,
}
