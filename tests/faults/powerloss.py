"""What a power cut may leave of the files that a program wrote, from the notes of its calls (see injecting.py).

The disk of this model keeps what it was asked to keep and no more. What was written to a file is on the disk when the
file was synced after it; a name that was made, replaced or removed is there, or gone, when its directory was synced
after it. Names come to the disk in the order of their changes, as with every file system that has a journal; for the
rest there is no order. Everything may be on the disk, or nothing of it, the names without the contents, zeros for
contents, the contents without the names, half of what was written last, some sectors of what was written over and
others not, and by chance any of these for each file with the names of any time. Each is a `Cut`.
"""

import os
import random
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .injecting import Call


@dataclass
class _File:
    """One file or directory: what a program reads of it, what the disk has for certain, where it was written to last."""

    is_directory: bool = False
    content: bytearray = field(default_factory=bytearray)
    synced: bytes = b""
    latest: int = 0


Names = dict[str, _File]

SECTOR = 512
"""Bytes that a disk writes as one."""


@dataclass(frozen=True)
class Cut:
    """What one power cut leaves.

    Attributes:
        after: the last call before it.
        kind: how the disk dealt with what was not synced.
        answered: what the program had written to its standard output by then.
        files: the files' contents by path.
    """

    after: Call
    kind: str
    answered: bytes
    files: dict[str, bytes]

    def restore(self, directory: Path, to: Path) -> None:
        """Make the files that were below `directory` below `to`, which is emptied before."""
        shutil.rmtree(to, ignore_errors=True)
        to.mkdir(mode=0o700)
        for path, content in self.files.items():
            target = to / os.path.relpath(path, directory)
            for parent in reversed([each for each in target.parents if to in each.parents]):
                parent.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(descriptor, content)
            os.close(descriptor)


class Disk:
    """Follows the calls of one program, or of several that wrote one after the other.

    Args:
        by_chance: how many cuts by chance are made after each call.
        ignored: syncs that this disk does as if they were not made, by call and the end of a path: a disk that lies,
            or a program that forgot them.
    """

    def __init__(self, by_chance: int = 0, ignored: Sequence[tuple[str, str]] = ()) -> None:
        self._by_chance, self._ignored = by_chance, tuple(ignored)
        self._chance = random.Random(1)
        self._names: Names = {}
        self._snapshots: list[Names] = [{}]
        self._directories: set[str] = set()
        self._synced: dict[str, int] = {}
        self._answered = b""

    def cuts(self, calls: Sequence[Call]) -> Iterator[Cut]:
        """What a power cut may leave after each of one more program's calls that changed anything."""
        self._answered = b""
        for call in calls:
            if call.result >= 0 and self._follow(call):
                if self._names.items() != self._snapshots[-1].items():
                    self._snapshots.append(dict(self._names))
                    self._directories |= {os.path.dirname(path) for path in self._names}
                yield from self._cuts(call)

    def _follow(self, call: Call) -> bool:
        """Do what the call did; whether the disk is another one after it, or more was answered."""
        path, names = call.path, self._names
        match call.name:
            case "answer":
                self._answered += call.data
            case "create" | "mkdir" if path not in names:
                names[path] = _File(is_directory=call.name == "mkdir")
            case "write" | "pwrite" if path in names:
                file = names[path]
                file.latest = call.position
                file.content[call.position : call.position + len(call.data)] = call.data
            case "ftruncate" if path in names:
                del names[path].content[call.position :]
            case "rename":
                names[call.data.decode()] = names.pop(path)
            case "unlink":
                names.pop(path, None)
            case "fsync" | "fdatasync":
                self._sync(call)
            case _:
                return False
        return True

    def _sync(self, call: Call) -> None:
        if any(call.name == name and end in call.path for name, end in self._ignored):
            return
        file = self._names.get(call.path)
        if file is not None and not file.is_directory:
            file.synced = bytes(file.content)
            return
        self._synced[call.path] = len(self._snapshots) - 1

    def _names_of(self, time: int) -> Names:
        """The names that the disk has if it has those of that time, and later ones where it was asked to."""
        names: Names = {}
        for directory in self._directories:
            snapshot = self._snapshots[max(time, self._synced.get(directory, 0))]
            names |= {path: file for path, file in snapshot.items() if os.path.dirname(path) == directory}
        return names

    def _cuts(self, call: Call) -> Iterator[Cut]:
        kept = self._names_of(0)
        for kind, names, content in (
            ("everything", self._names, _all),
            ("nothing", kept, _synced),
            ("names", self._names, _synced),
            ("zeros", self._names, _zeros),
            ("contents", kept, _all),
            ("half", self._names, _half),
            ("sectors", self._names, self._sectors),
        ):
            yield self._cut(call, kind, names, {path: content(file) for path, file in names.items()})
        for _ in range(self._by_chance):
            names = self._names_of(self._chance.randrange(len(self._snapshots)))
            yield self._cut(
                call,
                "chance",
                names,
                {path: self._chance.choice((*CONTENTS, self._sectors))(file) for path, file in names.items()},
            )

    def _sectors(self, file: _File) -> bytes:
        """Of what was synced, some sectors as they were then, and some as they are by now."""
        if file.content[: len(file.synced)] == file.synced:
            return file.synced
        left = bytearray(file.synced)
        for start in range(0, min(len(left), len(file.content)), SECTOR):
            if self._chance.random() < 0.5:
                end = min(start + SECTOR, len(left))
                left[start:end] = file.content[start:end].ljust(end - start, b"\0")
        return bytes(left)

    def _cut(self, call: Call, kind: str, names: Names, contents: dict[str, bytes]) -> Cut:
        made = {path for path, file in self._names.items() if file.is_directory}
        lost = made - {path for path, file in names.items() if file.is_directory}
        found = {
            path: contents[path]
            for path, file in names.items()
            if not file.is_directory and not any(path.startswith(f"{each}/") for each in lost)
        }
        return Cut(call, kind, self._answered, found)


def _all(file: _File) -> bytes:
    return bytes(file.content)


def _synced(file: _File) -> bytes:
    return file.synced


def _zeros(file: _File) -> bytes:
    """The size of the file is on the disk, and what was written last is not."""
    return file.synced + bytes(max(0, len(file.content) - len(file.synced)))


def _half(file: _File) -> bytes:
    """What was synced, and half of what was written since."""
    if bytes(file.content) == file.synced:
        return file.synced
    return bytes(file.content[: max(len(file.synced), (file.latest + len(file.content)) // 2)])


CONTENTS = (_all, _synced, _zeros, _half)
