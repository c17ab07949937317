"""A worker that is watched from outside while jobs that misbehave run in it: what is recorded, what it needs, what it says."""

import re
import signal
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jobq import Queue, processes
from jobq.job import ENDED, Job, Run
from jobq.output import Reading
from jobq.store import Query
from tests.integration.conftest import Cli, eventually

from .homes import opened
from .sizes import LIMITS, SIZE

PROGRAMS = Path(__file__).parent / "programs"

MOST_MEMORY = 100 << 20
"""Bytes that a worker may ever hold, whatever its jobs do."""

PATIENCE = 0.75 * LIMITS[SIZE]
"""Seconds that all jobs of a test together may take at most."""

HANDLER = "unruly"


class Watched:
    """A home with the handler `unruly` (see programs/unruly.py) and one worker.

    Attributes:
        home: where this process sees the home.

    Args:
        seen: where this process sees the home, if not where the worker does.
    """

    def __init__(self, jobq: Cli, *, seen: Path | None = None, **settings: str) -> None:
        self.jobq, self.home = jobq, seen or jobq.home
        values = {"backoff-initial": "0.01", "kill-grace": "0.3"} | settings
        jobq.environ.update({f"JOBQ_{name.upper().replace('-', '_')}": value for name, value in values.items()})
        jobq.environ["PYTHONSAFEPATH"] = "1"
        self.home.mkdir(mode=0o700)
        config = self.home / "config.toml"
        config.touch(mode=0o600)
        config.write_text(f'handlers-path = ["{PROGRAMS}"]\n[handlers]\n{HANDLER} = "unruly:run"\n')
        self._log = jobq.directory / "worker.log"
        self.process: subprocess.Popen[bytes] | None = None

    def add(self, *specs: dict[str, Any]) -> list[str]:
        """Enqueue jobs that are tried once; their ids."""
        made = [{"max_attempts": 1, "cwd": str(self.jobq.directory)} | spec for spec in specs]
        for spec in made:
            if "handler" in spec:
                del spec["cwd"]
        with Queue.open(home=self.home) as queue:
            return [job.id for job in queue.enqueue_many(made, allow_unknown_handler=True)]

    def start(self, *args: str, prefix: Iterable[str] = (), **options: Any) -> "subprocess.Popen[bytes]":
        """Start the worker, behind the words of `prefix`, which must become it."""
        options = {"stdin": subprocess.DEVNULL, "env": self.jobq.environ, "cwd": self.jobq.directory} | options
        with self._log.open("ab") as log:
            command = [*prefix, *self.jobq.command("worker", "start", *args)]
            self.process = subprocess.Popen(command, stdout=log, stderr=log, **options)
        self.jobq.processes.append(self.process)
        return self.process

    def told(self) -> str:
        """What the worker has said."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def jobs(self) -> dict[str, Job]:
        """Every job as it is now, by id."""
        with opened(self.home) as store:
            return {job.id: job for job in store.find(Query())}

    def ended(self, ids: Iterable[str]) -> list[Job]:
        """The jobs with these ids, once they have come to their end; the worker is alive then, and has no fault."""
        wanted = list(ids)

        def all_ended() -> list[Job]:
            assert self.process is not None
            assert self.process.poll() is None, self.told()
            jobs = self.jobs()
            found = [jobs[job_id] for job_id in wanted]
            return found if all(job.state in ENDED for job in found) else []

        found = eventually(all_ended, PATIENCE)
        assert "Traceback" not in self.told()
        assert "executor failed" not in self.told()
        return found

    def printed(self, job: Job) -> bytes:
        """What is kept of what it printed in its latest run."""
        return b"".join(Reading(self.home, job.id, job.run).read())

    def peak(self) -> int:
        """The most bytes of memory that the worker has ever held."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        (kilobytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
        return int(kilobytes) << 10

    def stop(self) -> None:
        """Have it end, which it does well."""
        assert self.process is not None
        assert self.jobq.stop(self.process, signal.SIGTERM) == 0, self.told()


def over(pid: int) -> bool:
    """Whether there is no such process any more."""
    found = processes.process(pid)
    return found is None or found.dead


def attempts(job: Job) -> list[Run]:
    """Its runs but for those that were handed back before they began, as when their process ended just then."""
    return [run for run in job.history if run.outcome != "released"]


def unruly(what: str, *more: Any, **fields: Any) -> dict[str, Any]:
    """The fields of a job of the handler."""
    return {"handler": HANDLER, "payload": [what, *more], **fields}
