"""A job as a view of the store keeps it: enough to place it, the rest parsed when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.errors import StoreUnreadable
from jobq.job import Job, State
from jobq.store import ALONE_LOSSES
from jobq.times import format_time
from jobq_json.heads import head_of
from jobq_json.lines import job_line, job_of, parse, sound
from jobq_json.sections import Lane
from jobq_json.splicing import completed_line, rest_of

if TYPE_CHECKING:
    from collections.abc import Mapping

PENDING, PROCESSING, FAILED, DEAD = "pending", "processing", "failed", "dead"
COMPLETED, CANCELLED = "completed", "cancelled"
WAITING, FINISHED = (PENDING, FAILED), (COMPLETED, CANCELLED)

_SEQ = b',"seq":'

Later = tuple[Any, ...]
"""A change yet to be made: a function that takes the job before it, and its further arguments."""

_VALUES = {state: state.value for state in State}  # the attribute is a slow descriptor


class Kept:
    """One job in one state; never changed, only replaced by another.

    Attributes:
        id, seq, run_at, state, queue, priority, losses, handler: as in `heads.Head`.
        worker: who runs it, None where nobody does; of a job read from a line, None until asked for.
        offset: of its line in the sorted run or archive that it was read from, else -1.
        rest: as `splicing.rest_of` has it, of a job that has at most been claimed; else None.
    """

    __slots__ = (
        "_before",
        "_change",
        "_job",
        "_line",
        "handler",
        "id",
        "losses",
        "offset",
        "priority",
        "queue",
        "rest",
        "run_at",
        "seq",
        "state",
        "worker",
    )

    id: str
    seq: int
    run_at: str
    state: str
    queue: str
    priority: int
    losses: int
    handler: str | None
    worker: str | None
    offset: int
    rest: str | None
    _job: Job | None
    _line: bytes | None
    _before: Kept | None
    _change: Later | None

    @property
    def job(self) -> Job:
        """The job itself.

        Raises:
            StoreUnreadable: the line is sound but holds no job that this jobq understands.
        """
        if self._job is not None:
            return self._job
        changes: list[Later] = []
        kept: Kept = self
        while kept._job is None and kept._before is not None and kept._change is not None:
            changes.append(kept._change)
            kept = kept._before
        job = kept._job or job_of(kept._line or b"", checked=True)  # noqa: SLF001 - of the same class
        if job is None:
            raise StoreUnreadable(f"the record of job {self.id} is not one that this jobq understands")
        for change, *arguments in reversed(changes):
            job = change(job, *arguments)
        self._job, self._before, self._change = job, None, None
        return job

    @property
    def line(self) -> bytes:
        """Its line, without line feed."""
        return self._line if self._line is not None else job_line(self.job, self.seq)

    @property
    def lane(self) -> Lane:
        """Where it waits, or would."""
        return Lane(self.queue, self.priority, self.handler, self.losses >= ALONE_LOSSES)


def of_job(job: Job, seq: int) -> Kept:
    """A job that is in memory."""
    kept = Kept.__new__(Kept)
    kept.id, kept.seq, kept.run_at, kept.state = job.id, seq, format_time(job.run_at), _VALUES[job.state]
    kept.queue, kept.priority, kept.losses, kept.handler = job.queue, job.priority, job.losses, job.handler
    kept.worker, kept.offset, kept.rest = job.worker, -1, None
    kept._job, kept._line, kept._before, kept._change = job, None, None, None  # noqa: SLF001 - a constructor
    return kept


def of_change(before: Kept, fields: Mapping[str, Any], change: Later) -> Kept:
    """A job after a change that is applied only when the job is asked for.

    Args:
        before: the job before it.
        fields: the changed fields in their JSON form, as far as they are among those of `heads.Head`, and `worker`.
        change: the whole of it.
    """
    kept = Kept.__new__(Kept)
    get = fields.get
    kept.id, kept.seq, kept.offset = before.id, before.seq, -1
    kept.run_at, kept.state = get("run_at", before.run_at), get("state", before.state)
    kept.queue, kept.priority = get("queue", before.queue), get("priority", before.priority)
    kept.losses, kept.handler = get("losses", before.losses), get("handler", before.handler)
    kept.worker, kept.rest = get("worker", before.worker), None
    kept._job, kept._line, kept._before, kept._change = None, None, before, change  # noqa: SLF001 - a constructor
    return kept


def of_claim(before: Kept, worker: str, *, job: Job | None = None, change: Later | None = None) -> Kept:
    """As `of_change`, for the change that is made most: this worker takes the job, which is then `job`, if it is known."""
    kept = Kept.__new__(Kept)
    kept.id, kept.seq, kept.offset = before.id, before.seq, -1
    kept.run_at, kept.state, kept.worker, kept.rest = before.run_at, PROCESSING, worker, before.rest
    kept.queue, kept.priority, kept.losses, kept.handler = before.queue, before.priority, before.losses, before.handler
    kept._job, kept._line, kept._change = job, None, change  # noqa: SLF001 - a constructor
    kept._before = before if job is None else None  # noqa: SLF001
    return kept


def of_completion(before: Kept, fields: Mapping[str, Any], run: str, *, at: str) -> Kept | None:
    """A job that a run has completed, of which nothing is parsed or made before it is asked for.

    None where its line is not to be had by splicing; see `splicing.completed_line` for the arguments.
    """
    line = completed_line(before, fields, run, at=at)
    if line is None:
        return None
    kept = Kept.__new__(Kept)
    kept.id, kept.seq, kept.offset = before.id, before.seq, -1
    kept.run_at, kept.state, kept.worker, kept.rest = before.run_at, COMPLETED, None, None
    kept.queue, kept.priority, kept.losses, kept.handler = before.queue, before.priority, 0, before.handler
    kept._job, kept._line, kept._before, kept._change = None, line, None, None  # noqa: SLF001 - a constructor
    return kept


def of_whole_line(line: bytes, offset: int) -> Kept | None:
    """As `of_line`, with the job parsed at once: for one that will be asked for."""
    try:
        record = parse(line)
        if record is None:
            return None
        rest = rest_of(line, record)
        del record["seq"]
        start = line.index(_SEQ) + len(_SEQ)  # the first: a field of the job's own may be called so too
        kept = of_job(Job.from_record(record), int(line[start : line.index(b",", start)]))
    except (StoreUnreadable, KeyError, ValueError, TypeError):
        return of_line(line, offset)
    kept.offset, kept.rest, kept._line = offset, rest, line  # noqa: SLF001 - a constructor
    return kept


def of_line(line: bytes, offset: int = -1, *, checked: bool = False) -> Kept | None:
    """The job of a line; None where the line is damaged. `checked`: a checksum around it was right already."""
    head = head_of(line) if checked or sound(line) else None
    if head is None:
        return None
    kept = Kept.__new__(Kept)
    (
        kept.id,
        kept.seq,
        kept.run_at,
        kept.state,
        kept.queue,
        kept.priority,
        kept.losses,
        kept.handler,
    ) = head
    kept.worker, kept.offset, kept.rest = None, offset, None
    kept._job, kept._line, kept._before, kept._change = None, line, None, None  # noqa: SLF001 - a constructor
    return kept
