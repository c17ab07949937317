"""The writers' lock: one process at a time changes the store.

It is flock, as filelock takes it, which is not imported here: that would cost an enqueue more than all the rest.
"""

from __future__ import annotations

import fcntl
import os
import time

from jobq import files
from jobq.errors import StoreLocked, StoreUnavailable
from jobq.light import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LOCK = "queue.lock"

LOCK_LIMIT = 30.0
"""Seconds after which a lock that another process holds is an error; nothing of jobq holds it for a second."""

PATIENCE = 0.5
"""Seconds after which who waits for the lock asks for it more often: else whoever has just come would always be faster."""


class WritersLock:
    """The lock of one store, on a descriptor that is kept open.

    Args:
        directory: where its file is.
    """

    def __init__(self, directory: str) -> None:
        self._directory, self._path = directory, f"{directory}/{LOCK}"
        self._fd = -1

    @property
    def opened(self) -> bool:
        """Whether its file is open."""
        return self._fd >= 0

    def open(self) -> None:
        """Open its file, and make it where there is none.

        Raises:
            StoreUnavailable: the system refused.
        """
        try:
            self._fd = files.open_private(self._path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            raise StoreUnavailable(f"{self._directory} was removed while it was being opened") from None

    @contextmanager
    def held(self, prepare: Callable[[], None]) -> Iterator[None]:
        """Hold it; `prepare` sees to it that it is open, and is called again where its file was removed meanwhile.

        Raises:
            StoreLocked: somebody held it for longer than `LOCK_LIMIT`.
            StoreUnavailable: the system refused.
        """
        prepare()
        self._acquire()
        while not self._is_current():  # somebody has removed or exchanged the file: others lock another one
            self.close()
            prepare()
            self._acquire()
        lock = self._fd
        try:
            yield
        finally:
            if lock == self._fd:  # else it was closed, and so let go of
                try:
                    fcntl.flock(lock, fcntl.LOCK_UN)
                except OSError:
                    self.close()  # which lets go of it too

    def close(self) -> None:
        """Free the descriptor, and let go of the lock with it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._fd), os.stat(self._path, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise files.unavailable(error, self._path) from None

    def _acquire(self) -> None:
        pause, began = 0.0001, 0.0  # as fast as a blocking flock, which nothing could end
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                began = began or time.monotonic()
                waited = time.monotonic() - began
                if waited > LOCK_LIMIT:
                    raise StoreLocked(f"another process has held {self._path} for {LOCK_LIMIT:g} s") from None
                time.sleep(pause)
                pause = min(pause * 1.1, 0.005) if waited < PATIENCE else 0.0005
            except OSError as error:
                raise files.unavailable(error, self._path) from None
            else:
                return
