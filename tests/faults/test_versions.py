"""Two versions of jobq on one store at the same time (F36): what the newer one puts into a job survives the older one, and
a store that the newer one has taken over is refused by the older one, which leaves it as it is."""

import json
import signal
import subprocess
import sys
import time

import jobq
from jobq.job import ENDED
from jobq.testing import START

from .homes import opened
from .machines import living
from .namespaces import content
from .scene import PROGRAMS, eventually, scene_in
from .sizes import rounds
from .versions import FIELDS, NEWER, VERSION, Newer, Older, new_fields

FORMAT = (VERSION, ("jobq_json/manifest.py", 'NAME = "queue.json"', "FORMAT = FORMAT_WITH_NOTICE = 3\n"))
"""Another form of the store."""

AT_ONCE = 250
"""So many jobs are enqueued in one turn at most, by each version."""

CLIENT = """
import jobq, sys
with jobq.Queue.open() as queue:
    for line in sys.stdin:
        try:
            print(queue.enqueue(command="true").id, flush=True)
        except jobq.JobqError as error:
            print(type(error).__name__, flush=True)
"""


class Shared:
    """A store, and one worker of each version on it.

    Attributes:
        versions: by a worker's id.
        coloured: the ids of the jobs that the newer version has enqueued.
    """

    def __init__(self, scene, newer):
        self.scene, self._newer = scene, newer
        self.versions, self.coloured = {}, set()
        self._workers = {}
        for side in (Older, newer):
            self._start(side)
        assert set(self.versions.values()) == {jobq.__version__, NEWER}

    def _start(self, side):
        worker = self.scene.start_worker("-n", "3", prefix=side.prefix)
        home = self.scene.jobq.home
        (found,) = eventually(lambda: [each for each in living(home) if each.pid == worker.pid])
        self.versions[found.id] = found.version
        self._workers[side] = worker

    def enqueue(self, side, count):
        """Let a version enqueue jobs whose history is kept."""
        scene, numbers = self.scene, self.scene.numbers(count)
        scene.history.asked(numbers)
        ids = self.add(side, *(scene.history.spec(number) for number in numbers))
        scene.history.acknowledged(numbers, ids)

    def add(self, side, *fields):
        """Let a version enqueue jobs of which no history of clients is kept; their ids."""
        lines = "".join(json.dumps(each) + "\n" for each in fields)
        ids = self.scene.jobq("enqueue", "-", input=lines, env=side.environ).stdout.split()
        if side is self._newer:
            self.coloured.update(ids)
        return ids

    def kill(self, side):
        """Kill a version's worker, and start another one."""
        self.scene.kill(self._workers[side])
        self._start(side)

    def compact(self, side):
        """Let a version make a new generation."""
        argv = [sys.executable, str(PROGRAMS / "compact.py"), str(self.scene.jobq.home)]
        subprocess.run(argv, check=True, env=self.scene.jobq.environ | side.environ, timeout=60)

    def all_ended(self):
        """Whether every job has come to its end."""
        with opened(self.scene.jobq.home) as store:
            return all(state in ENDED or not count for state, count in store.counts(now=START).states.items())

    def stop(self):
        """Stop both workers."""
        for side, worker in self._workers.items():
            assert self.scene.jobq.stop(worker) == 0, (side, self.scene.errors())

    def check(self):
        """Both versions show every field as it was written; how many there are."""
        newest = {worker for worker, version in self.versions.items() if version == NEWER}
        fields = 0
        for side in (Older, self._newer):
            answer = self.scene.jobq("list", "--jsonl", "--limit", "10000000", env=side.environ)
            jobs = map(json.loads, answer.stdout.splitlines())
            fields = new_fields(jobs, coloured=self.coloured, newest=newest)
        return fields


