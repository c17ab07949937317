"""The composition root: the one place where settings, plugins, store, executor and the rest meet.

Everything is made when it is first asked for, so that a command pays only for what it uses.
"""

from __future__ import annotations

import os
import sys

from jobq.clock import Clock, SystemClock
from jobq.config import CONFIG_NAME, config_reader
from jobq.errors import InvalidInput, NotSupported, PluginError, StoreUnavailable
from jobq.home import locate
from jobq.light import cached_property
from jobq.options import KERNEL_OPTIONS
from jobq.plugincache import PluginCache
from jobq.plugins import Plugins
from jobq.providers import Context
from jobq.settings import Settings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime, timedelta
    from typing import Any

    from jobq.annotating import Annotations
    from jobq.clock import Random
    from jobq.executor import Executor, Outcome
    from jobq.handlers import Handler
    from jobq.job import Job
    from jobq.notify import Notifications
    from jobq.store import Store
    from jobq.wrapping import Wrapping


def _warn(message: str) -> None:
    print(f"jobq: {message}", file=sys.stderr)  # noqa: T201 - where a program handed in nothing better


def _here() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:  # removed under the shell's feet: no `.jobq` is to be found there
        return os.sep


class App:
    """One process's jobq.

    Args:
        home: the home directory asked for, or None.
        flags: settings given by the caller, as text; they go before all others.
        plugins: what `-p` said: `NAME`, `./file.py`, `no:NAME`.
        environ: the environment.
        clock: the time.
        warn: hears of trouble that is no error.
        debug: whether it also hears the traceback of a plugin that fails.
        store, executor: to be used instead of those that the settings choose.

    Attributes:
        home_exists: whether the home was there at the start, or was made since.

    Raises:
        NotSupported: the platform cannot keep the promises.
        UnsafeHome: the home is not ours alone, or not trusted.
    """

    def __init__(
        self,
        *,
        home: str | None = None,
        flags: Mapping[str, str] | None = None,
        plugins: Sequence[str] = (),
        environ: Mapping[str, str] = os.environ,
        clock: Clock | None = None,
        warn: Callable[[str], None] = _warn,
        debug: bool = False,
        store: Store | None = None,
        executor: Executor | None = None,
    ) -> None:
        if os.name != "posix":
            raise NotSupported("jobq needs Linux or macOS: it relies on their file locks and process groups")
        self.home = locate(home, environ, _here())
        self.clock = clock or SystemClock()
        self.warn = warn
        self._debug = debug
        self._flags = dict(flags or {})
        self._asked = tuple(plugins)
        self._environ = environ
        self.home_exists = self.home.exists()
        self._home_marked = False
        if store is not None:
            self.store = store
        self._given_executor = executor
        self._closed = False

    @cached_property
    def plugins(self) -> Plugins:
        """The plugins; those that cannot be loaded are told once.

        Raises:
            PluginError: one that was asked for cannot be loaded, or with `plugins.strict` any.
        """
        # Strictness is not for what once was: a remembered plugin may fail today, and only when it is used.
        strict = self._kernel_settings["plugins.strict"]
        plugins = self.find_plugins(self.warn, afresh=strict)
        plugins.require_asked()
        reports = plugins.reports(full=self._debug)
        if strict and reports:
            raise PluginError(
                "\n".join([*reports, "plugins.strict is set: nothing is done while a plugin cannot be used"])
            )
        for report in reports:
            self.warn(report)
        return plugins

    def find_plugins(self, warn: Callable[[str], None], *, afresh: bool = False) -> Plugins:
        """The plugins in whatever state: nothing is required of them.

        Args:
            warn: hears of one that takes long, or fails only when it is used.
            afresh: look at each one again, whatever is remembered of it.
        """
        kernel = self._kernel_settings
        blocked = [*kernel["plugins.block"], *(name[3:] for name in self._asked if name.startswith("no:"))]
        asked = [name for name in self._asked if not name.startswith("no:")]
        cache = PluginCache(self.home.directory) if self.home_exists else None
        return Plugins(cache=cache, blocked=blocked, asked=asked, warn=warn, afresh=afresh)

    @cached_property
    def settings(self) -> Settings:
        """The settings in force, those of plugins too."""
        options = (*KERNEL_OPTIONS, *self.plugins.options())
        settings = Settings(
            options, self._read_config, environ=self._environ, flags=self._flags, home=self.home.directory
        )
        if settings.unknown:
            self.warn(f"{self.config_path}: no setting {', '.join(settings.unknown)}; `jobq config list` shows all")
        return settings

    @property
    def config_path(self) -> str:
        """Where config.toml is, or would be."""
        return f"{self.home.directory}/{CONFIG_NAME}"

    @cached_property
    def handlers(self) -> Mapping[str, Handler]:
        """The installed handlers by name; config.toml's go before those of distributions."""
        from jobq.handlers import Handler

        configured = {
            name: Handler(name=name, target=target, distribution=CONFIG_NAME)
            for name, target in self.settings.handlers.items()
        }
        return {**self.plugins.handlers, **configured}

    @cached_property
    def store(self) -> Store:
        """The chosen store.

        Raises:
            InvalidInput: the setting names none.
            PluginError: nobody offers it.
            StoreError: it cannot be used.
        """
        if self._closed:
            raise StoreUnavailable("this queue was closed")
        return self.store_at(self.settings["store"])

    def store_at(self, url: str) -> Store:
        """The store of a URL, as the setting `store` takes it; whoever asks for it closes it.

        Raises:
            InvalidInput: it names none.
            PluginError: nobody offers it.
            StoreError: it cannot be used.
        """
        scheme, _, address = url.partition(":")
        if not scheme:
            raise InvalidInput("store", url, "must begin with a store's name and a colon, as json:")
        return self._made("store", scheme, address)  # type: ignore[no-any-return]

    @cached_property
    def executor(self) -> Executor:
        """The chosen executor.

        Raises:
            PluginError: nobody offers it.
        """
        return self._given_executor or self._made("executor", self.settings["executor"])

    @cached_property
    def notifications(self) -> Notifications | None:
        """Whoever wants to hear of events; None where nobody does."""
        notifiers = self.plugins.notifiers(self.settings)
        if not notifiers:
            return None
        from jobq.notify import Notifications

        return Notifications(notifiers, self.settings, self.warn)

    @cached_property
    def annotations(self) -> Annotations | None:
        """What plugins add to new jobs; None where none does."""
        annotators = self.plugins.annotators(self.settings)
        if not annotators:
            return None
        from jobq.annotating import Annotations

        return Annotations(annotators, self.settings, self.warn)

    @cached_property
    def wrapping(self) -> Wrapping | None:
        """What plugins do around attempts; None where none does."""
        providers = self.plugins.wrappers(self.settings)
        if not providers:
            return None
        from jobq.wrapping import Wrapping

        return Wrapping(providers, self.settings, self._context({}), self.warn)

    def tell(self, kind: str, job: Job, *, run: int | None = None, time: datetime | None = None) -> None:
        """Tell notifiers, if there are any, that this happened to a job.

        Args:
            kind: an `EventKind` by its value.
            job: after the change.
            run: which run it is about; None: its latest.
            time: when; None: now.
        """
        if self.notifications:
            from jobq.events import Event, EventKind

            number = job.run if run is None else run
            self.notifications.send(Event(EventKind(kind), job, number, time or self.clock.now()))

    def delay(self, random: Random) -> Callable[[int, Outcome], timedelta | None]:
        """The chosen backoff: the wait after so many failures, the last one with that outcome; None gives up.

        Raises:
            PluginError: nobody offers it.
        """
        from jobq.backoff import guarded

        name = self.settings["backoff"]
        made = self._made("backoff", name)
        title = f"{name} of plugin {self.plugins.offering('backoff', name).title}"
        return guarded(made, title, self.settings, random, self.warn)

    def create_home(self) -> None:
        """Make the home if it is not there: before the first write."""
        if not self.home_exists:
            self.home.create()
        elif not self._home_marked:
            self.home.mark()
        self.home_exists = self._home_marked = True

    def close_executor(self) -> None:
        """End what the executor keeps running; another one is made when it is next asked for."""
        executor: Executor | None = self.__dict__.pop("executor", None)
        if executor is not None:
            executor.close()

    def close(self) -> None:
        """Free everything that was made."""
        made = self.__dict__
        if made.get("notifications") is not None:
            made["notifications"].close()
        self.close_executor()
        self._closed = True
        if "store" in made:
            made.pop("store").close()

    def _made(self, kind: str, name: str, url: str = "") -> Any:
        provider = self.plugins.provider(kind, name)
        context = self._context(self.handlers, self.wrapping) if kind == "executor" else self._context({}, url=url)
        return provider.make(self.settings, context)

    def _context(self, handlers: Mapping[str, Handler], wrapping: Wrapping | None = None, url: str = "") -> Context:
        return Context(
            directory=self.home.directory,
            url=url,
            clock=self.clock,
            handlers=handlers,
            warn=self.warn,
            asked=self._asked,
            wrapping=wrapping,
        )

    @cached_property
    def _kernel_settings(self) -> Settings:
        """Those that must be known before any plugin is, read with the kernel's table alone."""
        return Settings(KERNEL_OPTIONS, self._read_config, environ=self._environ, flags=self._kernel_flags())

    def _kernel_flags(self) -> dict[str, str]:
        own = {name for option in KERNEL_OPTIONS for name in (option.name, *option.aliases)}
        return {name: text for name, text in self._flags.items() if name.replace("_", "-") in own}

    @cached_property
    def _read_config(self) -> Callable[[], tuple[Mapping[str, Any], object]]:
        if not self.home_exists:
            return lambda: ({}, None)
        return config_reader(self.config_path)
