"""Finds, checks and loads plugins: the one module that touches pluggy.

A plugin that cannot be loaded breaks only itself: it is reported, and only asking for it, or for what it offers,
fails. What a scan found is remembered in the home (`jobq.plugincache`), so that a command imports only what it needs.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
import time
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pluggy

from jobq.errors import PluginError
from jobq.handlers import Handler
from jobq.notify import Notifier
from jobq.providers import Option, Provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import click

    from jobq.plugincache import PluginCache

hookimpl = pluggy.HookimplMarker("jobq")

GROUP = "jobq"
HANDLER_GROUP = "jobq.handlers"
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
_OFFERS = {"stores": "store", "executors": "executor", "backoffs": "backoff"}


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


class Plugins:
    """The plugins of this process.

    Args:
        cache: where scans are remembered; None scans afresh.
        blocked: names of plugins that are not to be loaded.
        asked: what `-p` asked for: entry-point names or paths of files.

    Raises:
        PluginError: one that was asked for is missing, blocked or broken.
    """

    def __init__(
        self, *, cache: PluginCache | None = None, blocked: Iterable[str] = (), asked: Iterable[str] = ()
    ) -> None:
        from jobq import hookspecs

        self._manager = pluggy.PluginManager(GROUP)
        self._manager.add_hookspecs(hookspecs)
        self._loaded: dict[int, Any] = {}
        known = cache.load() if cache is not None else None
        scan = known or scan_installed()
        self.handlers = {handler.name: handler for handler in reversed(scan.handlers)}
        self.all: list[Plugin] = list(scan.plugins)
        names = [name for name in asked if not _is_file(name)]
        self.all += [Plugin(os.path.basename(p).removesuffix(".py"), p, "", "") for p in asked if _is_file(p)]
        learnt = known is None
        for plugin in self.all:
            if plugin.name in set(blocked):
                plugin.status, plugin.error = "blocked", ""
            elif known is None or plugin.status != "ok" or not plugin.distribution:
                self._inspect(plugin)
                learnt = learnt or (plugin.status == "ok" and bool(plugin.distribution))
        if cache is not None and learnt:
            cache.save(Scan([plugin for plugin in self.all if plugin.distribution], scan.handlers))
        self._refuse_clashes()
        for name in (*names, *(p.name for p in self.all if not p.distribution)):
            self._require(name)

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence for each plugin that failed."""
        return [f"plugin {plugin.title}: {plugin.error}" for plugin in self.all if plugin.status == "failed"]

    def options(self) -> list[Option]:
        """The settings of all plugins, also those of blocked ones, so that their values stay valid."""
        return [option for plugin in self.all for option in plugin.options]

    def provider(self, kind: str, name: str) -> Provider[Any]:
        """The provider of the store, executor or backoff (`kind`) of this name.

        Raises:
            PluginError: nobody offers it, the plugin that does is broken or blocked, or two do.
        """
        offering = [plugin for plugin in self.all if name in plugin.offers.get(kind, ())]
        for plugin in offering:
            if plugin.status != "ok":
                why = plugin.error or "it is blocked"
                raise PluginError(f"the {kind} {name!r} comes with plugin {plugin.title}, which cannot be used: {why}")
        if not offering:
            known = sorted({n for p in self.all if p.status == "ok" for n in p.offers.get(kind, ())})
            raise PluginError(f"no installed plugin offers the {kind} {name!r}; there is: {', '.join(known) or 'none'}")
        (plugin,) = offering
        for provider in self._handed(plugin, f"jobq_{kind}s"):
            if provider.name == name:
                found: Provider[Any] = provider
                return found
        raise PluginError(f"plugin {plugin.title} no longer offers the {kind} {name!r}")

    def commands(self) -> list[tuple[Plugin, click.Command]]:
        """The commands that plugins add, each with its plugin."""
        return [
            (plugin, command)
            for plugin in self.all
            if plugin.status == "ok" and plugin.offers.get("command")
            for command in self._handed(plugin, "jobq_commands")
        ]

    def notifiers(self) -> list[Notifier]:
        """Every plugin that wants to hear of events."""
        return [
            Notifier(f"notifier {plugin.title}", _keywords(self._implementation(plugin, "jobq_notify")))
            for plugin in self.all
            if plugin.status == "ok" and "jobq_notify" in plugin.hooks
        ]

    def _require(self, name: str) -> None:
        """Fail unless the plugin of this name is there and works."""
        found = [plugin for plugin in self.all if plugin.name == name]
        if not found:
            raise PluginError(f"no installed plugin is named {name!r}; `jobq plugins` lists them")
        for plugin in found:
            if plugin.status != "ok":
                raise PluginError(f"plugin {plugin.title}: {plugin.error or 'it is blocked'}")

    def _inspect(self, plugin: Plugin) -> None:
        """Import a plugin and note what it implements and offers."""
        try:
            loaded = self._load(plugin)
            plugin.hooks = tuple(sorted(c.name for c in self._manager.get_hookcallers(loaded) or ()))
            if not plugin.hooks:
                raise PluginError("it implements no hook of jobq")
            offers = {}
            for hook, kind in _OFFERS.items():
                offers[kind] = tuple(p.name for p in self._handed(plugin, f"jobq_{hook}"))
            offers["command"] = tuple(str(command.name) for command in self._handed(plugin, "jobq_commands"))
            plugin.offers = {kind: names for kind, names in offers.items() if names}
            plugin.options = tuple(self._handed(plugin, "jobq_options"))
            plugin.status, plugin.error = "ok", ""
        except (Exception, SystemExit) as error:
            plugin.status, plugin.error = "failed", _told(error)

    def _load(self, plugin: Plugin) -> Any:
        """The plugin's module or object, imported and registered; each at most once."""
        if id(plugin) in self._loaded:
            return self._loaded[id(plugin)]
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loaded = _import(plugin)
        plugin.import_ms = round((time.perf_counter() - start) * 1000, 3)
        module = sys.modules.get(getattr(loaded, "__name__", "") or type(loaded).__module__)
        plugin.origin = getattr(module, "__file__", None) or ""
        if self._manager.is_registered(loaded):
            raise PluginError("another plugin is the very same object")
        self._manager.register(loaded, name=f"{plugin.name} {plugin.distribution}")
        unknown = [c.name for c in self._manager.get_hookcallers(loaded) or () if not c.has_spec()]
        if unknown:
            self._manager.unregister(loaded)
            raise PluginError(f"it implements {', '.join(unknown)}, which this version of jobq does not know")
        self._loaded[id(plugin)] = loaded
        return loaded

    def _implementation(self, plugin: Plugin, hook: str) -> Any:
        loaded = self._load(plugin)
        for implementation in getattr(self._manager.hook, hook).get_hookimpls():
            if implementation.plugin is loaded:
                return implementation
        return None

    def _handed(self, plugin: Plugin, hook: str) -> list[Any]:
        """What one plugin hands over through one hook, checked."""
        if plugin.hooks and hook not in plugin.hooks:
            return []
        implementation = self._implementation(plugin, hook)
        if implementation is None:
            return []
        records = list(implementation.function())
        for record in records:
            _check(hook, record)
        return records

    def _refuse_clashes(self) -> None:
        """A name that two plugins offer is an error of both that names both: no order decides."""
        owners: dict[tuple[str, str], Plugin] = {}
        for plugin in self.all:
            if plugin.status != "ok":
                continue
            mine = [(kind, name) for kind, names in plugin.offers.items() for name in names]
            mine += [("setting", option.name) for option in plugin.options]
            for key in mine:
                other = owners.setdefault(key, plugin)
                if other is not plugin:
                    kind, name = key
                    plugin.status = other.status = "failed"
                    plugin.error = f"the {kind} {name!r} is offered by {other.title} too; block one of the two"
                    other.error = f"the {kind} {name!r} is offered by {plugin.title} too; block one of the two"


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


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name


