"""Runs the benchmarks: run.py [--json FILE] [--rounds N] [--small] [--check] [ROW...]

A ROW is the name of a driver, like `starting`, or one of its rows, like `starting.enqueue`: then the driver runs and
other rows are not shown. Exit code 1 if a driver failed, or with --check if a target was missed.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import tempfile
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from measuring import Bench, Row, Run, cells, table

DRIVERS = (
    "starting",
    "enqueueing",
    "commands",
    "handlers",
    "pickup",
    "idle",
    "recovering",
    "growing",
    "json_store",
    "output",
)
OTHER_STORES = ("sqlite_store", "three_stores")
"""Run only when they are named: with them it would be a quarter of an hour."""


def main() -> int:
    """Run what is asked for; the exit code."""
    asked = _arguments()
    for name in [name for name in os.environ if name.startswith("JOBQ_")]:
        del os.environ[name]
    os.umask(0o077)
    began = datetime.now(UTC)
    rows: list[Row] = []
    broken: list[str] = []
    with tempfile.TemporaryDirectory(prefix="jobq-bench-") as made:
        named = [name for name in (*DRIVERS, *OTHER_STORES) if any(_of(row, name) for row in asked.rows)]
        for driver in named if asked.rows else DRIVERS:
            start = time.monotonic()
            directory = Path(made) / driver
            directory.mkdir()
            bench = Bench(directory, asked_rounds=asked.rounds, small=asked.small)
            try:
                for row in importlib.import_module(driver).rows(bench):
                    if not asked.rows or row.name.startswith(tuple(asked.rows)):
                        rows.append(row)
                        print("  ".join(filter(None, cells(row))), file=sys.stderr, flush=True)
            except Exception:
                traceback.print_exc()
                broken.append(driver)
            print(f"{driver}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
            shutil.rmtree(directory, ignore_errors=True)  # the next driver may need the space
        run = Run.here(rows, Path(made), date=began, small=asked.small)
    if asked.json:
        run.write(asked.json)
    print(table(rows))
    missed = [row.name for row in rows if row.met is False]
    if missed:
        print(f"missed: {', '.join(missed)}")
    if broken:
        print(f"failed: {', '.join(broken)}")
    return 1 if broken or (asked.check and missed) else 0


def _of(row: str, driver: str) -> bool:
    return row.partition(".")[0] == driver


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "rows", nargs="*", metavar="ROW", help=f"of {', '.join(DRIVERS)}, and {', '.join(OTHER_STORES)}"
    )
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep what was measured there")
    parser.add_argument("--rounds", metavar="N", type=int, help="so many rounds of each, instead of the driver's own")
    parser.add_argument(
        "--small", action="store_true", help="small sizes, to try the drivers: the figures mean nothing"
    )
    parser.add_argument("--check", action="store_true", help="exit code 1 if a target was missed")
    asked = parser.parse_args()
    if unknown := [row for row in asked.rows if not any(_of(row, driver) for driver in (*DRIVERS, *OTHER_STORES))]:
        parser.error(f"no such row: {', '.join(unknown)}")
    if asked.rounds is not None and asked.rounds < 1:
        parser.error("--rounds: at least 1")
    return asked


if __name__ == "__main__":
    sys.exit(main())
