"""What a benchmark is made of: rows that say a figure beside its floor, and the turns in which both are measured.

    def rows(bench):
        taken = in_turn({"jobq": one_of_ours, "floor": one_of_theirs}, bench.rounds or 5)
        yield row("add.one", "Queue.enqueue, one by one", taken["jobq"], unit="jobs/s", better="higher",
                  floor="append + fdatasync", beside=taken["floor"], target=ratio(0.65), settings={"count": 2000})

A figure of a machine that others use says little; its ratio to a floor that was measured in the same run says more.
Nothing here imports jobq.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

HERE = Path(__file__).parent
Better = Literal["lower", "higher"]
Found = TypeVar("Found")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One figure and what it stands beside.

    Attributes:
        name: what tells it from all others and stays the same from run to run, like `starting.enqueue`.
        what: what was measured, for people.
        figure: the median of its samples (another percentile where `what` says so), in `unit`.
        better: whether a lower or a higher figure is better.
        floor: what else was measured in the same run; None: nothing.
        floor_figure: the same of the floor's samples, in `unit`.
        ratio: figure to floor; the median over the pairs where both were measured in pairs.
        target: the bound to keep, as text; empty: none.
        met: whether it was kept; None: there is none.
        settings: what it was measured with, such as durability and count.
        samples: of the figure and of the floor, as they came.
    """

    name: str
    what: str
    figure: float
    unit: str
    better: Better
    floor: str | None = None
    floor_figure: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    samples: dict[str, list[float]] = field(default_factory=dict)

    @property
    def compared(self) -> float:
        """What two runs are compared by: the ratio, or the figure where there is none."""
        return self.figure if self.ratio is None else self.ratio


@dataclass(frozen=True)
class Target:
    """A bound: at most where lower is better, at least where higher is."""

    of: Literal["ratio", "figure"]
    bound: float

    def text(self, unit: str, better: Better) -> str:
        """As the table has it, like `<= 2 x` or `>= 12,000 jobs/s`."""
        sign = "<=" if better == "lower" else ">="
        return f"{sign} {shown(self.bound)} {'x' if self.of == 'ratio' else unit}"

    def met(self, value: float | None, better: Better) -> bool | None:
        """Whether a value keeps it; None where there is no value."""
        if value is None:
            return None
        return value <= self.bound if better == "lower" else value >= self.bound


def ratio(bound: float) -> Target:
    """A bound on the ratio to the floor."""
    return Target("ratio", bound)


def figure(bound: float) -> Target:
    """A bound on the figure itself, in the row's unit."""
    return Target("figure", bound)


def row(
    name: str,
    what: str,
    samples: Sequence[float],
    *,
    unit: str,
    better: Better,
    floor: str | None = None,
    beside: Sequence[float] = (),
    target: Target | None = None,
    settings: Mapping[str, Any] | None = None,
    of: Callable[[Sequence[float]], float] = statistics.median,
) -> Row:
    """A row out of samples, which are in its unit.

    Args:
        floor: the name of what `beside` has the samples of.
        beside: the floor's samples; in pairs with `samples` where there are as many.
        of: what makes one figure of samples.
    """
    value, found, theirs = of(samples), None, of(beside) if beside else None
    if theirs is not None:
        if of is statistics.median and len(beside) == len(samples):
            found = statistics.median(a / b for a, b in zip(samples, beside, strict=True))
        else:
            found = value / theirs
    return Row(
        name=name,
        what=what,
        figure=value,
        unit=unit,
        better=better,
        floor=floor if beside else None,
        floor_figure=theirs,
        ratio=found,
        target=target.text(unit, better) if target else "",
        met=target.met(found if target.of == "ratio" else value, better) if target else None,
        settings=dict(settings or {}),
        samples={"figure": list(samples)} | ({"floor": list(beside)} if beside else {}),
    )


@dataclass(frozen=True)
class Bench:
    """What a driver's `rows` is given.

    Attributes:
        directory: an empty directory of its own, removed when it is done.
        asked_rounds: how many rounds the person asked for; None: as many as the driver thinks right.
        small: sizes for trying the drivers themselves; such figures mean nothing.
    """

    directory: Path
    asked_rounds: int | None = None
    small: bool = False

    def rounds(self, usual: int) -> int:
        """How many rounds to run, where a driver usually runs so many."""
        return self.asked_rounds or usual

    def size(self, usual: int, small: int) -> int:
        """One of two sizes."""
        return small if self.small else usual

    def new(self, name: str) -> Path:
        """A new empty directory below its own, mode 0700."""
        return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self.directory))


