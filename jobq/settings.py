"""The values of the settings that are in force; `jobq.options` has the table of what there is.

A value comes from a flag, else the environment (`JOBQ_KILL_GRACE`), else `config.toml` in the home, else the
default. Keys are written with hyphens or underscores alike. What is `live` is read again when the file changed.
"""

from __future__ import annotations

from jobq.errors import InvalidInput, UnknownKey
from jobq.light import timedelta
from jobq.times import duration_of, format_duration, parse_duration, seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path
    from typing import Any

    from jobq.files import StrPath
    from jobq.providers import Option

_SIZES = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "mib": 1 << 20}
_SIZES |= {"g": 1 << 30, "gb": 1 << 30, "gib": 1 << 30}
MOST_SIZE = 1 << 53
"""Bytes; every reader of JSON knows numbers up to here exactly."""
_MOST_DIGITS = 20
_PREFIX = "JOBQ_"
_TRUE, _FALSE = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off"})


class Settings:
    """The values in force; `settings["kill-grace"]` is a timedelta, and so on by the option's kind.

    Args:
        options: every setting there is.
        read: answers with the content of config.toml as a mapping, and with what changes when the file does.
        environ: the environment.
        flags: values given on the command line, as text.
        home: the home directory; for plugins, which put files of theirs there.

    Raises:
        InvalidInput: a value is not what its setting takes; the message says where it came from.
    """

    def __init__(
        self,
        options: Iterable[Option],
        read: Callable[[], tuple[Mapping[str, Any], object]],
        *,
        environ: Mapping[str, str],
        flags: Mapping[str, str] | None = None,
        home: StrPath | None = None,
    ) -> None:
        self._home = home
        self.options = {option.name: option for option in options}
        self._names = {alias: o.name for o in self.options.values() for alias in (o.name, *o.aliases)}
        self._read = read
        self._fixed: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        given = {variable for variable in environ if variable.startswith(_PREFIX) and environ[variable] != ""}
        for option in self.options.values() if given else ():
            for name in (option.name, *option.aliases):
                variable = _PREFIX + name.upper().replace("-", "_").replace(".", "_")
                if variable in given:
                    self._fixed[option.name] = parse(option, environ[variable], where=variable)
                    self.sources[option.name] = variable
        for name, text in (flags or {}).items():
            option = self.options[self.canonical(name)]
            self._fixed[option.name] = parse(option, text)
            self.sources[option.name] = "command line"
        content, self._version = read()
        self.handlers: Mapping[str, str] = _handlers_table(content)
        self.unknown: tuple[str, ...] = ()
        self._values = self._from_file(content)

    @property
    def home(self) -> Path | None:
        """The home directory, as a path; None where there is none."""
        from pathlib import Path  # an enqueue does without it

        return None if self._home is None else Path(self._home)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.options)

    def canonical(self, key: str) -> str:
        """The name of the setting that `key` means, hyphens and underscores alike.

        Raises:
            UnknownKey: there is none; the message names those that come close.
        """
        name = self._names.get(key.replace("_", "-").lower())
        if name is None:
            import difflib

            near = difflib.get_close_matches(key.replace("_", "-"), self._names, n=3)
            raise UnknownKey(key, f"did you mean {' or '.join(near)}?" if near else "")
        return name

    def refresh(self) -> str | None:
        """Take new values of live settings if the file changed; what is wrong with the file, if anything is.

        An invalid file changes nothing.
        """
        try:
            content, version = self._read()
            if version == self._version:
                return None
            self._version = version
            values = self._from_file(content)
        except InvalidInput as error:
            return str(error)
        for name, option in self.options.items():
            if option.live:
                self._values[name] = values[name]
        return None

    def _from_file(self, content: Mapping[str, Any]) -> dict[str, Any]:
        values = {name: option.default for name, option in self.options.items()}
        unknown = []
        for key, value in _flat(content):
            name = self._names.get(key.replace("_", "-"))
            if name is None:
                if not key.startswith("handlers."):
                    unknown.append(key)
                continue
            values[name] = parse(self.options[name], value, where="config.toml")
            if name not in self._fixed:
                self.sources[name] = "config.toml"
        self.unknown = tuple(unknown)
        return values | self._fixed


