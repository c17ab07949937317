"""The pages as they are written: the README and its tables, what the built pages cannot show, blocks, links.

What is made from the code (commands, settings, hooks, exit codes) is looked for in the built pages, by
`tests/integration/test_docs.py`.
"""

import ast
import inspect
import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path

import pytest

import jobq_log
from jobq import hookspecs
from jobq.events import EventKind
from jobq.job import Job, State
from jobq.options import KERNEL_OPTIONS
from jobq.settings import shown

ROOT = Path(__file__).parents[2]
DOCS = tuple(
    str(path.relative_to(ROOT))
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if not any(part.startswith("_") for part in path.relative_to(ROOT).parts)
)
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", *DOCS)
OPTIONS = (*KERNEL_OPTIONS, *jobq_log.jobq_options())
HOOKS = {name: value for name, value in vars(hookspecs).items() if name.startswith("jobq_")}
BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TOCTREE = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)


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
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]


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


def test_every_setting_stands_in_the_readme_with_its_default():
    told = {cells[0].strip("`"): cells for cells in rows(section("README.md", "## Settings"))}
    assert list(told) == [option.name for option in OPTIONS]
    for option in OPTIONS:
        if option.name != "capture-env":
            default = "none" if option.default is None else shown(option.default)
            assert told[option.name][1].strip("`") == default, option.name
        assert ("live" in told[option.name]) is option.live, option.name
        assert all(f"`{word}`" in told[option.name][-1] for word in (*option.aliases, *option.choices)), option.name


def test_every_field_and_state_of_a_job_stands_in_the_reference():
    told = [
        name
        for cells in rows(section("docs/reference/jobs.md", "## The job record"))
        for name in re.findall(r"`(\w+)`", cells[0])
    ]
    assert sorted(told) == sorted(Job(id="a", command="b").full_record())
    words = set(re.findall(r"\w+", section("docs/reference/jobs.md", "## States")))
    assert {str(state) for state in State} <= words


def test_every_kind_of_event_has_its_place_in_the_life_of_a_job():
    words = set(re.findall(r"`(\w+)`", page("docs/life-of-a-job.md"))) | {"lost"}
    assert {str(kind) for kind in EventKind} <= words
    assert "jobq_notify           lost, " in page("docs/life-of-a-job.md")


def test_every_hook_has_a_purpose_on_the_page_of_plugins():
    told = re.findall(r"^\| [^|`]+(?:`meta`[^|]+)?\| `(jobq_\w+)`", page("docs/plugins.md"), re.MULTILINE)
    assert sorted(told) == sorted(HOOKS)


@pytest.mark.parametrize("name", HOOKS)
def test_every_hook_is_tested_with_all_of_its_arguments(name):
    wanted = list(inspect.signature(HOOKS[name]).parameters)
    written = [
        [argument.partition(":")[0].strip() for argument in arguments.split(",") if argument.strip() != "self"]
        for path in (ROOT / "tests").rglob("*.py")
        for arguments in re.findall(rf"def {name}\(([^)]*)\)", path.read_text(encoding="utf-8"))
    ]
    assert wanted in [list(filter(None, arguments)) for arguments in written]


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


@pytest.mark.parametrize("name", DOCS)
def test_what_is_included_is_there(name):
    for path, options in re.findall(
        r"^```\{(?:literal)?include\} (\S+)\n(.*?)```$", page(name), re.MULTILINE | re.DOTALL
    ):
        source = ((ROOT / name).parent / path).read_text(encoding="utf-8")
        place = ast.parse(source) if path.endswith(".py") else None
        (words,) = re.findall(r":pyobject: ([\w.]+)", options) or [""]
        for word in filter(None, words.split(".")):
            places = {each.name: each for each in place.body if hasattr(each, "name")}
            assert word in places, f"{path} has no {words}"
            place = places[word]
        for text in re.findall(r':(?:start|end)-(?:at|after): "(.*)"', options):
            assert text in source, f"{path} has no {text!r}"


def test_every_page_is_found_from_the_index():
    found, new = set(), {"docs/index.md"}
    while new:
        name = new.pop()
        found.add(name)
        for content in TOCTREE.findall(page(name)):
            entries = [line for line in content.splitlines() if line and not line.startswith(":")]
            new |= {f"docs/{entry}.md" for entry in entries} - found
    assert found == set(DOCS)


def test_every_page_of_the_index_is_linked_for_whoever_reads_plain_markdown():
    for name in ("docs/index.md", "docs/reference.md"):
        linked = {link.partition("#")[0] for link in LINK.findall(page(name))}
        for content in TOCTREE.findall(page(name)):
            assert {f"{line}.md" for line in content.splitlines() if line and not line.startswith(":")} <= linked


def test_every_test_that_the_page_on_reliability_names_is_there():
    named = re.findall(r"`((?:plugins/[\w-]+/)?tests/[\w/]+\.py)::(\w+)`", page("docs/reliability.md"))
    assert len(named) > 15
    for path, name in named:
        assert re.search(rf"^\s*def {name}\(", page(path), re.MULTILINE), f"{path}::{name}"
    files = set(re.findall(r"`(test_\w+\.py)`", page("docs/reliability.md")))
    assert files <= {path.name for path in (ROOT / "tests" / "faults").iterdir()}
