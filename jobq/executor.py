"""The executor's interface: runs one attempt of a job and tells how it ended.

An executor starts, stops and cleans up; it decides nothing about the job. What an outcome makes of a job is
`jobq.lifecycle`'s to say.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum

from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta
    from pathlib import Path
    from typing import Any

    from jobq.job import Job
    from jobq.members import WorkerInfo
    from jobq.output import Capture
    from jobq.progress import Progress


class Kind(StrEnum):
    """How an attempt ended."""

    SUCCESS = "completed"
    FAILURE = "failed"
    SIGNAL = "signal"
    TIMEOUT = "timeout"
    CANNOT_START = "cannot-start"
    RELEASED = "released"


@record(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How an attempt ended, whatever it was.

    Attributes:
        kind: RELEASED where it was handed back unfinished and counts for nothing (a snooze, a stop).
        reason: one line: `exit code 1`, `signal SIGKILL`, `timed out after 5s`, `ValueError: no such size`;
            None for a success.
        exit_code: of a command; None for a signal and for handlers.
        exception: the name of what a handler raised, for `retry_on`; None otherwise.
        tail: the last lines of output, at most 2 KiB of text.
        result: what a handler returned, as JSON values.
        permanent: the attempt says that another one is no use.
        delay: for RELEASED: not before that long from now.
        started: when it began (aware UTC), of one that was sent ahead; None: with its claim.
        finished: when the leader ended (aware UTC); None where it is only known now.
        progress: what it last reported; the worker adds it.
        output_error: why not all of its output was kept; None: it was; the worker adds it.
    """

    kind: Kind
    reason: str | None = None
    exit_code: int | None = None
    exception: str | None = None
    tail: str = ""
    result: Any = None
    permanent: bool = False
    delay: timedelta | None = None
    started: datetime | None = None
    finished: datetime | None = None
    progress: Progress | None = None
    output_error: str | None = None


@record(frozen=True, slots=True, kw_only=True)
class Attempt:
    """What an executor is given to run.

    Attributes:
        job: the job, `processing`, with the run number and the worker's id in it.
        home: the home directory; JOBQ_HOME of what is started.
        slot: below the worker's count; no other running attempt of this worker has it. None for one that is sent
            ahead: it will have the slot of the one it follows.
        jobs_fd: the worker's jobs lock, to be inherited by whatever is started; None where the store has none.
        output: where the attempt's output goes.
        kill_grace: how long the ladder waits between TERM and KILL.
        result_limit: the most bytes of JSON that a handler may return.
        progress: told, from any thread, how far the attempt says it has come; cheap, does not raise.
        text: the JSON text of the job's record, where the store had it at hand; else None.
    """

    job: Job
    home: Path
    slot: int | None
    jobs_fd: int | None
    output: Capture
    kill_grace: timedelta
    result_limit: int
    progress: Callable[[Progress], None] = lambda progress: None
    text: str | None = None


class Running(ABC):
    """An attempt under way."""

    @abstractmethod
    def stop(self, grace: timedelta) -> None:
        """End it: TERM to its whole process tree, KILL after `grace`; returns at once, may be called again.

        `ended` is still called once, with what became of it. A shorter grace replaces a longer one.
        """


@record(frozen=True, slots=True)
class Ahead:
    """How many jobs an executor would take ahead of free slots, and which.

    Attributes:
        most: how many at most.
        takes: asked of each job, in the order in which they are then sent; counts the job as sent if it says yes.
    """

    most: int
    takes: Callable[[Job], bool]


@record(frozen=True, slots=True)
class Recovered:
    """Whether nothing of a dead worker runs any more on this host, and if not, why that cannot be said."""

    clean: bool
    why: str = ""


class Executor(ABC):
    """Runs attempts. One instance belongs to one worker, whose thread alone calls it, but for `recover`."""

    @abstractmethod
    def start(self, attempt: Attempt, ended: Callable[[Outcome], None]) -> Running:
        """Start the attempt and return at once; what cannot be started ends as `Kind.CANNOT_START`.

        `ended` is called exactly once, from any thread, after every process of the attempt is gone (a warm child
        excepted) and its output is closed. It must not block and does not raise.
        """

    def ahead(self) -> Ahead | None:
        """Which jobs may be sent ahead now, to begin each when a running one has ended; None: none."""
        return None

    def send_ahead(self, attempt: Attempt, started: Callable[[int], None], ended: Callable[[Outcome], None]) -> Running:
        """As `start`, for an attempt that `Ahead.takes` has said yes to: it begins when one that runs has ended.

        Until then it may be ended as `Kind.RELEASED`, which counts for nothing. `started` is called once when it
        begins, if it does, with the slot that it takes over, and before the end of the attempt that had it is told.
        It may stay here until `flush`.
        """
        raise NotImplementedError

    def flush(self) -> None:  # noqa: B027 - nothing to do where nothing is kept back
        """The last of a batch was sent ahead: let all of it be on its way."""

    def take_back(self) -> None:  # noqa: B027 - nothing to do where nothing is sent ahead
        """Have everything that was sent ahead and has not begun ended as `Kind.RELEASED`; returns at once."""

    @abstractmethod
    def recover(self, worker: WorkerInfo) -> Recovered:
        """End everything that the dead `worker` left on this host; may take some seconds, in any thread (promise 6)."""

    @abstractmethod
    def close(self) -> None:
        """End the warm processes and free everything. Attempts still running are killed."""
