"""Keeps what metrics are told apart by few: names of queues and handlers are for users to choose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq_opentelemetry.names import COMMAND, OTHER

if TYPE_CHECKING:
    from jobq.job import Job

MOST = 100
"""So many queues, and so many handlers, are told apart in one process."""


class Labels:
    """Lets the first `MOST` names through, and calls all further ones `_OTHER`."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        """What stands for a name; the same each time."""
        if name in self._known:
            return name
        if len(self._known) >= MOST:
            return OTHER
        self._known.add(name)
        return name


class JobLabels:
    """What a job is called in metrics: its queue and its handler, never anything of its own."""

    def __init__(self) -> None:
        self._queues, self._handlers = Labels(), Labels()

    def queue(self, job: Job) -> str:
        """The name of its queue, or `_OTHER` where too many were met already."""
        return self._queues.of(job.queue)

    def handler(self, job: Job) -> str:
        """Its handler; `command` for a command, whatever it is."""
        return COMMAND if job.handler is None else self._handlers.of(job.handler)
