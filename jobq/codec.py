"""JSON to text and back, by the reader and the writer in C that `json` stands on.

Importing `json` itself costs more than an enqueue does in all: it brings `re`. It is imported where a text is no
JSON, to say why, or where this Python has no such reader and writer.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Scan = Callable[[str, int], tuple[Any, int]]

WHITESPACE = " \t\n\r"

NO_JSON = (StopIteration, ValueError, SystemError)
"""What a reader raises where there is no JSON. In Python 3.11 it finds no error to raise before `json` is imported, and
that is a SystemError."""


class _Reading:
    """What a reader is told: read as `json` does, but that numbers which are none are refused."""

    strict = True
    object_hook = array_hook = None
    parse_float = float
    parse_int = int

    def __init__(self, pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> None:
        self.object_pairs_hook = pairs

    @staticmethod
    def parse_constant(name: str) -> Any:
        """Refuse NaN and the infinities."""
        raise ValueError(f"{name} is no JSON number")


def scanner(pairs: Callable[[list[tuple[str, Any]]], Any] | None = None) -> Scan:
    """What reads the JSON value that begins at a place of a text, and says where it ends.

    It raises one of `NO_JSON` where there is none, RecursionError where it is nested too deep.

    Args:
        pairs: makes the value of an object of its names and values; None: a dict, in which the last of a name counts.
    """
    try:
        from _json import make_scanner

        native: Scan = make_scanner(_Reading(pairs))  # type: ignore[arg-type]
        native('{"a":[1.5]}', 0)
    except (ImportError, AttributeError, TypeError):  # another Python, or one whose reader is made otherwise
        import json

        decoder = json.JSONDecoder(object_pairs_hook=pairs, parse_constant=_Reading.parse_constant)
        return decoder.scan_once  # type: ignore[attr-defined,no-any-return]  # undocumented, as old as json
    return native


scan = scanner()


def loads(data: str | bytes) -> Any:
    """The value of a JSON text that jobq wrote itself.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deep.
    """
    text = (data if isinstance(data, str) else data.decode()).strip(WHITESPACE)
    try:
        value, end = scan(text, 0)
    except NO_JSON:
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than one JSON value")
    return value


def _encoder() -> Callable[[Any], str]:
    try:
        from _json import encode_basestring_ascii, make_encoder

        chunks: Any = make_encoder(None, _refuse, encode_basestring_ascii, None, ":", ",", False, False, False)
        chunks({"a": [1.5]}, 0)
    except (ImportError, AttributeError, TypeError):  # as of the reader
        import json

        return json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_refuse).encode
    return lambda value: "".join(chunks(value, 0))


def _refuse(value: object) -> Any:
    raise TypeError(f"{value!r} is no JSON")


encode = _encoder()
"""A value as compact JSON, in ASCII.

Raises:
    TypeError, ValueError: it has something that JSON has not.
"""
