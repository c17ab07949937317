"""Reading everything and telling what is wrong with it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Protocol

from jobq.errors import StoreUnreadable
from jobq_json.kept import Kept, of_line
from jobq_json.lines import job_of, sound
from jobq_json.manifest import NAME
from jobq_json.taken import wrong_in
from jobq_json.writing import section_order

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobq_json.directory import Directory
    from jobq_json.sections import Section
    from jobq_json.view import View


class Damaged(Protocol):
    """Is told of a line that is damaged."""

    def __call__(self, file: str, offset: int, line: bytes, section: Section | None = None) -> None:
        """The line at `offset` of `file`, in this section of the sorted run."""


def check(directory: Directory, view: View) -> list[str]:
    """What is wrong with the store, one sentence each.

    Raises:
        FileNotFoundError: the generation is over.
    """
    wrong, counted = examine(view)
    told = {(queue, state): n for queue, states in view.counts.items() for state, n in states.items() if n}
    wrong.extend(
        f"{NAME} counts {told.get(key, 0)} {key[1]} jobs in queue {key[0]}, but {counted[key]} are there"
        for key in sorted(told.keys() | counted.keys())
        if told.get(key, 0) != counted[key]
    )
    for name in view.manifest.damaged_files:
        if directory.has(name):
            wrong.append(
                f"damaged records were set aside before, in {directory.path}/{name}; remove it when done with it"
            )
    return wrong


def examine(view: View) -> tuple[list[str], Counter[tuple[str, str]]]:
    """Parse every line of the sorted run and of the archive.

    Returns:
        What is wrong, one sentence each; and the number of jobs by queue and state.

    Raises:
        FileNotFoundError: the generation is over.
        StoreUnavailable: the system refused: then nothing was counted.
    """
    wrong: list[str] = []
    counted: Counter[tuple[str, str]] = Counter()
    seen: set[str] = set()
    known = len(view.damaged_lines)
    if known:
        records = "1 damaged record was" if known == 1 else f"{known} damaged records were"
        wrong.append(f"{view.journal.name}: {records} set aside")

    def damaged(file: str, offset: int, line: bytes, section: Section | None = None) -> None:
        view.note_damage(file, offset, line, section)
        wrong.append(f"{file}: the record at byte {offset} is damaged")

    def note(kept: Kept, file: str) -> None:
        if kept.id in seen:
            wrong.append(f"{file}: job {kept.id} is there twice")
        seen.add(kept.id)
        counted[kept.queue, kept.state] += 1
        if kept.seq >= view.seq:
            wrong.append(f"{file}: job {kept.id} has the number {kept.seq}, but the next one is to be {view.seq}")

    for kept in view.delta.values():
        if kept is not None:
            note(kept, view.journal.name)
    wrong.extend(_out_of_order(view))
    for section in view.manifest.sections:
        _check_section(view, section, damaged, note, wrong)
    footer = view.run.line(view.run.line_before(view.run.size)[1])[0]
    if view.end < view.run.size and not sound(footer):
        wrong.append(f"{view.run.name}: its last line is damaged; the store could not be repaired from it")
    try:
        wrong.extend(filter(None, [wrong_in(view)]))
        for name, kept in view.archive.oldest_first(damaged):
            if kept.id not in view.delta and kept.offset not in view.archived.get(name, ()):
                note(kept, name)
    except StoreUnreadable as error:
        wrong.append(str(error))
    return wrong, counted


def _out_of_order(view: View) -> Iterator[str]:
    """Where the sections are not in the order of claims, or leave bytes of the sorted run out, one sentence each."""
    sections = view.manifest.sections
    for before, section in pairwise(sections):
        if section_order((before.state, before.lane)) >= section_order((section.state, section.lane)):
            yield f"{NAME}: the section at byte {section.start} of {view.run.name} is out of order"
    ends = [view.run.first, *(section.end for section in sections)]
    for end, section in zip(ends, sections, strict=False):
        if section.start != end:
            yield f"{NAME}: bytes {end} to {section.start} of {view.run.name} are in no section, or in two"


def _check_section(
    view: View, section: Section, damaged: Damaged, note: Callable[[Kept, str], None], wrong: list[str]
) -> None:
    file, before, lines = view.run.name, ("", -1), 0
    for offset, line in view.run.lines(section.start, section.end):
        kept = of_line(line, offset)
        lines += 1
        if kept is None or job_of(line) is None:
            damaged(file, offset, line, section)
            continue
        key = kept.run_at, kept.seq
        if kept.state != section.state or kept.lane != section.lane:
            wrong.append(f"{file}: job {kept.id} is in a section that is not its own")
        if key < before or not section.first <= kept.run_at <= section.last:
            wrong.append(f"{file}: job {kept.id} is out of order")
        before = key
        if kept.id not in view.delta:
            note(kept, file)
    if lines != section.lines:
        wrong.append(f"{NAME} counts {section.lines} lines in a section of {file}, but {lines} are there")
