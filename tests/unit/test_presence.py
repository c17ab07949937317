"""A worker's files: who is alive, and what is told of whom."""

import errno
import fcntl
import itertools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from jobq import orphans, presence, processes
from jobq.errors import StoreError, StoreUnavailable, UnsafeHome
from jobq.orphans import recover
from jobq.presence import FilePresence, forget, is_alive, members, unknown_worker
from jobq.testing import make_info

JOIN = """
import sys
from pathlib import Path
from jobq.orphans import recover
from jobq.presence import FilePresence
from jobq.testing import make_info
presence = FilePresence(Path(sys.argv[1]), make_info(sys.argv[2]))
print("joined", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def directory(tmp_path):
    return tmp_path / "workers"


@pytest.fixture
def join(directory):
    joined = []

    def join(worker_id, **facts):
        joined.append(FilePresence(directory, make_info(worker_id, **facts)))
        return joined[-1]

    yield join
    for each in joined:
        each.close()


def die(member):
    """What the kernel does at the end of a process."""
    os.close(member._lock_fd)
    os.close(member.jobs_fd)
    member._lock_fd, member.jobs_fd = -1, None


def seen(directory):
    return {info.id: alive for info, alive in members(directory)}


def test_nobody_is_there_before_the_directory_is(directory):
    assert list(members(directory)) == []
    assert not is_alive(directory, "w1")
    forget(directory, "w1")


def test_members_are_seen_with_what_they_tell(directory, join):
    older, younger = make_info("w1"), make_info("w2", count=4, queues=("mail",), handlers=("resize",))
    join("w1")
    join("w2", count=4, queues=("mail",), handlers=("resize",))
    assert list(members(directory)) == [(older, True), (younger, True)]


def test_the_files_are_private_and_the_lock_is_not_inherited(directory, join):
    member = join("w1")
    assert sorted(path.name for path in directory.iterdir()) == ["w1.jobs", "w1.json", "w1.lock"]
    assert {path.stat().st_mode & 0o777 for path in directory.iterdir()} == {0o600}
    assert directory.stat().st_mode & 0o777 == 0o700
    assert fcntl.fcntl(member._lock_fd, fcntl.F_GETFD) & fcntl.FD_CLOEXEC


def test_a_report_replaces_what_is_told(directory, join):
    member = join("w1")
    told = replace(make_info("w1"), state="draining", count=2)
    member.report(told)
    assert list(members(directory)) == [(told, True)]


def test_who_leaves_leaves_nothing(directory, join):
    member = join("w1")
    member.close()
    assert list(directory.iterdir()) == []
    assert list(members(directory)) == []
    member.close()


def test_who_dies_is_seen_as_dead_until_forgotten(directory, join):
    member = join("w1", name="the one")
    join("w2")
    die(member)
    assert not is_alive(directory, "w1")
    assert seen(directory) == {"w1": False, "w2": True}
    assert {info.id: info for info, _ in members(directory)}["w1"].name == "the one"
    forget(directory, "w1")
    assert seen(directory) == {"w2": True}


def test_observers_do_not_take_one_another_for_the_owner(directory, join):
    member = join("w1")
    watching = os.open(directory / "w1.lock", os.O_RDONLY)
    assert is_alive(directory, "w1")
    die(member)
    fcntl.flock(watching, fcntl.LOCK_SH | fcntl.LOCK_NB)
    assert not is_alive(directory, "w1"), "a shared lock is an observer's"
    os.close(watching)


def test_a_process_that_is_killed_is_dead(directory):
    with subprocess.Popen(
        [sys.executable, "-c", JOIN, str(directory), "w1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as worker:
        assert worker.stdout.readline() == b"joined\n"
        assert seen(directory) == {"w1": True}
        worker.kill()
    assert seen(directory) == {"w1": False}
    (info, _alive) = next(members(directory))
    recovered = recover(directory, info)
    assert (recovered.clean, recovered.why) == (True, "")


@pytest.mark.parametrize("told", [b"", b"{", b"[]", b"5", b'{"id": "w1"}', b"\xff", b"null"])
def test_a_dead_worker_whose_words_are_lost_is_still_known(directory, join, told):
    member = join("w1")
    (directory / "w1.json").write_bytes(told)
    assert seen(directory) == {}, "as if it were still joining"
    die(member)
    assert list(members(directory)) == [(unknown_worker("w1"), False)]
    (directory / "w1.json").unlink()
    assert list(members(directory)) == [(unknown_worker("w1"), False)]


def test_who_joins_or_leaves_just_now_is_not_seen(directory, join, monkeypatch):
    member = join("w1")
    (directory / "w1.json").rename(directory / "aside")
    assert seen(directory) == {}, "it has a lock and has said nothing yet"
    (directory / "aside").rename(directory / "w1.json")
    listdir = os.listdir

    def leaves_after_the_listing(path):
        names = listdir(path)
        monkeypatch.undo()
        member.close()
        return names

    monkeypatch.setattr(presence.os, "listdir", leaves_after_the_listing)
    assert seen(directory) == {}


def test_other_files_are_nobody(directory, join):
    join("w1")
    for name in ("lock", "README", ".w2.lock.new", "w3.json", "w4.jobs"):
        (directory / name).write_bytes(b"")
    assert seen(directory) == {"w1": True}


def test_a_link_among_the_locks_is_refused(directory, join):
    join("w1")
    (directory / "w2.lock").symlink_to("/etc/passwd")
    with pytest.raises(UnsafeHome):
        list(members(directory))


def test_an_unsafe_directory_is_refused(directory):
    directory.mkdir()
    directory.chmod(0o777)
    with pytest.raises(UnsafeHome):
        FilePresence(directory, make_info("w1"))


def test_ids_are_never_used_twice(directory, join):
    join("w1")
    with open(directory / ".w2.lock.new", "wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="File exists"):
            FilePresence(directory, make_info("w2"))


def test_after_a_reboot_there_is_nothing_to_look_for(directory, monkeypatch):
    def look(*_given, **_named):
        raise AssertionError("processes are looked for")

    monkeypatch.setattr(processes, "kill_all", look)
    assert recover(directory, make_info("w1", boot_id="another")).clean


def test_of_another_boot_a_held_lock_is_that_of_another_machine(directory, join):
    member = join("w1", boot_id="another", host="elsewhere")
    info = next(info for info, _ in members(directory))
    os.close(member._lock_fd)
    member._lock_fd = -1
    recovered = recover(directory, info)
    assert not recovered.clean
    assert "it ran on elsewhere" in recovered.why
    os.close(member.jobs_fd)
    member.jobs_fd = None
    assert recover(directory, info).clean


def test_a_worker_of_another_machine_cannot_be_recovered_here(directory):
    recovered = recover(directory, make_info("w1", boot_id="another", host="elsewhere"))
    assert not recovered.clean
    assert "elsewhere" in recovered.why


def test_where_processes_cannot_be_seen_a_held_lock_decides(directory, join, monkeypatch):
    monkeypatch.setattr(processes, "visible", lambda: False)
    member = join("w1")
    recovered = recover(directory, make_info("w1"))
    assert not recovered.clean
    assert "cannot be looked for" in recovered.why
    die(member)
    assert recover(directory, make_info("w1")).clean


def test_a_lock_that_stays_held_by_what_cannot_be_found_is_told(directory, join, monkeypatch):
    monkeypatch.setattr(orphans, "ORPHAN_WAIT", 0.05)
    member = join("w1")
    inherited = os.dup(member.jobs_fd)
    die(member)
    try:
        recovered = recover(directory, make_info("w1"))
        assert not recovered.clean
        assert "holds the jobs lock" in recovered.why
    finally:
        os.close(inherited)
    assert recover(directory, make_info("w1")).clean


def test_recovery_never_ends_itself(directory):
    """A reaper that was started from within a job of the dead worker carries its name."""
    script = (
        "import sys; from pathlib import Path; from jobq.orphans import recover; from jobq.testing import make_info;"
        "print(recover(Path(sys.argv[1]), make_info('w1')).clean)"
    )
    environ = os.environ | {"JOBQ_WORKER": "w1"}
    done = subprocess.run(
        [sys.executable, "-c", script, str(directory)], env=environ, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("True\n", 0)


def test_in_a_copy_of_a_home_nothing_of_the_original_is_recovered(tmp_path, directory, join):
    join("w1")
    marked = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, env={"JOBQ_WORKER": "w1"})
    try:
        copy = tmp_path / "copy"
        shutil.copytree(directory, copy)
        ((info, alive),) = members(copy)
        assert not alive
        assert recover(copy, info).clean
        assert info.boot_id != processes.boot_id(), "a loss there must count nothing"
        assert marked.poll() is None
        assert seen(directory) == {"w1": True}
    finally:
        marked.kill()
        marked.communicate()


def test_a_member_whose_files_were_removed_makes_them_anew(directory, join):
    member = join("w1")
    info = next(info for info, _ in members(directory))
    assert not member.renew(info)
    shutil.rmtree(directory)
    assert member.renew(info)
    assert seen(directory) == {"w1": True}
    assert not member.renew(info)


def test_an_unclean_end_leaves_everything_for_recovery_to_find(directory, join):
    join("w1").close(clean=False)
    assert seen(directory) == {"w1": False}
    assert (directory / "w1.jobs").exists()


def test_a_forked_copy_does_not_keep_a_dead_worker_alive(directory, tmp_path):
    script = JOIN + "import os, time\nif os.fork() == 0:\n    time.sleep(600)\n"
    script = script.replace("sys.stdin.read()\n", "")
    script += "print(os.getpid(), flush=True)\ntime.sleep(600)\n"
    process = subprocess.Popen([sys.executable, "-c", script, str(directory), "w1"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "joined\n"
        assert process.stdout.readline() == f"{process.pid}\n"
        (child,) = [one.pid for one in processes.all_processes() if one.parent == process.pid]
        process.kill()
        process.wait()
        end = time.monotonic() + 30
        while seen(directory) != {"w1": False}:  # the copy may not have had its turn yet
            assert time.monotonic() < end
            time.sleep(0.01)
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_a_join_that_fails_leaves_nothing(directory, monkeypatch):
    def full(*args, **kwargs):
        raise StoreUnavailable("no space left on device")

    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(presence, "replace", full)
    with pytest.raises(StoreUnavailable):
        FilePresence(directory, make_info("w1"))
    assert os.listdir(directory) == []
    assert len(os.listdir("/proc/self/fd")) == before


STEPS = ("open", "rename", "replace")
"""The calls between which others could see something."""


def join_and_die(directory, at):
    """Join in a process that dies before its call of that number; whether it came so far."""
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            made = itertools.count(1)
            for name in STEPS:
                call = getattr(os, name)

                def dying(*args, call=call, **kwargs):
                    if next(made) == at:
                        os._exit(1)
                    return call(*args, **kwargs)

                setattr(os, name, dying)
            FilePresence(directory, make_info("killed"))
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, 1)
    return code == 1


def test_what_is_left_of_one_killed_as_it_joined_goes_with_the_next_that_joins(directory):
    steps = 0
    while join_and_die(directory, at=steps + 1):
        steps += 1
        FilePresence(directory, make_info("next")).close()
        assert list(directory.iterdir()) == [], f"killed before call {steps}"
    assert steps > len(STEPS)
    assert seen(directory) == {"killed": False}, "where it had joined it is lost like any other"


def test_nothing_is_swept_away_of_one_that_joins_just_now(directory, join, monkeypatch):
    rename = os.rename

    def meanwhile(source, target):
        if target == str(directory / "w1.lock"):
            monkeypatch.undo()
            FilePresence(directory, make_info("next")).close()
        rename(source, target)

    monkeypatch.setattr(os, "rename", meanwhile)
    join("w1")
    assert seen(directory) == {"w1": True}


def test_one_that_was_swept_away_before_it_had_its_lock_begins_again(directory, join, monkeypatch):
    flock = fcntl.flock

    def swept(descriptor, operation):
        monkeypatch.undo()
        (directory / ".w1.lock.new").unlink()
        flock(descriptor, operation)

    directory.mkdir(mode=0o700)
    monkeypatch.setattr(fcntl, "flock", swept)
    join("w1")
    assert seen(directory) == {"w1": True}
    assert sorted(path.name for path in directory.iterdir()) == ["w1.jobs", "w1.json", "w1.lock"]


def test_one_that_sweeps_takes_no_file_of_one_that_begins_again(directory, join, monkeypatch):
    """It had found a file without its lock; what stood under the name when it unlinked was the next one."""
    flock, unlink_all = fcntl.flock, presence._unlink_all
    sweeping, swept = threading.Event(), threading.Event()
    others = threading.Thread(target=presence._sweep, args=(directory,))

    def found(descriptor, operation):
        if threading.current_thread() is not others and not others.ident:
            others.start()
            assert sweeping.wait(10)
        flock(descriptor, operation)

    def unlink(directory, worker_id):
        sweeping.set()
        swept.wait(0.2)
        unlink_all(directory, worker_id)

    def published(path):
        swept.set()
        others.join()
        publish(path)

    publish = presence._publish
    directory.mkdir(mode=0o700)
    monkeypatch.setattr(fcntl, "flock", found)
    monkeypatch.setattr(presence, "_unlink_all", unlink)
    monkeypatch.setattr(presence, "_publish", published)
    join("w1")
    monkeypatch.undo()
    assert seen(directory) == {"w1": True}
    assert sorted(path.name for path in directory.iterdir()) == ["w1.jobs", "w1.json", "w1.lock"]


def test_what_was_killed_as_it_made_its_files_anew_stays_for_recovery(directory, join):
    """What it had started may live, and holds the jobs lock."""
    member = join("w1")
    (directory / "w1.lock").rename(directory / ".w1.lock.new")
    os.close(member._lock_fd)
    FilePresence(directory, make_info("next")).close()
    assert (directory / "w1.jobs").exists()
    os.close(member.jobs_fd)
    member._lock_fd, member.jobs_fd = -1, None
    FilePresence(directory, make_info("next")).close()
    assert list(directory.iterdir()) == []


def test_of_a_join_that_runs_out_of_descriptors_nothing_stays(directory, monkeypatch):
    """To list a directory takes one too."""
    directory.mkdir(mode=0o700)

    def refusing(call):
        def refuse(*args):
            if (directory / "w1.json").exists():
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return call(*args)

        return refuse

    for name in ("rename", "listdir"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))
    with pytest.raises(StoreUnavailable, match="Too many open files"):
        FilePresence(directory, make_info("w1"))
    monkeypatch.undo()
    assert list(directory.iterdir()) == []


def test_a_directory_that_cannot_be_swept_hinders_nobody(directory, join, monkeypatch):
    def refuse(_path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        join("w1")
    assert seen(directory) == {"w1": True}


def read_only(*args, **kwargs):
    """What the system answers to a change on a file system that is read-only."""
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.fixture
def read_only_disk(monkeypatch):
    """Makes the file system read-only, as far as presence can tell; the locks and what is open stay."""

    def begin():
        for call in ("unlink", "rename", "replace"):
            monkeypatch.setattr(os, call, read_only)
        opened = os.open

        def open_to_read(path, flags, *args, **kwargs):
            return read_only() if flags & os.O_CREAT else opened(path, flags, *args, **kwargs)

        monkeypatch.setattr(os, "open", open_to_read)

    yield begin
    monkeypatch.undo()


def test_a_join_on_a_read_only_disk_says_so(directory, read_only_disk):
    directory.mkdir(mode=0o700)
    read_only_disk()
    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        FilePresence(directory, make_info("w1"))


def test_leaving_on_a_read_only_disk_says_so_and_lets_the_locks_go(directory, join, read_only_disk):
    member = join("w1")
    read_only_disk()
    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        member.close()
    assert seen(directory) == {"w1": False}


def test_forgetting_on_a_read_only_disk_says_so(directory, join, read_only_disk):
    die(join("w1"))
    read_only_disk()
    with pytest.raises(StoreUnavailable, match="Read-only file system"):
        forget(directory, "w1")
    assert seen(directory) == {"w1": False}


def test_a_renewal_that_fails_keeps_what_there_was(directory, join, monkeypatch):
    member = join("w1")
    info = next(info for info, _ in members(directory))
    descriptors = member._lock_fd, member.jobs_fd
    (directory / "w1.lock").unlink()

    def full(*args, **kwargs):
        raise StoreUnavailable("no space left on device")

    monkeypatch.setattr(presence, "replace", full)
    with pytest.raises(StoreUnavailable):
        member.renew(info)
    assert (member._lock_fd, member.jobs_fd) == descriptors
    for descriptor in descriptors:
        os.fstat(descriptor)


@pytest.mark.parametrize("fails_at", ["w1.jobs", "w1.json", "w1.lock"])
def test_a_renewal_that_fails_shows_no_living_worker_as_gone(directory, join, monkeypatch, fails_at):
    member = join("w1")
    info = next(info for info, _ in members(directory))
    (directory / "w1.lock").unlink()
    rename = os.rename

    def full(source, target, **options):
        if os.path.basename(target) == fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        rename(source, target, **options)

    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", full)
        patch.setattr(os, "replace", full)
        with pytest.raises(StoreUnavailable):
            member.renew(info)
    assert [alive for _, alive in members(directory)] in ([], [True])
    assert not [name for name in os.listdir(directory) if name.endswith(".new")]
    assert member.renew(info)
    assert [alive for _, alive in members(directory)] == [True]


def test_after_a_reboot_under_another_name_what_lies_here_is_recovered(directory, join):
    member = join("w1", host="another-name", boot_id="another boot")
    die(member)
    ((info, alive),) = members(directory)
    assert not alive
    assert recover(directory, info).clean


def test_what_stands_in_the_place_of_the_directory_is_an_error_of_the_store(tmp_path):
    """It ended commands as a fault of jobq's own."""
    (tmp_path / "workers").write_text("")
    with pytest.raises(StoreError, match="workers: Not a directory"):
        list(members(tmp_path / "workers"))
