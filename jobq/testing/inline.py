"""A queue that runs jobs at once, in this process; and what a test asks of a queue."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

from jobq.app import App
from jobq.executor import Kind, Outcome
from jobq.handlers import Failed, Handler, Snoozed, load
from jobq.job import Job
from jobq.queue import Queue
from jobq.records import defaults_of
from jobq.store import Query
from jobq.testing.clock import FakeClock
from jobq.testing.executors import ScriptedExecutor
from jobq.testing.handling import RecordingContext, call
from jobq.testing.memory import MemoryStore
from jobq.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from jobq.clock import Clock
    from jobq.executor import Attempt
    from jobq.store import NewJob


class InlineQueue(Queue):
    """A queue in memory. What is due is run before `enqueue` returns, by a worker in this process.

    Handlers are called here, not in a child; what they enqueue runs after them. Commands are not started: they end as
    `commands` says. A job that fails is due again later: `clock.advance(…)`, then `run_due()`.

    Args:
        home: the home directory, for the output of attempts and for config.toml.
        clock: the time; None: a `FakeClock`.
        commands: how a command ends.

    Attributes:
        clock: the time.
        raised: what handlers raised, in order.
        contexts: the context of each call of a handler, in order.
    """

    def __init__(
        self,
        home: Path,
        *,
        clock: Clock | None = None,
        commands: Callable[[Job], Outcome] = lambda _job: Outcome(
            kind=Kind.CANNOT_START, reason="an inline queue starts no commands"
        ),
    ) -> None:
        self.clock = clock or FakeClock()
        executor = ScriptedExecutor(lambda job: self._handle if job.handler is not None else commands(job))
        super().__init__(App(home=str(home), clock=self.clock, store=MemoryStore(), executor=executor))
        self.raised: list[BaseException] = []
        self.contexts: list[RecordingContext] = []
        self._functions: dict[str, Callable[[Job, Any], Any]] = {}
        self._running = False

    def register(self, handler: Callable[[Job, Any], Any], name: str | None = None) -> None:
        """Have jobs of this handler name, that of the function where none is given, run by this function."""
        name = name or handler.__name__
        self._functions[name] = handler
        here = Handler(name=name, target=f"{handler.__module__}:{handler.__qualname__}", distribution="inline")
        self._app.handlers = {**self._app.handlers, name: here}

    def store_new(
        self,
        new: Sequence[NewJob],
        *,
        if_absent: bool = False,
        progress: Callable[[int], None] | None = None,
        connection: object = None,
    ) -> list[Job]:
        """Store jobs and run what is due; the jobs as they are then."""
        jobs = super().store_new(new, if_absent=if_absent, progress=progress, connection=connection)
        self.run_due()
        return [self.get(job.id) for job in jobs]

    def run_due(self) -> None:
        """Run everything that is due; what that enqueues, too."""
        if self._running:  # a handler enqueues: the worker that runs it is about to look again
            return
        self._running = True
        try:
            Worker(self._app, until="idle").run()
        finally:
            self._running = False

    def _handle(self, attempt: Attempt) -> Outcome:
        job = attempt.job
        context = RecordingContext(attempt=job.attempts + 1, run=job.run, queue=self, clock=self.clock)
        self.contexts.append(context)
        try:
            name = job.handler or ""
            handler = self._functions.get(name) or load(self._app.handlers[name].target)
            result = call(handler, job, context, result_limit=attempt.result_limit)
        except Snoozed as snoozed:
            return Outcome(kind=Kind.RELEASED, reason="snoozed", delay=snoozed.delay)
        except Failed as failed:
            return Outcome(kind=Kind.FAILURE, reason=failed.reason, permanent=not failed.retry)
        except (Exception, SystemExit) as error:
            self.raised.append(error)
            attempt.output.write(traceback.format_exc().encode())
            reason = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
            return Outcome(kind=Kind.FAILURE, reason=reason, exception=type(error).__name__)
        progress = context.progressed[-1] if context.progressed else None
        return Outcome(kind=Kind.SUCCESS, result=result, progress=progress)


def assert_enqueued(queue: Queue, /, *, count: int | None = None, **fields: Any) -> list[Job]:
    """The jobs in `queue`, in whatever state, whose fields have these values, in the order of `Queue.find`.

    Args:
        queue: where they must be.
        count: how many there must be; None: at least one.
        fields: of a job, as `jobq.Job` has them; a list counts as a tuple.

    Raises:
        AssertionError: there are not so many; it tells what there is.
        TypeError: a job has no such field.
    """
    for name in fields.keys() - defaults_of(Job).keys():
        raise TypeError(f"a job has no field {name!r}")
    jobs = list(queue.find(Query()))
    found = [job for job in jobs if all(_same(getattr(job, name), value) for name, value in fields.items())]
    if (not found) if count is None else (len(found) != count):
        wanted = ", ".join(f"{name}={value!r}" for name, value in fields.items()) or "any"
        there = "".join(f"\n  {job.id}: {_told(job, fields)}" for job in jobs) or " nothing"
        number = "no job" if not found else f"{len(found)} jobs"
        asked = "" if count is None else f" instead of {count}"
        raise AssertionError(f"{number}{asked} with {wanted}; there is:{there}")
    return found


def _same(value: Any, wanted: Any) -> bool:
    return bool((list(value) if isinstance(value, tuple) and isinstance(wanted, list) else value) == wanted)


def _told(job: Job, fields: dict[str, Any]) -> str:
    work = {"command": job.command} if job.handler is None else {"handler": job.handler, "payload": job.payload}
    shown = work | {name: getattr(job, name) for name in fields}
    return ", ".join(f"{name}={value!r}" for name, value in shown.items())
