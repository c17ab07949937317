"""The members of a store: what a worker tells of itself, and its membership."""

from __future__ import annotations

from abc import ABC, abstractmethod

from jobq.records import record
from jobq.times import format_time, parse_time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any


@record(frozen=True, kw_only=True)
class RunningJob:
    """One job under way in a worker. `progress` is what the job last reported (done, total, note), or None."""

    job: str
    run: int
    started: datetime
    what: str = ""
    progress: Mapping[str, Any] | None = None


@record(frozen=True, kw_only=True)
class WorkerInfo:
    """What a worker tells of itself. Nothing of it is job state.

    Attributes:
        id: 16 random base32 characters, never reused.
        name: for people; the id's first characters unless chosen.
        host, boot_id, pid, start_time: which process on which machine since which boot; `start_time` in clock
            ticks since boot, as Linux numbers it (0 where that cannot be told).
        started: when (aware UTC).
        version: of jobq.
        queues: served queues, None for all.
        handlers: installed handler names.
        count: how many jobs it runs at most at once.
        state: `running`, `draining`, or what keeps it from working, as `store trouble: …`.
        running: the jobs under way.
    """

    id: str
    name: str
    host: str
    boot_id: str
    pid: int
    start_time: int
    started: datetime
    version: str
    queues: tuple[str, ...] | None = None
    handlers: tuple[str, ...] = ()
    count: int = 1
    state: str = "running"
    running: tuple[RunningJob, ...] = ()

    def record(self) -> dict[str, Any]:
        """The JSON object of this worker."""
        return {
            "id": self.id,
            "name": self.name,
            "host": self.host,
            "boot_id": self.boot_id,
            "pid": self.pid,
            "start_time": self.start_time,
            "started": format_time(self.started),
            "version": self.version,
            "queues": None if self.queues is None else list(self.queues),
            "handlers": list(self.handlers),
            "count": self.count,
            "state": self.state,
            "running": [
                {
                    "job": job.job,
                    "run": job.run,
                    "started": format_time(job.started),
                    "what": job.what,
                    "progress": None if job.progress is None else dict(job.progress),
                }
                for job in self.running
            ],
        }

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> WorkerInfo:
        """The worker of a JSON object.

        Raises:
            KeyError, ValueError, TypeError: it is none.
        """
        queues = record["queues"]
        return WorkerInfo(
            id=record["id"],
            name=record["name"],
            host=record["host"],
            boot_id=record["boot_id"],
            pid=int(record["pid"]),
            start_time=int(record["start_time"]),
            started=parse_time(record["started"]),
            version=record["version"],
            queues=None if queues is None else tuple(queues),
            handlers=tuple(record["handlers"]),
            count=int(record["count"]),
            state=record["state"],
            running=tuple(
                RunningJob(
                    job=job["job"],
                    run=job["run"],
                    started=parse_time(job["started"]),
                    what=job.get("what", ""),
                    progress=job.get("progress"),
                )
                for job in record["running"]
            ),
        )


class Presence(ABC):
    """A worker's membership in a store, for as long as it is open; others can tell when it is gone.

    Attributes:
        id: the worker's id.
        host: its host's name.
        jobs_fd: a locked descriptor that everything the worker starts inherits, or None.
    """

    id: str
    host: str
    jobs_fd: int | None = None

    def renew(self, info: WorkerInfo) -> bool:
        """Called about every second: make sure that the membership stands; True if it had to be made anew."""
        del info
        return False

    @property
    def stop_asked(self) -> int:
        """How it was asked to stop by `Store.ask_to_stop`, as `jobq.draining` has it; 0: not.

        Asked each time that the worker looks around.
        """
        return 0

    @property
    def lapsed(self) -> bool:
        """Whether others may be about to take this worker for gone, so that what it runs has to end at once.

        Asked each time that the worker looks around. Never where membership is a held lock; where it is a lease, from
        some time before that is over until it is renewed.
        """
        return False

    @abstractmethod
    def close(self, *, clean: bool = True) -> None:
        """Leave. Claims still held are lost from here on.

        Without `clean`, something may be left: everything is to be found as if the worker had died.
        """
