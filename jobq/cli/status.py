"""`status`: how the queue stands, once or for as long as one looks."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.base import Globals, command
from jobq.cli.streams import show_json
from jobq.cli.text import coloured, one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobq.members import WorkerInfo
    from jobq.store import Counts


@command("status", short_help="Show how many jobs there are, and who works.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with queues and workers.")
@click.option("--watch", is_flag=True, help="Go on showing it, with rates and what runs, until q or Ctrl-C.")
def status_command(state: Globals, as_json: bool, watch: bool) -> None:
    """Show how many jobs there are in each state, and how many workers are active."""
    if watch:
        from jobq.cli.watch import watch_status

        watch_status(state, as_json=as_json)
        return
    counts, workers = state.queue.counts(), state.queue.workers()
    if as_json:
        show_json(record_of(state, counts, workers))
        return
    for line in lines_of(counts, workers):
        click.echo(line)
    for note in notes_of(state, counts, workers):
        state.note(note)


def lines_of(counts: Counts, workers: Sequence[WorkerInfo]) -> Iterator[str]:
    """The counts by state and that of workers, one a line, for stdout."""
    for name, count in counts.states.items():
        line = f"{name:<13}{count}"
        yield coloured(line, name, sys.stdout) if count else line
    yield f"active workers {len(workers)}"


def record_of(state: Globals, counts: Counts, workers: Sequence[WorkerInfo]) -> dict[str, Any]:
    """The JSON object of the status."""
    queues: dict[str, Any] = {}
    for name, states in counts.queues.items():
        queues[name] = {"counts": {str(key): count for key, count in states.items()}, "paused": name in counts.paused}
        if counts.paused.get(name):
            queues[name]["reason"] = counts.paused[name]
    notice = state.app.store.notice()
    return {
        "counts": {str(key): count for key, count in counts.states.items()},
        "later": counts.later,
        "workers": [worker.record() for worker in workers],
        "queues": queues,
        "damaged": counts.damaged,
        "store": state.app.store.url,
        "notice": None if notice is None else {"state": notice.state, "url": notice.url},
        "home": str(state.app.home.path),
    }


def notes_of(state: Globals, counts: Counts, workers: Sequence[WorkerInfo]) -> Iterator[str]:
    """What is out of the ordinary, one sentence each."""
    if (notice := state.app.store.notice()) is not None:
        yield f"{notice.moved.what}; nothing is enqueued or begun until that is done"
    if counts.later:
        yield f"{counts.later} of the pending jobs are not due yet"
    for queue, why in sorted(counts.paused.items()):
        yield f"queue {queue} is paused{f': {one_line(why)}' if why else ''}; `jobq resume {queue}` lets it go on"
    for worker in workers:
        if worker.state != "running":
            yield f"worker {one_line(worker.name)} (pid {worker.pid}): {one_line(worker.state)}"
    if counts.damaged:
        yield f"{counts.damaged} records are damaged and set aside; `jobq doctor` tells more"
    held = sum(len(claims) for _, claims in state.app.store.lost(now=state.app.clock.now()))
    if held:
        yield f"{held} processing jobs belong to workers that are gone; `jobq why ID` tells what becomes of them"
