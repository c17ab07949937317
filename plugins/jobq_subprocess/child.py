"""A warm child: runs handlers, one job after the other, until its socket closes.

Executed as a file, `python -P child.py REQUESTS ANSWERS NOTES REGION`, so that nothing but the standard library and
what a job needs of jobq is imported; see jobq_subprocess.protocol for what it reads and writes.
"""

from __future__ import annotations

import fcntl
import functools
import json
import os
import signal
import sys
import time
from _thread import allocate_lock  # as threading.Lock, without the import of threading
from datetime import UTC, datetime
from typing import IO, TYPE_CHECKING, Any, TextIO

from jobq.handlers import Failed, HandlerContext, Snoozed, load
from jobq.job import Job
from jobq.started import StartedRuns

if TYPE_CHECKING:
    import asyncio
    import logging
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import FrameType

    from jobq.app import App
    from jobq.queue import Queue
    from jobq.wrapping import Wrapping

REASON_LIMIT = 1000
MAX_DEPTH = 100
"""As `jobq.strictjson.MAX_DEPTH`, which is not imported here."""
LEFTOVER_TASKS_SECONDS = 1.0
"""How long tasks that an async handler left behind may take to be cancelled."""

_FIONREAD = 0x541B  # of ioctl_tty(2)
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


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

        line = b"~" + _encode(Progress.of(done, total, note).record()).encode("utf-8", "replace") + b"\n"
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
        begin: called with a job's id and run before its handler is.
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
        begin: Callable[[str, int], None],
        memory: int | None = None,
        asked: Sequence[str] = (),
        wrapped: bool = False,
    ) -> None:
        self._targets, self._memory, self._asked = targets, memory, asked
        self._leftovers, self.say, self._begin = leftovers, say, begin
        self._pid = os.getpid()
        self._directory = os.getcwd()
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
            sys.stderr.write(f"jobq: {_described(error)}; attempts go without what plugins do around them\n")
            return None
        return wrapping

    def answer(self, request: Mapping[str, Any]) -> tuple[bytes, bool]:
        """Run one job: the JSON that tells what came of it, and whether the executor has to act on more than that."""
        job = Job.from_record(request["job"])
        _mark(job, request["slot"])
        self._begin(job.id, job.run)
        try:
            answer = self._run(job, request["limit"])
        except BaseException as error:  # an interrupt that came between two statements of ours
            answer = _failed(error)
        self._return()
        if os.getpid() != self._pid:  # a copy of this process that a handler has forked and that has come back from it
            _flush()
            os._exit(0)
        marks = b""
        if not _flush() or self._tasks_left or (self._memory is not None and _memory() > self._memory):
            marks += b'"retire":true,'
        if self._leftovers():
            marks += b'"left":true,'
        return b"{" + marks + answer + b"}", bool(marks)

    def _return(self) -> None:
        """Go back to where the child was started: a handler's own directory is not the next one's."""
        try:
            os.chdir(self._directory)
        except OSError:  # removed: there is nowhere to go back to
            return

    def _run(self, job: Job, limit: int) -> bytes:
        name = job.handler or ""
        handler = self._handlers.get(name)
        if handler is None:
            target = self._targets[name]
            try:
                handler = self._handlers[name] = load(target)
            except BaseException as error:
                _print_traceback(error)
                return _failure(f"ImportError: {target}: {_described(error)}", "ImportError")
        context = Context(self, job)
        try:
            value = self._call(handler, job, context)
        except SystemExit as error:
            return b'"result":null' if error.code in (None, 0) else _failed(error)
        except Snoozed as snoozed:
            return b'"released":%a' % snoozed.delay.total_seconds()
        except Failed as failed:
            return _failure(failed.reason, None, permanent=not failed.retry)
        except BaseException as error:
            _print_traceback(error)
            return _failed(error)
        finally:
            context.close()
        return _returned(value, limit)

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


