"""What a handler can say through its context, and jobs ahead, with real workers."""

import os
import signal

import pytest

HANDLERS = """
import os
import signal
import time


def quick(job, context):
    note(job, "begin")
    if job.payload.get("kill") and job.run == 1:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)
    if job.payload.get("stop"):
        os.kill(os.getppid(), signal.SIGTERM)
        time.sleep(0.2)
    note(job, "end")


def note(job, what):
    with open(os.environ["JOBQ_TEST_NOTES"], "a") as file:
        file.write(f"{what} {job.id} {job.run}\\n")


def steps(job, context):
    for done in range(5):
        context.progress(done, 5, f"step {done}")
    while not os.path.exists(job.payload):
        time.sleep(0.01)
    context.progress(5, 5, "at the end")
    return done


def later(job, context):
    if job.run == 1:
        context.snooze(0.05)
    return {"attempt": context.attempt, "run": context.run}


def gives_up(job, context):
    context.fail("no such customer")


def fails_for_now(job, context):
    context.fail("busy", retry=True)


def waits(job, context):
    print("waiting", flush=True)
    while not context.cancelled():
        time.sleep(0.01)
    print("told", flush=True)
    if job.payload == "finish":
        return "finished"
    raise InterruptedError("gave up")


def deadline(job, context):
    return context.deadline.isoformat()
"""
NAMES = ("quick", "steps", "later", "gives_up", "fails_for_now", "waits", "deadline")


@pytest.fixture
def jobq(jobq):
    """A home with these handlers."""
    (jobq.directory / "handlers_here.py").write_text(HANDLERS)
    jobq.home.mkdir(mode=0o700)
    table = "".join(f'{name} = "handlers_here:{name}"\n' for name in NAMES)
    (jobq.home / "config.toml").write_text(f'handlers-path = ["."]\n[handlers]\n{table}')
    jobq.environ["JOBQ_TEST_NOTES"] = str(jobq.directory / "notes")
    return jobq


def notes(jobq):
    path = jobq.directory / "notes"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def enqueue(jobq, specs):
    import json

    jobq("enqueue", "-", input="".join(json.dumps(spec) + "\n" for spec in specs))


def records(jobq):
    return {job["id"]: job for job in jobq("list", "--json").json}


def test_what_had_not_begun_when_its_worker_died_is_not_lost(jobq):
    ids = [f"job-{number:03}" for number in range(300)]
    enqueue(jobq, [{"id": job_id, "handler": "quick", "payload": {"kill": job_id == "job-200"}} for job_id in ids])
    jobq("worker", "start", "--until-empty", "--quiet", code=-signal.SIGKILL)
    jobq("worker", "start", "--until-idle", "-q", "other")
    jobs = records(jobq)
    begun = {job_id for what, job_id, _ in notes(jobq) if what == "begin"}
    assert jobs["job-200"]["losses"] == 1
    handed_back = {job_id for job_id, job in jobs.items() if job["history"] and job["history"][-1]["outcome"] == "lost"}
    assert len(handed_back) > 1, "some had been sent ahead, or had ended without a record"
    for job_id, job in jobs.items():
        assert job["attempts"] == 0
        assert job["losses"] == (1 if job_id in handed_back & begun else 0)
    jobq.run_all()
    assert {job["state"] for job in records(jobq).values()} == {"completed"}


def test_a_drain_finishes_what_has_begun_and_hands_back_the_rest_uncounted(jobq):
    ids = [f"job-{number:03}" for number in range(300)]
    enqueue(jobq, [{"id": job_id, "handler": "quick", "payload": {"stop": job_id == "job-200"}} for job_id in ids])
    jobq("worker", "start", "--quiet")
    jobs = records(jobq)
    begun = {job_id for what, job_id, _ in notes(jobq) if what == "begin"}
    assert "job-200" in begun
    for job_id, job in jobs.items():
        assert job["attempts"] == job["losses"] == 0
        assert job["state"] == ("completed" if job_id in begun else "pending")
    assert len(begun) < 300
    jobq.run_all()
    assert {job["state"] for job in records(jobq).values()} == {"completed"}
    assert sorted(job_id for what, job_id, _ in notes(jobq) if what == "end") == ids


def test_progress_is_seen_while_the_job_runs_and_kept_with_the_attempt(jobq, worker, eventually):
    gate = jobq.directory / "gate"
    job_id = jobq.add("steps", f'"{gate}"')

    def seen():
        running = [item for info in jobq("worker", "list", "--json").json for item in info["running"]]
        return running and running[0]["progress"]

    assert eventually(lambda: seen() == {"done": 4, "total": 5, "note": "step 4"})
    gate.touch()
    jobq("wait", job_id)
    (run,) = jobq.job(job_id)["history"]
    assert run["progress"] == {"done": 5, "total": 5, "note": "at the end"}


def test_a_snoozed_job_runs_again_and_nothing_is_counted(jobq):
    job_id = jobq.add("later")
    jobq.run_all()
    job = jobq.job(job_id)
    assert (job["state"], job["attempts"], job["result"]) == ("completed", 0, {"attempt": 1, "run": 2})
    assert [run["outcome"] for run in job["history"]] == ["released", "completed"]


def test_a_failure_for_good_is_dead_at_once(jobq):
    job_id = jobq.add("gives_up")
    jobq.run_all()
    job = jobq.job(job_id)
    assert (job["state"], job["attempts"], job["last_error"]) == ("dead", 1, "no such customer")


def test_a_failure_for_now_is_tried_again(jobq):
    job_id = jobq.add("--max-attempts", "2", "fails_for_now")
    jobq("worker", "start", "--until-idle")
    job = jobq.job(job_id)
    assert (job["state"], job["attempts"], job["last_error"]) == ("failed", 1, "busy")


@pytest.mark.parametrize(("payload", "state"), [("finish", "completed"), ("stop", "cancelled")])
def test_a_handler_that_asks_may_end_by_itself_when_it_is_cancelled(jobq, worker, eventually, payload, state):
    job_id = jobq.add("waits", f'"{payload}"')
    eventually(lambda: jobq("logs", job_id, code=None).out == b"waiting\n")
    jobq("cancel", job_id, code=None)
    assert eventually(lambda: jobq.state(job_id) in ("completed", "cancelled"))
    job = jobq.job(job_id)
    assert job["state"] == state
    assert jobq("logs", job_id).out.startswith(b"waiting\ntold\n")
    assert len(job["history"]) == 1


def test_a_handler_that_asks_is_handed_back_when_its_worker_is_told_to_stop_at_once(jobq, worker, eventually):
    job_id = jobq.add("waits", '"stop"')
    eventually(lambda: jobq("logs", job_id, code=None).out == b"waiting\n")
    assert jobq.stop(worker, signal.SIGQUIT) == 143
    job = jobq.job(job_id)
    assert (job["state"], job["attempts"], job["losses"]) == ("pending", 0, 0)


def test_the_deadline_of_a_job_with_a_timeout(jobq):
    job_id = jobq.add("--timeout", "1h", "deadline")
    jobq.run_all()
    from datetime import datetime, timedelta

    job = jobq.job(job_id)
    allowed = datetime.fromisoformat(job["result"]) - datetime.fromisoformat(job["history"][0]["started"])
    assert timedelta(hours=1) <= allowed < timedelta(hours=1, seconds=30)


def test_nothing_is_left_in_the_workers_directory(jobq):
    jobq.add("later")
    jobq.run_all()
    assert os.listdir(jobq.home / "workers") == []
