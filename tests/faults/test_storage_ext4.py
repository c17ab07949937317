"""A real file system on a real image, whose power is cut while jobs are added and done; and one that fails to sync."""

import contextlib
import fcntl
import gc
import os
import random
import re
import shutil
import signal
import sqlite3
import struct
import sys
import time

import pytest

from .capabilities import need
from .conftest import eventually
from .homes import UNREADABLE
from .injecting import SKIP, Fault, command
from .namespaces import CliOnDisk, Mounts
from .sizes import SIZE, rounds
from .stores import JSON

SHUTDOWN, WITH_FLUSH = 0x8004587D, 0
"""EXT4_IOC_SHUTDOWN: from now on nothing reaches the disk, and every call that would fails. Without a flush Linux may
answer well to a sync under way that it gives up (a program of three lines lost its last record in 5 of 120): that is no
power cut."""

WRITER = """
import itertools, jobq, sys
with jobq.Queue.open() as queue:
    for number in itertools.count(int(sys.argv[1])):
        jobs = queue.enqueue_many([{"id": f"job-{number}-{each}", "command": "true"} for each in range(number % 3 + 1)])
        print(*(job.id for job in jobs), flush=True)
"""

DONE = re.compile(r"^\S+  (\S+)  completed after", re.MULTILINE)


class Machine:
    """A disk with ext4 on it, a program that adds jobs without an end, and a worker that does them."""

    def __init__(self, cli, directory):
        self.cli, self._directory = cli, directory
        self.image, self._copy = directory / "image", directory / "copy"
        self._out, self._log = directory / "writer.out", directory / "worker.out"
        self._errors = directory / "errors"
        self._number = 0
        self.processes = []
        self._format()

    def _format(self):
        self.cli.mounts.run('rm -f "$1" && truncate -s 24M "$1" && mkfs.ext4 -q -O ^metadata_csum "$1"', self.image)
        self.cli.mount("ext4", "loop", self.image)

    def renew(self):
        """Begin with an empty disk and nothing acknowledged."""
        self.end()
        self.cli.unmount()
        for path in (self._out, self._log):
            path.unlink()
        self._format()

    def start(self, fault=None):
        """Let both begin, with jobs that nobody has added yet."""
        self._number += 100_000
        program = [sys.executable, "-c", WRITER, str(self._number)]
        out, log, errors = self._out.open("ab"), self._log.open("ab"), self._errors.open("ab")
        with out, log, errors:
            writer = self.cli.start_program(program, fault, stdout=out, stderr=errors)
            worker = self.cli.start_program(command("worker", "start", "-n", "2"), fault, stdout=log, stderr=errors)
        self.processes = [writer, worker]
        before = len(self.done())
        eventually(lambda: len(self.done()) > before)

    def end(self):
        """Kill both."""
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []

    def acknowledged(self):
        return self._out.read_text().rpartition("\n")[0].split()

    def done(self):
        return DONE.findall(self._log.read_text()) if self._log.exists() else []

    def errors(self):
        return self._errors.read_text(errors="replace")

    def cut(self):
        """What was acknowledged and done when the power was cut, and what the store on the disk holds after it."""
        with self.cut_off() as place:
            return self.acknowledged(), self.done(), self.cli.mounts.state_of(place / "home")

    @contextlib.contextmanager
    def cut_off(self):
        """The disk as it is now, without what the machine has yet to write; the processes stand still meanwhile."""
        for process in self.processes:
            process.send_signal(signal.SIGSTOP)
        shutil.copyfile(self.image, self._copy)
        place = self._directory / "after"
        place.mkdir(exist_ok=True)
        self.cli.mounts.run('mount -o loop "$1" "$2"', self._copy, place)
        try:
            yield place
        finally:
            gc.collect()  # what was mapped of it keeps it busy
            self.cli.mounts.run('umount "$1"', place)
            for process in self.processes:
                process.send_signal(signal.SIGCONT)


@pytest.fixture
def machine(tmp_path, store):
    need("root", "loop")
    mounts = Mounts()
    cli = CliOnDisk(tmp_path / "cli", mounts, store)
    made = Machine(cli, tmp_path)
    yield made
    made.end()
    cli.close()
    mounts.close()


def lost(acknowledged, done, found):
    """The jobs that were acknowledged, or told to be done, of which the store does not say so."""
    missing = [f"{job_id} acknowledged" for job_id in acknowledged if job_id not in found]
    unfinished = [job_id for job_id in done if job_id in found and found[job_id][0] != "completed"]
    return missing + [f"{job_id} done, and {found[job_id][0]}" for job_id in unfinished]


def cuts(machine, number):
    """Cut the power so often, at random instants; how many jobs were acknowledged, and what was lost at each."""
    chance = random.Random(number)
    losses = []
    for _ in range(number):
        time.sleep(chance.uniform(0.0, 0.05))  # not for a state: the instant is what is drawn
        acknowledged, done, found = machine.cut()
        losses.append(lost(acknowledged, done, found) if found != UNREADABLE else acknowledged)
    return len(acknowledged), losses


def test_a_power_cut_loses_nothing_that_was_acknowledged(machine, figure):
    number = jobs = 0
    for turn in range(rounds(short=1, full=3, long=100)):
        if turn:
            machine.renew()
        machine.start()
        acknowledged, losses = cuts(machine, rounds(short=6, full=20, long=30))
        assert [each for each in losses if each] == []
        number, jobs = number + len(losses), jobs + acknowledged
    figure("F21 ext4", f"{number} power cuts on ext4, {jobs} jobs acknowledged: 0 lost")


