"""Which processes belong to an attempt, on made-up tables of processes; and the two steps of their end."""

import errno
import os
import signal

import pytest

from jobq.processes import Process
from jobq_subprocess import tree
from jobq_subprocess.orphans import Orphans as RealOrphans

ME = os.getpid()
MARKERS = (b"JOBQ_WORKER=w", b"JOBQ_JOB_ID=j", b"JOBQ_RUN=1")


class Orphans:
    def __init__(self, adopting, adopted=()):
        self.adopting, self.adopted = adopting, list(adopted)

    def pids(self):
        return self.adopted if self.adopting else []

    def none(self):
        return not self.adopted

    def remember(self, members):
        pass

    def reap(self):
        pass


class Machine:
    """A table of processes: pid to (parent, session); those in `dead`, `marked` and `writing` are so."""

    def __init__(self, monkeypatch, table):
        self.table = {1: (0, 1), ME: (1, 1), **table}
        self.dead, self.marked, self.writing = set(), set(), set()
        self.sent = []
        self.deaf = {}
        monkeypatch.setattr(tree.processes, "visible", lambda: True)
        monkeypatch.setattr(tree.processes, "all_processes", self.all)
        monkeypatch.setattr(tree.processes, "carries", lambda pid, *markers: pid in self.marked and markers == MARKERS)
        monkeypatch.setattr(tree.processes, "writes_to", lambda pid, pipe: pid in self.writing and pipe == 77)
        monkeypatch.setattr(tree.processes, "send", self.send)

    def all(self):
        return [Process(pid, *line, 5, dead=pid in self.dead) for pid, line in self.table.items()]

    def send(self, target, number):
        self.sent.append((target.pid, number))
        if number in (signal.SIGTERM, signal.SIGKILL) and self.deaf.get(target.pid) != number:
            self.table.pop(target.pid, None)
        return True

    def members(self, adopting=True, adopted=(), **options):
        return [m.pid for m in tree.Tree(100, MARKERS, Orphans(adopting, adopted), pipe=77, **options).members()]


@pytest.mark.parametrize("adopting", [True, False])
def test_session_descent_and_marker(monkeypatch, adopting):
    table = {
        100: (ME, 100),
        101: (100, 100),
        102: (101, 102),  # has left the session
        103: (102, 102),
        104: (ME, 104),  # let go of, marked
        105: (104, 105),
        90: (ME, 90),  # another attempt
        91: (90, 90),
        60: (1, 60),  # somebody else's
    }
    machine = Machine(monkeypatch, table)
    machine.marked = {104, 100}
    assert machine.members(adopting) == [100, 101, 102, 103, 104, 105]


def test_the_dead_are_passed_over_but_lead_to_the_living(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 101: (100, 101), 102: (101, 102)})
    machine.dead = {100, 101}
    assert machine.members() == [102]


def test_only_descendants_are_asked_for_the_marker_where_orphans_are_adopted(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 60: (1, 60), 61: (4711, 61)})
    machine.marked = {60, 61}
    assert machine.members(adopting=False) == [100, 60, 61]
    assert machine.members(adopting=True) == [100, 61], "the parent of 61 is gone, it may be ours"


def test_a_writer_to_the_pipe_counts_only_where_it_was_adopted(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 70: (ME, 70), 71: (70, 71), 80: (ME, 1)})
    machine.writing = {71, 80}
    assert machine.members(adopted=[70]) == [100, 71]
    assert machine.members(adopting=False, adopted=[70]) == [100]


def test_this_process_and_its_ancestors_are_never_members(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100)})
    machine.marked = {1, ME}
    assert machine.members(adopting=False) == [100]


def test_the_spared_are_left_out_and_not_what_descends_from_them(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 101: (100, 100), 102: (101, 102)})
    assert machine.members(spared=(100,)) == [101, 102]


def test_no_markers_mark_nobody(monkeypatch):
    Machine(monkeypatch, {100: (ME, 100), 60: (1, 60)})
    monkeypatch.setattr(tree.processes, "carries", lambda pid, *markers: True)
    members = tree.Tree(100, (), Orphans(adopting=False), pipe=77).members()
    assert [member.pid for member in members] == [100]


