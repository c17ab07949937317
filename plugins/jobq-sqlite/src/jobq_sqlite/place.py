"""Where the database is: its files by their names, and whether they may be used.

    PATH        the database
    PATH-wal    what was committed since the last checkpoint; SQLite's
    PATH-shm    how processes agree on what is in PATH-wal; SQLite's
    PATH.lock   on which writers wait for their turn
    PATH.bell   written to when a job may have become claimable
    NAME.made   in the home, for a database in it: that there was one, should it be gone. NAME is its path from there,
                with %2f for each slash

A file of the database is never opened here once SQLite may have it open: to close it would give up the locks that
this process holds on it.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from jobq import files
from jobq.errors import NotSupported, StoreUnavailable, StoreUnreadable, UnsafeHome
from jobq.filesystem import NETWORK, kind
from jobq.home import refuse_own_place

DEFAULT = "queue.sqlite3"

_LONGEST = 255
"""Bytes of a name; what has a longer one has no mark."""

MARK_TEXT = b"""\
jobq keeps jobs in the database that this file is named after. Should that be gone while this file is here, jobq says so
instead of beginning with an empty queue.
"""


class Place:
    """The place of one database.

    Args:
        home: the home directory, as a path.
        url: the database's path, relative to the home; empty: `DEFAULT`.
        allow_network: whether a network file system is accepted.

    Attributes:
        path: the database's absolute path.
        directory: what it is in.
        home: the home's absolute path.
        inside: whether it is in the home, at whatever depth.

    Raises:
        InvalidInput: the home keeps other things there.
    """

    def __init__(self, home: Path, url: str, *, allow_network: bool) -> None:
        self.home = os.path.realpath(home)
        self.path = os.path.join(self.home, url or DEFAULT)
        if os.pardir not in self.path.split(os.sep):  # what goes up behind a symbolic link is the system's to follow
            self.path = os.path.normpath(self.path)
        self.directory = os.path.dirname(self.path)
        place = os.path.join(os.path.realpath(self.directory), os.path.basename(self.path))
        refuse_own_place(self.home, place, f"sqlite:{url}")
        self.inside = place.startswith(f"{self.home}/")
        name = os.path.relpath(place, self.home).replace("%", "%25").replace(os.sep, "%2f") + ".made"
        self._mark = os.path.join(self.home, name) if self.inside and len(os.fsencode(name)) <= _LONGEST else None
        self._allow_network = allow_network
        self._checked = self._marked = False

    @property
    def lock(self) -> str:
        """The file on which writers wait for their turn."""
        return f"{self.path}.lock"

    @property
    def log(self) -> str:
        """What was committed since the last checkpoint."""
        return f"{self.path}-wal"

    @property
    def bell(self) -> str:
        """The file that is written to when a job may have become claimable."""
        return f"{self.path}.bell"

    def identity(self) -> tuple[int, int] | None:
        """Which file the database is; None where there never was one.

        Raises:
            StoreUnreadable: it is gone.
            UnsafeHome: what stands there is no file of ours.
            NotSupported: it lies on a network file system.
            StoreUnavailable: it cannot be looked at.
        """
        try:
            facts = os.lstat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            if self.is_lost():
                raise StoreUnreadable(
                    f"the database {self.path} is gone: it was there, and nothing of it is left; put back a backup, "
                    "or `jobq doctor --repair` begins an empty one"
                ) from None
            return None
        except OSError as error:
            raise files.unavailable(error, self.path) from None
        if not self._checked:
            self._check()
        _check_ours(self.path, facts)
        return facts.st_dev, facts.st_ino

    def is_lost(self) -> bool:
        """Whether there was a database, and there is none."""
        return not os.path.lexists(self.path) and (self.is_marked() or os.path.lexists(self.log))

    def is_marked(self) -> bool:
        """Whether there was a database of jobq here."""
        return self._mark is not None and os.path.lexists(self._mark)

    def prepare(self) -> None:
        """Make the directory where there is none, in the home with those above it, and see that it may be used.

        Raises:
            UnsafeHome: it is not ours alone.
            NotSupported: it lies on a network file system.
            StoreUnavailable: it cannot be made.
        """
        if not self._checked:
            above = os.path.dirname(self.directory)
            if not self.inside and not os.path.isdir(above):
                raise StoreUnavailable(f"{above} is no directory")
            files.private_directories(self.directory)
            self._check()

    def leave_mark(self) -> None:
        """Make the mark, once there is a database: the other way round, a making that is interrupted would be a loss.

        Raises:
            StoreUnavailable: it cannot be made.
        """
        if self._marked or self._mark is None:
            return
        if not os.path.lexists(self._mark):
            files.replace(self._mark, MARK_TEXT, durable=True)
        self._marked = True

    def _check(self) -> None:
        facts = files.check_directory(self.directory)
        # A disk of this machine has a number of its own; what else there may be is looked up
        if os.major(facts.st_dev) == 0 and not self._allow_network:
            of = kind(Path(self.directory))
            if of in NETWORK:
                raise NotSupported(
                    f"{self.directory} lies on a network file system ({of}), where locks and maps cannot be trusted; "
                    "JOBQ_ALLOW_NETWORK_FS=1 uses it all the same"
                )
        for beside in (self.log, f"{self.path}-shm", self.lock, self.bell):
            try:
                _check_ours(beside, os.lstat(beside))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise files.unavailable(error, beside) from None
        self._checked = True


def _check_ours(path: str, facts: os.stat_result) -> None:
    if not stat.S_ISREG(facts.st_mode):
        raise UnsafeHome(f"{path} is not a regular file")
    if facts.st_uid != os.geteuid():
        raise UnsafeHome(f"{path} belongs to user {facts.st_uid}, not to the one running this ({os.geteuid()})")
