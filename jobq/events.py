"""What notifiers hear: one record for each change that became durable."""

from __future__ import annotations

from enum import StrEnum

from jobq.records import record
from jobq.times import format_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from jobq.job import Job


class EventKind(StrEnum):
    """What happened to a job."""

    ENQUEUED = "enqueued"
    """A job was stored."""
    STARTED = "started"
    """A worker claimed it; one that was sent ahead began."""
    COMPLETED = "completed"
    """An attempt succeeded."""
    FAILED = "failed"
    """An attempt failed, and another one is due."""
    DEAD = "dead"
    """It has no attempts left, or was lost too often."""
    CANCELLED = "cancelled"
    """It was cancelled."""
    LOST = "lost"
    """Its worker was gone; it is pending again."""
    RETRIED = "retried"
    """A person made it pending again."""
    RELEASED = "released"
    """It was handed back unfinished, uncounted."""
    DELETED = "deleted"
    """It was deleted; `job` is as it was before."""
    DISCARDED = "discarded"
    """A late outcome was refused; `job` is as it was claimed."""


@record(frozen=True, slots=True)
class Event:
    """One thing that happened.

    Attributes:
        kind: what.
        job: the job after the change (before it, for `deleted`; as it was claimed, for `discarded`).
        run: the number of the run it is about, 0 where it is about none.
        time: when (aware UTC).
    """

    kind: EventKind
    job: Job
    run: int
    time: datetime

    def record(self) -> dict[str, Any]:
        """The JSON object of this event; the job as it is stored."""
        return {
            "event": self.kind.value,
            "time": format_time(self.time),
            "id": self.job.id,
            "run": self.run,
            "job": self.job.record(),
        }
