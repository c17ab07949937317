"""What a user of the two predecessors (queuectl, an in-process queue) relies on, one test a promise, by its name."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from datetime import datetime, timedelta

import pytest

HANDLERS = """
import time


def resize(job, context):
    return {"width": job.payload["width"], "attempt": context.attempt, "run": context.run}


def broken(job, context):
    raise ValueError(f"no such size: {job.payload}")


def busy(job, context):
    with open(job.payload, "a") as file:
        file.write("+")
    time.sleep(0.2)
    with open(job.payload, "a") as file:
        file.write("-")


def chain(job, context):
    context.log.warning("enqueueing the next")
    return context.enqueue(handler="resize", payload={"width": 2}).id
"""


def install_handlers(jobq):
    """Let the home's config.toml name the handlers of a module beside it."""
    (jobq.directory / "handlers_here.py").write_text(HANDLERS)
    jobq.home.mkdir(mode=0o700, exist_ok=True)
    names = ("resize", "broken", "busy", "chain")
    table = "".join(f'{name} = "handlers_here:{name}"\n' for name in names)
    (jobq.home / "config.toml").write_text(f'handlers-path = ["."]\n\n[handlers]\n{table}')


class Queues:
    """Opens queues of this process in a test's home."""

    def __init__(self, jobq, monkeypatch):
        for name, value in jobq.environ.items():
            monkeypatch.setenv(name, value)
        self.home = jobq.home
        self.opened = []

    def open(self, **settings):
        from jobq import Queue

        self.opened.append(Queue.open(home=self.home, **settings))
        return self.opened[-1]


@pytest.fixture
def queues(jobq, monkeypatch):
    made = Queues(jobq, monkeypatch)
    yield made
    for queue in made.opened:
        queue.close()


# --- queuectl ---------------------------------------------------------------------------------------------------


def test_a_job_that_succeeds_at_once_completes_with_attempts_0(jobq):
    jobq("enqueue", '{"id": "demo", "command": "echo hello world"}')
    jobq.run_all()
    job = jobq.job("demo")
    assert (job["state"], job["attempts"], job["exit_code"]) == ("completed", 0, 0)
    assert jobq("logs", "demo").out == b"hello world\n"


def test_a_failing_job_retries_with_backoff_reaches_the_dlq_and_dlq_retry_starts_it_from_0(jobq):
    jobq("config", "set", "backoff-initial", "0.05")
    jobq("enqueue", '{"id": "bad", "command": "exit 3", "max_retries": 2}')
    jobq.run_all()
    job = jobq.job("bad")
    assert (job["state"], job["attempts"], job["exit_code"]) == ("dead", 2, 3)
    first, second = job["history"]
    assert second["started"] > first["finished"]
    listed = jobq("dlq", "list").stdout
    assert listed.startswith('bad  attempts=2/2  error="exit code 3"  updated=')
    answer = jobq("dlq", "retry", "bad")
    assert "Job bad retried (pending)" in answer.stderr
    job = jobq.job("bad")
    assert (job["state"], job["attempts"]) == ("pending", 0)


def test_three_real_worker_processes_run_30_jobs_exactly_once_each(jobq, start_worker, eventually, tmp_path):
    lines = "".join(json.dumps({"command": f"echo {n} >> {tmp_path}/ran"}) + "\n" for n in range(30))
    jobq("enqueue", "-", input=lines)
    for _ in range(3):
        start_worker()
    eventually(lambda: jobq("status", "--json").json["counts"]["completed"] == 30)
    assert sorted(map(int, (tmp_path / "ran").read_text().split())) == list(range(30))


def test_kill_9_of_a_worker_in_mid_job_another_recovers_it_attempts_not_incremented(
    jobq, start_worker, eventually, tmp_path
):
    doomed = start_worker()
    job_id = jobq.add(shell=f"echo $$ >> {tmp_path}/ran; [ $(wc -l < {tmp_path}/ran) = 2 ] || sleep 600")
    eventually(lambda: (tmp_path / "ran").exists() and jobq.state(job_id) == "processing")
    start_worker()
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    eventually(lambda: jobq.state(job_id) == "completed")
    job = jobq.job(job_id)
    assert (job["attempts"], job["run"]) == (0, 2)
    assert [(run["outcome"], run["run"]) for run in job["history"]] == [("lost", 1), ("completed", 2)]
    first = int((tmp_path / "ran").read_text().split()[0])
    assert not alive(first), "what was left of the old run lives beside the new one"