def in_turn(acts: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Call each act once a round, every second round in the opposite order; what each gave, by name."""
    taken: dict[str, list[float]] = {name: [] for name in acts}
    for turn in range(rounds):
        for name in list(acts) if turn % 2 == 0 else list(reversed(acts)):
            taken[name].append(acts[name]())
    return taken


def seconds(act: Callable[..., object], *arguments: Any, **named: Any) -> float:
    """How long a call takes, by the monotonic clock."""
    start = time.perf_counter()
    act(*arguments, **named)
    return time.perf_counter() - start


def until(ask: Callable[[], Found], *, within: float = 30.0, every: float = 0.002) -> Found:
    """What `ask` answers as soon as that is true.

    Raises:
        TimeoutError: it was not, in so many seconds.
    """
    end = time.monotonic() + within
    while not (found := ask()):
        if time.monotonic() > end:
            raise TimeoutError(f"{ask} was not true within {within} s")
        time.sleep(every)
    return found


def percentile(samples: Sequence[float], share: float) -> float:
    """The least sample that this share (0 to 1) of them does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, -int(-share * len(ordered) // 1) - 1)]


def environ(**more: str) -> dict[str, str]:
    """The environment for what is started: nothing that sets jobq, bytecode is kept, nothing of the directory is imported."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("JOBQ_") and name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
    }
    return {**kept, "PYTHONSAFEPATH": "1", **more}


def python(function: Callable[..., Any], *arguments: Any) -> list[str]:
    """The command that calls a function of a driver in a new process and prints what it returns as JSON.

    Args:
        function: a function at the top of a module in this directory.
        arguments: what JSON can hold; paths become text.
    """
    code = (
        "import json, sys; sys.path.insert(0, sys.argv[1]); "
        f"from {function.__module__} import {function.__name__} as act; "
        "print(json.dumps(act(*json.loads(sys.argv[2]))))"
    )
    return [sys.executable, "-P", "-c", code, str(HERE), json.dumps(arguments, default=os.fspath)]


def in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function of a driver returns in a new process.

    Raises:
        CalledProcessError: it failed.
    """
    done = subprocess.run(
        python(function, *arguments), env=environ(), check=True, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    )
    return json.loads(done.stdout)


def shown(value: float) -> str:
    """A number in three significant digits, with thousands set apart."""
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


HEADS = ("row", "what", "figure", "beside", "floor", "ratio", "target", "met")


def cells(one: Row) -> tuple[str, ...]:
    """A row as texts, in the order of `HEADS`."""
    return (
        one.name,
        one.what,
        f"{shown(one.figure)} {one.unit}",
        one.floor or "",
        "" if one.floor_figure is None else f"{shown(one.floor_figure)} {one.unit}",
        "" if one.ratio is None else f"{one.ratio:.2f}" if 0.1 <= one.ratio < 100 else shown(one.ratio),
        one.target,
        {None: "", True: "yes", False: "NO"}[one.met],
    )


def table(rows: Iterable[Row]) -> str:
    """Rows as lines of a table for a terminal; the settings stand in the JSON."""
    lines = [HEADS, *map(cells, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADS))]
    right = {"figure", "floor", "ratio"}

    def aligned(line: Sequence[str]) -> str:
        parts = (
            text.rjust(width) if head in right else text.ljust(width)
            for head, text, width in zip(HEADS, line, widths, strict=True)
        )
        return "  ".join(parts).rstrip()

    return "\n".join(map(aligned, lines))


def machine(directory: Path) -> dict[str, Any]:
    """The facts of this machine that figures depend on, and the kind of file system that `directory` is on."""
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "kernel": f"{platform.system()} {platform.release()}",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "filesystem": _filesystem(directory),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, platform.machine())


def _filesystem(directory: Path) -> str:
    """Of which type, as `stat` calls it; what a sync costs depends on it, and a tmpfs has none."""
    stat = shutil.which("stat")
    if stat is None:
        return "unknown"
    done = subprocess.run([stat, "-f", "-c", "%T", str(directory)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def commit() -> str | None:
    """The commit of the checkout that these files are in; None where that cannot be told."""
    command = ["git", "-C", str(HERE), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def _version() -> str:
    try:
        return importlib.metadata.version("jobq")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


@dataclass(frozen=True, kw_only=True)
class Run:
    """What one run measured, and where.

    Attributes:
        date: when it began, UTC, ISO 8601.
        commit: of the checkout, if it is one.
        machine: as `machine()` tells.
        jobq: the version that was measured.
        small: the sizes were for trying; compare with nothing.
        rows: what was measured.
    """

    date: str
    commit: str | None
    machine: dict[str, Any]
    jobq: str
    small: bool = False
    rows: tuple[Row, ...] = ()

    @classmethod
    def here(cls, rows: Iterable[Row], directory: Path, *, date: datetime | None = None, small: bool = False) -> Run:
        """A run of this machine, whose files were in `directory`."""
        return cls(
            date=(date or datetime.now(UTC)).isoformat(timespec="seconds"),
            commit=commit(),
            machine=machine(directory),
            jobq=_version(),
            small=small,
            rows=tuple(rows),
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Run:
        """A run as `write` kept it."""
        held = json.loads(Path(path).read_text(encoding="utf-8"))
        return cls(**{**held, "rows": tuple(Row(**one) for one in held["rows"])})

    def write(self, path: str | os.PathLike[str]) -> None:
        """Keep it as JSON, in a directory that is made where there is none."""
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)
