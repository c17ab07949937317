"""The tutorial's plugin: a store that is one JSON document, a backoff that never grows, and a notifier that shouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import Provider, hookimpl
from jobq_example.fixed import WAIT, Fixed
from jobq_example.shout import FILE, jobq_notify

if TYPE_CHECKING:
    from jobq import Backoff, Context, Option, Settings, Store

__all__ = ["jobq_backoffs", "jobq_notify", "jobq_options", "jobq_stores"]

__version__ = "0.1.0"


@hookimpl
def jobq_stores() -> list[Provider[Store]]:
    """The store `document`."""

    def make(settings: Settings, context: Context) -> Store:
        from jobq_example.store import open_document

        return open_document(settings, context)

    return [Provider(name="document", summary="jobs in one JSON document, for small queues", make=make)]


@hookimpl
def jobq_backoffs() -> list[Provider[Backoff]]:
    """The backoff `fixed`."""
    return [Provider(name="fixed", summary="always the same wait", make=lambda settings, context: Fixed(settings))]


@hookimpl
def jobq_options() -> list[Option]:
    """The settings `fixed.wait` and `shout.file`."""
    return [WAIT, FILE]