def test_a_lost_job_has_losses_one_higher_and_is_back_within_a_second_of_a_look(jobq, start_worker, eventually):
    doomed = start_worker()
    job_id = jobq.add(shell="sleep 600")
    eventually(lambda: jobq.state(job_id) == "processing")
    start_worker("-q", "another")
    doomed.send_signal(signal.SIGKILL)
    doomed.wait()
    job = eventually(lambda: (job := jobq.job(job_id))["state"] == "pending" and job)
    assert (job["attempts"], job["losses"]) == (0, 1)


def test_jobs_survive_a_restart_of_everything(jobq, start_worker, eventually):
    worker = start_worker()
    waiting = jobq.add("--delay", "1h", "--", "true")
    done = jobq.add("--", "true")
    eventually(lambda: jobq.state(done) == "completed")
    jobq.stop(worker)
    assert jobq.state(waiting) == "pending"
    assert jobq.state(done) == "completed"


def test_a_duplicate_id_is_refused_and_the_first_job_untouched(jobq):
    jobq("enqueue", '{"id": "one", "command": "echo first"}')
    before = jobq.job("one")
    refused = jobq("enqueue", '{"id": "one", "command": "echo second"}', code=4)
    assert "one" in refused.stderr
    assert refused.out == b""
    assert jobq.job("one") == before
    batch = '{"id": "two", "command": "true"}\n{"id": "one", "command": "true"}\n'
    jobq("enqueue", "-", input=batch, code=4)
    jobq("show", "two", code=3)


def test_max_retries_is_captured_at_enqueue(jobq):
    jobq("config", "set", "max-retries", "5")
    job_id = jobq.add("--", "true")
    jobq("config", "set", "max-retries", "1")
    job = jobq.job(job_id)
    assert (job["max_attempts"], job["max_retries"]) == (5, 5)


def test_the_backoff_settings_are_read_live(jobq, start_worker, eventually):
    start_worker()
    jobq("config", "set", "backoff_jitter", "false")
    jobq("config", "set", "backoff_initial", "500")
    job_id = jobq.add(shell="exit 1")
    job = eventually(lambda: (job := jobq.job(job_id))["state"] == "failed" and job)
    assert waits(job, 500)
    jobq("config", "set", "backoff-initial", "1000")
    jobq("retry", job_id)
    job = eventually(lambda: (job := jobq.job(job_id))["attempts"] == 2 and job)
    assert waits(job, 2000)


def waits(job, seconds):
    """Whether the next attempt is so long after a moment between the last one's end and the record of that."""
    ended, recorded, due = map(
        datetime.fromisoformat, (max(run["finished"] for run in job["history"]), job["updated_at"], job["run_at"])
    )
    return ended <= due - timedelta(seconds=seconds) <= recorded


def test_worker_stop_from_another_terminal_the_running_job_finishes_and_nothing_more_is_claimed(
    jobq, start_worker, eventually, tmp_path
):
    worker = start_worker()
    gate = tmp_path / "gate"
    running = jobq.add(shell=f"while [ ! -e {gate} ]; do sleep 0.05; done")
    eventually(lambda: jobq.state(running) == "processing")
    answer = jobq("worker", "stop")
    assert f"Sent SIGTERM to worker {worker.pid}" in answer.stderr
    eventually(lambda: [info["state"] for info in jobq("status", "--json").json["workers"]] == ["draining"])
    later = jobq.add("--", "true")
    gate.touch()
    assert worker.wait(30) == 0
    assert jobq.state(running) == "completed"
    assert jobq.state(later) == "pending"


def test_config_keys_take_hyphens_and_underscores_alike(jobq):
    jobq("config", "set", "max-retries", "5")
    jobq("config", "set", "backoff_base", "3")
    assert jobq("config", "get", "max_attempts").stdout == "5\n"
    assert jobq("config", "get", "backoff-base").stdout == "3\n"
    assert "max_attempts=5" in jobq("config", "list").stdout.splitlines()


