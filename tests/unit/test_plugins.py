"""Plugins: found by entry point, each broken one alone and told by name, chosen and blocked by name; and the cache."""

import itertools
import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from jobq import plugincache, pluginimport
from jobq.cli.root import COMMANDS
from jobq.errors import PluginError
from jobq.plugincache import PluginCache
from jobq.pluginchecks import CORE_COMMANDS
from jobq.plugins import Plugins
from jobq.pluginscan import Plugin, Scan
from jobq.providers import Option
from jobq.testing import MemoryStore, make_settings

NUMBERS = itertools.count()

STORE = """
from jobq import Provider, hookimpl
from jobq.testing import MemoryStore

@hookimpl
def jobq_stores():
    return [Provider(name={name!r}, summary="forgets", make=lambda settings, context: MemoryStore())]
"""


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A directory on sys.path in which distributions can be made."""
    directory = tmp_path / "site"
    directory.mkdir()
    monkeypatch.syspath_prepend(directory)
    before = set(sys.modules)
    yield directory
    for name in set(sys.modules) - before:
        if name.startswith(("fake", "jobq_file_")):
            del sys.modules[name]


@pytest.fixture
def install(site):
    """Makes a distribution with one plugin whose module has this source; and handlers."""

    def install(name, source="", *, distribution=None, version="1.0", target=None, handlers=()):
        module = f"fake{next(NUMBERS)}"
        (site / f"{module}.py").write_text(textwrap.dedent(source))
        distribution = distribution or f"dist-{name}"
        info = site / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        points = f"[jobq]\n{name} = {target or module}\n" if name else ""
        points += "[jobq.handlers]\n" + "".join(f"{handler} = {module}:run\n" for handler in handlers)
        with open(info / "entry_points.txt", "a", encoding="utf-8") as file:
            file.write(points)
        return module

    return install


def named(plugins, name):
    (plugin,) = (plugin for plugin in plugins.all if plugin.name == name)
    return plugin


def test_a_plugin_is_found_by_its_entry_point_and_its_offer_chosen_by_name(install):
    install("acme", STORE.format(name="acme"), distribution="jobq-acme", version="2.1")
    plugins = Plugins()
    plugin = named(plugins, "acme")
    assert (plugin.status, plugin.title) == ("ok", "acme (jobq-acme 2.1)")
    assert (plugin.hooks, plugin.offers) == (("jobq_stores",), {"store": ("acme",)})
    assert plugin.summaries == {"store acme": "forgets"}
    assert isinstance(plugins.provider("store", "acme").make(None, None), MemoryStore)


def test_a_module_may_hold_what_raises_when_it_is_touched(install):
    """As the proxies of web frameworks do outside of a request."""
    proxy = """
        class Proxy:
            def __getattr__(self, name):
                raise RuntimeError("outside of a request")

        request = Proxy()
    """
    install("acme", textwrap.dedent(proxy) + STORE.format(name="acme"))
    assert named(Plugins(), "acme").status == "ok"


def test_the_bundled_ones_came_through_the_same_door():
    offers = {
        (kind, name) for p in Plugins().all if p.distribution == "jobq" for kind in p.offers for name in p.offers[kind]
    }
    assert offers == {("store", "json"), ("executor", "subprocess"), ("backoff", "exponential")}


def test_an_object_of_a_module_can_be_a_plugin(install):
    source = """
    from types import SimpleNamespace
    from jobq import Option, hookimpl

    class Acme:
        @hookimpl
        def jobq_options(self):
            return [Option(name="acme.size", kind="size", default=1, help="")]

    things = SimpleNamespace(plugin=Acme())
    """
    module = install("acme", source, target="later")
    entry = next((f for f in os.listdir(sys.path[0]) if f.endswith(".dist-info")), None)
    with open(os.path.join(sys.path[0], entry, "entry_points.txt"), "w", encoding="utf-8") as file:
        file.write(f"[jobq]\nacme = {module}:things.plugin\n")
    plugins = Plugins()
    assert named(plugins, "acme").status == "ok"
    assert "acme.size" in [option.name for option in plugins.options()]


BROKEN = {
    "raises at import": ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
    "exits at import": ("import sys; sys.exit(3)", "SystemExit: 3"),
    "is no Python": ("def (", "SyntaxError"),
    "lacks a module": ("import fake_missing", "ModuleNotFoundError: No module named 'fake_missing'"),
    "implements nothing": ("x = 1", "implements no hook"),
    "implements an unknown hook": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_nonsense(): pass",
        "jobq_nonsense, which this version of jobq does not know",
    ),
    "takes wrong arguments": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_notify(event, colour): pass",
        "colour",
    ),
    "hands over nonsense": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_stores(): return ['json']",
        "'json', which is no Provider",
    ),
    "hands over nothing": ("from jobq import hookimpl\n@hookimpl\ndef jobq_stores(): return None", "TypeError"),
    "raises in a hook": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_backoffs(): raise OSError('gone')",
        "OSError: gone",
    ),
    "has a name that no setting can say": (STORE.format(name="Big Store"), "'Big Store' is no name"),
    "offers a name twice": (
        (
            "from jobq import Provider, hookimpl\n@hookimpl\ndef jobq_stores():"
            " return [Provider(name='two', summary='', make=print)] * 2"
        ),
        "the store 'two' twice",
    ),
    "adds a command that is none": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_commands(): return [print]",
        "no click command",
    ),
    "has a setting outside of a table": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='size', kind='size', default=1, help='')]"
        ),
        "'size' must be in a table of its own",
    ),
    "has a setting in a table of jobq": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='plugins.block', kind='list', default=(), help='')]"
        ),
        "'plugins.block' must be in a table of its own",
    ),
    "has an alias for a setting of jobq": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='acme.a', aliases=('timeout',), kind='list', default=(), help='')]"
        ),
        "'timeout' must be in a table of its own",
    ),
    **{
        f"has a setting with {what}": (
            (
                "from datetime import timedelta\nfrom pathlib import Path\nfrom jobq import Option, hookimpl\n"
                f"@hookimpl\ndef jobq_options(): return [Option(name='acme.a', help='', **dict({what}))]"
            ),
            why,
        )
        for what, why in {
            "kind='text', default=Path('x')": "the default PosixPath('x'), which is no text",
            "kind='text', default=5": "the default 5, which is no text",
            "kind='integer', default=True": "the default True, which is no integer",
            "kind='boolean', default=1": "the default 1, which is no boolean",
            "kind='duration', default=5": "the default 5, which is no duration",
            "kind='duration', default=timedelta(-1)": "does not take its own default",
            "kind='number', default=float('nan')": "does not take its own default",
            "kind='integer', default=10**5000": "does not take its own default",
            "kind='size', default=-1": "does not take its own default",
            "kind='list', default=['a']": "the default ['a'], which is no list",
            "kind='list', default=(1,)": "the default (1,), which is no list",
            "kind='text', default='c', choices=('a', 'b')": "does not take its own default",
            "kind='text', default=None, choices=(1,)": "tuples of texts as aliases and choices",
            "kind='integer', default=1, choices=('1',)": "only a text has choices",
            "kind='integer', default=1, least=2": "must be at least 2",
            "kind='integer', default=3, most=2": "must be at most 2",
            "kind='integer', default=None, least=2, most=1": "the bounds 2 and 1",
            "kind='integer', default=None, least='2'": "the bounds '2' and None",
            "kind='number', default=None, most=float('nan')": "the bounds None and nan",
            "kind='list', default=(), least=1": "the kind list, which has no least and no most",
            "kind='text', default=None, most=1": "the kind text, which has no least and no most",
            "kind='text', default=None, aliases='b.c'": "tuples of texts as aliases and choices",
        }.items()
    },
    "has an error that cannot be told": (
        "class Odd(Exception):\n    def __str__(self): raise ValueError\nraise Odd",
        "Odd",
    ),
    "has a setting of no kind": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='acme.a', kind='colour', default=None, help='')]"
        ),
        "no kind 'colour'",
    ),
}


@pytest.mark.parametrize(("source", "why"), BROKEN.values(), ids=BROKEN)
def test_a_broken_plugin_breaks_only_itself(install, source, why):
    install("broken", source, distribution="jobq-broken", version="0.3")
    install("fine", STORE.format(name="fine"))
    plugins = Plugins()
    (problem,) = plugins.problems
    assert problem.startswith("plugin broken (jobq-broken 0.3): ")
    assert why in problem
    assert "\n" not in problem
    assert {plugin.name for plugin in plugins.all if plugin.status == "ok"} >= {"json", "subprocess", "fine"}
    assert plugins.provider("store", "fine").name == "fine"
    assert "broken" not in {notifier.name for notifier in plugins.notifiers(make_settings(*plugins.options()))}


def test_a_hook_that_only_a_newer_jobq_has_may_be_optional(install):
    source = "from jobq import hookimpl\n@hookimpl(optionalhook=True)\ndef jobq_frobnicate(colour): pass\n"
    install("acme", source + STORE.format(name="acme"))
    install("other", source)
    plugins = Plugins()
    assert (named(plugins, "acme").status, named(plugins, "acme").hooks) == ("ok", ("jobq_stores",))
    assert "implements no hook" in named(plugins, "other").error


def test_the_extras_of_an_entry_point_are_passed_over(install):
    module = install("extra", STORE.format(name="extra"))
    (points,) = Path(sys.path[0]).glob("dist_extra*/entry_points.txt")
    points.write_text(f"[jobq]\nextra = {module} [fast]\n")
    assert named(Plugins(), "extra").status == "ok"


def test_of_two_distributions_with_one_name_the_first_on_the_path_counts(install, tmp_path, monkeypatch):
    install("acme", STORE.format(name="old"), distribution="jobq-acme", version="1.0")
    newer = tmp_path / "newer" / "jobq_acme-2.0.dist-info"
    newer.mkdir(parents=True)
    (newer / "METADATA").write_text("Metadata-Version: 2.1\nName: Jobq.Acme\nVersion: 2.0\n")
    monkeypatch.syspath_prepend(newer.parent)
    assert "acme" not in {plugin.name for plugin in Plugins().all}, "it has none any more"


def test_no_plugin_may_add_a_command_of_jobqs_own():
    assert set(COMMANDS) == CORE_COMMANDS


def test_one_that_takes_long_is_named_while_it_does(install, monkeypatch):
    monkeypatch.setattr(pluginimport, "SLOW_SECONDS", 0.0)
    install("slow", "import time\nwhile not __import__('fake_told').TOLD: time.sleep(0.001)\n" + STORE.format(name="s"))
    told = SimpleNamespace(TOLD=[])
    monkeypatch.setitem(sys.modules, "fake_told", told)
    assert named(Plugins(warn=told.TOLD.append), "slow").status == "ok"
    assert "still loading plugin slow (dist-slow 1.0)…" in told.TOLD


QUIET = """
import os, sys, threading, time
from jobq.pluginimport import aside
gate = threading.Event()
if {others}:
    threading.Thread(target=gate.wait).start()
