"""The suite that every plugin must pass, whatever hooks it implements."""

from __future__ import annotations

import subprocess
import sys
import types
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import pytest

from jobq.plugins import Plugins
from jobq.pluginscan import GROUP, Plugin
from jobq.testing.adhoc import AdHocPlugins
from jobq.testing.builders import make_settings

if TYPE_CHECKING:
    from collections.abc import Callable

    import click

    from jobq.providers import Option, Provider

IMPORTED_WITHIN = 60
"""Seconds; an import that takes so long hangs."""
_LIST = "import sys; sys.path[:] = {path!r}; import {module}; print(*sys.modules, file=open({answer!r}, 'w'))"


class PluginContract:
    """What jobq asks of a plugin before it uses any of what the plugin offers.

    A subclass overrides the fixture `plugin`: the module or object that the entry point names.
    """

    @pytest.fixture
    def plugin(self) -> Any:
        """What is tested."""
        raise NotImplementedError("a subclass of PluginContract overrides the fixture plugin")

    @pytest.fixture
    def module(self, plugin: Any) -> str:
        """The name of the module that is imported to have the plugin."""
        return plugin.__name__ if isinstance(plugin, types.ModuleType) else type(plugin).__module__

    @pytest.fixture
    def loaded(self, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> Plugin:
        """What jobq's loader says of the plugin, with no other one beside it."""
        return load(plugin, monkeypatch)[0]

    @pytest.fixture
    def providers(self, plugin: Any) -> list[Provider[Any]]:
        """Every store, executor and backoff that it offers."""
        return offered(plugin)

    def test_it_is_loaded(self, loaded: Plugin) -> None:
        assert (loaded.status, loaded.error) == ("ok", "")
        assert loaded.hooks

    def test_every_provider_says_what_it_is(self, providers: list[Provider[Any]]) -> None:
        for provider in providers:
            assert provider.summary, f"{provider.name} has no summary"
            assert provider.summary.isprintable(), "one line, harmless on a terminal"
            assert callable(provider.make)

    def test_nothing_is_made_by_being_listed(self, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        called: set[types.CodeType] = set()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
        try:
            load(plugin, monkeypatch)
            providers = offered(plugin)
        finally:
            sys.setprofile(before)
        for provider in providers:
            assert code_of(provider.make) not in called, f"{provider.name} was made by being listed"

    def test_it_offers_the_same_each_time(self, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        (first, _), (second, _) = load(plugin, monkeypatch), load(plugin, monkeypatch)
        assert (first.offers, first.options) == (second.offers, second.options)

    def test_its_settings_stand_beside_those_of_jobq(self, plugin: Any) -> None:
        options: list[Option] = handed(plugin, "jobq_options")
        settings = make_settings(*options)
        for option in options:
            assert settings[option.name] == option.default
            assert option.help, f"{option.name} has no help"
            assert option.help.isprintable(), "one line, harmless on a terminal"

    def test_its_commands_say_what_they_do(self, plugin: Any) -> None:
        from click.testing import CliRunner

        commands: list[click.Command] = handed(plugin, "jobq_commands")
        for command in commands:
            assert command.get_short_help_str(), f"{command.name} has no help"
            answer = CliRunner().invoke(command, ["--help"])
            assert (answer.exit_code, answer.exception) == (0, None)

    def test_none_of_its_names_is_taken(self, plugin: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        own, others = load(plugin, monkeypatch, alone=False)
        clashing = [f"{other.title}: {other.error}" for other in others if f"{own.name} (" in other.error]
        assert (own.error, clashing) == ("", [])

    def test_importing_it_is_quiet_and_brings_no_bundled_plugin(self, module: str, tmp_path_factory: Any) -> None:
        answer = tmp_path_factory.mktemp("import") / "modules"
        path = [entry or "." for entry in sys.path]
        code = _LIST.format(path=path, module=module, answer=str(answer))
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=IMPORTED_WITHIN
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        loaded = {name.partition(".")[0] for name in answer.read_text(encoding="utf-8").split()}
        assert loaded & (bundled() - {module.partition(".")[0]}) == set()


def load(plugin: Any, monkeypatch: pytest.MonkeyPatch, *, alone: bool = True) -> tuple[Plugin, list[Plugin]]:
    """What jobq's loader says of a plugin, and of the others that are installed, unless it is looked at alone."""
    with monkeypatch.context() as patch:
        name = AdHocPlugins(patch).register(plugin, "the-plugin-under-test")
        plugins = Plugins(blocked=installed() if alone else installed_as(plugin))
    (own,) = (found for found in plugins.all if found.name == name)
    return own, [found for found in plugins.all if found is not own]


def handed(plugin: Any, hook: str) -> list[Any]:
    """What a plugin hands over through one hook; nothing where it does not implement it."""
    implementation: Callable[[], Any] | None = getattr(plugin, hook, None)
    return [] if implementation is None else list(implementation())


def offered(plugin: Any) -> list[Provider[Any]]:
    """The stores, executors and backoffs that a plugin offers."""
    return [record for kind in ("stores", "executors", "backoffs") for record in handed(plugin, f"jobq_{kind}")]


def code_of(make: Any) -> types.CodeType | None:
    """The code that a call of this would run first, where it is Python's."""
    make = getattr(make, "func", make)
    return getattr(vars(make).get("__init__") if isinstance(make, type) else make, "__code__", None)


def installed() -> list[str]:
    """The names of the installed plugins."""
    return [entry.name for entry in entry_points(group=GROUP)]


def installed_as(plugin: Any) -> list[str]:
    """The names under which the plugin itself is installed: it does not clash with itself."""
    name = plugin.__name__ if isinstance(plugin, types.ModuleType) else type(plugin).__module__
    return [entry.name for entry in entry_points(group=GROUP) if entry.module == name]


def bundled() -> set[str]:
    """The packages of the plugins that come with jobq."""
    points = entry_points(group=GROUP)
    return {entry.module.partition(".")[0] for entry in points if entry.dist is not None and entry.dist.name == "jobq"}
