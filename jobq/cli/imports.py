"""`import`: jobs that `export` wrote, with all their fields."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.cli.streams import read_input
from jobq.errors import InvalidInput
from jobq.importing import job_of, store_exported
from jobq.job import FINISHED, State
from jobq.strictjson import loads

if TYPE_CHECKING:
    from datetime import datetime

    from jobq.job import Job

MANY = 5000
"""Jobs from which on a bar shows how far it is, on a terminal."""


@command("import", short_help="Store jobs that export wrote, as they were.")
@click.argument("path", metavar="[FILE | -]", required=False)
def import_command(state: Globals, path: str | None) -> None:
    """Store jobs as `jobq export` wrote them: with their ids, states, attempts and histories, in their order.

    \b
    jobq import jobs.jsonl
    jobq --home /old export | jobq import -

    The whole input is checked before anything is stored. A job that is there already in the same version is passed
    over, so an import may be repeated; ids that are there in another version are refused (exit code 4). A job that
    was processing comes in as pending, and its run counts nothing. What --redact left out is lost.
    """
    if path is None and sys.stdin.isatty():
        raise click.UsageError("name a FILE, or - for standard input")
    jobs, released = _jobs(read_input(path or "-"), state.app.clock.now())
    if not jobs:
        state.note("the input holds no jobs")
        return
    state.name_home()
    if len(jobs) <= MANY or state.quiet or not sys.stderr.isatty():
        stored = store_exported(state.app, jobs)
    else:
        with click.progressbar(label="importing", length=len(jobs), file=sys.stderr) as bar:
            stored = store_exported(state.app, jobs, progress=lambda done: bar.update(done - bar.pos))
    there = len(jobs) - stored
    state.note(f"{_number(stored)} imported" + (f", {there} were there already" if there else ""))
    if released:
        was, now_is = ("was", "is") if released == 1 else ("were", "are")
        state.note(f"{released} that {was} processing {now_is} waiting again")


def _jobs(data: bytes, now: datetime) -> tuple[list[Job], int]:
    """The jobs of JSON Lines in the order in which they are stored; and how many of them were processing.

    An export has the finished ones at its end, the latest first; they are stored in order of finishing.
    """
    jobs: list[Job] = []
    lines: dict[str, int] = {}
    released = 0
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            record = loads(line)
            job = job_of(record, now=now)
        except InvalidInput as error:
            raise error.at_line(number) from None
        if lines.setdefault(job.id, number) != number:
            raise InvalidInput("id", job.id, f"is that of line {lines[job.id]} too", line=number)
        released += record["state"] == State.PROCESSING
        jobs.append(job)
    finished = [job for job in jobs if job.state in FINISHED]
    return [job for job in jobs if job.state not in FINISHED] + finished[::-1], released


def _number(jobs: int) -> str:
    return f"{jobs} job{'' if jobs == 1 else 's'}"
