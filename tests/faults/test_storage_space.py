"""A disk that is full, fails or is read-only for a while: nothing half done, no outcome lost, nothing done twice."""

import contextlib
import time
from pathlib import Path

import pytest

from .capabilities import need
from .conftest import eventually
from .homes import OPERATIONS, Site, operations, state_of
from .injecting import Fault, noted
from .namespaces import CliOnDisk, Mounts, content
from .sizes import rounds

BATCH = "".join(f'{{"command": "true", "tags": ["{number}"]}}\n' for number in range(50))
"""More than may be left free in the last block of a file."""

TROUBLE = "store trouble"


@pytest.fixture
def on_disk(tmp_path, store):
    """The command line with its home on a disk of its own, which is to be mounted; its store is `store`."""
    need("root", "mounts")
    mounts = Mounts()
    cli = CliOnDisk(tmp_path / "cli", mounts, store)
    yield cli
    cli.close()
    mounts.close()


class Running:
    """A worker that runs jobs which end when they may, and the log of their starts.

    Args:
        count: of the jobs that it runs at once.
    """

    def __init__(self, cli, directory, count, env=None):
        self._cli, self._go, self._log = cli, directory / "go", directory / "starts"
        self._told = directory / "worker.log"
        self.count = count
        with self._told.open("wb") as told:
            self.process = cli.start("worker", "start", "-n", str(count), env=env, stdout=told, stderr=told)
        eventually(lambda: "Ctrl-C stops it" in self.told())

    def told(self):
        return self._told.read_text(errors="replace")

    def begin(self):
        """Enqueue as many jobs as it runs at once and let them begin; their ids."""
        self._go.unlink(missing_ok=True)
        script = f"echo $JOBQ_JOB_ID >> {self._log}; while [ ! -e {self._go} ]; do sleep 0.02; done"
        before = len(self.starts())
        spec = f'{{"command": "{script}"}}\n'
        ids = self._cli("enqueue", "-", input=spec * self.count).stdout.split()
        eventually(lambda: len(self.starts()) == before + self.count)
        return ids

    def end(self):
        """Let the jobs that run come to their end."""
        self._go.touch()

    def states(self, ids):
        """The states of these jobs."""
        return [job["state"] for job in self._cli("list", "--json", *ids).json]

    def starts(self):
        return self._log.read_text().splitlines() if self._log.exists() else []

    def troubles(self):
        """How often it said that its store refuses."""
        return self.told().count(TROUBLE)

    def recorded(self, ids):
        """Wait until these jobs are completed; each has been started once."""
        eventually(lambda: set(self.states(ids)) == {"completed"})
        assert all(self.starts().count(job_id) == 1 for job_id in ids)
        assert "Traceback" not in self.told()


def test_outcomes_that_find_the_disk_full_are_recorded_later(on_disk, tmp_path, store, figure):
    on_disk.mount("tmpfs", "size=2m")
    running = Running(on_disk, tmp_path, 12)
    number = rounds(short=1, full=12, long=100)
    for index in range(number):
        ids = running.begin()
        store.without_room(on_disk.seen_home)
        filler = on_disk.fill()
        running.end()
        eventually(lambda: running.troubles() > index)  # noqa: B023 - asked at once
        assert "processing" in running.states(ids)
        filler.unlink()
        running.recorded(ids)
    assert on_disk.stop(running.process) == 0
    figure(
        "F25", f"{number} of {number} times a full disk, {12 * number} outcomes: all recorded later, 0 jobs run again"
    )


def test_what_finds_the_disk_full_is_refused_and_leaves_every_byte_as_it_was(on_disk, store, figure):
    on_disk.mount("tmpfs", "size=2m")
    on_disk.add("--id", "before", shell="true")
    store.without_room(on_disk.seen_home)
    filler = on_disk.fill()
    before = content(store.files(on_disk.seen_home))
    number = rounds(short=5, full=300, long=10_000)
    for _ in range(number):
        answer = on_disk("enqueue", "-", input=BATCH, code=5)
        assert answer.out == b""
        assert any(words in answer.stderr for words in ("No space left on device", "disk is full"))
        assert on_disk("list", "--ids").stdout.split() == ["before"]
        assert content(store.files(on_disk.seen_home)) == before
    filler.unlink()
    assert len(on_disk("enqueue", "-", input=BATCH).stdout.split()) == 50
    figure(
        "F26",
        f"{number} attempts to enqueue on a full disk: refused with exit 5, "
        "the store byte for byte the same, and still shown",
    )


def test_a_store_that_finds_no_room_to_be_made_is_made_later(on_disk):
    on_disk.mount("tmpfs", "size=512k")
    filler = on_disk.fill()
    answer = on_disk("add", "--id", "one", "--shell", "true", code=5)
    assert (answer.out, "Traceback" in answer.stderr) == (b"", False)
    assert on_disk("status", "--json").json["counts"]["pending"] == 0
    filler.unlink()
    assert on_disk.add("--id", "one", shell="true") == "one"


def test_a_disk_that_is_read_only_for_a_while_is_read_and_written_to_after(on_disk):
    on_disk.mount("tmpfs", "size=2m")
    on_disk.add("--id", "before", shell="true")
    on_disk.mounts.run('mount -o remount,ro "$1"', on_disk.disk)
    assert on_disk("list", "--ids").stdout.split() == ["before"]
    for words in (("add", "--shell", "true"), ("cancel", "before"), ("pause", "default")):
        answer = on_disk(*words, code=5)
        assert (answer.out, "Traceback" in answer.stderr) == (b"", False)
    on_disk.mounts.run('mount -o remount,rw "$1"', on_disk.disk)
    on_disk.add("--id", "after", shell="true")
    assert sorted(on_disk.mounts.state_of(on_disk.home)) == ["after", "before"]


