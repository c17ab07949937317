"""How far running jobs have come, as people see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.cli.text import one_line
from jobq.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobq.members import WorkerInfo

BAR = 24
"""Columns of a bar between its brackets."""


def reported(workers: Iterable[WorkerInfo]) -> dict[tuple[str, int], Progress]:
    """What the jobs under way last reported, by id and run; those that reported nothing are left out."""
    found = ((item, progress_of(item.progress)) for worker in workers for item in worker.running)
    return {(item.job, item.run): progress for item, progress in found if progress is not None}


def progress_of(record: Mapping[str, Any] | None) -> Progress | None:
    """The progress that a worker or a history tells; None for none, and for one that a newer jobq tells otherwise."""
    if record is None:
        return None
    try:
        return Progress.from_record(record)
    except (KeyError, TypeError, ValueError):
        return None


def in_short(progress: Progress) -> str:
    """`3/10 (30%)`, or `7` where the total is not known."""
    count = Progress(progress.done, progress.total).text()
    return count if progress.fraction is None else f"{count} ({percent(progress.fraction)})"


def in_full(progress: Progress) -> str:
    """`3/10 (30%) resizing`."""
    return one_line(f"{in_short(progress)} {progress.note}".rstrip())


def percent(fraction: float) -> str:
    """A fraction in whole percent, rounded down: 100% is said of nothing that is not done."""
    return f"{int(fraction * 100 + 1e-9)}%"


def bar(fraction: float) -> str:
    """A fraction, from 0 to 1, as `[######------------------]  25%`."""
    full = int(fraction * BAR + 1e-9)
    return f"[{'#' * full}{'-' * (BAR - full)}] {percent(fraction):>4}"


def line(progress: Progress) -> str:
    """A bar where the total is known, and what was reported."""
    told = one_line(progress.text())
    return told if progress.fraction is None else f"{bar(progress.fraction)}  {told}"


def of_all(ids: Iterable[str], ended: int, progress: Mapping[tuple[str, int], Progress]) -> str:
    """One bar for several jobs: those that have ended, and what the others reported, with their notes.

    Args:
        ids: the jobs that are still waited for.
        ended: how many are not.
        progress: what jobs under way reported, by id and run.
    """
    waiting = set(ids)
    running = [each for (job, _), each in progress.items() if job in waiting]
    total = len(waiting) + ended
    if total == 1:
        return line(running[0]) if running else ""
    done = ended + sum(each.fraction or 0.0 for each in running)
    notes = ", ".join(one_line(each.text()) for each in running)
    return f"{bar(done / total)}  {ended} of {total} jobs{'  ' if notes else ''}{notes}"
