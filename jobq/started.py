"""Which runs of handlers have begun: a worker's file, written by the processes that run them, read after its death.

    ID.runs    regions of `REGION` bytes, one for each process that runs handlers at the same time

A process notes a run before it calls the handler, so that of a worker that died only what had begun counts as lost,
and not what was sent ahead. The notes are in memory that the file maps: they survive every process and no reboot,
after which nothing is counted.
"""

from __future__ import annotations

import mmap
import os
from typing import TYPE_CHECKING

from jobq.times import format_time

if TYPE_CHECKING:
    from pathlib import Path

    from jobq.job import Job

REGION = 1 << 15
"""A region is a ring of notes behind a head: how many were written, and one byte that both sides may use."""
_NOTE = 176  # an id of 128 characters, a run of 20 digits, a time of 24 characters, two blanks, a NUL
_NOTES = REGION // _NOTE - 1
_COUNT = slice(0, 8)
_FLAG = 8


class StartedRuns:
    """One region of the file, mapped.

    A ring holds far more notes than runs that one process can have begun and whose outcome is not yet recorded.

    Args:
        descriptor: of the file, which may be closed afterwards.
        region: its number.

    Raises:
        OSError: the file cannot be that large.
    """

    def __init__(self, descriptor: int, region: int) -> None:
        size = os.fstat(descriptor).st_size
        while size < (region + 1) * REGION:  # no hole: on a full disk, writing to the mapping of one kills the writer
            size += os.pwrite(descriptor, bytes((region + 1) * REGION - size), size)
        self._map = mmap.mmap(descriptor, REGION, offset=region * REGION)
        self._count = int.from_bytes(self._map[_COUNT], "big")

    @property
    def flag(self) -> bool:
        """A byte for whatever the two sides of a region tell each other."""
        return bool(self._map[_FLAG])

    @flag.setter
    def flag(self, value: bool) -> None:
        self._map[_FLAG] = value

    def note(self, job: Job) -> None:
        """The handler is about to be called for this run of the job."""
        start = _NOTE * (1 + self._count % _NOTES)
        self._map[start : start + _NOTE] = _note(job).ljust(_NOTE, b"\0")
        self._count += 1
        self._map[_COUNT] = self._count.to_bytes(8, "big")

    def has(self, job: Job) -> bool:
        """Whether this run of the job was noted."""
        return self._map.find(b"\0%s\0" % _note(job)) >= 0

    def close(self) -> None:
        """Free the memory."""
        self._map.close()


def path_of(home: Path, worker_id: str) -> Path:
    """Where a worker's notes are."""
    return home / "workers" / f"{worker_id}.runs"


class Noted:
    """What a dead worker's processes have noted.

    Args:
        data: the content of its file.
    """

    def __init__(self, data: bytes) -> None:
        self._notes = {
            data[start : start + _NOTE].rstrip(b"\0")
            for region in range(0, len(data), REGION)
            for start in range(region + _NOTE, region + _NOTE * (1 + _NOTES), _NOTE)
        }

    def has(self, job: Job) -> bool:
        """Whether this run of the job was noted."""
        return _note(job) in self._notes


def noted(home: Path, worker_id: str) -> Noted | None:
    """The notes of a worker; None where there are none.

    Raises:
        StoreError: they cannot be read now.
    """
    from jobq.errors import UnsafeHome  # neither is needed where notes are taken
    from jobq.files import read_private

    try:
        return Noted(read_private(path_of(home, worker_id)))
    except (FileNotFoundError, UnsafeHome):
        return None


def _note(job: Job) -> bytes:
    """A run of a job; the time tells it from one of another job that had its id before."""
    return f"{job.run} {format_time(job.created_at)} {job.id}".encode()
