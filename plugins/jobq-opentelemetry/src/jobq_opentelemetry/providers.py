"""Where spans and metrics go: to what the program has set up, else to providers of this plugin's own.

The own ones never become OpenTelemetry's global ones where a program enqueues: it may set up its own later. They do
in a handlers' child, for the spans of handlers to have somewhere to go, and only once the first handler is imported,
which may have set up something itself.
"""

from __future__ import annotations

import os
import sys
import threading
import uuid
from functools import cache
from typing import TYPE_CHECKING

from opentelemetry import metrics, trace

from jobq.errors import PluginError
from jobq_opentelemetry import telling
from jobq_opentelemetry.ending import Ending
from jobq_opentelemetry.names import SCOPE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.sdk.metrics.export import MetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

_lock = threading.RLock()


def program_traces() -> bool:
    """Whether the program has set up tracing."""
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def prepare(export: str | None) -> None:
    """Make this plugin's own provider now, if it may be needed: that takes some tenths of a second.

    Raises:
        PluginError: what `export` needs is not installed.
    """
    with _lock:
        if not program_traces():
            _own_tracer_provider(export)


def tracer(export: str | None, *, share: bool = False) -> trace.Tracer:
    """What makes spans: the program's, else this plugin's.

    Args:
        export: the setting `opentelemetry.export`.
        share: make this plugin's provider the global one where it is used; in a process of jobq's own.

    Raises:
        PluginError: what `export` needs is not installed.
    """
    from jobq_opentelemetry import __version__

    with _lock:
        if program_traces():
            return trace.get_tracer_provider().get_tracer(SCOPE, __version__)
        telling.install(quiet=share)
        provider = _own_tracer_provider(export)
        if share:
            trace.set_tracer_provider(provider)
        return provider.get_tracer(SCOPE, __version__)


def program_meters() -> metrics.MeterProvider | None:
    """The program's meter provider, if it has set up one of OpenTelemetry's SDK."""
    provider = metrics.get_meter_provider()
    sdk = sys.modules.get("opentelemetry.sdk.metrics")  # not there: not set up, and not worth its import
    return provider if sdk is not None and isinstance(provider, sdk.MeterProvider) else None


def own_meter_provider(readers: Sequence[MetricReader], *, instance: bool) -> metrics.MeterProvider:
    """A meter provider that hands what is measured to these readers, at the latest when the process ends.

    Args:
        instance: whether the process is to be told from others of its kind, as one that exports running totals must
            be. Of processes that live for an instant each would be a series of its own.
    """
    from opentelemetry.sdk.metrics import MeterProvider

    provider = MeterProvider(metric_readers=readers, resource=_resource(instance=instance), shutdown_on_exit=False)
    ending().add(provider.shutdown)
    return provider


def exports(export: str | None, signal: str) -> bool:
    """Whether a signal (`TRACES`, `METRICS`) is exported: a setting says so, and no variable of OpenTelemetry not to."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    return export is not None and os.environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower() != "none"


@cache
def ending() -> Ending:
    """What happens when this process ends."""
    return Ending()


@cache
def _own_tracer_provider(export: str | None) -> trace.TracerProvider:
    if not exports(export, "TRACES"):
        return trace.NoOpTracerProvider()
    from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SimpleSpanProcessor

    if export == "console":
        processor: SpanProcessor = SimpleSpanProcessor(ConsoleSpanExporter(out=sys.stderr, formatter=_line))
    else:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise missing("otlp", error) from error
        processor = BatchSpanProcessor(OTLPSpanExporter())
    provider = TracerProvider(resource=_resource(instance=False), shutdown_on_exit=False)
    provider.add_span_processor(processor)
    ending().add(provider.shutdown)
    return provider


def _resource(*, instance: bool) -> Resource:
    """What OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say, and `jobq` as the name of the service otherwise."""
    from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource

    attributes = dict(Resource.create().attributes)
    if str(attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        attributes[SERVICE_NAME] = "jobq"
    if SERVICE_INSTANCE_ID not in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", ""):
        attributes.pop(SERVICE_INSTANCE_ID, None)
        if instance:
            attributes[SERVICE_INSTANCE_ID] = str(uuid.uuid4())
    return Resource(attributes)


def _line(span: ReadableSpan) -> str:
    return f"{span.to_json(indent=None)}\n"


def missing(extra: str, error: ImportError) -> PluginError:
    """What to tell where a distribution that an extra brings is not there."""
    return PluginError(f"pip install 'jobq-opentelemetry[{extra}]' is needed first ({error})")
