"""The plugins of a process: which there are, which of them work, and what is used of each.

A plugin that cannot be loaded breaks only itself: it is reported, and only asking for it, or for what it offers,
fails. What a scan found is remembered in the home (`jobq.plugincache`), so that a command imports only what it needs.
"""

from __future__ import annotations

from jobq.errors import JobqError, PluginError, described, traceback_of
from jobq.hooks import implementation
from jobq.light import cached_property, contextmanager, suppress
from jobq.pluginimport import aside, import_plugin, printing_aside, remarked, told, watched
from jobq.pluginscan import Plugin, Scan, is_file, plugin_of_file, scan_installed
from jobq.providers import Provider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from typing import Any

    import click

    from jobq.annotating import Annotator
    from jobq.notify import Notifier
    from jobq.plugincache import PluginCache
    from jobq.pluginloader import Loader
    from jobq.providers import Context, Option
    from jobq.settings import Settings
    from jobq.wrapping import AttemptWrapper

_QUICK_MS = 500.0
"""A plugin whose import took less than this when it was looked at is not watched when it is only used."""


class Plugins:
    """The plugins of this process.

    Args:
        cache: where scans are remembered; None scans afresh.
        blocked: names of plugins that are not to be loaded.
        asked: what `-p` asked for: entry-point names or paths of files. `require_asked` tells whether they work.
        warn: hears of a plugin that fails only when it is used, or whose import takes long.
        afresh: look at every plugin again, whatever is remembered of it.

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
        afresh: bool = False,
    ) -> None:
        self._warn = warn
        known = cache.load() if cache is not None else None
        scan = known or scan_installed()
        names = [handler.name for handler in scan.handlers]
        self.handlers = {handler.name: handler for handler in scan.handlers if names.count(handler.name) == 1}
        self.ambiguous = tuple(handler for handler in scan.handlers if handler.name not in self.handlers)
        self.all: list[Plugin] = list(scan.plugins)
        self._asked = tuple(dict.fromkeys(asked))
        self.all += [plugin_of_file(path) for path in self._asked if is_file(path)]
        out_of_use = set(blocked)
        every = learnt = afresh or known is None
        for plugin in self.all:
            before = plugin.status
            if plugin.name in out_of_use:
                plugin.status, plugin.error = "blocked", ""
            elif plugin.fault is None and (every or before != "ok" or self._is_asked_for(plugin)):
                self._inspect(plugin)
                learnt = learnt or (plugin.status != before and bool(plugin.distribution))
        if cache is not None and learnt:
            cache.save(Scan([plugin for plugin in self.all if plugin.distribution], scan.handlers))
        _refuse_clashes(self.all)

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
                    raise PluginError(f"plugin {plugin.title}: {plugin.error or 'it is blocked'}") from plugin.fault

    @property
    def problems(self) -> list[str]:
        """What is wrong, one sentence for each plugin that failed."""
        return self.reports(full=False)

    def reports(self, *, full: bool) -> list[str]:
        """As `problems`; a `full` one has the traceback on further lines, where there is one."""
        reports = []
        for plugin in self.all:
            if plugin.status == "failed":
                traceback = f"\n{traceback_of(plugin.fault)}" if full and plugin.fault is not None else ""
                reports.append(f"plugin {plugin.title}: {plugin.error}{traceback}")
        return reports

    def options(self) -> list[Option]:
        """The settings of all plugins, also those of blocked ones, so that their values stay valid."""
        return [option for plugin in self.all for option in plugin.options]

    def provider(self, kind: str, name: str) -> Provider[Any]:
        """The provider of the store, executor or backoff (`kind`) of this name.

        Its `make` raises PluginError, which names the plugin, where making it fails or gives something else; errors
        of jobq's own tree are passed on.

        Raises:
            PluginError: nobody offers it, the plugin that does is broken or blocked, or two do.
        """
        plugin = self.offering(kind, name)
        what = f"the {kind} {name!r} of plugin {plugin.title}"
        try:
            with self._watching(plugin):
                providers = self._offered_by(plugin, f"jobq_{kind}s")
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            raise PluginError(f"{what} cannot be used: {told(error)}") from error
        for provider in providers:
            if isinstance(provider, Provider) and provider.name == name:
                return Provider(name=name, summary=provider.summary, make=_guarded(provider.make, what, kind))
        raise PluginError(f"plugin {plugin.title} no longer offers the {kind} {name!r}")

    def offering(self, kind: str, name: str) -> Plugin:
        """The plugin that offers the store, executor or backoff (`kind`) of this name; it may be not yet imported.

        Raises:
            PluginError: there is none, it is broken or blocked, or there are two.
        """
        offering = [plugin for plugin in self.all if name in plugin.offers.get(kind, ())]
        for plugin in offering:
            if plugin.status != "ok":
                why = plugin.error or "it is blocked"
                message = f"the {kind} {name!r} comes with plugin {plugin.title}, which cannot be used: {why}"
                raise PluginError(message) from plugin.fault
        if not offering:
            raise PluginError(f"no plugin offers the {kind} {name!r}; {self._offered(kind)}")
        (plugin,) = offering
        return plugin

    def commands(self) -> list[tuple[Plugin, click.Command]]:
        """The commands that plugins add, each with its plugin."""
        commands: list[tuple[Plugin, click.Command]] = []
        for plugin in self._using("command" in plugin.offers for plugin in self.all):
            with self._failing_alone(plugin):
                commands += [(plugin, command) for command in self._loader.handed(plugin, "jobq_commands")]
        return commands

    def notifiers(self, settings: Settings) -> list[Notifier]:
        """Every plugin that wants to hear of events; one that some setting must activate, only if one does."""
        active = list(self._active("jobq_notify", settings, "event", "settings"))
        if not active:
            return []
        from jobq.notify import Notifier

        return [Notifier(f"notifier {plugin.title}", call) for plugin, call in active]

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
                providers = self._loader.handed(plugin, "jobq_wrappers")
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
            call = None
            with self._failing_alone(plugin):
                call = self._loader.call(plugin, hook, names)
            if call is not None:
                yield plugin, call

    def _using(self, wanted: Iterable[bool]) -> list[Plugin]:
        return [plugin for plugin, use in zip(self.all, wanted, strict=True) if use and plugin.status == "ok"]

    @contextmanager
    def _failing_alone(self, plugin: Plugin) -> Iterator[None]:
        """A plugin that was fine when it was scanned and fails now is reported, and the others go on."""
        try:
            with self._watching(plugin):
                yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            plugin.status, plugin.error, plugin.fault = "failed", told(error), error
            self._warn(f"plugin {plugin.title}: {plugin.error}")

    def _watching(self, plugin: Plugin) -> AbstractContextManager[None]:
        known = plugin.import_ms < _QUICK_MS if self._only_remembered else self._loader.has_loaded(plugin)
        return suppress() if known else watched(plugin, self._warn)

    @cached_property
    def _loader(self) -> Loader:
        from jobq.pluginloader import Loader

        return Loader()

    @property
    def _only_remembered(self) -> bool:
        """Whether no plugin was looked at in this process: each is what it was when it was."""
        return "_loader" not in self.__dict__

    def _offered_by(self, plugin: Plugin, hook: str) -> list[Any]:
        """What a plugin hands over through a hook; a remembered one is asked without pluggy, which found it sound."""
        if self._only_remembered and plugin.distribution:
            with aside(), remarked():
                function = implementation(import_plugin(plugin), hook)
                records = None if function is None else list(function())
            if records is not None and all(
                isinstance(record, Provider) and callable(record.make) for record in records
            ):
                return records
        return self._loader.handed(plugin, hook)

    def _is_asked_for(self, plugin: Plugin) -> bool:
        return not plugin.distribution or plugin.name in self._asked

    def _inspect(self, plugin: Plugin) -> None:
        try:
            with self._watching(plugin):
                self._loader.inspect(plugin)
            plugin.status, plugin.error = "ok", ""
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            plugin.status, plugin.error, plugin.fault = "failed", told(error), error

    def _offered(self, kind: str) -> str:
        known = sorted({name for p in self.all if p.status == "ok" for name in p.offers.get(kind, ())})
        unusable = sorted({f"{p.name} is {p.status}" for p in self.all if p.status != "ok" and not p.offers})
        return "; ".join([f"there is: {', '.join(known) or 'none'}", *unusable])


def _guarded(make: Callable[..., Any], what: str, kind: str) -> Callable[..., Any]:
    """A provider's `make`, whose faults are told by the name of what it makes."""

    def made(settings: Settings, context: Context) -> Any:
        try:
            with printing_aside():
                thing = make(settings, context)
        except (JobqError, KeyboardInterrupt):
            raise
        except BaseException as error:
            raise PluginError(f"{what} cannot be made: {described(error)}") from error
        interface = _interface(kind)
        if not isinstance(thing, interface):
            raise PluginError(f"{what} cannot be used: its make gave {thing!r}, which is no {interface.__name__}")
        return thing

    return made


def _interface(kind: str) -> type:
    """What a provider's `make` is to give an instance of."""
    if kind == "store":
        from jobq.store import Store

        return Store
    if kind == "executor":
        from jobq.executor import Executor

        return Executor
    from jobq.backoff import Backoff

    return Backoff


def _refuse_clashes(plugins: Iterable[Plugin]) -> None:
    """A name that two plugins offer is an error of both that names both: no order decides."""
    owners: dict[tuple[str, str], Plugin] = {}
    for plugin in plugins:
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
