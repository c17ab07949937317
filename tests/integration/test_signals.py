"""What every signal makes of a worker on a real terminal, of its jobs and of the terminal."""

import contextlib
import os
import re
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from .terminals import CTRL_BACKSLASH, CTRL_C, Terminal

KEYS = {"ctrl-c": CTRL_C, "ctrl-backslash": CTRL_BACKSLASH}


def of_workers(home):
    """The pids of what workers of this home started and that still runs."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal():
            try:
                environ = (directory / "environ").read_bytes().split(b"\0")
            except OSError:  # it is another's, or has just gone
                continue
            if f"JOBQ_HOME={home}".encode() in environ and any(each.startswith(b"JOBQ_WORKER=") for each in environ):
                found.append(int(directory.name))
    return found


class WorkerOnTerminal(Terminal):
    """A worker in the foreground of a terminal."""

    def __init__(self, jobq, *args, prefix=(), **options):
        command = [*prefix, *jobq.command("worker", "start", *args)]
        super().__init__(command, env=jobq.environ, cwd=jobq.directory, **options)
        self._jobq = jobq

    def do(self, act):
        """Press a key, send a signal, or close the terminal."""
        if act == "hang up":
            self.hang_up()
        elif act in KEYS:
            self.type(KEYS[act])
        else:
            self.send(signal.Signals[f"SIG{act}"])

    @property
    def is_draining(self):
        return any(info["state"] == "draining" for info in self._jobq("worker", "list", "--json").json)

    def leaves_no_trace(self):
        """No process of a job, no member, nothing on the terminal that does not belong there, its settings as before."""
        assert of_workers(self._jobq.home) == []
        assert self._jobq("worker", "list", "--json").json == []
        assert b"Traceback" not in self.written
        assert b"Exception" not in self.written
        if self.is_open:
            assert self.settings_now() == self.settings
        return True


@pytest.fixture
def on_terminal(jobq):
    """Starts a worker on a terminal; it serves when this returns."""
    made = []

    def start(*args, serving=rb"serves all queues", **options):
        made.append(WorkerOnTerminal(jobq, *args, **options))
        if serving is not None:
            made[-1].until(serving)
        return made[-1]

    yield start
    for each in made:
        if each.process.poll() is None:
            each.do("QUIT")
            with contextlib.suppress(subprocess.TimeoutExpired):
                each.process.wait(20)
        each.close()


@pytest.fixture
def long_job(jobq, eventually, tmp_path):
    """Adds a job that runs until `end` is called, with a child of its own, and waits until it runs."""

    class LongJob:
        gate = tmp_path / "gate"

        def add(self, prefix=""):
            begun = tmp_path / "begun"
            script = f"{prefix}sleep 600 & echo > {begun}; while [ ! -e {self.gate} ]; do sleep 0.02; done"
            self.id = jobq.add(shell=script)
            eventually(begun.exists)
            return self

        def end(self):
            self.gate.touch()

    return LongJob()


@pytest.mark.parametrize(
    ("acts", "code", "state"),
    [
        (["TERM"], 0, "completed"),
        (["ctrl-c"], 0, "completed"),
        (["HUP"], 0, "completed"),
        (["hang up"], 0, "completed"),
        (["TERM", "TERM", "TERM"], 0, "completed"),
        (["HUP", "hang up", "TERM"], 0, "completed"),
        (["QUIT"], 143, "pending"),
        (["ctrl-backslash"], 143, "pending"),
        (["ctrl-c", "ctrl-c"], 130, "pending"),
        (["TERM", "QUIT"], 143, "pending"),
        (["hang up", "QUIT"], 143, "pending"),
        (["TERM", "ctrl-c", "ctrl-c"], 130, "pending"),
    ],
    ids=lambda value: ", ".join(value) if isinstance(value, list) else None,
)
def test_what_becomes_of_a_worker_and_its_running_job(jobq, on_terminal, long_job, eventually, acts, code, state):
    worker = on_terminal()
    long_job.add()
    for act in acts:
        worker.do(act)
        eventually(lambda: worker.process.poll() is not None or worker.is_draining)
    if state == "completed":
        assert worker.process.poll() is None, "a drain waits for what runs"
        long_job.end()
    assert worker.end() == code
    job = jobq.job(long_job.id)
    outcome = "completed" if state == "completed" else "released"
    assert (job["state"], job["attempts"], job["losses"], job["run"]) == (state, 0, 0, 1)
    assert job["history"][-1]["outcome"] == outcome
    assert worker.leaves_no_trace()


def test_a_third_ctrl_c_kills_a_job_that_ignores_term(jobq, on_terminal, long_job, eventually):
    jobq("config", "set", "kill-grace", "1h")
    worker = on_terminal()
    long_job.add(prefix="trap '' TERM; ")
    worker.do("ctrl-c")
    worker.until(rb"stopping: finishing 1 running job")
    worker.do("ctrl-c")
    worker.until(rb"stopping: ending 1 running job .*to be handed back; a third Ctrl-C kills them")
    assert worker.process.poll() is None
    worker.do("ctrl-c")
    worker.until(rb"stopping: killing 1 running job")
    assert worker.end() == 130
    job = jobq.job(long_job.id)
    assert (job["state"], job["attempts"], job["losses"]) == ("pending", 0, 0)
    assert worker.leaves_no_trace()


def test_the_first_ctrl_c_is_answered_at_once_with_the_way_to_hurry(jobq, on_terminal, long_job):
    worker = on_terminal()
    long_job.add()
    worker.do("ctrl-c")
    told = rf"stopping: finishing 1 running job \({long_job.id}\); Ctrl-C again, or `jobq worker stop --now`, ends them"
    worker.until(told.encode())
    long_job.end()
    assert worker.end() == 0


def test_under_nohup_a_closed_terminal_changes_nothing(jobq, on_terminal, long_job, eventually):
    worker = on_terminal(prefix=["nohup"], serving=None)
    long_job.add()
    worker.do("hang up")
    worker.do("HUP")
    long_job.end()
    eventually(lambda: jobq.state(long_job.id) == "completed")
    assert jobq.state(jobq("add", "-w", "--", "true").id) == "completed"
    assert not worker.is_draining
    worker.do("TERM")
    assert worker.process.wait(30) == 0
    assert worker.leaves_no_trace()


def test_ctrl_c_in_the_terminal_never_reaches_a_job(jobq, on_terminal, long_job):
    worker = on_terminal()
    long_job.add()
    sessions = set()
    for pid in of_workers(jobq.home):
        with contextlib.suppress(ProcessLookupError):  # its short sleeps come and go
            sessions.add(os.getsid(pid))
    assert len(sessions) == 1
    assert worker.process.pid not in sessions
    long_job.end()


def test_a_stop_at_start_up_loses_no_job_whenever_it_comes(jobq, on_terminal):
    """Before the worker has taken the signals over, TERM ends it as it ends any process; after that it drains."""
    jobs = [jobq.add("--", "true") for _ in range(3)]
    codes = set()
    for step in range(16):
        worker = on_terminal(serving=None)
        time.sleep(step * 0.03)
        worker.do("TERM")
        codes.add(worker.end())
        assert worker.leaves_no_trace()
    assert codes <= {0, -signal.SIGTERM}
    assert {jobq.job(job)["attempts"] for job in jobs} == {0}
    assert {jobq.job(job)["losses"] for job in jobs} == {0}
    jobq.run_all()
    assert {jobq.state(job) for job in jobs} == {"completed"}


@pytest.fixture(params=["commands", "handlers"])
def many_jobs(request, jobq):
    """Adds many short jobs, each of which notes that it ran; answers with how often each did."""
    notes = jobq.directory / "notes"
    notes.touch()
    (jobq.directory / "quick.py").write_text(
        "import os\n\n\ndef run(job, context):\n"
        "    descriptor = os.open(os.environ['NOTES'], os.O_WRONLY | os.O_APPEND)\n"
        "    os.write(descriptor, b'%d\\n' % job.payload)\n"
        "    os.close(descriptor)\n"
    )
    jobq.environ["NOTES"] = str(notes)
    jobq("config", "set", "handlers-path", ".")
    jobq("config", "set", "handlers.quick", "quick:run")
    if request.param == "commands":
        lines = [f'{{"command": "echo {number} >> {notes}"}}' for number in range(400)]
    else:
        lines = [f'{{"handler": "quick", "payload": {number}}}' for number in range(4000)]
    jobq("enqueue", "-", input="\n".join(lines))

    def ran():
        return Counter(notes.read_text().split())

    ran.jobs = len(lines)
    return ran


@pytest.mark.parametrize("acts", [["TERM"], ["QUIT"], ["ctrl-c"] * 2, ["ctrl-c"] * 3], ids=", ".join)
def test_a_stop_while_many_short_jobs_are_claimed_loses_none(jobq, on_terminal, many_jobs, eventually, acts):
    worker = on_terminal("-n", "3")
    eventually(lambda: len(many_jobs()) > 20)
    for act in acts:
        worker.do(act)
    code = worker.end()
    assert code == 0 if acts == ["TERM"] else code in (0, 130, 143)
    assert worker.leaves_no_trace()
    jobs = jobq("list", "--json", "--limit", "10000").json
    assert len(jobs) == many_jobs.jobs
    states = Counter(job["state"] for job in jobs)
    assert set(states) == {"completed", "pending"}
    assert {(job["attempts"], job["losses"]) for job in jobs} == {(0, 0)}
    ran = many_jobs()
    assert max(ran.values()) == 1, "a job that was handed back had not run to its end"
    assert len(ran) >= states["completed"]
    summary = re.search(rb"worker ended: (\d+) completed", worker.written)
    assert int(summary[1]) == states["completed"]
    if acts == ["TERM"]:
        assert len(ran) == states["completed"], "what had begun was let finish"
