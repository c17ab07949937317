"""Every error jobq raises on purpose: one tree, each class with its exit code and a message built from its facts.

The exit codes are those of the command line (docs/reference/exit-codes.md).
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import ClassVar


class JobqError(Exception):
    """The root of the tree. `exit_code` is what the command line exits with when it reaches the top."""

    exit_code: ClassVar[int] = 70


HIDDEN = object()
"""Stands for a value that an error does not show."""


class InvalidInput(JobqError):
    """Something a person or a program handed in breaks a rule; nothing of it was stored.

    Args:
        field: the name of the field or option at fault, or "" where the whole input is.
        value: the value that was refused, as given; HIDDEN where it may be a secret, or where there is none to show.
        rule: what it should have been.
        line: the 1-based number of the input line it came from, where there are several.
    """

    exit_code = 1

    def __init__(self, field: str, value: object, rule: str, *, line: int | None = None) -> None:
        self.field, self.value, self.rule, self.line = field, value, rule, line
        super().__init__(field, value, rule)

    def __str__(self) -> str:
        parts = [f"line {self.line}:" if self.line is not None else "", f"{_cut(self.field)}:" if self.field else ""]
        parts += ["" if self.value is HIDDEN else _shown(self.value), self.rule]
        return " ".join(part for part in parts if part)

    def at_line(self, line: int) -> InvalidInput:
        """The same error, told of line `line` of the input."""
        return InvalidInput(self.field, self.value, self.rule, line=line)


class Misuse(JobqError):
    """A command was called as it is not meant to be, and did nothing: it is told with how it is used."""

    exit_code = 1


class NotFound(JobqError):
    """There is no such job, worker, queue, key or run."""

    exit_code = 3


class JobNotFound(NotFound):
    """No job has this id. `hint`, where given, names a job that was perhaps meant."""

    def __init__(self, job_id: str, hint: str = "") -> None:
        self.job_id, self.hint = job_id, hint
        super().__init__(f"no job {_shown(job_id)}" + (f" ({hint})" if hint else ""))


class WorkerNotFound(NotFound):
    """No live worker has this id, name or pid; on this host, unless it was looked for `everywhere`."""

    def __init__(self, worker: str, *, everywhere: bool = False) -> None:
        self.worker = worker
        place = "" if everywhere else " on this host"
        super().__init__(f"no worker {_shown(worker)}{place}; `jobq worker list` shows them")


class UnknownKey(NotFound):
    """There is no such setting."""

    def __init__(self, key: str, hint: str = "") -> None:
        self.key = key
        super().__init__(f"no setting {_shown(key)}; " + (hint or "`jobq config list` shows all"))


class Conflict(JobqError):
    """The change does not fit what is stored: the job's state forbids it, or somebody was faster."""

    exit_code = 4


class DuplicateJob(Conflict):
    """Ids that are taken, or given twice in one call; nothing of the call was stored.

    `work` says what is done under them, where that is the point.
    """

    def __init__(self, ids: Iterable[str], work: str = "") -> None:
        self.ids = tuple(ids)
        with_work = f", with {work}" if work else ""
        listed = ", ".join(self.ids[:10]) + (f" and {len(self.ids) - 10} more" if len(self.ids) > 10 else "")
        exist = "exists" if len(self.ids) == 1 else "exist"
        super().__init__(f"job{'s' if len(self.ids) > 1 else ''} {listed} {exist} already{with_work}")


class WrongState(Conflict):
    """The job's state does not allow what was asked of it."""

    def __init__(self, job_id: str, state: str, verb: str, allowed: Sequence[str] = ()) -> None:
        self.job_id, self.state, self.verb = job_id, state, verb
        *others, last = allowed or ("",)
        wanted = f"{', '.join(others)} or {last}" if others else last
        super().__init__(f"cannot {verb} job {job_id}: it is {state}" + (f", not {wanted}" if allowed else ""))


class JobChanged(Conflict):
    """The job was changed by somebody else since it was read (its `rev` differs)."""

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(f"job {job_id} was changed by somebody else meanwhile")


class NoticeChanged(Conflict):
    """Another notice stands at a store's door than whoever would replace it saw there; it stands as it was."""

    def __init__(self, url: str) -> None:
        self.url = url
        super().__init__(
            f"the notice at the store {url} was changed by somebody else meanwhile: another move is about it"
        )


class NotEmpty(Conflict):
    """A store that a queue is to be moved to has jobs already."""

    def __init__(self, url: str, number: int) -> None:
        self.url, self.number = url, number
        what = "1 job is" if number == 1 else f"{number} jobs are"
        super().__init__(
            f"{what} in {url} already, and a queue moves to a store without any; "
            "`jobq export` and `jobq import` put one queue's jobs among another's"
        )


class StoreError(JobqError):
    """The store or the home cannot be used."""

    exit_code = 5


class StoreUnavailable(StoreError):
    """An operation of the store failed in the system below it: full, read-only, gone, no permission."""


class StoreLocked(StoreError):
    """Another process held the store's lock for longer than anything of jobq does."""


class StoreUnreadable(StoreError):
    """What is stored is damaged, foreign or truncated. It is never taken for an empty queue."""


class NewerFormat(StoreError):
    """What is stored was written by a newer jobq and could be harmed by this one."""


class StoreMoved(StoreError):
    """The store's jobs are elsewhere, or are being moved.

    Attributes:
        state, url: those of its `jobq.notices.Notice`.
        what: what the notice says, without what is to be done about it.
    """

    def __init__(self, state: str, url: str) -> None:
        self.state, self.url = state, url
        advice = "try again when that is done"
        if state == "left":
            self.what, advice = f"the queue has moved to {url}", f"use --store {url}"
        elif state == "leaving":
            self.what = f"the queue is being moved to {url}"
        else:
            self.what = f"jobs are being moved here from {url}"
        super().__init__(f"{self.what}; {advice}")


class UnsafeHome(StoreError):
    """A directory or file of the home is of another owner, open to others, or not of the kind it must be."""


class NotSupported(StoreError):
    """The platform or file system cannot keep jobq's promises."""


class PluginError(JobqError):
    """A plugin that was asked for is missing or broken."""

    exit_code = 6


class JobsUnsuccessful(JobqError):
    """A job that was waited for ended dead or cancelled."""

    exit_code = 7


class WaitTimeout(JobqError):
    """The time to wait ran out before the jobs had ended."""

    exit_code = 124


def _shown(value: object, limit: int = 80) -> str:
    if isinstance(value, os.PathLike):
        return str(value)  # one that was cut would say nothing
    try:
        text = repr(value)
    except ValueError:  # an integer of more digits than Python writes
        text = "…"
    return _cut(text, limit)


def _cut(text: str, limit: int = 80) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def described(error: BaseException) -> str:
    """Any error in one line: what it is called, and what it says."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own text fails too
        text = ""
    return f"{type(error).__name__}: {text}".rstrip(": ")


def traceback_of(error: BaseException) -> str:
    """Where an error was raised, and its causes, in as many lines as that takes."""
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()
