"""Which finished jobs the archive keeps: what was deleted from it, and what is older than the settings say, goes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from jobq_json.archive import Appender
from jobq_json.kept import CANCELLED, COMPLETED, Kept, of_line
from jobq_json.manifest import Segment

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from jobq.job import State
    from jobq_json.directory import Directory
    from jobq_json.view import View


@dataclass
class Retained:
    """What is left of the archive.

    Attributes:
        segments: the segments.
        next_segment: the number of the next new one.
        dropped: queue and state of each job that is kept no longer.
    """

    segments: list[Segment]
    next_segment: int
    dropped: list[tuple[str, str]] = field(default_factory=list)


def retained(directory: Directory, view: View, *, now: datetime, keep: Mapping[State, timedelta | None]) -> Retained:
    """The archive without what the journal replaced and what is kept no longer.

    The old end of a segment moves forward over what is kept no longer. Where the jobs of one state outlive those of
    the other, a segment whose jobs are all past the shorter time is written again once, without them.

    Args:
        directory: where it is.
        view: what the journal says.
        now: the time.
        keep: how long finished jobs of a state are kept; None or absent: for ever.
    """
    result = Retained([], view.manifest.next_segment)
    limits = {state.value: now - duration for state, duration in keep.items() if duration is not None}
    shorter = max(limits.values(), default=None)
    uneven = len({limits.get(state) for state in (COMPLETED, CANCELLED)}) > 1
    aging = bool(limits)
    for segment in view.manifest.archive:
        gone = set(view.archived.get(segment.file, ()))
        if not gone and not aging:
            result.segments.append(segment)
            continue
        start = _first_kept(view, segment, gone, limits, result) if aging else segment.start
        if start >= segment.size:
            continue
        left = segment._replace(start=start)
        sift = aging and uneven and not segment.sifted and _all_before(view, segment, shorter)
        if gone or sift:
            _rewrite(directory, view, left, gone, limits if sift else {}, result)
        else:
            result.segments.append(left)
        aging = uneven and aging and (sift or segment.sifted)
    return result


def _first_kept(view: View, segment: Segment, gone: set[int], limits: Mapping[str, datetime], result: Retained) -> int:
    """The offset of the first line that stays; what is passed over is noted, and taken from `gone`."""
    mapped, offset = view.archive.mapped(segment.file), segment.start
    while offset < segment.size:
        line, following = mapped.line(offset)
        if offset in gone:
            gone.remove(offset)
        elif (kept := of_line(line, offset)) is None:
            view.note_damage(segment.file, offset, line)
        elif _expired(kept, limits):
            result.dropped.append((kept.queue, kept.state))
        else:
            break
        offset = following
    return offset


def _expired(kept: Kept, limits: Mapping[str, datetime]) -> bool:
    limit = limits.get(kept.state)
    return limit is not None and kept.job.updated_at < limit


def _all_before(view: View, segment: Segment, limit: datetime | None) -> bool:
    newest = of_line(view.archive.mapped(segment.file).line_before(segment.size)[0])
    return limit is not None and newest is not None and newest.job.updated_at < limit


def _rewrite(
    directory: Directory,
    view: View,
    segment: Segment,
    gone: set[int],
    limits: Mapping[str, datetime],
    result: Retained,
) -> None:
    """Write a segment again, under a new name, without the lines at `gone` and those past their limit."""
    appender = Appender(directory, [], result.next_segment)
    mapped, offset = view.archive.mapped(segment.file), segment.start
    while offset < segment.size:
        start = offset
        line, offset = mapped.line(start)
        if start in gone:
            continue
        kept = of_line(line, start)
        if kept is None:
            view.note_damage(segment.file, start, line)
        elif _expired(kept, limits):
            result.dropped.append((kept.queue, kept.state))
        else:
            appender.append(line)
    appender.finish()
    sifted = bool(limits) or segment.sifted
    result.segments.extend(written._replace(sifted=sifted) for written in appender.segments)
    result.next_segment = appender.next_segment
