"""A notifier that keeps what it is told."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from jobq.hooks import hookimpl

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq.events import Event

TOLD_WITHIN = 10.0
"""Seconds; events come from a thread, and one that has not come by then never does."""


class HeardEvents:
    """A plugin that keeps every event it hears; iterating over it gives those that have come so far, in order."""

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._came = threading.Condition()

    @hookimpl
    def jobq_notify(self, event: Event) -> None:
        """Keep one event."""
        with self._came:
            self._events.append(event)
            self._came.notify_all()

    def __iter__(self) -> Iterator[Event]:
        return iter(list(self._events))

    def __len__(self) -> int:
        return len(self._events)

    def kinds(self, job_id: str | None = None) -> list[str]:
        """The kinds of the events that have come so far, of one job or of all."""
        return [event.kind.value for event in self if job_id is None or event.job.id == job_id]

    def wait(self, kind: str, job_id: str | None = None) -> Event:
        """The first event of this kind, of one job or of any, as soon as it has come.

        Raises:
            AssertionError: none comes within `TOLD_WITHIN` seconds; the message has those that came.
        """

        def found() -> Event | None:
            return next((e for e in self if e.kind == kind and job_id in (None, e.job.id)), None)

        with self._came:
            event = self._came.wait_for(found, TOLD_WITHIN)
        if event is None:
            told = ", ".join(f"{each.kind.value} {each.job.id}" for each in self) or "nothing"
            raise AssertionError(f"{kind} {job_id or ''} was not announced; there was: {told}")
        return event
