"""The documentation is run: every `$` line of a console block, in order, must answer as the page says.

A Python block whose first line is a comment with a file name is a file in the directory where a page's commands run.
What differs from run to run (ids, process ids, times, durations) is not compared, nor are widths of columns, nor the
rows of plugins that other distributions brought here.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"# ([\w./-]+\.(?:py|toml))\n")
STEP_SECONDS = 60
VARYING = (
    (re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d{3}Z|,\d{3})?"), "TIME"),
    (re.compile(r"\b\d\d:\d\d:\d\d\b"), "TIME"),
    (re.compile(r"\b[a-z2-7]{16}\b"), "ID"),
    (re.compile(r"\bworker [a-z2-7]{8}\b"), "worker NAME"),
    (re.compile(r"\b(pid|worker) \d+"), r"\1 PID"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:s|min|h|d)\b(?: \d+ (?:min|h)\b)?"), "DURATION"),
    (re.compile(r"(?:imported in: )[\d.]+"), "imported in: N"),
    (re.compile(r"^\w+ +jobq-[\w-]+ +\d.*$", re.MULTILINE), ""),
    (re.compile(r" +"), " "),
)


def steps(page: Path) -> list[tuple[str, str]]:
    """What a page shows, in order: files as (name, content), and commands as ("$ command", expected output)."""
    found = []
    for language, content in BLOCK.findall(page.read_text(encoding="utf-8")):
        named = FILE_NAME.match(content)
        if named and language in ("python", "toml"):
            found.append((named[1], content))
        elif language == "console":
            for part in re.split(r"^(?=\$ )", content, flags=re.MULTILINE)[1:]:
                command, _, answer = part.partition("\n")
                found.append((command, answer))
    return found


def settled(text: str) -> list[str]:
    for pattern, replacement in VARYING:
        text = pattern.sub(replacement, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


@pytest.fixture
def shop(tmp_path):
    """The directory in which a page's commands run, and their environment: a user of their own, no jobq before."""
    directory = tmp_path / "home/ada/shop"
    directory.mkdir(parents=True)
    kept = {name: os.environ[name] for name in ("PYTHONPATH", "PYTHONSAFEPATH") if name in os.environ}
    environ = {
        **kept,
        "HOME": str(directory.parent),
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
    }
    yield directory, environ
    for home in (directory / ".jobq", directory.parent / ".local/state/jobq"):
        if home.is_dir():
            stop = ("jobq", "--home", str(home), "worker", "stop", "--now", "--wait")
            subprocess.run(stop, env=environ, check=False, capture_output=True, timeout=STEP_SECONDS)


SHOWING = [page for page in PAGES if any(name.startswith("$ ") for name, _ in steps(page))]


@pytest.mark.parametrize("page", SHOWING, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_shows_is_what_happens(page, shop, tmp_path):
    directory, environ = shop
    for name, content in steps(page):
        if not name.startswith("$ "):
            place = directory / name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content, encoding="utf-8")
            continue
        done = subprocess.run(
            ["bash", "-c", name[2:]],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=STEP_SECONDS,
            check=False,
        )
        answer = done.stdout.decode().replace(str(tmp_path), "")
        assert settled(answer) == settled(content), f"{page}: {name}\n{answer}"


def test_the_pages_that_teach_show_commands():
    teaching = {"README.md", "getting-started.md", "handlers.md", "plugins.md", "testing.md", "operations.md"}
    assert teaching <= {page.name for page in SHOWING}
