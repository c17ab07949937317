"""Runs a handler as a worker's child would, in this process and at once, and keeps what it asked of its context."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jobq.handlers import HandlerContext
from jobq.job import Job, State, new_id
from jobq.progress import Progress
from jobq.spec import Intake
from jobq.strictjson import MAX_DEPTH, is_too_deep
from jobq.testing.builders import make_settings
from jobq.testing.clock import FakeClock

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from datetime import datetime

    from jobq.clock import Clock
    from jobq.queue import Queue


class RecordingContext(HandlerContext):
    """A handler's context that keeps what is asked of it.

    Args:
        attempt: the number of the attempt, from 1.
        run: that of the run, at least as high; None: the same.
        stopped: what `cancelled()` answers with.
        queue: where `enqueue` puts jobs; None: they are only kept here.
        clock: what `deadline` is reckoned from.

    Attributes:
        job: the job that is handled, from `run_now` on.
        progressed: what the handler told of its progress.
        logged: the messages that it logged at INFO or above.
        enqueued: the jobs that it enqueued.
    """

    def __init__(
        self,
        *,
        attempt: int = 1,
        run: int | None = None,
        stopped: bool = False,
        queue: Queue | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.job = Job(id="none", handler="none")
        self.attempt, self.run, self.stopped = attempt, run or attempt, stopped
        self.progressed: list[Progress] = []
        self.logged: list[str] = []
        self.enqueued: list[Job] = []
        self._queue, self._clock = queue, clock or FakeClock()
        self._began = self._clock.now()
        self._log = logging.Logger("jobq.handler", logging.INFO)  # noqa: LOG001 - it keeps what this handler says alone
        self._log.parent = logging.getLogger()
        self._log.addFilter(self._keep)

    @property
    def log(self) -> logging.Logger:
        return self._log

    @property
    def began(self) -> datetime:
        return self._began

    def cancelled(self) -> bool:
        return self.stopped

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        self.progressed.append(Progress.of(done, total, note))

    def enqueue(self, **fields: Any) -> Job:
        """Keep a job that the handler enqueues, checked as every other one.

        Raises:
            InvalidInput: a field breaks a rule.
        """
        if self._queue is not None:
            job = self._queue.enqueue(**fields)
        else:
            job = Intake(make_settings(), now=self._clock.now(), directory=None).job(fields, handlers=None).job
        self.enqueued.append(job)
        return job

    def _keep(self, record: logging.LogRecord) -> bool:
        self.logged.append(record.getMessage())
        return True


def run_now(
    handler: Callable[[Job, Any], Any],
    payload: Any = None,
    *,
    context: RecordingContext | None = None,
    **fields: Any,
) -> Any:
    """Call a handler with a job as a worker's child would, and answer with its result.

    The payload and the result go through JSON, as they do on their way through a store. An async handler is run to
    its end in a loop of its own.

    Args:
        handler: the function.
        payload: the job's; None: `{}`.
        context: what the handler is given, to be looked at afterwards; None: a fresh one.
        fields: other fields of the job, as `Queue.enqueue` takes them.

    Raises:
        InvalidInput: a field of the job breaks a rule.
        ValueError, TypeError: the result is no JSON, too large or too deep: the attempt would fail.
        Snoozed, Failed: the handler called `context.snooze` or `context.fail`.
        BaseException: whatever the handler raised. Only `SystemExit` with 0 or None is a success, with result None.
    """
    context = context or RecordingContext()
    name = getattr(handler, "__name__", "handler")
    spec = {"handler": name if name.isidentifier() else "handler", "payload": {} if payload is None else payload}
    settings = make_settings()
    now = context.began
    job = replace(
        Intake(settings, now=now, directory=None).job(spec | fields, handlers=None).job,
        state=State.PROCESSING,
        attempts=context.attempt - 1,
        run=context.run,
        worker=new_id(),
        started_at=now,
    )
    return call(handler, job, context, result_limit=settings["result-limit"])


def call(
    handler: Callable[[Job, Any], Any], job: Job, context: RecordingContext, *, result_limit: int = 1 << 20
) -> Any:
    """As `run_now`, for a job that is claimed already; `result_limit` is in bytes.

    Raises:
        ValueError: the result is larger than that, or nested too deep.
        BaseException: as there.
    """
    context.job = Job.from_record(json.loads(json.dumps(job.record(), allow_nan=False)))
    try:
        result = handler(context.job, context)
        if hasattr(result, "__await__"):
            import asyncio

            result = asyncio.run(_awaited(result))
    except SystemExit as error:
        if error.code in (None, 0):
            return None
        raise
    encoded = json.dumps(result, allow_nan=False, ensure_ascii=False)
    if len(encoded.encode()) > result_limit:
        raise ValueError(
            f"the handler's result has {len(encoded.encode())} bytes of JSON; result-limit is {result_limit}"
        )
    if is_too_deep(result):
        raise ValueError(f"the handler's result is nested deeper than {MAX_DEPTH}")
    return json.loads(encoded)


async def _awaited(awaitable: Awaitable[Any]) -> Any:
    return await awaitable
