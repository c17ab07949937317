"""The handle on the queue that messages are enqueued through: kept for as long as the process tells of events."""

from __future__ import annotations

import atexit
import os
import threading
from typing import TYPE_CHECKING, Any

from jobq.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jobq.queue import Queue
    from jobq.settings import Settings

CLOSE_SECONDS = 2.0


class Outbox:
    """One handle, opened when it is first needed; any thread may use it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._where: tuple[str, str] | None = None
        self._queue: Queue | None = None

    def enqueue(self, specs: Sequence[dict[str, Any]], settings: Settings) -> None:
        """Enqueue jobs into the queue whose settings these are; one whose id is there already stays as it is.

        Raises:
            StoreError: the store cannot be used.
            InvalidInput: a field breaks a rule, as a queue's name that is none.
            DuplicateJob: an id stands for other work.
        """
        with self._lock:
            queue = self._opened(settings)
            try:
                queue.enqueue_many(specs, if_absent=True)
            except StoreError:
                self._close()  # the next event finds out whether it can be used again
                raise

    def close(self) -> None:
        """Free the handle, unless somebody is still using it."""
        if self._lock.acquire(timeout=CLOSE_SECONDS):
            try:
                self._close()
            finally:
                self._lock.release()

    def forget(self) -> None:
        """Be new: in a forked child, where the handle, its threads and whoever held the lock are the parent's."""
        self._lock, self._queue = threading.Lock(), None

    def _opened(self, settings: Settings) -> Queue:
        from jobq.queue import Queue

        where = (str(settings.home), settings["store"])
        if self._queue is None or self._where != where:
            self._close()
            self._queue, self._where = Queue.open(home=settings.home, store=settings["store"]), where
        return self._queue

    def _close(self) -> None:
        queue, self._queue = self._queue, None
        if queue is not None:
            queue.close()


OUTBOX = Outbox()
atexit.register(OUTBOX.close)
os.register_at_fork(after_in_child=OUTBOX.forget)