def test_a_member_stays_one_when_nothing_shows_it_any_more(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 104: (ME, 104)})
    machine.marked = {104}
    found = tree.Tree(100, MARKERS, Orphans(adopting=True), pipe=77)
    assert len(found.members()) == 2
    machine.marked.clear()
    assert len(found.members()) == 2


def test_nothing_is_looked_for_where_nothing_was_adopted(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100)})
    assert not tree.Tree(100, MARKERS, Orphans(adopting=True), pipe=77).left()
    assert tree.Tree(100, MARKERS, Orphans(adopting=True, adopted=[5]), pipe=77).left()
    machine.dead.add(100)
    assert not tree.Tree(100, MARKERS, Orphans(adopting=False), pipe=77).left()


class Group:
    """A cgroup of a made-up machine."""

    def __init__(self, machine, *pids):
        self.machine, self.inside, self.killed = machine, set(pids), 0

    def pids(self):
        return self.inside & set(self.machine.table)

    def members(self):
        return [found for found in self.machine.all() if found.pid in self.pids() and not found.dead]

    def kill(self):
        self.killed += 1


def grouped(machine, *pids, **options):
    group = Group(machine, *pids)
    return group, tree.Tree(100, MARKERS, Orphans(adopting=True), pipe=77, group=group, **options)


def test_what_is_in_the_group_belongs_to_it_whatever_else_is_seen(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 60: (1, 60), 61: (60, 61), 70: (1, 70)})
    _, found = grouped(machine, 60)
    assert [member.pid for member in found.members()] == [100, 60, 61]


def test_what_came_into_the_group_while_others_were_looked_at_belongs_to_it(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 60: (1, 60)})
    listed = [found for found in machine.all() if found.pid != 60]
    monkeypatch.setattr(tree.processes, "all_processes", lambda: listed)
    _, found = grouped(machine, 60)
    assert [member.pid for member in found.members()] == [100, 60]


def test_where_something_is_in_the_group_something_is_left(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 60: (1, 60)})
    group, found = grouped(machine, 60)
    assert found.left()
    group.inside = {100}
    assert not grouped(machine, 100, spared=(100,))[1].left()
    assert not grouped(machine)[1].left()


def test_a_group_is_killed_at_one_stroke_when_it_is_time(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100)})
    machine.deaf = {100: signal.SIGTERM}
    group, found = grouped(machine, 100)
    clock = Time()
    steps = tree.Ladder(found, 5.0, monotonic=clock.monotonic, warn=pytest.fail)
    steps.step()
    assert group.killed == 0
    clock.now = 5.0
    steps.step()
    assert group.killed == 1


def test_a_group_is_not_killed_with_those_that_are_spared(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100), 60: (1, 60)})
    group, found = grouped(machine, 100, 60, spared=(100,))
    steps = tree.Ladder(found, 0.0, monotonic=Time().monotonic, warn=pytest.fail)
    steps.step()
    assert (group.killed, machine.sent) == (0, [(60, signal.SIGKILL)])


def test_it_is_not_over_while_the_group_is_inhabited(monkeypatch):
    """One that forks and ends at once may not be seen in any look at all processes."""
    machine = Machine(monkeypatch, {})
    group, found = grouped(machine)
    group.pids, group.members = lambda: {60}, list
    steps = tree.Ladder(found, 5.0, monotonic=Time().monotonic, warn=pytest.fail)
    assert steps.step() > 0
    group.pids = set
    assert steps.step() is None


class Time:
    now = 0.0

    def monotonic(self):
        return self.now


def ladder(kill_at, warn=pytest.fail):
    clock = Time()
    found = tree.Tree(100, MARKERS, Orphans(adopting=True), pipe=77)
    return clock, tree.Ladder(found, kill_at, monotonic=clock.monotonic, warn=warn)


