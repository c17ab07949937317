"""Cgroups that cannot be made, moved to, read or removed cost no attempt; on a directory that stands for cgroupfs."""

import errno
import fcntl
import os
import subprocess

import pytest

from jobq import processes
from jobq_subprocess import cgroup, groups
from jobq_subprocess.groups import Groups

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


class Started:
    """A process that was started."""

    def __init__(self, pid):
        self.pid = pid


def hold(made, leader=1 << 30, worker=WORKER):
    started = Started(leader)
    process, group = made.start(worker, lambda: started)
    assert process is started
    return group


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


def test_where_there_is_no_cgroup_an_attempt_has_none(fs, made, monkeypatch):
    monkeypatch.setattr(groups.cgroupfs, "own", lambda: None)
    assert hold(made) is None
    assert fs.moved == []


def test_where_no_cgroup_can_be_made_an_attempt_has_none(fs, made, monkeypatch):
    monkeypatch.setattr(groups.cgroupfs, "own", lambda: "/proc/self")
    assert hold(made) is None
    assert fs.moved == []


def test_empty_directories_of_dead_workers_are_removed_by_the_next_and_no_others(fs, made):
    living = Groups()
    alive, dead, left = (letter * 16 for letter in "adl")
    hold(living, worker=alive)
    others = "jobq-worker.service", "jobq-backend", f"jobq-{dead}x", "other"
    for name in (f"jobq-{dead}", f"jobq-{dead}/1", f"jobq-{left}", f"jobq-{left}/1", *others):
        os.mkdir(fs.directory / name)
    (fs.directory / f"jobq-{left}" / "1" / "cgroup.events").write_text("populated 1\nfrozen 0\n")
    hold(made)
    assert {name.split("/")[0] for name in fs.made} == {f"jobq-{left}", f"jobq-{alive}", f"jobq-{WORKER}", *others}
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


@pytest.fixture
def moving(fs):
    """Those of a worker, which is moved itself."""
    moving = Groups(moves=True)
    yield moving
    moving.close()


def live(fs, *pids):
    """Have these live beside the worker until they are moved."""
    (fs.directory / f"jobq-{WORKER}" / "worker" / "cgroup.procs").write_text("\n".join(map(str, pids)))


def test_a_worker_is_moved_before_it_starts_anything(fs, moving):
    moved = []
    moving.start(WORKER, lambda: moved.extend(fs.moved) or Started(1 << 30))
    assert moved == [(f"jobq-{WORKER}/worker", os.getpid())]
    assert fs.moved[1:] == [(f"jobq-{WORKER}/1", 1 << 30)]


def test_what_is_found_beside_the_worker_is_moved_unless_it_is_of_the_workers_session(fs, moving, monkeypatch):
    sessions = {os.getpid(): os.getsid(0), 101: 101, 102: os.getsid(0), 103: 77, 104: 104}
    found = lambda pid: processes.Process(pid, 1, sessions[pid], 1, pid == 104)  # noqa: E731
    monkeypatch.setattr(processes, "process", found)
    moving.release(hold(moving))
    live(fs, os.getpid(), 101, 102, 103, 104)
    fs.moved.clear()
    hold(moving)
    assert sorted(pid for _, pid in fs.moved[1:]) == [101, 103]


def test_what_cannot_be_moved_keeps_nobody_else(fs, moving, monkeypatch):
    monkeypatch.setattr(processes, "process", lambda pid: processes.Process(pid, 1, pid, 1, False))
    moving.release(hold(moving))
    live(fs, 101, 103)
    write = fs.write

    def refuse(directory, name, value):
        if int(value) == 101:
            raise PermissionError
        write(directory, name, value)

    monkeypatch.setattr(cgroup, "_write", refuse)
    fs.moved.clear()
    assert hold(moving) is not None
    assert [pid for _, pid in fs.moved[1:]] == [103]


def test_a_start_that_fails_keeps_its_group_for_the_next(fs, made):
    def fail():
        raise FileNotFoundError("no such program")

    with pytest.raises(FileNotFoundError, match="no such program"):
        made.start(WORKER, fail)
    assert os.path.basename(hold(made).path) == "1"


def test_where_nothing_can_be_found_out_for_want_of_room_it_is_tried_again(fs, made, monkeypatch):
    def short():
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(groups.cgroupfs, "own", short)
        assert hold(made) is None
    assert hold(made) is not None


@pytest.mark.parametrize(
    ("own", "target"),
    [
        (f"/c/jobq-{WORKER}/3", "/c"),
        (f"/c/jobq-{WORKER}/worker", "/c"),
        (f"/c/jobq-{WORKER}/3/jobq-{WORKER}/1", "/c"),
        (f"/c/jobq-{WORKER}", "/c"),
        ("/c/job", None),
        ("/c/jobq-worker.service", None),
        ("/c/jobq-worker.service/3", None),
        (f"/c/jobq-{WORKER}x/1", None),
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
