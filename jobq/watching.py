"""Being woken: when a store's bell is rung, and when a worker of this machine leaves or dies.

Linux: inotify, in a thread of its own without idle cost. A worker holds its lock file open for writing, so the end of
its process, however it comes, shows as the file being closed. Elsewhere, or where the system has no watches left, the
bell's time and the workers' locks are looked at every 20 to 250 ms.
"""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
import time
from typing import TYPE_CHECKING

from jobq.errors import StoreError
from jobq.files import private_directory
from jobq.presence import is_alive, members

if TYPE_CHECKING:
    from collections.abc import Callable

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_DELETE = 0x2, 0x8, 0x200
_EVENT = struct.Struct("iIII")
_SHORTEST, _LONGEST = 0.02, 0.25
_RELEASE = 0.05
"""Seconds within which the system frees the lock of a file that it has said is closed."""


class Watch:
    """Calls `wake`, from a thread of its own, until it is closed.

    Args:
        bell: the file that `jobq.bell` rings; it exists.
        workers: the directory of the workers' files; made where there is none.
        wake: never blocks.

    Raises:
        StoreError: the directory cannot be made.
    """

    def __init__(self, bell: str, workers: str, wake: Callable[[], None]) -> None:
        self._bell, self._workers, self._wake = bell, workers, wake
        private_directory(workers)
        self._stop_read, self._stop_write = os.pipe()
        try:
            self._inotify = _inotify((self._bell, _IN_MODIFY), (workers, _IN_CLOSE_WRITE | _IN_DELETE))
        except OSError:
            self._inotify = -1
        self._seen = self._state()
        target = self._listen if self._inotify >= 0 else self._look
        self._thread = threading.Thread(target=target, name="jobq-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop calling; returns when no call is under way."""
        if self._stop_write < 0:
            return
        os.close(self._stop_write)
        self._stop_write = -1
        if self._thread is not threading.current_thread():
            self._thread.join()

    def _listen(self) -> None:
        poll = select.poll()
        poll.register(self._stop_read, select.POLLIN)
        poll.register(self._inotify, select.POLLIN)
        try:
            while self._stop_read not in dict(poll.poll()):
                if self._read_events():
                    self._wake()
        finally:
            os.close(self._inotify)
            os.close(self._stop_read)

    def _read_events(self) -> bool:
        """Take what inotify has to tell; whether any of it is a reason to wake."""
        data = os.read(self._inotify, 1 << 16)
        offset, reason = 0, False
        while offset < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, offset)
            offset += _EVENT.size + length
            name = data[offset - length : offset].rstrip(b"\0").decode("ascii", "replace")
            if not name:
                reason = True
            elif name.endswith(".lock") and not name.startswith("."):
                reason = True
                if mask & _IN_CLOSE_WRITE:
                    self._await_release(name.removesuffix(".lock"))
        return reason

    def _await_release(self, worker: str) -> None:
        """A file's closing is told a moment before its lock is free: wait that moment."""
        end = time.monotonic() + _RELEASE
        while _alive(self._workers, worker) and time.monotonic() < end:
            time.sleep(0.0002)

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._stop_read, select.POLLIN)
        pause = _SHORTEST
        while not poll.poll(pause * 1000):
            state = self._state()
            if state != self._seen:
                self._seen, pause = state, _SHORTEST
                self._wake()
            else:
                pause = min(pause * 1.5, _LONGEST)
        os.close(self._stop_read)

    def _state(self) -> tuple[int, frozenset[tuple[str, bool]]]:
        """When the bell was rung, and who is there, dead or alive: one may have come and died between two looks."""
        try:
            rung = os.stat(self._bell).st_mtime_ns
            return rung, frozenset((info.id, alive) for info, alive in members(self._workers))
        except (OSError, StoreError):
            return 0, frozenset()


def _alive(workers: str, worker: str) -> bool:
    try:
        return is_alive(workers, worker)
    except (OSError, StoreError):
        return False


def _inotify(*watched: tuple[str, int]) -> int:
    """A descriptor that is readable when one of the files changes as its mask says.

    Raises:
        OSError: there is no such thing here, or no more of it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        raise OSError("no inotify")
    descriptor: int = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    for path, mask in watched:
        if libc.inotify_add_watch(descriptor, os.fsencode(path), mask) < 0:
            number = ctypes.get_errno()
            os.close(descriptor)
            raise OSError(number, "inotify_add_watch")
    return descriptor