print("before")
with aside():
    print("python")
    os.write(1, b"descriptor\\n")
    sys.__stdout__.write("original\\n")
print("after")
gate.set()
"""


@pytest.mark.parametrize("others", [False, True])
def test_descriptor_1_is_put_aside_only_where_no_other_thread_may_be_answering(others):
    code = QUIET.format(others=others)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if others:
        assert set(done.stdout.splitlines()) == {"before", "after", "descriptor", "original"}
    else:
        assert done.stdout.splitlines() == ["before", "after"]
        assert set(done.stderr.splitlines()) == {"python", "descriptor", "original"}


@pytest.mark.parametrize("closed", [1, 2])
def test_a_program_without_standard_streams_can_load_plugins(closed):
    code = "import os, sys\nfrom jobq.pluginimport import aside\nwith aside(): print('x')\nos.write(0, b'fine')"
    read, write = os.pipe()
    with os.fdopen(read) as answer:
        subprocess.run(
            ["sh", "-c", f'exec "$@" {closed}>&-', "sh", sys.executable, "-c", code], stdin=write, check=True
        )
        os.close(write)
        assert answer.read() == "fine"


def test_what_a_plugin_prints_or_warns_of_at_import_spoils_no_answer(install, capsys):
    install("chatty", "import warnings\nprint('hello')\nwarnings.warn('old')\n" + STORE.format(name="chatty"))
    assert named(Plugins(), "chatty").status == "ok"
    assert capsys.readouterr().out == ""


CHATTY = """
import warnings
from jobq import Option, Provider, hookimpl
from jobq.testing import MemoryStore

