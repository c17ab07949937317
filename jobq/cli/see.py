"""`list`: many jobs at once."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING

import click

from jobq.cli.base import Globals, command
from jobq.cli.progress import in_short, reported
from jobq.cli.selection import Selection, find, select, selection
from jobq.cli.streams import show_json, show_json_lines
from jobq.cli.text import columns, local_time, state_text
from jobq.job import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobq.job import Job

TABLE_LIMIT = 1000


@command("list", short_help="List jobs.")
@selection
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="At most so many; default: 1000 in the table, else all."
)
@click.option("--json", "as_json", is_flag=True, help="Print the jobs' records as one JSON list.")
@click.option("--jsonl", "as_lines", is_flag=True, help="Print the jobs' records, one JSON object a line.")
@click.option("--ids", "only_ids", is_flag=True, help="Print nothing but ids, one a line.")
def list_command(
    state: Globals, selection: Selection, limit: int | None, as_json: bool, as_lines: bool, only_ids: bool
) -> int:
    """List jobs: running ones, waiting ones in the order they will run, dead ones, then finished ones, latest first.

    \b
    jobq list                         all of them
    jobq list -s failed,dead -q mail  by state and queue
    jobq list --since 1h --match png  what changed in the last hour and has that text in it
    """
    if as_json + as_lines + only_ids > 1:
        raise click.UsageError("give one of --json, --jsonl and --ids")
    if limit is None and not (as_json or as_lines or only_ids):  # a program would not see the note that there are more
        limit = TABLE_LIMIT
    code = 0
    if selection.ids:
        jobs, code = select(state, selection, whole_ids=False)
        rest = iter(jobs)
    else:
        rest = find(state, selection, limit=limit)
    shown = list(islice(rest, limit))
    if as_json:
        show_json([job.full_record() for job in shown])
    elif as_lines:
        show_json_lines(job.full_record() for job in shown)
    elif only_ids:
        for job in shown:
            click.echo(job.id)
    else:
        _show_table(state, shown)
    if not shown and not code:
        state.note("no jobs")
    elif (
        limit is not None
        and len(shown) == limit
        and not state.quiet
        and (total := _total(state, selection, limit, rest)) > limit
    ):
        state.note(f"these are {limit} of {total} jobs; --limit shows more")
    return code


def _show_table(state: Globals, jobs: Sequence[Job]) -> None:
    now = state.app.clock.now()
    running = any(job.state is State.PROCESSING for job in jobs)
    progress = reported(state.queue.workers()) if running else {}
    rows = []
    for job in jobs:
        come = progress.get((job.id, job.run))
        told = state_text(job, now, progress="" if come is None else in_short(come))
        rows.append((job.id, job.what, told, f"{job.attempts}/{job.max_attempts}", local_time(job.created_at)))
    for line in columns(rows, sys.stdout, flexible=1, states=(2, [job.state for job in jobs])):
        click.echo(line)


def _total(state: Globals, chosen: Selection, shown: int, rest: Iterator[Job]) -> int:
    """How many jobs the selection has, of which `shown` were taken and `rest` are left."""
    if not chosen.countable:
        return shown + sum(1 for _ in rest)
    counts = state.queue.counts().queues
    return sum(
        count
        for queue, states in counts.items()
        if not chosen.queues or queue in chosen.queues
        for name, count in states.items()
        if chosen.states is None or name in chosen.states
    )
