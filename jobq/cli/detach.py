"""Starts a worker in the background: in a session of its own, its talk in a log file in HOME/workers."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from jobq.cli.text import one_line
from jobq.files import open_private, private_directory, read_private
from jobq.presence import is_alive

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from jobq.cli.base import Globals
    from jobq.members import WorkerInfo

LOG_KEPT_SECONDS = 7 * 86400.0
LEAST_OF_AN_ID = 4
"""Characters of a worker's id that name it."""

_GREETING = re.compile(r"^worker (.*) \(pid (\d+)\) serves ", re.MULTILINE)
_GREETED_WITHIN = 64 << 10
"""Bytes of a log in which the greeting stands; plugins may have their say before it."""


def greeting(info: WorkerInfo, stop: str) -> str:
    """What a worker says of itself when it has joined; `stop` is what stops it."""
    served = "all queues" if info.queues is None else ", ".join(info.queues)
    name = one_line(info.name)
    return f"worker {name} (pid {info.pid}) serves {served}, {info.count} at once; {stop} stops it"


def find_log(directory: Path, worker: str | None, living: Collection[str]) -> Path | None:
    """The log of a worker, the latest where several are meant; None where there is none.

    Args:
        directory: where the logs are.
        worker: its name, its pid, or the beginning of its id; None: any.
        living: ids of live workers that are meant; they go before those that are gone.
    """
    logs: list[tuple[float, Path]] = []
    for path in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):  # too old, and removed just now
            logs.append((path.lstat().st_mtime, path))
    found = [path for _, path in sorted(logs)]
    if worker is not None:
        found = [path for path in found if path.stem in living] or [path for path in found if _is_of(path, worker)]
    return found[-1] if found else None


def _is_of(log: Path, worker: str) -> bool:
    if len(worker) >= LEAST_OF_AN_ID and log.stem.startswith(worker):
        return True
    with contextlib.suppress(FileNotFoundError), open(open_private(log, os.O_RDONLY), "rb") as file:
        greeted = _GREETING.search(file.read(_GREETED_WITHIN).decode("utf-8", "backslashreplace"))
        return greeted is not None and one_line(worker) in greeted.groups()
    return False


def detach_worker(state: Globals) -> int:
    """Start this very command again without `--detach`; return once that worker has joined, or with its exit code.

    Raises:
        StoreError: the home cannot be made or written to.
    """
    state.app.create_home()
    directory = state.app.home.path / "workers"
    private_directory(directory)
    _remove_old(directory)
    log_path = directory / f"starting-{os.getpid()}.log"
    log = open_private(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
    read, write = os.pipe()
    arguments = [word for word in sys.argv[1:] if word != "--detach"]
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "jobq", *arguments, "--joined-fd", str(write)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=[write],
        start_new_session=True,
    )
    os.close(write)
    with open(read, encoding="ascii") as answer:
        worker_id = answer.read().strip()
    os.close(log)
    if not worker_id:
        code = process.wait() or 70
        said = read_private(log_path).decode(errors="backslashreplace")
        log_path.unlink()
        if not said:  # on a full disk the log has no room either
            said = (
                f"jobq: the worker ended with exit code {code} and could not write why; without --detach it says so\n"
            )
        click.echo(said, err=True, nl=False)
        return code
    log_path.rename(directory / f"{worker_id}.log")
    process.returncode = 0  # it lives on: nobody waits for it
    state.note(f"worker {worker_id[:8]} started in the background (pid {process.pid}); `jobq worker stop` stops it")
    return 0


def _remove_old(directory: Path) -> None:
    """Delete the logs of workers that are gone and said nothing for a week."""
    for path in directory.glob("*.log"):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - path.lstat().st_mtime > LOG_KEPT_SECONDS and not is_alive(directory, path.stem):
                path.unlink()
