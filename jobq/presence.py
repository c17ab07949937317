"""A worker's files in HOME/workers: who is alive.

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

import fcntl
import os

from jobq.codec import encode, loads
from jobq.errors import StoreError
from jobq.files import open_private, private_directory, replace, unavailable
from jobq.light import UTC, datetime, suppress
from jobq.members import Presence, WorkerInfo

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq.files import StrPath

_UNPUBLISHED = ".new"

WORKER_VARIABLE = "JOBQ_WORKER"
JOB_VARIABLES = (WORKER_VARIABLE, "JOBQ_JOB_ID", "JOBQ_RUN")


class FilePresence(Presence):
    """A worker's membership by two held file locks.

    Raises:
        StoreError: the files cannot be made; nothing is left of them.
    """

    def __init__(self, directory: StrPath, info: WorkerInfo) -> None:
        self.id, self.host = info.id, info.host
        self._directory = directory
        self._lock_fd = -1
        self._join(info)
        _live.add(self)

    def _join(self, info: WorkerInfo) -> None:
        """Make the files, and let them take the place of what there was."""
        private_directory(self._directory)
        _sweep(self._directory)
        lock, jobs = (f"{self._directory}/{self.id}.{kind}" for kind in ("lock", "jobs"))
        made: list[int] = []
        try:
            # The lock is the last to be seen: where something fails before, the worker is as visible as it was
            made.append(_make_locked(lock))
            made.append(_make_locked(jobs))
            identity = _identity(os.fstat(made[0]))
            self._write(info, identity, durable=True)  # after loss of power it tells that this was another boot
            _publish(jobs)
            _publish(lock)
        except BaseException as error:
            for descriptor in made:
                os.close(descriptor)
            left = [_unpublished(jobs), _unpublished(lock)]
            if self._lock_fd < 0:
                left = [f"{self._directory}/{self.id}.json", jobs, *left]
            for path in left:  # by their names: to list the directory takes a descriptor, of which there may be none
                with suppress(OSError):
                    os.unlink(path)
            if isinstance(error, OSError):
                raise unavailable(error, self._directory) from None
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
        replace(f"{self._directory}/{self.id}.json", encode(record).encode(), durable=durable)

    def renew(self, info: WorkerInfo) -> bool:
        """Make the files anew if somebody removed them.

        What runs already holds the jobs lock that was removed. It still carries the worker's name; only what has
        cleared its environment could not be found any more, should the worker be killed.
        """
        if self._lock_fd < 0 or _is_at(self._lock_fd, f"{self._directory}/{self.id}.lock"):
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
        _live.discard(self)


_live: set[FilePresence] = set()


def _after_fork() -> None:
    """A forked copy of a worker is no worker: it must not hold the locks that tell of one."""
    for presence in tuple(_live):
        presence._let_go()  # noqa: SLF001 - of this module


os.register_at_fork(after_in_child=_after_fork)


def members(directory: StrPath) -> Iterator[tuple[WorkerInfo, bool]]:
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
        if info is None and (alive or not os.path.lexists(f"{directory}/{name}")):
            continue
        yield info or unknown_worker(worker_id), alive


def is_alive(directory: StrPath, worker_id: str) -> bool:
    """Whether the worker's lock is held."""
    return is_held(f"{directory}/{worker_id}.lock")


def left_running(directory: StrPath, worker_id: str) -> bool:
    """Whether something that the worker started holds its jobs lock; of a living worker, it does so itself."""
    return is_held(f"{directory}/{worker_id}.jobs")


def forget(directory: StrPath, worker_id: str) -> None:
    """Remove the files of a worker that is gone and recovered.

    Raises:
        StoreUnavailable: they cannot be removed.
    """
    _unlink_all(directory, worker_id)


def unknown_worker(worker_id: str) -> WorkerInfo:
    """What is told of a worker of this machine whose own words are gone."""
    from jobq import processes

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


def _is_at(descriptor: int, path: StrPath) -> bool:
    """Whether the open file is the one that stands there."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.lstat(path))
    except FileNotFoundError:
        return False
    except OSError as error:
        raise unavailable(error, path) from None


def _unpublished(path: str) -> str:
    directory, name = os.path.split(path)
    return f"{directory}/.{name}{_UNPUBLISHED}"


def _make_locked(path: str) -> int:
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
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise unavailable(error, path) from None
            raise
        os.close(descriptor)


def _sweep(directory: StrPath) -> None:
    """Remove what is left of workers that were killed while they joined, before anybody could see them."""
    try:
        names = _hidden(directory)
    except OSError:
        return  # it hinders nobody
    for name in names:
        if not name.endswith(f".lock{_UNPUBLISHED}"):
            continue
        temporary, worker_id = f"{directory}/{name}", name[1:].removesuffix(f".lock{_UNPUBLISHED}")
        try:
            descriptor = open_private(temporary, os.O_RDWR)
        except (FileNotFoundError, StoreError):
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that had been seen, and made its files anew, is lost like any other, and what it started may live
            seen = any(os.path.lexists(f"{directory}/{worker_id}.{kind}") for kind in ("lock", "runs"))
            if not (seen or left_running(directory, worker_id)) and _is_at(descriptor, temporary):
                _unlink_all(directory, worker_id)
        except (OSError, StoreError):
            continue  # it lives, or cannot be removed, which hinders nobody
        finally:
            os.close(descriptor)


def _publish(path: str) -> None:
    try:
        os.rename(_unpublished(path), path)
    except OSError as error:
        raise unavailable(error, path) from None


def is_held(path: StrPath) -> bool:
    """Whether somebody holds a lock on the file that keeps others from it."""
    try:
        descriptor = open_private(path, os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        raise unavailable(error, path) from None
    finally:
        os.close(descriptor)
    return False


def _read_info(directory: StrPath, worker_id: str) -> WorkerInfo | None:
    """What a worker told of itself; in a copy of its home it never ran, on this boot or any other."""
    try:
        descriptor = open_private(f"{directory}/{worker_id}.json", os.O_RDONLY)
    except FileNotFoundError:
        return None
    with open(descriptor, "rb") as file:
        try:
            record = loads(file.read())
            info = WorkerInfo.from_record(record)
            if record["lock"] == _identity(os.lstat(f"{directory}/{worker_id}.lock")):
                return info
            return WorkerInfo.from_record(record | {"boot_id": ""})
        except (ValueError, KeyError, TypeError, FileNotFoundError):
            return None
        except OSError as error:
            raise unavailable(error, directory) from None


def _identity(facts: os.stat_result) -> list[int]:
    return [facts.st_dev, facts.st_ino]


def _unlink_all(directory: StrPath, worker_id: str) -> None:
    try:
        unpublished = [
            f"{directory}/{name}"
            for name in _hidden(directory)
            if name.startswith(f".{worker_id}.") and name.endswith(_UNPUBLISHED)
        ]
        files = [f"{directory}/{worker_id}.{kind}" for kind in ("json", "jobs", "runs", "lock")]
        # The locks last, here as in the order of the names: without them the rest is not found again
        for path in (*files[:-1], *unpublished, files[-1]):
            with suppress(FileNotFoundError):
                os.unlink(path)
    except OSError as error:
        raise unavailable(error, directory) from None


def _hidden(directory: StrPath) -> list[str]:
    """The names in a directory that begin with a dot, sorted; none where it is not there."""
    try:
        return sorted(name for name in os.listdir(directory) if name.startswith("."))
    except FileNotFoundError:
        return []
