"""The real command line through `--store sqlite:`, and what importing the plugin costs."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

pytest_plugins = ["jobq.testing.fixtures"]


@pytest.fixture(autouse=True)
def chosen(jobq_home, monkeypatch):
    monkeypatch.setenv("JOBQ_STORE", "sqlite:")


def test_jobs_are_added_run_listed_and_retried(jobq_home, jobq_cli):
    jobq_cli("add", "--id", "hello", "-t", "red", "--", "echo", "hello")
    jobq_cli("add", "--id", "flop", "--max-attempts", "1", "--", "false")
    jobq_cli("enqueue", '{"id": "later", "command": "true", "delay": 3600}')
    jobq_cli("worker", "start", "--until-idle", process=True)
    assert jobq_cli("list", "--ids").stdout.split() == ["later", "flop", "hello"]
    assert jobq_cli("list", "-t", "red", "--ids").stdout.split() == ["hello"]
    assert jobq_cli("logs", "hello").stdout == "hello\n"
    assert jobq_cli("dlq", "list").stdout.startswith("flop  attempts=1/1")
    jobq_cli("dlq", "retry", "flop")
    jobq_cli("cancel", "later")
    counts = jobq_cli("status", "--json").json
    assert counts["counts"] == {
        "pending": 1, "processing": 0, "completed": 1, "failed": 0, "dead": 0, "cancelled": 1,
    }  # fmt: skip
    assert counts["store"] == "sqlite:"
    assert "sqlite:, jobs: 3" in jobq_cli("doctor").stdout
    jobq_cli("add", "--id", "hello", "--", "true", code=4)
    assert (jobq_home / "queue.sqlite3").exists()
    assert not (jobq_home / "queue").exists()


def test_a_home_that_was_an_empty_directory_is_known_again(jobq_home, jobq_cli):
    jobq_cli("add", "--id", "one", "--", "true")
    shutil.rmtree(jobq_home / "cache", ignore_errors=True)
    assert jobq_cli("list", "--ids").stdout == "one\n"


def test_a_killed_worker_costs_its_job_no_attempt(jobq_home, jobq_cli):
    jobq_cli("add", "--id", "rude", "--shell", "test $JOBQ_RUN -gt 1 || kill -9 $PPID")
    jobq_cli("worker", "start", "--until-empty", process=True, code=-signal.SIGKILL)
    jobq_cli("worker", "start", "--until-empty", process=True)
    job = jobq_cli("show", "rude", "--json").json
    assert (job["state"], job["run"], job["attempts"]) == ("completed", 2, 0)
    assert [run["outcome"] for run in job["history"]] == ["lost", "completed"]


def test_trouble_is_told_with_its_exit_code(jobq_home, jobq_cli):
    jobq_cli("add", "--", "true")
    path = jobq_home / "queue.sqlite3"
    for content in (None, b"", b"no database"):
        path.unlink(missing_ok=True)
        if content is not None:
            path.write_bytes(content)
        for words in (["status"], ["list"], ["add", "--", "true"], ["doctor"]):
            answer = jobq_cli(*words, code=5)
            told = answer.stdout + answer.stderr
            assert str(path) in told
            assert "Traceback" not in told


def test_doctor_mends(jobq_home, jobq_cli):
    jobq_cli("add", "--id", "one", "--", "true")
    (jobq_home / "queue.sqlite3").unlink()
    for left in jobq_home.glob("queue.sqlite3-*"):
        left.unlink()
    assert "an empty database was begun" in jobq_cli("doctor", "--repair").stderr
    jobq_cli("add", "--id", "two", "--", "true")
    assert jobq_cli("list", "--ids").stdout == "two\n"


def test_a_queue_is_moved_to_the_database_and_back(jobq_home, jobq_cli, monkeypatch):
    jobq_cli("add", "--id", "flop", "--max-attempts", "1", "-t", "red", "--", "false")
    jobq_cli("add", "--id", "done", "--", "true")
    jobq_cli("worker", "start", "--until-idle", process=True)
    jobq_cli("add", "--id", "waits", "--priority", "3", "--", "true")
    jobq_cli("pause", "mail", "--reason", "so")
    before = jobq_cli("list", "--json").json
    for here, there in (("sqlite:", "json:"), ("json:", "sqlite:")):
        jobq_cli("--store", here, "move", "--to", there)
        assert jobq_cli("--store", there, "list", "--json").json == before
        assert f"use --store {there}" in jobq_cli("--store", here, "list", code=5).stderr
        assert jobq_cli("--store", there, "status", "--json").json["queues"]["mail"]["paused"]
    assert jobq_cli("doctor").code == 0


def test_importing_the_plugin_imports_no_sqlite():
    code = "import jobq_sqlite, sys; jobq_sqlite.jobq_stores(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "jobq_sqlite" in loaded
    assert loaded & {"sqlite3", "_sqlite3", "threading", "ctypes", "pathlib", "dataclasses"} == set()


def test_two_workers_share_the_jobs(jobq_home, jobq_cli):
    lines = "".join(json.dumps({"id": f"j{number}", "command": "true"}) + "\n" for number in range(30))
    jobq_cli("enqueue", "-", stdin=lines)
    command = [sys.executable, "-m", "jobq", "worker", "start", "--until-empty", "-n", "2"]
    workers = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for _ in range(2)]
    for worker in workers:
        with worker:
            _, trouble = worker.communicate(timeout=60)
            assert worker.returncode == 0, trouble
    jobs = jobq_cli("list", "--json").json
    assert [(job["state"], job["run"]) for job in jobs] == [("completed", 1)] * 30
