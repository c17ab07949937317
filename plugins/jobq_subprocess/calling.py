"""Calls handlers in a child process, one job after the other, and makes answers of what comes of it."""

from __future__ import annotations

import functools
import os
import signal
import sys
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TextIO

from jobq.handlers import Failed, HandlerContext, Snoozed, load
from jobq.job import Job
from jobq_subprocess.answers import described, encode, failed, failure, print_traceback, returned
from jobq_subprocess.standing import Standing

if TYPE_CHECKING:
    import asyncio
    import logging
    from collections.abc import Callable, Mapping, Sequence
    from types import FrameType

    from jobq.app import App
    from jobq.queue import Queue
    from jobq.wrapping import Wrapping

LEFTOVER_TASKS_SECONDS = 1.0
"""How long tasks that an async handler left behind may take to be cancelled."""


class Context(HandlerContext):
    """The context of a handler in this process."""

    def __init__(self, child: Child, job: Job) -> None:
        self.job = job
        self.attempt = job.attempts + 1
        self.run = job.run
        self._child = child
        self._began = time.time()
        self._over = False
        self._stopped: bool | None = None  # None: nobody has asked yet

    @functools.cached_property
    def log(self) -> logging.Logger:
        return _logger()

    @property
    def began(self) -> datetime:
        return datetime.fromtimestamp(self._began, UTC)

    def cancelled(self) -> bool:
        if self._stopped is None:
            self._stopped = False
            try:
                signal.signal(signal.SIGTERM, self._stop)
            except ValueError:  # not in the main thread, where signals arrive
                self._stopped = None
                return False
        return self._stopped

    def _stop(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self._stopped = True

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        from jobq.progress import Progress

        line = b"~" + encode(Progress.of(done, total, note).record()).encode("utf-8", "replace") + b"\n"
        if not self._over:
            self._child.say(line)

    def enqueue(self, **fields: Any) -> Job:
        return self._child.queue.enqueue(**fields)

    def close(self) -> None:
        """The handler is over: nothing is told for it any more."""
        self._over = True
        if self._stopped is not None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL if not self._stopped else signal.SIG_IGN)


