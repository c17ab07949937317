"""A job is its process tree, with real workers: whatever shape it has, nothing of it outlives the attempt or its worker
and runs beside a successor; and what ends a job that nobody asked to end is told for what it is."""

import os
import shlex
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from jobq import processes
from jobq_subprocess import cgroupfs

BEAT = """
case $3 in deaf) trap '' TERM HUP INT ;; esac
echo $$ >>"$1.pids"
case $3 in stopped) kill -STOP $$ ;; esac
case $3 in "one of many") pause=0.5 ;; *) pause=0.02 ;; esac
while :; do echo $2 >>"$1"; sleep $pause; done
"""
"""Tells its pid, then appends a number to a file for as long as it lives, fifty times a second; fifty of them, twice as
often in all."""

CLOSED = "import os, sys; os.closerange(0, 4096); os.execvp(sys.argv[1], sys.argv[1:])"

KEEPER = textwrap.dedent("""
    import os, socket, sys
    log, group = sys.argv[1:]
    near, far = socket.socketpair()
    locks = [n for n in range(3, 256) if os.path.realpath(f"/proc/self/fd/{n}").endswith(".jobs")]
    socket.send_fds(near, [b"lock"], locks)
    for lock in locks:
        os.close(lock)
    try:
        with open(f"{group}/cgroup.procs", "w") as procs:
            procs.write("0")
    except OSError:
        pass
    os.setsid()
    with open(f"{log}.pids", "a") as pids:
        pids.write(f"{os.getpid()}\\n")
    near.set_inheritable(True), far.set_inheritable(True)
    os.execve("/bin/sleep", ["sleep", "1000"], {})
""")
"""Holds the jobs lock where no process has it open (a message that nobody receives), and nothing else that shows it."""


class Shape:
    """Processes of a job, made by a line for the shell in which BEAT stands for one of them.

    Attributes:
        line: that line; the shell goes on after it, and ends when all of its children have.
        count: how many of them tell their pid.
        hidden: after its worker's death, its cgroup alone shows it.
    """

    def __init__(self, line, count=1, *, hidden=False):
        self.line, self.count, self.hidden = line, count, hidden


ELSEWHERE = "env -i setsid"
SHAPES = {
    "pipeline": Shape("BEAT | BEAT | BEAT &", 3),
    "session": Shape("setsid BEAT &"),
    "double fork": Shape("(setsid BEAT &)"),
    "forks": Shape("for i in $(seq 50); do BEAT 'one of many' & done", 50),
    "deaf": Shape("BEAT deaf &"),
    "stopped": Shape("BEAT stopped &"),
    "closed": Shape("CLOSED BEAT &"),
    "cleared": Shape(f"{ELSEWHERE} BEAT &"),
    "cleared and closed": Shape(f"{ELSEWHERE} CLOSED BEAT &", hidden=True),
}


class Trees:
    """Jobs of all shapes in one home, and what their processes did."""

    def __init__(self, jobq, directory, eventually):
        self.jobq, self.directory, self.eventually = jobq, directory, eventually
        (directory / "beat").write_text(BEAT)
        self.names = {}

    def log(self, name):
        return self.directory / f"{name.replace(' ', '-')}.log"

    def add(self, name, *options):
        """Enqueue a job that has this shape in its first run, and beats five times in any other."""
        log, python = shlex.quote(str(self.log(name))), shlex.quote(sys.executable)
        line = SHAPES[name].line.replace("BEAT", f"sh {self.directory}/beat {log} $JOBQ_RUN")
        line = line.replace("CLOSED", f"{python} -c {shlex.quote(CLOSED)}")
        again = f"for i in 1 2 3 4 5; do echo $JOBQ_RUN >>{log}; sleep 0.02; done; exit"
        script = f"test $JOBQ_RUN = 1 || {{ {again}; }}\n{line}\nwait\nwhile :; do sleep 1; done"
        self.names[self.jobq.add(*options, shell=script)] = name

    def pids(self, name):
        """Those that have told theirs, once all have."""
        path = self.log(name).with_name(self.log(name).name + ".pids")

        def told():
            pids = path.read_text().split() if path.exists() else []
            return len(pids) >= SHAPES[name].count and [int(pid) for pid in pids]

        return self.eventually(told)

    def all_pids(self):
        return {name: self.pids(name) for name in self.names.values()}

    def runs(self, name):
        """The run numbers in the order in which they were written."""
        return [int(run) for run in self.log(name).read_text().split()] if self.log(name).exists() else []

    def kill(self):
        """What a failed test may have left."""
        for path in self.directory.glob("*.pids"):
            for pid in map(int, path.read_text().split()):
                if not ended(pid) and processes.process(pid).session != os.getsid(0):
                    os.kill(pid, signal.SIGKILL)


