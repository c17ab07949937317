"""Plugins without a distribution: objects that jobq's own loader takes for installed ones."""

from __future__ import annotations

import itertools
import sys
import types
from typing import TYPE_CHECKING, Any

from jobq import pluginscan
from jobq.plugincache import PluginCache
from jobq.pluginscan import Plugin, Scan

if TYPE_CHECKING:
    import pytest

_NUMBERS = itertools.count(1)


class AdHocPlugins:
    """What `register` is given is found, checked, listed and chosen by name beside what is installed.

    It holds for what is opened in this process from then on. Scans are not remembered meanwhile.

    Args:
        monkeypatch: undoes everything at the end of the test.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self._added: list[Plugin] = []
        monkeypatch.setattr("jobq.plugins.scan_installed", self._scan)
        monkeypatch.setattr(PluginCache, "load", lambda _cache: None)
        monkeypatch.setattr(PluginCache, "save", lambda _cache, _scan: None)

    def register(self, plugin: Any, name: str | None = None) -> str:
        """Add a module or object with hooks, as an entry point of this name would; the name."""
        number = next(_NUMBERS)
        holder: Any = types.ModuleType(f"adhoc_{number}")
        holder.plugin = plugin
        self._monkeypatch.setitem(sys.modules, holder.__name__, holder)
        name = name or f"adhoc-{number}"
        self._added.append(Plugin(name, f"{holder.__name__}:plugin", "adhoc", "0"))
        return name

    def _scan(self) -> Scan:
        scan = pluginscan.scan_installed()
        return Scan([*scan.plugins, *self._added], scan.handlers)
