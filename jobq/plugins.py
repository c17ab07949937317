"""Finds, checks and loads plugins: the one module that touches pluggy.

A plugin that cannot be loaded breaks only itself: it is reported, and only asking for it, or for what it offers,
fails. What a scan found is remembered in the home (`jobq.plugincache`), so that a command imports only what it needs.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import pluggy

from jobq.errors import PluginError
from jobq.notify import Notifier
from jobq.pluginscan import Plugin, Scan, check_record, import_plugin, is_file, plugin_of_file, scan_installed, told
from jobq.providers import Provider

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import click

    from jobq.annotating import Annotator
    from jobq.plugincache import PluginCache
    from jobq.providers import Context, Option
    from jobq.settings import Settings
    from jobq.wrapping import AttemptWrapper

hookimpl = pluggy.HookimplMarker("jobq")

_OFFERS = {"stores": "store", "executors": "executor", "backoffs": "backoff", "wrappers": "wrapper"}


class Plugins:
    """The plugins of this process.

    Args:
        cache: where scans are remembered; None scans afresh.
        blocked: names of plugins that are not to be loaded.
        asked: what `-p` asked for: entry-point names or paths of files. `require_asked` tells whether they work.
        warn: hears of a plugin that fails only when it is used.

    Attributes:
        all: the plugins, sorted by name and distribution, those given as files last.
        handlers: the handlers of distributions, by name.
        ambiguous: the handlers whose name several distributions offer: none of them is in `handlers`.
    """

    def __init__(
        self,
        *,
        cache: PluginCache | None = None,
        blocked: Iterable[str] = (),
        asked: Iterable[str] = (),
        warn: Callable[[str], None] = lambda message: None,
    ) -> None:
        from jobq import hookspecs

        self._manager = pluggy.PluginManager("jobq")
        self._manager.add_hookspecs(hookspecs)
        self._loaded: dict[int, Any] = {}
        self._warn = warn
        known = cache.load() if cache is not None else None
        scan = known or scan_installed()
        names = Counter(handler.name for handler in scan.handlers)
        self.handlers = {handler.name: handler for handler in scan.handlers if names[handler.name] == 1}
        self.ambiguous = tuple(handler for handler in scan.handlers if names[handler.name] > 1)
        self.all: list[Plugin] = list(scan.plugins)
        self._asked = tuple(dict.fromkeys(asked))
        self.all += [plugin_of_file(path) for path in self._asked if is_file(path)]
        out_of_use = set(blocked)
        learnt = known is None
        for plugin in self.all:
            if plugin.name in out_of_use:
                plugin.status, plugin.error = "blocked", ""
            elif known is None or plugin.status != "ok" or not plugin.distribution:
                self._inspect(plugin)
                learnt = learnt or (plugin.status == "ok" and bool(plugin.distribution))
        if cache is not None and learnt:
            cache.save(Scan([plugin for plugin in self.all if plugin.distribution], scan.handlers))
        self._refuse_clashes()

    def require_asked(self) -> None:
        """Check that what `-p` asked for is there and works.

        Raises:
            PluginError: one is missing, blocked or broken.
        """
        for name in self._asked:
            found = [p for p in self.all if (p.target == name and not p.distribution) or p.name == name]
            if not found:
                raise PluginError(f"no installed plugin is named {name!r}; `jobq plugins` lists them")
            for plugin in found:
                if plugin.status != "ok":
                    raise PluginError(f"plugin {plugin.title}: {plugin.error or 'it is blocked'}")

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
            raise PluginError(f"no plugin offers the {kind} {name!r}; {self._offered(kind)}")
        (plugin,) = offering
        try:
            providers = self._handed(plugin, f"jobq_{kind}s")
        except (Exception, SystemExit) as error:
            raise PluginError(f"the {kind} {name!r} comes with plugin {plugin.title}: {told(error)}") from error
        for provider in providers:
            if provider.name == name:
                return Provider(name=name, summary=provider.summary, make=_quietly(provider.make))
        raise PluginError(f"plugin {plugin.title} no longer offers the {kind} {name!r}")

    def commands(self) -> list[tuple[Plugin, click.Command]]:
        """The commands that plugins add, each with its plugin."""
        commands: list[tuple[Plugin, click.Command]] = []
        for plugin in self._using("command" in plugin.offers for plugin in self.all):
            with self._failing_alone(plugin):
                commands += [(plugin, command) for command in self._handed(plugin, "jobq_commands")]
        return commands

    def notifiers(self, settings: Settings) -> list[Notifier]:
        """Every plugin that wants to hear of events; one that some setting must activate, only if one does."""
        return [
            Notifier(f"notifier {plugin.title}", call)
            for plugin, call in self._active("jobq_notify", settings, "event", "settings")
        ]

    def annotators(self, settings: Settings) -> list[Annotator]:
        """Every plugin that adds to the `meta` of new jobs; with what activates it, as `notifiers`."""
        found = list(self._active("jobq_meta", settings, "new", "settings"))
        if not found:
            return []
        from jobq.annotating import Annotator

        return [Annotator(f"plugin {plugin.title}", plugin.name, call) for plugin, call in found]

    def wrappers(self, settings: Settings) -> list[tuple[str, Provider[AttemptWrapper]]]:
        """Every wrapper of attempts, with the name to report it by; with what activates it, as `notifiers`."""
        wrappers: list[tuple[str, Provider[AttemptWrapper]]] = []
        for plugin in self._using_active("jobq_wrappers", settings):
            with self._failing_alone(plugin):
                providers = self._handed(plugin, "jobq_wrappers")
                wrappers += [(f"wrapper {provider.name} of plugin {plugin.title}", provider) for provider in providers]
        return wrappers

    def _using_active(self, hook: str, settings: Settings) -> list[Plugin]:
        """The plugins that implement a hook, but for those that some setting must activate where none does."""
        using = []
        for plugin in self._using(hook in plugin.hooks for plugin in self.all):
            switches = [option.name for option in plugin.options if option.activates]
            if not switches or any(settings[name] is not None for name in switches):
                using.append(plugin)
        return using

    def _active(self, hook: str, settings: Settings, *names: str) -> Iterator[tuple[Plugin, Callable[..., Any]]]:
        """What is to be called for a hook, with arguments of these names in their order."""
        for plugin in self._using_active(hook, settings):
            with self._failing_alone(plugin):
                yield plugin, _accepting(self._implementation(plugin, hook), names)

    def _using(self, wanted: Iterable[bool]) -> list[Plugin]:
        return [plugin for plugin, use in zip(self.all, wanted, strict=True) if use and plugin.status == "ok"]

    @contextmanager
    def _failing_alone(self, plugin: Plugin) -> Iterator[None]:
        """A plugin that was fine when it was scanned and fails now is reported, and the others go on."""
        try:
            yield
        except (Exception, SystemExit) as error:
            plugin.status, plugin.error = "failed", told(error)
            self._warn(f"plugin {plugin.title}: {plugin.error}")

    def _offered(self, kind: str) -> str:
        known = sorted({name for p in self.all if p.status == "ok" for name in p.offers.get(kind, ())})
        unusable = sorted({f"{p.name} is {p.status}" for p in self.all if p.status != "ok" and not p.offers})
        return "; ".join([f"there is: {', '.join(known) or 'none'}", *unusable])

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
            plugin.status, plugin.error = "failed", told(error)

    def _load(self, plugin: Plugin) -> Any:
        """The plugin's module or object, imported and registered; each at most once."""
        if id(plugin) in self._loaded:
            return self._loaded[id(plugin)]
        start = time.perf_counter()
        with _aside():
            loaded = import_plugin(plugin)
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
        with _aside():
            records = list(implementation.function())
        for record in records:
            check_record(hook, record)
        return records

    def _refuse_clashes(self) -> None:
        """A name that two plugins offer is an error of both that names both: no order decides."""
        owners: dict[tuple[str, str], Plugin] = {}
        for plugin in self.all:
            if plugin.status != "ok":
                continue
            mine = [(kind, name) for kind, names in plugin.offers.items() for name in names]
            mine += [("setting", name) for option in plugin.options for name in (option.name, *option.aliases)]
            for key in mine:
                other = owners.setdefault(key, plugin)
                kind, name = key
                if other is plugin and mine.count(key) > 1:
                    plugin.status, plugin.error = "failed", f"it offers the {kind} {name!r} twice"
                elif other is not plugin:
                    plugin.status = other.status = "failed"
                    plugin.error = f"the {kind} {name!r} is offered by {other.title} too; block one of the two"
                    other.error = f"the {kind} {name!r} is offered by {plugin.title} too; block one of the two"


@contextmanager
def _aside() -> Iterator[None]:
    """What a plugin prints goes to stderr, for stdout is for answers; what it warns of is for its author."""
    with warnings.catch_warnings(), redirect_stdout(sys.stderr):
        warnings.simplefilter("ignore")
        yield


def _quietly(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(settings: Settings, context: Context) -> Any:
        with redirect_stdout(sys.stderr):
            return make(settings, context)

    return made


def _accepting(implementation: Any, names: tuple[str, ...]) -> Callable[..., Any]:
    """A call that takes arguments of these names, in order, and passes on those that the implementation names."""
    places = [names.index(name) for name in implementation.argnames]

    def call(*given: Any) -> Any:
        return implementation.function(*[given[place] for place in places])

    return call
