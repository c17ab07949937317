"""`worker start|stop|list|logs`: real workers, real signals."""

import json
import os
import re
import signal
import subprocess

import pytest

from .terminals import CTRL_Q, CTRL_S, Terminal


@pytest.fixture
def blocked(jobq, eventually, tmp_path):
    """Adds a job that runs until `release` is called, and waits until it runs."""

    class Blocked:
        gate = tmp_path / "gate"

        def add(self):
            pids = tmp_path / "pids"
            job_id = jobq.add(shell=f"echo $$ >> {pids}; while [ ! -e {self.gate} ]; do sleep 0.05; done")
            eventually(lambda: jobq.state(job_id) == "processing" and pids.exists() and pids.read_text().strip())
            self.pids = [int(pid) for pid in pids.read_text().split()]
            return job_id

        def release(self):
            self.gate.touch()

    return Blocked()


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def draining(jobq):
    """Whether a worker says that it drains."""
    return any(info["state"] == "draining" for info in jobq("worker", "list", "--json").json)


def test_detach_returns_when_the_worker_has_joined_and_its_log_can_be_read(jobq):
    answer = jobq("worker", "start", "--detach", "--name", "back")
    try:
        (worker,) = jobq("worker", "list", "--json").json
        assert worker["name"] == "back"
        assert str(worker["pid"]) in answer.stderr
        job_id = jobq("add", "-w", "--", "true").id
        assert jobq.state(job_id) == "completed"
        assert job_id in jobq("worker", "logs").stdout
        assert job_id in jobq("worker", "logs", "back").stdout
        jobq("worker", "logs", "another", code=3)
    finally:
        jobq("worker", "stop", "--wait")
    assert jobq("worker", "list", "--json").json == []
    assert not alive(worker["pid"])


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_the_log_of_a_worker_that_is_gone_is_found_by_name_pid_and_beginning_of_its_id(jobq, end, eventually):
    jobq("worker", "start", "--detach", "--name", "first")
    jobq("worker", "stop", "--wait")
    jobq("--quiet", "worker", "start", "--detach", "--name", "web 2)")
    (worker,) = jobq("worker", "list", "--json").json
    job_id = jobq("add", "-w", "--", "true").id
    if end == "stop":
        jobq("worker", "stop", "--wait")
    else:
        os.kill(worker["pid"], signal.SIGKILL)
        eventually(lambda: jobq("worker", "list", "--json").json == [])
    for called in ("web 2)", str(worker["pid"]), worker["id"], worker["id"][:8], worker["id"][:4]):
        assert f"pid {worker['pid']}" in jobq("worker", "logs", called).stdout
    assert "worker first (pid" in jobq("worker", "logs", "first").stdout
    assert job_id not in jobq("worker", "logs", "first").stdout
    for called in (worker["id"][:3], "web", worker["id"] + "x"):
        jobq("worker", "logs", called, code=3)


def test_of_several_workers_of_one_name_the_living_one_is_meant_and_then_the_latest(jobq):
    logs = []
    for _ in range(2):
        jobq("worker", "start", "--detach", "--name", "web")
        (worker,) = jobq("worker", "list", "--json").json
        logs.append(jobq.home / "workers" / f"{worker['id']}.log")
        if len(logs) == 1:
            jobq("worker", "stop", "--wait")
    try:
        os.utime(logs[0], (2e9, 2e9))
        assert f"pid {worker['pid']}" in jobq("worker", "logs", "web").stdout
    finally:
        jobq("worker", "stop", "--wait")
    assert jobq("worker", "logs", "web").out == logs[0].read_bytes()
    os.utime(logs[0], (1e9, 1e9))
    assert jobq("worker", "logs", "web").out == logs[1].read_bytes()


def test_detach_returns_with_the_error_of_a_worker_that_cannot_start(jobq):
    answer = jobq("--store", "nosuch:", "worker", "start", "--detach", code=6)
    assert "nosuch" in answer.stderr
    assert "Traceback" not in answer.stderr
    assert list((jobq.home / "workers").glob("*.log")) == []


