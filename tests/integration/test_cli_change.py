"""`cancel`, `retry`, `delete`, `prune`, `pause`, `resume` and the dead letter queue."""

import json
import shutil

import pytest

from .terminals import Terminal


@pytest.fixture(scope="module")
def jobs_once(tmp_path_factory, new_cli):
    """A queue with a job in every state that a job without a worker can be in; their ids by state."""
    jobq = new_cli(tmp_path_factory.mktemp("jobs"))
    made = {
        "completed": jobq.add("--id", "done", "-t", "mine", "--", "true"),
        "dead": jobq.add("--id", "dead", "--max-attempts", "1", shell="echo why; exit 4"),
        "failed": jobq.add("--id", "failed", "--", "false"),
    }
    jobq("config", "set", "backoff-initial", "500")
    jobq("worker", "start", "--until-idle")
    made["pending"] = jobq.add("--id", "pending", "--", "true")
    made["cancelled"] = jobq.add("--id", "cancelled", "--", "true")
    jobq("cancel", "cancelled")
    assert {jobq.state(job_id): job_id for job_id in made.values()} == made
    return jobq.home, made


@pytest.fixture
def jobs(jobq, jobs_once):
    """The ids, by state, of the jobs in a copy of that queue."""
    home, made = jobs_once
    shutil.copytree(home, jobq.home)
    return made


@pytest.mark.parametrize(
    ("verb", "allowed", "already"),
    [
        ("cancel", {"pending": "cancelled", "failed": "cancelled"}, {"cancelled"}),
        ("retry", {"failed": "pending", "dead": "pending", "cancelled": "pending"}, {"pending"}),
        ("delete", dict.fromkeys(("pending", "failed", "dead", "completed", "cancelled")), set()),
    ],
)
def test_what_each_state_allows(jobq, jobs, verb, allowed, already):
    for state, job_id in jobs.items():
        code = 0 if state in allowed or state in already else 4
        answer = jobq(verb, job_id, code=code)
        assert answer.out == b""
        if state in already:
            assert "already" in answer.stderr
        if verb == "delete":
            jobq("show", job_id, code=3)
        else:
            assert jobq.state(job_id) == allowed.get(state, state)


def test_with_several_ids_each_is_tried_and_the_code_is_the_first_failures(jobq, jobs):
    answer = jobq("cancel", "pending", "nosuch", "done", "failed", code=3)
    assert "nosuch" in answer.stderr
    assert jobq.state("failed") == jobq.state("pending") == "cancelled"
    jobq("cancel", "done", "nosuch", code=4)


def test_cancel_of_a_running_job_returns_when_its_processes_are_gone(jobq, start_worker, eventually, tmp_path):
    start_worker()
    pids = tmp_path / "pids"
    job_id = jobq.add(shell=f"echo $$ > {pids}; setsid sleep 600 & sleep 600")
    eventually(lambda: pids.exists() and pids.read_text().strip())
    answer = jobq("cancel", job_id)
    assert f"Job {job_id} cancelled" in answer.stderr
    job = jobq.job(job_id)
    assert (job["state"], job["attempts"], job["history"][-1]["outcome"]) == ("cancelled", 0, "cancelled")
    assert not processes_with(f"JOBQ_JOB_ID={job_id}")


def test_cancel_of_a_job_whose_worker_died_recovers_it_first(jobq, start_worker, eventually):
    worker = start_worker()
    job_id = jobq.add("--", "sleep", "600")
    eventually(lambda: jobq.state(job_id) == "processing" and processes_with(f"JOBQ_JOB_ID={job_id}"))
    worker.kill()
    worker.wait()
    jobq("cancel", job_id)
    assert jobq.state(job_id) == "cancelled"
    assert not processes_with(f"JOBQ_JOB_ID={job_id}")


def test_a_running_job_is_not_deleted(jobq, start_worker, eventually):
    start_worker()
    job_id = jobq.add("--", "sleep", "600")
    eventually(lambda: jobq.state(job_id) == "processing")
    assert "cannot delete" in jobq("delete", job_id, code=4).stderr
    jobq("cancel", job_id)


def test_delete_takes_the_output_along(jobq, jobs):
    files = [path for path in (jobq.home / "output").rglob("*") if path.is_file()]
    assert len(files) == 1
    assert "Job dead deleted" in jobq("delete", "dead").stderr
    assert not files[0].exists()


def test_a_selection_shows_the_count_and_needs_yes_where_nobody_can_be_asked(jobq, jobs):
    refused = jobq("cancel", "--state", "pending", code=1)
    assert "1 job" in refused.stderr
    assert jobq.state("pending") == "pending"
    assert jobq("cancel", "--queue", "default", "--dry-run").stdout.split() == ["pending", "failed"]
    jobq("cancel", "--queue", "default", "--yes")
    assert jobq.state("failed") == "cancelled"
    assert jobq("cancel", "--tag", "none", "--yes").code == 0
    assert "say which jobs" in jobq("cancel", code=1).stderr


def test_a_prefix_is_no_id_for_commands_that_change_something(jobq):
    job_id = jobq.add("--", "true")
    refused = jobq("cancel", job_id[:8], code=3)
    assert job_id in refused.stderr
    assert jobq.state(job_id) == "pending"


