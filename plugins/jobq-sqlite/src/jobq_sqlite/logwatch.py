"""How long the log grows while a search is under way: SQLite cannot begin it anew before the search is through."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from jobq.light import suppress

if TYPE_CHECKING:
    from jobq_sqlite.database import Database

LIMIT = 16 << 20
"""Bytes of the log beyond which what is left of searches is read at once, into memory, so that it can be begun anew."""
LOOK_SECONDS = 1.0


class LogWatch:
    """Looks after the log of a database, in a thread that lives as long as searches are under way.

    Args:
        database: asked for its searches, and has them read.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._thread: threading.Thread | None = None
        self._over = threading.Event()

    def begin(self) -> None:
        """By whoever uses the database: look from now on. Where there is no room for a thread, nobody does."""
        if self._thread is not None and self._thread.is_alive():  # one of before a fork is not
            return
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[self._over], name="jobq-sqlite-log", daemon=True)
        with suppress(RuntimeError):
            self._thread.start()

    def end(self) -> None:
        """By whoever uses the database: look no more."""
        self._over.set()
        self._thread = None

    def _run(self, over: threading.Event) -> None:
        while not over.wait(LOOK_SECONDS):
            with self._database.using:
                if over.is_set():
                    return
                if not self._database.searched():
                    self._thread = None
                    return
                with suppress(OSError):
                    if os.path.getsize(self._database.place.log) > LIMIT:
                        self._database.drain()
