"""status, list, show, why, logs and wait, as a person and a script meet them."""

import contextlib
import json
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import time

import pytest

EMPTY = (
    "pending      0\nprocessing   0\ncompleted    0\nfailed       0\ndead         0\ncancelled    0\nactive workers 0\n"
)
HOLD = "touch started; while [ ! -e go ]; do sleep 0.02; done"


def on_terminal(jobq, *args, env=None, columns=80):
    """What a command writes to a terminal, stdout and stderr together, as bytes; and its exit code."""
    leader, follower = pty.openpty()
    environ = {"TERM": "xterm", "COLUMNS": str(columns), **(env or {})}
    process = jobq.start(*args, stdin=follower, stdout=follower, stderr=follower, env=environ)
    os.close(follower)
    written = b""
    deadline = time.monotonic() + 30
    with contextlib.suppress(OSError):  # EIO: nobody has the terminal open any more
        while select.select([leader], [], [], max(0, deadline - time.monotonic()))[0]:
            written += os.read(leader, 65536)
    os.close(leader)
    return written, process.wait(10)


def read_until(process, wanted, timeout=30):
    """Read a process's stdout until it holds `wanted`."""
    got = b""
    deadline = time.monotonic() + timeout
    while wanted not in got:
        assert select.select([process.stdout], [], [], max(0, deadline - time.monotonic()))[0], got
        piece = os.read(process.stdout.fileno(), 65536)
        assert piece, got
        got += piece
    return got


@pytest.fixture
def go(jobq):
    """Lets the job that runs `HOLD` end."""
    return (jobq.directory / "go").touch


# --- where there is nothing yet


@pytest.mark.parametrize(
    ("args", "code", "out"),
    [
        (["status"], 0, EMPTY),
        (["list"], 0, ""),
        (["list", "--json"], 0, "[]\n"),
        (["list", "--jsonl", "-s", "dead"], 0, ""),
        (["list", "--ids"], 0, ""),
        (["show"], 3, ""),
        (["show", "nosuch"], 3, ""),
        (["why", "nosuch"], 3, ""),
        (["logs"], 3, ""),
        (["wait", "nosuch"], 3, ""),
        (["wait", "-q", "nosuch"], 0, ""),
    ],
)
def test_without_a_home_the_answer_is_empty_and_nothing_is_made(jobq, args, code, out):
    answer = jobq(*args, code=code)
    assert answer.stdout == out
    assert "Traceback" not in answer.stderr
    assert not jobq.home.exists()
    assert list((jobq.directory / "user").iterdir()) == []


# --- status


def test_status_in_its_two_forms(jobq):
    jobq.add("--id", "fine", shell="true")
    jobq.add("--id", "bad", "--max-attempts", "1", shell="exit 1")
    jobq.run_all()
    jobq.add("--id", "later", "--delay", "1h", "-q", "slow", shell="true")
    jobq("pause", "slow", "--reason", "too slow")
    answer = jobq("status")
    assert answer.stdout == EMPTY.replace("pending      0", "pending      1").replace(
        "completed    0", "completed    1"
    ).replace("dead         0", "dead         1")
    assert "queue slow is paused: too slow" in answer.stderr
    none = dict.fromkeys(("pending", "processing", "completed", "failed", "dead", "cancelled"), 0)
    record = jobq("status", "--json").json
    assert record.pop("store").startswith("json:")
    assert record == {
        "counts": none | {"pending": 1, "completed": 1, "dead": 1},
        "later": 1,
        "workers": [],
        "queues": {
            "default": {"counts": none | {"completed": 1, "dead": 1}, "paused": False},
            "slow": {"counts": none | {"pending": 1}, "paused": True, "reason": "too slow"},
        },
        "damaged": 0,
        "notice": None,
        "home": str(jobq.home),
    }


def test_status_tells_the_workers_and_what_they_run(jobq, worker, go, eventually):
    job = jobq.add(shell=HOLD)
    (shown,) = eventually(lambda: [each for each in jobq("status", "--json").json["workers"] if each["running"]])
    assert shown["pid"] == worker.pid
    assert shown["running"][0]["job"] == job
    assert jobq("status").stdout.endswith("active workers 1\n")
    go()


