"""Getting out of damaged files whatever can still be read, when they are no longer a whole generation."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jobq.errors import StoreError
from jobq.notices import UNKNOWN, Notice
from jobq_json.archiving import HEADER, MENDED
from jobq_json.directory import check_header
from jobq_json.journal import Journal
from jobq_json.kept import of_line
from jobq_json.lines import parse
from jobq_json.manifest import Manifest, journal_header, run_header
from jobq_json.mapped import Mapped
from jobq_json.sections import Section, Segment
from jobq_json.view import View
from jobq_json.writing import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq_json.directory import Directory

_NUMBERED = re.compile(r"(jobs|journal|done)-(\d+)\.jsonl")


@dataclass(frozen=True, kw_only=True)
class _Mended(Manifest):
    """What is left of a generation, some of it perhaps in copies; the files themselves stay as they are.

    Attributes:
        run: the sorted run, or its copy.
        log: the journal, or its copy.
    """

    run: str
    log: str

    @property
    def jobs_file(self) -> str:
        return self.run

    @property
    def journal_file(self) -> str:
        return self.log


def salvaged(directory: Directory, known: Manifest | None, warn: Callable[[str], None]) -> View:
    """A view of what is left, in memory and in copies; the caller makes a generation of it, which sweeps the copies.

    Args:
        directory: the store's, locked.
        known: its manifest, as far as there is one.
        warn: is told of every damaged record.
    """
    numbers: dict[str, list[int]] = {"jobs": [0], "journal": [0], "done": [0]}
    present = frozenset(directory.names())
    for name in present:
        if match := _NUMBERED.fullmatch(name):
            numbers[match[1]].append(int(match[2]))
    both = set(numbers["jobs"]) & set(numbers["journal"]) - {0}  # else one of them never came into force, or is missing
    generation = known.generation if known is not None else max(both or numbers["jobs"] + numbers["journal"])
    names = [segment.file for segment in known.archive] if known is not None else None
    if names is None:
        names = [f"done-{number}.jsonl" for number in sorted(numbers["done"]) if number]
    base = known or Manifest(generation=generation, written="", next_segment=max(numbers["done"]) + 1)
    starts = {segment.file: segment.start for segment in base.archive}
    segments = []
    for name in names:
        if name in present:
            file, size, moved = _mended(directory, name, "done", HEADER)
            segments.append(Segment(file, min(size, max(starts.get(name, 0) + moved, len(HEADER))), size))
    notice = base.notice if known is not None else _notice(directory, base)
    run, size, _ = _mended(directory, base.jobs_file, "jobs", run_header(generation))
    log, _, _ = _mended(directory, base.journal_file, "journal", journal_header(generation, base.seq))
    sections, seq = _sections(Mapped(directory, run, "jobs", size))
    counts: dict[str, Counter[str]] = {}
    for section in sections:
        counts.setdefault(section.lane.queue, Counter())[section.state] += section.lines
    found = _Mended(
        generation=generation,
        written=base.written,
        seq=max(base.seq, seq),
        counts=counts,
        paused=base.paused,
        size=size,
        archive=tuple(segments),
        next_segment=base.next_segment,
        damaged=base.damaged,
        damaged_files=base.damaged_files,
        sections=tuple(sections),
        notice=notice,
        run=run,
        log=log,
    )
    view = View(directory, found, Journal(directory, found), warn)
    for name, end in ((run, size), *((segment.file, segment.size) for segment in segments)):
        if rest := directory.content(name)[end:]:
            view.note_damage(name, end, rest)
    if known is None:
        _leave_out_copies(view)
    return view


def _leave_out_copies(view: View) -> None:
    """Leave the archived jobs out that are live, and those that are in a newer segment or further back.

    Without a manifest nobody knows which segments were in force: one may be a copy of another that was being made.
    """
    seen = {kept.id for section in view.manifest.sections for kept in view.jobs_of(section)} | view.delta.keys()
    places = [(name, kept.id, kept.offset) for name, kept in view.archive.oldest_first(view.note_damage)]
    for name, job_id, offset in reversed(places):
        if job_id in seen:
            view.archived.setdefault(name, set()).add(offset)
        seen.add(job_id)


def _notice(directory: Directory, base: Manifest) -> Notice | None:
    """The notice that stood at the store's door, by the footer of the run or the header of the journal; else `UNKNOWN`."""
    for name, index, kind in ((base.jobs_file, -2, "end"), (base.journal_file, 0, "journal")):
        with suppress(FileNotFoundError, IndexError, StoreError, KeyError, TypeError, ValueError):
            record = parse(directory.content(name).split(b"\n")[index])
            if record is not None and record.get("jobq") == kind:
                return Notice.from_record(record["notice"]) if "notice" in record else None
    return UNKNOWN


def _mended(directory: Directory, name: str, kind: str, header: bytes) -> tuple[str, int, int]:
    """The file, or, where its header is missing or damaged, a copy that has one.

    Returns:
        Its name, its size up to the end of its last whole line, and how much further back its lines are.
    """
    try:
        data = directory.content(name)
    except FileNotFoundError:
        data = b""
    first, _, rest = data.partition(b"\n")
    try:
        check_header(first, kind, name)
    except StoreError:
        before, data = len(data), header + rest
        name = name.removesuffix(".jsonl") + MENDED
        directory.write(name, [data])
        return name, data.rfind(b"\n") + 1, len(data) - before
    return name, data.rfind(b"\n") + 1, 0


def _sections(run: Mapped) -> tuple[list[Section], int]:
    """The sections of a sorted run, from its lines, and the number behind the highest of its jobs.

    A damaged line counts to the section before it, and is noted when it is read there.
    """
    sections: list[Section] = []
    seq = 0
    for start, line in run.lines(run.first, run.size):
        kept, end = of_line(line, start), start + len(line) + 1
        last = sections[-1] if sections else None
        if kept is None or kept.state not in LIVE:
            if last is not None and not line.startswith(b'{"jobq":'):
                sections[-1] = last._replace(end=end, lines=last.lines + 1)
            continue
        seq = max(seq, kept.seq + 1)
        if last is not None and (last.state, last.lane) == (kept.state, kept.lane):
            sections[-1] = last._replace(end=end, lines=last.lines + 1, last=kept.run_at)
        else:
            sections.append(Section(kept.state, kept.lane, start, end, 1, kept.run_at, kept.run_at))
    return sections, seq
