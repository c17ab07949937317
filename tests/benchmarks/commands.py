"""Shell commands a second through one worker, beside the least that can start as many shells."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import queues
from measuring import in_turn, ratio, row
from stores import rate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from measuring import Bench, Row

COMMANDS = 1_000
SOURCE = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Start `sh -c true` so many times, two at once. */
int main(int count, char **arguments)
{
    char *command[] = {"sh", "-c", "true", NULL};
    int left = atoi(arguments[1]), running = 0, status;

    while (left || running) {
        if (left && running < 2) {
            pid_t child = vfork();
            if (child == 0) {
                execv("/bin/sh", command);
                _exit(127);
            }
            if (child < 0)
                return 1;
            left--, running++;
        } else {
            if (wait(&status) < 0 || status)
                return 1;
            running--;
        }
    }
    return 0;
}
"""


def rows(bench: Bench) -> Iterator[Row]:
    """A worker with two at once beside a C program that does nothing else, and beside xargs."""
    count = bench.size(COMMANDS, 100)
    floors = {}
    if program := compiled(bench.new("program")):
        floors["C, vfork + exec of sh -c true, 2 at once"] = [str(program), str(count)]
    else:
        print("no C compiler: commands.run is left out", file=sys.stderr)
    if shutil.which("xargs"):
        floors["xargs -P2 of sh -c true"] = ["xargs", "-P2", "-I{}", "sh", "-c", "true"]
    numbers = "\n".join(map(str, range(count)))

    def start(command: list[str]) -> float:
        return rate(count, lambda: subprocess.run(command, input=numbers, text=True, check=True))

    acts = {name: lambda command=command: start(command) for name, command in floors.items()}
    jobs = [{"command": "true"}] * count
    acts["jobq"] = lambda: count / queues.run_all(queues.new_home(bench.new("commands")), jobs, count=2)
    rounds = bench.rounds(5)
    taken = in_turn(acts, rounds)
    for floor in floors:
        ours = floor.startswith("C")
        yield row(
            "commands.run" if ours else "commands.run.xargs",
            f"{count:,} x sh -c true, one worker, --count 2",
            taken["jobq"],
            unit="jobs/s",
            better="higher",
            floor=floor,
            beside=taken[floor],
            target=ratio(0.45 if ours else 0.6),
            settings={"count": count, "at once": 2, "rounds": rounds, "durability": "full"},
        )


def compiled(directory: Path) -> Path | None:
    """The C program; None where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return None
    source, program = directory / "shells.c", directory / "shells"
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run([compiler, "-O2", "-o", str(program), str(source)], check=True)
    return program
