"""A job as a view of the store keeps it: enough to place it, the rest parsed when asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.errors import StoreUnreadable
from jobq.store import ALONE_LOSSES
from jobq.times import format_time
from jobq_json.lines import head_of, job_line, job_of, sound
from jobq_json.manifest import Lane

if TYPE_CHECKING:
    from jobq.job import Job

PENDING, PROCESSING, FAILED, DEAD = "pending", "processing", "failed", "dead"
COMPLETED, CANCELLED = "completed", "cancelled"
WAITING = (PENDING, FAILED)


class Kept:
    """One job in one state; never changed, only replaced by another.

    Attributes:
        id, seq, run_at, state, queue, priority, losses, handler: as in `lines.Head`.
        offset: of its line in the sorted run or archive that it was read from, else -1.
    """

    __slots__ = ("_job", "_line", "handler", "id", "losses", "offset", "priority", "queue", "run_at", "seq", "state")

    id: str
    seq: int
    run_at: str
    state: str
    queue: str
    priority: int
    losses: int
    handler: str | None
    offset: int
    _job: Job | None
    _line: bytes | None

    @property
    def job(self) -> Job:
        """The job itself.

        Raises:
            StoreUnreadable: the line is sound but holds no job that this jobq understands.
        """
        if self._job is None:
            self._job = job_of(self._line or b"")
            if self._job is None:
                raise StoreUnreadable(f"the record of job {self.id} is not one that this jobq understands")
        return self._job

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
    kept.id, kept.seq, kept.run_at, kept.state = job.id, seq, format_time(job.run_at), job.state.value
    kept.queue, kept.priority, kept.losses, kept.handler = job.queue, job.priority, job.losses, job.handler
    kept.offset, kept._job, kept._line = -1, job, None  # noqa: SLF001 - a constructor of the class
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
    kept.offset, kept._job, kept._line = offset, None, line  # noqa: SLF001 - a constructor of the class
    return kept
