"""The job record: what jobq knows of one unit of work, and its form in JSON.

A `Job` is never changed in place: a `Change` says which few fields become what, and `Job.changed` answers with the
job after it. Fields at their default are not written; fields that this version does not know are kept and written
back. The defaults are part of the format and frozen.
"""

from __future__ import annotations

import os

from jobq.light import StrEnum, datetime, timedelta
from jobq.records import defaults_of, field, made_defaults_of, record
from jobq.times import format_time, parse_time, seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

HISTORY_LIMIT = 20
ERROR_LIMIT = 2048
_BASE32 = b"abcdefghijklmnopqrstuvwxyz234567" * 8
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00Z")


class State(StrEnum):
    """Where a job is in its life; docs/reference/jobs.md has the table of transitions."""

    PENDING = "pending"
    """It waits for a worker, from `run_at` on."""
    PROCESSING = "processing"
    """A worker has it."""
    COMPLETED = "completed"
    """An attempt succeeded."""
    FAILED = "failed"
    """The latest attempt failed; the next one is due at `run_at`."""
    DEAD = "dead"
    """No further attempt is made until a person retries it."""
    CANCELLED = "cancelled"
    """A person did not want it any more."""


WAITING = frozenset({State.PENDING, State.FAILED})
FINISHED = frozenset({State.COMPLETED, State.CANCELLED})
ENDED = FINISHED | {State.DEAD}
_STATES = {state.value: state for state in State}


@record(frozen=True, slots=True, kw_only=True)
class Run:
    """One execution of a job, as its history keeps it.

    Attributes:
        run: its number, from 1 for the life of the job.
        worker: the id of the worker that had it.
        host: the name of that worker's host.
        started, finished: when (aware UTC).
        outcome: `completed failed timeout signal cannot-start lost released cancelled`.
        error: the reason, one line, or None.
        progress: what it last reported, as `jobq.progress.Progress.record` has it, or None.
        output_error: why not all of its output was kept, or None.
        tail: the end of its output, at most 2 KiB of text, where its store spans machines; else None.
        extra: fields that a newer jobq wrote.
    """

    run: int
    worker: str
    host: str
    started: datetime | None
    finished: datetime
    outcome: str
    error: str | None = None
    progress: Mapping[str, Any] | None = None
    output_error: str | None = None
    tail: str | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The JSON object of this run; `progress`, `output_error` and `tail` are left out where there was none."""
        record = {
            "run": self.run,
            "worker": self.worker,
            "host": self.host,
            "started": None if self.started is None else format_time(self.started),
            "finished": format_time(self.finished),
            "outcome": self.outcome,
            "error": self.error,
        }
        if self.progress is not None:
            record["progress"] = dict(self.progress)
        if self.output_error is not None:
            record["output_error"] = self.output_error
        if self.tail is not None:
            record["tail"] = self.tail
        if self.extra:
            record.update(self.extra)
        return record

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Run:
        """The run of a JSON object."""
        started = record.get("started")
        return Run(
            run=record["run"],
            worker=record.get("worker", ""),
            host=record.get("host", ""),
            started=None if started is None else parse_time(started),
            finished=parse_time(record["finished"]),
            outcome=record["outcome"],
            error=record.get("error"),
            progress=record.get("progress"),
            output_error=record.get("output_error"),
            tail=record.get("tail"),
            extra={name: value for name, value in record.items() if name not in _RUN_FIELDS},
        )


_RUN_FIELDS = frozenset(Run.__slots__) - {"extra"}


@record(frozen=True, kw_only=True)
class Job:
    """One unit of work: a command or a handler with a payload. Times are aware UTC, durations timedeltas.

    See docs/reference/jobs.md for what each field means. `worker` is the id of the worker that runs the
    job, None while nobody does. `extra` holds fields that a newer jobq wrote.
    """

    id: str
    command: str | tuple[str, ...] | None = None
    handler: str | None = None
    payload: Any = field(default_factory=dict)
    queue: str = "default"
    priority: int = 0
    state: State = State.PENDING
    attempts: int = 0
    max_attempts: int = 3
    losses: int = 0
    run: int = 0
    rev: int = 1
    run_at: datetime = EPOCH
    timeout: timedelta | None = None
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    on_lost: str = "retry"
    retry_on: tuple[str | int, ...] = ()
    no_retry_on: tuple[str | int, ...] = ()
    worker: str | None = None
    cancel_requested_at: datetime | None = None
    result: Any = None
    exit_code: int | None = None
    last_error: str | None = None
    history: tuple[Run, ...] = ()
    created_at: datetime = EPOCH
    updated_at: datetime = EPOCH
    started_at: datetime | None = None
    finished_at: datetime | None = None
    extra: Mapping[str, Any] = field(default_factory=dict)

    @staticmethod
    def of(values: dict[str, Any]) -> Job:
        """The job whose fields have these values; quicker than a call, for fields that have been checked."""
        job = object.__new__(Job)
        own = job.__dict__
        own.update(_FRESH)
        own.update(values)
        return job

    @property
    def what(self) -> str:
        """The command or handler in one line, for people."""
        if self.handler is not None:
            return self.handler
        if isinstance(self.command, str):
            return self.command
        import shlex

        return shlex.join(self.command or ())

    @property
    def version(self) -> tuple[int, datetime, str | None]:
        """What tells this state of the job from every other that was ever stored under its id.

        `rev` alone does not: an id that was deleted and added anew begins at 1 again.
        """
        return self.rev, self.created_at, self.worker

    def changed(self, change: Change, *, now: datetime) -> Job:
        """The job after `change`: `rev` one higher, updated `now`, the change's run appended to its history."""
        job = object.__new__(Job)
        values = job.__dict__
        values.update(self.__dict__)
        values.update(change.fields)
        values["rev"] = self.rev + 1
        values["updated_at"] = now
        if change.run is not None:
            values["history"] = (*self.history, change.run)[-HISTORY_LIMIT:]
        return job

    def record(self) -> dict[str, Any]:
        """The JSON object that is stored: `id` first, defaults left out, unknown fields as they came."""
        record = {"id": self.id}
        defaults, written = _DEFAULTS, _WRITE
        for name, value in self.__dict__.items():
            default = defaults[name]
            if value is not default and value != default:
                record[name] = value if value is None or name not in written else written[name](value)
        if self.extra:
            del record["extra"]
            record.update(self.extra)
        return record

    def full_record(self) -> dict[str, Any]:
        """Every field, as `--json` shows a job: `max_retries` beside `max_attempts`, which it equals."""
        record: dict[str, Any] = {}
        for name in _KNOWN:
            value = getattr(self, name)
            write = _WRITE.get(name)
            record[name] = value if write is None or value is None else write(value)
            if name == "max_attempts":
                record["max_retries"] = value
        record.update(self.extra)
        return record

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Job:
        """The job of a stored JSON object, which is trusted to have been checked when it was written.

        Raises:
            KeyError, ValueError, TypeError: it is not the record of a job.
        """
        job = object.__new__(Job)
        values = job.__dict__
        values.update(_FRESH)
        extra = None
        for name, value in record.items():
            read = _READ.get(name)
            if read is not None:
                values[name] = None if value is None else read(value)
            elif name in _KNOWN:
                values[name] = value
            else:
                extra = extra or {}
                extra[name] = value
        if extra is not None:
            values["extra"] = extra
        if not isinstance(values["id"], str):
            raise TypeError("a job's id is a string")
        return job


