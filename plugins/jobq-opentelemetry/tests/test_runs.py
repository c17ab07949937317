"""Real runs: what commands, workers and the children of handlers export, by OTLP to a collector."""

import json
import signal
import socket
import subprocess
import sys
import time

import pytest

TIMEOUT = 30.0
"""Seconds after which a process is taken for hanging."""

HANDLERS = """
from opentelemetry import trace

def traced(job, context):
    with trace.get_tracer("shop").start_as_current_span("resize"):
        return {"trace": f"{trace.get_current_span().get_span_context().trace_id:032x}"}

async def asynchronous(job, context):
    return traced(job, context)

def raises(job, context):
    raise ValueError("no such size")

def snoozes(job, context):
    if job.run == 1:
        context.snooze(0)

def enqueues(job, context):
    context.enqueue(id="child", command="true")

def speaks(job, context):
    print("hello")
"""

OWN = """
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

provider = TracerProvider(resource=Resource({"service.name": "shop"}))
provider.add_span_processor(SimpleSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(provider)

def traced(job, context):
    assert trace.get_tracer_provider() is provider
    with trace.get_tracer("shop").start_as_current_span("resize"):
        pass
"""


@pytest.fixture
def run(jobq_cli, jobq_home):
    """Adds a job in one process and works in another; the job's record."""
    modules = jobq_home.parent / "modules"
    modules.mkdir()
    (modules / "shop.py").write_text(HANDLERS)
    (modules / "own.py").write_text(OWN)
    jobq_cli("config", "set", "handlers-path", "modules")
    for name in ("traced", "asynchronous", "raises", "snoozes", "enqueues", "speaks"):
        jobq_cli("config", "set", f"handlers.{name}", f"shop:{name}")
    jobq_cli("config", "set", "handlers.own", "own:traced")

    def run(*words):
        job_id = jobq_cli("add", *words, process=True).stdout.strip()
        jobq_cli("worker", "start", "--until-empty", process=True)
        return jobq_cli("show", job_id, "--json").json

    return run


def values(of):
    """The attributes of what OTLP has, as a dictionary."""
    return {a.key: getattr(a.value, a.value.WhichOneof("value")) for a in of.attributes}


def is_error(span):
    return span.status.code == span.status.STATUS_CODE_ERROR


@pytest.mark.parametrize("handler", ["traced", "asynchronous"])
def test_one_trace_from_the_enqueue_to_what_the_handler_does(collector, run, handler):
    job = run(handler)
    enqueue, attempt, own = (collector.named(name) for name in ("enqueue default", "process default", "resize"))
    assert job["meta"]["opentelemetry.traceparent"].split("-")[1:3] == [enqueue.trace_id.hex(), enqueue.span_id.hex()]
    assert attempt.parent_span_id == enqueue.span_id
    assert [(link.trace_id, link.span_id) for link in attempt.links] == [(enqueue.trace_id, enqueue.span_id)]
    assert own.parent_span_id == attempt.span_id
    assert {enqueue.trace_id.hex(), attempt.trace_id.hex(), own.trace_id.hex()} == {job["result"]["trace"]}
    assert (enqueue.kind, attempt.kind) == (enqueue.SPAN_KIND_PRODUCER, attempt.SPAN_KIND_CONSUMER)
    assert values(attempt)["messaging.message.id"] == job["id"]
    assert values(attempt)["jobq.job.handler"] == handler
    assert collector.services == {"jobq"}


def test_a_command_goes_on_with_the_trace(collector, run, jobq_cli):
    job = run("--", sys.executable, "-m", "jobq", "--quiet", "add", "--id", "second", "--", "true")
    assert job["state"] == "completed"
    second = jobq_cli("show", "second", "--json").json
    (attempt,) = [s for s in collector.spans if values(s).get("messaging.client.id") and s.parent_span_id][:1]
    inner = [s for s in collector.spans if s.parent_span_id == attempt.span_id]
    assert [span.name for span in inner] == ["enqueue default"]
    assert second["meta"]["opentelemetry.traceparent"].split("-")[1] == attempt.trace_id.hex()


def test_a_handlers_own_jobs_are_of_its_trace(collector, run, jobq_cli):
    run("enqueues")
    child = jobq_cli("show", "child", "--json").json
    (attempt,) = [s for s in collector.spans if values(s).get("jobq.job.handler") == "enqueues" and s.links]
    (inner,) = [s for s in collector.spans if s.parent_span_id == attempt.span_id]
    assert child["meta"]["opentelemetry.traceparent"].split("-")[1:3] == [attempt.trace_id.hex(), inner.span_id.hex()]


def test_each_attempt_has_a_span_and_a_failure_is_an_error(collector, run, monkeypatch):
    monkeypatch.setenv("JOBQ_BACKOFF_INITIAL", "0")
    run("--max-attempts", "2", "raises")
    attempts = [span for span in collector.spans if span.name == "process default"]
    assert [values(span)["jobq.job.attempt"] for span in attempts] == [1, 2]
    for span in attempts:
        assert is_error(span)
        assert span.status.message == "ValueError: no such size"
        assert values(span)["error.type"] == "ValueError"
        assert [event.name for event in span.events] == ["exception"]


def test_a_command_that_fails_says_how(collector, run):
    run("--max-attempts", "1", "--shell", "exit 3")
    span = collector.named("process default")
    assert is_error(span)
    assert span.status.message == "exit code 3"
    assert (values(span)["process.exit.code"], values(span)["jobq.outcome"]) == (3, "failed")