def _returned(value: Any, limit: int) -> bytes:
    if value is None:
        return b'"result":null'
    try:
        encoded = _encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return _failure(f"the handler's result is no JSON: {_first_line(error)}", None)
    if len(encoded) > limit:
        return _failure(f"the handler's result has {len(encoded)} bytes of JSON; result-limit is {limit}", None)
    if encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH and _too_deep(value):
        return _failure(f"the handler's result is nested deeper than {MAX_DEPTH}", None)
    return b'"result":' + encoded


def _too_deep(value: Any) -> bool:
    level = _nested([value])
    for _ in range(MAX_DEPTH):
        level = _nested(item for found in level for item in (found.values() if isinstance(found, dict) else found))
    return bool(level)


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (dict, list, tuple))]


def _failed(error: BaseException) -> bytes:
    return _failure(_described(error), type(error).__name__)


def _failure(reason: str, exception: str | None, *, permanent: bool = False) -> bytes:
    clean = reason[:REASON_LIMIT].encode("utf-8", "replace").decode()
    message = {"failed": clean, "exception": exception} | ({"permanent": True} if permanent else {})
    return _encode(message)[1:-1].encode("utf-8", "replace")


def _described(error: BaseException) -> str:
    line = _first_line(error)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _first_line(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except BaseException as other:
        return f"(its text cannot be told: {type(other).__name__})"
    return lines[0] if lines else ""


def _print_traceback(error: BaseException) -> None:
    import traceback

    try:
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        traceback.print_exception(type(error), error, trace, file=sys.stderr)
    except BaseException:
        os.write(2, f"{type(error).__name__}, whose traceback cannot be printed\n".encode())


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


def _leftovers() -> bool:
    """Whether this process has living children; those that have died are reaped."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _prepare() -> None:
    """Adopt what handlers start, and let nothing that they print wait in a buffer, be it Python's or C's."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)  # type: ignore[union-attr]
    os.environ.setdefault("PYTHONUNBUFFERED", "1")
    if sys.platform != "linux":
        return
    import ctypes

    libc = ctypes.CDLL(None)
    libc.prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    try:
        libc.setvbuf(ctypes.c_void_p.in_dll(libc, "stdout"), None, 2, 0)  # _IONBF
    except ValueError:  # a C library without that symbol
        return


def _memory() -> int:
    """The bytes of memory that this process holds; where the system does not tell, the most it ever held."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _pipe_is_empty() -> bool:
    """Whether all that was printed has been read; False also where that cannot be told."""
    if sys.platform != "linux":
        return False
    count = bytearray(4)
    try:
        fcntl.ioctl(1, _FIONREAD, count)
    except OSError:
        return False
    return not any(count)


def serve(requests: IO[bytes], answers: int, notes: StartedRuns) -> None:
    """Take requests and answer them, until there are no more."""
    decode = json.JSONDecoder().decode
    lock = allocate_lock()

    def say(line: bytes) -> None:
        view = memoryview(line)
        with lock:
            while view:
                view = view[os.write(answers, view) :]

    greeting = decode(requests.readline().decode())
    sys.path[:0] = greeting["path"]
    child = Child(
        greeting["handlers"],
        _leftovers,
        say=say,
        begin=notes.note,
        memory=greeting["memory"],
        asked=greeting["asked"],
        wrapped=greeting["wrapped"],
    )
    say(b'{"ready":true}\n')
    while request := requests.readline():
        began = time.perf_counter_ns()
        answer, waits = child.answer(decode(request.decode()))
        # The pipe first, then the flag, which is set before anything is read from the pipe
        waits = waits or not _pipe_is_empty() or notes.flag
        say(b"%d%s %s\n" % ((time.perf_counter_ns() - began) // 1000, b"!" if waits else b"", answer))
        if waits:
            if not os.read(answers, 1):
                return
            notes.flag = False


def main() -> None:
    """Serve the sockets that the arguments name."""
    requests, answers, notes, region = map(int, sys.argv[1:5])
    for descriptor in (requests, answers):
        os.set_inheritable(descriptor, False)
    started = StartedRuns(notes, region)
    os.close(notes)
    _prepare()
    with open(requests, "rb", buffering=1 << 16) as file:
        serve(file, answers, started)


if __name__ == "__main__":
    main()