def make(settings, context):
    print("made")
    return MemoryStore()

@hookimpl
def jobq_stores():
    print("stores")
    warnings.warn("old")
    yield Provider(name="chatty", summary="", make=make)
    print("handed over")

@hookimpl
def jobq_options():
    print("options")
    return [Option(name="chatty.a", kind="text", default=None, help="")]

@hookimpl
def jobq_commands():
    print("commands")
    return []
"""


def test_what_a_plugin_prints_in_its_hooks_spoils_no_answer(install, capsys):
    install("chatty", CHATTY)
    plugins = Plugins()
    plugins.commands()
    plugins.provider("store", "chatty").make(None, None)
    told = capsys.readouterr()
    assert told.out == ""
    assert set(told.err.split("\n")) >= {"stores", "handed over", "options", "commands", "made"}


def test_a_name_that_two_offer_is_an_error_of_both_that_names_both(install):
    install("one", STORE.format(name="same"), distribution="dist-one")
    install("two", STORE.format(name="same"), distribution="dist-two")
    plugins = Plugins()
    assert sorted(plugins.problems) == [
        "plugin one (dist-one 1.0): the store 'same' is offered by two (dist-two 1.0) too; block one of the two",
        "plugin two (dist-two 1.0): the store 'same' is offered by one (dist-one 1.0) too; block one of the two",
    ]
    with pytest.raises(PluginError, match="offered by"):
        plugins.provider("store", "same")
    assert Plugins(blocked=["two"]).offering("store", "same").name == "one"


def test_a_blocked_plugin_is_not_imported_and_what_it_offers_is_refused(install, site):
    module = install("acme", STORE.format(name="acme"))
    plugins = Plugins(blocked=["acme", "json"])
    assert module not in sys.modules
    assert {plugin.name for plugin in plugins.all if plugin.status == "blocked"} == {"acme", "json"}
    assert plugins.problems == []
    with pytest.raises(PluginError, match=r"no plugin offers the store 'acme'.*acme is blocked"):
        plugins.provider("store", "acme")


def test_a_name_that_nobody_offers_is_told_with_those_that_are(install):
    with pytest.raises(PluginError, match=r"no plugin offers the executor 'moon'; there is: subprocess") as caught:
        Plugins().provider("executor", "moon")
    assert caught.value.exit_code == 6


def test_what_was_asked_for_must_be_there_and_work(install, tmp_path):
    install("broken", "raise RuntimeError('no')")
    Plugins(asked=["json"]).require_asked()
    for asked, why in (("nope", "no installed plugin is named 'nope'"), ("broken", "RuntimeError: no")):
        with pytest.raises(PluginError, match=why):
            Plugins(asked=[asked]).require_asked()
    with pytest.raises(PluginError, match="it is blocked"):
        Plugins(asked=["json"], blocked=["json"]).require_asked()
    with pytest.raises(PluginError, match="there is no Python file"):
        Plugins(asked=[str(tmp_path / "none.py")]).require_asked()


def test_a_file_is_a_plugin_when_asked_for_and_takes_no_modules_name(tmp_path):
    path = tmp_path / "json.py"
    path.write_text(STORE.format(name="filed"))
    plugins = Plugins(asked=[str(path)])
    plugins.require_asked()
    assert plugins.provider("store", "filed").name == "filed"
    assert sys.modules["json"] is json
    assert named(Plugins(asked=[str(path)], blocked=[]), "subprocess").status == "ok"


def test_nothing_is_loaded_from_the_working_directory_by_itself(tmp_path, monkeypatch):
    (tmp_path / "jobq_plugin.py").write_text("raise AssertionError")
    monkeypatch.chdir(tmp_path)
    assert "jobq_plugin" not in {plugin.name for plugin in Plugins().all}


NOTIFIER = """
from jobq import Option, hookimpl
HEARD = []

