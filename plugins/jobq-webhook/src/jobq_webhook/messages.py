"""What is told of an event: a message with `type`, `timestamp` and `data`, as Standard Webhooks 1.0.0 has it."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobq.errors import HIDDEN, InvalidInput
from jobq.strictjson import is_too_deep
from jobq.times import format_time
from jobq_webhook.text import one_line

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import datetime

    from jobq.events import Event
    from jobq.job import Job

FIELD_LIMIT = 16 << 10
"""Bytes of JSON of one included field; the specification advises less than 20 kB for a whole message."""
ERROR_LIMIT = 500
_DEPTH_LIMIT = 90  # a message puts a few levels around it, and JSON of jobq has at most 100
_ID_DIGITS = 32
_ID = r"[A-Za-z0-9_-]{1,64}"
_TYPE = r"[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)*"


@dataclass(frozen=True, slots=True)
class Message:
    """One message; the same in every try to deliver it, and to every URL.

    Attributes:
        id: by which a receiver knows it again.
        type: `job.completed`, …
        timestamp: when what it tells of happened, as RFC 3339 in UTC.
        data: what is told, JSON.
    """

    id: str
    type: str
    timestamp: str
    data: dict[str, Any]

    def body(self) -> bytes:
        """The bytes that are signed and sent: compact JSON in ASCII."""
        content = {"type": self.type, "timestamp": self.timestamp, "data": self.data}
        return json.dumps(content, separators=(",", ":"), allow_nan=False).encode("ascii")

    def record(self) -> dict[str, Any]:
        """The JSON object that a job carries."""
        return {"id": self.id, "type": self.type, "timestamp": self.timestamp, "data": self.data}

    @staticmethod
    def from_record(record: object) -> Message:
        """The message of a JSON object, which anybody who may enqueue can have made.

        Raises:
            InvalidInput: it is none.
        """
        if isinstance(record, dict):
            data = record.get("data")
            message_id, kind, timestamp = (str(record.get(name, "")) for name in ("id", "type", "timestamp"))
            if re.fullmatch(_ID, message_id) and re.fullmatch(_TYPE, kind) and isinstance(data, dict):
                return Message(message_id, kind, timestamp, data)
        raise InvalidInput("payload", HIDDEN, "is no message of the plugin webhook")


def of_event(event: Event, include: Collection[str]) -> Message:
    """The message that tells of an event; the same event makes the same message.

    Args:
        event: what happened.
        include: what is told beside the bare facts: `command error payload result`.
    """
    told = facts(event.job, event.run) | _included(event.job, include)
    return Message(_id(event), f"job.{event.kind.value}", format_time(event.time), told)


def facts(job: Job, run: int) -> dict[str, Any]:
    """What is always told of a job: nothing that its author wrote but its id, names and tags."""
    return {
        "id": job.id,
        "queue": job.queue,
        "handler": job.handler,
        "tags": list(job.tags),
        "state": job.state.value,
        "run": run,
        "attempts": job.attempts,
        "max_attempts": job.max_attempts,
        "losses": job.losses,
        "exit_code": job.exit_code,
        "created_at": format_time(job.created_at),
        "run_at": format_time(job.run_at),
        "started_at": _time(job.started_at),
        "finished_at": _time(job.finished_at),
    }


def _included(job: Job, include: Collection[str]) -> dict[str, Any]:
    """What the settings ask for; a field that is too large is null, and named under `omitted`."""
    whole = {
        "command": list(job.command) if isinstance(job.command, tuple) else job.command,
        "error": one_line(job.last_error or "", ERROR_LIMIT) or None,
        "payload": job.payload if job.handler is not None else None,
        "result": job.result,
    }
    wanted = {name: value for name, value in whole.items() if name in include}
    omitted = [name for name, value in wanted.items() if not _fits(value)]
    return wanted | dict.fromkeys(omitted) | {"omitted": omitted}


def _fits(value: object) -> bool:
    return not is_too_deep(value, _DEPTH_LIMIT) and len(json.dumps(value)) <= FIELD_LIMIT


def _id(event: Event) -> str:
    """Of what tells this event from every other one; without a dot, by which signed parts are separated."""
    job = event.job
    times = [format_time(time) for time in (event.time, job.created_at, job.updated_at)]
    known_by = json.dumps([event.kind.value, event.run, job.id, job.rev, job.worker, *times])
    return f"msg_{hashlib.sha256(known_by.encode()).hexdigest()[:_ID_DIGITS]}"


def _time(moment: datetime | None) -> str | None:
    return None if moment is None else format_time(moment)
