"""The two stores of a move, and what the notices at their doors say of how far it has come."""

from __future__ import annotations

import fcntl
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jobq.errors import Conflict, InvalidInput, NotSupported
from jobq.files import private_directory
from jobq.job import State
from jobq.notices import ARRIVING, LEFT, Notice
from jobq.spool import batches
from jobq.store import Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq.app import App
    from jobq.store import Store

_BATCH = 10_000
"""Jobs that are deleted at once."""


class Ends:
    """Both ends of the move of an app's queue to another store.

    Args:
        app: its store is the source.
        target: the other one.

    Attributes:
        source, target: the stores.
    """

    def __init__(self, app: App, target: Store) -> None:
        self._app, self.source, self.target = app, app.store, target

    @property
    def has_left(self) -> bool:
        """Whether the source's queue is elsewhere."""
        notice = self.source.notice()
        return notice is not None and notice.state == LEFT

    @property
    def arriving(self) -> Notice | None:
        """The target's notice, where it is of a move from the source."""
        notice = self.target.notice()
        of_this = notice is not None and (notice.state, notice.url) == (ARRIVING, self.source.url)
        return notice if of_this else None

    def post(self, store: Store, notice: Notice | None, before: Notice | None) -> None:
        """Put up a notice at one end in place of another.

        Raises:
            NoticeChanged: somebody else did before.
            StoreError: the store cannot be used.
        """
        store.post(notice, before=before, now=self._app.clock.now())

    def count(self, store: Store, *states: State) -> int:
        """How many jobs there are at one end, in these states or in all."""
        counts = store.counts(now=self._app.clock.now()).states
        return sum(counts[state] for state in states or State)

    def refuse_unfit(self) -> None:
        """Refuse stores between which nothing can be moved.

        Raises:
            NotSupported: one has not the capability `moves`.
            InvalidInput: they are one store under two names.
        """
        for store in (self.source, self.target):
            if "moves" not in store.capabilities:
                raise NotSupported(f"the store {store.url} cannot be moved to or from")
        if self.source.url != self.target.url and self.source.identity() == self.target.identity():
            raise InvalidInput("", self.target.url, f"is the store that the queue is in, {self.source.url}")

    def refuse_other_move(self) -> None:
        """Refuse what is about another move of the source.

        Raises:
            StoreMoved: its queue goes, or has gone, to another store, or one is arriving.
        """
        notice = self.source.notice()
        if notice is not None and (notice.state == ARRIVING or notice.url != self.target.url):
            raise notice.moved

    def refuse_unknown(self) -> None:
        """Refuse to do away with what has arrived where the source does not know it.

        Raises:
            Conflict: it may be nowhere else: the source was begun anew, perhaps, after it had been lost.
        """
        unknown = 0
        for jobs in batches(self.target.find(Query()), _BATCH):
            known = self.source.get_many(job.id for job in jobs)
            unknown += sum(job.id not in known or known[job.id].created_at != job.created_at for job in jobs)
        if unknown:
            source, target = self.source.url, self.target.url
            raise Conflict(
                f"{unknown} of the jobs that have arrived in {target} are not in {source}; they may be nowhere else. "
                f"`jobq --store {target} move --abort --force` opens that store with all that it has, "
                f"`jobq --store {source} move --to {target} --abort --force` deletes them"
            )

    def empty(self) -> None:
        """Delete what has arrived: all that there is, since jobs arrive only in a store without others."""
        now = self._app.clock.now()
        for jobs in batches(self.target.find(Query()), _BATCH):
            self.target.delete(jobs)
        for queue in self.target.counts(now=now).paused:
            self.target.pause(queue, False, now=now)


@contextmanager
def alone(app: App) -> Iterator[None]:
    """Be the only one that is about a move from this home.

    Raises:
        Conflict: another one is.
    """
    app.create_home()
    directory = app.home.path / "workers"
    private_directory(directory)
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict("another `jobq move` is at work in this home") from None
        yield
    finally:
        os.close(lock)
