"""Standard streams that are closed, full or broken: the work is done all the same, and never said to have failed."""

import json
import os
import signal
import subprocess
import time

import pytest

FULL = "/dev/full"


def shell(jobq, redirections, *words):
    """Run a command with redirections of a shell; its exit code and what is left of its output."""
    command = " ".join(f"'{word}'" for word in jobq.command(*words))
    return subprocess.run(
        ["sh", "-c", f"{command} {redirections}"],
        env=jobq.environ,
        cwd=jobq.directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("redirections", ["2>&-", f"2>{FULL}", "2>&1 | true"])
def test_an_add_that_cannot_talk_has_added_one_job_and_does_not_fail(jobq, redirections):
    done = shell(jobq, redirections, "add", "--", "true")
    assert done.returncode == 0, done.stderr
    assert len(jobq("list", "--json").json) == 1


@pytest.mark.parametrize("redirections", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_an_add_that_has_nowhere_to_answer_has_added_one_job_and_says_that_no_answer_was_written(jobq, redirections):
    done = shell(jobq, redirections, "add", "--", "true")
    assert done.returncode == 74
    if "2>" not in redirections:
        assert "what was asked is done, but the answer cannot be written" in done.stderr
    assert len(jobq("list", "--json").json) == 1


def test_a_command_that_answers_nothing_does_without_a_stdout(jobq):
    job_id = jobq.add("--", "true")
    assert shell(jobq, ">&-", "cancel", job_id).returncode == 0
    assert shell(jobq, ">&-", "worker", "start", "--until-idle").returncode == 0


@pytest.mark.parametrize("words", [["add", "--", "true"], ["list"], ["status"], ["--version"], ["--help"], ["doctor"]])
def test_an_answer_that_cannot_be_written_is_no_fault_of_jobq(jobq, words):
    jobq("add", "--", "true")
    done = shell(jobq, f">{FULL}", *words)
    assert done.returncode == 74
    assert "the answer cannot be written: No space left on device" in done.stderr
    assert "fault" not in done.stderr


def test_text_that_the_streams_encoding_has_not_is_escaped(jobq):
    jobq.add(shell="echo grüße # ☃")
    for env in ({"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "POSIX", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}):
        assert "echo gr" in jobq("list", env=env).stdout


def test_a_worker_with_a_full_stderr_works(jobq):
    jobq.add("--", "true")
    assert shell(jobq, f"2>{FULL}", "worker", "start", "--until-empty").returncode == 0
    assert jobq("status", "--json").json["counts"]["completed"] == 1


def test_detach_with_all_streams_closed(jobq):
    done = shell(jobq, "<&- >&- 2>&-", "worker", "start", "--detach")
    try:
        assert done.returncode == 0
        assert len(jobq("worker", "list", "--json").json) == 1
    finally:
        jobq("worker", "stop", "--wait")


def test_a_drain_whose_terminal_is_gone_finishes_its_job(jobq, eventually, tmp_path):
    """The talk of a drain (at once, and every 10 s) may find nobody; the job must not pay for it."""
    gate = tmp_path / "gate"
    job_id = jobq.add(shell=f"while [ ! -e {gate} ]; do sleep 0.05; done")
    read, write = os.pipe()
    worker = jobq.start("worker", "start", stdout=write, stderr=write)
    os.close(write)
    eventually(lambda: jobq.state(job_id) == "processing")
    os.close(read)
    worker.send_signal(signal.SIGTERM)
    eventually(lambda: [w["state"] for w in jobq("worker", "list", "--json").json] == ["draining"])
    end = time.monotonic() + 1
    eventually(lambda: time.monotonic() > end or worker.poll() is not None)
    assert worker.poll() is None
    gate.touch()
    assert worker.wait(30) == 0
    assert jobq.state(job_id) == "completed"


def test_json_lines_into_a_pipe_that_closes(jobq):
    jobq("enqueue", "-", input="".join(json.dumps({"command": "true"}) + "\n" for _ in range(2000)))
    done = shell(jobq, "| head -1", "list", "--jsonl", "--limit", "2000")
    assert len(done.stdout.splitlines()) == 1
    assert "Traceback" not in done.stderr
    assert "Broken" not in done.stderr