class Child:
    """Runs the handlers of one child process.

    Args:
        targets: what is imported for each handler's name.
        leftovers: whether children of this process are there.
        say: sends a line to the executor.
        begin: called with each job before its handler is.
        memory: the bytes that this process may hold after an attempt to be given another one; None: any.
        asked: what `-p` said.
        wrapped: whether plugins do something around attempts.
    """

    def __init__(
        self,
        targets: Mapping[str, str],
        leftovers: Callable[[], bool],
        *,
        say: Callable[[bytes], None],
        begin: Callable[[Job], None],
        memory: int | None = None,
        asked: Sequence[str] = (),
        wrapped: bool = False,
    ) -> None:
        self._targets, self._memory, self._asked = targets, memory, asked
        self._leftovers, self.say, self._begin = leftovers, say, begin
        self._pid = os.getpid()
        self._standing = Standing()
        self._handlers: dict[str, Callable[[Job, Any], Any]] = {}
        self._runner: asyncio.Runner | None = None
        self._tasks_left = False
        self._wrapping = self._made_wrapping() if wrapped else None

    @functools.cached_property
    def _app(self) -> App:
        """What this process's environment names, with the plugins of the worker."""
        from jobq.app import App

        return App(plugins=self._asked)

    @functools.cached_property
    def queue(self) -> Queue:
        """The queue that this process's environment names."""
        from jobq.queue import Queue

        return Queue(self._app)

    def _made_wrapping(self) -> Wrapping | None:
        """What plugins do around attempts. Where plugins cannot be loaded here, attempts go without."""
        try:
            wrapping = self._app.wrapping
            if wrapping is not None:
                wrapping.make()
        except Exception as error:
            sys.stderr.write(f"jobq: {described(error)}; attempts go without what plugins do around them\n")
            return None
        return wrapping

    def answer(self, request: Mapping[str, Any]) -> tuple[bytes, bool]:
        """Run one job: the JSON that tells what came of it, and whether the executor has to act on more than that."""
        job = Job.from_record(request["job"])
        _mark(job, request["slot"])
        self._begin(job)
        try:
            answer = self._run(job, request["limit"])
        except BaseException as error:  # an interrupt that came between two statements of ours
            answer = failed(error)
        as_before = self._standing.restore()
        if os.getpid() != self._pid:  # a copy of this process that a handler has forked and that has come back from it
            _flush()
            os._exit(0)
        marks = b""
        if not (_flush() and as_before) or self._tasks_left or (self._memory is not None and _memory() > self._memory):
            marks += b'"retire":true,'
        if self._leftovers():
            marks += b'"left":true,'
        return b"{" + marks + answer + b"}", bool(marks)

    def _run(self, job: Job, limit: int) -> bytes:
        name = job.handler or ""
        handler = self._handlers.get(name)
        if handler is None:
            target = self._targets[name]
            try:
                handler = self._handlers[name] = load(target)
            except BaseException as error:
                print_traceback(error, without=__file__)
                return failure(f"ImportError: {target}: {described(error)}", "ImportError")
        context = Context(self, job)
        try:
            value = self._call(handler, job, context)
        except SystemExit as error:
            return b'"result":null' if error.code in (None, 0) else failed(error)
        except Snoozed as end:
            return b'"released":%a' % end.delay.total_seconds()
        except Failed as end:
            return failure(end.reason, None, permanent=not end.retry)
        except BaseException as error:
            print_traceback(error, without=__file__)
            return failed(error)
        finally:
            context.close()
        return returned(value, limit)

    def _call(self, handler: Callable[[Job, Any], Any], job: Job, context: Context) -> Any:
        if self._wrapping is None:
            return self._called(handler, job, context)
        entered = self._wrapping.enter(job)
        try:
            value = self._called(handler, job, context)
        except BaseException as error:
            entered.leave(error)
            raise
        entered.leave(None)
        return value

    def _called(self, handler: Callable[[Job, Any], Any], job: Job, context: Context) -> Any:
        value = handler(job, context)
        return self._await(value) if hasattr(value, "__await__") else value

    def _await(self, awaitable: Any) -> Any:
        import asyncio
        import contextvars

        if self._runner is None:
            self._runner = asyncio.Runner()
        return self._runner.run(self._awaited(awaitable), context=contextvars.copy_context())

    async def _awaited(self, awaitable: Any) -> Any:
        import asyncio

        try:
            return await awaitable
        finally:
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            for task in rest:
                task.cancel()
            if rest:
                _, pending = await asyncio.wait(rest, timeout=LEFTOVER_TASKS_SECONDS)
                self._tasks_left = bool(pending)


def _mark(job: Job, slot: int) -> None:
    """Make what this process starts from now on carry the job's marker."""
    environ = os.environ
    environ["JOBQ_JOB_ID"] = job.id
    environ["JOBQ_RUN"] = str(job.run)
    environ["JOBQ_ATTEMPT"] = str(job.attempts + 1)
    environ["JOBQ_QUEUE"] = job.queue
    environ["JOBQ_SLOT"] = str(slot)


def _flush() -> bool:
    """Bring out what was printed; False where a handler has closed the streams of this process."""
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:
            setattr(sys, name, getattr(sys, f"__{name}__"))
    return not (_closed(sys.__stdout__) or _closed(sys.__stderr__))


def _closed(stream: TextIO | None) -> bool:
    return stream is None or stream.closed


@functools.cache
def _logger() -> logging.Logger:
    import logging

    logger = logging.getLogger("jobq.handler")
    lines = logging.StreamHandler(sys.stderr)
    lines.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logger.addHandler(lines)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    return logger


def _memory() -> int:
    """The bytes of memory that this process holds; where the system does not tell, the most it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
