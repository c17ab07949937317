import socket
import sys
from types import SimpleNamespace

import pytest
from opentelemetry import metrics as api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

import jobq_opentelemetry
from jobq import Event, EventKind
from jobq.errors import InvalidInput, PluginError
from jobq.testing import START, make_job, make_settings
from jobq_opentelemetry import metrics, providers
from jobq_opentelemetry.attempts import Tracing
from jobq_opentelemetry.metrics import Metrics


def settings_with(**values):
    return make_settings(*jobq_opentelemetry.jobq_options(), values={"opentelemetry": values})


@pytest.fixture
def made(monkeypatch):
    """What was made: readers by whether they export totals, providers by whether they tell themselves apart, gauges."""
    made = SimpleNamespace(readers=[], providers=[], gauges=[])

    def reader(export, *, totals):
        made.readers.append((export, totals))
        return InMemoryMetricReader()

    def provider(readers, *, instance):
        made.providers.append((len(readers), instance))
        return MeterProvider(readers, shutdown_on_exit=False)

    monkeypatch.setattr(metrics, "_reader", reader)
    monkeypatch.setattr(providers, "ending", lambda: SimpleNamespace(add=lambda call: None))
    monkeypatch.setattr(providers, "own_meter_provider", provider)
    monkeypatch.setattr(metrics.Depth, "observe", lambda self, meter: made.gauges.append(self))
    return made


def tell(kind, **values):
    Metrics().tell(Event(EventKind(kind), make_job(), 1, START), settings_with(**values))


@pytest.mark.parametrize("kind", ["started", "lost"])
def test_a_worker_exports_totals_and_how_the_queues_stand(made, kind):
    tell(kind, export="console")
    assert made.readers == [("console", True)]
    assert made.providers == [(1, True)]
    assert len(made.gauges) == 1


@pytest.mark.parametrize("kind", ["enqueued", "cancelled", "retried", "deleted"])
def test_a_command_exports_differences_and_nothing_of_the_queues(made, kind):
    tell(kind, export="otlp")
    assert (made.readers, made.providers, made.gauges) == ([("otlp", False)], [(1, False)], [])


def test_a_command_does_not_serve_prometheus(made):
    tell("enqueued", prometheus="127.0.0.1:0")
    assert made.providers == []


@pytest.mark.parametrize(("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_METRICS_EXPORTER", "none")])
def test_opentelemetrys_own_switches_hold(made, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    tell("started", export="otlp", prometheus="127.0.0.1:0")
    assert made.providers == []


def test_the_programs_provider_is_used(made, monkeypatch):
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    monkeypatch.setattr(api, "get_meter_provider", lambda: provider)
    tell("enqueued", export="otlp")
    (metric,) = reader.get_metrics_data().resource_metrics[0].scope_metrics[0].metrics
    assert metric.name == "jobq.events"
    assert made.providers == []


def test_an_address_that_is_taken_costs_only_that(made, caplog):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        tell("started", export="console", prometheus=f"127.0.0.1:{port}")
    assert made.providers == [(1, True)]
    assert f"not served at 127.0.0.1:{port}: Address already in use" in caplog.text


def test_what_cannot_be_made_is_told_once(made):
    told = Metrics()
    event = Event(EventKind.STARTED, make_job(), 1, START)
    settings = settings_with(prometheus="nowhere")
    with pytest.raises(InvalidInput, match="HOST:PORT"):
        told.tell(event, settings)
    told.tell(event, settings)


def test_what_is_not_installed_is_told_with_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None)
    with pytest.raises(PluginError, match=r"pip install 'jobq-opentelemetry\[otlp\]'"):
        tell("started", export="otlp")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.prometheus", None)
    with pytest.raises(PluginError, match=r"pip install 'jobq-opentelemetry\[prometheus\]'"):
        tell("started", prometheus="127.0.0.1:0")


def test_the_same_holds_of_spans_when_their_maker_is_made(unmade, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(PluginError, match=r"pip install 'jobq-opentelemetry\[otlp\]'"):
        Tracing(settings_with(export="otlp"))


def test_the_service_is_jobq_unless_a_variable_names_it(monkeypatch):
    def attributes(*, instance=False):
        return providers._resource(instance=instance).attributes

    assert attributes()["service.name"] == "jobq"
    assert "service.instance.id" not in attributes()
    first, second = (attributes(instance=True)["service.instance.id"] for _ in range(2))
    assert first != second
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=one,deployment.environment.name=test")
    told = attributes(instance=True)
    assert (told["service.name"], told["service.instance.id"]) == ("shop", "one")
    assert told["deployment.environment.name"] == "test"
