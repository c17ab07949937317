"""What the executor and a warm child say to each other: JSON objects, one a line, over a pair of sockets.

    to the child      {"handlers": {name: target}, "path": [directory, …]}      once
                      {"job": record, "slot": number, "limit": bytes}           for each attempt
    from the child    {"ready":true}                                            once
                      {"result":…}                                              the handler returned
                      {"failed":reason,"exception":name or null}                it did not

The child's answers may also say `"left":true`: processes that the handler started are still there; and
`"retire":true`: the child should not be given another job. `jobq_subprocess.child` is executed as a file, without
this package, and so builds its answers itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from jobq.executor import Kind, Outcome

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jobq.executor import Attempt

READY = b'{"ready":true}'
NOTHING = b'{"result":null}'

_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder().decode


def greeting(targets: Mapping[str, str], path: Sequence[str]) -> bytes:
    """The first line to a child."""
    return _encode({"handlers": dict(targets), "path": list(path)}).encode() + b"\n"


def request(attempt: Attempt) -> bytes:
    """The line that hands a child an attempt."""
    message = {"job": attempt.job.record(), "slot": attempt.slot, "limit": attempt.result_limit}
    return _encode(message).encode() + b"\n"


class Answer:
    """What a child says at the end of an attempt.

    Args:
        line: as it came, without its end.

    Attributes:
        left: processes that the handler started are still there.
        retire: the child should not be given another job.
    """

    __slots__ = ("_message", "left", "retire")

    def __init__(self, line: bytes) -> None:
        self._message = _message(line)
        self.left = bool(self._message.get("left"))
        self.retire = bool(self._message.get("retire"))

    def outcome(self, tail: str) -> Outcome:
        """How the attempt ended."""
        message = self._message
        if "failed" in message:
            return Outcome(
                kind=Kind.FAILURE, reason=str(message["failed"]), exception=message.get("exception"), tail=tail
            )
        return Outcome(kind=Kind.SUCCESS, result=message.get("result"), tail=tail)


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


def _message(line: bytes) -> dict[str, Any]:
    try:
        message = _decode(line.decode())
    except (ValueError, RecursionError) as error:
        return {"failed": f"the handler's process said what nobody understands: {error}", "retire": True}
    if isinstance(message, dict):
        return message
    return {"failed": "the handler's process said what nobody understands", "retire": True}
