"""The span of an enqueue, and the context that goes with the job."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from opentelemetry import context as contexts
from opentelemetry import trace

from jobq_opentelemetry import carrier, names
from jobq_opentelemetry.providers import program_traces, tracer

if TYPE_CHECKING:
    from opentelemetry.util.types import AttributeValue

    from jobq.job import Job
    from jobq.settings import Settings


def annotate(new: Job, settings: Settings) -> dict[str, str] | None:
    """Make the span of an enqueue: the fields of its context; None where the job brings a context with it.

    It is a child of the current span; where there is none, in a program that does not trace, of the one that the
    environment names, so that a command which enqueues goes on with the trace it was started in.

    Raises:
        PluginError: the exporter is not installed.
    """
    if carrier.is_in_meta(new.meta):
        return None  # as the conventions ask: a creation context that is there already stays alone
    parent = contexts.get_current()
    if not program_traces() and not trace.get_current_span(parent).get_span_context().is_valid:
        parent = carrier.from_environment(os.environ)
    span = tracer(settings["opentelemetry.export"]).start_span(
        f"enqueue {new.queue}", context=parent, kind=trace.SpanKind.PRODUCER, attributes=_attributes(new)
    )
    context = trace.set_span_in_context(span, parent)
    span.end()
    return carrier.to_meta(context)


def _attributes(new: Job) -> dict[str, AttributeValue]:
    attributes: dict[str, AttributeValue] = {
        names.SYSTEM: "jobq",
        names.OPERATION_NAME: "enqueue",
        names.OPERATION_TYPE: "create",
        names.DESTINATION: new.queue,
        names.MESSAGE_ID: new.id,
    }
    if new.handler is not None:
        attributes[names.HANDLER] = new.handler
    return attributes
