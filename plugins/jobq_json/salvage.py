"""Getting out of damaged files whatever can still be read, when they are no longer a whole generation."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.errors import StoreError
from jobq.files import replace as replace_file
from jobq_json.archiving import HEADER
from jobq_json.directory import check_header
from jobq_json.journal import Journal
from jobq_json.kept import of_line
from jobq_json.manifest import Manifest, Section, Segment, journal_header, run_header
from jobq_json.mapped import Mapped
from jobq_json.view import View
from jobq_json.writing import LIVE

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq_json.directory import Directory

_NUMBERED = re.compile(r"(jobs|journal|done)-(\d+)\.jsonl")


def salvaged(directory: Directory, known: Manifest | None, warn: Callable[[str], None]) -> View:
    """A view of what is left, in memory only; the caller makes a generation of it.

    Args:
        directory: the store's, locked.
        known: its manifest, as far as there is one.
        warn: is told of every damaged record.
    """
    numbers: dict[str, list[int]] = {"jobs": [0], "journal": [0], "done": [0]}
    for name in os.listdir(directory.path):
        if match := _NUMBERED.fullmatch(name):
            numbers[match[1]].append(int(match[2]))
    generation = known.generation if known is not None else max(numbers["jobs"] + numbers["journal"])
    names = [segment.file for segment in known.archive] if known is not None else None
    if names is None:
        names = [f"done-{number}.jsonl" for number in sorted(numbers["done"]) if number]
    base = known or Manifest(generation=generation, written="", next_segment=max(numbers["done"]) + 1)
    starts = {segment.file: segment.start for segment in base.archive}
    segments = []
    for name in names:
        if directory.has(name):
            size = _mended(directory, name, "done", HEADER)
            segments.append(Segment(name, min(size, starts.get(name, len(HEADER))), size))
    size = _mended(directory, base.jobs_file, "jobs", run_header(generation))
    _mended(directory, base.journal_file, "journal", journal_header(generation, base.seq))
    sections, seq = _sections(Mapped(directory, base.jobs_file, "jobs", size))
    counts: dict[str, Counter[str]] = {}
    for section in sections:
        counts.setdefault(section.lane.queue, Counter())[section.state] += section.lines
    found = replace(
        base, size=size, archive=tuple(segments), sections=tuple(sections), counts=counts, seq=max(base.seq, seq)
    )
    view = View(directory, found, Journal(directory, found), warn)
    for name, end in ((base.jobs_file, size), *((segment.file, segment.size) for segment in segments)):
        if rest := directory.content(name)[end:]:
            view.note_damage(name, end, rest)
    return view


def _mended(directory: Directory, name: str, kind: str, header: bytes) -> int:
    """Give a file its header where that is missing or damaged; the size up to the end of its last whole line."""
    data = directory.content(name) if directory.has(name) else b""
    first, _, rest = data.partition(b"\n")
    try:
        check_header(first, kind, name)
    except StoreError:
        data = header + rest
        replace_file(directory.path / name, data, durable=True)
    return data.rfind(b"\n") + 1


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