# --- list and the selection


def fill(jobq):
    """A dead, a completed, a failed, two waiting jobs and one that is not due."""
    jobq.add("--id", "dead", "--max-attempts", "1", "-t", "night", shell="echo no; exit 4")
    jobq.add("--id", "done", "-t", "night", "-t", "big", shell="true")
    jobq.add("--id", "again", "-q", "mail", shell="exit 5")
    jobq("worker", "start", "--until-idle", env={"JOBQ_BACKOFF_INITIAL": "1000", "JOBQ_BACKOFF_JITTER": "false"})
    jobq.add("--id", "low", "-q", "mail", shell="true # needle")
    jobq.add("--id", "high", "--priority", "5", shell="true")
    jobq.add("--id", "later", "--delay", "1h", shell="true")
    return jobq


@pytest.fixture
def some(jobq):
    """Jobs in many states, for a test that changes them."""
    return fill(jobq)


@pytest.fixture(scope="module")
def shared(tmp_path_factory, new_cli):
    """The same jobs, for tests that only look."""
    return fill(new_cli(tmp_path_factory.mktemp("shared")))


def ids(jobq, *args, code=0):
    return jobq("list", "--ids", *args, code=code).stdout.split()


def test_list_in_the_order_of_claims_then_dead_then_finished(shared):
    lines = shared("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["high", "low", "again", "later", "dead", "done"]
    again = lines[2]
    assert re.search(
        r"^again  exit 5 +failed \(retry 2/3 in 1\d m \d+ s\) +1/3  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$", again
    )
    assert "pending (due in" in lines[3]


@pytest.mark.parametrize(
    ("args", "found"),
    [
        (["-s", "dead"], ["dead"]),
        (["-s", "dead,completed"], ["dead", "done"]),
        (["-s", "dead", "--state", "failed"], ["again", "dead"]),
        (["-q", "mail"], ["low", "again"]),
        (["-q", "mail", "-q", "default", "-s", "failed"], ["again"]),
        (["-t", "night"], ["dead", "done"]),
        (["-t", "night", "-t", "big"], ["done"]),
        (["--match", "NEEDLE"], ["low"]),
        (["--match", "code 4"], ["dead"]),
        (["--handler", "resize"], []),
        (["--since", "1h"], ["high", "low", "again", "later", "dead", "done"]),
        (["--before", "1h"], []),
        (["--since", "2100-01-01T00:00:00Z"], []),
        (["--limit", "2"], ["high", "low"]),
        (["--limit", "1", "--match", "e"], ["high"]),
        (["done", "high", "done"], ["done", "high"]),
    ],
)
def test_a_selection_finds_what_fulfils_all_of_it_in_order(shared, args, found):
    assert ids(shared, *args) == found


def test_a_limit_tells_how_many_there_are(shared):
    assert "these are 2 of 6 jobs" in shared("list", "--limit", "2").stderr
    assert "these are 1 of 2 jobs" in shared("list", "--limit", "1", "-q", "mail").stderr
    assert "these are 1 of 2 jobs" in shared("list", "--limit", "1", "-t", "night").stderr
    assert "these are" not in shared("list", "--limit", "6").stderr


def test_list_as_json(shared):
    records = shared("list", "--json").json
    assert [record["id"] for record in records] == ["high", "low", "again", "later", "dead", "done"]
    assert [json.loads(line) for line in shared("list", "--jsonl").stdout.splitlines()] == records
    assert records[4] == shared("show", "--json", "dead").json
    assert records[4]["max_retries"] == records[4]["max_attempts"] == 1


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["-s", "ready"], "'ready' is no state"),
        (["x", "-q", "default"], "ids or conditions"),
        (["--since", "soon"], "--since"),
        (["--json", "--ids"], "one of --json"),
        (["--limit", "0"], "--limit"),
        (["--since", "2026-07-11T10:00:00"], "offset"),
    ],
)
def test_wrong_selections_are_refused(jobq, args, told):
    answer = jobq("list", *args, code=1)
    assert told in answer.stderr
    assert answer.stdout == ""