@record(frozen=True, slots=True)
class Change:
    """What a transition makes of a job: new values by field name, and a finished run for its history.

    `rev` and `updated_at` are never among the fields: whoever applies the change sets them.
    """

    fields: Mapping[str, Any]
    run: Run | None = None

    def record(self) -> dict[str, Any]:
        """The JSON form of the fields (without the run): defaults are written too, since they replace something."""
        record: dict[str, Any] = {}
        for name, value in self.fields.items():
            write = _WRITE.get(name)
            record[name] = value if write is None or value is None else write(value)
        return record


def read_fields(record: Mapping[str, Any], extra: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The typed values of some of a job's fields from their JSON form; the inverse of `Change.record`.

    What a newer jobq has set besides is put beside what was in the job's `extra`.
    """
    values: dict[str, Any] = {}
    for name, value in record.items():
        read = _READ.get(name)
        values[name] = value if read is None or value is None else read(value)
    if unknown := values.keys() - _KNOWN.keys():
        values["extra"] = {**(extra or {}), **{name: values.pop(name) for name in sorted(unknown)}}
    return values


def new_id() -> str:
    """A fresh job id: 16 lower-case base32 characters from 80 random bits."""
    return os.urandom(16).translate(_BASE32).decode()  # of each byte five bits


_DEFAULTS = defaults_of(Job)
_KNOWN = {name: value for name, value in _DEFAULTS.items() if name != "extra"}
_FRESH = made_defaults_of(Job)
_TIMES = ("run_at", "created_at", "updated_at", "started_at", "finished_at", "cancel_requested_at")

_WRITE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TIMES, format_time),
    "state": str,
    "timeout": seconds_of,
    "command": lambda value: value if isinstance(value, str) else list(value),
    "tags": list,
    "retry_on": list,
    "no_retry_on": list,
    "history": lambda runs: [run.record() for run in runs],
}
_READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_TIMES, parse_time),
    "state": _STATES.__getitem__,
    "timeout": lambda value: timedelta(seconds=value),
    "command": lambda value: value if isinstance(value, str) else tuple(value),
    "tags": tuple,
    "retry_on": tuple,
    "no_retry_on": tuple,
    "history": lambda runs: tuple(Run.from_record(run) for run in runs),
}
