"""Very many jobs, and a very large one (F35)."""

import json
import signal
import time

from .sizes import rounds

JOBS = rounds(short=500, full=100_000, long=1_000_000)
PAYLOAD = rounds(short=4, full=100, long=100) << 20
TIMEOUT = 1200.0


def test_a_queue_with_very_many_jobs_is_used_as_any_other(jobq, figure):
    lines = "".join(f'{{"id":"job-{number}","command":"true","priority":{number % 3}}}\n' for number in range(JOBS))
    begin = time.monotonic()
    answer = jobq("enqueue", "-", input=lines, timeout=TIMEOUT)
    assert answer.stdout.splitlines() == [f"job-{number}" for number in range(JOBS)]
    enqueued = time.monotonic() - begin
    assert jobq("status", "--json").json["counts"]["pending"] == JOBS
    shown = jobq("list", "--ids", "--limit", "3").stdout.split()
    assert shown == ["job-2", "job-5", "job-8"], "in the order in which they are claimed"
    jobq("enqueue", f'{{"id":"job-{JOBS - 1}","command":"false"}}', code=4)
    jobq.add("--id", "first", "--priority", "9", shell="true")
    worker = jobq.start("worker", "start")
    assert jobq("wait", "first", timeout=TIMEOUT).code == 0
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(TIMEOUT) == 0
    checks = jobq("doctor", "--json", timeout=TIMEOUT).json["checks"]
    assert [check for check in checks if not check["ok"]] == []
    completed = jobq("status", "--json").json["counts"]["completed"]
    assert jobq("cancel", "-s", "pending", "--yes", timeout=TIMEOUT).stdout == ""
    assert jobq("status", "--json").json["counts"]["cancelled"] == JOBS + 1 - completed
    assert jobq("prune", "--older-than", "0", "--state", "cancelled", timeout=TIMEOUT).code == 0
    assert jobq("status", "--json").json["counts"]["cancelled"] == 0
    figure("F35", f"{JOBS} jobs enqueued in {enqueued:.1f} s, listed, run, checked, cancelled and pruned")


def test_a_very_large_job_is_refused_and_nothing_of_it_is_stored(jobq):
    for spec in (
        {"handler": "h", "payload": "x" * PAYLOAD},
        {"command": "true", "meta": {"x.y": "x" * PAYLOAD}},
        {"command": "true", "id": "x" * PAYLOAD},
    ):
        refused = jobq("enqueue", "--allow-unknown-handler", "-", input=json.dumps(spec), code=1, timeout=TIMEOUT)
        assert len(refused.stderr) < 2000
        assert "Traceback" not in refused.stderr
    assert not jobq.home.exists()
