"""What a handler can change of the process that others share with it: put back after each, or found changed for good."""

from __future__ import annotations

import os
import signal
import sys


class Standing:
    """How this process stands now: its directory, umask, signal mask, alarm, limits, user and standard streams."""

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
        signal.setitimer(signal.ITIMER_REAL, 0)  # before the mask: it may be waiting
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)
        # Without that module nothing here changes limits, and to look at them costs more than all the rest
        return _fixed() == self._fixed and ("resource" not in sys.modules or _limits() == self._limits)


def _fixed() -> tuple[object, ...]:
    """What is only looked at: not every process may take back its user, and nothing else has its streams."""
    return os.geteuid(), os.getegid(), _identity(0), _identity(1), _identity(2)


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
