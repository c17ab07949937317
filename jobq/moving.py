"""Moving a live queue to another store: nothing is lost, and nothing runs twice, wherever it is interrupted.

The notices at the doors of the two stores say how far it has come, so that a second run goes on where a first one
ended: the target is `arriving` first, then the source `leaving`, and `left` once the target has everything.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from jobq.clock import Wake
from jobq.errors import Conflict, NotEmpty, StoreUnreadable
from jobq.job import FINISHED, State
from jobq.moveends import Ends, alone
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.recovery import Recovery
from jobq.spool import backwards, batches
from jobq.store import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jobq.app import App
    from jobq.job import Job
    from jobq.store import Store

BATCH = 1000
"""Jobs that are taken over at once."""

LOOK_SECONDS, NOTE_SECONDS = 0.1, 10.0
"""How often it is looked whether jobs still run, and how often it is said."""

_OTHERS = frozenset(State) - FINISHED


class Move:
    """The move of an app's queue to another store.

    Args:
        app: its store is the source.
        target: the other one.
        note: hears what is waited for.
    """

    def __init__(self, app: App, target: Store, *, note: Callable[[str], None]) -> None:
        self._app, self._source, self._target, self._note = app, app.store, target, note
        self._ends = Ends(app, target)

    def is_done(self) -> bool:
        """Whether there is nothing to do any more.

        Raises:
            NotSupported: one of the stores cannot be moved to or from.
            InvalidInput: both are one store, under two names.
            StoreMoved: the queue is in another place, or in another move.
            Conflict: the other store is in another move.
        """
        ends = self._ends
        ends.refuse_unfit()
        if self._source.url == self._target.url:
            return True
        ends.refuse_other_move()
        arriving = ends.arriving
        if ends.has_left:
            return arriving is None
        there = self._target.notice()
        if arriving is None and there is not None and there.state != LEFT:
            raise Conflict(f"the store {self._target.url} is in another move: {there.moved.what}")
        return False

    def check(self) -> int | None:
        """Look for what would keep the jobs from being stored there, and change nothing.

        Returns:
            How many jobs there are; None where all have been moved, and only the other store is yet to be opened.

        Raises:
            NotEmpty: there are jobs there.
            Conflict: what is there of an earlier move may be nowhere else.
            StoreError: one of the stores cannot be read.
        """
        ends = self._ends
        if ends.has_left:
            return None
        if self._target.notice() is None and (number := ends.count(self._target)):
            raise NotEmpty(self._target.url, number)
        if self._source.notice() is None and ends.arriving is not None:
            ends.refuse_unknown()
        return ends.count(self._source)

    def run(self, progress: Callable[[int], None] = lambda done: None) -> int | None:
        """Move it, or go on with a move that was interrupted; how many jobs were moved, None where all were before.

        What is in the other store of a move that was given up is deleted there first.

        Args:
            progress: called with the number of jobs copied so far.

        Raises:
            NotEmpty: there are jobs there.
            Conflict: a move from this home is under way, or one of the stores is in another move.
            StoreError: one of the stores cannot be used; run again, it goes on.
        """
        ends, source, target = self._ends, self._source, self._target
        with alone(self._app):
            if self.is_done():
                return None
            seen, there, arriving = source.notice(), target.notice(), ends.arriving
            if self.check() is None:
                ends.post(target, None, arriving)
                return None
            if arriving is None:
                arriving = Notice(state=ARRIVING, url=source.url, left="" if there is None else there.url)
                ends.post(target, arriving, there)
            elif seen is None:
                ends.empty()
            leaving = Notice(state=LEAVING, url=target.url)
            ends.post(source, leaving, seen)
            self._drain()
            moved = self._copy(progress)
            self._verify(moved, arriving)
            ends.post(source, Notice(state=LEFT, url=target.url), leaving)
            ends.post(target, None, arriving)
            return len(moved)

    def _drain(self) -> None:
        """Return once nothing runs any more; what dead workers held is given back."""
        clock = self._app.clock
        with Wake() as wake:
            recovery, noted = Recovery(self._app, wake.ring), clock.monotonic() - NOTE_SECONDS
            while running := self._ends.count(self._source, State.PROCESSING):
                recovery.poll()
                for told in recovery.news():
                    self._note(told)
                if clock.monotonic() - noted >= NOTE_SECONDS:
                    noted = clock.monotonic()
                    self._note(f"waiting for {running} running job{'' if running == 1 else 's'} to end")
                clock.wait(wake, LOOK_SECONDS)
            while recovery.under_way:
                recovery.poll()
                clock.wait(wake, LOOK_SECONDS)

    def _copy(self, progress: Callable[[int], None]) -> dict[str, int]:
        """Bring over what is not there yet; the marks of all jobs by id."""
        source, target, now = self._source, self._target, self._app.clock.now()
        there = _marks(target.find(Query()))
        moved: dict[str, int] = {}
        with backwards(source.find(Query(states=FINISHED)), self._app.home.path) as finished:
            for jobs in batches(chain(source.find(Query(states=_OTHERS)), finished), BATCH):
                marks = _marks(jobs)
                moved |= marks
                if fresh := [job for job in jobs if there.get(job.id) != marks[job.id]]:
                    target.restore(fresh, now=now)
                progress(len(moved))
        paused = source.counts(now=now).paused
        for queue in target.counts(now=now).paused.keys() - paused.keys():
            target.pause(queue, False, now=now)
        for queue, reason in paused.items():
            target.pause(queue, True, reason=reason, now=now)
        return moved

    def _verify(self, moved: dict[str, int], arriving: Notice) -> None:
        """Make sure that the target has every job, and that it is still waiting for the end of this move.

        Raises:
            StoreUnreadable: it has not.
            Conflict: somebody has ended the move meanwhile.
        """
        there = _marks(self._target.find(Query()))
        missing = [job_id for job_id, mark in moved.items() if there.get(job_id) != mark]
        if missing:
            some = ", ".join(missing[:5])
            raise StoreUnreadable(
                f"{len(missing)} jobs did not arrive in {self._target.url} as they were, {some} among them; "
                "nothing is lost, `jobq move --abort` takes the move back"
            )
        if self._target.notice() != arriving:
            raise Conflict(f"the notice at {self._target.url} is not that of this move any more")


def _marks(jobs: Iterable[Job]) -> dict[str, int]:
    """For each job, by its id, what tells its version and state from every other."""
    return {job.id: hash((job.version, job.state, job.queue, job.run)) for job in jobs}
