"""A span around every attempt, current in its handler, and in the environment of its command."""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import trace

from jobq.errors import described
from jobq.executor import Kind
from jobq.handlers import Failed, Snoozed
from jobq.wrapping import AttemptFailed, AttemptWrapper
from jobq_opentelemetry import carrier, names
from jobq_opentelemetry.providers import prepare, tracer

if TYPE_CHECKING:
    from types import TracebackType

    from opentelemetry.util.types import AttributeValue

    from jobq.job import Job
    from jobq.settings import Settings


class Tracing(AttemptWrapper):
    """Makes spans of attempts.

    Raises:
        PluginError: the exporter is not installed.
    """

    def __init__(self, settings: Settings) -> None:
        self._export: str | None = settings["opentelemetry.export"]
        prepare(self._export)
        self._tracer: trace.Tracer | None = None
        self._lock = threading.Lock()

    def around(self, job: Job) -> AbstractContextManager[dict[str, str] | None]:
        """The span of an attempt."""
        if self._tracer is None:
            with self._lock:
                self._tracer = tracer(self._export, share=job.handler is not None)
        return AttemptSpan(self._tracer, job)


class AttemptSpan(AbstractContextManager["dict[str, str] | None"]):
    """The span of one attempt. Its parent is the span of the enqueue, and it has a link to it."""

    def __init__(self, tracer: trace.Tracer, job: Job) -> None:
        self._tracer, self._job = tracer, job

    def __enter__(self) -> dict[str, str] | None:
        """Begin; for a command the variables that carry the context."""
        job = self._job
        # From an empty context: one that an earlier handler has left attached is not this attempt's.
        creation = carrier.from_meta(job.meta)
        link = trace.get_current_span(creation).get_span_context()
        self._span = self._tracer.start_span(
            f"process {job.queue}",
            context=creation,
            kind=trace.SpanKind.CONSUMER,
            attributes=_attributes(job),
            links=[trace.Link(link)] if link.is_valid else None,
        )
        context = trace.set_span_in_context(self._span, creation)
        self._token = contexts.attach(context)
        return carrier.to_environment(context, os.environ) if job.handler is None else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        contexts.detach(self._token)
        if self._span.is_recording():
            _conclude(self._span, error)
        self._span.end()


def _attributes(job: Job) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        names.SYSTEM: "jobq",
        names.OPERATION_NAME: "process",
        names.OPERATION_TYPE: "process",
        names.DESTINATION: job.queue,
        names.MESSAGE_ID: job.id,
        names.RUN: job.run,
        names.ATTEMPT: job.attempts + 1,
    }
    if job.worker is not None:
        attributes[names.CLIENT_ID] = job.worker
    if job.handler is not None:
        attributes[names.HANDLER] = job.handler
    return attributes


def _conclude(span: trace.Span, error: BaseException | None) -> None:
    """Say on the span how its attempt ended; `error` is what it was left with."""
    if error is None or (isinstance(error, SystemExit) and error.code in (None, 0)):
        span.set_attribute(names.OUTCOME, Kind.SUCCESS.value)
    elif isinstance(error, Snoozed):
        span.set_attribute(names.OUTCOME, Kind.RELEASED.value)
    elif isinstance(error, AttemptFailed):
        kind, exit_code = error.outcome.kind, error.outcome.exit_code
        span.set_attribute(names.OUTCOME, kind.value)
        if exit_code is not None:
            span.set_attribute(names.EXIT_CODE, exit_code)
        if kind is not Kind.RELEASED:
            _mark(span, kind.value, error.outcome.reason or kind.value)
    else:
        span.set_attribute(names.OUTCOME, Kind.FAILURE.value)
        if isinstance(error, Failed):
            _mark(span, _name(error), error.reason)
        else:
            _mark(span, _name(error), described(error))
            with suppress(Exception):  # where it cannot say what it is
                span.record_exception(error)


def _mark(span: trace.Span, kind: str, reason: str) -> None:
    span.set_attribute(names.ERROR_TYPE, kind)
    span.set_status(trace.StatusCode.ERROR, reason)


def _name(error: BaseException) -> str:
    """The full name of an exception's class; that of a built-in one is short."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
