"""Brings out what is buffered when the process ends, within a bound."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

FLUSH_SECONDS = 1.5
"""How long a process waits at its end; a child of a worker has 2 s to end by itself."""

_log = logging.getLogger(__name__)


class Ending:
    """Calls what was added when the process ends, and waits for it at most `FLUSH_SECONDS`.

    The thread that calls is started beforehand, since Python 3.12 starts none in a process that ends.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[], object]] = []
        self._start()
        os.register_at_fork(after_in_child=self._start)
        atexit.register(self.end)

    def add(self, call: Callable[[], object]) -> None:
        """Have something called at the end, before what was added earlier."""
        self._calls.append(call)

    def end(self) -> None:
        """Call everything."""
        self._asked.set()
        self._thread.join(FLUSH_SECONDS)
        if self._thread.is_alive():
            _log.warning("not everything could be exported within %g s; the rest is lost", FLUSH_SECONDS)

    def _start(self) -> None:
        self._asked = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._asked,), name="jobq-telemetry", daemon=True)
        self._thread.start()

    def _run(self, asked: threading.Event) -> None:
        asked.wait()
        for call in reversed(self._calls):
            try:
                call()
            except Exception as error:
                _log.warning("%s", error)
