"""Outcomes in the words that people read: of a process's status, of a start that failed."""

from __future__ import annotations

import errno
import os
import signal
from datetime import timedelta
from typing import TYPE_CHECKING

from jobq.executor import Kind, Outcome
from jobq.times import format_duration
from jobq_subprocess.environment import encode

if TYPE_CHECKING:
    from datetime import datetime

    from jobq.job import Job

RETURNED_FOR = timedelta(seconds=5)
"""How long a job that this machine had no room to start is handed back for."""

_KILLED = (-signal.SIGKILL, 128 + signal.SIGKILL)  # the second is what a shell says whose last command was killed

UNBEGUN = Outcome(kind=Kind.RELEASED, reason="a signal ended it before it began")
"""It was killed between fork and exec, by the terminal or by somebody who kills the whole group of the worker."""

NO_ROOM = frozenset({errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE})


def of_status(status: int, *, command: bool, tail: str, finished: datetime | None, memory_kills: int = 0) -> Outcome:
    """How a process ended: `status` as subprocess has it, negative for a signal.

    Of a handler (not `command`) no exit code is told, and that it ended by itself is a failure in any case.
    `memory_kills` is how many processes the kernel has killed meanwhile for want of memory, this one perhaps among them.
    """
    why = " (out of memory?)" if memory_kills and status in _KILLED else ""
    if status < 0:
        reason = f"signal {_signal_name(-status)}{why}"
        return Outcome(kind=Kind.SIGNAL, reason=reason, tail=tail, finished=finished)
    if not command:
        reason = f"the handler's process ended, exit code {status}"
        return Outcome(kind=Kind.FAILURE, reason=reason, tail=tail, finished=finished)
    if status:
        reason = f"exit code {status}{why}"
        return Outcome(kind=Kind.FAILURE, reason=reason, exit_code=status, tail=tail, finished=finished)
    return Outcome(kind=Kind.SUCCESS, exit_code=0, tail=tail, finished=finished)


def of_timeout(job: Job, *, tail: str, finished: datetime | None) -> Outcome:
    """The attempt took longer than its job allows."""
    limit = format_duration(job.timeout or timedelta())
    return Outcome(kind=Kind.TIMEOUT, reason=f"timed out after {limit}", tail=tail, finished=finished)


def of_start(error: Exception, job: Job) -> Outcome:
    """What `Popen` raised.

    What is wrong with the job cannot be started, ever. That the machine has no room (too many processes or files, no
    memory) says nothing about the job: it is handed back for a while.
    """
    if not isinstance(error, OSError):
        return Outcome(kind=Kind.CANNOT_START, reason=f"cannot be started: {error}")
    if error.errno in NO_ROOM:
        return no_room(error)
    if error.errno == errno.ETXTBSY:
        return Outcome(kind=Kind.FAILURE, reason=f"cannot be started: {error.strerror}")
    return Outcome(kind=Kind.CANNOT_START, reason=_why(error, job))


def of_fault(error: Exception, *, tail: str = "", finished: datetime | None = None) -> Outcome:
    """What kept an attempt from being watched: no room on this machine, or a fault of this package."""
    if isinstance(error, OSError) and error.errno in NO_ROOM:
        return no_room(error)
    return Outcome(kind=Kind.FAILURE, reason=fault(error), tail=tail, finished=finished)


def fault(error: Exception) -> str:
    """A fault of this package in words."""
    return f"executor failed: {type(error).__name__}: {error}"


def no_room(error: Exception) -> Outcome:
    """What there is no room for now (processes, threads, files, disk): the job is handed back for a while."""
    why = error.strerror if isinstance(error, OSError) else str(error)
    return Outcome(kind=Kind.RELEASED, reason=f"this machine has no room for it: {why}", delay=RETURNED_FOR)


def _why(error: OSError, job: Job) -> str:
    name = error.filename if error.filename is not None else b""
    name = name if isinstance(name, bytes) else encode(str(name))
    absent = error.errno in (errno.ENOENT, errno.ENOTDIR)
    if job.cwd is not None and name == encode(job.cwd) and not os.access(name, os.X_OK):
        return f"{'no such' if absent else 'cannot enter'} directory: {_shown(name)}"
    if absent and not os.path.exists(name):
        return f"no such file: {_shown(name)}"
    if absent or error.errno in (errno.EACCES, errno.ENOEXEC, errno.EISDIR):
        return f"not executable: {_shown(name)}"
    return f"cannot be started: {error.strerror}"


def _shown(name: bytes) -> str:
    """A file name in one line of at most 500 characters."""
    text = name.decode("utf-8", "replace")
    return (text if text.isprintable() else text.encode("unicode_escape").decode("ascii"))[:500]


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
