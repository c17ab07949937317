"""Which directory is the home, and whether it may be trusted.

In order: what was asked for, `JOBQ_HOME`, the nearest `.jobq` above the working directory, the user's state
directory. A `.jobq` found by walking up may have come with somebody's repository or archive, and its jobs would run
here: it counts only if `jobq init` made or trusted it on this machine for this user. It is known by a random token,
in a file of its own and in the user's list of trusted homes, together with the machine and the place: whatever else
comes to stand there later has not that token.
"""

from __future__ import annotations

import fcntl
import os
import sys

from jobq.codec import encode
from jobq.errors import InvalidInput, StoreError, UnsafeHome
from jobq.files import (
    check_directory,
    check_parents,
    private_directories,
    private_directory,
    read_private,
    replace,
    unavailable,
)
from jobq.light import contextmanager
from jobq.records import record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from jobq.files import StrPath

LOCAL_NAME = ".jobq"
_TOKEN = "token"  # noqa: S105 - the name of a file
_TOKEN_BYTES = 16
_MARK = "workers"
"""Made with the home, which is known by it from then on, whatever a store puts beside it."""
_KERNEL = frozenset({"config.toml", "output", _MARK, "cache", "trusted", _TOKEN, ".gitignore"})
_OURS = _KERNEL | {"queue", "queue.made"}


@record(frozen=True)
class Home:
    """A home directory and how it was found: `--home`, `JOBQ_HOME`, `found` or `default`."""

    directory: str
    source: str

    @property
    def path(self) -> Path:
        """The directory, as a path."""
        from pathlib import Path  # an enqueue does without it

        return Path(self.directory)

    def exists(self) -> bool:
        """Whether it is there; checked before anything in it is read.

        Raises:
            UnsafeHome: it is there and not ours alone.
            StoreUnavailable: it cannot be looked at.
        """
        try:
            _check_kind(self.directory)
            check_directory(self.directory)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise unavailable(error, self.directory) from None
        check_parents(self.directory)
        return True

    def create(self) -> None:
        """Make it if it is not there, and whatever is missing above it, all with mode 0700.

        Raises:
            UnsafeHome: what is there is not ours alone, or lies where others could exchange it.
            StoreUnavailable: it cannot be made.
        """
        if not self.exists():
            check_parents(self.directory)
            private_directories(self.directory)
            self.mark()

    def mark(self) -> None:
        """Make what it is known by, if that is not there: it may be a directory that somebody made for it.

        Raises:
            UnsafeHome: what is there is not ours alone.
            StoreUnavailable: it cannot be made.
        """
        private_directory(f"{self.directory}/{_MARK}")


def refuse_own_place(home: str, path: str, url: str) -> None:
    """Refuse a store's file or directory where the home itself is, or what the kernel keeps in it. Stores ask this.

    Args:
        home: the home directory.
        path: the absolute path that a store would use.
        url: what named it.

    Raises:
        InvalidInput: it is the home, or one of the names in it that are not for stores, or below such a one.
    """
    if not path.startswith(home):
        home, path = os.path.realpath(home), os.path.realpath(path)
    place = os.path.relpath(path, home)
    if place == os.curdir or place.split(os.sep, 1)[0] in _KERNEL:
        raise InvalidInput("store", url, f"names {path}, which is for other things of this home")


def locate(asked: str | None, environ: Mapping[str, str], directory: str) -> Home:
    """The home for a process started in `directory`.

    Raises:
        UnsafeHome: the nearest `.jobq` is no directory, or not trusted.
    """
    if asked:
        return Home(os.path.abspath(asked), "--home")
    if environ.get("JOBQ_HOME"):
        return Home(os.path.abspath(environ["JOBQ_HOME"]), "JOBQ_HOME")
    found = _nearest(directory, environ.get("HOME") or os.sep)
    if found is None:
        return Home(state_directory(environ), "default")
    if os.path.islink(found) or not os.path.isdir(found):
        raise UnsafeHome(f"{found} is not a real directory")
    if not is_trusted(found, environ):
        raise UnsafeHome(
            f"{found} was not made here by `jobq init`: its jobs would run as you. "
            f"If they may, `jobq init --trust {found}`"
        )
    return Home(found, "found")