def test_what_a_newer_version_adds_survives_an_older_one(tmp_path, figure):
    """The jobs go through both: enqueued, claimed, failed, lost, dead, cancelled, retried, compacted and archived."""
    least, seconds = rounds(short=30, full=10_000, long=10_000), rounds(short=0, full=0, long=600)
    jobs, turn, odd = 0, 0, set()
    newer = Newer(tmp_path / "newer", FIELDS)
    with scene_in(tmp_path / "scene", seed=0) as scene:
        shared = Shared(scene, newer)
        end = time.monotonic() + seconds
        while jobs < least or time.monotonic() < end:
            one, other = (newer, Older) if turn % 2 else (Older, newer)
            each = min(AT_ONCE, max(10, (least - jobs) // 2))
            for side in (one, other):
                shared.enqueue(side, each)
            later = shared.add(one, *[{"command": scene.command("quick"), "delay": 3600}] * 2)
            dead = shared.add(other, *[{"command": scene.command("exit", "3"), "max_attempts": 1, "priority": 9}] * 2)
            odd.update(later, dead)
            scene.jobq("cancel", *later, env=other.environ)
            scene.jobq("wait", *dead, code=None, env=one.environ)
            shared.kill(one)
            shared.compact(one)
            scene.jobq("retry", *later, *dead, env=other.environ)
            eventually(shared.all_ended, timeout=300)
            shared.compact(other)
            scene.jobq("delete", later[0], env=one.environ)
            jobs, turn = jobs + 2 * each + len(later) + len(dead), turn + 1
            fields = shared.check()
        shared.stop()
        scene.check(over=True, besides=odd)
    figure("F36 two versions", f"{jobs} jobs, {turn} workers killed; 0 of {fields} new fields lost")


def told_by(client):
    """What a client answers to one more line."""
    client.stdin.write("\n")
    client.stdin.flush()
    return client.stdout.readline().rstrip("\n")


COMMANDS = (
    ("status",),
    ("list",),
    ("show", "waits"),
    ("why", "waits"),
    ("enqueue", '{"command": "true"}'),
    ("cancel", "waits"),
    ("retry", "ended"),
    ("delete", "ended"),
    ("prune", "--older-than", "0"),
    ("pause", "default"),
    ("worker", "start", "--until-empty"),
    ("doctor", "--repair"),
)


def test_a_store_that_a_newer_version_has_taken_over_is_let_be_by_an_older_one(jobq, tmp_path, figure):
    """A worker, a client and commands of the older one are refused; nothing of the store changes by them."""
    newer = Newer(tmp_path / "newer", FORMAT)
    begun, go = tmp_path / "begun", tmp_path / "go"
    jobq.add("--id", "ended", "--", "true")
    jobq.run_all()
    runs = jobq.add(shell=f"echo >> {begun}; until [ -e {go} ]; do sleep 0.02; done")
    told = tmp_path / "told"
    with told.open("wb") as file:
        worker = jobq.start("worker", "start", stdout=file, stderr=file)
    eventually(begun.exists)
    jobq.add("--id", "waits", "--", "true")
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT], env=jobq.environ, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    jobq.processes.append(client)
    added = told_by(client)
    argv = [sys.executable, str(PROGRAMS / "compact.py"), str(jobq.home)]
    subprocess.run(argv, check=True, env=jobq.environ | newer.environ, timeout=60)
    queue = jobq.home / "queue"
    before = content(queue.glob("*.*"))
    go.touch()
    eventually(lambda: b"written by a newer jobq" in told.read_bytes())
    assert told_by(client) == "NewerFormat"
    commands = COMMANDS[:: rounds(short=3, full=1, long=1)]
    for words in commands:
        answer = jobq(*words, code=5)
        assert "written by a newer jobq" in answer.out.decode() + answer.stderr, words
    assert worker.poll() is None
    assert jobq.stop(worker, signal.SIGQUIT) == 5
    assert "Traceback" not in told.read_text()
    assert content(queue.glob("*.*")) == before
    assert jobq("worker", "start", "--until-empty", env=newer.environ).code == 0
    jobs = jobq("list", "--json", env=newer.environ).json
    assert {job["state"] for job in jobs} == {"completed"}
    assert {runs, added, "waits", "ended"} == {job["id"] for job in jobs}
    figure(
        "F36 another format",
        f"{len(commands)} commands, a worker and a client refused; not a byte of the store changed",
    )
