"""What is installed: the plugins and handlers that distributions offer; and how one plugin is imported and checked."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import zlib
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from jobq.errors import InvalidInput, PluginError
from jobq.handlers import Handler
from jobq.providers import Option, Provider
from jobq.settings import parse
from jobq.times import seconds_of

if TYPE_CHECKING:
    from collections.abc import Sequence

GROUP = "jobq"
HANDLER_GROUP = "jobq.handlers"
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_SETTING = re.compile(r"[a-z][a-z0-9-]*(\.[a-z][a-z0-9-]*)+")
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


@dataclass(slots=True)
class Plugin:
    """One plugin that is there, and what is known of it.

    Attributes:
        name: its entry point's name.
        target: the entry point's value, or the path of a file.
        distribution, version: what installed it; empty for a file.
        status: `ok`, `failed` or `blocked`.
        error: why it failed.
        hooks: the hooks it implements.
        offers: what it offers: names by `store executor backoff command`.
        options: its settings.
        import_ms: how long its import took when it was last imported.
        origin: its module's file.
    """

    name: str
    target: str
    distribution: str
    version: str
    status: str = "ok"
    error: str = ""
    hooks: tuple[str, ...] = ()
    offers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    options: tuple[Option, ...] = ()
    import_ms: float = 0.0
    origin: str = ""

    @property
    def title(self) -> str:
        """The name with where it comes from: `NAME (DIST VERSION)`."""
        source = f"{self.distribution} {self.version}".strip() or self.target
        return f"{self.name} ({source})"


@dataclass(frozen=True, slots=True)
class Scan:
    """What is installed: the plugins and the handlers, sorted by name and distribution."""

    plugins: Sequence[Plugin]
    handlers: Sequence[Handler]


def scan_installed() -> Scan:
    """Every entry point of the two groups, with nothing imported."""
    from importlib.metadata import entry_points

    plugins = [
        Plugin(entry.name, entry.value, entry.dist.name if entry.dist else "", entry.dist.version if entry.dist else "")
        for entry in entry_points(group=GROUP)
    ]
    handlers = [
        Handler(
            name=entry.name,
            target=entry.value,
            distribution=f"{entry.dist.name} {entry.dist.version}" if entry.dist else "",
        )
        for entry in entry_points(group=HANDLER_GROUP)
    ]
    plugins.sort(key=lambda plugin: (plugin.name, plugin.distribution))
    handlers.sort(key=lambda handler: (handler.name, handler.distribution))
    return Scan(plugins, handlers)


def is_file(name: str) -> bool:
    """Whether `-p name` means a file, not an installed plugin."""
    return name.endswith(".py") or os.sep in name


def plugin_of_file(path: str) -> Plugin:
    """The plugin that `-p path` means; nothing is imported."""
    return Plugin(os.path.basename(path).removesuffix(".py"), path, "", "")


def _import_file(path: str) -> Any:
    # A name of its own, so that a file called json.py does not become everybody's json.
    name = f"jobq_file_{zlib.crc32(os.path.abspath(path).encode()):08x}"
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise PluginError(f"there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def import_plugin(plugin: Plugin) -> Any:
    """The plugin's module or object.

    Raises:
        Exception: whatever importing it raises.
    """
    if not plugin.distribution:
        return _import_file(plugin.target)
    module_name, _, attributes = plugin.target.partition(":")
    loaded: Any = importlib.import_module(module_name)
    for attribute in attributes.split(".") if attributes else ():
        loaded = getattr(loaded, attribute)
    return loaded


def check_record(hook: str, record: object) -> None:
    """Check that a record handed over is of the hook's type, and its name one that settings can say.

    Raises:
        PluginError: it is not.
    """
    if hook == "jobq_commands":
        if not isinstance(getattr(record, "name", None), str) or not hasattr(record, "callback"):
            raise PluginError(f"{hook} handed over {record!r}, which is no click command")
        return
    kind = Option if hook == "jobq_options" else Provider
    if not isinstance(record, kind):
        raise PluginError(f"{hook} handed over {record!r}, which is no {kind.__name__}")
    if isinstance(record, Option):
        _check_option(record)
    elif not _NAME.fullmatch(record.name):
        raise PluginError(f"{record.name!r} is no name: lower-case letters, digits, - and _")


def _check_option(option: Option) -> None:
    """Check everything that settings, their listing and the cache rely on; what is odd would break them for all."""
    if not isinstance(option.name, str) or not _texts(option.aliases) or not _texts(option.choices):
        raise PluginError(
            f"its setting {option.name!r} needs a text as name, and tuples of texts as aliases and choices"
        )
    for name in (option.name, *option.aliases):
        if name.partition(".")[0] in _KERNEL_TABLES or not _SETTING.fullmatch(name):
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


def told(error: BaseException) -> str:
    """An error of a plugin as one line."""
    try:
        text = " ".join(str(error).split())
    except Exception:  # its own text fails too
        text = ""
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}".rstrip(": ")
