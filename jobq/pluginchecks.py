"""What a plugin may hand over."""

from __future__ import annotations

from datetime import timedelta

from jobq import __version__
from jobq.errors import InvalidInput, PluginError
from jobq.providers import Option, Provider
from jobq.settings import parse
from jobq.times import seconds_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


CORE_COMMANDS = frozenset(
    "enqueue add worker status list show why logs wait cancel retry delete prune pause resume dlq config plugins "  # noqa: SIM905 - read as words
    "handlers doctor export import move init completion demo".split()
)
"""The command line's own commands: no plugin may add one of these names."""

# Not compiled here: a command that imports nothing but a store would pay for the second one too.
_NAME = r"[a-z][a-z0-9_-]*"
_SETTING = r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+"
_KERNEL_TABLES = ("plugins", "handlers")
_OPTION_KINDS: dict[str, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "duration": timedelta,
    "size": int,
    "text": str,
    "list": tuple,
}
_BOUNDED = ("integer", "number", "duration", "size")


def check_record(hook: str, record: object) -> None:
    """Check that a record handed over is of the hook's type, and its name one that settings can say.

    Raises:
        PluginError: it is not.
    """
    if hook == "jobq_commands":
        _check_command(record)
        return
    kind = Option if hook == "jobq_options" else Provider
    if not isinstance(record, kind):
        raise PluginError(f"{hook} handed over {record!r}, which is no {kind.__name__}")
    if isinstance(record, Option):
        _check_option(record)
    else:
        _check_provider(record)


def unknown_hooks(names: Sequence[str], known: Sequence[str]) -> str:
    """Why a plugin that implements these hooks, none of which is `known`, cannot be used: misspelt, or of another jobq."""
    import difflib

    told, newer = [], False
    for name in names:
        near = difflib.get_close_matches(
            name.removeprefix("jobq_"), [each.removeprefix("jobq_") for each in known], n=1
        )
        told.append(f"{name} (did you mean jobq_{near[0]}?)" if near else name)
        newer = newer or not near
    hint = f"; one newer than {__version__} may" if newer else ""
    return f"it implements {', '.join(told)}, which this version of jobq does not know{hint}"


def _check_command(record: object) -> None:
    import click

    if not isinstance(record, click.Command) or not isinstance(record.name, str):
        raise PluginError(f"jobq_commands handed over {record!r}, which is no click command with a name")
    if record.name in CORE_COMMANDS:
        raise PluginError(f"the core command {record.name!r} cannot be replaced")


def _check_provider(provider: Provider[Any]) -> None:
    import re

    if not isinstance(provider.name, str) or not re.fullmatch(_NAME, provider.name):
        raise PluginError(f"{provider.name!r} is no name: lower-case letters, digits, - and _")
    if not isinstance(provider.summary, str):
        raise PluginError(f"{provider.name!r} has the summary {provider.summary!r}, which is no text")
    if not callable(provider.make):
        raise PluginError(f"{provider.name!r} has the make {provider.make!r}, which cannot be called")


def _check_option(option: Option) -> None:
    """Check everything that settings, their listing and the cache rely on; what is odd would break them for all."""
    import re

    if not isinstance(option.name, str) or not _texts(option.aliases) or not _texts(option.choices):
        raise PluginError(
            f"its setting {option.name!r} needs a text as name, and tuples of texts as aliases and choices"
        )
    for name in (option.name, *option.aliases):
        if name.partition(".")[0] in _KERNEL_TABLES or not re.fullmatch(_SETTING, name):
            raise PluginError(
                f"its setting {name!r} must be in a table of its own, lower case with hyphens, as example.{name}"
            )
    if option.kind not in _OPTION_KINDS:
        raise PluginError(f"its setting {option.name!r} is of no kind {option.kind!r}: {' '.join(_OPTION_KINDS)}")
    if not isinstance(option.help, str):
        raise PluginError(f"its setting {option.name!r} has the help {option.help!r}, which is no text")
    bounds = [bound for bound in (option.least, option.most) if bound is not None]
    if bounds and option.kind not in _BOUNDED:
        raise PluginError(f"its setting {option.name!r} is of the kind {option.kind}, which has no least and no most")
    if not all(_finite(bound) for bound in bounds) or bounds != sorted(bounds):
        raise PluginError(f"its setting {option.name!r} has the bounds {option.least!r} and {option.most!r}")
    if option.choices and option.kind != "text":
        raise PluginError(f"its setting {option.name!r} is of the kind {option.kind}; only a text has choices")
    if option.default is not None:
        _check_default(option)


def _check_default(option: Option) -> None:
    """A default is a value that the setting takes."""
    default = option.default
    fits = isinstance(default, _OPTION_KINDS[option.kind]) and isinstance(default, bool) == (option.kind == "boolean")
    if fits and option.kind == "list":
        fits = _texts(default)
    if not fits:
        raise PluginError(f"its setting {option.name!r} has the default {default!r}, which is no {option.kind}")
    try:
        parse(option, seconds_of(default) if isinstance(default, timedelta) else default)
    except InvalidInput as error:
        raise PluginError(f"its setting {option.name!r} does not take its own default: {error}") from None


def _texts(value: object) -> bool:
    return isinstance(value, tuple) and all(isinstance(text, str) for text in value)


def _finite(number: object) -> bool:
    return isinstance(number, (int, float)) and not isinstance(number, bool) and -1e18 < number < 1e18
