"""Starts a worker in the background: in a session of its own, its talk in a log file in HOME/workers."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from jobq.files import open_private, private_directory, read_private
from jobq.presence import is_alive

if TYPE_CHECKING:
    from pathlib import Path

    from jobq.cli.base import Globals

LOG_KEPT_SECONDS = 7 * 86400.0


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
        code = process.wait()
        click.echo(read_private(log_path).decode(errors="backslashreplace"), err=True, nl=False)
        log_path.unlink()
        return code or 70
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