def state_directory(environ: Mapping[str, str]) -> str:
    """The user's own home for jobq: `$XDG_STATE_HOME/jobq`, `~/.local/state/jobq`, or what macOS has for it."""
    user = environ.get("HOME") or os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(user, "Library", "Application Support", "jobq")
    state = environ.get("XDG_STATE_HOME", "")
    return os.path.join(state if os.path.isabs(state) else os.path.join(user, ".local", "state"), "jobq")


def trust(path: StrPath, environ: Mapping[str, str]) -> None:
    """Remember a local home as one whose jobs may run here, under a new token.

    Raises:
        UnsafeHome: it is not ours alone, or lies where others could exchange it.
        FileNotFoundError: it is not there.
        StoreUnavailable: the list or the token cannot be written.
    """
    path = os.fspath(path)
    check_directory(path)
    check_parents(path)
    state = Home(state_directory(environ), "default")
    state.create()
    with _locked(state.directory):
        known = _trusted(environ)
        if _mark(path, _token(path)) in known:
            return
        token = os.urandom(_TOKEN_BYTES).hex()  # a new one: whoever packed what stands here may know the old
        replace(f"{path}/{_TOKEN}", token.encode(), durable=True)
        before = _mark(path, "")
        kept = [line for line in known if _without_token(line) != before]
        text = "".join(f"{line}\n" for line in (*kept, _mark(path, token)))
        replace(f"{state.directory}/trusted", text.encode(), durable=True)


def _nearest(directory: str, user: str) -> str | None:
    device = os.stat(directory).st_dev
    place, below = directory, ""
    while place != below:
        local = os.path.join(place, LOCAL_NAME)
        try:
            if os.stat(place).st_dev != device:
                return None
            facts = os.lstat(local)
        except OSError:
            facts = None
        if facts is not None and facts.st_uid == os.geteuid():  # somebody else's is not ours to be stopped by
            return local
        if place == user:
            return None
        place, below = os.path.dirname(place), place
    return None


def is_trusted(path: StrPath, environ: Mapping[str, str]) -> bool:
    """Whether `init` made or trusted this local home on this machine for this user."""
    path = os.fspath(path)
    token = _token(path)
    return token != "" and _mark(path, token) in _trusted(environ)


def _trusted(environ: Mapping[str, str]) -> list[str]:
    """The user's list; only whole lines count."""
    home = Home(state_directory(environ), "default")
    if not home.exists():
        return []
    try:
        return read_private(f"{home.directory}/trusted").decode("ascii", "replace").split("\n")[:-1]
    except FileNotFoundError:
        return []


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """One process at a time changes what is in the directory."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _token(path: str) -> str:
    """The token of a local home; "" where there is none that could be one."""
    try:
        token = read_private(f"{path}/{_TOKEN}").decode("ascii", "replace")
    except (FileNotFoundError, StoreError):
        return ""
    return token if len(token) == 2 * _TOKEN_BYTES and set(token) <= set("0123456789abcdef") else ""


def _mark(path: str, token: str) -> str:
    """The line that a trusted home is known by: this machine, its token, its place; ASCII whatever the path."""
    try:
        with open("/etc/machine-id", encoding="ascii", errors="replace") as file:
            machine = file.read()
    except OSError:
        machine = os.uname().nodename
    return f"{'-'.join(machine.split())} {token} {encode(path)}"


def _without_token(line: str) -> str:
    machine, _, rest = line.partition(" ")
    return f"{machine}  {rest.partition(' ')[2]}"


def _check_kind(path: str) -> None:
    """A directory full of other things is nobody's home, and its mode no business of ours."""
    if not os.path.isdir(path) or os.path.islink(path):
        return  # told better by what it is
    # A file that is just being replaced, or was when the power went, tells nothing.
    names = [name for name in os.listdir(path) if not (name.startswith(".") and name.endswith(".new"))]
    if names and not _OURS.intersection(names):
        raise UnsafeHome(f"{path} holds other things and nothing of jobq; a home is a directory of its own")
