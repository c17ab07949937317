"""Draws how operations grow with the queue, jobq beside SQLite: plot.py FILE.json OUT.svg (needs matplotlib)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Row, Run

COLOURS = {"jobq": "#0969da", "SQLite": "#bf8700"}  # on white and on black alike


def curves(rows: Run) -> dict[str, list[Row]]:
    """The rows of each operation whose settings say how many jobs were live, by that number."""
    found: dict[str, list[Row]] = {}
    for one in rows:
        if "operation" in one.settings:
            found.setdefault(one.settings["operation"], []).append(one)
    return {name: sorted(points, key=lambda one: one.settings["live"]) for name, points in found.items()}


def draw(run: Run, path: Path) -> None:
    """Write the picture."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams |= {"svg.hashsalt": "jobq", "svg.fonttype": "none", "font.size": 9}  # the same for the same figures
    found = curves(run)
    figure, panels = plt.subplots(1, len(found), figsize=(3.4 * len(found), 3), sharey=True, squeeze=False)
    for panel, (name, points) in zip(panels[0], found.items(), strict=True):
        _panel(panel, name, points)
    panels[0][0].set_ylabel(f"{next(iter(found.values()))[0].unit}, median")
    panels[0][0].legend(frameon=False)
    figure.tight_layout()
    figure.savefig(path, format="svg", metadata={"Date": None})
    lines = path.read_text(encoding="utf-8").splitlines()
    path.write_text("".join(f"{line.rstrip()}\n" for line in lines), encoding="utf-8")


def _panel(panel: Any, name: str, points: list[Row]) -> None:
    live = [one.settings["live"] for one in points]
    panel.loglog(live, [one.figure for one in points], marker="o", color=COLOURS["jobq"], label="jobq")
    panel.loglog(live, [one.floor_figure for one in points], marker="s", color=COLOURS["SQLite"], label="SQLite, WAL")
    panel.set_title(name, fontsize=9)
    panel.set_xlabel("live jobs")
    panel.grid(visible=True, alpha=0.3)


def main() -> int:
    """Draw what the arguments name."""
    if len(sys.argv) != 3:
        print(__doc__, file=sys.stderr)
        return 2
    run = Run.read(sys.argv[1])
    if not curves(run):
        print(f"{sys.argv[1]} has no rows of growing", file=sys.stderr)
        return 1
    draw(run, Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
