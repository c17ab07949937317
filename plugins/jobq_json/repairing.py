"""Mending a store: a manifest that is missing or damaged is built again, damaged records are set aside."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.errors import NewerFormat, StoreUnreadable, UnsafeHome
from jobq.files import unavailable
from jobq.notices import UNKNOWN
from jobq_json import manifest as manifests
from jobq_json.archiving import MENDED
from jobq_json.checking import examine
from jobq_json.compaction import compact_locked, nobody_else
from jobq_json.directory import check_header
from jobq_json.journal import Journal
from jobq_json.lines import parse
from jobq_json.salvage import salvaged
from jobq_json.taken import wrong_in
from jobq_json.view import View

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from jobq_json.directory import Directory
    from jobq_json.manifest import Manifest

_RUN = re.compile(r"jobs-(\d+)\.jsonl")
_DATA = re.compile(r"(jobs|journal|done|damaged)-\d+\.jsonl")
_TAIL = 1 << 20
_UNKNOWN_NOTICE = (
    "whether the queue was moved to another store, or was being moved, cannot be read any more, so nothing runs here: if it "
    "was not, `jobq move --abort --force` opens the store"
)


def repair(directory: Directory, *, warn: Callable[[str], None]) -> list[str]:
    """Make the store usable again; what was done, one sentence each.

    It may be interrupted at any moment and done again. Nothing is removed before all that can be read is in a
    generation that is in force, and what is in no generation is kept under another name.

    Raises:
        StoreError: a newer jobq wrote it, or the system refused.
    """
    try:
        return _repaired(directory, warn)
    except OSError as error:
        raise unavailable(error, error.filename or directory.path) from None


def _repaired(directory: Directory, warn: Callable[[str], None]) -> list[str]:
    done: list[str] = []
    directory.open_for_writing()
    with nobody_else(directory), directory.held():
        current: Manifest | None = None
        try:
            current = directory.current()
            if current is None:
                return done
        except NewerFormat:
            raise
        except StoreUnreadable as error:
            if directory.is_lost():
                if strange := directory.strange():
                    raise StoreUnreadable(
                        f"{directory.path} holds {', '.join(strange[:3])}, which no store has there; if that is a backup, "
                        "put its files in place of the directory, else move it away"
                    ) from None
                directory.begin()
                return ["an empty store was begun, since nothing is left of the one before"]
            current = _newest(directory)
            if directory.has(manifests.NAME):
                copy = _unused(directory, manifests.NAME)  # it stays until there is another: else this is no store
                directory.write(copy, [directory.content(manifests.NAME)])
                done.append(f"{manifests.NAME} cannot be read; what it held is kept in {directory.path}/{copy}")
            if current is not None:
                done += _keep_unused(directory, current.files)
                directory.put_in_force(directory.prepare(current))
                directory.sync()
                current = directory.current()
            if current is not None:
                done.append(f"the manifest was built again from generation {current.generation} ({error})")
        view, why = _view(directory, current, warn)
        if why:
            done.append(f"what can still be read was taken out of the damaged files ({why})")
            if view.manifest.notice == UNKNOWN and (current is None or current.notice != UNKNOWN):
                done.append(_UNKNOWN_NOTICE)
        counted = examine(view)[1]
        wrong = "" if why else wrong_in(view)
        if wrong:
            done.append(f"the list of ids was made again ({wrong})")
        if view.damaged_lines or why or wrong:
            done += _keep_unused(directory, [name.replace(MENDED, ".jsonl") for name in view.manifest.files])
            view.counts.clear()
            for (queue, state), number in counted.items():
                view.counts[queue][state] = number
            before = frozenset(view.manifest.damaged_files)
            compact_locked(directory, view, alone=True, afresh=True)
            if (now := directory.current()) is not None and view.damaged_lines:
                (name,) = frozenset(now.damaged_files) - before
                number = len(view.damaged_lines)
                records = "1 damaged record was" if number == 1 else f"{number} damaged records were"
                done.append(f"{records} set aside in {directory.path}/{name}")
        view.journal.close()
    return done


def _keep_unused(directory: Directory, used: Collection[str]) -> list[str]:
    """Give the data files that are not `used` another name, under which nothing removes them; one sentence each.

    They may be what was left of a generation that ended, or of one that never came into force, and then hold nothing
    that is not elsewhere; but where files are damaged nobody can tell.
    """
    told = []
    for name in directory.names():
        if _DATA.fullmatch(name) is None or name in used:
            continue
        kept = _unused(directory, name)
        try:
            os.rename(f"{directory.path}/{name}", f"{directory.path}/{kept}")
        except OSError as error:
            raise unavailable(error, f"{directory.path}/{name}") from None
        told.append(f"{name}, which belongs to nothing that is in force, was kept as {directory.path}/{kept}")
    return told


def _unused(directory: Directory, name: str) -> str:
    """A name that nothing has and that is nothing's, for a file that is only kept."""
    number, kept = 0, f"unused-{name}"
    while directory.has(kept):
        number += 1
        kept = f"unused-{number}-{name}"
    return kept


