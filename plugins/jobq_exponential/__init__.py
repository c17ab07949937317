"""The bundled plugin `exponential`: the default backoff, each wait a multiple of the one before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.hooks import hookimpl
from jobq.providers import Provider

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.backoff import Backoff
    from jobq.providers import Context
    from jobq.settings import Settings


@hookimpl
def jobq_backoffs() -> Iterable[Provider[Backoff]]:
    """The backoff `exponential`."""
    return [Provider(name="exponential", summary="each wait a multiple of the one before, with jitter", make=_make)]


def _make(settings: Settings, context: Context) -> Backoff:  # noqa: ARG001 - a backoff needs no home
    from jobq_exponential.backoff import ExponentialBackoff

    return ExponentialBackoff(settings)
