"""Whether the kernel has killed something for want of memory, as the worker's own cgroup counts it."""

from __future__ import annotations

import os
import re

from jobq_subprocess import cgroupfs

_COUNT = re.compile(rb"^oom_kill (\d+)$", re.MULTILINE)


class MemoryKills:
    """Counts the processes that were killed in the memory cgroup of this process and, with cgroup v2, below it.

    What is started here is in that cgroup too, unless it goes to another one itself; of that nothing is known.
    """

    def __init__(self) -> None:
        self._descriptor = _open(cgroupfs.own("memory"), "memory.oom_control")
        if self._descriptor < 0:
            self._descriptor = _open(_counting(cgroupfs.own()), "memory.events")

    def count(self) -> int:
        """How many so far; 0 where the system does not tell. It grows before the victim ends."""
        if self._descriptor < 0:
            return 0
        try:
            found = _COUNT.search(os.pread(self._descriptor, 4096, 0))
        except OSError:
            return 0
        return 0 if found is None else int(found[1])

    def close(self) -> None:
        """Free the descriptor."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _counting(directory: str | None) -> str | None:
    """The nearest cgroup at or above `directory` that the memory controller counts in."""
    while directory is not None and not os.path.exists(os.path.join(directory, "memory.events")):
        above = os.path.dirname(directory)
        directory = None if above == directory else above
    return directory


def _open(directory: str | None, name: str) -> int:
    if directory is None:
        return -1
    try:
        return os.open(os.path.join(directory, name), os.O_RDONLY)
    except OSError:
        return -1
