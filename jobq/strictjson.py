"""JSON as every reader understands it alike: parsed and checked at the edge, where programs and people hand it in."""

from __future__ import annotations

from jobq.codec import NO_JSON, WHITESPACE, scanner
from jobq.errors import InvalidInput

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_DEPTH = 100


def loads(text: str | bytes) -> Any:
    """Parse JSON as RFC 8259 has it: no duplicate keys, NaN, infinities, lone surrogates or NUL, nothing too deep.

    Raises:
        InvalidInput: it is none; the message says where.
    """
    try:
        decoded = text.decode("utf-8") if isinstance(text, bytes) else text
    except UnicodeDecodeError as error:
        raise InvalidInput("", _excerpt(text), f"is no UTF-8 (byte {error.start + 1})") from None
    stripped = decoded.strip(WHITESPACE)
    try:
        value, end = _scan(stripped, 0)
    except RecursionError:
        raise InvalidInput("", _excerpt(text), f"is nested deeper than {MAX_DEPTH}") from None
    except NO_JSON:
        raise _what_is_wrong(decoded) from None
    if end != len(stripped):
        raise _what_is_wrong(decoded)
    check_json("", value)
    return value


def check_json(field: str, value: object, depth: int = 0) -> None:
    """Check that a value is JSON that every reader understands alike.

    Raises:
        InvalidInput: a type JSON has not, a number or text that others would misread, or nested too deep.
    """
    if isinstance(value, str):
        check_text(field, value)
    elif value is None or isinstance(value, bool):
        return
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise InvalidInput(field, value, "is an integer beyond 2^63")
    elif isinstance(value, float):
        if value - value != 0:  # an infinity, or no number at all
            raise InvalidInput(field, value, "is no finite number")
    elif depth >= MAX_DEPTH:
        raise InvalidInput(field, "…", f"is nested deeper than {MAX_DEPTH}")
    elif isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, str):
                raise InvalidInput(field, key, "must be text: the keys of JSON objects are")
            if not _is_plain(key):
                check_text(field or key, key)
            if not _is_plain(item):
                check_json(field or key, item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            if not _is_plain(item):
                check_json(field, item, depth + 1)
    else:
        raise InvalidInput(field, value, "must be JSON: objects, lists, text, numbers, true, false, null")


def _is_plain(value: object) -> bool:
    """Whether it is a text of which nothing has to be checked, as most values are."""
    return type(value) is str and value.isascii() and "\0" not in value


def check_text(field: str, text: str) -> None:
    """Check that a text is one that every reader and every system call understands alike.

    Raises:
        InvalidInput: it is not.
    """
    if "\0" in text or not (text.isascii() or is_encodable(text)):
        raise InvalidInput(field, text, "must not hold NUL or lone surrogates")


def is_too_deep(value: object, left: int = MAX_DEPTH) -> bool:
    """Whether JSON values are nested deeper than `left`: beyond that, whether they can be read depends on the reader."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return False
    return left == 0 or any(is_too_deep(item, left - 1) for item in value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise InvalidInput(twice, found[twice], "comes twice in one object")
    return found


def is_encodable(text: str) -> bool:
    """Whether the text can be written as UTF-8: it has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return False
    return True


_scan = scanner(_unique)


def _what_is_wrong(text: str) -> InvalidInput:
    """What a text that was found to be no JSON is told with."""
    import json

    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        return InvalidInput("", _excerpt(text), f"is no JSON: {error.msg} at character {error.pos + 1}")
    except InvalidInput as error:
        return error
    except ValueError:
        return InvalidInput("", _excerpt(text), "holds an integer beyond 2^63")  # one of thousands of digits
    return InvalidInput("", _excerpt(text), "is no JSON")


def _refuse_constant(name: str) -> Any:
    raise InvalidInput("", name, "is no JSON number")


def _excerpt(text: str | bytes) -> str:
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    return shown if len(shown) <= 60 else shown[:59] + "…"
