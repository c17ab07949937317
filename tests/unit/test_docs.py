"""The documentation tells of everything there is, and of nothing else: commands, settings, hooks, exit codes, events."""

import ast
import inspect
import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path

import click
import pytest

import jobq_log
from jobq import errors, hookspecs
from jobq.cli import root
from jobq.cli.base import GLOBAL_OPTIONS
from jobq.events import EventKind
from jobq.job import Job, State
from jobq.options import KERNEL_OPTIONS
from jobq.settings import shown

ROOT = Path(__file__).parents[2]
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
)
OPTIONS = (*KERNEL_OPTIONS, *jobq_log.jobq_options())
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
SELECTION = {"states", "queues", "tags", "handlers", "match", "since", "before"}
GLOBAL = {option.name for option in GLOBAL_OPTIONS()}


@cache
def page(name):
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def section(name, heading):
    """The text under a heading, to the next one of the same level or above."""
    level = heading.split(" ")[0]
    found = re.search(
        rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", page(name), re.MULTILINE | re.DOTALL
    )
    assert found, f"{name} has no section {heading!r}"
    return found[1]


def blocks(name, *languages):
    return [textwrap.dedent(content) for _, language, content in BLOCK.findall(page(name)) if language in languages]


def rows(text):
    """The cells of the rows of tables, without heads."""
    lines = [line for line in text.splitlines() if line.startswith("| `") or re.match(r"\| \d", line)]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


def commands(group=root, path=()):
    ctx = click.Context(group)
    for name in group.commands if path else [name for name in group.list_commands(ctx) if name != "help"]:
        found = group.get_command(ctx, name)
        if isinstance(found, click.Group):
            yield from commands(found, (*path, name))
        else:
            yield " ".join((*path, name)), found


COMMANDS = dict(commands())


def own_options(command):
    return [
        option
        for option in command.params
        if isinstance(option, click.Option) and not option.hidden and option.name not in GLOBAL
    ]


@pytest.mark.parametrize(
    ("heading", "line"),
    [
        ("## Quick start", "python3 -m venv .venv && .venv/bin/pip install -q . && .venv/bin/jobq demo"),
        ("## Tests", "python3 -m venv .venv && .venv/bin/pip install -q tox && .venv/bin/tox"),
    ],
)
def test_the_first_code_block_of_a_section_is_one_line(heading, line):
    first = BLOCK.search(section("README.md", heading))
    assert first
    assert first[3] == f"{line}\n"


def test_the_readme_is_short():
    assert len(page("README.md").splitlines()) <= 360


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_stands_in_the_reference(name):
    heading = re.search(rf"^#### `jobq {name}(?= |`).*$", page("docs/reference.md"), re.MULTILINE)
    assert heading, f"docs/reference.md has no heading for jobq {name}"
    text = section("docs/reference.md", heading[0])
    options = own_options(COMMANDS[name])
    if {option.name for option in options} >= SELECTION:
        assert "[selection](#selections)" in text
        options = [option for option in options if option.name not in SELECTION]
    told = {word for cells in rows(text) for word in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", cells[0])}
    assert told == {word for option in options for word in (*option.opts, *option.secondary_opts)}


def test_no_other_command_stands_in_the_reference():
    told = re.findall(r"^#### `jobq ([a-z]+(?: [a-z]+)?)\b", page("docs/reference.md"), re.MULTILINE)
    assert sorted(told) == sorted(COMMANDS)


def test_the_options_of_every_command_and_of_selections_stand_in_the_reference():
    everywhere = section("docs/reference.md", "### Options of every command")
    assert all(
        f"`{option.opts[0]} " in everywhere or f"`{option.opts[0]}`" in everywhere for option in GLOBAL_OPTIONS()
    )
    chosen = section("docs/reference.md", "### Selections")
    options = [option for option in own_options(COMMANDS["list"]) if option.name in SELECTION]
    assert len(options) == len(SELECTION)
    assert all(word in chosen for option in options for word in option.opts)


@pytest.mark.parametrize("name", ["README.md", "docs/reference.md"])
def test_every_setting_stands_in_the_tables_with_its_default(name):
    told = {cells[0].strip("`"): cells for cells in rows(section(name, "## Settings"))}
    assert list(told) == [option.name for option in OPTIONS]
    for option in OPTIONS:
        default = told[option.name][1 if name == "README.md" else 2].strip("`")
        if option.name != "capture-env":
            assert default == ("none" if option.default is None else shown(option.default)), option.name
        assert ("live" in told[option.name]) is option.live, option.name
        assert all(f"`{alias}`" in told[option.name][-1] for alias in option.aliases)
        assert all(f"`{choice}`" in told[option.name][-1] for choice in option.choices), option.name
    if name == "docs/reference.md":
        assert [cells[1] for cells in told.values()] == [option.kind for option in OPTIONS]


def test_every_exit_code_stands_in_the_reference():
    told = {int(code) for cells in rows(section("docs/reference.md", "## Exit codes")) for code in cells[0].split(",")}
    raised = {
        value.exit_code
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.JobqError)
    }
    assert told == {0, 74, 130, 143} | raised


def test_every_hook_stands_in_the_docs_with_its_exact_arguments():
    told = re.findall(r"^### `(jobq_\w+\(.*)`$", page("docs/plugins.md"), re.MULTILINE)
    hooks = [value for name, value in vars(hookspecs).items() if name.startswith("jobq_")]
    written = [f"{hook.__name__}{str(inspect.signature(hook)).replace(chr(39), '')}" for hook in hooks]
    assert sorted(told) == sorted(written)


def test_every_kind_of_event_stands_in_the_docs():
    told = [
        cells[0].strip("`")
        for cells in rows(section("docs/plugins.md", "### `jobq_notify(event: Event, settings: Settings) -> None`"))
    ]
    assert told == [str(kind) for kind in EventKind]
    assert " ".join(told) in " ".join(page("docs/reference.md").split())


def test_every_field_and_state_of_a_job_stands_in_the_reference():
    told = [
        name
        for cells in rows(section("docs/reference.md", "## The job record"))
        for name in re.findall(r"`(\w+)`", cells[0])
    ]
    assert sorted(told) == sorted(Job(id="a", command="b").full_record())
    words = set(re.findall(r"\w+", section("docs/reference.md", "## States")))
    assert {str(state) for state in State} <= words


@pytest.mark.parametrize("name", PAGES)
def test_python_and_toml_blocks_can_be_read(name):
    for content in blocks(name, "python"):
        ast.parse(content)
    for content in blocks(name, "toml"):
        tomllib.loads(content)


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name):
    for link in LINK.findall(page(name)):
        if "://" in link:
            continue
        target, _, anchor = link.partition("#")
        path = (ROOT / name).parent / target if target else ROOT / name
        assert path.exists(), link
        if anchor:
            headings = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}, link


def test_every_page_is_found_from_the_readme():
    linked = {link.partition("#")[0] for link in LINK.findall(page("README.md"))}
    assert {name for name in PAGES if name != "README.md"} <= linked
