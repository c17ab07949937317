"""Handlers: Python callables that jobs name, and what a running one is given.

A handler comes from an entry point of the group `jobq.handlers` (name = handler name), or from the table `[handlers]`
of config.toml; the table wins. Handlers are listed without importing them and imported only in the process that runs
them: never is a string of a job imported.
"""

from __future__ import annotations

import importlib
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from jobq.job import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Handler:
    """An installed handler.

    Attributes:
        name: what jobs call it.
        target: `module:attribute`.
        distribution: the name and version of what installed it, or `config.toml`.
    """

    name: str
    target: str
    distribution: str


class HandlerContext(Protocol):
    """What a handler is given beside its job.

    Attributes:
        job: the job, as it was claimed.
        attempt: the number of this attempt: failed ones so far, plus one.
        run: the number of this run; lost and released runs count too.
        log: a logger whose lines go to the attempt's output.
    """

    job: Job
    attempt: int
    run: int

    @property
    def log(self) -> logging.Logger: ...

    def enqueue(
        self,
        *,
        handler: str | None = None,
        command: str | list[str] | None = None,
        payload: Any = None,
        delay: timedelta | float | None = None,
        run_at: datetime | None = None,
        **fields: Any,
    ) -> Job:
        """Enqueue another job into the same store, as `Queue.enqueue` does; durable on return."""


def load(target: str) -> Callable[[Job, HandlerContext], Any]:
    """Import what `module:attribute` names.

    Raises:
        Exception: whatever importing it raises; TypeError where it is not callable.
    """
    module, _, attribute = target.partition(":")
    handler = operator.attrgetter(attribute)(importlib.import_module(module))
    if not callable(handler):
        raise TypeError(f"{target} is not callable")
    return handler  # type: ignore[no-any-return]
