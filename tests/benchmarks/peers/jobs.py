"""What the jobs of all peers do; copied beside each peer's app.

Each run writes one record of four doubles to the file `runs`: when the job was handed in (monotonic clock, seconds;
0 where nobody asks), when its first line ran, the process it ran in and that one's parent.
"""

import os
import struct
import time
from functools import cache

RUN = struct.Struct("dddd")
NAMES = ("nothing", "stamp", "hold")
HOLD, ASKED = 1.0, 2.0  # in place of the moment, where that is not asked for
PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "runs")


def nothing() -> None:
    """Return at once."""
    note(0, time.monotonic())


def stamp(sent: float) -> None:
    """Tell when it began, and when it was handed in."""
    note(sent, time.monotonic())


def hold(sent: float) -> None:
    """Tell when it began, then be in the middle of it until killed; an hour at most."""
    note(sent, time.monotonic())
    time.sleep(3600)


def note(sent: float, began: float) -> None:
    """Write one record; a single write to a file opened for appending, which no other process or thread tears."""
    os.write(_file(), RUN.pack(sent, began, os.getpid(), os.getppid()))


@cache
def _file() -> int:
    return os.open(PATH, os.O_WRONLY | os.O_APPEND)


def runs(path: str | os.PathLike[str] = PATH) -> list[tuple[float, float, int, int]]:
    """The records so far: handed in, began, process, parent."""
    with open(path, "rb") as file:
        held = file.read()
    whole = len(held) // RUN.size * RUN.size
    return [(sent, began, int(process), int(parent)) for sent, began, process, parent in RUN.iter_unpack(held[:whole])]
