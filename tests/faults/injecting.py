"""Calls on the files of a home that go wrong, in the real command line, at a place of the test's choice.

A library that is preloaded (faultycalls.c) counts the program's calls on what is below one directory. It makes one of
them, or one and all later ones, fail with an error, be done by half, or be the last before or after which the program
is killed. Only the program itself is meant, none of those that it starts.
"""

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .preloading import library

CHANGING = (
    "create",
    "openw",
    "write",
    "pwrite",
    "fsync",
    "fdatasync",
    "rename",
    "unlink",
    "ftruncate",
    "mkdir",
    "chmod",
)
"""Calls that change files, or say that they are on the disk; `create` is an open that may make the file."""

READING = ("open", "read", "pread", "stat", "opendir", "mmap")
"""Calls that look at files."""

STEPS = (*CHANGING, "flock", "lock", "answer")
"""Between two of them nothing happens that another process could see; `answer` is a write to the standard output."""

ERRORS = {
    "ENOSPC": ("create", "write", "pwrite", "fsync", "fdatasync", "rename", "mkdir"),
    "EDQUOT": ("create", "write", "pwrite", "fsync", "fdatasync", "rename", "mkdir"),
    "EIO": (*CHANGING, "open", "read", "pread", "stat", "opendir", "flock"),
    "EROFS": ("create", "openw", "rename", "unlink", "mkdir", "chmod"),
    "EMFILE": ("create", "openw", "open", "opendir"),
    "EINTR": ("create", "openw", "open", "read", "write", "flock", "fdatasync"),
    "ENOMEM": ("mmap",),
    "ENOLCK": ("flock",),
    "ENOSYS": ("flock",),
}
"""The calls that an error can come from. A `lock` is not among them: whatever refuses it, SQLite takes it for the lock of
another, and says so after half a minute."""

KILL, KILLED, STOP, SHORT, SKIP = "kill", "killed", "stop", "short", "skip"
"""The program dies before the call, or after it; it stops itself before it, until it is continued; it writes half of
what it should; a sync is said to be made and is not."""


@dataclass(frozen=True)
class Fault:
    """What goes wrong below a directory.

    Attributes:
        calls: the names of the calls that count.
        at: which of them, from 1.
        action: `KILL`, `KILLED`, `STOP`, `SHORT`, `SKIP` or the name of an error; "" for nothing.
        on: whether all later ones go wrong too.
        during: a file; they go wrong as long as it is there.
    """

    calls: Sequence[str]
    at: int = 0
    action: str = ""
    on: bool = False
    during: Path | None = None

    def environ(self, directory: Path, notes: Path | None = None) -> dict[str, str]:
        """The variables with which a program has this fault; `notes`: a file to write its calls to."""
        return {"LD_PRELOAD": str(library("faultycalls")), "FAULT": self.text(directory, notes)}

    def text(self, directory: Path, notes: Path | None = None) -> str:
        """What tells the library of this fault; a program that has it preloaded may call its `set_fault` with it."""
        action = str(getattr(errno, self.action, self.action))
        when = self.during or ("on" if self.on else "once")
        return "\n".join(map(str, (directory, notes or "", f" {' '.join(self.calls)} ", self.at, when, action)))


@dataclass(frozen=True)
class Call:
    """A call that was noted: its result, the position of a write or the flags of an open, and what was written."""

    name: str
    result: int
    position: int
    path: str
    data: bytes


def noted(notes: Path) -> list[Call]:
    """The calls that a program wrote down, in order."""
    calls = []
    for line in notes.read_text("ascii").splitlines():
        name, result, position, path, data = line.split(" ")
        calls.append(Call(name, int(result), int(position), bytes.fromhex(path).decode(), bytes.fromhex(data)))
    return calls


def spread(number: int, most: int) -> list[int]:
    """At most `most` of the numbers from 1 to `number`, the first and the last among them, evenly spread."""
    if number <= most or most < 2:
        return list(range(1, min(number, most) + 1))
    return sorted({1 + round(index * (number - 1) / (most - 1)) for index in range(most)})


def command(*words: str) -> list[str]:
    """`jobq` with these words, without the layers of a shell or a wrapper."""
    return [sys.executable, "-m", "jobq", *words]
