"""What a child answers of a handler that has ended, as the inside of a JSON object (see jobq_subprocess.protocol)."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

REASON_LIMIT = 1000
MAX_DEPTH = 100
"""As `jobq.strictjson.MAX_DEPTH`, which is not imported here."""

encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode


def returned(value: Any, limit: int) -> bytes:
    """It returned `value`, of whose JSON at most `limit` bytes are taken; more, and what is no JSON, is a failure."""
    if value is None:
        return b'"result":null'
    try:
        encoded = encode(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        return failure(f"the handler's result is no JSON: {_first_line(error)}", None)
    if len(encoded) > limit:
        return failure(f"the handler's result has {len(encoded)} bytes of JSON; result-limit is {limit}", None)
    if encoded.count(b"[") + encoded.count(b"{") > MAX_DEPTH and _too_deep(value):
        return failure(f"the handler's result is nested deeper than {MAX_DEPTH}", None)
    return b'"result":' + encoded


def _too_deep(value: Any) -> bool:
    level = _nested([value])
    for _ in range(MAX_DEPTH):
        level = _nested(item for found in level for item in (found.values() if isinstance(found, dict) else found))
    return bool(level)


def _nested(values: Iterable[Any]) -> list[Any]:
    return [value for value in values if isinstance(value, (dict, list, tuple))]


def failed(error: BaseException) -> bytes:
    """It raised `error`."""
    return failure(described(error), type(error).__name__)


def failure(reason: str, exception: str | None, *, permanent: bool = False) -> bytes:
    """It failed for this reason, with an exception of that name; `permanent`: for good."""
    clean = reason[:REASON_LIMIT].encode("utf-8", "replace").decode()
    message = {"failed": clean, "exception": exception} | ({"permanent": True} if permanent else {})
    return encode(message)[1:-1].encode("utf-8", "replace")


def described(error: BaseException) -> str:
    """An exception in one line: the first one of its text."""
    line = _first_line(error)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _first_line(error: BaseException) -> str:
    try:
        lines = str(error).strip().splitlines()
    except BaseException as other:
        return f"(its text cannot be told: {type(other).__name__})"
    return lines[0] if lines else ""


def print_traceback(error: BaseException, *, without: str) -> None:
    """Print what a handler raised, beginning behind the frames of the file that has called it."""
    import traceback

    try:
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == without:
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace, file=sys.stderr)
    except BaseException:
        os.write(2, f"{type(error).__name__}, whose traceback cannot be printed\n".encode())
