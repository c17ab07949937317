"""Writes docs/reliability-figures.md out of what runs of the campaign have measured: report.py FIGURES.jsonl...

Of a figure that stands in them more than once, the last one counts.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reliability-figures.md"

HEAD = """\
# All figures of the fault campaign

Made by `tests/faults/report.py` from what a run has measured; [reliability.md](reliability.md) says what they mean.
Each file is one command: `JOBQ_TEST_FAULTS=SIZE .venv/bin/pytest tests/faults/FILE`.

Machines: {machines}.
"""

TABLE = """
## {file}

{size} size, commit `{commit}`, {date}.

| fault | what came of it |
|---|---|
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
        latest = max(found, key=lambda figure: figure["date"])
        facts = {
            "size": latest["size"].capitalize(),
            "commit": (latest["commit"] or "unknown")[:10],
            "date": latest["date"][:10],
        }
        text += TABLE.format(file=file, **facts)
        text += "".join(f"| {figure['name']} | {figure['text'].replace('|', '/')} |\n" for figure in found)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
