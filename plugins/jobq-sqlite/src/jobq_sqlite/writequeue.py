"""The writers' turn: one process at a time writes, in the order in which they came.

SQLite lets one process write, too, but it lets the others ask again and again, and who has just written is there
first. Ten processes that wrote without a pause, in transactions of ten rows, on a machine of two cores, got so:

    how they wait                         the longest wait    transactions of the last and of the first
    SQLite's busy timeout                 3.7 s               4 and 1,724
    asking every 0.2 to 5 ms              0.5 s               648 and 879
    flock, asked every 0.1 to 5 ms        0.6 s               353 and 1,020
    flock, waited for in the system       0.03 s              660 and 693
    the same, in a thread of its own      0.03 s              584 and 610

The system queues those who wait for a lock, but nothing ends that wait: so a thread does the waiting, and whoever asked
waits for the thread, as long as is reasonable. What is written is kept apart by SQLite's own lock whatever happens to
the file of this one.
"""

from __future__ import annotations

import _thread
import fcntl
import os
import threading

from jobq import files
from jobq.errors import StoreLocked, StoreUnavailable
from jobq.light import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

LIMIT = 30.0
"""Seconds after which it is an error that others have the turn; nothing of jobq has it for a second."""


class WriteQueue:
    """The turns of one database, taken on a descriptor that is kept open.

    Args:
        path: the file of the lock.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._fd, self._taken = -1, False
        self._waiter: _Waiter | None = None

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Have the turn; who has it already keeps it.

        Raises:
            StoreLocked: others had it for longer than `LIMIT`.
            StoreUnavailable: the system refused.
        """
        if self._taken:
            yield
            return
        self._take()
        self._taken = True
        try:
            yield
        finally:
            self._taken = False
            try:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
            except OSError:
                self.close()  # which lets go of it too, and raises nothing: what was written is written

    def close(self) -> None:
        """Free the descriptor, and the turn with it."""
        if self._waiter is not None:
            self._waiter.end()
            self._waiter = None
        if self._fd >= 0:
            descriptor, self._fd = self._fd, -1
            _free(descriptor)

    def _take(self) -> None:
        try:
            if self._fd < 0:
                self._fd = files.open_private(self._path, os.O_RDWR | os.O_CREAT)
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._wait()
        except FileNotFoundError:
            raise StoreUnavailable(f"{os.path.dirname(self._path)} was removed") from None
        except OSError as error:
            raise files.unavailable(error, self._path) from None

    def _wait(self) -> None:
        waiter = self._waiter
        try:
            if waiter is None:
                waiter = self._waiter = _Waiter(self._fd)
            had = waiter.wait(LIMIT)
        except RuntimeError as error:  # no room for a thread now
            self._waiter = None
            raise StoreUnavailable(f"{self._path}: {error}") from None
        except BaseException:
            self._leave()
            raise
        if not had:
            self._leave()
            raise StoreLocked(f"another process has held {self._path} for {LIMIT:g} s")
        if waiter.error is not None:
            raise files.unavailable(waiter.error, self._path) from None

    def _leave(self) -> None:
        """Wait no longer: the thread gets the turn one day, and lets go of it by closing the descriptor."""
        waiter, self._waiter = self._waiter, None
        if waiter is not None:
            if waiter.give_up():
                self._fd = -1
            else:
                waiter.end()
        self.close()


def _free(descriptor: int) -> None:
    """Close it; the lock would stay with the descriptor that a child of this process has of it."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    with suppress(OSError):
        os.close(descriptor)


class _Waiter:
    """A thread that waits for the lock on a descriptor whenever it is asked to."""

    def __init__(self, descriptor: int) -> None:
        self._fd = descriptor
        self._asked, self._answered, self._deciding = (_thread.allocate_lock() for _ in range(3))
        self._asked.acquire()
        self._answered.acquire()
        self._over, self._busy = threading.Event(), False
        self.error: OSError | None = None
        _thread.start_new_thread(self._run, ())

    def wait(self, limit: float) -> bool:
        """Wait for the lock; False if it was not to be had in so many seconds."""
        self._busy, self.error = True, None
        self._asked.release()
        return self._answered.acquire(timeout=limit)

    def give_up(self) -> bool:
        """Wait no longer; whether the thread still waits, and will close the descriptor."""
        with self._deciding:
            self._over.set()
            return self._busy

    def end(self) -> None:
        """End the thread, which waits for nothing but to be asked."""
        self._over.set()
        self._asked.release()

    def _run(self) -> None:
        while True:
            self._asked.acquire()
            if self._over.is_set():
                return
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX)
            except OSError as error:
                self.error = error
            with self._deciding:
                self._busy = False
                if self._over.is_set():
                    _free(self._fd)
                    return
                self._answered.release()
