"""`move`: the whole queue to another store, while workers and enqueuers are about it."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.cli.config import set_store
from jobq.cli.text import masked
from jobq.errors import JobqError
from jobq.notices import ARRIVING

if TYPE_CHECKING:
    from jobq.moving import Move


@command("move", short_help="Move the queue to another store.")
@click.option("--to", "url", metavar="URL", help="The store that the queue is moved to, as --store takes it.")
@click.option("--dry-run", is_flag=True, help="Look whether it can be done, and change nothing.")
@click.option("--abort", is_flag=True, help="Take a move back that is not complete.")
@click.option("--force", is_flag=True, help="With --abort: though the other store is gone for good.")
def move_command(state: Globals, url: str | None, dry_run: bool, abort: bool, force: bool) -> None:
    """Move every job and pause to another store, with the ids, states, attempts and histories, in order.

    \b
    jobq move --to json:/srv/queue
    jobq move --to sqlite:queue.db --dry-run

    Workers may go on running: they finish what they run, wait, and continue in the new store. Until then, and for
    ever after in the old store, enqueueing is refused (exit code 5) with the new URL. The jobs stay in the old store,
    behind a notice that says where the queue is. The new store becomes the default of this home unless --store or
    JOBQ_STORE chose the old one. What jobs have printed stays where it is, in the home.

    The new store must have no jobs. A move that was interrupted is run again, and goes on. --abort without --to takes
    back the one that stands; where the other store is gone for good, with --force: the old store has its queue again,
    or, with the new one as the store, what has arrived there is opened.
    """
    from jobq.moving import Move
    from jobq.takeback import abandon, take_back

    if dry_run and abort:
        raise click.UsageError("--dry-run and --abort exclude one another")
    if force and not abort:
        raise click.UsageError("--force is for --abort")
    state.name_home()
    app = state.app
    notice = app.store.notice() if abort else None
    if notice is not None and notice.state == ARRIVING:
        _open_up(state, notice.url, force=force)
        return
    if url is None:
        if notice is None:
            raise click.UsageError("no move is under way" if abort else "say where: --to URL")
        url = notice.url
    if not dry_run:
        app.create_home()
    try:
        target = app.store_at(url)
    except JobqError as error:
        if not force:
            raise
        abandon(app)
        _tell_taken_back(state, masked("store", url), error)
        return
    with closing(target):
        move = Move(app, target, note=state.note)
        if abort:
            _tell_taken_back(state, target.url, take_back(app, target, force=force))
        elif move.is_done():
            state.note(f"the queue is in {target.url} already")
        elif dry_run:
            number = move.check()
            what = "open" if number is None else f"move {_jobs(number)} from {app.store.url} to"
            state.note(f"would {what} {target.url}")
            return
        else:
            _run(state, move, target.url)
    if not abort:
        _tell_default(state, url)


def _open_up(state: Globals, source: str, *, force: bool) -> None:
    from jobq.takeback import open_up

    number = open_up(state.app, force=force)
    state.note(f"{state.app.store.url} is open, with the {_jobs(number)} that had arrived")
    state.warn(f"should {source} be there again after all: its jobs must not be run, they would run twice")


def _tell_taken_back(state: Globals, url: str, kept: JobqError | None) -> None:
    state.note("the move is taken back; the queue is where it was")
    if kept is not None:
        state.warn(f"what was copied to {url} stays there, and must not be run: {kept}")


def _run(state: Globals, move: Move, url: str) -> None:
    try:
        if state.quiet or not sys.stderr.isatty():
            number = move.run()
        else:
            with click.progressbar(label="moving", length=move.check() or 0, file=sys.stderr) as bar:
                number = move.run(lambda done: bar.update(done - bar.pos))
    except (KeyboardInterrupt, JobqError):
        if state.app.store.notice() is not None:
            state.note("the move is not complete: the same command goes on with it, `jobq move --abort` takes it back")
        raise
    state.note(f"the queue is in {url} now" if number is None else f"{_jobs(number)} moved to {url}")


def _tell_default(state: Globals, url: str) -> None:
    """Make the store the default where the old one was that, else say what is to be done."""
    shown = masked("store", url)
    try:
        chosen = set_store(state, url)
    except JobqError as error:
        state.warn(f"config.toml cannot be changed: {error}; `jobq config set store {shown}` makes it the default")
        return
    if chosen:
        state.note(f"{chosen} chose the old store: give {shown} there from now on, or set it as `store` in config.toml")
    else:
        state.note(f"store={shown} is in config.toml now")


def _jobs(number: int) -> str:
    return f"{number} job{'' if number == 1 else 's'}"
