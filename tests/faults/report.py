"""Writes docs/reliability-figures.md out of what runs of the campaign have measured: report.py FIGURES.jsonl...

Of a figure that stands in them more than once, the last one counts.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "reliability-figures.md"

HEAD = """\
# All figures of the fault campaign

Made by `tests/faults/report.py` from what a run has measured; [reliability.md](reliability.md) says what they mean.
Each file is one command: `JOBQ_TEST_FAULTS=SIZE .venv/bin/pytest tests/faults/FILE`.

Machines: {machines}.
"""

TABLE = """
## {file}

| fault | what came of it | size, date, commit |
|---|---|---|
"""


def main() -> None:
    """Write the page."""
    figures = {}
    for path in sys.argv[1:]:
        for line in Path(path).read_text(encoding="utf-8").splitlines():
            figure = json.loads(line)
            figures[figure["test"], figure["name"]] = figure
    by_file = defaultdict(list)
    for (test, _), figure in figures.items():
        by_file[Path(test.partition("::")[0]).name].append(figure)
    text = HEAD.format(machines="; ".join(sorted({figure["machine"] for figure in figures.values()})))
    for file, found in sorted(by_file.items()):
        text += TABLE.format(file=file) + "".join(map(_row, found))
    PAGE.write_text(text, encoding="utf-8")


def _row(figure: dict[str, Any]) -> str:
    commit = (figure["commit"] or "unknown")[:10]
    return f"| {figure['name']} | {figure['text'].replace('|', '/')} | {figure['size']}, {figure['date'][:10]}, `{commit}` |\n"


if __name__ == "__main__":
    main()
