"""What a file system is and does: its type, its room, and whether what a store relies on works there, tried out."""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from typing import TYPE_CHECKING

from jobq import files
from jobq.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "9p", "ceph", "glusterfs", "lustre"})
NETWORK |= {"beegfs", "fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.s3fs", "fuse.rclone"}
"""Types of file systems whose locks and syncs cannot be relied on, whatever they answer."""

LEAST_FREE = 64 << 20
"""Bytes of free space below which a queue is one burst of output away from standing still."""

LEAST_FILES = 1000
"""Files that can still be made, below which the same is so."""

_CONTENT = b"jobq\n"


def kind(path: Path) -> str:
    """The type of the file system that holds `path`; "" where the system does not tell."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:
            mounts = [line.split(" ")[1:3] for line in file]
    except OSError:
        return ""
    real = os.path.realpath(path)
    best, found = "", ""
    for place, name in mounts:
        plain = place.replace("\\040", " ")
        if (real == plain or real.startswith(plain.rstrip("/") + "/")) and len(plain) >= len(best):
            best, found = plain, name
    return found


def shortage(path: Path) -> tuple[list[str], str]:
    """What there is too little of where `path` is, one sentence each; and what there is, in a few words.

    Raises:
        OSError: it cannot be asked.
    """
    facts = os.statvfs(path)
    free = facts.f_bavail * facts.f_frsize
    problems = []
    if free < LEAST_FREE:
        problems.append(f"only {free >> 20} MiB are free where {path} is")
    if not facts.f_files:  # some make room for files as they come, and tell of none
        return problems, f"{free >> 20} MiB free"
    if facts.f_favail < LEAST_FILES:
        problems.append(f"only {facts.f_favail} more files can be made where {path} is")
    return problems, f"{free >> 20} MiB and {facts.f_favail} files free"


def trial(directory: Path) -> list[str]:
    """What does not work in a directory of what a store relies on, one sentence each.

    Tried with a small file, of which nothing is left: writing, syncing it and the directory, renaming, that a lock
    keeps others out and is free again when its holder closes it, and that a map shows what is written.
    """
    wrong = []
    try:
        with _tried_on(directory) as (path, descriptor):
            for sentence, attempt in _TRIALS.items():
                try:
                    why = attempt(path, descriptor)
                except (OSError, ValueError, StoreError) as error:
                    why = getattr(error, "strerror", None) or str(error)
                if why:
                    wrong.append(f"{sentence} in {directory}: {why}")
    except (OSError, StoreError) as error:
        wrong.append(f"nothing can be written in {directory}: {getattr(error, 'strerror', None) or error}")
    return wrong


@contextlib.contextmanager
def _tried_on(directory: Path) -> Iterator[tuple[Path, int]]:
    """A file that is there for as long as it is tried on: its path, and a descriptor of it."""
    path = directory / f".doctor.{os.urandom(8).hex()}.new"
    descriptor = files.open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        files.write_all(descriptor, _CONTENT)
        yield path, descriptor
    finally:
        os.close(descriptor)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _sync(_path: Path, descriptor: int) -> str:
    files.sync(descriptor)
    return ""


def _lock(path: Path, descriptor: int) -> str:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    if _can_lock(path):
        return "two can hold one at once"
    fcntl.flock(descriptor, fcntl.LOCK_UN)
    return "" if _can_lock(path) else "one that was given back is still held"


def _can_lock(path: Path) -> bool:
    """Whether somebody who opens the file anew gets its lock; they close it."""
    other = files.open_private(path, os.O_RDWR)
    try:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(other)
    return True


def _map(_path: Path, descriptor: int) -> str:
    with mmap.mmap(descriptor, len(_CONTENT), prot=mmap.PROT_READ) as mapped:
        os.pwrite(descriptor, _CONTENT.upper(), 0)
        return "" if mapped[:] == _CONTENT.upper() else "they do not show what is written"


def _sync_directory(path: Path, _descriptor: int) -> str:
    files.sync_directory(path.parent)
    return ""


def _replace(path: Path, _descriptor: int) -> str:
    files.replace(path, b"replaced\n", durable=False)
    return "" if files.read_private(path) == b"replaced\n" else "the old content is still there"


_TRIALS: dict[str, Callable[[Path, int], str]] = {
    "files cannot be synced": _sync,
    "locks do not work": _lock,
    "maps do not work": _map,
    "files cannot be replaced": _replace,
    "directories cannot be synced": _sync_directory,
}