def test_a_disk_without_room_for_more_files(on_disk, tmp_path, figure):
    on_disk.mount("tmpfs", "size=8m,nr_inodes=40")
    on_disk.add("--id", "one", shell="true")
    running = Running(on_disk, tmp_path, 2)
    disk = on_disk.mounts.seen(on_disk.disk)
    ids = running.begin()
    fillers = [disk / f"filler-{number}" for number in range(40)]
    for path in fillers:
        with contextlib.suppress(OSError):
            path.touch()
    assert not fillers[-1].exists()
    running.end()
    running.recorded(ids)  # the journal is there and has room
    late = on_disk("worker", "start", "--until-empty", code=5)
    assert "No space left" in late.stderr
    on_disk("enqueue", '{"id": "two", "command": "true"}')
    for path in fillers:
        path.unlink(missing_ok=True)
    eventually(lambda: running.states(["two"]) == ["completed"])
    assert on_disk.stop(running.process) == 0
    figure("F27", "no inode left: outcomes are recorded, a new worker is refused with a message, 0 violations")


@pytest.mark.parametrize(
    ("error", "calls"),
    [
        pytest.param("EROFS", ("create", "openw", "write", "pwrite", "rename", "unlink", "mkdir"), id="read-only"),
        pytest.param("EIO", ("write", "pwrite", "fsync", "fdatasync", "rename"), id="failing"),
        pytest.param("EIO", ("fsync", "fdatasync"), id="not syncing"),
        pytest.param("EDQUOT", ("create", "write", "pwrite", "mkdir"), id="over quota"),
        pytest.param("EMFILE", ("create", "openw", "open", "opendir"), id="without descriptors"),
        pytest.param("ENOLCK", ("flock",), id="without locks"),
    ],
)
def test_a_worker_outlasts_a_disk_that_fails_for_a_while(new_cli, tmp_path, store, error, calls, figure):
    need("compiler")
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"
    failing = tmp_path / "failing"
    cli.home.mkdir(mode=0o700)
    store.choose(cli.home)
    fault = Fault(calls, at=1, action=error, during=failing)
    running = Running(cli, tmp_path, 3, env=fault.environ(cli.home))
    number = rounds(short=1, full=5, long=30)
    for index in range(number):
        ids = running.begin()
        failing.touch()
        running.end()
        if error != "EMFILE":  # of which a worker whose files are open need not notice anything
            eventually(lambda: running.troubles() > index)  # noqa: B023 - asked at once
        failing.unlink()
        running.recorded(ids)
    assert cli.stop(running.process) == 0
    figure(
        f"F31 {error} {'/'.join(calls[:2])}",
        f"{number} times for a while: {3 * number} outcomes recorded, 0 jobs run again",
    )


def test_a_worker_asks_a_failing_disk_ever_less_often(new_cli, tmp_path, figure):
    need("compiler")
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"
    cli.home.mkdir(mode=0o700)
    failing, notes = tmp_path / "failing", tmp_path / "notes"
    fault = Fault(("stat", "open", "openw", "create"), at=1, action="EACCES", during=failing)
    running = Running(cli, tmp_path, 1, env=fault.environ(cli.home, notes))
    ids = running.begin()
    failing.touch()
    running.end()
    eventually(running.troubles)
    before = len(noted(notes))
    time.sleep(2.0)  # for no state: how much is asked in that time is the question
    asked = len(noted(notes)) - before
    assert asked < 150
    failing.unlink()
    running.recorded(ids)
    assert cli.stop(running.process) == 0
    figure("F32 pauses", f"{asked} calls on a disk that refuses in 2 s")


@pytest.mark.parametrize("error", ["ENOLCK", "ENOSYS"])
def test_where_nothing_can_be_locked_nothing_is_written(new_cli, tmp_path, store, error, figure):
    need("compiler")
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"
    names = ("add", "cancel", "prune", "batch", "delete", "pause")[: rounds(short=3, full=6, long=6)]
    for name in names:
        operation = OPERATIONS[name]
        home = Site(operation, tmp_path / name, store).renew(cli.home)
        before = state_of(home)
        answer = cli(
            *operation.words,
            code=5,
            input=operation.stdin,
            env=Fault(("flock",), at=1, action=error, on=True).environ(home),
        )
        assert answer.stderr.startswith(("jobq: ", "home: ")), answer.stderr
        assert "Traceback" not in answer.stderr
        assert state_of(home) == before
        assert {path.name for path in (home / store.lock).parent.glob("*lock*")} <= {
            Path(store.lock).name,
            "compact.lock",
        }
    figure(f"F38 {error}", f"{len(names)} commands without locks: all refused, no other lock in their place")


def test_short_writes_give_the_same_store(new_cli, tmp_path, store, figure):
    need("compiler")
    cli = new_cli(tmp_path / "cli")
    cli.environ["PYTHONSAFEPATH"] = "1"
    names = sorted(operations(store), key=("first", "batch", "compaction").__contains__)
    names = names[-rounds(short=3, full=99, long=99) :]
    for name in names:
        operation = OPERATIONS[name]
        site = Site(operation, tmp_path / name, store)
        found = []
        for action in ("", "short"):
            site.renew(cli.home)
            fault = Fault(("write", "pwrite"), at=1, action=action, on=True)
            answer = cli(*operation.words, code=None, input=operation.stdin, env=fault.environ(cli.home))
            assert answer.code == 0 or name == "repair", answer  # of which a doctor tells that it tried to write, too
            found.append(state_of(cli.home))
        assert found[0] == found[1]
    figure("F29", f"{len(names)} commands with every write cut in half: the same stores as without")
