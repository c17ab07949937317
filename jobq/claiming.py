"""What a worker asks its store for at one step: jobs for its free slots and, behind those, jobs to be sent ahead."""

from __future__ import annotations

from jobq.store import Wanted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from jobq.attempts import Attempts
    from jobq.clock import Clock
    from jobq.executor import Ahead
    from jobq.job import Job


PATIENCE, STANDS_BACK, PERIOD = 10.0, 30.0, 300.0
"""Seconds: how long a job that must run alone waits while its worker is busy; how long that then claims nothing, if it
does not become idle before; and after how long it does so again."""


class Turns:
    """Gives a job that must run alone its turn in a worker that would otherwise never be idle."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: float | None = None

    def look(self, *, waits: bool) -> None:
        """Whether such a job is due now, and waits for the worker to be idle."""
        if not waits:
            self._since = None
        elif self._since is None:
            self._since = self._clock.monotonic()

    @property
    def stands_back(self) -> bool:
        """Whether the worker is to claim nothing until it is idle."""
        if self._since is None:
            return False
        return PATIENCE <= (self._clock.monotonic() - self._since) % PERIOD < PATIENCE + STANDS_BACK


class ClaimRequest:
    """One claim. Jobs are sent ahead only as long as the next one in claim order may be, so that none is overtaken.

    Args:
        attempts: those under way.
        queues: the queues that the worker serves.
        handlers: the handlers that it has.
        may_claim: whether it may claim anything at all.
        peek: ask what is next even if nothing can be taken, where jobs were sent ahead that may have to give way.

    Attributes:
        free: how many slots are free; so many of the claimed jobs start at once, those after them are sent ahead.
        limit: the most jobs to be claimed.
    """

    def __init__(
        self,
        attempts: Attempts,
        *,
        queues: tuple[str, ...] | None,
        handlers: frozenset[str],
        may_claim: bool,
        peek: bool,
    ) -> None:
        self.free = self.limit = attempts.free if may_claim else 0
        self._ahead: Ahead | None = None
        self._asked = 0
        self._next: Job | None = None
        self._attempts = attempts
        if may_claim and attempts:
            self._ahead = attempts.ahead()
            if self._ahead is not None:
                self.limit += self._ahead.most
            elif peek and attempts.lowest_ahead is not None:
                self.limit += 1
        self.wanted = Wanted(
            queues=queues,
            handlers=handlers,
            alone=False if attempts else None,
            leading=self._leads if self.limit > self.free else None,
        )

    @property
    def overtakes(self) -> bool:
        """Whether what is next cannot be taken now and has a higher priority than something sent ahead before."""
        if self._next is None:
            return False
        lowest = self._attempts.lowest_ahead
        return lowest is not None and self._next.priority > lowest

    def _leads(self, job: Job) -> bool:
        self._asked += 1
        if self._asked <= self.free or (self._ahead is not None and self._ahead.takes(job)):
            return True
        self._next = job
        return False