@hookimpl
def jobq_options():
    return [
        Option(name="bell.url", kind="text", default=None, activates=True, help=""),
        Option(name="bell.wait", kind="duration", default=None, help=""),
    ]

@hookimpl
def jobq_notify(event):
    HEARD.append(event)
"""


def test_a_notifier_is_used_once_a_setting_activates_it_and_given_what_it_names(install):
    module = install("bell", NOTIFIER)
    plugins = Plugins()

    def listening(**values):
        notifiers = plugins.notifiers(make_settings(*plugins.options(), values={"bell": values}))
        return [notifier for notifier in notifiers if "bell" in notifier.name]

    assert listening() == listening(wait=3) == []
    (notifier,) = listening(url="x")
    assert notifier.name == "notifier bell (dist-bell 1.0)"
    notifier.call("an event", None)
    assert sys.modules[module].HEARD == ["an event"]


COMMAND = """
import click
from jobq import hookimpl

@hookimpl
def jobq_commands():
    return [click.Command("moon")]
"""


def test_commands_come_with_their_plugin(install):
    install("acme", COMMAND)
    ((plugin, command),) = Plugins().commands()
    assert (plugin.name, command.name) == ("acme", "moon")


def test_a_handler_that_two_offer_is_nobodys(install):
    install("", distribution="dist-a", handlers=["resize", "mine"])
    install("", distribution="dist-b", handlers=["resize"])
    plugins = Plugins()
    assert plugins.handlers["mine"].distribution == "dist-a 1.0"
    assert "resize" not in plugins.handlers
    assert [handler.distribution for handler in plugins.ambiguous] == ["dist-a 1.0", "dist-b 1.0"]


class TestCache:
    @pytest.fixture
    def home(self, tmp_path):
        home = tmp_path / "home"
        home.mkdir(mode=0o700)
        return home

    @pytest.fixture
    def settle(self, site, monkeypatch):
        """Lets a minute go by since the distributions, these and those of the environment, were put there."""

        def settle():
            for path in (*site.iterdir(), site):
                os.utime(path, (time.time() - 60, time.time() - 60))
            monkeypatch.setattr(plugincache, "time", SimpleNamespace(time=lambda: time.time() + 60))

        return settle

    def test_what_was_found_is_remembered_and_nothing_imported_again(self, settle, install, site, home):
        module = install("acme", NOTIFIER, handlers=["resize"])
        settle()
        before = Plugins(cache=PluginCache(home))
        del sys.modules[module]
        after = Plugins(cache=PluginCache(home))
        assert module not in sys.modules
        assert [(p.title, p.hooks, p.offers, p.options) for p in before.all] == [
            (p.title, p.hooks, p.offers, p.options) for p in after.all
        ]
        assert before.handlers == after.handlers
        assert (home / "cache").stat().st_mode & 0o777 == 0o700

    def remembered(self, settle, install, home, source):
        """As another process would find them."""
        module = install("acme", source)
        settle()
        Plugins(cache=PluginCache(home))
        del sys.modules[module]
        return Plugins(cache=PluginCache(home))

    def test_a_remembered_one_is_asked_without_pluggy_and_as_every_other(self, settle, install, home):
        plugins = self.remembered(settle, install, home, STORE.format(name="acme"))
        assert isinstance(plugins.provider("store", "acme").make(None, None), MemoryStore)
        assert plugins._only_remembered

    def test_what_a_remembered_one_warns_of_and_prints_spoils_nothing(self, settle, install, home, monkeypatch, capfd):
        talk = "import os, warnings\nif os.environ.get('TALK'):\n    print('hello')\n    warnings.warn('odd')\n"
        plugins = self.remembered(settle, install, home, talk + STORE.format(name="acme"))
        monkeypatch.setenv("TALK", "1")
        plugins.provider("store", "acme")
        told = capfd.readouterr()
        assert told.out == ""
        assert "odd" not in told.err

    @pytest.mark.parametrize(
        ("given", "told"),
        [("[5]", "5, which is no Provider"), ("[Provider(name='acme', summary='', make=7)]", "make 7")],
    )
    def test_what_a_remembered_one_hands_over_is_checked(self, settle, install, home, monkeypatch, given, told):
        source = f"""
