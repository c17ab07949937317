"""Two processes on one store (F63): the one is held up at every call in turn, while the other does all of its work.

What comes of both is what comes of the one after the other; or the one is refused, and has changed nothing.
"""

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from jobq import lifecycle
from jobq.executor import Kind
from jobq.store import Query, Wanted
from jobq.testing import START, make_info

from .capabilities import need
from .homes import add, goes_on, opened, work
from .injecting import CHANGING, READING, STOP, Fault, noted
from .preloading import library
from .sizes import SIZE, rounds
from .stores import JSON

CALLS = (*CHANGING, *READING, "flock")
PROGRAM = Path(__file__).parent / "programs" / "two_at_once.py"

USUAL = [
    ("claim", "claim"),
    ("claim", "cancel"),
    ("claim", "prune"),
    ("claim", "retry"),
    ("claim", "delete"),
    ("claim", "pause"),
    ("finish", "recover"),
    ("finish", "cancel-running"),
    ("add", "add"),
    ("enqueue", "compact"),
    ("compact", "compact"),
    ("look", "compact"),
    ("leave", "recover"),
]
MORE = [
    ("claim", "recover"),
    ("claim", "compact"),
    ("finish", "finish-and-claim"),
    ("finish-and-claim", "recover"),
    ("finish-and-claim", "compact"),
    ("release", "cancel-running"),
    ("recover", "recover"),
    ("recover", "cancel-running"),
    ("recover", "compact"),
    ("cancel", "retry-cancelled"),
    ("cancel", "delete"),
    ("cancel", "compact"),
    ("prune", "retry"),
    ("prune", "retry-cancelled"),
    ("prune", "compact"),
    ("delete-done", "add-done"),
    ("delete-done", "retry-cancelled"),
    ("delete-done", "compact"),
    ("delete", "add-again"),
    ("delete", "compact"),
    ("add", "add-some"),
    ("add", "compact"),
    ("add-done", "prune"),
    ("add-done", "compact"),
    ("enqueue", "enqueue"),
    ("pause", "compact"),
    ("look", "add-some"),
    ("look", "finish-and-claim"),
    ("count", "claim"),
    ("count", "compact"),
    ("check", "compact"),
    ("join", "recover"),
    ("leave", "members"),
]
"""Of each pair, the first is held up while the second goes on, and the other way round; the short size has the usual
ones."""

MAKING = [("add", "add"), ("enqueue", "claim"), ("enqueue", "look"), ("pause", "enqueue")]
"""Pairs in a home in which there is no store yet."""


def furnish(home):
    """A store with jobs of every state in every file: of each kind the first is in the sorted run or in the archive."""
    add(home, "done-1", "done-2")
    work(home, Kind.SUCCESS, limit=2)
    add(home, "dead-1", max_attempts=1)
    work(home, Kind.FAILURE)
    add(home, "running-1")
    with opened(home) as store:
        member = store.join(make_info("dead", boot_id="boot", host="host"))
        assert len(store.claim(member, wanted=Wanted(), limit=1, now=START).claims) == 1
        member.close(clean=False)
    add(home, "waiting-1", "cancelled-1")
    with opened(home) as store:
        job = store.get("cancelled-1")
        store.change(job, lifecycle.cancel(job, now=START), now=START)
    JSON.tidy(home)
    add(home, "waiting-2", "waiting-3")
    add(home, "urgent-1", priority=1)  # with it, the next compaction moves the others


class Table:
    """A program at which two sit down, and the home that they find.

    Args:
        furnished: whether there is a store in it.
    """

    def __init__(self, process, directory, *, furnished, first, second, warm):
        self._process = process
        self.names, self.warm = (first, second), warm
        self._prepared, self._home = directory / "prepared", directory / "home"
        self._notes = [directory / "notes-0", directory / "notes-1"]
        self._prepared.mkdir(0o700)
        if furnished:
            furnish(self._prepared)

    def play(self, first, second=None, at=0, *, names=("anna", "bert")):
        """Have them do it in a fresh home, the first one stopped before a call; what is told of it."""
        shutil.rmtree(self._home, ignore_errors=True)
        shutil.copytree(self._prepared, self._home)
        for notes in self._notes:
            notes.unlink(missing_ok=True)
        faults = [Fault(CALLS, at, STOP if at else ""), Fault(CALLS)]
        texts = [fault.text(self._home, notes) for fault, notes in zip(faults, self._notes, strict=True)]
        asked = {"home": str(self._home), "names": names, "operations": (first, second), "faults": texts}
        asked["warm"] = self.warm
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        told = json.loads(self._process.stdout.readline())
        for operation, answer in zip(filter(None, (first, second)), told["answers"], strict=True):
            assert "failed" not in answer, answer["failed"]
            if operation == "compact":  # it may leave it to another one that is about it
                told["compacted"] = told.get("compacted", False) or answer["answer"]
                answer["answer"] = None
        assert told.get("compacted", True)
        told["jobs"] = self._found()
        return told

    def calls(self, which=0):
        """The calls that count of one of the two, in their order."""
        return [call for call in noted(self._notes[which]) if call.name in CALLS]

    def goes_on(self):
        """The store takes another job and compacts, and what the two have left behind is in the way of neither."""
        if (self._home / "queue").exists():
            goes_on(self._home)
            before = self._found()
            JSON.tidy(self._home)
            assert self._found() == before

    def _found(self):
        if not (self._home / "queue").exists():
            return []
        with opened(self._home) as store:
            assert store.check() == []
            paused = store.counts(now=START).paused
            return [job.record() for job in store.find(Query())] + [paused]


