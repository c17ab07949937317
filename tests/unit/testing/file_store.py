"""A store in one file that processes share, slow and simple; it proves the tests about processes."""

import fcntl
import os
import pickle
from contextlib import contextmanager

from jobq import presence
from jobq.job import State
from jobq.store import Claim
from jobq.testing import MemoryStorage, MemoryStore


class FileStore(MemoryStore):
    """All jobs in one file, read and written anew by every call.

    Args:
        directory: where the file is.
    """

    capabilities = frozenset({"processes", "durable"})

    def __init__(self, directory):
        super().__init__(MemoryStorage())
        directory.mkdir(mode=0o700, exist_ok=True)
        self.path, self.members = directory / "jobs", directory / "workers"
        self.url = f"file:{directory}"

    @contextmanager
    def locked(self):
        """Nobody else reads or writes meanwhile."""
        with open(f"{self.path}.lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def write(self, data):
        """Replace the content of the file."""
        new = self.path.with_suffix(f".{os.getpid()}")
        new.write_bytes(data)
        new.replace(self.path)

    @contextmanager
    def read(self):
        """What is in the file; written back if it was changed."""
        names = "jobs", "sequence", "writes", "paused", "added", "written"
        with self.locked():
            if self.path.exists():
                self.storage.__dict__.update(pickle.loads(self.path.read_bytes()))
            before = self.storage.written
            yield
            if self.storage.written != before:
                self.write(pickle.dumps({name: getattr(self.storage, name) for name in names}))

    def join(self, info):
        return presence.FilePresence(self.members, info)

    def report(self, worker, info):
        worker.report(info)

    def workers(self):
        return sorted((info for info, alive in presence.members(self.members) if alive), key=lambda info: info.started)

    def lost(self, *, now):
        jobs = [job for job in self.jobs() if job.state is State.PROCESSING]
        known = {info.id: info for info, _ in presence.members(self.members)}
        known |= {job.worker: presence.unknown_worker(job.worker) for job in jobs if job.worker not in known}
        gone = [info for info in known.values() if not presence.is_alive(self.members, info.id)]
        gone.sort(key=lambda info: info.started)
        return [(info, [Claim(job, info.id, info.host) for job in jobs if job.worker == info.id]) for info in gone]

    def forget(self, worker):
        presence.forget(self.members, worker.id)

    def jobs(self):
        """Every job."""
        with self.read():
            return list(self.storage.jobs.values())

    def watch(self, wake):
        return False

    def check(self):
        return []


def _through_the_file(name):
    def call(self, *args, **named):
        with self.read():
            return getattr(MemoryStore, name)(self, *args, **named)

    return call


for _name in (
    "add",
    "claim",
    "held",
    "change",
    "get",
    "get_many",
    "find",
    "counts",
    "next_due",
    "pause",
    "delete",
    "prune",
):
    setattr(FileStore, _name, _through_the_file(_name))
