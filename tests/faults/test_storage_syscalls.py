"""Every call on the store's files is once the last one, and once one that fails: all or nothing, and nothing is lost."""

import random

import pytest

from .capabilities import need
from .homes import OPERATIONS, Site, goes_on, operations, state_of
from .injecting import ERRORS, KILL, KILLED, STEPS, Fault, noted, spread
from .sizes import SIZE, rounds
from .stores import JSON, KINDS

EVERY = 10**6

FAULT_OF_JOBQ = 70
"""The exit code of what jobq had not expected: what the system refuses is not among it."""


CASES = [
    pytest.param(kind, name, id=f"{kind.name}-{name}")
    for kind in KINDS
    for name in operations(kind)
    if kind is JSON or SIZE != "short" or name in ("first", "batch", "cancel", "repair")
]
"""What is done on which store; in the short size only some of it on the second."""


class Sweep:
    """One operation, done again and again with another fault.

    Attributes:
        before, after: what the store holds before the operation, and when it has been done without a fault.
        done: how often it was done with a fault that came.
    """

    def __init__(self, name, directory, cli, store):
        self.operation, self._cli = OPERATIONS[name], cli
        self._site = Site(self.operation, directory, store)
        self._notes = directory / "notes"
        self.before = state_of(self._site.renew(cli.home))
        self.do(Fault(()), code=0)
        self._calls = noted(self._notes)
        self.after = state_of(cli.home)
        assert self.after != self.before or name == "compaction"
        self.done = 0

    def do(self, fault, code=None):
        """Do the operation in a fresh home; how it ended."""
        self._site.renew(self._cli.home)
        self._notes.unlink(missing_ok=True)
        return self._cli(
            *self.operation.words,
            code=code,
            input=self.operation.stdin,
            env=fault.environ(self._cli.home, self._notes),
        )

    def number(self, calls):
        """How many such calls the operation makes where all is well."""
        return sum(call.name in calls for call in self._calls)

    def judge(self, fault, answer):
        """Acknowledged is done; else it is done or not, whole; the store is sound, and goes on."""
        told = f"{fault}: exit {answer.code}\n{answer.stdout}{answer.stderr}"
        home = self._cli.home
        found = state_of(home)
        assert found in (self.before, self.after), told
        if answer.code == 0 or answer.out:
            assert found == self.after, told
        assert "Traceback" not in answer.stderr, told
        if found != {"unreadable": ()}:
            goes_on(home)
        self.done += 1


@pytest.fixture
def sweep(tmp_path, new_cli, store):
    need("compiler")

    def make(name):
        cli = new_cli(tmp_path / "cli")
        cli.environ["PYTHONSAFEPATH"] = "1"
        return Sweep(name, tmp_path, cli, store)

    return make


@pytest.mark.parametrize(("store", "name"), CASES, indirect=["store"])
def test_a_command_killed_at_any_call_has_done_all_or_nothing(sweep, name, figure):
    swept = sweep(name)
    number = swept.number(STEPS)
    for at in spread(number, rounds(short=4, full=EVERY, long=EVERY)):
        for action in (KILL, KILLED):
            fault = Fault(STEPS, at, action)
            answer = swept.do(fault)
            assert answer.code == -9, fault
            swept.judge(fault, answer)
    figure(
        f"F03 {name}", f"{swept.done} kills, before and after each of {swept.done // 2} of {number} calls, 0 violations"
    )


@pytest.mark.parametrize(("store", "name"), CASES, indirect=["store"])
def test_a_command_whose_calls_fail_has_done_it_or_says_that_it_could_not(sweep, name, figure):
    swept = sweep(name)
    refused = points = 0
    chance = random.Random(name)
    for error, calls in ERRORS.items():
        number = swept.number(calls)
        points += number
        once_and_on = (False,) if error == "EINTR" else (False, True)  # for ever, a call would be repeated for ever
        faults = [Fault(calls, at, error, on=on) for at in range(1, number + 1) for on in once_and_on]
        for fault in chance.sample(faults, min(len(faults), rounds(short=1, full=EVERY, long=EVERY))):
            answer = swept.do(fault)
            if answer.code != 0:
                refused += 1
                assert answer.code > 0, fault
                assert answer.code != FAULT_OF_JOBQ, (fault, answer.stderr)
                assert answer.stderr.strip(), fault
            swept.judge(fault, answer)
    figure(
        f"F24 {name}",
        f"{swept.done} failures at {points} points, once and for ever, {len(ERRORS)} errors: "
        f"{refused} refused with a message, 0 violations",
    )
