"""Through real commands and workers: events become deliveries, which jobq tries again and keeps when they died."""

import json
import os
import subprocess
import sys
import time

import pytest
from standardwebhooks import Webhook

from jobq.queue import Queue
from jobq.store import Query
from jobq_webhook.targets import parse

pytest_plugins = ["jobq.testing.fixtures"]

WITHIN = 60.0


class World:
    """A home whose settings name receivers, and workers for it."""

    def __init__(self, home, cli, secret):
        self.home, self.cli, self.secret = home, cli, secret

    def write(self, *urls, extra=""):
        listed = ", ".join(f'"{url}"' for url in urls)
        (self.home / "config.toml").write_text(
            'backoff-initial = "1ms"\nbackoff-base = 1.0\n[webhook]\nallow-private = true\n'
            f'url = [{listed}]\nsecret = "{self.secret}"\n{extra}'
        )

    def deliveries(self):
        with Queue.open(home=self.home) as queue:
            return list(queue.find(Query(handler="webhook")))

    def work(self, *, until):
        """Run workers until that holds: the last event of one may come when it has seen that nothing is left."""
        end = time.monotonic() + WITHIN
        while not until() and time.monotonic() < end:
            self.cli("worker", "start", "--until-empty", process=True)
        assert until()


@pytest.fixture
def world(jobq_home, jobq_cli, secret):
    return World(jobq_home, jobq_cli, secret)


def test_what_became_of_a_job_is_told_with_a_signature(world, receiver):
    world.write(receiver.url)
    world.cli("add", "--id", "good", "--", "true", process=True)
    world.cli("add", "--id", "bad", "--max-attempts", "1", "--", "false", process=True)
    world.cli("add", "--id", "no", "--delay", "1d", "--", "true", process=True)
    world.cli("cancel", "no", process=True)
    world.work(until=lambda: len(receiver.requests) == 3)
    told = {}
    for _, headers, body in receiver.requests:
        content = Webhook(world.secret).verify(body, headers)
        told[content["data"]["id"]] = (content["type"], content["data"]["error"])
    assert told == {
        "good": ("job.completed", None),
        "bad": ("job.dead", "exit code 1"),
        "no": ("job.cancelled", None),
    }
    jobs = world.deliveries()
    assert {(job.queue, job.state, job.attempts, job.max_attempts) for job in jobs} == {
        ("notifications", "completed", 0, 60)
    }
    assert {json.dumps(job.result) for job in jobs} == {'{"status": 204}'}


def test_deliveries_make_no_deliveries(world, receiver):
    kinds = ["enqueued", "started", "completed", "failed", "dead", "released"]
    world.write(receiver.url, extra=f"events = {json.dumps(kinds)}\nmax-attempts = 2\n")
    receiver.answers = [(500, {}, b""), (204, {}, b"")]
    world.cli("add", "--id", "one", "--", "true", process=True)
    world.cli("add", "--id", "two", "--queue", "notifications", "--", "true", process=True)
    world.work(until=lambda: len(receiver.requests) >= 4)
    world.cli("worker", "start", "--until-empty", process=True)
    assert len(receiver.requests) == 4
    types = sorted(job.payload["type"] for job in world.deliveries())
    assert types == ["job.completed", "job.enqueued", "job.started"]
    assert {job.payload["data"]["id"] for job in world.deliveries()} == {"one"}


