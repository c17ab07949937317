"""Ends what a dead worker left running on this host, so that nothing of an old run lives beside the new one."""

from __future__ import annotations

import time

from jobq import processes
from jobq.executor import Recovered
from jobq.presence import WORKER_VARIABLE, is_held

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from jobq.members import WorkerInfo

ORPHAN_WAIT = 2.0
"""Seconds that recovery waits for a held jobs lock after everything it could find was killed."""


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
        here = not is_held(lock) and (lock.exists() or worker.host == processes.host())
        return Recovered(clean=True) if here else _elsewhere(worker)
    if not processes.visible():
        if is_held(lock):
            return Recovered(
                clean=False, why="processes of its jobs still run, and cannot be looked for on this system"
            )
        return Recovered(clean=True)
    marker = f"{WORKER_VARIABLE}={worker.id}".encode()
    left = processes.kill_all(lambda: processes.carriers(marker), seconds=ORPHAN_WAIT)
    if not left and is_held(lock):
        left = processes.kill_all(lambda: processes.holders(lock), seconds=ORPHAN_WAIT)
    if left:
        pids = ", ".join(str(orphan.pid) for orphan in left)
        return Recovered(clean=False, why=f"processes of its jobs cannot be ended (pid {pids})")
    end = time.monotonic() + ORPHAN_WAIT
    while is_held(lock):
        if time.monotonic() > end:
            return Recovered(
                clean=False, why="a process of its jobs still runs and cannot be found (it holds the jobs lock)"
            )
        time.sleep(0.01)
    return Recovered(clean=True)


def _elsewhere(worker: WorkerInfo) -> Recovered:
    return Recovered(clean=False, why=f"it ran on {worker.host}, and only a process there can look")
