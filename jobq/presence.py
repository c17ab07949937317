"""A worker's files in HOME/workers: who is alive, and how what a dead worker left behind is ended.

    ID.lock    locked for the worker's whole life, close-on-exec: free means that the worker is gone
    ID.jobs    locked once, inherited by everything the worker starts: held after its death, something of it lives
    ID.json    what the worker tells of itself (`WorkerInfo`); replaced by rename, not synced
    ID.runs    which runs of handlers have begun, where an executor takes notes of it (`jobq.started`)

The files are created and locked under a temporary name, then renamed, so that they are never seen unlocked before
the worker's death. Observers test them with shared locks and so never take one another for the owner. Liveness uses
no clock: a suspended or stopped worker keeps its locks. ID.json names the very lock file it belongs to: where it was
copied along with a home, the original's worker is nobody's to recover.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import time
import weakref
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from jobq import processes
from jobq.errors import StoreError, StoreUnavailable
from jobq.executor import Recovered
from jobq.files import open_private, private_directory, replace, unavailable
from jobq.members import Presence, WorkerInfo

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ORPHAN_WAIT = 2.0
"""Seconds that recovery waits for a held jobs lock after everything it could find was killed."""

_UNPUBLISHED = ".new"

WORKER_VARIABLE = "JOBQ_WORKER"
JOB_VARIABLES = (WORKER_VARIABLE, "JOBQ_JOB_ID", "JOBQ_RUN")


class FilePresence(Presence):
    """A worker's membership by two held file locks.

    Raises:
        StoreError: the files cannot be made; nothing is left of them.
    """

    def __init__(self, directory: Path, info: WorkerInfo) -> None:
        self.id, self.host = info.id, info.host
        self._directory = directory
        self._lock_fd = -1
        self._join(info)
        _live.add(self)

    def _join(self, info: WorkerInfo) -> None:
        """Make the files, and let them take the place of what there was."""
        private_directory(self._directory)
        _sweep(self._directory)
        lock, jobs = (self._directory / f"{self.id}.{kind}" for kind in ("lock", "jobs"))
        made: list[int] = []
        try:
            # The lock is the last to be seen: where something fails before, the worker is as visible as it was
            made.append(_make_locked(lock))
            made.append(_make_locked(jobs))
            identity = _identity(os.fstat(made[0]))
            self._write(info, identity, durable=True)  # after loss of power it tells that this was another boot
            _publish(jobs)
            _publish(lock)
        except BaseException:
            for descriptor, path in zip(made, (lock, jobs), strict=False):
                os.close(descriptor)
                with contextlib.suppress(OSError):
                    os.unlink(_unpublished(path))
            if self._lock_fd < 0:
                with contextlib.suppress(StoreUnavailable):
                    _unlink_all(self._directory, self.id)
            raise
        before = (self._lock_fd, self.jobs_fd)
        self._lock_fd, self.jobs_fd = made
        self._identity = identity
        for old in before:
            if old is not None and old >= 0:
                os.close(old)

    def report(self, info: WorkerInfo) -> None:
        """Replace what is told of this worker."""
        self._write(info, self._identity, durable=False)

    def _write(self, info: WorkerInfo, lock: list[int], *, durable: bool) -> None:
        record = info.record() | {"lock": lock}
        replace(self._directory / f"{self.id}.json", json.dumps(record).encode(), durable=durable)

    def renew(self, info: WorkerInfo) -> bool:
        """Make the files anew if somebody removed them.

        What runs already holds the jobs lock that was removed. It still carries the worker's name; only what has
        cleared its environment could not be found any more, should the worker be killed.
        """
        if self._lock_fd < 0 or _is_at(self._lock_fd, self._directory / f"{self.id}.lock"):
            return False
        self._join(info)
        return True

    def close(self, *, clean: bool = True) -> None:
        """Leave. The files go first, then the locks; without `clean` the files stay, for recovery to find.

        Raises:
            StoreUnavailable: the files cannot be removed; the locks are let go all the same.
        """
        if self._lock_fd < 0:
            return
        try:
            if clean:
                _unlink_all(self._directory, self.id)
        finally:
            self._let_go()

    def _let_go(self) -> None:
        for descriptor in (self._lock_fd, self.jobs_fd):
            if descriptor is not None and descriptor >= 0:
                os.close(descriptor)
        self._lock_fd, self.jobs_fd = -1, None


_live: weakref.WeakSet[FilePresence] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked copy of a worker is no worker: it must not hold the locks that tell of one."""
    for presence in _live:
        presence._let_go()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_after_fork)


def members(directory: Path) -> Iterator[tuple[WorkerInfo, bool]]:
    """Every worker that has files here, and whether it is alive; none that is still joining or leaving just now.

    Raises:
        StoreError: they cannot be looked at.
    """
    try:
        names = sorted(os.listdir(directory))
    except FileNotFoundError:
        return
    except OSError as error:
        raise unavailable(error, directory) from None
    for name in names:
        worker_id, dot, kind = name.rpartition(".")
        if not dot or kind != "lock":
            continue
        alive = is_alive(directory, worker_id)
        info = _read_info(directory, worker_id)
        if info is None and (alive or not os.path.lexists(directory / name)):
            continue
        yield info or unknown_worker(worker_id), alive


def is_alive(directory: Path, worker_id: str) -> bool:
    """Whether the worker's lock is held."""
    return _held(directory / f"{worker_id}.lock")


def left_running(directory: Path, worker_id: str) -> bool:
    """Whether something that the worker started holds its jobs lock; of a living worker, it does so itself."""
    return _held(directory / f"{worker_id}.jobs")


