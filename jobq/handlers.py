"""Handlers: Python callables that jobs name, and what a running one is given.

A handler comes from an entry point of the group `jobq.handlers` (name = handler name), or from the table `[handlers]`
of config.toml; the table wins. Handlers are listed without importing them and imported only in the process that runs
them: never is a string of a job imported.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from datetime import timedelta

from jobq.records import record
from jobq.times import MAX_DURATION

TYPE_CHECKING = False
if TYPE_CHECKING:
    import logging
    from collections.abc import Callable
    from datetime import datetime
    from typing import Any, NoReturn

    from jobq.job import Job


@record(frozen=True, kw_only=True)
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


class Snoozed(BaseException):
    """What ends a handler that called `context.snooze`.

    Attributes:
        delay: how long its job is to wait.
    """

    def __init__(self, delay: timedelta) -> None:
        super().__init__(f"snoozed for {delay}")
        self.delay = delay


class Failed(BaseException):
    """What ends a handler that called `context.fail`.

    Attributes:
        reason: one line.
        retry: whether another attempt may be made.
    """

    def __init__(self, reason: str, retry: bool) -> None:
        super().__init__(reason)
        self.reason, self.retry = reason, retry


class HandlerContext(ABC):
    """What a handler is given beside its job.

    Attributes:
        job: the job, as it was claimed.
        attempt: the number of this attempt: failed ones so far, plus one.
        run: the number of this run; lost and released runs count too.
    """

    job: Job
    attempt: int
    run: int

    @property
    @abstractmethod
    def log(self) -> logging.Logger:
        """A logger whose lines go to the attempt's output."""

    @property
    @abstractmethod
    def began(self) -> datetime:
        """When this attempt began (aware UTC)."""

    @property
    def deadline(self) -> datetime | None:
        """When this attempt will have taken too long (aware UTC); None without a timeout."""
        return None if self.job.timeout is None else self.began + self.job.timeout

    @abstractmethod
    def cancelled(self) -> bool:
        """Whether this attempt was asked to stop: by a cancel, a worker that does not wait, or its timeout.

        A handler that never asks is ended by the signal TERM. From its first call on, made in the main thread, one
        that asks is left to end by itself, for as long as `kill-grace` says; if it then returns, its job completes,
        unless its time was over.
        """

    @abstractmethod
    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Tell how far this attempt is, for whoever looks at the job; as often as one likes.

        Args:
            done: how much is done, at least 0, in a unit of the handler's own.
            total: how much there is to do; None where that is not known.
            note: what it is at; one line, of which 200 characters are kept.

        Raises:
            ValueError, TypeError: `done` or `total` is no such number.
        """

    def snooze(self, delay: timedelta | float) -> NoReturn:
        """End this attempt and have the job run again after `delay` (seconds); nothing is counted.

        Raises:
            Snoozed: which is no `Exception`, so that no handler takes it for an error.
            ValueError, TypeError: the delay is negative, too long, or none.
        """
        try:
            pause = delay if isinstance(delay, timedelta) else timedelta(seconds=delay)
        except OverflowError as error:
            raise ValueError(f"a delay of {delay} is none") from error
        if not timedelta() <= pause <= MAX_DURATION:
            raise ValueError(f"a delay of {delay} is none")
        raise Snoozed(pause)

    def fail(self, reason: str, *, retry: bool = False) -> NoReturn:
        """End this attempt as a failure with this reason, one line. Without `retry` the job is dead at once.

        Raises:
            Failed: which is no `Exception`.
        """
        raise Failed((str(reason).strip().splitlines() or ["failed"])[0], retry)

    @abstractmethod
    def enqueue(self, **fields: Any) -> Job:
        """Enqueue another job into the same store, as `Queue.enqueue` does; durable on return."""


def load(target: str) -> Callable[[Job, HandlerContext], Any]:
    """Import what `module:attribute` names.

    Raises:
        Exception: whatever importing it raises; TypeError where it is not callable.
    """
    module, _, attribute = target.partition(":")
    import importlib
    import operator

    handler = operator.attrgetter(attribute)(importlib.import_module(module))
    if not callable(handler):
        raise TypeError(f"{target} is not callable")
    return handler  # type: ignore[no-any-return]
