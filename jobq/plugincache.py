"""Remembers in the home what a scan for plugins found, so that a command need not look through every distribution.

What is remembered holds for one interpreter, one `sys.path` and one state of the directories on it that hold
distributions, and as long as no plugin's own module changed. A directory changed within the last two seconds is not
relied upon: its time stamp may be too coarse to tell a further change.
"""

from __future__ import annotations

import os
import sys
import time
from zlib import crc32

from jobq import __version__
from jobq.codec import encode, loads
from jobq.errors import StoreError
from jobq.files import private_directory, read_private, replace
from jobq.light import timedelta
from jobq.pluginscan import Plugin, Scan
from jobq.providers import Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from jobq.handlers import Handler

_FORMAT = 2
_SETTLED_SECONDS = 2.0
_METADATA = (".dist-info", ".egg-info")
_REMEMBERED = tuple(name for name in Plugin.__slots__ if name != "fault")


class PluginCache:
    """One remembered scan per interpreter and `sys.path`, in HOME/cache."""

    def __init__(self, home: str) -> None:
        self._directory = f"{home}/cache"
        self._key = f"{__version__} {sys.version} {sys.executable} {sys.path!r}"
        self._path = f"{self._directory}/plugins-{crc32(self._key.encode(errors='backslashreplace')):08x}.json"

    def load(self) -> Scan | None:
        """The remembered scan, or None where there is none that still holds."""
        try:
            record = loads(read_private(self._path))
            if record["format"] != _FORMAT or record["key"] != self._key or not _unchanged(record):
                return None
            plugins = [_plugin(**plugin) for plugin in record["plugins"]]
            if not all(plugin.distribution for plugin in plugins):  # it would be imported as a file, from anywhere
                return None
            return Scan(plugins, [_handler(**handler) for handler in record["handlers"]])
        except (OSError, StoreError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return None

    def save(self, scan: Scan) -> None:
        """Remember a scan, if what it depends on has settled. A home that cannot be written to costs only time."""
        if not all(plugin.target for plugin in scan.plugins):  # mending it need not change a directory
            return
        directories = {path: _modified(path) for path in sys.path}
        files = {plugin.origin: _modified(plugin.origin) for plugin in scan.plugins if plugin.origin}
        newest = max([stamp for stamp in (*directories.values(), *files.values()) if stamp is not None], default=0)
        if time.time() - newest / 1e9 < _SETTLED_SECONDS:
            return
        record = {
            "format": _FORMAT,
            "key": self._key,
            "directories": directories,
            "bare": [path for path in sys.path if not _holds_distributions(path)],
            "files": files,
            "plugins": [_plugin_record(plugin) for plugin in scan.plugins],
            "handlers": [{"name": h.name, "target": h.target, "distribution": h.distribution} for h in scan.handlers],
        }
        try:
            private_directory(self._directory)
            replace(self._path, encode(record).encode(), durable=False)
        except (StoreError, TypeError, ValueError):  # a cache that cannot be kept, or written as JSON, is only slower
            return


def _unchanged(record: Mapping[str, Any]) -> bool:
    bare = set(record["bare"])
    for path, stamp in record["directories"].items():
        # What holds no distributions changes with every file beside a script; it matters only if one appeared.
        if _modified(path) != stamp and (path not in bare or _holds_distributions(path)):
            return False
    return all(_modified(path) == stamp for path, stamp in record["files"].items())


def _modified(path: str) -> int | None:
    try:
        return os.stat(path or ".").st_mtime_ns
    except OSError:
        return None


def _holds_distributions(path: str) -> bool:
    try:
        return any(name.endswith(_METADATA) for name in os.listdir(path or "."))
    except OSError:
        return False


def _plugin_record(plugin: Plugin) -> dict[str, Any]:
    record = {name: getattr(plugin, name) for name in _REMEMBERED}
    record["options"] = [_option_record(option) for option in plugin.options]
    return record


def _option_record(option: Option) -> dict[str, Any]:
    record = {name: getattr(option, name) for name in Option.__slots__}
    if isinstance(option.default, timedelta):
        record["default"] = {"seconds": option.default.total_seconds()}
    return record


def _handler(**record: Any) -> Handler:
    from jobq.handlers import Handler

    return Handler(**record)


def _plugin(**record: Any) -> Plugin:
    for name in ("hooks", "remarks"):
        record[name] = tuple(record[name])
    record["offers"] = {kind: tuple(names) for kind, names in record["offers"].items()}
    record["options"] = tuple(_option(**option) for option in record["options"])
    return Plugin(**record)


def _option(**record: Any) -> Option:
    default = record["default"]
    if isinstance(default, dict):
        record["default"] = timedelta(**default)
    elif isinstance(default, list):
        record["default"] = tuple(default)
    for name in ("aliases", "choices"):
        record[name] = tuple(record[name])
    return Option(**record)
