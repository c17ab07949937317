"""Files and directories that only their owner may touch, and their replacement as a whole.

Everything jobq keeps is opened here or under the same rules: never through a symbolic link, only regular files of
the effective user, mode 0600 whatever the umask; directories 0700.
"""

from __future__ import annotations

import errno
import os
import stat

from jobq.errors import StoreUnavailable, UnsafeHome
from jobq.light import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from os import PathLike

    StrPath = str | PathLike[str]

_MOST_LINKS = 40
"""Symbolic links on one path; the system itself follows no more."""


def private_directory(path: StrPath) -> None:
    """Make the directory, or check the one that is there: real, ours, closed to everybody else.

    Raises:
        UnsafeHome: it is none of this.
        StoreUnavailable: it cannot be made.
    """
    try:
        _make_directory(path)
    except FileExistsError:
        check_directory(path)


def check_directory(path: StrPath) -> os.stat_result:
    """Check that a directory is real, ours and closed to everybody else; what the system tells of it.

    Raises:
        UnsafeHome: it is not.
        FileNotFoundError: it is not there.
        StoreUnavailable: it cannot be looked at.
    """
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise unavailable(error, path) from None
    if not stat.S_ISDIR(facts.st_mode):
        raise UnsafeHome(f"{path} is not a real directory")
    _check_owner(path, facts)
    if facts.st_mode & 0o077:
        raise UnsafeHome(
            f"{path} is open to other users (mode {facts.st_mode & 0o777:04o}); `chmod 700 {path}` closes it"
        )
    return facts


def private_directories(path: StrPath) -> None:
    """Make the directory as `private_directory`, and those missing above it; on return they survive loss of power.

    Raises:
        UnsafeHome, StoreUnavailable: as `private_directory`.
    """
    missing = []
    parent = os.path.dirname(os.path.abspath(path))
    while not os.path.lexists(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    for parent in reversed(missing):
        with suppress(FileExistsError):  # somebody else's by now, as those above it are
            _make_directory(parent)
        _sync_entry(parent)
    private_directory(path)
    _sync_entry(path)


def check_parents(path: StrPath) -> None:
    """Nobody but this user and root can put another directory in the place of `path`.

    Directories that a group may change are allowed: where each user has a group of its own, that is everybody's umask.

    Raises:
        UnsafeHome: somebody can.
        StoreUnavailable: a directory on the way cannot be looked at.
    """
    trusted = {0, os.geteuid(), *_unmapped()}
    for parent, facts in _passed(path):
        if facts.st_uid not in trusted:
            raise UnsafeHome(
                f"{parent}, which {path} is in, belongs to user {facts.st_uid}, who may exchange what is in it"
            )
        if stat.S_ISDIR(facts.st_mode) and facts.st_mode & stat.S_IWOTH and not facts.st_mode & stat.S_ISVTX:
            raise UnsafeHome(
                f"{parent}, which {path} is in, may be changed by everybody; `chmod o-w {parent}` closes it"
            )


def _unmapped() -> Iterable[int]:
    """What the owners outside of a user namespace are shown as in it, the machine's root among them."""
    try:
        with open("/proc/self/uid_map", "rb") as file:
            everybody = file.read().split()[:3] == [b"0", b"0", b"4294967295"]
        if not everybody:
            with open("/proc/sys/kernel/overflowuid", "rb") as file:
                return (int(file.read()),)
    except (OSError, ValueError):
        return ()
    return ()


def open_private(path: StrPath, flags: int, *, directory: int | None = None) -> int:
    """Open a file of ours; where `flags` create it, with mode 0600. The descriptor is close-on-exec.

    Raises:
        FileNotFoundError, FileExistsError: as `flags` make of it.
        UnsafeHome: a link, a FIFO, a directory or somebody else's file stands there.
        StoreUnavailable: any other trouble.
    """
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600, dir_fd=directory)
    except (FileNotFoundError, FileExistsError):
        raise
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
            raise UnsafeHome(f"{path} is not a regular file") from None
        raise unavailable(error, path) from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            raise UnsafeHome(f"{path} is not a regular file")
        _check_owner(path, facts)
        if flags & os.O_CREAT and facts.st_mode & 0o777 != 0o600:
            os.fchmod(descriptor, 0o600)
    except BaseException as error:
        os.close(descriptor)
        if flags & os.O_EXCL:  # made in this very call
            with suppress(OSError):
                os.unlink(path, dir_fd=directory)
        if isinstance(error, OSError):
            raise unavailable(error, path) from None
        raise
    return descriptor