def test_a_snooze_is_no_error(collector, run):
    run("snoozes")
    attempts = [span for span in collector.spans if span.name == "process default"]
    assert [values(span)["jobq.outcome"] for span in attempts] == ["released", "completed"]
    assert not any(map(is_error, attempts))


def test_a_provider_that_a_handlers_module_sets_up_is_used(collector, run):
    assert run("own")["state"] == "completed"
    attempt, own = collector.named("process default"), collector.named("resize")
    assert own.parent_span_id == attempt.span_id
    assert collector.services == {"jobq", "shop"}


def test_a_program_may_set_up_its_own_provider_after_it_has_enqueued(collector, jobq_home):
    code = """
import logging
logging.basicConfig(level=logging.WARNING)
import jobq
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
with jobq.Queue.open() as queue:
    queue.enqueue(command="true", id="before")
    provider = TracerProvider()
    trace.set_tracer_provider(provider)
    assert trace.get_tracer_provider() is provider
    with trace.get_tracer("shop").start_as_current_span("request") as span:
        job = queue.enqueue(command="true", id="after")
    assert job.meta["opentelemetry.traceparent"].split("-")[1] == f"{span.get_span_context().trace_id:032x}"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=TIMEOUT, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert values(collector.named("enqueue default"))["messaging.message.id"] == "before"


DELTA, CUMULATIVE = 1, 2


def counted(collector):
    """The counter of events by kind: how it was exported, its value, and the attributes of the resource."""
    return {
        values(point)["jobq.event"]: (metric.sum.aggregation_temporality, point.as_int, resource)
        for name, metric, resource in collector.metrics
        if name == "jobq.events"
        for point in metric.sum.data_points
    }


def test_metrics_arrive_from_commands_as_differences_and_from_workers_as_totals(collector, run):
    run("traced")
    told = counted(collector)
    assert {kind: values[:2] for kind, values in told.items()} == {
        "enqueued": (DELTA, 1),
        "started": (CUMULATIVE, 1),
        "completed": (CUMULATIVE, 1),
    }
    assert "service.instance.id" in told["started"][2]
    assert "service.instance.id" not in told["enqueued"][2]
    assert {name for name, _, _ in collector.metrics} == {"jobq.events", "jobq.job.wait", "messaging.process.duration"}


def test_a_worker_exports_how_the_queues_stand_while_it_works(collector, jobq_cli, monkeypatch):
    monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "50")
    jobq_cli("add", "--delay", "1h", "--queue", "later", "--", "true")
    jobq_cli("add", "--", "sleep", "600")
    worker = subprocess.Popen([sys.executable, "-m", "jobq", "--quiet", "worker", "start"])
    try:
        deadline = time.monotonic() + TIMEOUT
        while "jobq.queue.oldest_wait" not in (told := {name: metric for name, metric, _ in collector.metrics}):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        jobs = {
            (values(point)["messaging.destination.name"], values(point)["jobq.job.state"]): point.as_int
            for point in told["jobq.jobs"].gauge.data_points
        }
        assert jobs["later", "pending"] == jobs["default", "processing"] == 1
    finally:
        worker.send_signal(signal.SIGQUIT)
        assert worker.wait(TIMEOUT) == 143


def test_how_they_arrive_is_for_opentelemetrys_variable_to_say(collector, jobq_cli, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "CUMULATIVE")
    jobq_cli("add", "--", "true", process=True)
    assert counted(collector)["enqueued"][0] == CUMULATIVE


def test_without_a_setting_nothing_is_imported(run, monkeypatch):
    code = "import sys, runpy\nsys.argv = ['jobq', *sys.argv[1:]]\n"
    code += "try:\n    runpy.run_module('jobq', run_name='__main__')\n"
    code += "finally:\n    print('imported', *[m for m in sys.modules if 'telemetry' in m], file=sys.stderr)"

    def imported(*words):
        done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
        (line,) = [line for line in done.stderr.splitlines() if line.startswith("imported")]
        return set(line.split()[1:])

    deadline = time.monotonic() + TIMEOUT
    while imported("status"):  # until what is installed is remembered, and need not be looked at
        assert time.monotonic() < deadline
    assert imported("--quiet", "add", "traced") == set()
    assert imported("--quiet", "worker", "start", "--until-empty") == set()
    monkeypatch.setenv("JOBQ_OPENTELEMETRY_EXPORT", "console")
    assert "jobq_opentelemetry.enqueueing" in imported("--quiet", "add", "traced")


def test_a_collector_that_is_down_costs_no_job_and_no_exit_code(run, jobq_cli, monkeypatch):
    monkeypatch.setenv("JOBQ_OPENTELEMETRY_EXPORT", "otlp")
    job = run("speaks")
    assert job["state"] == "completed"
    assert jobq_cli("logs", job["id"]).stdout == "hello\n"
    answer = jobq_cli("add", "--", "true", process=True)
    told = [line for line in answer.stderr.splitlines() if "opentelemetry" in line]
    assert len(told) == 1
    assert "Connection refused" in told[0]


def test_a_collector_that_never_answers_is_not_waited_for(run, monkeypatch, jobq_home):
    monkeypatch.setenv("JOBQ_OPENTELEMETRY_EXPORT", "otlp")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "3600")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert run("speaks")["state"] == "completed"


def test_what_is_exported_to_the_console_never_goes_to_stdout(jobq_cli, monkeypatch):
    monkeypatch.setenv("JOBQ_OPENTELEMETRY_EXPORT", "console")
    answer = jobq_cli("--quiet", "add", "--id", "one", "--", "true", process=True)
    assert answer.stdout == "one\n"
    span, metrics = map(json.loads, answer.stderr.splitlines())
    assert span["name"] == "enqueue default"
    assert metrics["resource_metrics"]
