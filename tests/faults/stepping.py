"""Clocks that a test steps under the programs that it has started (clockstep.c), with the machine's own left as it is."""

import struct
import time
from datetime import UTC, datetime
from pathlib import Path

from jobq.clock import SystemClock
from jobq.times import floor_ms

from .preloading import library


class Clocks(SystemClock):
    """The clocks of all programs that are started with `environ`, and of what those start; a clock that agrees with them.

    Args:
        path: a file to keep the steps in.

    Attributes:
        wall: by how many seconds the wall clock is ahead of the machine's.
        boot: the same of the clock that goes on while the machine sleeps.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch()
        self.environ = {"LD_PRELOAD": str(library("clockstep")), "CLOCKSTEP": str(path)}
        self.wall = self.boot = 0.0
        self.set()

    def set(self, *, wall: float = 0.0, boot: float = 0.0) -> None:
        """Step them, so that they are ahead by so many seconds."""
        self.wall, self.boot = wall, boot
        with self._path.open("r+b", buffering=0) as file:  # each in one write: nobody reads half of a number
            file.write(struct.pack("=q", round(wall * 1e9)))
            file.write(struct.pack("=q", round(boot * 1e9)))

    def pass_by(self, seconds: float) -> None:
        """Let so much time go by in which nothing happens."""
        self.set(wall=self.wall + seconds, boot=self.boot + seconds)

    def now(self) -> datetime:
        """What the wall clock shows those programs."""
        return floor_ms(datetime.fromtimestamp(time.time() + self.wall, UTC))
