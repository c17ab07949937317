"""Imports one plugin, so that what its module does on import stays its own: what it prints, warns of and raises.

A module that ends the process (`os._exit`, a crash in C) or holds the interpreter's lock cannot be contained.
"""

from __future__ import annotations

import os
import sys
import zlib

from jobq.errors import PluginError, described
from jobq.light import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from jobq.pluginscan import Plugin

SLOW_SECONDS = 2.0
"""An import that takes longer is named while it goes on."""

_WATCH = "jobq-watch"
_REMARKS = 5
_TOLD = 1000


def import_plugin(plugin: Plugin) -> Any:
    """The plugin's module or object.

    Raises:
        BaseException: whatever importing it raises.
    """
    if not plugin.distribution:
        return _import_file(plugin.target)
    module_name, _, attributes = plugin.target.partition("[")[0].replace(" ", "").partition(":")
    __import__(module_name)  # as importlib.import_module does, which brings more than most plugins
    loaded: Any = sys.modules[module_name]
    for attribute in attributes.split(".") if attributes else ():
        loaded = getattr(loaded, attribute)
    return loaded


def _import_file(path: str) -> Any:
    import importlib.util

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


@contextmanager
def watched(plugin: Plugin, tell: Callable[[str], None]) -> Iterator[None]:
    """Within it the plugin is imported and asked what it offers; where that takes over 2 s, `tell` hears which one it is."""
    import threading

    timer = threading.Timer(SLOW_SECONDS, tell, [f"still loading plugin {plugin.title}…"])
    timer.name, timer.daemon = _WATCH, True
    try:
        timer.start()
    except RuntimeError:  # the interpreter is ending, or there is no room for a thread: nobody watches
        yield
        return
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # no second thread is left to whoever forks


@contextmanager
def aside() -> Iterator[None]:
    """Within it, what a plugin prints goes to stderr: stdout is for answers.

    So does what bypasses `sys.stdout`, by descriptor 1 or in a process of its own, if there is no other thread that
    could be writing an answer meanwhile.
    """
    saved = _put_aside()
    try:
        with printing_aside():
            yield
    finally:
        if saved is not None:
            _flush()
            os.dup2(saved, 1)
            os.close(saved)


@contextmanager
def printing_aside() -> Iterator[None]:
    """Within it, what is written to `sys.stdout` goes to stderr."""
    before, sys.stdout = sys.stdout, sys.stderr
    try:
        yield
    finally:
        sys.stdout = before


@contextmanager
def remarked() -> Iterator[list[str]]:
    """Within it, what is warned of is for the plugin's author: it is in the list afterwards, one line each."""
    import warnings

    remarks: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        yield remarks
    texts = (f"it warned: {_cut(f'{each.category.__name__}: {each.message}')}" for each in caught)
    remarks += list(dict.fromkeys(texts))[:_REMARKS]


def told(error: BaseException) -> str:
    """An error of a plugin as one line; one of jobq's own checks without its class."""
    text = described(error)
    return _cut(text.removeprefix("PluginError: ") if isinstance(error, PluginError) else text)


def _put_aside() -> int | None:
    """Let descriptor 1 be stderr; a copy of what it was. None where it is left alone."""
    threading = sys.modules.get("threading")  # who has not imported it has no other thread
    threads = () if threading is None else threading.enumerate()
    if sum(thread.name != _WATCH for thread in threads) > 1 or not _flush():
        return None
    try:
        saved = os.dup(1)
    except OSError:  # a program without a stdout
        return None
    try:
        os.dup2(2, 1)
    except OSError:
        os.close(saved)
        return None
    return saved


def _flush() -> bool:
    """Write what is still in the buffers of stdout; whether nothing is left there."""
    for stream in (sys.stdout, sys.__stdout__):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            return False
    return True


def _cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TOLD else f"{line[:_TOLD]}…"