def test_list_as_json_is_json_and_nothing_else(jobq):
    jobq.add("--", "true")
    answer = jobq("list", "--state", "pending", "--json")
    assert [job["state"] for job in json.loads(answer.out)] == ["pending"]
    jq = shutil.which("jq")
    if jq is not None:
        subprocess.run([jq, "."], input=answer.out, check=True, capture_output=True)
    assert json.loads(jobq("list", "--state", "dead", "--json").out) == []


# --- in-process queue -------------------------------------------------------------------------------------------


def test_two_writes_and_a_reload_both_persist(queues):
    first, second = queues.open(), queues.open()
    one = first.enqueue(command="true")
    two = second.enqueue(command=["true"], priority=3)
    assert [job.id for job in queues.open().find()] == [two.id, one.id]


def test_the_files_always_parse_while_they_are_written(jobq, queues):
    queue = queues.open()
    queue.enqueue(command="true")
    stop = threading.Event()
    seen = []

    def read():
        reader = queues.open()
        while not stop.is_set():
            seen.append(sum(reader.counts().states.values()))
        reader.close()

    thread = threading.Thread(target=read)
    thread.start()
    for _ in range(300):
        queue.enqueue(command="true")
    stop.set()
    thread.join()
    assert seen == sorted(seen)
    assert sum(queue.counts().states.values()) == 301


def test_nothing_is_claimed_before_its_time(queues):
    queue = queues.open()
    job = queue.enqueue(command="true", delay=timedelta(seconds=0.5))
    assert queue.run_until_empty() == (1, 0)
    done = queue.get(job.id)
    assert done.started_at >= job.run_at


def test_with_concurrency_2_never_more_than_two_handlers_at_once_and_the_pool_drains_everything(jobq, queues, tmp_path):
    install_handlers(jobq)
    queue = queues.open()
    marks = tmp_path / "marks"
    for _ in range(6):
        queue.enqueue(handler="busy", payload=str(marks))
    assert queue.run_until_empty(concurrency=2) == (6, 0)
    level, most = 0, 0
    for mark in marks.read_text():
        level += 1 if mark == "+" else -1
        most = max(most, level)
    assert most == 2
    assert level == 0


def test_a_handler_that_raises_gives_a_retry_plan_never_a_crash_and_a_clean_one_completes_with_its_result(jobq, queues):
    install_handlers(jobq)
    queue = queues.open(backoff_initial="0.01")
    bad = queue.enqueue(handler="broken", payload={"width": -1}, max_attempts=2)
    good = queue.enqueue(handler="resize", payload={"width": 10}, priority=3)
    assert queue.run_until_empty(concurrency=2) == (1, 1)
    assert queue.get(good.id).result == {"width": 10, "attempt": 1, "run": 1}
    dead = queue.get(bad.id)
    assert dead.state == "dead"
    assert dead.last_error.startswith("ValueError: no such size: {'width': -1}\n")
    assert [run.outcome for run in dead.history] == ["failed", "failed"]


def test_a_handler_may_enqueue_another_job(jobq, queues):
    install_handlers(jobq)
    queue = queues.open()
    chain = queue.enqueue(handler="chain")
    assert queue.run_until_empty(concurrency=2) == (2, 0)
    next_id = queue.get(chain.id).result
    assert queue.get(next_id).result["width"] == 2
    assert b"enqueueing the next" in jobq("logs", chain.id).out


def test_add_prints_the_id_status_the_counts_and_add_without_a_name_is_a_usage_error(jobq):
    answer = jobq("add", "--", "true")
    assert answer.stdout == f"{answer.id}\n"
    assert f"Job {answer.id} enqueued (pending)" in answer.stderr
    status = dict(line.rsplit(None, 1) for line in jobq("status").stdout.splitlines())
    assert status["pending"] == "1"
    refused = jobq("add", code=1)
    assert "Usage: jobq add" in refused.stderr
    assert refused.out == b""