def test_a_receiver_that_never_takes_it_leaves_a_dead_letter_and_the_other_gets_it(world, receiver, make_receiver):
    other = make_receiver()
    receiver.answers = [(500, {"Content-Length": "21"}, b"no \x1b[31mhook\x1b[0m here")]
    world.write(receiver.url, other.url, extra="max-attempts = 3\n")
    world.cli("add", "--id", "one", "--", "true", process=True)
    world.work(until=lambda: len(receiver.requests) == 3 and len(other.requests) == 1)
    jobs = {job.payload["target"]: job for job in world.deliveries()}
    dead, done = jobs[parse(receiver.url).name], jobs[parse(other.url).name]
    assert (dead.state, dead.attempts, done.state) == ("dead", 3, "completed")
    assert dead.last_error.splitlines()[0] == "localhost answered 500 Internal Server Error: no [31mhook [0m here"
    assert len({headers["webhook-id"] for _, headers, _ in (*receiver.requests, *other.requests)}) == 1
    receiver.answers = [(204, {}, b"")]
    world.cli("dlq", "retry", dead.id, process=True)
    world.work(until=lambda: len(receiver.requests) == 4)
    assert {job.state for job in world.deliveries()} == {"completed"}


def test_a_receiver_that_asks_to_wait_is_tried_later_uncounted(world, receiver):
    receiver.answers = [(429, {"Retry-After": "1", "Content-Length": "0"}, b""), (204, {}, b"")]
    world.write(receiver.url)
    world.cli("add", "--", "true", process=True)
    world.work(until=lambda: len(receiver.requests) == 2)
    (job,) = world.deliveries()
    assert (job.state, job.attempts, [run.outcome for run in job.history]) == (
        "completed",
        0,
        ["released", "completed"],
    )


def test_the_secret_stays_in_the_configuration(world, receiver):
    receiver.answers = [(500, {"Content-Length": "0"}, b"")]
    world.write(receiver.url, extra="max-attempts = 2\n")
    world.cli("add", "--id", "one", "--", "true", process=True)
    world.work(until=lambda: len(receiver.requests) == 2)
    copy = world.home / "cache" / "config.json"  # of the configuration, once that has not changed for a while
    files = [path for path in world.home.rglob("*") if path.is_file() and path != copy]
    assert [path.name for path in files if world.secret.encode() in path.read_bytes()] == ["config.toml"]
    assert [path.name for path in files if b"key=k" in path.read_bytes()] == ["config.toml"]
    assert any(b"msg_" in path.read_bytes() for path in files)
    assert world.secret not in world.cli("config", "list", process=True).stdout


def test_without_a_secret_nothing_is_enqueued_and_it_is_told(world, receiver):
    world.secret = ""
    world.write(receiver.url)
    world.cli("add", "--id", "one", "--", "true", process=True)
    answer = world.cli("worker", "start", "--until-empty", process=True)
    assert "notifier webhook (jobq-webhook 0.1.0) failed on completed" in answer.stderr
    assert "nothing is sent unsigned" in answer.stderr
    assert (world.deliveries(), receiver.requests) == ([], [])


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ('events = ["done"]\n', "webhook.events: 'done' must be of enqueued, started, completed"),
        ('include = ["env"]\n', "webhook.include: 'env' must be of command, error, payload, result"),
        ('queue = "a b"\n', "queue: 'a b' must be letters"),
    ],
)
def test_a_wrong_setting_is_told_and_stops_nothing(world, receiver, extra, told):
    world.write(receiver.url, extra=extra)
    world.cli("add", "--id", "one", "--", "true", process=True)
    answer = world.cli("worker", "start", "--until-empty", process=True)
    assert told in answer.stderr
    assert world.cli("status", "--json", process=True).json["counts"]["completed"] == 1


def test_with_no_url_it_is_not_even_imported(world):
    code = (
        "import sys\n"
        "from jobq.cli.entry import main\n"
        "try:\n    main(['add', '--', 'true'])\n"
        "finally:\n    print(sorted(name for name in sys.modules if name.startswith('jobq_webhook')))\n"
    )

    def imported():
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
        )
        return done.stdout.splitlines()[-1]

    end = time.monotonic() + WITHIN
    while (first := imported()) != "[]" and time.monotonic() < end:
        pass  # until what is installed has settled, a scan is not remembered
    assert first == "[]"
    world.write("https://hooks.example.org/")
    assert "jobq_webhook" in imported()
