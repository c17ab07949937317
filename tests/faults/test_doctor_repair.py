"""`doctor --repair` is killed, or refused, at every call: done again it comes to the same, and nothing readable is lost."""

import pytest

from jobq.executor import Kind
from jobq.store import Query

from .capabilities import need
from .homes import Operation, Site, add, work
from .injecting import ERRORS, KILL, KILLED, STEPS, Fault, noted, spread
from .sizes import rounds
from .stores import JSON

EVERY = 10**6
EVIL = b'"command":"evil"'


def furnish(home):
    """Something in every file, and what was left over of the generation before."""
    add(home, "done-1", "done-2", "done-3")
    work(home, Kind.SUCCESS, limit=3)
    add(home, "run-1", "run-2", "run-3")
    JSON.tidy(home)
    old = {path: path.read_bytes() for path in (home / "queue").glob("j*-2.jsonl")}
    add(home, "run-4")
    JSON.tidy(home)
    for path, content in old.items():
        path.write_bytes(content)
        path.chmod(0o600)
    for number in (1, 2, 3):
        add(home, f"journal-{number}")


def poison(path, job_id):
    """Change the record of a job, so that its checksum is wrong."""
    data = path.read_bytes()
    at = data.index(b'"command":"true"', data.index(f'"id":"{job_id}"'.encode()))
    path.write_bytes(data[:at] + EVIL + data[at + len(EVIL) :])


def lines(queue):
    for kind, job_id in (("jobs-3", "run-2"), ("journal-3", "journal-2"), ("done-1", "done-2")):
        poison(queue / f"{kind}.jsonl", job_id)


def run_cut_short(queue):
    data = (queue / "jobs-3.jsonl").read_bytes()
    (queue / "jobs-3.jsonl").write_bytes(data[: data.index(b'"id":"run-4"')])


def no_manifest(queue):
    poison(queue / "jobs-3.jsonl", "run-2")
    (queue / "queue.json").unlink()


def nothing_complete(queue):
    (queue / "queue.json").write_bytes(b"{" * 100)
    for name in ("journal-2", "journal-3"):
        data = (queue / f"{name}.jsonl").read_bytes()
        (queue / f"{name}.jsonl").write_bytes(b"~" + data[1:])
    poison(queue / "done-1.jsonl", "done-2")


DAMAGES = {
    "lines": (lines, {"run-2", "journal-2", "done-2"}),
    "a run cut short": (run_cut_short, {"run-4"}),
    "no manifest": (no_manifest, {"run-2"}),
    "nothing complete": (nothing_complete, {"done-2"}),
}
ALL = {*(f"{kind}-{n}" for kind in ("done", "run", "journal") for n in (1, 2, 3)), "run-4"}


class Repair:
    """A damaged home, mended again and again with another fault.

    Attributes:
        whole: the jobs that are there when nothing comes between.
        done: how often it was mended with a fault.
    """

    def __init__(self, damage, directory, cli):
        def prepare(home):
            furnish(home)
            damage(home / "queue")

        self._site = Site(Operation(("doctor", "--repair"), prepare), directory)
        self._notes, self._cli = directory / "notes", cli
        self._evil = any(EVIL in content for content in self._files(self._site.renew(cli.home)))
        self.do(Fault(()))
        self._calls = noted(self._notes)
        self.whole = self._jobs()
        self.done = 0

    def do(self, fault):
        self._site.renew(self._cli.home)
        self._notes.unlink(missing_ok=True)
        return self._cli("doctor", "--repair", code=None, env=fault.environ(self._cli.home, self._notes))

    def number(self, calls):
        """How many such calls mending makes."""
        return sum(call.name in calls for call in self._calls)

    def judge(self, fault):
        """Mended once more, it is as if nothing had come between; what cannot be read is in a file that is left."""
        assert self._jobs() == self.whole, fault
        assert any(EVIL in content for content in self._files(self._cli.home)) == self._evil, fault
        self.done += 1

    def _jobs(self):
        store = JSON.open(self._cli.home, lambda _: None)
        try:
            store.repair()
            problems = store.check()
            assert all("set aside before" in problem for problem in problems), problems
            return {job.id: job.record() for job in store.find(Query())}
        finally:
            store.close()

    @staticmethod
    def _files(home):
        return [path.read_bytes() for path in (home / "queue").iterdir()]


@pytest.fixture
def repair(tmp_path, new_cli):
    need("compiler")

    def make(damage):
        cli = new_cli(tmp_path / "cli")
        cli.environ["PYTHONSAFEPATH"] = "1"
        return Repair(damage, tmp_path, cli)

    return make


@pytest.mark.parametrize("name", DAMAGES)
def test_mending_that_is_killed_can_be_done_again(repair, name, figure):
    damage, lost = DAMAGES[name]
    mended = repair(damage)
    assert mended.whole.keys() == ALL - lost
    number = mended.number(STEPS)
    for at in spread(number, rounds(short=3, full=40, long=EVERY)):
        for action in (KILL, KILLED):
            fault = Fault(STEPS, at, action)
            assert mended.do(fault).code == -9, fault
            mended.judge(fault)
    figure(f"doctor --repair killed, {name}", f"{mended.done} kills at {number} calls, 0 readable jobs lost")


@pytest.mark.parametrize("name", DAMAGES)
def test_mending_that_is_refused_something_can_be_done_again(repair, name, figure):
    mended = repair(DAMAGES[name][0])
    refused = 0
    for error in ("ENOSPC", "EIO"):
        calls = ERRORS[error]
        for at in spread(mended.number(calls), rounds(short=1, full=20, long=EVERY)):
            for on in (False, True):
                fault = Fault(calls, at, error, on=on)
                answer = mended.do(fault)
                assert "Traceback" not in answer.stderr, fault
                refused += answer.code != 0
                mended.judge(fault)
    figure(f"doctor --repair refused, {name}", f"{mended.done} failures, {refused} told, 0 readable jobs lost")
