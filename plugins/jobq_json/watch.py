"""Being woken: when the bell is rung, when a worker of this machine joins, leaves or dies.

Linux: inotify for the bell and the workers' directory, a pidfd for each worker, all in one thread without idle cost.
Elsewhere, or where the system has no watches left: the bell's time is looked at every 20 to 250 ms.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import struct
import threading
from typing import TYPE_CHECKING

from jobq import processes
from jobq.files import private_directory
from jobq.presence import members
from jobq_json.directory import BELL

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_IN_MODIFY, _IN_MOVED_TO, _IN_DELETE = 0x2, 0x80, 0x200
_EVENT = struct.Struct("iIII")
_SHORTEST, _LONGEST = 0.02, 0.25


class Watch:
    """Calls `wake`, from a thread of its own, until it is closed.

    Args:
        queue: the store's directory; its bell exists.
        workers: the directory of the workers' files.
        wake: never blocks.
    """

    def __init__(self, queue: Path, workers: Path, wake: Callable[[], None]) -> None:
        self._bell, self._workers, self._wake = queue / BELL, workers, wake
        self._stop_read, self._stop_write = os.pipe()
        self._peers: dict[str, int] = {}
        private_directory(workers)
        try:
            self._inotify = _inotify((self._bell, _IN_MODIFY), (workers, _IN_MOVED_TO | _IN_DELETE))
        except OSError:
            self._inotify = -1
        if self._inotify >= 0:
            self._find_peers()
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
        poll.register(self._stop_read, select.POLLIN | select.POLLHUP)
        poll.register(self._inotify, select.POLLIN)
        for descriptor in self._peers.values():
            poll.register(descriptor, select.POLLIN)
        try:
            while True:
                ready = {descriptor for descriptor, _ in poll.poll()}
                if self._stop_read in ready:
                    return
                for worker, descriptor in list(self._peers.items()):
                    if descriptor in ready:
                        poll.unregister(descriptor)
                        os.close(descriptor)
                        self._peers[worker] = -1
                if self._inotify in ready and self._read_events():
                    for descriptor in self._find_peers():
                        poll.register(descriptor, select.POLLIN)
                    for worker in self._peers.keys() - self._names():
                        descriptor = self._peers.pop(worker)
                        if descriptor >= 0:
                            poll.unregister(descriptor)
                            os.close(descriptor)
                self._wake()
        finally:
            for descriptor in (self._inotify, self._stop_read, *self._peers.values()):
                if descriptor >= 0:
                    os.close(descriptor)

    def _look(self) -> None:
        poll = select.poll()
        poll.register(self._stop_read, select.POLLIN | select.POLLHUP)
        seen, pause = self._state(), _SHORTEST
        while not poll.poll(pause * 1000):
            state = self._state()
            if state != seen:
                seen, pause = state, _SHORTEST
                self._wake()
            else:
                pause = min(pause * 1.5, _LONGEST)
        os.close(self._stop_read)

    def _state(self) -> tuple[int, frozenset[str]]:
        with contextlib.suppress(OSError):
            return os.stat(self._bell).st_mtime_ns, frozenset(
                info.id for info, alive in members(self._workers) if alive
            )
        return 0, frozenset()

    def _read_events(self) -> bool:
        """Take what inotify has to tell; whether workers came or went."""
        data = os.read(self._inotify, 1 << 16)
        offset, moved = 0, False
        while offset < len(data):
            _, mask, _, length = _EVENT.unpack_from(data, offset)
            name = data[offset + _EVENT.size : offset + _EVENT.size + length].rstrip(b"\0")
            moved = moved or (bool(mask & (_IN_MOVED_TO | _IN_DELETE)) and not name.endswith(b".json.new"))
            offset += _EVENT.size + length
        return moved

    def _names(self) -> set[str]:
        with contextlib.suppress(OSError):
            return {name.removesuffix(".lock") for name in os.listdir(self._workers) if name.endswith(".lock")}
        return set()

    def _find_peers(self) -> list[int]:
        """Take a pidfd of every living worker of this boot that has none yet; the new ones."""
        new = []
        boot = processes.boot_id()
        with contextlib.suppress(OSError):
            for info, alive in members(self._workers):
                if not alive or info.id in self._peers or info.boot_id != boot or info.pid == os.getpid():
                    continue
                with contextlib.suppress(OSError, AttributeError):
                    descriptor = os.pidfd_open(info.pid)
                    found = processes.process(info.pid)
                    if found is None or found.start_time != info.start_time:  # died this moment
                        os.close(descriptor)
                        self._wake()
                        continue
                    self._peers[info.id] = descriptor
                    new.append(descriptor)
        return new


def _inotify(*watched: tuple[Path, int]) -> int:
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