def test_on_a_disk_that_does_not_sync_the_lab_finds_losses(machine):
    need("compiler")
    machine.start(Fault(("fsync", "fdatasync"), at=1, action=SKIP, on=True))
    _, losses = cuts(machine, 3)
    assert any(losses)


DATABASE = """
import itertools, sqlite3, sys, time
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA journal_mode={sys.argv[2]}")
connection.execute("PRAGMA synchronous=FULL")
connection.execute("CREATE TABLE acknowledged (number INTEGER)")
for number in itertools.count():
    connection.execute("INSERT INTO acknowledged VALUES (?)", (number,))
    print(number, flush=True)
    time.sleep(0.01)  # the cut is to come after the commit, not in it
"""


@pytest.mark.parametrize("store", [JSON], indirect=True, ids=[""])
@pytest.mark.parametrize(("mode", "loses"), [("DELETE", True), ("WAL", False)])
def test_the_lab_finds_what_a_database_is_known_to_lose(machine, tmp_path, mode, loses, figure):
    """SQLite does not sync the directory that its journal was removed from: the last commit may be undone (F22)."""
    cli, out = machine.cli, machine.cli.directory / "database.out"
    with out.open("wb") as file:
        argv = [sys.executable, "-c", DATABASE, str(cli.disk / "database"), mode]
        machine.processes = [cli.start_program(argv, stdout=file)]
    eventually(lambda: out.stat().st_size)
    chance = random.Random(22)
    cuts = losses = 0
    most = rounds(short=60 if loses else 6, full=150, long=150)
    while cuts < most and not (losses and SIZE == "short"):
        time.sleep(chance.uniform(0.02, 0.04))  # not for a state: the instant is what is drawn
        copy = tmp_path / f"copy-{cuts}"
        with machine.cut_off() as place:
            acknowledged = int(out.read_text().split("\n")[-2])
            shutil.copytree(
                machine.cli.mounts.seen(place), copy
            )  # SQLite itself follows the link into the namespace, to another directory
        with contextlib.closing(sqlite3.connect(copy / "database")) as found:
            (last,) = found.execute("SELECT max(number) FROM acknowledged").fetchone()
        cuts += 1
        losses += last is None or last < acknowledged
    assert (losses > 0) is loses
    figure(
        f"F22 SQLite, {mode}", f"{cuts} power cuts: the last acknowledged commit lost in {losses}, as is known of it"
    )


def test_a_disk_that_is_gone_in_an_instant(machine, figure):
    number = rounds(short=1, full=30, long=300)
    chance = random.Random(6)
    for _ in range(number):
        machine.start()
        time.sleep(chance.uniform(0.0, 0.1))  # not for a state: the instant is what is drawn
        root = os.open(machine.cli.mounts.seen(machine.cli.disk), os.O_RDONLY)
        fcntl.ioctl(root, SHUTDOWN, struct.pack("I", WITH_FLUSH))
        os.close(root)
        writer, worker = machine.processes
        assert writer.wait(30) != 0
        eventually(lambda: "store trouble" in machine.errors())
        worker.send_signal(signal.SIGQUIT)
        assert worker.wait(30) in (0, 5)
        acknowledged, done = machine.acknowledged(), machine.done()
        machine.cli.unmount()
        machine.cli.mount("ext4", "loop", machine.image)
        assert lost(acknowledged, done, machine.cli.mounts.state_of(machine.cli.home)) == []
    figure("F23", f"{number} shutdowns of ext4 at a random instant, {len(acknowledged)} jobs acknowledged: 0 lost")


def test_after_a_sync_that_failed_nothing_is_believed(tmp_path, store, figure):
    need("root", "loop")
    mounts = Mounts()
    cli = CliOnDisk(tmp_path / "cli", mounts, store)
    small = tmp_path / "small"
    small.mkdir()
    number = rounds(short=1, full=10, long=50)
    kept = 0
    try:
        for _ in range(number):
            mounts.run('mount -t tmpfs -o size=4m none "$1"', small)
            mounts.run('truncate -s 24M "$1/image" && mkfs.ext4 -q -O ^metadata_csum "$1/image"', small)
            cli.mount("ext4", "loop", small / "image")
            acknowledged = []
            for index in range(40):
                spec = f'{{"id": "job-{index}", "handler": "unknown", "payload": {{"text": "{"x" * 800_000}"}}}}'
                answer = cli("enqueue", "--allow-unknown-handler", "-", input=spec, code=None)
                if answer.code != 0:
                    break
                acknowledged.append(f"job-{index}")
            assert answer.code == 5, answer
            assert answer.out == b""
            mounts.run('umount "$1"', cli.disk, check=False)
            mounts.run('mount -o remount,size=40m "$1"', small)
            cli.mount("ext4", "loop", small / "image")
            found = mounts.state_of(cli.home)
            assert [job_id for job_id in acknowledged if job_id not in found] == []
            kept += len(acknowledged)
            cli.unmount()
            with contextlib.suppress(AssertionError):
                mounts.run('umount "$1"', small)
    finally:
        cli.close()
        mounts.close()
    figure(
        "F28", f"{number} disks whose first sync fails and whose second is said to work: {kept} acknowledged, 0 lost"
    )
