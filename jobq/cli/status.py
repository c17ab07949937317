"""`status`: how the queue stands, once or for as long as one looks."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.base import Globals, command, show_json, show_json_lines
from jobq.cli.text import coloured, cut, in_words, one_line
from jobq.clock import Wake

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jobq.members import WorkerInfo
    from jobq.store import Counts

WATCH_SECONDS = 1.0


@command("status", short_help="Show how many jobs there are, and who works.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object, with queues and workers.")
@click.option("--watch", is_flag=True, help="Go on showing it, with what runs, until Ctrl-C.")
def status_command(state: Globals, as_json: bool, watch: bool) -> None:
    """Show how many jobs there are in each state, and how many workers are active."""
    if watch:
        _watch(state, as_json=as_json)
        return
    counts, workers = state.queue.counts(), state.queue.workers()
    if as_json:
        show_json(_record(state, counts, workers))
        return
    for line in _lines(counts, workers):
        click.echo(line)
    for note in _notes(state, counts, workers):
        state.note(note)


def _lines(counts: Counts, workers: Sequence[WorkerInfo]) -> Iterator[str]:
    for name, count in counts.states.items():
        line = f"{name:<13}{count}"
        yield coloured(line, name, sys.stdout) if count else line
    yield f"active workers {len(workers)}"


def _record(state: Globals, counts: Counts, workers: Sequence[WorkerInfo]) -> dict[str, Any]:
    queues: dict[str, Any] = {}
    for name, states in counts.queues.items():
        queues[name] = {"counts": {str(key): count for key, count in states.items()}, "paused": name in counts.paused}
        if counts.paused.get(name):
            queues[name]["reason"] = counts.paused[name]
    return {
        "counts": {str(key): count for key, count in counts.states.items()},
        "later": counts.later,
        "workers": [worker.record() for worker in workers],
        "queues": queues,
        "damaged": counts.damaged,
        "store": state.app.store.url,
        "home": str(state.app.home.path),
    }


def _notes(state: Globals, counts: Counts, workers: Sequence[WorkerInfo]) -> Iterator[str]:
    """What is out of the ordinary, one sentence each."""
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


def _watch(state: Globals, *, as_json: bool) -> None:
    """Show it again whenever it changed: in place on a terminal, one below the other elsewhere."""
    queue, clock = state.queue, state.app.clock
    before: object = None
    with Wake() as nothing:
        while True:
            counts, workers = queue.counts(), queue.workers()
            now: object
            if as_json:
                now = _record(state, counts, workers)
                if now != before:
                    show_json_lines([now])
            else:
                now = [*_lines(counts, workers), *_activity(state, workers)]
                if sys.stdout.isatty():
                    _redraw([*now, *_notes(state, counts, workers)])
                elif now != before:
                    click.echo("\n".join(now if before is None else ["", *now]))
            sys.stdout.flush()
            before = now
            clock.wait(nothing, WATCH_SECONDS)


def _activity(state: Globals, workers: Sequence[WorkerInfo]) -> Iterator[str]:
    """One line a worker, one a running job. Only a terminal sees the time go by: elsewhere each second would differ."""
    now = state.app.clock.now()
    for worker in workers:
        yield f"worker {one_line(worker.name)} (pid {worker.pid}): {len(worker.running)} of {worker.count} busy"
        for job in worker.running:
            since = f" for {in_words(now - job.started)}" if sys.stdout.isatty() else ""
            yield f"  {job.job}{since}  {one_line(job.what)}{progress_text(job.progress)}"


def progress_text(progress: Any) -> str:
    """What a running job last reported, as `  3/10 note`; "" for nothing."""
    if not progress:
        return ""
    done, total, note = (progress.get(key) for key in ("done", "total", "note"))
    parts = [] if done is None else [f"{done}/{total}" if total is not None else f"{done}"]
    return one_line("  " + " ".join([*parts, *([str(note)] if note else [])]))


def _redraw(lines: list[str]) -> None:
    """Write over what stands on the terminal, from its top; what is longer than the terminal is cut."""
    size = shutil.get_terminal_size()
    room = [line if "\x1b" in line else cut(line, size.columns) for line in lines[: size.lines - 1]]
    click.echo("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in room) + "\x1b[J", nl=False)
