"""What OpenTelemetry has to say of itself, where the program has set up no logging: a line now and then, on stderr."""

from __future__ import annotations

import logging
import sys
import time

PAUSE_SECONDS = 600.0
"""A collector that is down is told of so often."""

LENGTH = 300
_LOGGERS = ("opentelemetry", "jobq_opentelemetry")


class OneLine(logging.Handler):
    """Writes the first line of a record to stderr, unless it did so just now."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._told = float("-inf")

    def emit(self, record: logging.LogRecord) -> None:
        now = time.monotonic()
        if now - self._told < PAUSE_SECONDS:
            return
        self._told = now
        try:
            line = record.getMessage().strip().split("\n", 1)[0]
            sys.stderr.write(f"jobq: opentelemetry: {line[:LENGTH]}\n")
        except Exception:
            self.handleError(record)


def install(*, quiet: bool) -> None:
    """See to it that trouble is told, once.

    Args:
        quiet: it is not to be told here: what a handlers' child writes is the output of a job.
    """
    shared: logging.Handler = logging.NullHandler() if quiet else OneLine()
    for name in _LOGGERS:
        logger = logging.getLogger(name)
        if not logger.hasHandlers():
            logger.addHandler(shared)
