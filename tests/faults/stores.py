"""The stores that the campaign is run with: how a home comes to have one, and what of it lies on the disk.

A home has the store that its config.toml names, for the command line and for `homes.opened` alike.
"""

import importlib
import os
import shutil
import sqlite3
import tomllib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from jobq.testing import make_context, make_settings


class Kind:
    """A store.

    Attributes:
        name: of the store and of its URL.
        module: the plugin that it is in.
        lock: the file in a home on which writers wait for each other.
        places: the directory or the files in a home in which it keeps all jobs.
        data: the files in a home that hold jobs, by patterns.
        log: how the name of the file begins that changes are written to first.
    """

    name: str
    module: str
    lock: str
    places: tuple[str, ...]
    data: tuple[str, ...]
    log: str

    @property
    def url(self) -> str:
        return f"{self.name}:"

    def choose(self, home: Path) -> None:
        """Have a home name it, where it is not the one that homes have unless they name one."""
        if self is not JSON:
            home.mkdir(mode=0o700, parents=True, exist_ok=True)
            config = home / "config.toml"
            config.touch(mode=0o600)
            config.write_text(f'store = "{self.url}"\n')

    def open(self, home: Path, warn: Callable[[str], None]) -> Any:
        """A handle on a home's store."""
        (provider,) = importlib.import_module(self.module).jobq_stores()
        return provider.make(make_settings(), replace(make_context(home), warn=warn))

    def files(self, home: Path) -> list[Path]:
        """The files that hold jobs."""
        return sorted(path for pattern in self.data for path in home.glob(pattern))

    def move(self, home: Path, to: Path) -> None:
        """Take all that the store consists of from one directory to another."""
        to.mkdir(exist_ok=True)
        for path in self.moved(home):
            path.rename(to / path.name)

    def moved(self, home: Path) -> list[Path]:
        """What of the places is there."""
        return [home / place for place in self.places if (home / place).exists()]

    def in_force(self, home: Path) -> Iterator[Path]:
        """The files that hold jobs, each when what is in it is what counts."""
        yield from self.files(home)

    def tidy(self, home: Path) -> None:
        """Bring what is in the log to where it stays."""
        raise NotImplementedError

    @contextmanager
    def killed(self, home: Path) -> Iterator[None]:
        """What is written in this block stays in the log, as it does when whoever writes is killed."""
        raise NotImplementedError

    def hurt(self, home: Path) -> None:
        """Take away what only a repair can make again, of which it needs nothing."""
        raise NotImplementedError

    @contextmanager
    def held(self, store: Any) -> Iterator[None]:
        """Be in the middle of a change that is written by half, while others wait."""
        raise NotImplementedError

    def without_room(self, home: Path) -> None:
        """Leave it no space of its own that it could write to on a full disk."""


class Json(Kind):
    """Files of lines, in the directory `queue`."""

    name, module, lock = "json", "jobq_json", "queue/queue.lock"
    places, data, log = ("queue",), ("queue/*.json*",), "journal"

    def tidy(self, home: Path) -> None:
        with closing(self.open(home, lambda _: None)) as store:
            assert store.access.compact()

    @contextmanager
    def killed(self, home: Path) -> Iterator[None]:
        yield

    def hurt(self, home: Path) -> None:
        (home / "queue" / "queue.json").unlink()

    @contextmanager
    def held(self, store: Any) -> Iterator[None]:
        with store.access.writing() as generation:
            with open(generation.journal.path, "r+b", buffering=0) as journal:
                journal.seek(generation.journal.end)
                journal.write(b'{"op":"add","sizes":[')
            yield

    def without_room(self, home: Path) -> None:
        (journal,) = (home / "queue").glob("journal-*")
        os.truncate(journal, len(journal.read_bytes().rstrip(b"\0")))


class Sqlite(Kind):
    """A database and its log, in the home itself. The log goes into the database when the last one closes it."""

    name, module, lock = "sqlite", "jobq_sqlite", "queue.sqlite3.lock"
    places = ("queue.sqlite3", "queue.sqlite3-wal", "queue.sqlite3-shm")
    data, log = places[:2], "queue.sqlite3-wal"

    def in_force(self, home: Path) -> Iterator[Path]:
        yield home / self.log
        self.tidy(home)
        yield home / "queue.sqlite3"

    def tidy(self, home: Path) -> None:
        with closing(self._connection(home)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    @contextmanager
    def killed(self, home: Path) -> Iterator[None]:
        with closing(self._connection(home)) as connection:
            connection.execute("SELECT * FROM jobs").fetchall()  # it is open only from here on
            yield
            kept = home / "kept"
            kept.mkdir()
            for path in self.files(home):
                shutil.copy(path, kept)
        for path in kept.iterdir():
            path.rename(home / path.name)
        kept.rmdir()

    def hurt(self, home: Path) -> None:
        with closing(self._connection(home)) as connection:
            ((size,),) = connection.execute("PRAGMA page_size")
            ((page,),) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'finished'")
        with (home / "queue.sqlite3").open("r+b") as file:
            file.seek((page - 1) * size)
            file.write(bytes(size))

    @contextmanager
    def held(self, store: Any) -> Iterator[None]:
        with store._database.writing("") as connection:
            connection.execute("PRAGMA cache_spill = 1")  # so that pages reach the log before the end
            connection.execute("CREATE TABLE half AS SELECT randomblob(1000000)")
            yield

    def _connection(self, home: Path) -> sqlite3.Connection:
        return sqlite3.connect(home / "queue.sqlite3", isolation_level=None)


JSON, SQLITE = Json(), Sqlite()
KINDS = (JSON, SQLITE)


def of(home: Path) -> Kind:
    """The store that a home names."""
    config = home / "config.toml"
    url = tomllib.loads(config.read_text()).get("store", JSON.url) if config.exists() else JSON.url
    (found,) = [kind for kind in KINDS if kind.url == url]
    return found