def test_a_run_loop_picks_a_due_job_up_within_its_polling_interval(jobq, start_worker, eventually):
    start_worker()
    job_id = jobq.add("--delay", "0.3", "--", "true")
    eventually(lambda: jobq.state(job_id) == "completed")
    from datetime import datetime

    job = jobq.job(job_id)
    late = datetime.fromisoformat(job["started_at"]) - datetime.fromisoformat(job["run_at"])
    assert timedelta(0) <= late


def test_the_location_of_the_queue_is_configurable_and_tests_never_touch_the_real_one(jobq, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    job_id = jobq("add", "--home", str(elsewhere), "--", "true").id
    assert (elsewhere / "queue").is_dir()
    assert jobq("--home", str(elsewhere), "show", "--json", job_id).json["id"] == job_id
    assert not jobq.home.exists()
    assert list((tmp_path / "user").iterdir()) == []


@pytest.mark.parametrize(
    "line",
    [
        "",
        "null",
        "[]",
        "{}",
        '"text"',
        "{",
        '{"command": ""}',
        '{"command": "true", "handler": "x"}',
        '{"command": "true", "priority": NaN}',
        '{"command": "true", "priority": 1e999}',
        '{"command": "true", "prio": 1}',
        '{"command": "true", "command": "false"}',
        '{"command": "true", "id": "../x"}',
        '{"command": "a\\u0000b"}',
        '{"command": "\\ud800"}',
        '{"command": "true", "delay": -1}',
        '{"command": "true", "timeout": 0}',
        '{"command": "true", "max_attempts": 0}',
        '{"command": "true", "run_at": "2026-07-11T20:57:58"}',
        '{"handler": "not-installed"}',
        '{"command": "true", "payload": 1}',
        '{"command": "true", "queue": null}',
    ],
)
def test_bad_input_is_refused_with_a_message_and_nothing_of_it_is_stored(jobq, line):
    refused = jobq("enqueue", line, code=1)
    assert "Traceback" not in refused.stderr
    assert refused.stderr.strip()
    assert refused.out == b""
    good = '{"command": "true"}'
    many = jobq("enqueue", "-", input=f"{good}\n{line or 'x'}\n{good}\n", code=1)
    assert "line 2" in many.stderr
    assert jobq("list", "--json").json == []


def test_an_empty_input_holds_no_jobs(jobq):
    assert jobq("enqueue", "-", input="").out == b""
    assert jobq("list", "--json").json == []


def test_concurrent_enqueues_all_persist(jobq):
    started = [jobq.start("enqueue", json.dumps({"id": f"n{n}", "command": "true"})) for n in range(8)]
    for process in started:
        assert process.wait(60) == 0
    assert {job["id"] for job in jobq("list", "--json").json} == {f"n{n}" for n in range(8)}


def test_an_enqueue_that_is_killed_leaves_the_job_whole_or_not_at_all(jobq):
    jobq.add("--", "true")
    acknowledged = []
    for n in range(12):
        process = jobq.start("enqueue", json.dumps({"id": f"n{n}", "command": "true"}))
        try:
            process.wait(0.02 * n)
        except subprocess.TimeoutExpired:
            process.kill()
        out, _ = process.communicate()
        acknowledged += out.decode().split()
    stored = {job["id"]: job for job in jobq("list", "--json").json}
    assert set(acknowledged) <= set(stored)
    assert all(job["state"] == "pending" for job in stored.values())
    assert "ok" in jobq("doctor").stdout


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
    except OSError:
        return False


def test_the_python_api_of_the_readme(jobq, queues):
    install_handlers(jobq)
    from jobq import Queue

    os.environ["JOBQ_HOME"] = str(jobq.home)
    with Queue.open() as queue:
        job = queue.enqueue(handler="resize", payload={"width": 10}, priority=3)
        completed, dead = queue.run_until_empty(concurrency=2)
        assert (completed, dead) == (1, 0)
        assert queue.get(job.id).result["width"] == 10
        queue.enqueue(handler="resize", payload={"width": 11})
        assert queue.run_until_empty() == (1, 0)
    assert jobq("show", "--json", job.id).json["state"] == "completed"
    assert sys.modules["jobq"].__version__