def test_each_id_is_tried_and_the_first_failure_is_the_code(shared):
    answer = shared("list", "--ids", "nosuch", "done", code=3)
    assert answer.stdout == "done\n"
    assert "no job 'nosuch'" in answer.stderr


def test_the_beginning_of_a_generated_id_will_do_to_read(jobq):
    whole = jobq.add(shell="true")
    jobq.add("--id", "chosen-by-hand", shell="true")
    assert ids(jobq, whole[:4]) == [whole]
    assert jobq("show", "--json", whole[:9]).json["id"] == whole
    assert ids(jobq, whole[:3], code=3) == []
    assert ids(jobq, "chosen", code=3) == []
    jobq.add("--id", whole[:6], shell="true")
    assert ids(jobq, whole[:6]) == [whole[:6]]
    twin = whole[:15] + ("a" if whole[15] != "a" else "b")
    jobq.add("--id", twin, shell="true")
    answer = jobq("show", whole[:8], code=3)
    assert whole in answer.stderr
    assert twin in answer.stderr


def test_what_changes_something_takes_whole_ids_only(jobq):
    whole = jobq.add(shell="true")
    answer = jobq("cancel", whole[:8], code=3)
    assert f"whole ids only; {whole} begins so" in answer.stderr
    assert jobq.state(whole) == "pending"


def test_a_list_for_a_terminal_is_cut_and_for_a_pipe_is_whole(jobq):
    long = "echo " + "long " * 60
    jobq.add("--id", "x", shell=long)
    assert long.rstrip() in jobq("list").stdout
    written, code = on_terminal(jobq, "list", "--quiet", columns=60)
    assert code == 0
    (line,) = written.decode().splitlines()
    assert "…" in line
    assert len(line) <= 60


def test_nothing_that_is_shown_steers_a_terminal(jobq):
    nasty = "true '\x1b]52;c;eA==\x07\x9b2J' \u202e\x7f #\r\x1b[2J"
    job = jobq("enqueue", json.dumps({"command": nasty, "tags": ["a"]})).id
    for args in (["list"], ["show", job], ["why", job], ["list", "--json"], ["show", "no\x1b[2Jsuch"]):
        written, _ = on_terminal(jobq, *args, env={"NO_COLOR": "1"})
        text = written.decode()
        assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202e]", text), args
        assert "\r" not in text.replace("\r\n", ""), args


