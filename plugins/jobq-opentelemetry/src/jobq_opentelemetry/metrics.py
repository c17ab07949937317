"""What a process measures: made with the first event that it is told of."""

from __future__ import annotations

import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Any

from jobq.events import EventKind
from jobq_opentelemetry import providers, telling
from jobq_opentelemetry.depth import Depth
from jobq_opentelemetry.measures import Measures
from jobq_opentelemetry.names import SCOPE

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader, MetricsData

    from jobq.events import Event
    from jobq.queue import Queue
    from jobq.settings import Settings

_WORKERS = frozenset({EventKind.STARTED, EventKind.LOST})
"""What workers announce first. Of a command that gives back a dead worker's jobs the first is `lost` too, rarely."""

_TEMPORALITY = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE"
_log = logging.getLogger(__name__)


class Metrics:
    """Measures what this process is told of. Where that cannot be done, it is told once, and nothing is measured."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made = False
        self._measures: Measures | None = None

    def tell(self, event: Event, settings: Settings) -> None:
        """Measure one event.

        Raises:
            PluginError, InvalidInput: at the first event: what a setting asks for cannot be had.
        """
        with self._lock:
            if not self._made:
                self._made = True
                self._measures = _made(settings, worker=event.kind in _WORKERS)
        if self._measures is not None:
            self._measures.take(event)


METRICS = Metrics()


def _made(settings: Settings, *, worker: bool) -> Measures | None:
    from jobq_opentelemetry import __version__

    provider = providers.program_meters()
    if provider is None:
        telling.install(quiet=False)
        provider = _own_provider(settings, worker=worker)
    if provider is None:
        return None
    meter = provider.get_meter(SCOPE, __version__)
    if worker:
        depth = Depth(lambda: _opened(settings))
        depth.observe(meter)
        providers.ending().add(depth.close)
    return Measures(meter)


def _own_provider(settings: Settings, *, worker: bool) -> MeterProvider | None:
    """A provider of this plugin's own; None where there is nowhere to export to."""
    export = settings["opentelemetry.export"]
    readers: list[MetricReader] = []
    if providers.exports(export, "METRICS"):
        readers.append(_reader(export, totals=worker))
    if worker and providers.exports(settings["opentelemetry.prometheus"], "METRICS"):
        from jobq_opentelemetry.prometheus import parse_address, registry_and_reader, serve

        address = parse_address("opentelemetry.prometheus", settings["opentelemetry.prometheus"])
        registry, reader = registry_and_reader(target=True)
        try:
            serve(address, registry)
        except OSError as error:
            _log.warning("this worker's metrics are not served at %s:%d: %s", *address, error.strerror)
        else:
            readers.append(reader)
    return providers.own_meter_provider(readers, instance=worker) if readers else None


def _reader(export: str, *, totals: bool) -> MetricReader:
    """What exports every `OTEL_METRIC_EXPORT_INTERVAL`, and at the end.

    Args:
        totals: running totals, unless a variable asks for something else. What processes export that live for an
            instant are the differences: totals of 1 from a thousand commands would add up to 1.
    """
    from opentelemetry.sdk.metrics import Counter, Histogram
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        ConsoleMetricExporter,
        PeriodicExportingMetricReader,
    )

    temporality: dict[type, Any] | None = None
    if not totals and not os.environ.get(_TEMPORALITY):
        temporality = dict.fromkeys((Counter, Histogram), AggregationTemporality.DELTA)
    if export == "console":
        return PeriodicExportingMetricReader(
            ConsoleMetricExporter(out=sys.stderr, formatter=_line, preferred_temporality=temporality)
        )
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError as error:
        raise providers.missing("otlp", error) from error
    return PeriodicExportingMetricReader(OTLPMetricExporter(preferred_temporality=temporality))


def _line(data: MetricsData) -> str:
    return f"{data.to_json(indent=None)}\n"


def _opened(settings: Settings) -> AbstractContextManager[Queue]:
    from jobq.queue import Queue

    return Queue.open(home=settings.home, store=settings["store"])
