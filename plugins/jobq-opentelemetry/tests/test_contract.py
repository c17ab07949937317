import subprocess
import sys

import pytest

import jobq_opentelemetry
from jobq.testing.contracts import NotifierContract, PluginContract
from jobq_opentelemetry import metrics
from jobq_opentelemetry.measures import Measures


class TestPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return jobq_opentelemetry


class TestNotifier(NotifierContract):
    @pytest.fixture(autouse=True)
    def made(self, measured, monkeypatch):
        monkeypatch.setattr(metrics, "METRICS", metrics.Metrics())
        monkeypatch.setattr(metrics, "_made", lambda settings, worker: Measures(measured.meter))
        yield
        assert measured.points("jobq.events")

    @pytest.fixture
    def notify(self):
        return jobq_opentelemetry.jobq_notify

    @pytest.fixture
    def options(self):
        return list(jobq_opentelemetry.jobq_options())

    @pytest.fixture
    def values(self):
        return {"opentelemetry": {"export": "otlp"}}


def test_its_import_brings_nothing_of_opentelemetry():
    code = "import sys, jobq_opentelemetry as p; [*p.jobq_options(), *p.jobq_commands(), *p.jobq_wrappers()]; "
    code += "print(*[m for m in sys.modules if m.startswith(('opentelemetry', 'prometheus', 'google'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_the_names_are_those_of_the_conventions():
    from opentelemetry.semconv._incubating.attributes import messaging_attributes, process_attributes
    from opentelemetry.semconv._incubating.metrics import messaging_metrics
    from opentelemetry.semconv.attributes import error_attributes

    from jobq_opentelemetry import names

    known = {
        value
        for module in (messaging_attributes, process_attributes, messaging_metrics, error_attributes)
        for value in vars(module).values()
        if isinstance(value, str)
    }
    own = [value for value in vars(names).values() if isinstance(value, str) and value.startswith("jobq.")]
    named = {value for name, value in vars(names).items() if name.isupper()} - {*own, "jobq", "command", "_OTHER"}
    assert named <= known
    assert len(named) == 9
