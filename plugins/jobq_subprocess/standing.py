"""What a handler can change of the process that it shares with others: put back after each, or found changed."""

from __future__ import annotations

import os
import signal
import sys

_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Standing:
    """How this process stands now: its directory, umask, signal mask, timers, limits, user and standard streams."""

    def __init__(self) -> None:
        self._directory = os.getcwd()
        self._umask = os.umask(0o077)
        os.umask(self._umask)
        self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self._limits = _limits()
        self._fixed = _fixed()

    def restore(self) -> bool:
        """Put back what can be; False where something cannot: the process is none for another job."""
        try:
            os.chdir(self._directory)
        except OSError:  # removed: there is nowhere to go back to
            pass
        os.umask(self._umask)
        for timer in _TIMERS:
            signal.setitimer(timer, 0)
        if signal.sigpending():
            return False  # it would strike the next one, once it is let in
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        # Without that module nothing here changes limits, and to look at them costs more than all the rest
        return _fixed() == self._fixed and ("resource" not in sys.modules or _limits() == self._limits)


def _fixed() -> tuple[object, ...]:
    """What is only looked at: not every process may take back its user, and nothing else has its streams."""
    return os.geteuid(), os.getegid(), os.nice(0), _identity(0), _identity(1), _identity(2)


def _identity(descriptor: int) -> tuple[int, int] | None:
    try:
        facts = os.fstat(descriptor)
    except OSError:
        return None
    return facts.st_dev, facts.st_ino


def _limits() -> bytes:
    """The limits of this process in the system's words; nothing where it has none for them."""
    try:
        with open("/proc/self/limits", "rb") as file:
            return file.read()
    except OSError:
        return b""
