"""Makers of the records that tests need, with plain values for whatever a test does not care about."""

from __future__ import annotations

import socket
import warnings
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobq import processes
from jobq.job import ENDED, Job, Run, State, new_id
from jobq.members import WorkerInfo
from jobq.options import KERNEL_OPTIONS
from jobq.providers import Context
from jobq.settings import Settings
from jobq.store import NewJob
from jobq.testing.clock import START, FakeClock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jobq.clock import Clock
    from jobq.handlers import Handler
    from jobq.providers import Option


def make_job(job_id: str | None = None, **fields: Any) -> Job:
    """A pending job that runs `true` unless `fields` say otherwise, made and due at `START`."""
    if "handler" not in fields:
        fields.setdefault("command", "true")
    return Job(id=job_id or new_id(), **{"created_at": START, "updated_at": START, "run_at": START} | fields)


def aged(job: Job, state: State) -> Job:
    """`job` in this state after two runs, with everything that may be left of them."""
    runs = tuple(
        Run(
            run=number,
            worker="w" * 16,
            host="h",
            started=START + timedelta(seconds=number),
            finished=START + timedelta(seconds=number),
            outcome="failed",
        )
        for number in (1, 2)
    )
    ended = state in ENDED
    return replace(
        job,
        state=state,
        run=2,
        rev=5,
        attempts=2,
        losses=1,
        history=runs,
        updated_at=START + timedelta(seconds=3),
        started_at=START + timedelta(seconds=2),
        finished_at=START + timedelta(seconds=3) if ended else None,
        exit_code=1,
        last_error="exit code 1\nthe last words",
        result={"é": [1, None]},
        meta={"x.y": 1},
        extra={"from_a_newer_one": True},
    )


def new(*jobs: Job, generated: bool = False) -> list[NewJob]:
    """`jobs` as `Store.add` takes them; `generated` promises that no id of theirs can be taken."""
    return [NewJob(job, generated) for job in jobs]


def make_info(worker_id: str | None = None, **fields: Any) -> WorkerInfo:
    """A worker on this machine and boot that started at `START`; its pid is no process of anybody."""
    worker_id = worker_id or new_id()
    facts: dict[str, Any] = {
        "name": worker_id[:8],
        "host": socket.gethostname(),
        "boot_id": processes.boot_id(),
        "pid": 1 << 30,
        "start_time": 0,
        "started": START,
        "version": "0",
    }
    return WorkerInfo(id=worker_id, **facts | fields)


def make_settings(*options: Option, values: Mapping[str, Any] | None = None, home: Path | None = None) -> Settings:
    """Settings at their defaults but for `values`, which are written as in config.toml; no file, no environment.

    `options` are those of plugins, beside jobq's own; `home` is where plugins would put files of theirs.
    """
    content = dict(values or {})
    return Settings((*KERNEL_OPTIONS, *options), lambda: (content, None), environ={}, home=home)


def make_context(
    home: Path, *, url: str = "", clock: Clock | None = None, handlers: Mapping[str, Handler] | None = None
) -> Context:
    """What `Provider.make` is given. A `warn` of the plugin becomes a Python warning."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    return Context(
        directory=str(home),
        url=url,
        clock=clock or FakeClock(),
        handlers=handlers or {},
        warn=lambda sentence: warnings.warn(sentence, stacklevel=2),
    )
