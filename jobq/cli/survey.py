"""What there is and what is wrong with it: plugins and settings, looked at so that nothing broken stops the look."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jobq.cli.text import masked
from jobq.config import config_reader
from jobq.errors import InvalidInput, JobqError, PluginError
from jobq.options import KERNEL_OPTIONS
from jobq.plugins import Plugins
from jobq.settings import Settings, shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from jobq.app import App
    from jobq.cli.base import Globals
    from jobq.handlers import Handler
    from jobq.providers import Option


@dataclass(frozen=True, slots=True)
class Value:
    """One setting: its value, where that comes from, and what is wrong with it (then the value is the default)."""

    option: Option
    value: Any
    source: str
    problem: str = ""

    @property
    def text(self) -> str:
        """The value for people; passwords in URLs are `***`."""
        return masked("", shown(self.value))

    @property
    def listed(self) -> str:
        """As `text`, and all of it masked where the setting's name says that it is a secret."""
        return self.text if self.value is None else masked(self.option.name, shown(self.value))


@dataclass(slots=True)
class Survey:
    """What is there.

    Attributes:
        app: None where the home cannot be used.
        plugins: all of them, in whatever state.
        home_problems, config_problems: what is wrong with the home and with the settings.
        asked: what is wrong with a plugin that `-p` asked for.
        content: of config.toml; empty where it cannot be read.
        values: every setting.
    """

    app: App | None
    plugins: Plugins
    home_problems: list[str] = field(default_factory=list)
    config_problems: list[str] = field(default_factory=list)
    asked: PluginError | None = None
    content: Mapping[str, Any] = field(default_factory=dict)
    values: list[Value] = field(default_factory=list)

    @property
    def handlers(self) -> dict[str, Handler]:
        """The handlers by name, as far as the table [handlers] can be read."""
        from jobq.handlers import Handler

        table = self.content.get("handlers")
        configured = {
            name: Handler(name=name, target=target, distribution="config.toml")
            for name, target in (table.items() if isinstance(table, dict) else ())
            if isinstance(target, str)
        }
        return {**self.plugins.handlers, **configured}

    def close(self) -> None:
        """Free what was made."""
        if self.app is not None:
            self.app.close()


def survey(state: Globals, *, afresh: bool = False) -> Survey:
    """Look at the installation; nothing that is broken raises, all of it is noted.

    Args:
        state: what stood on the command line.
        afresh: import every plugin again, whatever is remembered of it.
    """
    from jobq.app import App

    flags = state.flags if state.store is None else {**state.flags, "store": state.store}
    blocked = [name[3:] for name in state.plugins if name.startswith("no:")]
    asked = [name for name in state.plugins if not name.startswith("no:")]
    app = None
    home_problems: list[str] = []
    content: Mapping[str, Any] = {}
    config_problems: list[str] = []
    try:
        app = App(home=state.home, flags=flags, plugins=state.plugins, warn=lambda message: None)
        content = config_reader(app.home.path / "config.toml")()[0]
    except InvalidInput as error:
        config_problems.append(str(error))
    except (JobqError, OSError) as error:
        home_problems.append(str(error))
    try:
        if app is None:
            plugins = Plugins(blocked=blocked, asked=asked, warn=state.warn)
        else:
            plugins = app.plugins = app.find_plugins(state.warn, afresh=afresh)
    except JobqError:  # a wrong setting: told below, and everything else is looked at
        plugins = Plugins(blocked=[*blocked, *_blocked(content, flags)], asked=asked, warn=state.warn)
    found = Survey(app, plugins, home_problems, config_problems, content=content)
    try:
        plugins.require_asked()
    except PluginError as error:
        found.asked = error
    found.values = list(settings_values([*KERNEL_OPTIONS, *plugins.options()], content, flags))
    config_problems += [value.problem for value in found.values if value.problem]
    config_problems += _table_problems(found.values, content)
    return found


def settings_values(options: Iterable[Option], content: Mapping[str, Any], flags: Mapping[str, str]) -> Iterable[Value]:
    """Every setting by itself, so that a wrong one does not hide the others."""
    # The handlers' table is one value for all: a fault in it is told once, by itself.
    rest = {key: value for key, value in content.items() if key != "handlers"}
    for option in options:
        names = (option.name, *option.aliases)
        own = {name: text for name, text in flags.items() if name.replace("_", "-") in names}
        try:
            settings = Settings([option], lambda: (rest, None), environ=os.environ, flags=own)
        except InvalidInput as error:
            yield Value(option, option.default, "default", str(error))
        else:
            yield Value(option, settings[option.name], settings.sources.get(option.name, "default"))


def _table_problems(values: Iterable[Value], content: Mapping[str, Any]) -> list[str]:
    """What is wrong in config.toml beside the values of known settings."""
    problems = []
    handlers = {name: value for name, value in content.items() if name == "handlers"}
    try:
        Settings((), lambda: (handlers, None), environ={})
    except InvalidInput as error:
        problems.append(f"config.toml: {error}")
    known = {name for value in values for name in (value.option.name, *value.option.aliases)}
    unknown = [key for key in _keys(content) if key not in known]
    return problems + [f"config.toml: no setting {key!r}; `jobq config unset {key}` removes it" for key in unknown]


def _keys(content: Mapping[str, Any], prefix: str = "") -> Iterable[str]:
    for key, value in content.items():
        if isinstance(value, dict) and not (prefix == "" and key == "handlers"):
            yield from _keys(value, f"{prefix}{key}.")
        elif prefix or key != "handlers":
            yield (prefix + key).replace("_", "-")


def _blocked(content: Mapping[str, Any], flags: Mapping[str, str]) -> tuple[str, ...]:
    (option,) = (option for option in KERNEL_OPTIONS if option.name == "plugins.block")
    (value,) = settings_values([option], content, flags)
    blocked: tuple[str, ...] = value.value
    return blocked