def ended(pid):
    found = processes.process(pid)
    return found is None or found.dead


@pytest.fixture
def trees(jobq, tmp_path, eventually):
    trees = Trees(jobq, tmp_path, eventually)
    yield trees
    trees.kill()


@pytest.fixture
def grouping():
    """Whether a worker started here can give each attempt a cgroup."""
    own = cgroupfs.own()
    return own is not None and os.access(own, os.W_OK) and os.access(f"{own}/cgroup.procs", os.W_OK)


def test_a_timeout_ends_the_whole_tree(jobq, start_worker, trees):
    for name in SHAPES:
        trees.add(name, "--timeout", "6", "--max-attempts", "1")
    start_worker("-n", str(len(SHAPES)), env={"JOBQ_KILL_GRACE": "0.3s"})
    pids = trees.all_pids()
    jobq("wait", *trees.names, code=7)
    assert [(name, pid) for name in pids for pid in pids[name] if not ended(pid)] == []
    for job_id in trees.names:
        job = jobq.job(job_id)
        assert (job["state"], job["history"][-1]["outcome"]) == ("dead", "timeout")


def test_a_cancel_ends_the_whole_tree_and_the_job_for_good(jobq, start_worker, trees):
    for name in SHAPES:
        trees.add(name)
    start_worker("-n", str(len(SHAPES)), env={"JOBQ_KILL_GRACE": "0.3s"})
    pids = trees.all_pids()
    jobq("cancel", *trees.names)
    assert [(name, pid) for name in pids for pid in pids[name] if not ended(pid)] == []
    jobq("worker", "start", "--until-empty")
    for job_id, name in trees.names.items():
        job = jobq.job(job_id)
        assert (job["state"], job["run"], job["attempts"]) == ("cancelled", 1, 0)
        assert set(trees.runs(name)) <= {1}


def test_a_killed_workers_trees_are_ended_before_their_jobs_run_again_however_many_recover(
    jobq, start_worker, trees, grouping
):
    worker = start_worker("-n", str(len(SHAPES)))
    for name, shape in SHAPES.items():
        if grouping or not shape.hidden:
            trees.add(name)
    pids = trees.all_pids()
    worker.kill()
    worker.wait()
    others = [jobq.start("worker", "start", "--until-empty", "-n", "3") for _ in range(2)]
    assert [other.communicate()[1][-300:] and other.returncode for other in others] == [0, 0]
    assert [(name, pid) for name in pids for pid in pids[name] if not ended(pid)] == []
    for job_id, name in trees.names.items():
        job = jobq.job(job_id)
        assert job["state"] == "completed"
        assert [run["outcome"] for run in job["history"]] == ["lost", "completed"]
        runs = trees.runs(name)
        assert runs == sorted(runs), f"runs of {name} overlap"
        assert runs.count(2) == 5


def test_a_job_that_must_not_run_again_is_dead_with_the_reason(jobq, start_worker, trees):
    worker = start_worker()
    trees.add("session", "--on-lost", "dead")
    (pid,) = trees.pids("session")
    worker.kill()
    worker.wait()
    jobq("worker", "start", "--until-empty")
    (job,) = jobq("dlq", "list", "--json").json
    assert job["id"] in trees.names
    assert job["attempts"] == 0
    assert "worker" in job["last_error"]
    assert ended(pid)
    assert set(trees.runs("session")) <= {1}


def test_what_cannot_be_ended_holds_the_job_up_and_is_told_of(jobq, start_worker, tmp_path, eventually):
    """By something that holds the lock of the dead worker's jobs and that nothing else shows."""
    worker = start_worker()
    log = tmp_path / "keeper"
    keeper = shlex.join([sys.executable, "-c", KEEPER, str(log), cgroupfs.own() or "/"])
    job_id = jobq.add(shell=f"test $JOBQ_RUN = 2 || {{ {keeper} & wait; }}")
    pids = Path(f"{log}.pids")
    eventually(lambda: pids.exists() and pids.read_text().endswith("\n"))
    pid = int(pids.read_text())
    try:
        eventually(lambda: os.readlink(f"/proc/{pid}/exe") != os.path.realpath(sys.executable))
        worker.kill()
        worker.wait()
        answer = jobq("worker", "start", "--until-idle")
        assert job_id in answer.stderr
        assert "jobs lock" in answer.stderr
        assert not ended(pid)
        assert jobq.state(job_id) == "processing"
        assert "still runs" in jobq("why", job_id).stdout
        doctor = jobq("doctor", code=5).stdout
        assert job_id in doctor or worker_of(jobq, job_id)[:8] in doctor
        assert jobq("cancel", job_id, code=5).stderr
    finally:
        os.kill(pid, signal.SIGKILL)
    jobq("worker", "start", "--until-empty")
    assert jobq.state(job_id) == "cancelled"


