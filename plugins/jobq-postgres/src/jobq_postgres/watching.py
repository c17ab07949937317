"""Being woken: by notifications of the server, and when a worker of this host dies."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from jobq import presence
from jobq.errors import StoreError
from jobq_postgres.connecting import Line

if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq_postgres.address import Address

LOOK_SECONDS = 0.25
"""How often the lock files of this host's workers are looked at."""

_AGAIN = 5.0
"""Seconds between two attempts to listen again."""


class Watch:
    """Calls `wake`, from a thread of its own, until it is closed.

    Attributes:
        listens: whether the server's notifications come through; behind a pooler they do not.

    Args:
        token: what notifications of this handle say: those wake nobody here.
        workers: the directory of the lock files.

    Raises:
        StoreError: there is no connection.
    """

    def __init__(self, address: Address, token: str, workers: str, wake: Callable[[], None]) -> None:
        self._address, self._token, self._workers, self._wake = address, token, workers, wake
        self._line = Line(address, name="jobq watch", silence=30)
        self._stop = threading.Event()
        self._seen: frozenset[tuple[str, bool]] = frozenset()
        self._seen = self._alive()
        self._listen()
        self.listens = not self._line.pooled
        if not self.listens:
            self._line.close()
        self._thread = threading.Thread(target=self._run, name="jobq-watch", daemon=True)
        self._thread.start()

    def ring(self) -> None:
        """Call now, in this thread."""
        if not self._stop.is_set():
            self._wake()

    def close(self) -> None:
        """Stop calling; returns when no call is under way."""
        self._stop.set()
        if self._thread is not threading.current_thread():
            self._thread.join()
        self._line.close()

    def _run(self) -> None:
        again = 0.0
        while not self._stop.is_set():
            try:
                if self.listens and not self._line.is_open and time.monotonic() >= again:
                    again = time.monotonic() + _AGAIN
                    self._listen()
                    self.ring()  # for whatever was missed
                heard = self._hear() if self.listens and self._line.is_open else self._stop.wait(LOOK_SECONDS)
            except StoreError:
                heard = self._stop.wait(LOOK_SECONDS)
            alive = self._alive()
            if heard or alive != self._seen:
                self._seen = alive
                self.ring()

    def _listen(self) -> None:
        with self._line.use() as connection:
            if not self._line.pooled:
                connection.execute(f'LISTEN "{self._address.channel}"')

    def _hear(self) -> bool:
        """Wait for notifications; whether there was one of somebody else."""
        with self._line.use() as connection:
            heard = [each.payload for each in connection.notifies(timeout=LOOK_SECONDS, stop_after=1)]
        return any(payload != self._token for payload in heard)

    def _alive(self) -> frozenset[tuple[str, bool]]:
        try:
            return frozenset((info.id, alive) for info, alive in presence.members(self._workers))
        except StoreError:
            return self._seen
