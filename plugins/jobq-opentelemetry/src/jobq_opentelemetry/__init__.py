"""The plugin `opentelemetry`: traces and metrics of jobs, by OpenTelemetry; without a setting of it nothing is loaded.

The hooks are here; what they do is imported when they are called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import hookimpl
from jobq.providers import Option, Provider

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import click

    from jobq.events import Event
    from jobq.job import Job
    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.wrapping import AttemptWrapper

__version__ = "0.1.0"


@hookimpl
def jobq_options() -> Iterable[Option]:
    """The settings `opentelemetry.export` and `opentelemetry.prometheus`."""
    return [
        Option(
            name="opentelemetry.export",
            kind="text",
            default=None,
            choices=("otlp", "console"),
            activates=True,
            help="Where spans and metrics go: otlp, to what the OTEL_EXPORTER_OTLP_ variables name; console, stderr.",
        ),
        Option(
            name="opentelemetry.prometheus",
            kind="text",
            default=None,
            activates=True,
            help="HOST:PORT at which a worker serves its metrics to Prometheus, as 127.0.0.1:9464.",
        ),
    ]


@hookimpl
def jobq_meta(new: Job, settings: Settings) -> Mapping[str, str] | None:
    """The trace context of a new job, for its attempts to go on with."""
    from jobq_opentelemetry.enqueueing import annotate

    return annotate(new, settings)


@hookimpl
def jobq_wrappers() -> Iterable[Provider[AttemptWrapper]]:
    """A span around every attempt."""

    def make(settings: Settings, _context: Context) -> AttemptWrapper:
        from jobq_opentelemetry.attempts import Tracing

        return Tracing(settings)

    return [Provider(name="opentelemetry", summary="a span around every attempt", make=make)]


@hookimpl
def jobq_notify(event: Event, settings: Settings) -> None:
    """Count events and measure attempts."""
    from jobq_opentelemetry.metrics import METRICS

    METRICS.tell(event, settings)


@hookimpl
def jobq_commands() -> Iterable[click.Command]:
    """The command `jobq metrics`."""
    from jobq_opentelemetry.command import metrics_command

    return [metrics_command]