def test_the_leader_is_told_first_and_each_once(monkeypatch):
    machine = Machine(monkeypatch, {99: (100, 100), 100: (ME, 100)})
    machine.deaf = dict.fromkeys((99, 100), signal.SIGTERM)
    clock, steps = ladder(5.0)
    assert steps.step() > 0
    told = [(100, signal.SIGTERM), (100, signal.SIGCONT), (99, signal.SIGTERM), (99, signal.SIGCONT)]
    assert machine.sent == told
    clock.now = 4.9
    assert 0 < steps.step() <= 0.1 + 1e-9
    assert machine.sent == told
    machine.table[101] = (100, 100)
    steps.step()
    assert machine.sent[4:] == [(101, signal.SIGTERM), (101, signal.SIGCONT)]
    clock.now = 5.0
    assert steps.step() > 0
    assert machine.sent[6:] == [(100, signal.SIGKILL), (99, signal.SIGKILL)]
    assert steps.step() is None


def test_nearer_ends_are_obeyed(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100)})
    machine.deaf = {100: signal.SIGTERM}
    clock, steps = ladder(3600.0)
    steps.step()
    steps.kill_at = clock.now = 1.0
    steps.step()
    assert machine.sent[-1] == (100, signal.SIGKILL)


def test_what_does_not_die_is_told_of_once(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100)})
    machine.deaf = {100: signal.SIGKILL}
    told = []
    clock, steps = ladder(0.0, told.append)
    steps.step()
    clock.now = tree.STUCK + 1
    assert steps.step() > 0
    assert steps.step() > 0
    assert told == ["processes of a job do not end after KILL (pid 100)"]


def test_what_belongs_to_another_user_is_left_in_the_end(monkeypatch):
    machine = Machine(monkeypatch, {100: (ME, 100)})

    def refuse(target, number):
        raise PermissionError

    monkeypatch.setattr(tree.processes, "send", refuse)
    told = []
    clock, steps = ladder(0.0, told.append)
    assert steps.step() > 0
    clock.now = tree.STUCK + 1
    assert steps.step() is None
    assert len(told) == 1
    assert machine.sent == []


NO_ROOM = [errno.EMFILE, errno.ENFILE, errno.ENOMEM]


def failing_once(number, call):
    """`call`, which raises the first time."""
    faults = [OSError(number, os.strerror(number))]

    def fail_once(*args):
        if faults:
            raise faults.pop()
        return call(*args)

    return fail_once


@pytest.mark.parametrize("number", NO_ROOM)
@pytest.mark.parametrize("name", ["all_processes", "send"])
def test_where_there_is_no_descriptor_it_is_tried_again(monkeypatch, number, name):
    machine = Machine(monkeypatch, {100: (ME, 100)})
    monkeypatch.setattr(tree.processes, name, failing_once(number, getattr(tree.processes, name)))
    _, steps = ladder(5.0)
    assert steps.step() > 0
    assert machine.sent == []
    assert steps.step() > 0
    assert machine.sent == [(100, signal.SIGTERM), (100, signal.SIGCONT)]
    assert steps.step() is None


@pytest.mark.parametrize("name", ["all_processes", "send"])
def test_other_faults_are_raised(monkeypatch, name):
    Machine(monkeypatch, {100: (ME, 100)})
    monkeypatch.setattr(tree.processes, name, failing_once(errno.EIO, getattr(tree.processes, name)))
    with pytest.raises(OSError, match="Input/output"):
        ladder(5.0)[1].step()


def test_what_cannot_be_looked_for_may_be_there(monkeypatch):
    machine = Machine(monkeypatch, {})
    found = tree.Tree(100, MARKERS, Orphans(adopting=False), pipe=77)
    monkeypatch.setattr(tree.processes, "all_processes", failing_once(errno.EMFILE, machine.all))
    assert found.left()
    assert not found.left()
    monkeypatch.setattr(tree.processes, "all_processes", failing_once(errno.EIO, machine.all))
    with pytest.raises(OSError, match="Input/output"):
        found.left()


def test_adopted_processes_that_cannot_be_looked_at_may_be_there(tmp_path):
    orphans = RealOrphans()
    orphans.adopting, orphans._list = True, str(tmp_path / "children")
    assert not orphans.none()
    orphans.reap()
    with pytest.raises(FileNotFoundError):
        orphans.pids()
    (tmp_path / "children").write_text("")
    assert orphans.none()
