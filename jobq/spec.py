"""Turns what a person or a program hands in into a new job, or refuses it with the field, the value and the rule.

This is the one edge where job fields are checked; inside, nothing checks them again.
"""

from __future__ import annotations

import os

from jobq.codec import encode
from jobq.errors import HIDDEN, InvalidInput
from jobq.job import Job, new_id
from jobq.light import datetime, timedelta
from jobq.store import NewJob
from jobq.strictjson import check_json, check_text, is_encodable
from jobq.times import ceil_ms, parse_instant, to_duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from jobq.settings import Settings

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_ID_LETTERS, _NAME_LETTERS = f"{_LETTERS}._:@-", f"{_LETTERS}_.:@-"
META_LIMIT = 4096


def is_handler_name(text: str) -> bool:
    """Whether a handler may be called this: letters, digits and `_.:@-`, no more than 128, the first a letter, digit or _."""
    return 0 < len(text) <= 128 and text[0] in f"{_LETTERS}_" and not text.strip(_NAME_LETTERS)


def checked_queue(name: object) -> str:
    """A queue's name, checked.

    Raises:
        InvalidInput: it is none.
    """
    queue: str = _FIELDS["queue"]("queue", name)
    return queue


def checked_field(name: str, value: object) -> Any:
    """The value of a field that a person may set, checked by itself.

    Raises:
        InvalidInput: it breaks a rule.
    """
    return _FIELDS[name](name, value)


def checked_meta(value: object) -> dict[str, Any]:
    """A job's `meta`, checked.

    Raises:
        InvalidInput: it is no object of JSON values, or too large.
    """
    return _meta("meta", value)


def retry_conditions(field: str, value: object) -> tuple[str | int, ...]:
    """What `retry_on` of a job holds, from how a setting or an option may write it: `1,3-5,timeout`, or a list.

    `none` and an empty text are no conditions.

    Raises:
        InvalidInput: it names something that is no condition.
    """
    if isinstance(value, str):
        parts = [part.strip() for part in value.split(",") if part.strip()]
        value = [] if [part.lower() for part in parts] == ["none"] else parts
    return _conditions(field, value)


