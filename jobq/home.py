"""Which directory is the home, and whether it may be trusted.

In order: what was asked for, `JOBQ_HOME`, the nearest `.jobq` above the working directory, the user's state
directory. A `.jobq` found by walking up may have come with somebody's repository or archive, and its jobs would run
here: it counts only if `jobq init` made or trusted it on this machine for this user.
"""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from jobq.errors import UnsafeHome
from jobq.files import check_directory, open_private, private_directory, replace, unavailable

if TYPE_CHECKING:
    from collections.abc import Mapping

LOCAL_NAME = ".jobq"
_OURS = frozenset({"config.toml", "queue", "output", "workers", "cache", "trusted", ".gitignore"})


@dataclass(frozen=True, slots=True)
class Home:
    """A home directory and how it was found: `--home`, `JOBQ_HOME`, `found` or `default`."""

    path: Path
    source: str

    def exists(self) -> bool:
        """Whether it is there; checked before anything in it is read.

        Raises:
            UnsafeHome: it is there and not ours alone.
            StoreUnavailable: it cannot be looked at.
        """
        try:
            _check_kind(self.path)
            check_directory(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unavailable(error, self.path) from None
        _check_parents(self.path)
        return True

    def create(self) -> None:
        """Make it if it is not there.

        Raises:
            UnsafeHome: what is there is not ours alone.
            StoreUnavailable: it cannot be made.
        """
        if not self.exists():
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            except OSError as error:
                raise unavailable(error, self.path.parent) from None
            private_directory(self.path)
            _check_parents(self.path)


def locate(asked: str | None, environ: Mapping[str, str], directory: str) -> Home:
    """The home for a process started in `directory`.

    Raises:
        UnsafeHome: the nearest `.jobq` is not trusted.
    """
    if asked:
        return Home(Path(os.path.abspath(asked)), "--home")
    if environ.get("JOBQ_HOME"):
        return Home(Path(os.path.abspath(environ["JOBQ_HOME"])), "JOBQ_HOME")
    found = _nearest(Path(directory), Path(environ.get("HOME") or os.sep))
    if found is None:
        return Home(state_directory(environ), "default")
    if not is_trusted(found, environ):
        raise UnsafeHome(
            f"{found} was not made here by `jobq init`: its jobs would run as you. "
            f"If they may, `jobq init --trust {found}`"
        )
    return Home(found, "found")


def state_directory(environ: Mapping[str, str]) -> Path:
    """The user's own home for jobq: `$XDG_STATE_HOME/jobq`, `~/.local/state/jobq`, or what macOS has for it."""
    user = Path(environ.get("HOME") or os.path.expanduser("~"))
    if sys.platform == "darwin":
        return user / "Library" / "Application Support" / "jobq"
    state = environ.get("XDG_STATE_HOME", "")
    return (Path(state) if os.path.isabs(state) else user / ".local" / "state") / "jobq"


def trust(path: Path, environ: Mapping[str, str]) -> None:
    """Remember a local home as one whose jobs may run here."""
    check_directory(path)
    state = Home(state_directory(environ), "default")
    state.create()
    known = _trusted(environ)
    if (mark := _mark(path)) not in known:
        replace(state.path / "trusted", "".join(f"{line}\n" for line in (*known, mark)).encode(), durable=True)


def _nearest(directory: Path, user: Path) -> Path | None:
    device = os.stat(directory).st_dev
    for place in (directory, *directory.parents):
        try:
            if os.stat(place).st_dev != device:
                return None
            facts = os.lstat(place / LOCAL_NAME)
        except OSError:
            facts = None
        if facts is not None and facts.st_uid == os.geteuid():  # somebody else's is not ours to be stopped by
            return place / LOCAL_NAME
        if place == user:
            return None
    return None


def is_trusted(path: Path, environ: Mapping[str, str]) -> bool:
    """Whether `init` made or trusted this local home on this machine for this user."""
    return _mark(path) in _trusted(environ)


def _trusted(environ: Mapping[str, str]) -> list[str]:
    home = Home(state_directory(environ), "default")
    if not home.exists():
        return []
    try:
        with open(open_private(home.path / "trusted", os.O_RDONLY), encoding="utf-8") as file:
            return file.read().splitlines()
    except FileNotFoundError:
        return []


def _mark(path: Path) -> str:
    """What a trusted home is known by: this machine, this very directory, at this place."""
    try:
        machine = Path("/etc/machine-id").read_text(encoding="ascii").strip()
    except OSError:
        machine = os.uname().nodename
    return f"{machine} {os.stat(path).st_ino} {path}"


def _check_kind(path: Path) -> None:
    """A directory full of other things is nobody's home, and its mode no business of ours."""
    if not path.is_dir() or path.is_symlink():
        return  # told better by what it is
    names = os.listdir(path)
    if names and not _OURS.intersection(names):
        raise UnsafeHome(f"{path} holds other things and nothing of jobq; a home is a directory of its own")


def _check_parents(path: Path) -> None:
    for parent in path.parents:
        mode = os.stat(parent).st_mode
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise UnsafeHome(
                f"{parent}, which {path} is in, may be changed by everybody; `chmod o-w {parent}` closes it"
            )
