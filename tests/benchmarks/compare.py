"""Compares two runs, row by row: compare.py OLD.json NEW.json [--by 20]

By the ratio to the floor, which a slower machine leaves as it is; by the figure where there is no floor. Exit code 1
if a row got worse by so many per cent or more.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Row, Run, shown

if TYPE_CHECKING:
    from collections.abc import Iterable

BY = 20.0


@dataclass(frozen=True)
class Difference:
    """A row in two runs.

    Attributes:
        old, new: the row in either.
    """

    old: Row
    new: Row

    @property
    def by_ratio(self) -> bool:
        """Whether both have one."""
        return self.old.ratio is not None and self.new.ratio is not None

    @property
    def values(self) -> tuple[float, float]:
        """What is compared, before and after."""
        if self.old.ratio is not None and self.new.ratio is not None:
            return self.old.ratio, self.new.ratio
        return self.old.figure, self.new.figure

    @property
    def worse(self) -> float:
        """By how many per cent it got worse; negative where it got better."""
        before, after = self.values
        change = after - before if self.new.better == "lower" else before - after
        if before == 0:
            return 0.0 if change == 0 else float("inf") if change > 0 else float("-inf")
        return round(100 * change / before, 6)

    def line(self, by: float) -> str:
        """As it is printed."""
        unit = " x" if self.by_ratio else f" {self.new.unit}"
        before, after = (f"{shown(value)}{unit}" for value in self.values)
        remark = "  WORSE" if self.worse >= by else ""
        if self.old.settings != self.new.settings:
            remark += "  (with other settings)"
        return f"{self.new.name:<32} {before:>16} {after:>16} {-self.worse:>+8.1f} %{remark}"


def differences(old: Iterable[Row], new: Iterable[Row]) -> list[Difference]:
    """The rows that are in both, in the order of the new run."""
    before = {one.name: one for one in old}
    return [Difference(before[one.name], one) for one in new if one.name in before]


def main(arguments: list[str] | None = None) -> int:
    """Print the comparison; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--by", type=float, default=BY, metavar="PERCENT", help=f"what is worse by so much ({BY:g})")
    asked = parser.parse_args(arguments)
    old, new = Run.read(asked.old), Run.read(asked.new)
    for label, run in (("old", old), ("new", new)):
        small = ", small sizes: its figures mean nothing" if run.small else ""
        print(f"{label}: {run.date}, commit {(run.commit or 'unknown')[:10]}, jobq {run.jobq}{small}")
    if old.machine != new.machine:
        print(f"not the same machine: {old.machine} and {new.machine}")
    found = differences(old, new)
    print(f"{'row':<32} {'before':>16} {'after':>16} {'better':>10}")
    for one in found:
        print(one.line(asked.by))
    names = {one.name for one in old} ^ {one.name for one in new}
    if names:
        print(f"in one run only: {', '.join(sorted(names))}")
    worse = [one.new.name for one in found if one.worse >= asked.by]
    print(f"worse by {asked.by:g} % or more: {', '.join(worse) or 'none'}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
