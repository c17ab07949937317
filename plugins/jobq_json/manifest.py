"""The manifest, `queue.json`: which files make up the store at this moment, and what is in them.

Replacing it is the commit point of a new generation. It is JSON for people too: `jq .counts queue.json` works.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from jobq.errors import NewerFormat, StoreUnreadable
from jobq_json.lines import encode, scan, seal

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = 1
NAME = "queue.json"
WAY_OUT = "`jobq doctor --repair` rebuilds it from the newest complete generation"


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


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One generation of the store.

    Attributes:
        generation: its number; higher is newer.
        written: when (RFC 3339).
        seq: the sequence number of the next job at the start of the journal.
        counts: jobs by queue and state at the start of the journal, none of them 0.
        paused: the paused queues and why.
        size: of the sorted run, in bytes.
        archive: the segments of finished jobs, the oldest first.
        next_segment: the number that the next new segment gets.
        damaged: records found damaged and set aside so far.
        damaged_files: the files where they are.
        sections: of the sorted run, by offset.
    """

    generation: int
    written: str
    seq: int = 1
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    paused: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    archive: tuple[Segment, ...] = ()
    next_segment: int = 1
    damaged: int = 0
    damaged_files: tuple[str, ...] = ()
    sections: tuple[Section, ...] = ()

    @property
    def jobs_file(self) -> str:
        """The name of the sorted run."""
        return f"jobs-{self.generation}.jsonl"

    @property
    def journal_file(self) -> str:
        """The name of the journal."""
        return f"journal-{self.generation}.jsonl"

    @property
    def files(self) -> frozenset[str]:
        """The names of the data files of this generation."""
        archived = (segment.file for segment in self.archive)
        return frozenset((NAME, self.jobs_file, self.journal_file, *archived, *self.damaged_files))

    def end_of_jobs(self, first: int) -> int:
        """The offset behind the last job of the sorted run, whose first line, if there is one, is at `first`."""
        return self.sections[-1].end if self.sections else first

    def record(self) -> dict[str, Any]:
        """The JSON object of the manifest, without its checksum."""
        return {
            "jobq": "queue",
            "format": FORMAT,
            "generation": self.generation,
            "written": self.written,
            "seq": self.seq,
            "counts": {queue: dict(counts) for queue, counts in self.counts.items()},
            "paused": dict(self.paused),
            "jobs": {"file": self.jobs_file, "size": self.size},
            "journal": self.journal_file,
            "archive": [segment._asdict() for segment in self.archive],
            "next_segment": self.next_segment,
            "damaged": self.damaged,
            "damaged_files": list(self.damaged_files),
            "sections": [
                {
                    "state": section.state,
                    **section.lane._asdict(),
                    "start": section.start,
                    "end": section.end,
                    "lines": section.lines,
                    "first": section.first,
                    "last": section.last,
                }
                for section in self.sections
            ],
        }

    def dump(self) -> bytes:
        """The file: one key a line, one line an element of the long lists, its checksum last."""
        lines = []
        for key, value in self.record().items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                text = "[\n    " + ",\n    ".join(json.dumps(item) for item in value) + "\n  ]"
            else:
                text = json.dumps(value)
            lines.append(f'  "{key}": {text}')
        body = ("{\n" + ",\n".join(lines)).encode("ascii")
        return b'%b,\n  "crc": "%08x"\n}\n' % (body, crc32(body))


def read(data: bytes) -> Manifest:
    """The manifest of a file's bytes.

    Raises:
        StoreUnreadable: it is truncated, damaged or something else.
        NewerFormat: a newer jobq wrote it.
    """
    body, comma, tail = data.rpartition(b",\n")
    if not comma or tail != b'  "crc": "%08x"\n}\n' % crc32(body):
        raise StoreUnreadable(f"the store's manifest, {NAME}, is truncated or damaged; {WAY_OUT}")
    record, _ = scan(data.decode("ascii"), 0)
    if record.get("jobq") != "queue":
        raise StoreUnreadable(f"{NAME} is not the manifest of a jobq store")
    check_format(record)
    return from_record(record)


def check_format(record: Mapping[str, Any]) -> None:
    """Check that this jobq knows what a manifest's JSON object tells of.

    Raises:
        NewerFormat: a newer jobq wrote it.
    """
    if record["format"] > FORMAT:
        raise NewerFormat(f"the store has format {record['format']}, written by a newer jobq; this one knows {FORMAT}")


def from_record(record: Mapping[str, Any]) -> Manifest:
    """The manifest of its JSON object."""
    return Manifest(
        generation=record["generation"],
        written=record["written"],
        seq=record["seq"],
        counts=record["counts"],
        paused=record["paused"],
        size=record["jobs"]["size"],
        archive=tuple(Segment(item["file"], item["start"], item["size"]) for item in record["archive"]),
        next_segment=record["next_segment"],
        damaged=record["damaged"],
        damaged_files=tuple(record["damaged_files"]),
        sections=tuple(
            Section(
                item["state"],
                Lane(item["queue"], item["priority"], item["handler"], item["alone"]),
                item["start"],
                item["end"],
                item["lines"],
                item["first"],
                item["last"],
            )
            for item in record["sections"]
        ),
    )


def run_header(generation: int) -> bytes:
    """The first line of a sorted run."""
    return seal(encode({"jobq": "jobs", "format": FORMAT, "generation": generation})) + b"\n"


def journal_header(generation: int, seq: int) -> bytes:
    """The first line of a journal; `seq` is the number of the next job."""
    return seal(encode({"jobq": "journal", "format": FORMAT, "generation": generation, "seq": seq})) + b"\n"


def first(written: str) -> Manifest:
    """The manifest of a store in which nothing was ever stored."""
    return Manifest(generation=1, written=written, size=len(run_header(1)))
