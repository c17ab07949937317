"""The pipe through which a command says how far it has come: `$JOBQ_PROGRESS_FD`."""

from __future__ import annotations

import os
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING

from jobq.progress import LINE_LIMIT, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jobq.progress import Progress

PAUSE = 0.02
"""Seconds in which it is read once: who writes more than the pipe holds in that time waits, not the one that reads."""

_AT_ONCE = 3  # one would make those that start at the same time wait for each other: a tenth of the throughput
_ONE_DIGIT = 9
_READ = 1 << 16
_LAST_READS = 16  # as much as a pipe holds at most, unless an administrator allows more


class Reports:
    """A pipe that a command writes lines to, `done/total note` each. Of what one reading finds the last line counts.

    Args:
        told: hears of it.

    Attributes:
        descriptor: the end that is read; reading it never blocks.
        inherited: the end that the command writes to.

    Raises:
        OSError: there is no room for a pipe.
    """

    def __init__(self, told: Callable[[Progress], None]) -> None:
        self._told = told
        self._rest = b""
        self.descriptor, self.inherited = os.pipe()
        os.set_blocking(self.descriptor, False)

    def started(self) -> None:
        """The command has its end, or will never have it: close it here."""
        if self.inherited >= 0:
            os.close(self.inherited)
            self.inherited = -1

    def read(self) -> bool:
        """Tell of the last whole line that has arrived; False when nobody has the other end any more."""
        data = self._arrived()
        if data:
            self._take(data)
        return data != b""

    def finish(self) -> None:
        """Tell of the last line that the command wrote, ended or not, and close the pipe."""
        for _ in range(_LAST_READS):
            data = self._arrived()
            if not data:
                break
            self._take(data)
        self._tell(self._rest)
        self.close()

    def close(self) -> None:
        """Free the descriptors."""
        self.started()
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _arrived(self) -> bytes | None:
        """What there is to read: None for nothing yet, nothing for the end."""
        try:
            return os.read(self.descriptor, _READ)
        except BlockingIOError:
            return None

    def _take(self, data: bytes) -> None:
        lines, newline, rest = data.rpartition(b"\n")
        if not newline:
            self._rest = (self._rest + rest)[:LINE_LIMIT]
            return
        _, several, last = lines.rpartition(b"\n")
        self._tell(last if several else self._rest + last)
        self._rest = rest[:LINE_LIMIT]

    def _tell(self, line: bytes) -> None:
        progress = parse(line)
        if progress is not None:
            self._told(progress)


class LowNumbers:
    """Descriptor numbers of one digit, the only ones that dash and others take after `>&`; kept for what is started."""

    def __init__(self) -> None:
        self._numbers: list[int] = []
        self._free: SimpleQueue[int] = SimpleQueue()
        while len(self._numbers) < _AT_ONCE:
            number = os.open(os.devnull, os.O_WRONLY)
            if number > _ONE_DIGIT:
                os.close(number)
                break
            self._numbers.append(number)
            self._free.put(number)

    @contextmanager
    def lent(self, descriptor: int) -> Iterator[int]:
        """A number that means what `descriptor` does meanwhile; where none was there to keep, the descriptor itself.

        Raises:
            OSError: it cannot be duplicated.
        """
        if not self._numbers:
            yield descriptor
            return
        number = self._free.get()
        try:
            yield os.dup2(descriptor, number, inheritable=False)
        finally:
            self._free.put(number)

    def close(self) -> None:
        """Free the numbers."""
        while self._numbers:
            os.close(self._numbers.pop())
