"""Loads one plugin: imports it, checks its hooks and asks it for its records. The one module that touches pluggy."""

from __future__ import annotations

import inspect
import sys
import time

import pluggy

from jobq.errors import PluginError
from jobq.hooks import MARK
from jobq.pluginchecks import check_record, unknown_hooks
from jobq.pluginimport import aside, import_plugin, remarked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from jobq.pluginscan import Plugin

_OFFERS = {"stores": "store", "executors": "executor", "backoffs": "backoff", "wrappers": "wrapper"}


class _Manager(pluggy.PluginManager):
    """pluggy's, which also knows the mark of `jobq.hooks`."""

    def parse_hookimpl_opts(self, plugin: Any, name: str) -> Any:
        """Let pluggy's own marker mark what bears ours."""
        function = getattr(plugin, name)
        options = getattr(function, MARK, None) if inspect.isroutine(function) else None
        if isinstance(options, dict):
            pluggy.HookimplMarker("jobq")(**options)(getattr(function, "__func__", function))
        return super().parse_hookimpl_opts(plugin, name)


class Loader:
    """The plugins that are loaded in this process. What a plugin raises is passed on, PluginError is added to it."""

    def __init__(self) -> None:
        from jobq import hookspecs

        self._manager = _Manager("jobq")
        self._manager.add_hookspecs(hookspecs)
        self._loaded: dict[int, Any] = {}

    def has_loaded(self, plugin: Plugin) -> bool:
        """Whether it is imported and sound."""
        return id(plugin) in self._loaded

    def inspect(self, plugin: Plugin) -> None:
        """Import a plugin and note what it implements and offers.

        Raises:
            PluginError: it implements nothing, or what it hands over is not sound.
        """
        loaded = self._load(plugin)
        callers = self._manager.get_hookcallers(loaded) or ()
        plugin.hooks = tuple(sorted(caller.name for caller in callers if caller.has_spec()))
        if not plugin.hooks:
            raise PluginError(f"it implements no hook of jobq{self._unmarked(loaded)}")
        offers: dict[str, tuple[str, ...]] = {}
        summaries: dict[str, str] = {}
        for hook, kind in _OFFERS.items():
            providers = self.handed(plugin, f"jobq_{hook}")
            offers[kind] = tuple(provider.name for provider in providers)
            summaries |= {f"{kind} {provider.name}": provider.summary for provider in providers}
        commands = self.handed(plugin, "jobq_commands")
        offers["command"] = tuple(str(command.name) for command in commands)
        summaries |= {f"command {command.name}": command.get_short_help_str() for command in commands}
        plugin.offers = {kind: names for kind, names in offers.items() if names}
        plugin.summaries = summaries
        plugin.options = tuple(self.handed(plugin, "jobq_options"))

    def handed(self, plugin: Plugin, hook: str) -> list[Any]:
        """What one plugin hands over through one hook, checked; nothing where it does not implement it.

        Raises:
            PluginError: a record is not what the hook asks for.
        """
        if plugin.hooks and hook not in plugin.hooks:
            return []
        implementation = self._implementation(plugin, hook)
        if implementation is None:
            return []
        with aside(), remarked():
            records = list(implementation.function())
        for record in records:
            check_record(hook, record)
        return records

    def call(self, plugin: Plugin, hook: str, names: tuple[str, ...]) -> Callable[..., Any]:
        """A plugin's implementation of a hook, as a call that takes arguments of these names, in order."""
        implementation = self._implementation(plugin, hook)
        places = [names.index(name) for name in implementation.argnames]  # it need not name all of them

        def call(*given: Any) -> Any:
            return implementation.function(*[given[place] for place in places])

        return call

    def _load(self, plugin: Plugin) -> Any:
        """The plugin's module or object, imported and registered; each at most once."""
        if id(plugin) in self._loaded:
            return self._loaded[id(plugin)]
        start = time.perf_counter()
        with aside(), remarked() as remarks:
            loaded = import_plugin(plugin)
        plugin.import_ms = round((time.perf_counter() - start) * 1000, 3)
        plugin.remarks = tuple(dict.fromkeys((*plugin.remarks, *remarks)))
        module = sys.modules.get(getattr(loaded, "__name__", "") or type(loaded).__module__)
        plugin.origin = str(getattr(module, "__file__", None) or "")
        if self._manager.is_registered(loaded):
            raise PluginError(f"it is the very same object as plugin {self._manager.get_name(loaded)}")
        self._manager.register(loaded, name=plugin.title)
        try:
            self._check_hooks(loaded)
        except PluginError:
            self._manager.unregister(loaded)
            raise
        self._loaded[id(plugin)] = loaded
        return loaded

    def _check_hooks(self, loaded: Any) -> None:
        """Check what pluggy does not: that each hook is one of jobq's, and is called as jobq calls it."""
        unknown = []
        for caller in self._manager.get_hookcallers(loaded) or ():
            for implementation in caller.get_hookimpls():
                if implementation.plugin is not loaded:
                    continue
                if not caller.has_spec() and not implementation.optionalhook:
                    unknown.append(caller.name)
                if implementation.wrapper or implementation.hookwrapper:
                    raise PluginError(f"its {caller.name} is a wrapper of hooks, which jobq does not call")
                if inspect.iscoroutinefunction(implementation.function):
                    raise PluginError(f"its {caller.name} is async, and nobody would await it")
        if unknown:
            raise PluginError(unknown_hooks(unknown, self._known_hooks()))

    def _known_hooks(self) -> list[str]:
        return sorted(name for name, caller in vars(self._manager.hook).items() if caller.has_spec())

    def _unmarked(self, loaded: Any) -> str:
        names = [name for name in self._known_hooks() if callable(getattr(loaded, name, None))]
        return f"; {' and '.join(names)} must be marked with @jobq.hookimpl" if names else ""

    def _implementation(self, plugin: Plugin, hook: str) -> Any:
        loaded = self._load(plugin)
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            if implementation.plugin is loaded:
                return implementation
        return None
