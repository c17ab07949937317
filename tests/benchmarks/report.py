"""Writes what a run measured into docs/performance.md, between its two marks: report.py FILE.json"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Row, Run, cells

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
BEGIN, END = "<!-- measured: begin, written by tests/benchmarks/report.py -->", "<!-- measured: end -->"
HEAD = "| row | measured | figure | floor | ratio | target | met |\n|---|---|---:|---|---:|---|---|\n"


def text(run: Run) -> str:
    """The part of the page that a run fills."""
    facts = run.machine
    where = (
        f"{run.date[:10]}, commit `{(run.commit or 'unknown')[:10]}`, jobq {run.jobq}. {facts['cpu']}, "
        f"{facts['cores']} cores, {facts['kernel']}, {facts['python']}, {facts['filesystem']}."
    )
    kept = [one.met for one in run if one.met is not None]
    parts = [f"{where}\n{sum(kept)} of {len(kept)} targets met.\n"]
    for driver, rows in groupby(run, key=lambda one: one.name.partition(".")[0]):
        parts.append(f"### {driver}\n\n{HEAD}{''.join(map(_line, rows))}")
    return "\n".join(parts)


def _line(one: Row) -> str:
    name, what, figure, floor, floor_figure, ratio, target, met = (cell.replace("|", "\\|") for cell in cells(one))
    beside = f"{floor_figure}, {floor}" if floor else ""
    return f"| `{name.partition('.')[2]}` | {what} | {figure} | {beside} | {ratio} | {target} | {met.lower()} |\n"


def written(page: str, part: str) -> str:
    """The page with this between its marks.

    Raises:
        ValueError: it does not have each mark once, in order.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end or BEGIN in after or END in before + after:
        raise ValueError(f"the page must have {BEGIN} and {END} once each, in this order")
    return f"{before}{begin}\n\n{part}\n{end}{after}"


def main() -> int:
    """Rewrite the page."""
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    PAGE.write_text(written(PAGE.read_text(encoding="utf-8"), text(Run.read(sys.argv[1]))), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
