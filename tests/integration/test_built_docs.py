"""What is built of the documentation tells of everything there is: commands, settings, exit codes, hooks, events.

It is built where Sphinx is installed (`tox -e docs`), with warnings as errors, and looked at as it is read: the anchors
in its pages, and their text.
"""

import importlib
import inspect
import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import click
import pytest

import jobq
import jobq.testing
import jobq_log
from jobq import errors, hookspecs
from jobq.cli.base import GLOBAL_OPTIONS
from jobq.cli.root import root
from jobq.events import EventKind
from jobq.options import KERNEL_OPTIONS
from jobq.settings import shown
from jobq.testing import contracts

pytest.importorskip("sphinx")

DOCS = Path(__file__).parents[2] / "docs"
BUILT_WITHIN = 100
GLOBAL = {option.name for option in GLOBAL_OPTIONS()}
SELECTION = {"states", "queues", "tags", "handlers", "match", "since", "before"}
HOOKS = {name: value for name, value in vars(hookspecs).items() if name.startswith("jobq_")}
OPTIONS = (*KERNEL_OPTIONS, *jobq_log.jobq_options())
UNSEEN = {"__version__", "hookimpl"}


class Page(HTMLParser):
    """The anchors of a page, and its text; that of each anchor's element too."""

    def __init__(self, content):
        super().__init__()
        self.ids, self.words, self.of = set(), [], {}
        self._open = []
        self.feed(content)

    @property
    def text(self):
        return "".join(self.words)

    def handle_starttag(self, tag, attributes):
        anchor = dict(attributes).get("id")
        self.ids |= {anchor} - {None}
        if tag not in ("br", "img", "input", "link", "meta", "hr", "path", "line", "circle", "polyline", "rect"):
            self._open.append((tag, anchor))

    def handle_endtag(self, tag):
        while self._open and self._open.pop()[0] != tag:
            pass

    def handle_data(self, data):
        self.words.append(data)
        for _, anchor in self._open:
            if anchor is not None:
                self.of[anchor] = self.of.get(anchor, "") + data


def commands(group=root, path=("jobq",)):
    context = click.Context(group)
    for name in group.commands if len(path) > 1 else [name for name in group.list_commands(context) if name != "help"]:
        found = group.get_command(context, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield "-".join((*path, name)), found


def own_options(command):
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    shared = SELECTION if {option.name for option in options} >= SELECTION else set()
    return [option for option in options if option.name not in GLOBAL | shared]


COMMANDS = dict(commands())


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The pages, by name."""
    place = tmp_path_factory.mktemp("docs")
    environ = {name: value for name, value in os.environ.items() if not name.startswith("JOBQ_")}
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-n", "-q", "-b", "html", DOCS, place / "html"],
        cwd=place,
        env=environ | {"HOME": str(place)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BUILT_WITHIN,
        check=False,
    )
    assert (done.returncode, done.stdout.decode()) == (0, "")
    pages = (place / "html").rglob("*.html")
    return {
        str(page.relative_to(place / "html").with_suffix("")): Page(page.read_text(encoding="utf-8")) for page in pages
    }


@pytest.fixture(scope="module")
def everywhere(built):
    """The anchors of all pages."""
    return set().union(*(page.ids for page in built.values()))


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_and_its_options(built, name):
    page = built["reference/commands"]
    assert name in page.ids
    told = {anchor for anchor in page.ids if re.fullmatch(rf"cmdoption-{name}-.*", anchor)}
    options = own_options(COMMANDS[name])
    wanted = {f"cmdoption-{name}-{word.lstrip('-')}" for option in options for word in option.opts}
    assert told == wanted
    for option in options:
        assert " ".join(option.help.split()) in " ".join(page.of[name].split()).replace("`", ""), option.name
    takes_selection = {each.name for each in COMMANDS[name].params} >= SELECTION
    assert ("Takes a selection." in page.of[name]) is takes_selection


def test_no_other_command(built):
    page = built["reference/commands"]
    told = {anchor for anchor in page.ids if re.fullmatch(r"jobq-[a-z]+(-[a-z]+)?", anchor)}
    assert told == set(COMMANDS)


def test_the_options_that_commands_share(built):
    ids = built["reference/commands"].ids
    assert {f"cmdoption-jobq-{option.opts[0].lstrip('-')}" for option in GLOBAL_OPTIONS()} <= ids
    shared = [option for option in COMMANDS["jobq-list"].params if option.name in SELECTION]
    assert len(shared) == len(SELECTION)
    assert {f"cmdoption-SELECTION-{word.lstrip('-')}" for option in shared for word in option.opts} <= ids


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_every_setting(built, option):
    page = built["reference/settings"]
    assert f"confval-{option.name}" in page.ids
    (told,) = re.findall(rf"^{re.escape(option.name)}¶\n(.*?)(?=^\S+¶$|\Z)", page.text, re.MULTILINE | re.DOTALL)
    told = " ".join(told.split())
    assert f"Type: {option.kind}" in told
    assert f"Default: {shown(option.default) or 'an empty list'}" in told
    assert option.help.replace("`", "") in told
    assert ("Live: " in told) is option.live
    assert f"JOBQ_{option.name.upper().replace('-', '_').replace('.', '_')}." in told
    assert all(word in told for word in (*option.aliases, *option.choices))
    assert option.kind not in ("duration", "size") or "where no unit is given" in told


def test_every_exit_code(built):
    classes = [each for each in vars(errors).values() if inspect.isclass(each) and issubclass(each, errors.JobqError)]
    page = built["reference/exit-codes"]
    told = {int(code) for code in re.findall(r"^(?:1[34]\d, )?(\d+)$", page.text, re.MULTILINE)}
    assert told >= {0, 70, 74, 125, 143, *(each.exit_code for each in classes)}
    assert {f"jobq.errors.{each.__name__}" for each in classes} <= page.ids


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_with_its_exact_arguments(built, name):
    page = built["reference/hooks"]
    signature = str(inspect.signature(HOOKS[name])).replace("'", "").replace("->", "→")
    assert f"{name}{signature}" in page.of[f"jobq.hookspecs.{name}"]


def test_every_kind_of_event(built):
    page = built["reference/hooks"]
    for kind in EventKind:
        assert f"jobq.events.EventKind.{kind.name}" in page.ids
        assert f"{kind.name} = '{kind.value}'" in page.text


@pytest.mark.parametrize("name", [name for name in jobq.__all__ if name not in UNSEEN])
def test_everything_that_jobq_exports(everywhere, name):
    assert f"{getattr(jobq, name).__module__}.{name}" in everywhere


def test_everything_for_tests(everywhere):
    wanted = {f"jobq.testing.{name}" for name in jobq.testing.__all__ if name != "START"} | {"jobq.testing.clock.START"}
    wanted |= {f"jobq.testing.contracts.{name}" for name in contracts.__all__}
    fixtures = importlib.import_module("jobq.testing.fixtures")  # not before pytest has rewritten its asserts
    own = [name for name, value in vars(fixtures).items() if type(value).__name__ == "FixtureFunctionDefinition"]
    assert own
    assert wanted | {f"jobq.testing.fixtures.{name}" for name in own} <= everywhere


def test_the_pages_have_no_docstring_left_as_markup(built):
    for name, page in built.items():
        for sign in (":py:", ":ref:", "{py:", "{eval-rst}", "Traceback (most"):
            assert sign not in page.text, f"{name} has {sign}"
