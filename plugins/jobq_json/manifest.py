"""The manifest, `queue.json`: which files make up the store at this moment, and what is in them.

Replacing it is the commit point of a new generation. It is JSON for people too: `jq .counts queue.json` works.
"""

from __future__ import annotations

from zlib import crc32

from jobq.codec import encode, scan
from jobq.errors import NewerFormat, StoreUnreadable
from jobq.records import field, record
from jobq_json.lines import seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobq.notices import Notice
    from jobq_json.sections import Section, Segment

FORMAT = 1
"""What is written."""

FORMAT_WITH_NOTICE = 2
"""What a manifest with a notice has: a jobq that does not know of notices leaves such a store alone."""

NAME = "queue.json"
WAY_OUT = "`jobq doctor --repair` rebuilds it from the newest complete generation"


@record(frozen=True, kw_only=True)
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
        notice: what stands at the store's door while its jobs are moved.
    """

    generation: int
    written: str
    seq: int = 1
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    paused: Mapping[str, str] = field(default_factory=dict)
    size: int = 0
    archive: tuple[Segment, ...] = field(default_factory=tuple)
    next_segment: int = 1
    damaged: int = 0
    damaged_files: tuple[str, ...] = ()
    sections: tuple[Section, ...] = field(default_factory=tuple)
    notice: Notice | None = None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """What of one that was read is made when it is asked for: who only adds never does."""
            if name not in ("archive", "sections"):
                raise AttributeError(f"a manifest has no {name}")
            from jobq_json.sections import sections_of, segments_of

            make = sections_of if name == "sections" else segments_of
            made = self.__dict__[name] = make(self.__dict__["_read"].pop(name))
            return made

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
        from jobq_json.sections import section_record

        return {
            "jobq": "queue",
            "format": FORMAT if self.notice is None else FORMAT_WITH_NOTICE,
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
            **({} if self.notice is None else {"notice": self.notice.record()}),
            "sections": [section_record(section) for section in self.sections],
        }

    def dump(self) -> bytes:
        """The file: one key a line, one line an element of the long lists, its checksum last."""
        import json

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
    if record["format"] > FORMAT_WITH_NOTICE:
        known = f"this one knows those up to {FORMAT_WITH_NOTICE}"
        raise NewerFormat(f"the store has format {record['format']}, written by a newer jobq; {known}")


def from_record(record: Mapping[str, Any]) -> Manifest:
    """The manifest of its JSON object."""
    manifest = object.__new__(Manifest)
    manifest.__dict__.update(
        generation=record["generation"],
        written=record["written"],
        seq=record["seq"],
        counts=record["counts"],
        paused=record["paused"],
        size=record["jobs"]["size"],
        next_segment=record["next_segment"],
        damaged=record["damaged"],
        damaged_files=tuple(record["damaged_files"]),
        _read={name: record[name] for name in ("archive", "sections")},
    )
    if (notice := record.get("notice")) is not None:
        from jobq.notices import Notice

        manifest.__dict__["notice"] = Notice.from_record(notice)
    return manifest


def run_header(generation: int) -> bytes:
    """The first line of a sorted run."""
    return seal(encode({"jobq": "jobs", "format": FORMAT, "generation": generation})) + b"\n"


def journal_header(generation: int, seq: int, notice: Notice | None = None) -> bytes:
    """The first line of a journal; `seq` is the number of the next job.

    The notice is in it too, as it is in the footer of the run, should the manifest be lost.
    """
    told = {} if notice is None else {"notice": notice.record()}
    return seal(encode({"jobq": "journal", "format": FORMAT, "generation": generation, **told, "seq": seq})) + b"\n"


def first(written: str) -> Manifest:
    """The manifest of a store in which nothing was ever stored."""
    return Manifest(generation=1, written=written, size=len(run_header(1)))
