"""The instruments that events are measured with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.events import EventKind
from jobq.executor import Kind
from jobq.job import State
from jobq_opentelemetry import names
from jobq_opentelemetry.labels import JobLabels

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter

    from jobq.events import Event
    from jobq.job import Run

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
"""Seconds: those of the conventions, and from there on to a day, since jobs are longer than messages."""

_ENDS = frozenset({EventKind.COMPLETED, EventKind.FAILED, EventKind.DEAD, EventKind.CANCELLED, EventKind.RELEASED})
_NO_ERROR = frozenset({Kind.SUCCESS.value, Kind.RELEASED.value, State.CANCELLED.value})


class Measures:
    """Counts events, and measures how long attempts took and jobs waited."""

    def __init__(self, meter: Meter) -> None:
        self._labels = JobLabels()
        self._events = meter.create_counter(
            names.EVENTS, unit="{event}", description="What happened to jobs, by the kind of event."
        )
        self._durations = meter.create_histogram(
            names.PROCESS_DURATION,
            unit="s",
            description="How long attempts took.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )
        self._waits = meter.create_histogram(
            names.WAIT,
            unit="s",
            description="For how long jobs had been due when an attempt of them began.",
            explicit_bucket_boundaries_advisory=BUCKETS,
        )

    def take(self, event: Event) -> None:
        """Measure one event."""
        job = event.job
        labels = {names.DESTINATION: self._labels.queue(job), names.HANDLER: self._labels.handler(job)}
        self._events.add(1, {names.EVENT: event.kind.value, **labels})
        if event.kind is EventKind.STARTED:
            self._waits.record(max(0.0, (event.time - job.run_at).total_seconds()), labels)
            return
        run = _ended(event)
        if run is not None and run.started is not None:
            attributes = {
                names.SYSTEM: "jobq",
                names.OPERATION_NAME: "process",
                names.OUTCOME: run.outcome,
                **labels,
            }
            if run.outcome not in _NO_ERROR:
                attributes[names.ERROR_TYPE] = run.outcome
            self._durations.record(max(0.0, (run.finished - run.started).total_seconds()), attributes)


def _ended(event: Event) -> Run | None:
    """The attempt whose end an event tells of; None where it tells of none, or its end was not seen."""
    job = event.job
    if event.kind not in _ENDS or not job.history:
        return None
    run = job.history[-1]
    if run.run != event.run or run.outcome == "lost":
        return None
    if event.kind is EventKind.CANCELLED and run.finished != job.finished_at:
        return None  # it was cancelled while it waited; the run is an earlier one
    return run
