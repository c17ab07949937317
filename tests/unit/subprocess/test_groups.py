"""Cgroups that cannot be made, moved to, read or removed cost no attempt; on a directory that stands for cgroupfs."""

import errno
import fcntl
import os
import subprocess

import pytest

from jobq_subprocess import cgroup, groups
from jobq_subprocess.groups import Groups
from jobq_subprocess.orphans import Orphans

WORKER = "aaaabbbbccccdddd"


class Cgroupfs:
    """A directory in which what is made is like a cgroup, but that nothing lives there."""

    def __init__(self, directory, monkeypatch):
        self.directory = directory
        self.moved = []
        self.fault = None
        self._mkdir, self._rmdir = os.mkdir, os.rmdir
        monkeypatch.setattr(groups.cgroupfs, "own", lambda: str(directory))
        monkeypatch.setattr(groups.cgroupfs, "points", lambda: [str(directory)])
        monkeypatch.setattr(os, "mkdir", self.mkdir)
        monkeypatch.setattr(os, "rmdir", self.rmdir)
        monkeypatch.setattr(cgroup, "_write", self.write)

    def mkdir(self, path, *args):
        self._mkdir(path, *args)
        if str(path).startswith(str(self.directory)):
            for name, content in {"cgroup.procs": "", "cgroup.events": "populated 0\nfrozen 0\n"}.items():
                with open(os.path.join(path, name), "w") as file:
                    file.write(content)

    def rmdir(self, path, *args, **options):
        if str(path).startswith(str(self.directory)):
            with open(f"{path}/cgroup.events") as file:
                if "populated 1" in file.read():
                    raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            for name in ("cgroup.procs", "cgroup.events"):
                os.unlink(f"{path}/{name}")
        self._rmdir(path, *args, **options)

    def write(self, directory, name, value):
        if self.fault is not None:
            raise OSError(self.fault, os.strerror(self.fault))
        with open(f"{directory}/{name}", "r+b"):
            self.moved.append((os.path.relpath(directory, self.directory), int(value)))

    @property
    def made(self):
        return sorted(os.path.relpath(d, self.directory) for d, _, _ in os.walk(self.directory))[1:]


@pytest.fixture
def fs(tmp_path, monkeypatch):
    return Cgroupfs(tmp_path, monkeypatch)


@pytest.fixture
def made():
    made = Groups()
    yield made
    made.close()


def hold(made, leader=1 << 30):
    return made.hold(WORKER, leader, (b"JOBQ_WORKER=w",), Orphans())


def test_a_group_serves_one_attempt_after_the_other(fs, made):
    first, second = hold(made), hold(made)
    assert [os.path.basename(group.path) for group in (first, second)] == ["1", "2"]
    made.release(first)
    assert hold(made).path == first.path
    assert [directory for directory, _ in fs.moved] == [f"jobq-{WORKER}/{n}" for n in (1, 2, 1)]
    assert fs.made == [f"jobq-{WORKER}", f"jobq-{WORKER}/1", f"jobq-{WORKER}/2"]


@pytest.mark.parametrize("events", ["populated 1\nfrozen 0\n", "populated 0\nfrozen 1\n", ""])
def test_a_group_in_which_something_lives_or_stands_still_is_not_used_again(fs, made, events):
    group = hold(made)
    with open(f"{group.path}/cgroup.events", "w") as file:
        file.write(events)
    made.release(group)
    assert hold(made).path != group.path
    assert os.path.exists(group.path) == ("populated 1" in events)


def test_a_group_that_its_attempt_has_divided_is_not_used_again(fs, made):
    group = hold(made)
    os.mkdir(f"{group.path}/below")
    made.release(group)
    assert not os.path.exists(group.path)
    assert hold(made).path != group.path


def test_nothing_is_left_when_they_are_closed(fs, made):
    made.release(hold(made))
    made.close()
    assert fs.made == []
    assert hold(made) is None


