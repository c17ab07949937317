"""Moving a live queue to another store: nothing is lost, and nothing runs twice, wherever it is interrupted.

The notices at the doors of the two stores say how far it has come, so that a second run goes on where a first one
ended: the target is `arriving` first, then the source `leaving`, and `left` once the target has everything.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING

from jobq.clock import Wake
from jobq.errors import Conflict, DuplicateJob, InvalidInput, NotSupported, StoreError, StoreUnreadable
from jobq.files import private_directory
from jobq.job import FINISHED, State
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.recovery import Recovery
from jobq.spool import backwards, batches
from jobq.store import Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

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

    def is_done(self) -> bool:
        """Whether there is nothing to do any more.

        Raises:
            NotSupported: one of the stores cannot be moved to or from.
            StoreMoved: the queue is in another place, or in another move.
            Conflict: the other store is in another move.
        """
        source, target = self._source, self._target
        for store in (source, target):
            if "moves" not in store.capabilities:
                raise NotSupported(f"the store {store.url} cannot be moved to or from")
        if source.url == target.url:
            return True
        self._refuse_other_move()
        there = target.notice()
        if self._left:
            return there != self._arriving
        if there is not None and there.state != LEFT and there != self._arriving:
            raise Conflict(f"the store {target.url} is in another move: {there.moved.what}")
        return False

    def check(self) -> int:
        """Look for what would keep the jobs from being stored there, and change nothing; how many jobs there are.

        Raises:
            DuplicateJob: ids that other jobs have there.
            Conflict: there are jobs there behind a notice of an earlier move from here. They may be copies of jobs that
                have ended here since, and would run again.
            StoreError: one of the stores cannot be read.
        """
        there = self._target.notice()
        if self._source.notice() is None and there == self._arriving and (number := self._count(self._target)):
            raise Conflict(
                f"{number} jobs are in {self._target.url} behind the notice of an earlier move from here; they may be "
                "out of date. Delete them there, or keep them as that store's own with `jobq move --abort`"
            )
        versions = {job.id: job.version for job in self._source.find(Query())}
        if there is None or there.state != LEFT:  # what is in one that was left is not there any more
            stored = self._target.get_many(versions)
            if clashes := [job.id for job in stored.values() if job.version != versions[job.id]]:
                raise DuplicateJob(clashes, f"another version in {self._target.url}")
        return len(versions)

    def run(self, progress: Callable[[int], None] = lambda done: None) -> int | None:
        """Move it, or go on with a move that was interrupted; how many jobs were moved, None where all were before.

        Args:
            progress: called with the number of jobs copied so far.

        Raises:
            DuplicateJob: ids that other jobs have there.
            Conflict: a move from this home is under way, or the other store is in another move.
            StoreError: one of the stores cannot be used; run again, it goes on.
        """
        with self._alone():
            if self._left:
                if self._target.notice() == self._arriving:
                    self._post(self._target, None)
                return None
            if self._source.notice() is None:
                self.check()
            if self._target.notice() != self._arriving:
                self._post(self._target, self._arriving)
                self._refuse_itself()
            self._post(self._source, Notice(state=LEAVING, url=self._target.url))
            self._drain()
            moved = self._copy(progress)
            self._verify(moved)
            self._post(self._source, Notice(state=LEFT, url=self._target.url))
            self._post(self._target, None)
            return len(moved)

    def abort(self, *, force: bool = False) -> StoreError | None:
        """Take a move back that is not complete: the queue is in the source again, and its copies are no more.

        Args:
            force: also where the target cannot be used; its notice stays, and keeps the copies from being run.

        Returns:
            Why copies are left; None where there are none.

        Raises:
            Conflict: it is complete, or a move from this home is under way.
            StoreError: one of the stores cannot be used; run again, it goes on.
        """
        with self._alone():
            self._refuse_other_move()
            if self._left:
                raise Conflict(f"the queue has moved to {self._target.url} already; move it back from there")
            left = None
            try:
                if self._target.notice() == self._arriving:
                    self._take_back()
                    self._post(self._target, None)
            except StoreError as error:
                if not force:
                    raise
                left = error
            self._post(self._source, None)
            return left

    @property
    def _arriving(self) -> Notice:
        return Notice(state=ARRIVING, url=self._source.url)

    @property
    def _left(self) -> bool:
        notice = self._source.notice()
        return notice is not None and notice.state == LEFT

    def _refuse_other_move(self) -> None:
        notice = self._source.notice()
        if notice is not None and (notice.state == ARRIVING or notice.url != self._target.url):
            raise notice.moved

    def _post(self, store: Store, notice: Notice | None) -> None:
        store.post(notice, now=self._app.clock.now())

    def _refuse_itself(self) -> None:
        """Where both names are of one store, its notice shows at the other door."""
        if self._source.notice() == self._arriving:
            self._post(self._target, None)
            raise InvalidInput("", self._target.url, f"is the store that the queue is in, {self._source.url}")

    def _drain(self) -> None:
        """Return once nothing runs any more; what dead workers held is given back."""
        clock = self._app.clock
        with Wake() as wake:
            recovery, noted = Recovery(self._app, wake.ring), clock.monotonic() - NOTE_SECONDS
            while running := self._count(self._source, State.PROCESSING):
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
        for queue, reason in source.counts(now=now).paused.items():
            target.pause(queue, True, reason=reason, now=now)
        return moved

    def _verify(self, moved: dict[str, int]) -> None:
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
        if self._target.notice() != self._arriving:
            raise Conflict(f"the notice at {self._target.url} is not that of this move any more")

    def _take_back(self) -> None:
        now = self._app.clock.now()
        for jobs in batches(self._source.find(Query()), BATCH * 10):
            self._target.delete(jobs)
        counts = self._target.counts(now=now)
        for queue, reason in self._source.counts(now=now).paused.items():
            if counts.paused.get(queue) == reason and not any(counts.queues[queue].values()):
                self._target.pause(queue, False, now=now)

    def _count(self, store: Store, *states: State) -> int:
        counts = store.counts(now=self._app.clock.now()).states
        return sum(counts[state] for state in states or State)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """One move from this home at a time."""
        self._app.create_home()
        directory = self._app.home.path / "workers"
        private_directory(directory)
        lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise Conflict("another `jobq move` is at work in this home") from None
        try:
            yield
        finally:
            os.close(lock)


def abandon(app: App) -> None:
    """Take a move back that is not complete and whose target cannot even be opened; its notice stays there.

    Raises:
        Conflict: no move is under way, or it is complete.
        StoreError: the source cannot be used.
    """
    notice = app.store.notice()
    if notice is None or notice.state != LEAVING:
        raise Conflict("no move from here is under way that could be taken back")
    app.store.post(None, now=app.clock.now())


def _marks(jobs: Iterable[Job]) -> dict[str, int]:
    """For each job, by its id, what tells its version and state from every other."""
    return {job.id: hash((job.version, job.state, job.queue, job.run)) for job in jobs}