def test_json_answers_with_the_records_after_the_change(jobq, jobs):
    (record,) = jobq("retry", "--json", "dead").json
    assert (record["id"], record["state"], record["attempts"]) == ("dead", "pending", 0)


def test_prune_keeps_what_is_young_and_what_is_dead(jobq, jobs):
    assert "0 jobs pruned" in jobq("prune").stderr
    before = jobq("list", "--json").json
    shown = jobq("prune", "--older-than", "0", "--dry-run")
    ended = [job["id"] for job in before if job["state"] in ("completed", "cancelled")]
    assert shown.stdout.split() == ended != []
    assert f"would prune {len(ended)} jobs" in shown.stderr
    assert jobq("prune", "--dry-run").stdout == ""
    assert jobq("list", "--json").json == before
    jobq("prune", "--older-than", "0", "--state", "completed")
    assert {job["state"] for job in jobq("list", "--json").json} == {"pending", "failed", "dead", "cancelled"}
    jobq("prune", "--older-than", "0")
    assert {job["state"] for job in jobq("list", "--json").json} == {"pending", "failed", "dead"}


def test_a_paused_queue_starts_nothing_until_it_is_resumed(jobq):
    job_id = jobq.add("--", "true")
    jobq("pause", "default", "--reason", "disk is full")
    jobq.run_all()
    assert jobq.state(job_id) == "pending"
    assert jobq("status", "--json").json["queues"]["default"]["paused"]
    jobq("resume", "default")
    jobq.run_all()
    assert jobq.state(job_id) == "completed"
    jobq("pause", "no name", code=1)


def test_a_paused_queue_keeps_its_reason_until_another_one_is_given(jobq):
    jobq.add("--", "true")
    assert jobq("pause", "default", "--reason", "disk\x1b full").stderr.endswith("Queue default paused\n")
    for again in ([], ["--reason", "disk\x1b full"]):
        told = jobq("pause", "default", *again).stderr
        assert told.endswith("Queue default is paused already (disk\\x1b full)\n")
    assert jobq("status", "--json").json["queues"]["default"]["reason"] == "disk\x1b full"
    assert jobq("pause", "default", "--reason", "disk is gone").stderr.endswith("Queue default paused\n")
    assert jobq("status", "--json").json["queues"]["default"]["reason"] == "disk is gone"


def test_the_dead_letter_queue(jobq, jobs):
    assert [job["id"] for job in jobq("dlq", "list", "--json").json] == ["dead"]
    assert jobq("dlq", "list").stdout.startswith('dead  attempts=1/1  error="exit code 4"  updated=2')
    jobq("dlq", "retry", "pending", code=4)
    jobq("dlq", "purge", "done", code=4)
    jobq("dlq", "retry", "--all", code=1)
    answer = jobq("dlq", "retry", "--all", "--yes")
    assert "Job dead retried (pending)" in answer.stderr
    assert jobq("dlq", "list").out == b""
    jobq("worker", "start", "--until-idle")
    assert "Job dead purged" in jobq("dlq", "purge", "dead").stderr
    jobq("show", "dead", code=3)
    assert jobq("dlq", "purge", "--all", "--yes").code == 0


def test_over_a_hundred_jobs_are_told_in_one_line(jobq):
    lines = "".join(json.dumps({"command": "true"}) + "\n" for _ in range(101))
    enqueued = jobq("enqueue", "-", input=lines)
    assert len(enqueued.stdout.splitlines()) == 101
    assert enqueued.stderr.count("enqueued") == 1
    cancelled = jobq("cancel", "--state", "pending", "--yes")
    assert cancelled.stderr.count("cancelled") == 1
    assert "101 jobs cancelled" in cancelled.stderr


def processes_with(marker):
    """The pids of processes that carry this in their environment."""
    import os

    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if marker.encode() in file.read().split(b"\0"):
                        found.append(int(name))
            except OSError:
                continue
    return found


def test_what_was_not_paused_is_not_said_to_go_on(jobq):
    jobq("pause", "mail")
    assert jobq("resume", "mial").stderr.endswith("Queue mial is not paused\n")
    assert jobq("resume", "mail").stderr.endswith("Queue mail resumed\n")


def test_a_dead_letter_queue_in_which_nothing_was_found_is_not_said_to_be_empty(jobq):
    assert jobq("dlq", "list").stderr.endswith("the dead letter queue is empty\n")
    jobq.add("--id", "dead", "--max-attempts", "1", shell="false")
    jobq.run_all()
    for words, code in ((["-q", "other"], 0), (["nosuch"], 3)):
        assert jobq("dlq", "list", *words, code=code).stderr.endswith("no such job in the dead letter queue\n")


def test_who_says_no_has_nothing_changed(jobq):
    jobq.add("--id", "waits", shell="true")
    terminal = Terminal(jobq.command("cancel", "-s", "pending"), env=jobq.environ, cwd=jobq.directory)
    try:
        terminal.until(rb"\[y/N\]")
        terminal.type(b"n\n")
        assert terminal.end() == 1
        assert terminal.written.endswith(b"nothing was changed\r\n")
    finally:
        terminal.close()
    assert jobq.job("waits")["state"] == "pending"