def test_detach_says_something_where_the_worker_could_not(jobq):
    """On a disk that is full its log has no room either."""
    limit = ["prlimit", "--fsize=0", "--"]
    command, environ = jobq.command("worker", "start", "--detach"), jobq.environ
    jobq.add("--id", "waits", shell="true")
    done = subprocess.run(
        [*limit, *command], check=False, env=environ, cwd=jobq.directory, capture_output=True, text=True
    )
    assert done.returncode == 5
    assert "the worker ended with exit code 5 and could not write why" in done.stderr


def test_stop_grace_bounds_the_drain(jobq, start_worker, blocked):
    worker = start_worker("--stop-grace", "0.2")
    job_id = blocked.add()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(30) == 143
    assert jobq.job(job_id)["state"] == "pending"


def test_stop_now_hands_the_job_back_uncounted(jobq, start_worker, blocked):
    worker = start_worker()
    job_id = blocked.add()
    assert f"Sent SIGQUIT to worker {worker.pid}" in jobq("worker", "stop", "--now", "--wait", str(worker.pid)).stderr
    assert worker.wait(30) == 143
    job = jobq.job(job_id)
    assert (job["state"], job["attempts"], job["history"][-1]["outcome"]) == ("pending", 0, "released")


def test_stop_without_workers_is_no_error_and_an_unknown_one_is(jobq):
    assert "no worker runs" in jobq("worker", "stop").stderr
    jobq("worker", "stop", "nobody", code=3)
    jobq("worker", "stop", str(os.getpid()), code=3)


def test_a_worker_killed_while_draining_costs_its_job_nothing(jobq, start_worker, blocked, eventually):
    worker = start_worker()
    job_id = blocked.add()
    worker.send_signal(signal.SIGTERM)
    eventually(lambda: draining(jobq))
    worker.kill()
    worker.wait()
    start_worker("-q", "another")
    job = eventually(lambda: (job := jobq.job(job_id))["state"] == "pending" and job)
    assert (job["attempts"], job["losses"]) == (0, 0)


def test_poison_is_dead_after_three_losses_and_its_neighbours_complete(jobq):
    poison = jobq("enqueue", json.dumps({"id": "poison", "command": "kill -9 $PPID; sleep 60", "priority": 5})).id
    neighbours = [jobq.add("--", "true") for _ in range(4)]
    codes = [jobq("worker", "start", "--until-empty", "-n", "2", code=None).code for _ in range(5)]
    assert codes.count(-9) == 3
    job = jobq.job(poison)
    assert (job["state"], job["losses"], job["attempts"], job["run"]) == ("dead", 3, 0, 3)
    assert "worker died" in job["last_error"]
    assert {jobq.state(neighbour) for neighbour in neighbours} == {"completed"}


def test_a_worker_started_from_inside_a_job_outlives_the_job(jobq, start_worker):
    start_worker("-q", "default")
    jobq("add", "-w", "--", *jobq.command("worker", "start", "--detach", "-q", "inner", "--name", "inner"))
    inner = [info for info in jobq("worker", "list", "--json").json if info["name"] == "inner"]
    assert len(inner) == 1
    job_id = jobq("add", "-q", "inner", "-w", "--", "true").id
    assert jobq.state(job_id) == "completed"
    jobq("worker", "stop", "inner", "--wait")


def test_a_worker_serves_only_the_queues_named(jobq):
    other, mine = jobq.add("-q", "other", "--", "true"), jobq.add("-q", "mine", "--", "true")
    jobq.run_all("-q", "mine")
    assert (jobq.state(other), jobq.state(mine)) == ("pending", "completed")


def test_the_workers_lines_and_summary(jobq):
    good, bad = jobq.add("--", "true"), jobq.add("--max-attempts", "1", "--", "false")
    answer = jobq.run_all()
    lines = {line.split()[1]: line for line in answer.stdout.splitlines()}
    assert "completed after" in lines[good]
    assert "dead after" in lines[bad]
    assert "exit code 1" in lines[bad]
    assert "worker ended: 1 completed, 1 failed attempt, 1 dead" in answer.stderr