class Intake:
    """Turns specs into jobs, all of one moment and one place.

    Args:
        settings: where what a spec does not say comes from.
        now: the moment of enqueueing.
        directory: where a command runs that names no `cwd`, and what a relative `cwd` is relative to.
    """

    def __init__(self, settings: Settings, *, now: datetime, directory: str | None) -> None:
        self._now, self._directory = now, directory or os.sep
        self._payload_limit: int = settings["payload-limit"]
        self._common = {
            "max_attempts": settings["max-attempts"],
            "timeout": settings["timeout"],
            "run_at": now,
            "created_at": now,
            "updated_at": now,
        }
        conditions = {"retry_on": settings["retry-on"], "no_retry_on": settings["no-retry-on"]}
        self._of_handlers = {field: tuple(listed) for field, listed in conditions.items() if listed}
        # The settings are for handlers too, whose exceptions a command cannot raise
        self._of_commands = {
            field: tuple(condition for condition in listed if not _is_exception(condition))
            for field, listed in self._of_handlers.items()
        }
        self._directories: dict[object, str] = {}

    def job(self, spec: object, *, handlers: Collection[str] | None) -> NewJob:
        """The job that `spec`, a JSON object or the same as Python values, asks for.

        Args:
            spec: the fields; `run_at` may be a datetime, `delay` and `timeout` timedeltas.
            handlers: the handler names that are installed; None allows any.

        Raises:
            InvalidInput: a rule is broken.
        """
        if not isinstance(spec, dict):
            kind = _KINDS.get(type(spec), f"a {type(spec).__name__}")
            raise InvalidInput("", HIDDEN, f"a job must be a JSON object, not {kind}")
        for key in () if spec.keys() <= _FIELDS.keys() else spec:
            if key not in _FIELDS:
                raise InvalidInput(str(key), spec[key], f"is no field of a job{_meant(str(key), _FIELDS)}")
        _exactly_one(spec)
        values: dict[str, Any] = {}
        for key, value in spec.items():
            name = _ALIASES.get(key) or key
            if name != key and name in spec:
                raise InvalidInput(key, value, f"and {name} are two names of one field; give one")
            values[name] = _FIELDS[key](key, value)
        if "delay" in values:
            if "run_at" in values:
                raise InvalidInput("delay", HIDDEN, "and run_at exclude one another")
            delay: timedelta = values.pop("delay")
            values["run_at"] = ceil_ms(self._now + delay)
        if "handler" in values:
            self._check_handler_job(values, handlers)
            values = self._common | self._of_handlers | values
        else:
            _check_command_job(values)
            values = self._common | self._of_commands | values
            values["cwd"] = self._place(values.get("cwd"))
        generated = "id" not in values
        if generated:
            values["id"] = new_id()
        return NewJob(Job.of(values), generated)

    def _place(self, cwd: str | None) -> str:
        """The directory that a command runs in: one that lies where it is said to be, whoever asks from where."""
        place = self._directories.get(cwd)
        if place is None:
            place = os.path.normpath(os.path.join(self._directory, cwd or ""))  # an absolute one stays what it is
            if not is_encodable(place):
                raise InvalidInput("cwd", place, "has a name that is no UTF-8, in which jobs are kept; name another")
            self._directories[cwd] = place
        return place

    def _check_handler_job(self, values: Mapping[str, Any], handlers: Collection[str] | None) -> None:
        for field in ("cwd", "env"):
            if field in values:
                raise InvalidInput(field, values[field], "is for commands; a handler has a payload")
        name: str = values["handler"]
        if handlers is not None and name not in handlers:
            near = _meant(name, handlers)
            raise InvalidInput("handler", name, f"is not installed here{near}; `jobq handlers` lists what is")
        if "payload" in values:
            size = len(encode(values["payload"]))
            if size > self._payload_limit:
                rule = f"has {size} bytes; the limit is {self._payload_limit} (payload-limit)"
                raise InvalidInput("payload", "…", rule)


def _check_command_job(values: Mapping[str, Any]) -> None:
    if "payload" in values:
        raise InvalidInput("payload", values["payload"], "is for handlers; a command has arguments and env")
    for field in ("retry_on", "no_retry_on"):
        for condition in values.get(field, ()):
            if _is_exception(condition):
                raise InvalidInput(field, condition, "is no exit code, timeout or signal; commands raise no exceptions")


def _exactly_one(spec: Mapping[Any, Any]) -> None:
    if ("command" in spec) == ("handler" in spec):
        what = "both" if "command" in spec else "neither"
        raise InvalidInput("", HIDDEN, f"a job has a command or a handler, not {what}")


def _id(field: str, value: object, most: int = 128) -> str:
    if not isinstance(value, str) or not (
        0 < len(value) <= most and value[0] in _LETTERS and not value.strip(_ID_LETTERS)
    ):
        rule = f"must be letters, digits and ._:@-, begin with a letter or digit, and be at most {most} long"
        raise InvalidInput(field, value, rule)
    return value


def _queue(field: str, value: object) -> str:
    return _id(field, value, 64)


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not is_handler_name(value):
        raise InvalidInput(field, value, "must be letters, digits and _.:@-, at most 128")
    return value


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidInput(field, value, "must be a text that is not empty")
    check_text(field, value)
    return value


def _command(field: str, value: object) -> str | tuple[str, ...]:
    if isinstance(value, str):
        if not value.strip():
            raise InvalidInput(field, value, "is an empty command")
        return _text(field, value)
    if not isinstance(value, (list, tuple)) or not all(isinstance(word, str) for word in value):
        raise InvalidInput(field, value, "must be a text (for a shell) or a list of texts (for none)")
    if not value or not value[0].strip():
        raise InvalidInput(field, value, "is an empty command")
    for word in value:
        check_text(field, word)
    return tuple(value)


