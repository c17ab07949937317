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

if TYPE_CHECKING:
    from pathlib import Path

REGION = 1 << 15
"""A region is a ring of notes behind a head: how many were written, and one byte that both sides may use."""
_NOTE = 160  # an id of 128 characters, a run of 20 digits, a blank, a NUL
_NOTES = REGION // _NOTE - 1
_COUNT = slice(0, 8)
_FLAG = 8


class StartedRuns:
    """One region of the file, mapped.

    A ring holds far more notes than runs that one process can have begun and whose outcome is not yet recorded.

    Args:
        descriptor: of the file, which may be closed afterwards.
        region: its number.
    """

    def __init__(self, descriptor: int, region: int) -> None:
        if os.fstat(descriptor).st_size < (region + 1) * REGION:
            os.ftruncate(descriptor, (region + 1) * REGION)
        self._map = mmap.mmap(descriptor, REGION, offset=region * REGION)
        self._count = int.from_bytes(self._map[_COUNT], "big")

    @property
    def flag(self) -> bool:
        """A byte for whatever the two sides of a region tell each other."""
        return bool(self._map[_FLAG])

    @flag.setter
    def flag(self, value: bool) -> None:
        self._map[_FLAG] = value

    def note(self, job_id: str, run: int) -> None:
        """The handler of this run is about to be called."""
        start = _NOTE * (1 + self._count % _NOTES)
        self._map[start : start + _NOTE] = (b"%d %s" % (run, job_id.encode())).ljust(_NOTE, b"\0")
        self._count += 1
        self._map[_COUNT] = self._count.to_bytes(8, "big")

    def has(self, job_id: str, run: int) -> bool:
        """Whether the run was noted."""
        return self._map.find(b"\0%d %s\0" % (run, job_id.encode())) >= 0

    def close(self) -> None:
        """Free the memory."""
        self._map.close()


def path_of(home: Path, worker_id: str) -> Path:
    """Where a worker's notes are."""
    return home / "workers" / f"{worker_id}.runs"


def noted(home: Path, worker_id: str) -> frozenset[tuple[str, int]] | None:
    """The runs that a worker's processes have noted, as (job id, run); None where there are no notes to be read."""
    from jobq.errors import JobqError  # neither is needed where notes are taken
    from jobq.files import open_private

    try:
        descriptor = open_private(path_of(home, worker_id), os.O_RDONLY)
    except (FileNotFoundError, JobqError):
        return None
    with open(descriptor, "rb") as file:
        data = file.read()
    runs = set()
    for region in range(0, len(data), REGION):
        for start in range(region + _NOTE, region + _NOTE * (1 + _NOTES), _NOTE):
            run, _, job_id = data[start : start + _NOTE].rstrip(b"\0").partition(b" ")
            if job_id and run.isdigit():
                runs.add((job_id.decode("ascii", "replace"), int(run)))
    return frozenset(runs)