def test_the_lines_of_a_worker_on_a_terminal_are_whole_coloured_and_before_the_summary(jobq):
    jobs = [jobq.add(shell="true") for _ in range(20)]
    bad = jobq.add("--max-attempts", "1", shell="exit 3")
    terminal = Terminal(
        jobq.command("worker", "start", "--until-empty", "-n", "4"), env=jobq.environ, cwd=jobq.directory
    )
    try:
        assert terminal.end() == 0
        text = terminal.written.decode()
    finally:
        terminal.close()
    lines, _, summary = text.partition("worker ended: ")
    for job in jobs:
        assert re.search(
            rf"^\d\d:\d\d:\d\d  {job}  \x1b\[32mcompleted\x1b\[0m after [\d.]+s  \[true\]\r$", lines, re.MULTILINE
        )
    assert re.search(rf"{bad}  \x1b\[31mdead\x1b\[0m after [\d.]+s: exit code 3  \[exit 3\]\r$", lines, re.MULTILINE)
    assert summary == "20 completed, 1 failed attempt, 1 dead\r\n"


def test_a_terminal_that_was_stopped_holds_up_no_job(jobq, eventually):
    terminal = Terminal(jobq.command("worker", "start"), env=jobq.environ, cwd=jobq.directory)
    try:
        terminal.until(rb"serves all queues")
        terminal.type(CTRL_S)
        jobs = "".join(json.dumps({"command": ["true", "x" * 80]}) + "\n" for _ in range(200))
        jobq("enqueue", "-", "--quiet", input=jobs)  # a terminal takes some KiB before it lets nobody write any more
        eventually(lambda: jobq("status", "--json").json["counts"]["completed"] == 200)
        terminal.type(CTRL_Q)
        terminal.send(signal.SIGTERM)
        assert terminal.end() == 0
        assert terminal.written.count(b"completed\x1b[0m after") == 200
    finally:
        terminal.close()


def test_a_worker_whose_reader_has_gone_works_on(jobq):
    for _ in range(3):
        jobq.add("--", "true")
    read, write = os.pipe()
    os.close(read)
    process = jobq.start("worker", "start", "--until-empty", stdout=write, stderr=subprocess.DEVNULL)
    os.close(write)
    process.wait(60)
    assert jobq("status", "--json").json["counts"]["completed"] == 3


def test_until_idle_gives_back_what_a_dead_worker_held(jobq, start_worker, blocked):
    worker = start_worker()
    job_id = blocked.add()
    worker.kill()
    worker.wait()
    blocked.release()
    jobq("worker", "start", "--until-idle")
    assert jobq.state(job_id) == "completed"


def test_an_orphan_without_environment_is_found_by_the_lock_it_holds(jobq, start_worker, eventually, tmp_path):
    worker = start_worker()
    pid_file = tmp_path / "pid"
    script = f"env -i setsid sh -c 'echo $$ > {pid_file}; exec sleep 600' & sleep 600"
    job_id = jobq.add("--on-lost", "dead", shell=script)
    eventually(lambda: pid_file.exists() and pid_file.read_text().strip())
    orphan = int(pid_file.read_text())
    worker.kill()
    worker.wait()
    jobq("worker", "start", "--until-idle")
    assert jobq.state(job_id) == "dead"
    assert not alive(orphan)


def test_a_worker_whose_files_are_removed_makes_them_anew_and_burns_no_job(jobq, start_worker, eventually):
    worker = start_worker()
    (jobq.home / "workers").rename(jobq.directory / "removed")  # at one stroke: it makes them anew at once
    eventually(lambda: [info["pid"] for info in jobq("worker", "list", "--json").json] == [worker.pid])
    job_id = jobq("add", "-w", "--", "true").id
    assert (jobq.job(job_id)["state"], jobq.job(job_id)["losses"]) == ("completed", 0)
    jobq("worker", "stop", "--wait")
    assert worker.wait(30) == 0
