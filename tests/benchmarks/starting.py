"""What a command costs as a whole process, from nothing to its end: the installed script, in a home that is in use."""

from __future__ import annotations

import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import queues
from measuring import environ, in_turn, ratio, row, seconds, until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measuring import Bench, Row

COMMANDS = {
    "enqueue": ("enqueue", '{"command": "true"}'),
    "add": ("add", "--", "true"),
    "version": ("--version",),
    "status": ("status",),
}
CONFIGURED = "enqueue-configured"
FLOORS = {"python -c pass": "pass", "import click, pluggy, filelock": "import click, pluggy, filelock"}


def rows(bench: Bench) -> Iterator[Row]:
    """Each command beside the interpreter alone, and beside the imports that nobody can do without who needs all three."""
    plain, configured = bench.new("starting") / "home", queues.new_home(bench.new("starting"))
    for home in (plain, configured):
        warm(home)
    acts = {name: partial(_run, queues.command(plain, *words)) for name, words in COMMANDS.items()}
    acts[CONFIGURED] = partial(_run, queues.command(configured, *COMMANDS["enqueue"]))
    acts |= {name: partial(_run, [sys.executable, "-c", code]) for name, code in FLOORS.items()}
    for act in acts.values():
        act()
    rounds = bench.rounds(30)
    taken = in_turn(acts, rounds)
    bare, imports = FLOORS
    common = {"unit": "ms", "better": "lower", "settings": {"rounds": rounds}}
    for name, words in COMMANDS.items():
        what = f"jobq {words[0]}, a whole process"
        bound = ratio(2.0) if name in ("enqueue", "add") else None
        yield row(f"starting.{name}", what, taken[name], floor=bare, beside=taken[bare], target=bound, **common)
        beside = {"floor": imports, "beside": taken[imports]}
        yield row(f"starting.{name}.imports", what, taken[name], target=ratio(0.85), **beside, **common)
    what = "jobq enqueue, a home with a config.toml"
    yield row(f"starting.{CONFIGURED}", what, taken[CONFIGURED], floor=bare, beside=taken[bare], **common)


def warm(home: Path) -> None:
    """Use a home until it remembers which plugins there are: not while what holds them changed just now."""

    def remembers() -> bool:
        _run(queues.command(home, *COMMANDS["enqueue"]))
        return any(home.glob("cache/plugins-*"))

    until(remembers, every=0.1)


def _run(command: list[str]) -> float:
    """Milliseconds."""
    return 1000 * seconds(subprocess.run, command, env=environ(), check=True, stdout=subprocess.DEVNULL)
