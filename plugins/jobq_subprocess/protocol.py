"""What the executor and a warm child say to each other: lines of JSON over two pairs of sockets.

    to the child      {"handlers": {name: target}, "path": [directory, …], "memory": bytes or null,
                       "asked": [what -p said, …], "wrapped": whether plugins do something around attempts}  once
                      {"job": record, "slot": number, "limit": bytes, "key": text}  for each attempt
    from the child    {"ready":true}                                            once
                      ~{"done": number, "total": number or null, "note": text}  whenever a handler tells its progress
                      KEY MICROSECONDS {"result":…}                             the handler returned, after so long
                      KEY MICROSECONDS {"failed":reason,"exception":name or null}  it did not; `"permanent":true`: for good
                      KEY MICROSECONDS {"released":seconds}                     it wants to be called again later

KEY is that of the request. An answer with another one is nobody's: a handler can write to the sockets of its process,
but of the next attempt's request it knows nothing.
Requests go over a pair of sockets that keeps messages apart, one request in one message wherever it fits: a child
takes one at a time, and the executor, which holds the receiving end too, can take back what no child has taken.
A child that marks an answer, `KEY MICROSECONDS!`, waits for one byte before it goes on. It does so unless it is sure that
the attempt printed nothing, so that what is printed belongs to the attempt that the executor believes is running:
the executor sets the flag of the child's region (`jobq.started`) before it reads from the pipe, and a child that finds
the pipe empty and then the flag not set has printed nothing.

An answer may also say `"left":true`: processes that the handler started are still there; and `"retire":true`: the
child should not be given another job. `jobq_subprocess.child` is executed as a file, without this package, and so
builds its answers itself.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobq.codec import encode
from jobq.executor import Kind, Outcome
from jobq.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from jobq.executor import Attempt

READY = b'{"ready":true}'
NOTHING = b'{"result":null}'
PROGRESS = b"~"
MESSAGE_LIMIT = 1 << 15
"""Bytes; a longer request is sent in several messages."""

_decode = json.JSONDecoder().decode


def greeting(
    targets: Mapping[str, str], path: Sequence[str], memory: int | None, *, asked: Sequence[str], wrapped: bool
) -> bytes:
    """The first line to a child; `memory` is in bytes."""
    message = {
        "handlers": dict(targets),
        "path": list(path),
        "memory": memory,
        "asked": list(asked),
        "wrapped": wrapped,
    }
    return encode(message).encode() + b"\n"


_keys: list[str] = []
_KEY = 8  # characters


def new_key() -> str:
    """A key that nobody can guess."""
    if not _keys:
        drawn = os.urandom(1024).hex()
        _keys.extend(drawn[start : start + _KEY] for start in range(0, len(drawn), _KEY))
    return _keys.pop()


def request(attempt: Attempt, slot: int, key: str) -> bytes:
    """The line that hands a child an attempt."""
    job = attempt.text or encode(attempt.job.record())
    return f'{{"job":{job},"slot":{slot},"limit":{attempt.result_limit},"key":"{key}"}}\n'.encode()


def messages(line: bytes) -> list[bytes]:
    """A line to a child, in pieces that can be sent."""
    if len(line) <= MESSAGE_LIMIT:
        return [line]
    return [line[start : start + MESSAGE_LIMIT] for start in range(0, len(line), MESSAGE_LIMIT)]


def progress(line: bytes) -> Progress | None:
    """What a child says of how far its attempt is; None where nobody understands it."""
    try:
        return Progress.from_record(_decode(line[len(PROGRESS) :].decode()))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


class Answer:
    """What a child says at the end of an attempt.

    Args:
        line: as it came, without its end.

    Attributes:
        key: that of the request that it answers.
        sound: it is an answer; else the child is not to be believed any more.
        seconds: how long the child was busy with the attempt.
        waits: it goes on only when it is told to.
        left: processes that the handler started are still there.
        retire: the child should not be given another job.
    """

    __slots__ = ("_message", "key", "left", "retire", "seconds", "sound", "waits")

    def __init__(self, line: bytes) -> None:
        key, _, rest = line.partition(b" ")
        self.key = key.decode("ascii", "replace")
        head, _, body = rest.partition(b" ")
        self.waits = head.endswith(b"!")
        duration = head[:-1] if self.waits else head
        self.seconds = 0.0
        self.sound = duration.isdigit()
        if not self.sound:
            self._message = _nonsense("no answer")
        else:
            self.seconds = int(duration) / 1_000_000
            self._message = {} if body == NOTHING else self._read(body)
        self.left = bool(self._message.get("left"))
        self.retire = bool(self._message.get("retire"))

    def _read(self, body: bytes) -> dict[str, Any]:
        try:
            message = _decode(body.decode())
        except (ValueError, RecursionError) as error:
            self.sound = False
            return _nonsense(str(error))
        self.sound = isinstance(message, dict)
        return message if self.sound else _nonsense("no object")

    def outcome(self, tail: str, started: datetime | None = None) -> Outcome:
        """How the attempt ended."""
        message = self._message
        if "failed" in message:
            return Outcome(
                kind=Kind.FAILURE,
                reason=str(message["failed"]),
                exception=message.get("exception"),
                permanent=bool(message.get("permanent")),
                tail=tail,
                started=started,
            )
        if "released" in message:
            delay = timedelta(seconds=message["released"])
            return Outcome(kind=Kind.RELEASED, reason="snoozed", delay=delay, tail=tail, started=started)
        return Outcome(kind=Kind.SUCCESS, result=message.get("result"), tail=tail, started=started)


class Lines:
    """Cuts what arrives into lines."""

    def __init__(self) -> None:
        self._rest: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """The lines that `data` completes, without their ends."""
        if b"\n" not in data:
            self._rest.append(data)
            return []
        *lines, rest = data.split(b"\n")
        if self._rest:
            lines[0] = b"".join((*self._rest, lines[0]))
            self._rest.clear()
        if rest:
            self._rest.append(rest)
        return lines


def _nonsense(why: str) -> dict[str, Any]:
    return {"failed": f"the handler's process said what nobody understands: {why}"}
