"""Threads that are started when there is work for one more, and kept for later work."""

from __future__ import annotations

import queue
import signal
import threading
from typing import TYPE_CHECKING

from jobq.clock import Wake
from jobq_subprocess import outcomes

if TYPE_CHECKING:
    from collections.abc import Callable

    Work = Callable[[Wake], None]


class Threads:
    """Runs each piece of work in a thread of its own, and hands it a bell: an idle thread holds no descriptors.

    Args:
        name: of the threads.
        warn: hears of work that failed.
    """

    def __init__(self, name: str, warn: Callable[[str], None]) -> None:
        self._name, self._warn = name, warn
        self._work: queue.SimpleQueue[tuple[Work, Wake] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._busy = 0

    def run(self, work: Work) -> None:
        """Start `work` at once, and return.

        Raises:
            RuntimeError, OSError: the system has no room for another thread.
        """
        wake = Wake()
        try:
            with self._lock:
                if self._busy == len(self._threads):
                    thread = threading.Thread(target=self._loop, name=self._name, daemon=True)
                    thread.start()
                    self._threads.append(thread)
                self._busy += 1
        except BaseException:
            wake.close()
            raise
        self._work.put((work, wake))

    def hand(self, work: Work, then: Callable[[], None]) -> None:
        """Start `work`, and call `then` from its thread when it is over, whatever it raised.

        Where there is no room for a thread it is done here and now: late is better than never.
        """

        def try_it(wake: Wake) -> None:
            try:
                work(wake)
            except Exception as error:  # the thread lives on, and so does what waits for it
                self._warn(outcomes.fault(error))

        def run(wake: Wake) -> None:
            try:
                try_it(wake)
            finally:
                self.free()
                then()

        try:
            self.run(run)
        except (RuntimeError, OSError):
            with Wake() as wake:
                try_it(wake)
            then()

    def free(self) -> None:
        """Called by work that is as good as done, before it tells anybody: its thread can be counted on again."""
        with self._lock:
            self._busy -= 1

    def close(self, seconds: float) -> None:
        """End the threads once their work is done, waiting for each at most so long."""
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join(seconds)
        self._threads.clear()

    def _loop(self) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())  # what is started here inherits the mask
        while (item := self._work.get()) is not None:
            work, wake = item
            with wake:
                work(wake)
