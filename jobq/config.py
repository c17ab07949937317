"""The configuration file of a home, read; and remembered as it was read, since to read TOML takes as long as Python's start.

What is remembered holds for one state of the file. A file that was changed within the last two seconds is not: its time
stamp may be too coarse to tell a further change.
"""

from __future__ import annotations

import os
import time

from jobq import __version__
from jobq.codec import encode, loads
from jobq.errors import HIDDEN, InvalidInput, StoreError
from jobq.files import private_directory, read_private, replace
from jobq.light import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from jobq.files import StrPath

CONFIG_NAME = "config.toml"

_SETTLED_SECONDS = 2.0


def config_reader(path: StrPath) -> Callable[[], tuple[Mapping[str, Any], object]]:
    """Reads a config.toml for `Settings`: its content and what tells one version of it from another.

    What it answers with raises InvalidInput where the file cannot be read or is no TOML.
    """

    def read() -> tuple[Mapping[str, Any], object]:
        try:
            version = _version(path)
            if not known or known[-1][1] != version:
                content = _remembered(path, version)
                known[:] = [(_parsed(path, version) if content is None else content, version)]
        except FileNotFoundError:
            _forget(path)
            return {}, None
        except OSError as error:
            raise InvalidInput("", HIDDEN, f"{path} cannot be read: {error.strerror}") from None
        except StoreError as error:
            raise InvalidInput("", HIDDEN, f"{path} cannot be read: {error}") from None
        return known[-1]

    known: list[tuple[Mapping[str, Any], list[int]]] = []
    return read


def _version(path: StrPath) -> list[int]:
    facts = os.lstat(path)
    return [facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_ctime_ns, facts.st_size]


def _parsed(path: StrPath, version: list[int]) -> Mapping[str, Any]:
    data = read_private(path)
    import tomllib

    try:
        content = tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # also an integer of thousands of digits
        _forget(path)
        raise InvalidInput("", HIDDEN, f"{path} is no valid TOML: {error}") from None
    _forget(path)
    if time.time() - max(version[2], version[3]) / 1e9 > _SETTLED_SECONDS:
        _remember(path, version, content)
    return content


def _cache(path: StrPath) -> str:
    return os.path.join(os.path.dirname(path), "cache")


def _forget(path: StrPath) -> None:
    """What the file says no longer, be it a secret, is kept no longer."""
    with suppress(OSError):
        os.unlink(f"{_cache(path)}/config.json")


def _remember(path: StrPath, version: list[int], content: Mapping[str, Any]) -> None:
    """Keep what was read, where it can be kept and is JSON too: a date is not."""
    try:
        text = encode({"jobq": __version__, "version": version, "content": content})
        private_directory(_cache(path))
        replace(f"{_cache(path)}/config.json", text.encode(), durable=False)
    except (StoreError, TypeError, ValueError, RecursionError):
        return


def _remembered(path: StrPath, version: list[int]) -> Mapping[str, Any] | None:
    """What was kept of this very state of the file; None where that is nothing."""
    try:
        record = loads(read_private(f"{_cache(path)}/config.json"))
        if [record["jobq"], record["version"]] != [__version__, version] or not isinstance(record["content"], dict):
            return None
    except (OSError, StoreError, ValueError, KeyError, TypeError, RecursionError):
        return None
    content: Mapping[str, Any] = record["content"]
    return content