@pytest.mark.parametrize("number", [errno.EACCES, errno.EBUSY, errno.EOPNOTSUPP, errno.EROFS])
def test_where_nothing_can_be_moved_it_is_not_tried_again(fs, made, number):
    fs.fault = number
    assert hold(made) is None
    fs.fault = None
    assert hold(made) is None
    assert fs.made == [f"jobq-{WORKER}"]
    made.close()
    assert fs.made == []


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN])
def test_want_of_room_costs_one_attempt_its_group(fs, made, number):
    fs.fault = number
    assert hold(made) is None
    fs.fault = None
    assert hold(made) is not None


def test_a_leader_that_has_ended_already_is_no_fault(fs, made):
    fs.fault = errno.ESRCH
    assert hold(made) is not None


def test_what_somebody_has_cleaned_up_is_made_anew(fs, made):
    made.release(hold(made))
    for directory in (f"jobq-{WORKER}/1", f"jobq-{WORKER}"):
        os.rmdir(fs.directory / directory)
    assert hold(made) is not None
    assert fs.made == [f"jobq-{WORKER}", f"jobq-{WORKER}/2"]


def test_where_there_is_no_cgroup_or_no_directory_can_be_made(fs, made, monkeypatch):
    monkeypatch.setattr(groups.cgroupfs, "own", lambda: None)
    assert hold(made) is None
    others = Groups()
    monkeypatch.setattr(groups.cgroupfs, "own", lambda: "/proc/self")
    assert hold(others) is None
    assert fs.moved == []


def test_empty_directories_of_dead_workers_are_removed_by_the_next_and_no_others(fs, made):
    living = Groups()
    living.hold("living", 1 << 30, (), Orphans())
    for name in ("jobq-dead", "jobq-dead/1", "jobq-left", "jobq-left/1", "other"):
        os.mkdir(fs.directory / name)
    (fs.directory / "jobq-left" / "1" / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    hold(made)
    assert {name.split("/")[0] for name in fs.made} == {"jobq-left", "jobq-living", f"jobq-{WORKER}", "other"}
    living.close()


def test_what_a_leader_has_forked_before_it_was_moved_is_moved_too(fs, made):
    script = "sleep 1000 & sh -c 'sleep 1000 & echo; wait' & wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, start_new_session=True) as leader:
        leader.stdout.readline()
        hold(made, leader.pid)
        moved = [pid for _, pid in fs.moved]
        os.killpg(leader.pid, 9)
    assert moved[0] == leader.pid
    assert len(set(moved)) == 4


class Adopted(Orphans):
    def __init__(self, *pids):
        self.listed = list(pids)

    def pids(self):
        return self.listed


def test_what_it_has_let_go_of_before_is_moved_if_it_carries_the_marker(fs, made, monkeypatch):
    monkeypatch.setattr(groups.processes, "carries", lambda pid, *markers: pid != 103 and markers == (b"A=1",))
    made.hold(WORKER, 100, (b"A=1",), Adopted(99, 101, 103))
    assert [pid for _, pid in fs.moved] == [100, 101]


@pytest.mark.parametrize(
    ("own", "target"),
    [
        ("/c/jobq-outer/3", "/c"),
        ("/c/jobq-outer/3/jobq-inner/1", "/c"),
        ("/c/job", None),
        (None, None),
    ],
)
def test_who_is_no_part_of_a_job_leaves_its_group(monkeypatch, own, target):
    written = []
    monkeypatch.setattr(cgroup.cgroupfs, "own", lambda: own)
    monkeypatch.setattr(cgroup, "_write", lambda *args: written.append(args))
    cgroup.leave()
    assert written == ([] if target is None else [(target, "cgroup.procs", b"0")])


def test_workers_that_start_at_the_same_time_do_not_sweep_one_another_away(fs, made, monkeypatch):
    """One that sweeps finds the directory of another before that holds it."""
    real = fcntl.flock
    sweeps = []

    def flock(descriptor, operation):
        if operation == fcntl.LOCK_SH and len(sweeps) < 3:
            sweeps.append(descriptor)
            groups.sweep(str(fs.directory))
        real(descriptor, operation)

    monkeypatch.setattr(groups.fcntl, "flock", flock)
    assert hold(made) is not None
    assert len(sweeps) == 3
