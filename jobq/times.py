"""Instants and durations as text: RFC 3339 with milliseconds for files and JSON, `1h30m` for people.

Everything jobq stores has a resolution of one millisecond. The written form of an instant has a fixed width, so
the texts of two instants sort as the instants do.
"""

from __future__ import annotations

from jobq.errors import InvalidInput
from jobq.light import UTC, datetime, timedelta

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_DURATION = r"(?a)(?:\d+(?:\.\d+)?(?:ms|[smhdw]))+"
_PART = r"(?a)(\d+(?:\.\d+)?)(ms|[smhdw])"
_INSTANT = r"(?a)\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:[Zz]|[+-]\d\d:\d\d)?"
_CLOCK = r"(?a)(?:(today|tomorrow)\s+)?(\d{1,2}):(\d{2})(?::(\d{2}))?"
_LOCAL = r"(?a)\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?"
MAX_DURATION = timedelta(days=36500)
_MILLISECOND = timedelta(milliseconds=1)


def floor_ms(moment: datetime) -> datetime:
    """`moment` without what is below a millisecond."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def ceil_ms(moment: datetime) -> datetime:
    """The first whole millisecond that is not before `moment`."""
    floor = floor_ms(moment)
    return floor if floor == moment else floor + _MILLISECOND


_KNOWN_INSTANTS: dict[datetime, str] = {}
"""Instants as text: the jobs of a batch share their times, and each is written several times."""
_MOST_KNOWN = 1024


def format_time(moment: datetime) -> str:
    """An aware UTC datetime as `2026-07-11T20:57:58.316Z`."""
    text = _KNOWN_INSTANTS.get(moment)
    if text is None:
        if len(_KNOWN_INSTANTS) >= _MOST_KNOWN:
            _KNOWN_INSTANTS.clear()
        text = _KNOWN_INSTANTS[moment] = moment.isoformat(timespec="milliseconds")[:23] + "Z"
    return text


_KNOWN_TEXTS: dict[str, datetime] = {}
"""Texts as instants, likewise; and of one instant one object."""


def parse_time(text: str) -> datetime:
    """An instant as written by `format_time` (or any RFC 3339 form of UTC), as an aware UTC datetime.

    Raises:
        ValueError: the text is no such instant.
    """
    moment = _KNOWN_TEXTS.get(text)
    if moment is None:
        if len(_KNOWN_TEXTS) >= _MOST_KNOWN:
            _KNOWN_TEXTS.clear()
        moment = _KNOWN_TEXTS[text] = datetime.fromisoformat(text)
    return moment


def parse_instant(field: str, value: object) -> datetime:
    """An RFC 3339 instant with an offset, from a person or a program, as an aware UTC datetime.

    Raises:
        InvalidInput: not a string, unparsable, naive, or outside of what can be stored.
    """
    import re

    rule = "must be an RFC 3339 time with an offset, as 2026-07-11T20:57:58Z"
    if not isinstance(value, str) or not re.fullmatch(_INSTANT, value):
        raise InvalidInput(field, value, rule)
    try:
        moment = datetime.fromisoformat(value.upper())
        if moment.tzinfo is None:
            raise InvalidInput(field, value, f"has no offset; it {rule}")
        return ceil_ms(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise InvalidInput(field, value, rule) from None


def parse_at(field: str, value: str, now: datetime) -> datetime:
    """What a person means by `03:00`, `tomorrow 03:00`, `2026-07-11 03:00` (local time) or an RFC 3339 instant.

    A time alone is the next such one; the others are taken as they are, past or not.

    Raises:
        InvalidInput: none of these.
    """
    import re

    text = value.strip()
    match = re.fullmatch(_CLOCK, text)
    if match is None and re.fullmatch(_LOCAL, text):
        text = _with_offset(text)
    if match is None:
        try:
            return parse_instant(field, text)
        except InvalidInput:
            rule = "must be a time as 03:00, 'tomorrow 03:00', '2026-07-11 03:00' or 2026-07-11T03:00:00Z"
            raise InvalidInput(field, value, rule) from None
    day, hour, minute, second = match.groups()
    try:
        local = now.astimezone().replace(
            hour=int(hour), minute=int(minute), second=int(second or 0), microsecond=0, tzinfo=None
        )
    except ValueError:
        raise InvalidInput(field, value, "is no time of day") from None
    if day == "tomorrow" or (day is None and local.astimezone() <= now):
        local += timedelta(days=1)
    return _instant(local)


def _instant(local: datetime) -> datetime:
    """The instant of a naive local time; where clocks are set on over it, as much after that as it would have been."""
    instant = local.astimezone(UTC)
    if instant.astimezone().replace(tzinfo=None) == local:
        return instant
    return max(local.replace(fold=fold).astimezone(UTC) for fold in (0, 1))


def _with_offset(text: str) -> str:
    """A local time with the offset that is in force then; the text itself where there is no such time."""
    try:
        return _instant(datetime.fromisoformat(text)).isoformat()
    except (ValueError, OverflowError):
        return text


def parse_duration(field: str, value: str) -> timedelta:
    """`90`, `1.5s`, `10m`, `1h30m`, `2d` as a timedelta; a number alone is seconds.

    Raises:
        InvalidInput: none of these, negative, or longer than 100 years.
    """
    import re

    text = value.strip().replace(" ", "")
    if re.fullmatch(_DURATION, text):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in re.findall(_PART, text))
    elif re.fullmatch(r"(?a)\d+(?:\.\d+)?", text):
        seconds = float(text)
    else:
        raise InvalidInput(field, value, "must be a duration, as 90, 1.5s, 10m, 1h30m or 2d")
    return duration_of(field, value, seconds)


def duration_of(field: str, value: object, seconds: float) -> timedelta:
    """`seconds` as a timedelta of whole milliseconds, rounded up.

    Raises:
        InvalidInput: negative, not finite, or longer than 100 years.
    """
    if not 0 <= seconds <= MAX_DURATION.total_seconds():
        raise InvalidInput(field, value, "must be at least 0 and at most 100 years")
    return -(-timedelta(seconds=seconds) // _MILLISECOND) * _MILLISECOND


def to_duration(field: str, value: object) -> timedelta:
    """A timedelta, or a number of seconds, as a timedelta of whole milliseconds, rounded up.

    Raises:
        InvalidInput: neither, or out of what `duration_of` takes.
    """
    seconds = seconds_of(value) if isinstance(value, timedelta) else value
    if not isinstance(seconds, (int, float)) or isinstance(seconds, bool):
        raise InvalidInput(field, value, "must be a number of seconds")
    if isinstance(seconds, float) and seconds - seconds != 0:  # an infinity, or no number at all
        raise InvalidInput(field, value, "must be a number of seconds")
    return duration_of(field, seconds, seconds)


def format_duration(duration: timedelta) -> str:
    """A duration for people: `0.25s`, `8s`, `1m30s`, `2h5m`, `3d4h`; the two largest units at most."""
    seconds = duration.total_seconds()
    if seconds < 10:
        return f"{seconds:.3g}s"
    rest, parts = round(seconds), []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return "".join(parts[:2])


def seconds_of(duration: timedelta) -> float | int:
    """A duration as JSON has it: seconds, a whole number where it is one."""
    seconds = duration.total_seconds()
    return int(seconds) if seconds.is_integer() else seconds