@pytest.fixture(scope="module")
def program():
    need("compiler")
    environ = os.environ | {"LD_PRELOAD": str(library("faultycalls"))}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, PROGRAM], stdin=pipe, stdout=pipe, text=True, env=environ) as process:
        yield process
        process.stdin.close()
        assert process.wait(30) == 0


class Serial:
    """What may come of two operations: of the one after the other, or of one of them, where the other is refused.

    Attributes:
        number: how many calls the first makes.
    """

    def __init__(self, table):
        first, second = table.names
        both = [table.play(first, second)]
        self.number = len(table.calls())
        both.append(_turned(table.play(second, first, names=("bert", "anna"))))
        alone = [table.play(first), table.play(second, names=("bert",))]
        self._both = [(told["answers"], told["jobs"]) for told in both]
        self._alone = [(told["answers"][0], told["jobs"]) for told in alone]

    def judge(self, told, where):
        """Whether one was refused, and only by its being interleaved; fails where it is neither."""
        outcome = told["answers"], told["jobs"]
        if outcome in self._both:
            return False
        for who, (answer, jobs) in enumerate(self._alone):
            if "refused" in told["answers"][1 - who] and told["answers"][who] == answer and told["jobs"] == jobs:
                return True
        orders = "\n".join(f"{answers} {_differing(jobs, told['jobs'])}" for answers, jobs in self._both)
        pytest.fail(f"{where}\n{told['answers']}\nwhere an order of them would be one of\n{orders}", pytrace=False)


def _differing(expected, found):
    return [each for each in expected if each not in found], "and not", [each for each in found if each not in expected]


def _turned(told):
    return told | {"answers": told["answers"][::-1]}


def sit_down(program, directory, pair, **how):
    """Hold up the first one at each of its calls, or at some; how often, how often the other waited, or was refused."""
    table = Table(program, directory, first=pair[0], second=pair[1], **how)
    serial = Serial(table)
    chance = random.Random(f"{pair} {how}")
    points = range(1, serial.number + 1)
    points = sorted(chance.sample(points, min(len(points), rounds(short=3, full=len(points) // 4, long=len(points)))))
    waited = refused = 0
    for at in points:
        told = table.play(*pair, at)
        assert told["stopped"], f"{pair} has no call {at}"
        call = table.calls()[at - 1]
        where = (
            f"{' and '.join(pair)}, the first held up before its call {at} of {serial.number}, {call.name} {call.path}"
        )
        refused += serial.judge(told, where)
        if told["locked"] and not told["waited"]:
            # It may have prepared another generation; the one in force is as it was
            changed = {call.path for call in table.calls(1) if call.name in ("write", "ftruncate")}
            assert not [path for path in changed if path.endswith(("journal-1.jsonl", "journal-2.jsonl"))], where
        waited += told["waited"]
        assert told["locked"] or not told["waited"], where
        table.goes_on()
    return len(points), waited, refused


def both_ways(program, tmp_path, figure, pair, *, furnished):
    """Sit down in every way that the size in force asks for."""
    turns = [pair, pair[::-1]] if pair[0] != pair[1] else [pair]
    some = [random.Random(" ".join(pair)).random() < 0.5]
    ways = [(turn, warm) for turn in turns for warm in ((True, False) if SIZE == "long" else some)]
    if SIZE == "short":
        ways = ways[-1:]
    done = []
    for number, (turn, warm) in enumerate(ways):
        directory = tmp_path / str(number)
        directory.mkdir()
        done.append(sit_down(program, directory, turn, furnished=furnished, warm=warm))
    number, waited, refused = map(sum, zip(*done, strict=True))
    figure(
        f"F63 {' and '.join(pair)}{'' if furnished else ', the first ever'}",
        f"{number} interleavings; {waited} waited for the lock, {refused} refused, the others as one after the other; "
        "0 violations",
    )


@pytest.mark.parametrize("pair", USUAL if SIZE == "short" else USUAL + MORE, ids="/".join)
def test_two_at_once_are_as_one_after_the_other(program, tmp_path, figure, pair):
    both_ways(program, tmp_path, figure, pair, furnished=True)


@pytest.mark.parametrize("pair", MAKING[: rounds(short=1, full=4, long=4)], ids="/".join)
def test_two_that_make_the_store_are_as_one_after_the_other(program, tmp_path, figure, pair):
    both_ways(program, tmp_path, figure, pair, furnished=False)