def forget(directory: Path, worker_id: str) -> None:
    """Remove the files of a worker that is gone and recovered.

    Raises:
        StoreUnavailable: they cannot be removed.
    """
    _unlink_all(directory, worker_id)


def recover(directory: Path, worker: WorkerInfo) -> Recovered:
    """End whatever a dead worker left running on this host.

    Every process of this user that carries the worker's name in its environment is killed, whether or not the jobs
    lock is held, and then every one that holds that lock; if it is held even so, it is waited for up to `ORPHAN_WAIT`
    seconds. Worker ids are never reused, so a second or late recovery hits only what that worker left.
    """
    lock = directory / f"{worker.id}.jobs"
    if worker.boot_id != processes.boot_id():
        # No lock outlives its boot: one that is held is held on another machine that shares the disk. Else its files in
        # this very home say that it ran here, whatever this machine is called now.
        here = not _held(lock) and (lock.exists() or worker.host == processes.host())
        return Recovered(clean=True) if here else _elsewhere(worker)
    if not processes.visible():
        if _held(lock):
            return Recovered(
                clean=False, why="processes of its jobs still run, and cannot be looked for on this system"
            )
        return Recovered(clean=True)
    marker = f"{WORKER_VARIABLE}={worker.id}".encode()
    left = processes.kill_all(lambda: processes.carriers(marker), seconds=ORPHAN_WAIT)
    if not left and _held(lock):
        left = processes.kill_all(lambda: processes.holders(lock), seconds=ORPHAN_WAIT)
    if left:
        pids = ", ".join(str(orphan.pid) for orphan in left)
        return Recovered(clean=False, why=f"processes of its jobs cannot be ended (pid {pids})")
    end = time.monotonic() + ORPHAN_WAIT
    while _held(lock):
        if time.monotonic() > end:
            return Recovered(
                clean=False, why="a process of its jobs still runs and cannot be found (it holds the jobs lock)"
            )
        time.sleep(0.01)
    return Recovered(clean=True)


def unknown_worker(worker_id: str) -> WorkerInfo:
    """What is told of a worker of this machine whose own words are gone."""
    return WorkerInfo(
        id=worker_id,
        name=worker_id[:8],
        host=processes.host(),
        boot_id=processes.boot_id(),
        pid=0,
        start_time=0,
        started=datetime.fromtimestamp(0, UTC),
        version="",
    )


def _elsewhere(worker: WorkerInfo) -> Recovered:
    return Recovered(clean=False, why=f"it ran on {worker.host}, and only a process there can look")


def _is_at(descriptor: int, path: Path) -> bool:
    """Whether the open file is the one that stands there."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False


def _unpublished(path: Path) -> Path:
    return path.with_name(f".{path.name}{_UNPUBLISHED}")


def _make_locked(path: Path) -> int:
    """A file that is locked, to be published at `path`."""
    temporary = _unpublished(path)
    while True:
        try:
            descriptor = open_private(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        except OSError as error:
            raise unavailable(error, temporary) from None
        try:
            # Who sweeps just now holds it for a moment; a new file is made only when that one is done with the name
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if _is_at(descriptor, temporary):
                return descriptor
        except OSError as error:
            os.close(descriptor)
            raise unavailable(error, path) from None
        os.close(descriptor)


def _sweep(directory: Path) -> None:
    """Remove what is left of workers that were killed while they joined, before anybody could see them."""
    for temporary in directory.glob(f".*.lock{_UNPUBLISHED}"):
        worker_id = temporary.name[1:].removesuffix(f".lock{_UNPUBLISHED}")
        try:
            descriptor = open_private(temporary, os.O_RDWR)
        except (FileNotFoundError, StoreError):
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that had been seen, and made its files anew, is lost like any other, and what it started may live
            seen = any(os.path.lexists(directory / f"{worker_id}.{kind}") for kind in ("lock", "runs"))
            if not (seen or left_running(directory, worker_id)) and _is_at(descriptor, temporary):
                _unlink_all(directory, worker_id)
        except (OSError, StoreError):
            continue  # it lives, or cannot be removed, which hinders nobody
        finally:
            os.close(descriptor)


def _publish(path: Path) -> None:
    try:
        os.rename(_unpublished(path), path)
    except OSError as error:
        raise unavailable(error, path) from None


def _held(path: Path) -> bool:
    try:
        descriptor = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _read_info(directory: Path, worker_id: str) -> WorkerInfo | None:
    """What a worker told of itself; in a copy of its home it never ran, on this boot or any other."""
    try:
        descriptor = open_private(directory / f"{worker_id}.json", os.O_RDONLY)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        try:
            record = json.loads(file.read())
            info = WorkerInfo.from_record(record)
            if record["lock"] == _identity(os.lstat(directory / f"{worker_id}.lock")):
                return info
            return dataclasses.replace(info, boot_id="")
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            return None


def _identity(facts: os.stat_result) -> list[int]:
    return [facts.st_dev, facts.st_ino]


def _unlink_all(directory: Path, worker_id: str) -> None:
    try:
        unpublished = sorted(directory.glob(f".{worker_id}.*{_UNPUBLISHED}"))
        files = [directory / f"{worker_id}.{kind}" for kind in ("json", "jobs", "runs", "lock")]
        # The locks last, here as in the order of the names: without them the rest is not found again
        for path in (*files[:-1], *unpublished, files[-1]):
            path.unlink(missing_ok=True)
    except OSError as error:
        raise unavailable(error, directory) from None
