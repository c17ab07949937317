"""Taking a move back that is not complete; and the ways out where one of its stores is gone for good."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from jobq.errors import Conflict, JobqError, StoreError
from jobq.moveends import Ends, alone
from jobq.notices import ARRIVING, LEAVING, LEFT, Notice
from jobq.spool import batches
from jobq.store import Query

if TYPE_CHECKING:
    from jobq.app import App
    from jobq.store import Store

_BATCH = 1000


def take_back(app: App, target: Store, *, force: bool = False) -> JobqError | None:
    """Take a move back: the queue is in the app's store again, and its copies are no more.

    Args:
        app: its store is the source.
        target: the other one.
        force: also where the target cannot be used, whose notice stays and keeps the copies from being run; and where
            it has jobs that the source does not know.

    Returns:
        Why copies are left; None where there are none.

    Raises:
        Conflict: there is no such move, or it is complete, or one from this home is at work, or the target has jobs that
            may be nowhere else.
        StoreMoved: the source is in another move.
        StoreError: one of the stores cannot be used; called again, it goes on.
    """
    ends = Ends(app, target)
    with alone(app):
        ends.refuse_other_move()
        seen = app.store.notice()
        if seen is not None and seen.state == LEFT:
            raise Conflict(f"the queue has moved to {target.url} already; move it back from there")
        kept = None
        try:
            arriving = ends.arriving
            if seen is None and arriving is None:
                raise Conflict(f"no move from {app.store.url} to {target.url} is under way")
            if arriving is not None:
                if seen is None and not force:
                    ends.refuse_unknown()
                ends.empty()
                ends.post(target, Notice(state=LEFT, url=arriving.left) if arriving.left else None, arriving)
        except StoreError as error:
            if not force or seen is None:
                raise
            kept = error
        ends.post(app.store, None, seen)
        return kept


def abandon(app: App) -> None:
    """Take a move back whose target cannot even be opened; its notice stays there.

    Raises:
        Conflict: no move is under way, or it is complete, or somebody is about it.
        StoreError: the source cannot be used.
    """
    with alone(app):
        notice = app.store.notice()
        if notice is None or notice.state != LEAVING:
            raise Conflict("no move from here is under way that could be taken back")
        app.store.post(None, before=notice, now=app.clock.now())


def open_up(app: App, *, force: bool = False) -> int:
    """Open the app's store, in which jobs were arriving, with those that have: where they came from is gone for good.

    Args:
        app: its store is the target of the move.
        force: whoever calls knows what this means.

    Returns:
        How many have arrived.

    Raises:
        Conflict: it is not forced, or the source is not gone, and its jobs would run in both stores.
        StoreError: the app's store cannot be used.
    """
    store = app.store
    with alone(app):
        notice = store.notice()
        if notice is None or notice.state != ARRIVING:
            raise Conflict("no jobs are arriving here")
        if not force:
            raise Conflict(f"{notice.moved.what}; {notice.way_on(store.url)}")
        number = sum(store.counts(now=app.clock.now()).states.values())
        try:
            source = app.store_at(notice.url)
        except JobqError:  # it is gone indeed, or whatever offered it
            pass
        else:
            with closing(source):
                _refuse_living(Ends(app, source), notice)
        store.post(None, before=notice, now=app.clock.now())
        return number


def _refuse_living(ends: Ends, notice: Notice) -> None:
    """Raise where the store that jobs came from still has them, or has given them to another one than this."""
    here, there = ends.source, ends.target
    try:
        door = there.notice()
        if door is not None and door.state == LEFT and door.url == here.url:
            return  # nothing but this was left to do
        knows = door is not None or any(
            there.get_many(job.id for job in jobs) for jobs in batches(here.find(Query()), _BATCH)
        )
    except StoreError:
        return
    if knows:
        raise Conflict(
            f"the store {there.url} is not gone: what has arrived here would run twice; {notice.way_on(here.url)}"
        )
