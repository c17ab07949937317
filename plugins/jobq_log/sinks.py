"""Where events go: the logger `jobq.events`, and files of JSON Lines.

Neither holds payloads, variables or output: they may be secrets, and a log is read by more people than a store.
"""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jobq.events import EventKind
from jobq.files import open_private, write_all
from jobq.times import format_time

if TYPE_CHECKING:
    from jobq.events import Event

LOGGER = "jobq.events"
LEVELS = {
    EventKind.FAILED: logging.WARNING,
    EventKind.LOST: logging.WARNING,
    EventKind.DISCARDED: logging.WARNING,
    EventKind.DEAD: logging.ERROR,
}
"""The levels of the events that are more than `info`."""


def facts(event: Event) -> dict[str, Any]:
    """What is told of an event: which, when, what job, how it stands; a name's value is JSON, None where unknown."""
    job = event.job
    work = {"handler": job.handler} if job.handler is not None else {"command": job.command}
    told: dict[str, Any] = {
        "time": format_time(event.time),
        "event": event.kind.value,
        "id": job.id,
        "run": event.run,
        **work,
        "queue": job.queue,
        "state": job.state.value,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
    }
    if event.kind in _OUTCOMES:
        told["exit_code"] = job.exit_code
        told["error"] = job.last_error.split("\n", 1)[0] if job.last_error else None
    if event.kind is EventKind.FAILED:
        told["run_at"] = format_time(job.run_at)
    return told


def log(event: Event, least: str) -> None:
    """Log an event as one line of `key=value`, the values JSON in ASCII: none can end its line or forge another.

    Records carry the same facts as a mapping in `jobq`, for handlers that want them so. Where the program has set up
    no logging, lines go to stderr.

    Args:
        event: what happened.
        least: the lowest level that is logged: `info`, `warning` or `error`.
    """
    level = LEVELS.get(event.kind, logging.INFO)
    logger = logging.getLogger(LOGGER)
    if level < logging.getLevelNamesMapping()[least.upper()]:
        return
    if not logger.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.addHandler(handler)
    if logger.level == logging.NOTSET:
        logger.setLevel(logging.INFO)  # else the root logger's default, warning, would decide
    told = facts(event)
    logger.log(level, " ".join(f"{key}={_value(value)}" for key, value in told.items()), extra={"jobq": told})


def append(event: Event, home: Path | None, name: str) -> None:
    """Append an event to a file as one JSON object on a line of its own.

    The file is opened each time, so that it may be moved away at any moment; a relative name is one below `home`.

    Raises:
        StoreError: it cannot be written to, or is no regular file of this user.
        NotADirectoryError: its directory is not there.
    """
    path = (home or Path()) / name
    line = json.dumps(facts(event), separators=(",", ":")).encode() + b"\n"
    try:
        descriptor = open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    except FileNotFoundError:
        raise NotADirectoryError(f"there is no directory {path.parent}") from None
    try:
        write_all(descriptor, line)
    finally:
        os.close(descriptor)


def _value(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


_OUTCOMES = frozenset({EventKind.COMPLETED, EventKind.FAILED, EventKind.DEAD, EventKind.CANCELLED, EventKind.LOST})
