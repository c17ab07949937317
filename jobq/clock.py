"""Time and chance, handed in: nothing in jobq reads a clock or draws a number but through these."""

from __future__ import annotations

import os
import sys
import time
from abc import ABC, abstractmethod

from jobq.light import UTC, datetime
from jobq.times import floor_ms

LONGEST_POLL = 2_000_000.0
"""Seconds; poll(2) takes its milliseconds as a C int, which ends after 24.8 days."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, Self
else:
    Protocol = object


class Random(Protocol):
    """Where chance comes from; `random.Random` is one."""

    def random(self) -> float:
        """A number in [0, 1)."""


_RING = (1).to_bytes(8, sys.byteorder)
"""What is written to ring: the number that an eventfd(2) adds; a pipe takes any bytes."""


class Wake:
    """A bell that any thread or signal handler may ring and one thread waits for; nothing here locks."""

    def __init__(self) -> None:
        self._ringing = False
        if hasattr(os, "eventfd"):  # Linux: one descriptor, made at a third of a pipe's cost
            self._read = self._write = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
            return
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def ring(self) -> None:
        """Wake whoever waits, now or the next time it waits. Never blocks; ringing twice is ringing once."""
        if self._ringing:
            return
        self._ringing = True
        try:
            os.write(self._write, _RING)
        except OSError:  # full: it rings already; closed: nobody waits any more
            return

    def clear(self) -> bool:
        """Take the ringing back; True if there was any. What it was rung for is to be looked at after this."""
        try:
            rang = bool(os.read(self._read, 4096))
        except BlockingIOError:
            rang = False
        self._ringing = False  # last: whoever has rung since then has done so before we look
        return rang

    def fileno(self) -> int:
        """The descriptor that is readable while the bell rings."""
        return self._read

    def close(self) -> None:
        """Free the descriptors. Ringing afterwards does nothing."""
        read, write, self._read, self._write = self._read, self._write, -1, -1
        for descriptor in {read, write} - {-1}:
            os.close(descriptor)


class Clock(ABC):
    """The wall clock for due times, a monotonic one for durations, and a way to wait that can be woken."""

    @abstractmethod
    def now(self) -> datetime:
        """The wall clock, read afresh: aware UTC, whole milliseconds."""

    @abstractmethod
    def monotonic(self) -> float:
        """Seconds since an arbitrary moment; never steps."""

    @abstractmethod
    def wait(self, wake: Wake, seconds: float | None) -> bool:
        """Return when `wake` rings (True) or `seconds` are over (False); None waits without end."""


class SystemClock(Clock):
    """The machine's own time."""

    def now(self) -> datetime:
        return floor_ms(datetime.now(UTC))

    def monotonic(self) -> float:
        return time.monotonic()

    def wait(self, wake: Wake, seconds: float | None) -> bool:
        import select

        poll = select.poll()
        poll.register(wake.fileno(), select.POLLIN)
        while seconds is not None and seconds > LONGEST_POLL:
            if poll.poll(LONGEST_POLL * 1000):
                return wake.clear()
            seconds -= LONGEST_POLL
        poll.poll(None if seconds is None else max(0, -int(-seconds * 1000 // 1)))
        return wake.clear()
