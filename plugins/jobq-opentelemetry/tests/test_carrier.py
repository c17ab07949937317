import pytest
from opentelemetry import baggage, trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, TraceState

from jobq_opentelemetry import carrier

SPAN = SpanContext(0x1234, 0x56, is_remote=False, trace_flags=TraceFlags(1), trace_state=TraceState([("a", "1")]))
PARENT = "00-00000000000000000000000000001234-0000000000000056-01"


@pytest.fixture
def context():
    context = trace.set_span_in_context(NonRecordingSpan(SPAN), Context())
    return baggage.set_baggage("who", "me", context)


def test_a_context_goes_into_meta_and_comes_back(context):
    meta = carrier.to_meta(context)
    assert meta == {"traceparent": PARENT, "tracestate": "a=1", "baggage": "who=me"}
    back = carrier.from_meta({f"opentelemetry.{key}": value for key, value in meta.items()} | {"other": 1})
    span = trace.get_current_span(back).get_span_context()
    assert (span.trace_id, span.span_id, span.trace_flags) == (0x1234, 0x56, 1)
    assert span.trace_state == SPAN.trace_state
    assert baggage.get_baggage("who", back) == "me"


def test_what_is_too_long_for_meta_is_left_out(context):
    context = baggage.set_baggage("long", "x" * carrier.LONGEST, context)
    assert set(carrier.to_meta(context)) == {"traceparent", "tracestate"}


@pytest.mark.parametrize(
    "value", [None, 7, "", "x", "\0", "00-0-0-0", ["00"], {"a": 1}, "é" * 3000], ids=lambda value: str(value)[:9]
)
def test_meta_may_hold_anything(value):
    fields = ("traceparent", "tracestate", "baggage", "")
    context = carrier.from_meta({f"opentelemetry.{field}": value for field in fields})
    assert not trace.get_current_span(context).get_span_context().is_valid


def test_nothing_of_this_process_is_taken_for_a_jobs(context):
    from opentelemetry import context as contexts

    token = contexts.attach(context)
    try:
        assert not trace.get_current_span(carrier.from_meta({})).get_span_context().is_valid
    finally:
        contexts.detach(token)


def test_a_context_goes_into_the_environment_and_comes_back(context):
    environment = carrier.to_environment(context, {})
    assert environment == {"TRACEPARENT": PARENT, "TRACESTATE": "a=1", "BAGGAGE": "who=me"}
    span = trace.get_current_span(carrier.from_environment(environment)).get_span_context()
    assert (span.trace_id, span.span_id) == (0x1234, 0x56)


def test_what_the_environment_has_of_another_trace_is_not_mixed_in():
    context = trace.set_span_in_context(NonRecordingSpan(SpanContext(1, 2, is_remote=False)), Context())
    environment = carrier.to_environment(context, {"TRACEPARENT": PARENT, "TRACESTATE": "b=2", "BAGGAGE": "who=you"})
    assert environment["TRACEPARENT"].startswith("00-00000000000000000000000000000001-")
    assert environment["TRACESTATE"] == environment["BAGGAGE"] == ""