from jobq import Provider, hookimpl
import os

@hookimpl
def jobq_stores():
    return {given} if os.environ.get("ODD") else [Provider(name="acme", summary="", make=print)]
"""
        plugins = self.remembered(settle, install, home, source)
        monkeypatch.setenv("ODD", "1")
        with pytest.raises(PluginError, match=told):
            plugins.provider("store", "acme")

    def test_a_directory_changed_just_now_is_not_relied_upon(self, install, home):
        install("acme", COMMAND)
        Plugins(cache=PluginCache(home))
        assert PluginCache(home).load() is None

    @pytest.mark.parametrize("change", ["another distribution", "its module", "uninstalled"])
    def test_a_change_is_seen(self, settle, install, site, home, change):
        module = install("acme", COMMAND)
        settle()
        Plugins(cache=PluginCache(home))
        assert PluginCache(home).load() is not None
        if change == "another distribution":
            install("other", STORE.format(name="other"))
        elif change == "its module":
            (site / f"{module}.py").write_text("raise RuntimeError('changed')")
        else:
            (info,) = site.glob("*.dist-info")
            for path in info.iterdir():
                path.unlink()
            info.rmdir()
        assert PluginCache(home).load() is None

    def test_files_beside_a_script_change_nothing_but_a_distribution_there_does(
        self, settle, install, home, tmp_path, monkeypatch
    ):
        beside = tmp_path / "beside"
        beside.mkdir()
        monkeypatch.syspath_prepend(beside)
        settle()
        Plugins(cache=PluginCache(home))
        (beside / "data.txt").write_text("")
        assert PluginCache(home).load() is not None
        (beside / "x-1.dist-info").mkdir()
        assert PluginCache(home).load() is None

    def test_a_damaged_or_foreign_cache_is_no_error(self, settle, install, site, home):
        settle()
        Plugins(cache=PluginCache(home))
        (path,) = (home / "cache").iterdir()
        good = path.read_text()
        for text in (
            "",
            "{",
            "[]",
            "null",
            "{}",
            good.replace('"directories":{', '"directories":[],"x":{'),
            "[" * 100_000,
            good.replace('"plugins"', '"x"'),
            good.replace('"hooks"', '"hoks"'),
        ):
            path.write_text(text)
            assert PluginCache(home).load() is None
            assert named(Plugins(cache=PluginCache(home)), "json").status == "ok"

    def test_what_would_be_imported_as_a_file_is_not_taken_from_it(self, settle, install, site, home, tmp_path):
        install("acme", COMMAND)
        settle()
        Plugins(cache=PluginCache(home))
        (path,) = (home / "cache").iterdir()
        record = json.loads(path.read_text())
        planted = tmp_path / "planted.py"
        planted.write_text(STORE.format(name="planted"))
        record["plugins"][0] |= {"distribution": "", "target": str(planted)}
        path.write_text(json.dumps(record))
        assert PluginCache(home).load() is None
        assert {plugin.target for plugin in Plugins(cache=PluginCache(home)).all}.isdisjoint({str(planted)})

    def test_a_fifo_in_its_place_holds_nobody_up(self, settle, site, home):
        settle()
        Plugins(cache=PluginCache(home))
        (path,) = (home / "cache").iterdir()
        path.unlink()
        os.mkfifo(path)
        assert PluginCache(home).load() is None
        assert named(Plugins(cache=PluginCache(home)), "json").status == "ok"

    def test_entry_points_that_cannot_be_read_are_looked_at_anew(self, settle, install, site, home):
        install("acme", COMMAND)
        (points,) = site.glob("*.dist-info/entry_points.txt")
        good = points.read_bytes()
        points.write_bytes(good + b"\xff")
        settle()
        assert named(Plugins(cache=PluginCache(home)), "dist-acme").status == "failed"
        assert PluginCache(home).load() is None
        points.write_bytes(good)
        assert named(Plugins(cache=PluginCache(home)), "acme").status == "ok"

    def test_what_json_cannot_hold_is_not_remembered(self, settle, site, home):
        settle()
        plugin = Plugin(
            "odd", "odd", "dist-odd", "1", options=(Option(name="o.a", kind="text", default=home, help=""),)
        )
        PluginCache(home).save(Scan([plugin], []))
        assert PluginCache(home).load() is None

    def test_an_interpreter_whose_path_is_no_utf8_has_one_too(self, settle, site, home, monkeypatch):
        settle()
        monkeypatch.setattr(sys, "executable", os.fsdecode(b"/venv\xff/bin/python"))
        Plugins(cache=PluginCache(home))
        assert PluginCache(home).load() is not None

    def test_a_home_that_cannot_keep_it_costs_only_time(self, settle, site, home):
        settle()
        (home / "cache").write_text("in the way")
        assert named(Plugins(cache=PluginCache(home)), "json").status == "ok"

    def test_a_blocked_plugin_is_not_forgotten_and_a_failed_one_looked_at_anew(
        self, settle, install, site, home, tmp_path
    ):
        install("acme", STORE.format(name="acme"))
        flag = tmp_path / "works"
        install("moody", f"import os\nif not os.path.exists({str(flag)!r}): raise RuntimeError('not yet')\n" + COMMAND)
        settle()
        Plugins(cache=PluginCache(home), blocked=["acme"])
        plugins = Plugins(cache=PluginCache(home))
        assert named(plugins, "acme").status == "ok"
        assert "not yet" in named(plugins, "moody").error
        flag.touch()
        assert named(Plugins(cache=PluginCache(home)), "moody").status == "ok"

    @pytest.mark.parametrize("looked_at", [{"asked": ["moody"]}, {"afresh": True}])
    def test_one_that_is_asked_for_or_looked_at_afresh_is_imported_whatever_is_remembered(
        self, settle, install, site, home, tmp_path, looked_at
    ):
        flag = tmp_path / "gone"
        module = install(
            "moody", f"import os\nif os.path.exists({str(flag)!r}): raise RuntimeError('gone')\n" + COMMAND
        )
        settle()
        Plugins(cache=PluginCache(home))
        del sys.modules[module]
        flag.touch()
        assert named(Plugins(cache=PluginCache(home)), "moody").status == "ok"
        assert named(Plugins(cache=PluginCache(home), **looked_at), "moody").error == "RuntimeError: gone"
        assert named(Plugins(cache=PluginCache(home)), "moody").status == "failed", "that is remembered"

    @pytest.mark.parametrize(
        ("source", "use"), [(COMMAND, "commands"), (NOTIFIER, "notifiers"), (STORE.format(name="s"), "provider")]
    )
    def test_one_that_fails_later_than_its_scan_fails_alone_too(
        self, settle, install, site, home, tmp_path, source, use
    ):
        flag = tmp_path / "gone"
        module = install("moody", f"import os\nif os.path.exists({str(flag)!r}): raise RuntimeError('gone')\n" + source)
        settle()
        Plugins(cache=PluginCache(home))
        del sys.modules[module]
        flag.touch()
        heard = []
        plugins = Plugins(cache=PluginCache(home), warn=heard.append)
        assert named(plugins, "moody").status == "ok"
        if use == "provider":
            with pytest.raises(PluginError, match=r"moody \(dist-moody 1.0\) cannot be used: RuntimeError: gone"):
                plugins.provider("store", "s")
            return
        if use == "commands":
            assert plugins.commands() == []
        else:
            assert plugins.notifiers(make_settings(*plugins.options(), values={"bell": {"url": "x"}})) == []
        assert heard == ["plugin moody (dist-moody 1.0): RuntimeError: gone"]
