"""The table of the settings."""

from __future__ import annotations

from datetime import timedelta

from jobq.providers import Option

OPTIONS = (
    Option(
        name="postgresql.lease",
        kind="duration",
        default=timedelta(seconds=30),
        least=3,
        most=3600,
        help="How long a worker that the server does not hear of keeps its jobs from workers of other machines.",
    ),
)
