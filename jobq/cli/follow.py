"""A worker whose queue has moved goes on in the new store: it becomes a new process of the same command line."""

from __future__ import annotations

import os
import signal
import sys
import threading
from typing import TYPE_CHECKING

from jobq.app import App
from jobq.clock import Wake
from jobq.errors import JobqError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from typing import NoReturn

    from jobq.cli.base import Globals

PAUSE_SECONDS = 1.0
"""How often it is tried to reach a store that cannot be used."""

_STORE, _LOG, _JOINED = "--store", "--log-of", "--joined-fd"

_HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What a worker is stopped with."""


def follow(state: Globals, url: str, worker_id: str, stopped: Callable[[], bool]) -> None:
    """Become a worker of the store that the queue is in now; return only when it is stopped before.

    Args:
        state: what stood on the command line.
        url: the new store, without a password: what config.toml says now is tried first.
        worker_id: of the worker that ends here; where it has a log, the new one takes it over.
        stopped: whether it is to end instead.
    """
    told = ""
    with Wake() as nothing:
        while not stopped():
            try:
                if _reached(state, state.store) == url:
                    _become(state, [*_own(sys.argv[1:], _LOG, _JOINED), _LOG, worker_id], stopped)
                _reached(state, url)
                _become(state, [*_own(sys.argv[1:], _LOG, _JOINED, _STORE), _STORE, url, _LOG, worker_id], stopped)
            except JobqError as error:
                if str(error) != told:
                    told = str(error)
                    state.warn(f"{url} cannot be used yet, trying again: {error}")
            state.app.clock.wait(nothing, PAUSE_SECONDS)


def hear_again() -> None:
    """In the new process, once signals stop it as they should: hear what has come since the old one was given up."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)


def take_over_log(directory: Path, before: str, worker_id: str) -> bool:
    """Let the log of the worker that this process was be this one's; False where it has none."""
    try:
        (directory / f"{before}.log").rename(directory / f"{worker_id}.log")
    except OSError:
        return False
    return True


def _reached(state: Globals, store: str | None) -> str:
    """The URL of the store that the command line leads to with this `--store`, which can be used.

    Raises:
        JobqError: it cannot.
    """
    flags = state.flags | ({} if store is None else {"store": store})
    app = App(home=state.home, flags=flags, plugins=state.plugins, warn=lambda sentence: None)
    try:
        app.store.notice()
        return app.store.url
    finally:
        app.close()


def _own(arguments: Sequence[str], *added: str) -> list[str]:
    """The words that the worker was started with, without options that an earlier start has added at the end."""
    words = list(arguments)
    while len(words) > 1 and words[-2] in added:
        del words[-2:]
    return words


def _become(state: Globals, arguments: Sequence[str], stopped: Callable[[], bool]) -> NoReturn:
    # The new process has the mask, and the signals that wait behind it: else they would be lost, or kill it too early
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    state.close()  # whoever is still to be told something is
    sys.stdout.flush()
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 1 << 20))
    if stopped():  # by a signal from before, or one that another thread took
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)
    os.execv(sys.executable, [sys.executable, "-P", "-m", "jobq", *arguments])
