import pytest
from opentelemetry import baggage, trace
from opentelemetry import context as contexts
from opentelemetry.trace import SpanKind

from jobq.testing import make_job
from jobq_opentelemetry.enqueueing import annotate

PARENT = "00-0000000000000000000000000000abcd-00000000000000ef-01"


def traceparent(span):
    return f"00-{span.context.trace_id:032x}-{span.context.span_id:016x}-{span.context.trace_flags:02x}"


def test_an_enqueue_is_a_span_whose_context_goes_with_the_job(spans, settings):
    meta = annotate(make_job("j1", handler="resize", queue="images"), settings)
    span = spans.one
    assert meta == {"traceparent": traceparent(span)}
    assert (span.name, span.kind, span.parent) == ("enqueue images", SpanKind.PRODUCER, None)
    assert dict(span.attributes) == {
        "messaging.system": "jobq",
        "messaging.operation.name": "enqueue",
        "messaging.operation.type": "create",
        "messaging.destination.name": "images",
        "messaging.message.id": "j1",
        "jobq.job.handler": "resize",
    }


def test_nothing_of_a_command_or_a_payload_is_told(spans, settings):
    annotate(
        make_job(command="curl -H 'secret'", payload={"secret": 1}, env={"A": "secret"}, tags=("secret",)), settings
    )
    assert "secret" not in spans.one.to_json()


def test_the_programs_provider_and_current_span_are_used(spans, program, settings):
    with program.tracer.start_as_current_span("request"):
        meta = annotate(make_job(), settings)
    enqueue, request = program.all
    assert enqueue.parent.span_id == request.context.span_id
    assert meta["traceparent"] == traceparent(enqueue)
    assert spans.all == ()


def test_no_provider_of_this_plugin_gets_in_the_programs_way(spans, settings):
    annotate(make_job(), settings)
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def test_a_context_that_the_job_brings_stays_alone(spans, settings):
    assert annotate(make_job(meta={"opentelemetry.traceparent": PARENT}), settings) is None
    assert spans.all == ()


def test_a_command_goes_on_with_the_trace_of_its_environment(spans, settings, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", PARENT)
    annotate(make_job(), settings)
    assert (spans.one.context.trace_id, spans.one.parent.span_id) == (0xABCD, 0xEF)


def test_a_program_that_traces_does_not(program, settings, monkeypatch):
    monkeypatch.setenv("TRACEPARENT", PARENT)
    annotate(make_job(), settings)
    assert program.one.parent is None


def test_baggage_goes_with_the_job(program, settings):
    token = contexts.attach(baggage.set_baggage("tenant", "t1"))
    try:
        assert annotate(make_job(), settings)["baggage"] == "tenant=t1"
    finally:
        contexts.detach(token)


@pytest.mark.parametrize(
    ("name", "value"), [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")], ids=["disabled", "none"]
)
def test_opentelemetrys_own_switches_hold(unmade, settings, monkeypatch, name, value):
    monkeypatch.setenv(name, value)
    assert annotate(make_job(), settings) == {}


def test_a_trace_goes_through_where_nothing_is_exported(unmade, settings, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    monkeypatch.setenv("TRACEPARENT", PARENT)
    assert annotate(make_job(), settings) == {"traceparent": PARENT}