def test_a_reader_that_goes_away_ends_a_command_quietly(jobq):
    lines = "".join(json.dumps({"id": f"job-{number:04}", "command": "true " * 50}) + "\n" for number in range(900))
    jobq("enqueue", "-", "--quiet", input=lines)
    for args in (["list"], ["list", "--jsonl"], ["show", "job-0001"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        process = jobq.start(*args, "--quiet", stdout=write)
        os.close(write)
        _, errors = process.communicate(timeout=30)
        assert (process.returncode, errors) == (0, b""), args


# --- show and why


def test_show_tells_all_that_a_person_wants(some):
    some.add("--id", "secret", "-e", "API_TOKEN=hunter2", "-e", "PLAIN=seen", "--timeout", "90", shell="true")
    text = some("show", "secret").stdout
    assert "API_TOKEN=***" in text
    assert "PLAIN=seen" in text
    assert "hunter2" not in text
    assert "1m30s" in text
    text = some("show", "dead").stdout
    assert re.search(r"^state +dead$", text, re.MULTILINE)
    assert re.search(r"^attempts +1/1 failed$", text, re.MULTILINE)
    assert re.search(r"^error +exit code 4\n +no$", text, re.MULTILINE)
    assert re.search(r"^tags +night$", text, re.MULTILINE)
    assert re.search(r"^  1 +failed .* exit code 4$", text, re.MULTILINE)


def test_without_an_id_the_job_that_changed_last_is_meant(some):
    assert some("show", "--json").json["id"] == "later"
    some("worker", "start", "--until-idle")
    last = max(some("list", "--json").json, key=lambda record: record["updated_at"])
    assert some("show", "--json").json["updated_at"] == last["updated_at"]
    some("cancel", "later")
    assert some("show", "--json").json["id"] == "later"
    assert some("why").stdout.startswith("Job later was cancelled")


def test_why_of_jobs_that_ended_or_wait_for_a_time(some):
    assert some("why", "done").stdout.startswith("Job done completed at ")
    assert re.search("has been dead since .*1 of 1 attempts failed: exit code 4", some("why", "dead").stdout)
    assert re.search(
        r"waits for retry 2/3 at .* \(in 1\d m.*\): the last attempt ended with exit code 5",
        some("why", "again").stdout,
    )
    assert re.search(r"is not due before .* \(in (1 h|59 m)", some("why", "later").stdout)
    assert "no worker is running" in some("why", "low").stdout
    some("pause", "mail", "--reason", "spam")
    assert "its queue mail is paused (spam)" in some("why", "low").stdout


def test_why_of_jobs_that_wait_for_a_worker(jobq, start_worker, go, eventually):
    start_worker("-q", "default")
    running = jobq.add(shell=HOLD)
    eventually(lambda: jobq.state(running) == "processing")
    assert "has been running for" in jobq("why", running).stdout
    eventually(lambda: jobq("status", "--json").json["workers"][0]["running"])
    first, second = jobq.add(shell="true"), jobq.add(shell="true")
    assert re.search(r"has been busy for \d+ s, and it is the next one", jobq("why", first).stdout)
    assert re.search(r"has been busy for \d+ s, and 1 job is ahead of it", jobq("why", second).stdout)
    other = jobq.add("-q", "other", shell="true")
    assert "no worker serves the queue other" in jobq("why", other).stdout
    handler = jobq("add", "nosuch", "--allow-unknown-handler").id
    assert "has the handler nosuch installed" in jobq("why", handler).stdout
    go()


def test_why_of_a_job_whose_worker_was_killed(jobq, start_worker, eventually):
    worker = start_worker()
    job = jobq.add(shell=HOLD)
    eventually((jobq.directory / "started").exists)
    jobq.stop(worker, signal.SIGKILL)
    assert re.search("is held up|was left by a worker that is gone", jobq("why", job).stdout)
    assert "belong to workers that are gone" in jobq("status").stderr
    (jobq.directory / "go").touch()
    jobq.run_all()
    assert jobq.state(job) == "completed"


# --- logs


def test_logs_are_the_very_bytes(jobq):
    data = bytes(range(256)) * 40 + b"no newline at the end"
    (jobq.directory / "data").write_bytes(data)
    job = jobq.add(shell="cat data")
    jobq.run_all()
    answer = jobq("logs", job)
    assert answer.out == data
    assert jobq("logs", "--raw", job).out == data
    assert jobq("logs", "-f", job).out == data


def test_logs_on_a_terminal_are_harmless_unless_raw(jobq):
    job = jobq.add(shell=r"printf '\033]0;title\007\233x\377é\rover\n'")
    jobq.run_all()
    written, code = on_terminal(jobq, "logs", "--quiet", job)
    assert code == 0
    assert written.decode() == "\\x1b]0;title\\x07\\x9bx\\xffé\\x0dover\r\n"
    written, _ = on_terminal(jobq, "logs", "--quiet", "--raw", job)
    assert b"\x1b]0;title\x07" in written


def test_logs_of_one_run_and_the_last_lines(jobq):
    job = jobq.add("--max-attempts", "2", shell='printf "%s\n" one two "$JOBQ_RUN"; exit 1')
    jobq("worker", "start", "--until-empty", env={"JOBQ_BACKOFF_INITIAL": "0"})
    answer = jobq("logs", job)
    assert answer.stdout == "one\ntwo\n2\n"
    assert "run 2 of 2" in answer.stderr
    assert jobq("logs", "--run", "1", job).stdout == "one\ntwo\n1\n"
    assert jobq("logs", "-n", "2", job).stdout == "two\n2\n"
    assert jobq("logs", "-n", "9", job).stdout == "one\ntwo\n2\n"
    assert jobq("logs", "-n", "0", job).stdout == ""
    assert "no run 3" in jobq("logs", "--run", "3", job, code=3).stderr
    jobq("logs", "--run", "0", job, code=1)


def test_logs_of_what_has_printed_nothing(jobq):
    job = jobq.add(shell="true")
    assert "has not run yet" in jobq("logs", job).stderr
    jobq.run_all()
    answer = jobq("logs", job)
    assert answer.stdout == ""
    assert "printed nothing" in answer.stderr


def test_follow_shows_output_while_it_comes_and_ends_with_the_job(jobq, worker, go):
    job = jobq.add(shell=f"echo before; {HOLD}; echo after")
    following = jobq.start("logs", "--follow", job)
    assert read_until(following, b"before\n") == b"before\n"
    go()
    out, _ = following.communicate(timeout=30)
    assert (out, following.returncode) == (b"after\n", 0)


def test_follow_goes_on_through_all_attempts(jobq, start_worker):
    start_worker(env={"JOBQ_BACKOFF_INITIAL": "0.2"})
    job = jobq.start("add", "--follow", "--max-attempts", "3", "--shell", 'echo "run $JOBQ_RUN"; test "$JOBQ_RUN" = 3')
    out, errors = job.communicate(timeout=30)
    assert job.returncode == 0
    first, *lines = out.decode().splitlines()
    assert re.fullmatch("[a-z2-7]{16}", first)
    assert lines == ["run 1", "run 2", "run 3"]
    assert re.search("run 1 failed: exit code 1; retry 2/3 in 1 s", errors.decode())
    assert "run 2 failed: exit code 1" in errors.decode()
    assert "run 3" not in errors.decode()


def test_follow_of_one_run_ends_with_it(jobq):
    job = jobq.add("--max-attempts", "2", shell='echo "run $JOBQ_RUN"; exit 1')
    jobq("worker", "start", "--until-idle", env={"JOBQ_BACKOFF_INITIAL": "1000"})
    assert jobq.state(job) == "failed"
    assert jobq("logs", "-f", "--run", "1", job).stdout == "run 1\n"


def test_ctrl_c_ends_the_following_and_never_the_job(jobq, worker, go, eventually):
    job = jobq.add(shell=f"echo before; {HOLD}")
    following = jobq.start("logs", "--follow", job)
    read_until(following, b"before\n")
    following.send_signal(signal.SIGINT)
    _, errors = following.communicate(timeout=30)
    assert following.returncode == 130
    assert b"no longer following" in errors
    assert jobq.state(job) == "processing"
    go()
    eventually(lambda: jobq.state(job) == "completed")


# --- wait


def test_wait_tells_by_its_code_how_jobs_ended(jobq, worker):
    fine, bad = jobq.add(shell="true"), jobq.add("--max-attempts", "1", shell="exit 9")
    assert f"Job {fine} completed" in jobq("wait", fine).stderr
    answer = jobq("wait", fine, bad, code=7)
    assert answer.stdout == ""
    assert f"Job {bad} is dead: exit code 9" in answer.stderr
    assert jobq("wait", "nosuch", bad, code=3).stdout == ""
    jobq("wait", "-s", "completed")
    jobq("wait", "-q", "default", code=7)
    jobq("wait", code=1)


def test_wait_for_what_is_cancelled_and_what_is_deleted(jobq):
    job, other = jobq.add(shell="true"), jobq.add(shell="true")
    waiting = jobq.start("wait", job, other)
    jobq("cancel", job)
    jobq("delete", other)
    _, errors = waiting.communicate(timeout=30)
    assert waiting.returncode == 3
    assert f"Job {job} cancelled".encode() in errors
    jobq("wait", job, code=7)


def test_the_time_to_wait_can_run_out(jobq):
    job = jobq.add(shell="true")
    answer = jobq("wait", "--timeout", "0.05", job, code=124)
    assert "1 of 1 jobs have not ended" in answer.stderr
    assert jobq.state(job) == "pending"
    jobq("wait", "--timeout", "0.05", "--exit-code", job, code=125)


@pytest.mark.parametrize(
    ("line", "code"), [("exit 0", 0), ("exit 42", 42), ("kill -9 $$", 137), ("kill -15 $$", 143), ("sleep 60", 125)]
)
def test_wait_can_pass_on_the_exit_code_of_the_job(jobq, line, code):
    job = jobq.add("--max-attempts", "1", "--timeout", "0.5", shell=line)
    jobq.run_all()
    jobq("wait", "--exit-code", job, code=code)


def test_wait_with_the_exit_code_of_no_job(jobq):
    jobq("wait", "--exit-code", "nosuch", code=125)
    job = jobq.add(shell="true")
    jobq("cancel", job)
    jobq("wait", "--exit-code", job, code=125)
    jobq("wait", "--exit-code", job, job + "x", code=1)


def test_ctrl_c_ends_the_waiting_and_never_the_job(jobq, worker, go, eventually):
    job = jobq.add(shell=HOLD)
    waiting = jobq.start("wait", job)
    eventually((jobq.directory / "started").exists)
    eventually(lambda: b"home:" in os.read(waiting.stderr.fileno(), 100))
    waiting.send_signal(signal.SIGINT)
    assert waiting.wait(30) == 130
    assert jobq.state(job) == "processing"
    go()
    eventually(lambda: jobq.state(job) == "completed")


def test_python_m_jobq_is_the_command(jobq):
    done = subprocess.run([*jobq.command("--version")], env=jobq.environ, capture_output=True, text=True, check=True)
    assert re.fullmatch(r"jobq \d+\.\d+\.\d+\n", done.stdout)


def test_output_that_could_not_be_kept_is_told(jobq):
    """Where there is no room for it, a job goes on; nobody is told that it printed nothing."""
    job_id = jobq.add(shell="echo precious")
    (jobq.home / "output").write_bytes(b"")
    worker = jobq.run_all()
    (jobq.home / "output").unlink()
    assert jobq.state(job_id) == "completed"
    assert f"not all output of job {job_id} could be kept: " in worker.stderr
    logs = jobq("logs", job_id)
    assert logs.stdout == ""
    assert "not all output of run 1 could be kept: " in logs.stderr
    assert "printed nothing" not in logs.stderr
    assert "not all output was kept: " in jobq("show", job_id).stdout
    assert "output_error" in jobq.job(job_id)["history"][0]


def test_who_waits_for_a_paused_queue_is_told(jobq):
    jobq("pause", "mail")
    job = jobq.add("-q", "mail", shell="true")
    answer = jobq("wait", job, "--timeout", "0", code=124)
    assert "queue mail is paused: its jobs wait for `jobq resume mail`" in answer.stderr


def test_doctor_finds_nothing_of_the_original_in_a_copy_of_a_home(jobq, worker, eventually):
    jobq.add(shell=HOLD)
    eventually((jobq.directory / "started").exists)
    shutil.copytree(jobq.home, jobq.directory / "copy")
    (check,) = (
        each
        for each in jobq("--home", str(jobq.directory / "copy"), "doctor", "--json", code=5).json["checks"]
        if each["name"] == "workers"
    )
    assert "still holds" in str(check)
    assert "still runs" not in str(check)


def test_programs_are_given_all_jobs_and_people_as_many_as_they_can_read(jobq):
    lines = "".join('{"command":"true"}\n' for _ in range(1200))
    jobq("enqueue", "-", input=lines)
    assert len(jobq("list", "--ids").stdout.splitlines()) == 1200
    assert len(jobq("list", "--json").json) == 1200
    assert len(jobq("list", "--jsonl", "--limit", "3").stdout.splitlines()) == 3
    table = jobq("list")
    assert len(table.stdout.splitlines()) == 1000
    assert "these are 1000 of 1200 jobs" in table.stderr


def test_who_waits_for_what_nobody_runs_is_told(jobq):
    job_id = jobq.add("--", "true")
    told = jobq("wait", job_id, "--timeout", "0.1", code=124).stderr
    assert "no worker serves the queue default" in told


@pytest.mark.parametrize(
    ("slip", "meant"),
    [("run", "worker start"), ("stop", "worker stop"), ("rm", "delete"), ("ps", "list"), ("statsu", "status")],
)
def test_what_other_tools_call_it_is_understood(jobq, slip, meant):
    assert f"Did you mean {meant}" in jobq(slip, code=1).stderr


def test_nobody_is_led_to_what_deletes(jobq):
    assert "prune" not in jobq("prun", code=1).stderr
