"""The environment of what is started: the worker's own, the job's over it, and jobq's variables over both."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jobq.executor import Attempt

_PROGRESS = b"JOBQ_PROGRESS_FD"
_OF_A_JOB = (b"JOBQ_WORKER", b"JOBQ_JOB_ID", b"JOBQ_RUN", b"JOBQ_ATTEMPT", b"JOBQ_QUEUE", b"JOBQ_SLOT", _PROGRESS)


class Environment:
    """Makes environments, as bytes: whatever the locale is, what a job names is encoded as UTF-8.

    Args:
        environ: the worker's own; what an outer job put there is left out.
        store: the store's URL, so that a job which calls jobq uses the same one.
    """

    def __init__(self, environ: Mapping[bytes, bytes], store: str) -> None:
        base = {name: value for name, value in environ.items() if name not in _OF_A_JOB}
        base[b"JOBQ_STORE"] = encode(store)
        self._base = base
        self._command_base = {b"PYTHONUNBUFFERED": b"1"} | base

    def of_command(self, attempt: Attempt, *, progress: int, more: Mapping[str, str]) -> dict[bytes, bytes]:
        """The environment of a job's command.

        Args:
            progress: the descriptor that it writes its progress to.
            more: what plugins add; the job's own goes before it.
        """
        job = attempt.job
        environ = self._command_base.copy()
        for name, value in more.items():
            environ[encode(name)] = encode(value)
        for name, value in job.env.items():
            environ[encode(name)] = encode(value)
        environ[b"JOBQ_HOME"] = os.fsencode(attempt.home)
        for name, value in variables(attempt).items():
            environ[name.encode()] = value.encode()
        environ[_PROGRESS] = b"%d" % progress
        return environ

    def of_child(self, home: Path, worker: str) -> dict[bytes, bytes]:
        """The environment of a warm child; it adds the variables of each job it runs."""
        return self._base | {b"JOBQ_HOME": os.fsencode(home), b"JOBQ_WORKER": worker.encode()}


def variables(attempt: Attempt) -> dict[str, str]:
    """What distinguishes an attempt from others of its worker; JOBQ_WORKER, JOBQ_JOB_ID and JOBQ_RUN mark it."""
    job = attempt.job
    return {
        "JOBQ_WORKER": job.worker or "",
        "JOBQ_JOB_ID": job.id,
        "JOBQ_RUN": str(job.run),
        "JOBQ_ATTEMPT": str(job.attempts + 1),
        "JOBQ_QUEUE": job.queue,
        "JOBQ_SLOT": str(attempt.slot),
    }


def markers(attempt: Attempt) -> tuple[bytes, ...]:
    """What every process of an attempt has in its environment, unless it took it out."""
    job = attempt.job
    return (f"JOBQ_WORKER={job.worker or ''}".encode(), f"JOBQ_JOB_ID={job.id}".encode(), b"JOBQ_RUN=%d" % job.run)


def encode(text: str) -> bytes:
    """Text for the system as UTF-8; what came undecodable from the system goes back as it came."""
    return text.encode("utf-8", "surrogateescape")