def parse(option: Option, value: object, *, where: str = "") -> Any:
    """The typed value of a setting from text or from what TOML has.

    Raises:
        InvalidInput: it is not what the setting takes.
    """
    field = f"{option.name} ({where})" if where else option.name
    if option.default is None and isinstance(value, str) and value.lower() in ("none", ""):
        return None
    parsed = (_BY_NAME.get(option.name) or _PARSERS[option.kind])(field, value)
    size = parsed.total_seconds() if isinstance(parsed, timedelta) else parsed
    if option.least is not None and size < option.least:
        raise InvalidInput(field, value, f"must be at least {option.least:.15g}")
    if option.most is not None and size > option.most:
        raise InvalidInput(field, value, f"must be at most {option.most:.15g}")
    if option.choices and parsed not in option.choices:
        raise InvalidInput(field, value, f"must be {' or '.join(option.choices)}")
    return parsed


def shown(value: Any) -> str:
    """A setting's value as a person would write it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, timedelta):
        text = format_duration(value)
        return text if parse_duration("", text) == value else f"{seconds_of(value)}s"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _flat(content: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _handlers_table(content: Mapping[str, Any]) -> Mapping[str, str]:
    table = content.get("handlers", {})
    if not isinstance(table, dict):
        raise InvalidInput("handlers", table, 'must be a table of names and targets, as resize = "images:resize"')
    for name, target in table.items():
        if not isinstance(target, str) or target.count(":") != 1:
            raise InvalidInput(f"handlers.{name}", target, "must be MODULE:FUNCTION")
    return table


def _integer(field: str, value: object) -> int:
    try:
        number = int(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None
    except ValueError:
        number = None
    if number is None or (isinstance(value, str) and not value.isascii()):
        raise InvalidInput(field, value, "must be a whole number")
    if not -(2**63) <= number < 2**63:
        raise InvalidInput(field, value, "is a whole number beyond 2^63")
    return number


def _number(field: str, value: object) -> float:
    try:
        number = float(value) if isinstance(value, (str, int, float)) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        number = None
    if number is None or not -1e18 < number < 1e18:
        raise InvalidInput(field, value, "must be a number")
    return number


def _boolean(field: str, value: object) -> bool:
    text = str(value).lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise InvalidInput(field, value, "must be true or false")


def _duration(field: str, value: object) -> timedelta:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return duration_of(field, value, value)
    return parse_duration(field, _text(field, value))


def _size(field: str, value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        size = value
    else:
        text = value.strip().lower() if isinstance(value, str) else ""
        number = text.rstrip("bikmg ")
        unit = text[len(number) :].strip()
        if unit not in _SIZES or not (number.isascii() and number.isdigit()):
            raise InvalidInput(field, value, "must be a size, as 65536, 64K or 10MiB")
        size = int(number) * _SIZES[unit] if len(number) <= _MOST_DIGITS else MOST_SIZE + 1
    if not 0 <= size <= MOST_SIZE:
        raise InvalidInput(field, value, "must be a size from 0 to 8388608 GiB")
    return size


def _text(field: str, value: object) -> str:
    if not isinstance(value, str):
        raise InvalidInput(field, value, "must be text")
    return value


def _list(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    if isinstance(value, (list, tuple)) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise InvalidInput(field, value, "must be a list of texts")


def _conditions(field: str, value: object) -> tuple[str | int, ...]:
    from jobq.spec import retry_conditions  # most commands have none to check

    return retry_conditions(field, value)


_PARSERS: dict[str, Callable[[str, object], Any]] = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "duration": _duration,
    "size": _size,
    "text": _text,
    "list": _list,
}
_BY_NAME: dict[str, Callable[[str, object], Any]] = {"retry-on": _conditions, "no-retry-on": _conditions}
"""Settings that are the defaults of a job's fields, whose rule is more than that of a kind."""
