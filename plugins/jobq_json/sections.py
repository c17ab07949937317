"""What a manifest tells of its files: the sections of the sorted run, and the segments of the archive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Lane(NamedTuple):
    """What a worker chooses by, without looking at single jobs. `alone`: the jobs run alone in their worker."""

    queue: str
    priority: int
    handler: str | None
    alone: bool


class Section(NamedTuple):
    """A stretch of the sorted run: jobs of one state and lane, ordered by (run_at, seq).

    `start` and `end` are byte offsets; `lines` is the number of lines; no line's `run_at` is before `first` or after
    `last`.
    """

    state: str
    lane: Lane
    start: int
    end: int
    lines: int
    first: str
    last: str


class Segment(NamedTuple):
    """A file of finished jobs: its name, and the byte offsets between which its bytes are data."""

    file: str
    start: int
    size: int


def section_record(section: Section) -> dict[str, Any]:
    """The JSON object of a section."""
    return {
        "state": section.state,
        **section.lane._asdict(),
        "start": section.start,
        "end": section.end,
        "lines": section.lines,
        "first": section.first,
        "last": section.last,
    }


def sections_of(records: Iterable[Mapping[str, Any]]) -> tuple[Section, ...]:
    """The sections of their JSON objects."""
    return tuple(
        Section(
            item["state"],
            Lane(item["queue"], item["priority"], item["handler"], item["alone"]),
            item["start"],
            item["end"],
            item["lines"],
            item["first"],
            item["last"],
        )
        for item in records
    )


def segments_of(records: Iterable[Mapping[str, Any]]) -> tuple[Segment, ...]:
    """The segments of their JSON objects."""
    return tuple(Segment(item["file"], item["start"], item["size"]) for item in records)
