"""The trace context of a job: kept in its `meta`, handed to its command in the environment.

Which fields there are is for the configured propagator to say (`OTEL_PROPAGATORS`); by default they are
`traceparent`, `tracestate` and `baggage`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from opentelemetry import propagate
from opentelemetry.context import Context

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "opentelemetry."
"""What the keys of this plugin begin with in a job's `meta`."""

LONGEST = 1024
"""Characters; a longer field is left out, since all of a job's `meta` has room for 4 KiB."""


def to_meta(context: Context) -> dict[str, str]:
    """What is to be kept of a context, by the names of its fields."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    return {name.lower(): value for name, value in carrier.items() if len(value) <= LONGEST}


def is_in_meta(meta: Mapping[str, Any]) -> bool:
    """Whether a job brings a context with it."""
    return any(key.startswith(PREFIX) for key in meta)


def from_meta(meta: Mapping[str, Any]) -> Context:
    """The context that a job was enqueued in; an empty one where it has none that can be read."""
    carrier = {
        key.removeprefix(PREFIX): value
        for key, value in meta.items()
        if key.startswith(PREFIX) and isinstance(value, str)
    }
    return propagate.extract(carrier, context=Context())


def to_environment(context: Context, environ: Mapping[str, str]) -> dict[str, str]:
    """A context as variables; one of another context that stands in `environ` is made empty."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier, context)
    stale = (_variable(field) for field in propagate.get_global_textmap().fields)
    return {name: "" for name in stale if name in environ} | {_variable(key): value for key, value in carrier.items()}


def from_environment(environ: Mapping[str, str]) -> Context:
    """The context that the variables of a process name; an empty one where they name none."""
    fields = propagate.get_global_textmap().fields
    carrier = {field: environ[name] for field in fields if environ.get(name := _variable(field))}
    return propagate.extract(carrier, context=Context())


def _variable(field: str) -> str:
    """As OpenTelemetry's specification of environment variables as carriers has it: `traceparent` is TRACEPARENT."""
    return re.sub(r"[^A-Z0-9_]", "_", field.upper())
