from datetime import timedelta

import pytest
from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode

from jobq import AttemptFailed, Kind, Outcome
from jobq.handlers import Failed, Snoozed
from jobq.testing import make_job
from jobq_opentelemetry import providers
from jobq_opentelemetry.attempts import AttemptSpan, Tracing

META = {"opentelemetry.traceparent": "00-0000000000000000000000000000abcd-00000000000000ef-01"}


def run(spans, job, error=None):
    """The span of an attempt that was left with `error`."""
    span = AttemptSpan(spans.tracer, job)
    span.__enter__()
    assert not span.__exit__(type(error) if error else None, error, None)
    return spans.one


def test_an_attempt_is_a_span_below_that_of_its_enqueue_with_a_link_to_it(spans):
    job = make_job("j1", handler="resize", queue="images", run=3, attempts=1, worker="w1", meta=META)
    span = run(spans, job)
    assert (span.name, span.kind) == ("process images", SpanKind.CONSUMER)
    assert (span.context.trace_id, span.parent.span_id) == (0xABCD, 0xEF)
    assert [(link.context.trace_id, link.context.span_id) for link in span.links] == [(0xABCD, 0xEF)]
    assert dict(span.attributes) == {
        "messaging.system": "jobq",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": "images",
        "messaging.message.id": "j1",
        "messaging.client.id": "w1",
        "jobq.job.handler": "resize",
        "jobq.job.run": 3,
        "jobq.job.attempt": 2,
        "jobq.outcome": "completed",
    }
    assert span.status.status_code is StatusCode.UNSET


def test_a_job_without_a_context_begins_a_trace(spans):
    with spans.tracer.start_as_current_span("left over") as other, AttemptSpan(spans.tracer, make_job(handler="h")):
        pass
    attempt, _ = spans.all
    assert attempt.parent is None
    assert attempt.links == ()
    assert attempt.context.trace_id != other.get_span_context().trace_id


def test_it_is_current_in_the_attempt_and_not_after_it(spans):
    before = contexts.get_current()
    with AttemptSpan(spans.tracer, make_job(handler="h")):
        spans.tracer.start_span("own").end()
        contexts.attach(contexts.set_value("left", "attached"))
    own, attempt = spans.all
    assert own.parent.span_id == attempt.context.span_id
    assert contexts.get_current() == before


def test_a_command_gets_its_context_and_a_handler_needs_no_variables(spans):
    with AttemptSpan(spans.tracer, make_job(meta=META)) as environment:
        pass
    context = spans.one.context
    assert environment == {
        "TRACEPARENT": f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"
    }
    with AttemptSpan(spans.tracer, make_job(handler="h")) as environment:
        pass
    assert environment is None


class Odd(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def failed(kind, **fields):
    return AttemptFailed(Outcome(kind=kind, **fields))


@pytest.mark.parametrize(
    ("error", "outcome", "kind", "reason"),
    [
        (ValueError("no such size"), "failed", "ValueError", "ValueError: no such size"),
        (Odd(), "failed", f"{__name__}.Odd", "Odd"),
        (SystemExit(3), "failed", "SystemExit", "SystemExit: 3"),
        (Failed("for good", False), "failed", "jobq.handlers.Failed", "for good"),
        (failed(Kind.FAILURE, reason="exit code 3", exit_code=3), "failed", "failed", "exit code 3"),
        (failed(Kind.TIMEOUT, reason="timed out after 5s"), "timeout", "timeout", "timed out after 5s"),
        (failed(Kind.SIGNAL), "signal", "signal", "signal"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_a_failure_is_an_error_of_the_span(spans, error, outcome, kind, reason):
    span = run(spans, make_job(handler="h"), error)
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, reason)
    assert (span.attributes["jobq.outcome"], span.attributes["error.type"]) == (outcome, kind)
    assert span.attributes.get("process.exit.code") == (3 if "exit code" in reason else None)


def test_an_exception_is_recorded_with_its_traceback(spans):
    try:
        raise ValueError("no such size")
    except ValueError as error:
        span = run(spans, make_job(handler="h"), error)
    (event,) = span.events
    assert event.attributes["exception.type"] == "ValueError"
    assert "test_attempts.py" in event.attributes["exception.stacktrace"]


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (Snoozed(timedelta(1)), "released"),
        (failed(Kind.RELEASED, reason="stopped"), "released"),
        (SystemExit(0), "completed"),
        (SystemExit(), "completed"),
    ],
)
def test_what_is_no_failure_is_no_error(spans, error, outcome):
    span = run(spans, make_job(handler="h"), error)
    assert span.status.status_code is StatusCode.UNSET
    assert span.attributes["jobq.outcome"] == outcome
    assert "error.type" not in span.attributes
    assert span.events == ()


def test_only_a_handlers_attempt_makes_the_provider_the_global_one(spans, settings, monkeypatch):
    made = []
    monkeypatch.setattr(trace, "set_tracer_provider", made.append)
    monkeypatch.setattr(providers.telling, "install", lambda quiet: None)
    with Tracing(settings).around(make_job()):
        pass
    assert made == []
    with Tracing(settings).around(make_job(handler="h")):
        pass
    assert made == [spans.provider]


def test_a_provider_that_handlers_have_set_up_stays(spans, program, settings, monkeypatch):
    monkeypatch.setattr(trace, "set_tracer_provider", lambda provider: pytest.fail("it was replaced"))
    with Tracing(settings).around(make_job(handler="h")):
        pass
    assert program.one.name == "process default"
    assert spans.all == ()