def worker_of(jobq, job_id):
    return jobq.job(job_id)["worker"]


def test_a_success_that_was_faster_than_a_cancel_stands(jobq, worker, eventually):
    job_id = jobq.add(shell="trap 'exit 0' TERM; echo ready; while :; do sleep 0.02; done")
    eventually(lambda: jobq("logs", job_id).out == b"ready\n")
    jobq("cancel", job_id, code=None)
    job = jobq.job(job_id)
    assert (job["state"], job["run"]) == ("completed", 1)


def test_a_cancelled_job_whose_worker_is_killed_meanwhile_never_runs_again(jobq, start_worker, trees, eventually):
    worker = start_worker(env={"JOBQ_KILL_GRACE": "600s"})
    trees.add("deaf")
    (pid,) = trees.pids("deaf")
    (job_id,) = trees.names
    cancel = jobq.start("cancel", job_id)
    eventually(lambda: jobq.job(job_id)["cancel_requested_at"])
    worker.kill()
    worker.wait()
    jobq("worker", "start", "--until-empty")
    cancel.communicate(timeout=60)
    job = jobq.job(job_id)
    assert (job["state"], job["run"]) == ("cancelled", 1)
    assert ended(pid)
    assert set(trees.runs("deaf")) <= {1}


def test_a_command_that_cannot_be_started_is_dead_at_once_and_says_why(jobq, tmp_path):
    plain = tmp_path / "plain"
    plain.write_text("no program")
    gone = tmp_path / "gone"
    gone.mkdir()
    reasons = {
        jobq.add("--", "/no/such/program"): "no such file: /no/such/program",
        jobq.add("--", str(plain)): f"not executable: {plain}",
        jobq.add("-C", str(gone), "--", "true"): f"no such directory: {gone}",
    }
    gone.rmdir()
    jobq.run_all()
    for job_id, reason in reasons.items():
        job = jobq.job(job_id)
        assert (job["state"], job["attempts"], job["history"][-1]["outcome"]) == ("dead", 1, "cannot-start")
        assert job["last_error"] == reason
        assert reason in jobq("why", job_id).stdout


@pytest.fixture
def limited():
    """A cgroup with little memory, for a worker: its directory."""
    v1 = cgroupfs.own("memory")
    parent = v1 or cgroupfs.own()
    directory = Path(f"{parent}/tests-{os.getpid()}")
    values = {"memory.limit_in_bytes": "160M"} if v1 else {"memory.max": "160M", "memory.swap.max": "0"}
    try:
        directory.mkdir()
        for name, value in values.items():
            (directory / name).write_text(value)
    except OSError as error:
        if directory.exists():
            directory.rmdir()
        pytest.skip(f"no cgroup with a limit of memory can be made here: {error}")
    yield directory
    directory.rmdir()


def test_a_kill_for_want_of_memory_is_told_from_others(jobq, limited, eventually):
    eat = "x = []\nwhile True: x.append(b'x' * (1 << 20))"
    eater = shlex.join([sys.executable, "-c", eat])
    jobs = {
        jobq.add("--max-attempts", "1", "--", sys.executable, "-c", eat): "signal SIGKILL (out of memory?)",
        jobq.add("--max-attempts", "1", shell=f"{eater}; exit $?"): "exit code 137 (out of memory?)",
    }
    killed = jobq.add("--max-attempts", "1", shell="kill -KILL $$")
    script = f'echo $$ > {limited}/cgroup.procs; exec "$@"'
    argv = ["sh", "-c", script, "sh", *jobq.command("worker", "start", "--until-empty")]
    subprocess.run(argv, env=jobq.environ, cwd=jobq.directory, check=True, capture_output=True, timeout=60)
    for job_id, reason in jobs.items():
        assert jobq.job(job_id)["last_error"].splitlines()[0] == reason
    assert jobq.job(killed)["last_error"] == "signal SIGKILL"
    eventually(lambda: not (limited / "cgroup.procs").read_text())
