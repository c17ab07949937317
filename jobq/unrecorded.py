"""What has ended in a worker and is not yet recorded, what that makes of each job, and what is told of it afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import lifecycle
from jobq.executor import Kind, Outcome
from jobq.job import State
from jobq.store import Claimed, Ended
from jobq.summary import Summary

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from jobq.app import App
    from jobq.job import Job
    from jobq.store import Claim


class Unrecorded:
    """Keeps what became of attempts until the store has taken it.

    Args:
        app: whose notifiers hear of it.
        delay: the backoff, as `App.delay` makes it.
        finished: called with each job after an attempt of it was recorded; None where nobody asks.

    Attributes:
        ends: for the next `Store.claim`.
        summary: counts of what was recorded.
    """

    def __init__(
        self,
        app: App,
        delay: Callable[[int, Outcome], timedelta | None],
        finished: Callable[[Job], None] | None,
    ) -> None:
        self._app, self._clock, self._delay, self._finished = app, app.clock, delay, finished
        self.ends: list[Ended] = []
        self.summary = Summary()

    def __len__(self) -> int:
        return len(self.ends)

    @property
    def runs(self) -> set[tuple[str, int]]:
        """Of which jobs, and which run of each."""
        return {(ended.claim.job.id, ended.claim.run) for ended in self.ends}

    def add(self, claim: Claim, outcome: Outcome, *, begun: bool) -> None:
        """An attempt has ended; `begun` is False where it had been claimed and nothing else."""
        now = self._clock.now()
        if outcome.kind is Kind.RELEASED and not begun:
            change = lifecycle.taken_back(claim, now=now)
        else:
            spans_machines = "hosts" in self._app.store.capabilities
            change = lifecycle.after(claim, outcome, now=now, delay=self._delay, keep_tail=spans_machines)
        self.ends.append(Ended(claim, change))

    def hand_back(self, claim: Claim, why: str) -> None:
        """A claim is not to be run here."""
        self.add(claim, Outcome(kind=Kind.RELEASED, reason=why), begun=True)

    def recorded(self, claimed: Claimed, now: datetime) -> bool:
        """The store has taken all of them, with this answer: count and announce it. Whether there were any."""
        ends, self.ends = self.ends, []
        refused = {(claim.job.id, claim.run) for claim in claimed.refused}
        cancelled = {(claim.job.id, claim.run) for claim in claimed.cancelled}
        for ended in ends:
            key = ended.claim.job.id, ended.claim.run
            if key in refused:
                self.summary.discarded += 1
                self._app.tell("discarded", ended.claim.job, time=now)
            else:
                self._announce(ended, now, cancelled=key in cancelled)
        return bool(ends)

    def discard(self) -> None:
        """Let go of all of them: nobody takes them any more."""
        if self.ends:
            self.recorded(Claimed([], [ended.claim for ended in self.ends]), self._clock.now())

    def _announce(self, ended: Ended, now: datetime, *, cancelled: bool) -> None:
        job, change = ended.claim.job, ended.change
        if cancelled:
            change = lifecycle.settled(job.changed(lifecycle.ask(now), now=now), change)
        elif change.run is None:  # it had not begun: nothing has happened
            return
        state = change.fields["state"]
        kind = "released" if state is State.PENDING else state.value
        self.summary.count("snoozed" if kind == "released" and change.fields["run_at"] > now else kind)
        if self._app.notifications or self._finished is not None:
            job = job.changed(change, now=now)
            self._app.tell(kind, job, time=now)
            if self._finished is not None:
                self._finished(job)