def read_private(path: StrPath) -> bytes:
    """The content of a file of ours, whole.

    Raises:
        FileNotFoundError, UnsafeHome, StoreUnavailable: as `open_private`.
    """
    with open(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read()


def write_all(descriptor: int, data: bytes | memoryview, *, at: int | None = None) -> None:
    """Write all of `data`, however many calls that takes; `at` a position, or where the descriptor stands."""
    view = memoryview(data)
    while view:
        written = os.write(descriptor, view) if at is None else os.pwrite(descriptor, view, at)
        at = None if at is None else at + written
        view = view[written:]


def replace(path: StrPath, data: bytes, *, durable: bool) -> None:
    """Replace the file as a whole by one that holds `data`; see `replacing`.

    Raises:
        StoreUnavailable: the system refused; the old content stands.
    """
    with replacing(path, durable=durable) as descriptor:
        write_all(descriptor, data)


@contextmanager
def replacing(path: StrPath, *, durable: bool) -> Iterator[int]:
    """A descriptor to write a file with that takes the place of `path` at the end, if there was no error.

    Whoever reads `path` sees the old content or the new. With `durable` it survives loss of power from then on: the
    file is synced before the rename, its directory after.

    Raises:
        StoreUnavailable: the system refused; the old content stands.
    """
    directory, name = os.path.split(os.fspath(path))
    temporary = os.path.join(directory, f".{name}.{os.urandom(8).hex()}.new")
    try:
        descriptor = open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            try:
                yield descriptor
                if durable:
                    sync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(temporary, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            sync_directory(directory or os.curdir)
    except OSError as error:
        raise unavailable(error, path) from None


def sync(descriptor: int) -> None:
    """Bring a file's content to the disk itself (F_FULLFSYNC where a plain sync stops in the drive's cache)."""
    import fcntl

    full = getattr(fcntl, "F_FULLFSYNC", None)
    if full is not None:
        fcntl.fcntl(descriptor, full)
    else:
        os.fdatasync(descriptor)


def sync_directory(path: StrPath) -> None:
    """Make what was created, renamed or removed in a directory survive loss of power."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unavailable(error: OSError, path: StrPath) -> StoreUnavailable:
    """The error of the system, told with the file it was about."""
    return StoreUnavailable(f"{path}: {error.strerror or error}")


def _make_directory(path: StrPath) -> None:
    """Make a directory that is closed to others; a umask neither opens nor closes it."""
    try:
        os.mkdir(path, 0o700)
        os.chmod(path, 0o700)
    except FileExistsError:
        raise
    except OSError as error:
        raise unavailable(error, path) from None


def _sync_entry(path: StrPath) -> None:
    """Make it survive loss of power that a directory is there."""
    parent = os.path.dirname(os.fspath(path))
    try:
        sync_directory(parent)
    except PermissionError:
        return  # one may make directories where one may not look
    except OSError as error:
        raise unavailable(error, parent) from None


def _check_owner(path: StrPath, facts: os.stat_result) -> None:
    if facts.st_uid != os.geteuid():
        raise UnsafeHome(f"{path} belongs to user {facts.st_uid}, not to the one running this ({os.geteuid()})")


def _passed(path: StrPath) -> Iterator[tuple[str, os.stat_result]]:
    """Every directory, and every symbolic link, on the way to `path`, as far as it is there."""
    place, links = os.sep, 0
    yield place, os.lstat(place)
    steps = _steps(os.path.dirname(os.fspath(path)))
    while steps:
        step = steps.pop()
        if step == os.pardir:
            place = os.path.dirname(place)
            continue
        here = os.path.join(place, step)
        try:
            facts = os.lstat(here)
            target = os.readlink(here) if stat.S_ISLNK(facts.st_mode) else None
        except FileNotFoundError:
            return
        except OSError as error:
            raise unavailable(error, here) from None
        yield here, facts
        if target is None:
            place = here
            continue
        links += 1
        if links > _MOST_LINKS:
            raise UnsafeHome(f"{path} lies behind symbolic links in a circle")
        if os.path.isabs(target):
            place = os.sep
        steps += _steps(target)


def _steps(path: str) -> list[str]:
    """The names on a path that lead anywhere, the last one first."""
    return [name for name in reversed(path.split(os.sep)) if name not in ("", os.curdir)]