def whole_number(least: int, most: int) -> Callable[[str, object], int]:
    """What checks a whole number, given the name of its field and the value."""

    def check(field: str, value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise InvalidInput(field, value, f"must be a whole number from {least} to {most}")
        return value

    return check


def _run_at(field: str, value: object) -> datetime:
    if isinstance(value, datetime):
        value = value.isoformat()
    return parse_instant(field, value)


def _timeout(field: str, value: object) -> timedelta | None:
    timeout = None if value is None else to_duration(field, value)
    if timeout is not None and not timeout:
        raise InvalidInput(field, 0, "must be more than 0; without a timeout it is null, or none")
    return timeout


def _env(field: str, value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "must be an object of names and texts")
    for name, text in value.items():
        if not isinstance(name, str) or not name:
            raise InvalidInput(field, HIDDEN, "has a variable without a name")
        if "=" in name:
            raise InvalidInput(f"{field}.{name}", HIDDEN, "must have no = in its name")
        if not isinstance(text, str):
            raise InvalidInput(f"{field}.{name}", HIDDEN, "must be a text")
        try:
            check_text(field, name)
            check_text(field, text)
        except InvalidInput as error:
            raise InvalidInput(f"{field}.{name}", HIDDEN, error.rule) from None
    return value


def _tags(field: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(field, value, "must be a list of texts")
    return tuple(dict.fromkeys(_name(field, tag) for tag in value))


def _meta(field: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidInput(field, value, "must be an object")
    check_json(field, value)
    if len(encode(value)) > META_LIMIT:
        raise InvalidInput(field, "…", f"is larger than {META_LIMIT} bytes")
    return value


def _payload(field: str, value: object) -> Any:
    check_json(field, value)
    return value


def _on_lost(field: str, value: object) -> str:
    if value not in ("retry", "dead"):
        raise InvalidInput(field, value, "must be retry or dead")
    return str(value)


def _conditions(field: str, value: object) -> tuple[str | int, ...]:
    if not isinstance(value, (list, tuple)):
        raise InvalidInput(field, value, "must be a list")
    for condition in value:
        if isinstance(condition, bool) or not isinstance(condition, (int, str)) or not _is_condition(condition):
            raise InvalidInput(
                field,
                condition,
                "must be an exit code from 1 to 255, a range of them as 1-5, timeout, signal or the name of an exception",
            )
    return tuple(int(each) if isinstance(each, str) and each.isdigit() else each for each in value)


def _is_exception(condition: int | str) -> bool:
    return isinstance(condition, str) and not condition[0].isdigit() and condition not in ("timeout", "signal")


def _is_condition(condition: int | str) -> bool:
    if isinstance(condition, int):
        return 1 <= condition <= 255
    import re

    if codes := re.fullmatch(r"([0-9]{1,3})(?:-([0-9]{1,3}))?", condition):
        return 1 <= int(codes[1]) <= int(codes[2] or codes[1]) <= 255
    return re.fullmatch(r"[A-Za-z_]\w*", condition) is not None


_FIELDS: dict[str, Callable[[str, Any], Any]] = {
    "id": _id,
    "command": _command,
    "handler": _name,
    "payload": _payload,
    "queue": _queue,
    "priority": whole_number(-1000, 1000),
    "max_attempts": whole_number(1, 2**31 - 1),
    "max_retries": whole_number(1, 2**31 - 1),
    "run_at": _run_at,
    "delay": to_duration,
    "timeout": _timeout,
    "cwd": _text,
    "env": _env,
    "tags": _tags,
    "meta": _meta,
    "on_lost": _on_lost,
    "retry_on": _conditions,
    "no_retry_on": _conditions,
}
_KINDS: dict[type, str] = {
    bool: "a boolean",
    float: "a number",
    int: "a number",
    list: "a list",
    str: "a string",
    type(None): "null",
}
"""What JSON calls the types of its values that are no objects."""

_ALIASES: dict[str, str] = {"max_retries": "max_attempts"}


def _meant(word: str, words: Collection[str]) -> str:
    import difflib

    near = difflib.get_close_matches(word, words, n=2)
    return f"; did you mean {' or '.join(near)}?" if near else ""
