"""Exporters that keep what they are given: in this process, and as a collector on the loopback for others."""

import http.server
import os
import threading

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

import jobq_opentelemetry
from jobq.testing import make_settings
from jobq_opentelemetry import providers

pytest_plugins = ["jobq.testing.fixtures"]


@pytest.fixture(autouse=True)
def unset(monkeypatch):
    """No variable of OpenTelemetry says anything, and nothing goes to a collector that happens to be there."""
    for name in [name for name in os.environ if name.startswith("OTEL_")] + ["TRACEPARENT", "TRACESTATE", "BAGGAGE"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")


class Kept:
    """A provider whose spans are kept."""

    def __init__(self):
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False)
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("test")

    @property
    def all(self):
        return self._exporter.get_finished_spans()

    @property
    def one(self):
        (span,) = self.all
        return span


@pytest.fixture
def spans(monkeypatch):
    """What goes to this plugin's own provider."""
    kept = Kept()
    monkeypatch.setattr(providers, "_own_tracer_provider", lambda export: kept.provider)
    return kept


@pytest.fixture
def unmade():
    """This plugin's own provider is not there yet, and what the test has made is not there afterwards."""
    providers._own_tracer_provider.cache_clear()
    yield
    providers._own_tracer_provider.cache_clear()


@pytest.fixture
def program(monkeypatch):
    """A provider that the program has set up."""
    kept = Kept()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: kept.provider)
    return kept


@pytest.fixture
def settings():
    """Settings that export, which a test that does so catches."""
    return make_settings(*jobq_opentelemetry.jobq_options(), values={"opentelemetry": {"export": "otlp"}})


class Measured:
    """A meter whose metrics are kept."""

    def __init__(self):
        self._reader = InMemoryMetricReader()
        self.meter = MeterProvider([self._reader], shutdown_on_exit=False).get_meter("test")

    def points(self, name):
        """The data points of a metric, each with its attributes; none where there is no such metric."""
        data = self._reader.get_metrics_data()
        metrics = [m for r in data.resource_metrics for s in r.scope_metrics for m in s.metrics] if data else []
        return [(dict(point.attributes), point) for m in metrics if m.name == name for point in m.data.data_points]


@pytest.fixture
def measured():
    return Measured()


class Collector:
    """An OTLP receiver over HTTP on the loopback."""

    def __init__(self):
        self._traces, self._metrics = [], []
        received = {
            "/v1/traces": (ExportTraceServiceRequest, self._traces),
            "/v1/metrics": (ExportMetricsServiceRequest, self._metrics),
        }

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                kind, into = received[self.path]
                request = kind()
                request.ParseFromString(self.rfile.read(int(self.headers["Content-Length"])))
                into.append(request)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=[0.01])
        self._thread.start()

    @property
    def spans(self):
        """What has arrived by name: spans of OTLP, with `values` of their attributes, in the order of their starts."""
        spans = [s for r in self._traces for rs in r.resource_spans for ss in rs.scope_spans for s in ss.spans]
        return sorted(spans, key=lambda span: span.start_time_unix_nano)

    def named(self, name):
        """The one span of that name."""
        (span,) = [span for span in self.spans if span.name == name]
        return span

    @property
    def services(self):
        """The names of the services that spans have come from."""
        resources = [rs.resource for r in self._traces for rs in r.resource_spans]
        return {self.values(resource)["service.name"] for resource in resources}

    @property
    def metrics(self):
        """What has arrived of metrics: (name, metric, resource's attributes)."""
        return [
            (m.name, m, self.values(rm.resource))
            for r in self._metrics
            for rm in r.resource_metrics
            for sm in rm.scope_metrics
            for m in sm.metrics
        ]

    @staticmethod
    def values(of):
        """The attributes of what OTLP has, as a dictionary."""
        return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def collector(jobq_home, monkeypatch):
    """A collector that every process of this test exports to."""
    receiver = Collector()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
    monkeypatch.setenv("JOBQ_OPENTELEMETRY_EXPORT", "otlp")
    yield receiver
    receiver.close()
