"""Writes what runs of the campaign have measured into docs/reliability-figures.md: report.py FIGURES.jsonl...

A figure that the page has stays, unless these runs have measured it anew in the same size or a larger one; of one that
they have measured more than once, the last counts.
"""

import json
import re
import sys
from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reliability-figures.md"

HEAD = """\
# All figures of the fault campaign

Made by `tests/faults/report.py` from what runs have measured; [reliability.md](reliability.md) says what they mean.
Each file is one command: `JOBQ_TEST_FAULTS=SIZE .venv/bin/pytest tests/faults/FILE`, of a distribution below `plugins/`
`.venv/bin/pytest -c pyproject.toml PATH`.

Machines: {machines}.
"""

TABLE = """
## {file}

| fault | what came of it | size, date, commit |
|---|---|---|
"""

SIZES = ("short", "full", "long")
_MACHINES = re.compile(r"^Machines: (.+)\.$", re.MULTILINE)
_FIGURE = re.compile(r"^\| (?P<name>.+?) \| (?P<text>.+) \| (?P<size>\w+), (?P<date>[\d-]+), `(?P<commit>\w+)` \|$")

Figures = dict[tuple[str, str], dict[str, str]]
"""By file and name: what came of it, in which size, when, and of which commit."""


def main() -> None:
    """Rewrite the page."""
    page = PAGE.read_text(encoding="utf-8")
    figures, machines = figures_of(page), set(_MACHINES.findall(page)[0].split("; "))
    for path in sys.argv[1:]:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            machines.add(add(figures, json.loads(line)))
    PAGE.write_text(written(figures, machines), encoding="utf-8")


def figures_of(page: str) -> Figures:
    """The figures of a page."""
    figures: Figures = {}
    file = ""
    for line in page.splitlines():
        if line.startswith("## "):
            file = line.removeprefix("## ")
        elif match := _FIGURE.match(line):
            figures[file, match["name"]] = match.groupdict()
    return figures


def add(figures: Figures, measured: dict[str, str]) -> str:
    """Take what was measured, unless a larger size of it is there; the machine."""
    key = measured["test"].partition("::")[0].removeprefix("tests/faults/"), measured["name"]
    before = figures.get(key)
    if before is None or SIZES.index(measured["size"]) >= SIZES.index(before["size"]):
        figures[key] = {
            "name": measured["name"],
            "text": measured["text"].replace("|", "/"),
            "size": measured["size"],
            "date": measured["date"][:10],
            "commit": (measured["commit"] or "unknown")[:10],
        }
    return measured["machine"]


def written(figures: Figures, machines: set[str]) -> str:
    """The page of these figures."""
    by_file = defaultdict(list)
    for (file, _), figure in figures.items():
        by_file[file].append(figure)
    text = HEAD.format(machines="; ".join(sorted(machines)))
    for file, found in sorted(by_file.items()):
        text += TABLE.format(file=file) + "".join(map(_row, found))
    return text


def _row(figure: dict[str, str]) -> str:
    return "| {name} | {text} | {size}, {date}, `{commit}` |\n".format(**figure)


if __name__ == "__main__":
    main()