def _view(directory: Directory, current: Manifest | None, warn: Callable[[str], None]) -> tuple[View, str]:
    """A view of the generation, and, where its files are not whole, why it is one of what is left of them."""
    why = "no complete generation is left"
    if current is not None:
        try:
            view = View(directory, current, Journal(directory, current), warn)
            view.archive.open_all()
        except StoreUnreadable as error:
            why = str(error)
        except FileNotFoundError as error:
            why = f"{error.filename} is missing"
        else:
            return view, ""
    return salvaged(directory, current, warn), why


def _newest(directory: Directory) -> Manifest | None:
    """The manifest of the newest complete generation; None where there is none.

    The footer of each sorted run holds its manifest. Where the files of two generations are there, the newer may
    never have come into force: then the older one's journal holds more than the newer was made from.
    """
    numbers = sorted((int(m[1]) for name in directory.names() if (m := _RUN.fullmatch(name))), reverse=True)
    complete = [found for number in numbers if (found := _complete(directory, number)) is not None]
    if not complete:
        return None
    chosen, (before, position) = complete[0]
    for older, _ in complete[1:]:
        if older.generation == before and _records(directory, older, position) > _records(directory, chosen, 0):
            chosen = older
    return chosen


def _complete(directory: Directory, generation: int) -> tuple[Manifest, tuple[int, int]] | None:
    """The manifest of a generation, and which one it was made from; None where the generation is not complete.

    Raises:
        NewerFormat: a newer jobq wrote it.
        StoreUnavailable: the system refused: that says nothing of the generation.
    """
    try:
        with open(directory.open(f"jobs-{generation}.jsonl"), "rb") as file:
            check_header(file.readline().removesuffix(b"\n"), "jobs", f"jobs-{generation}.jsonl")
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            *_, footer, after = file.read().split(b"\n")
        record = parse(footer)
        if after or record is None or record.get("jobq") != "end":
            first = manifests.first(directory.time())
            return (first, (0, 0)) if generation == 1 and size == first.size else None
        manifests.check_format(record)
        before, position = record["from"]
        found = replace(manifests.from_record(record), size=size)
        if found.generation != generation:
            return None
        next(iter(Journal(directory, found).read(0)), None)
        for segment in found.archive:
            if os.path.getsize(f"{directory.path}/{segment.file}") < segment.size:
                return None
    except (StoreUnreadable, UnsafeHome, FileNotFoundError, KeyError, TypeError, ValueError):
        return None
    except OSError as error:
        raise unavailable(error, f"{directory.path}/jobs-{generation}.jsonl") from None
    return found, (before, position)


def _records(directory: Directory, found: Manifest, position: int) -> int:
    """How many records the journal holds behind a position."""
    return sum(1 for _ in Journal(directory, found).read(position))