def _import(plugin: Plugin) -> Any:
    if not plugin.distribution:
        spec = importlib.util.spec_from_file_location(plugin.name, os.path.abspath(plugin.target))
        if spec is None or spec.loader is None or not os.path.isfile(plugin.target):
            raise PluginError(f"there is no Python file {plugin.target}")
        module = importlib.util.module_from_spec(spec)
        sys.modules[plugin.name] = module
        spec.loader.exec_module(module)
        return module
    module_name, _, attributes = plugin.target.partition(":")
    loaded: Any = importlib.import_module(module_name)
    for attribute in attributes.split(".") if attributes else ():
        loaded = getattr(loaded, attribute)
    return loaded


def _check(hook: str, record: object) -> None:
    """A record handed over is of the hook's type, and its name one that settings can say."""
    if hook == "jobq_commands":
        if not isinstance(getattr(record, "name", None), str) or not hasattr(record, "callback"):
            raise PluginError(f"{hook} handed over {record!r}, which is no click command")
        return
    kind = Option if hook == "jobq_options" else Provider
    if not isinstance(record, kind):
        raise PluginError(f"{hook} handed over {record!r}, which is no {kind.__name__}")
    if isinstance(record, Option):
        if "." not in record.name:
            raise PluginError(f"its setting {record.name!r} must be in a table of its own, as example.{record.name}")
    elif not _NAME.fullmatch(record.name):
        raise PluginError(f"{record.name!r} is no name: lower-case letters, digits, - and _")


def _keywords(implementation: Any) -> Callable[..., None]:
    """A call with exactly those of the hook's arguments that the implementation names."""

    def call(event: Any, settings: Any) -> None:
        given = {"event": event, "settings": settings}
        implementation.function(*[given[name] for name in implementation.argnames])

    return call


def _told(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, PluginError) else f"{type(error).__name__}: {text}".rstrip(": ")
