"""What a warm child answers, without the process around it."""

import json
import os

import pytest

from jobq.strictjson import MAX_DEPTH
from jobq.testing import make_job
from jobq_subprocess import child


@pytest.fixture(autouse=True)
def environ(monkeypatch):
    for name in ("JOBQ_JOB_ID", "JOBQ_RUN", "JOBQ_ATTEMPT", "JOBQ_QUEUE", "JOBQ_SLOT"):
        monkeypatch.setenv(name, "before")


def answer(handler, *, leftovers=lambda: False, limit=1000, **fields):
    served = child.Child({"h": "m:f"}, leftovers)
    served._handlers["h"] = handler
    job = make_job(handler="h", **fields)
    line = served.answer({"job": json.loads(json.dumps(job.record())), "slot": 3, "limit": limit})
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return line


def test_the_shortest_answer():
    assert answer(lambda job, context: None) == b'{"result":null}\n'


def test_leftovers_are_told():
    assert json.loads(answer(lambda job, context: 1, leftovers=lambda: True)) == {"left": True, "result": 1}


def test_a_result_may_be_nested_as_deep_as_any_json_of_a_job():
    assert child.MAX_DEPTH == MAX_DEPTH

    def nested(depth):
        value = [{}, (), [1] * 200]
        for _ in range(depth - 2):
            value = (value,) if depth % 2 else {"in": value}
        return value

    for depth in (100, 99, 2):
        assert "result" in json.loads(answer(lambda job, context, depth=depth: nested(depth), limit=10_000))
    for depth in (101, 102, 300):
        assert json.loads(answer(lambda job, context, depth=depth: nested(depth), limit=10_000)) == {
            "failed": "the handler's result is nested deeper than 100",
            "exception": None,
        }


def test_the_context():
    def handler(job, context):
        assert context.job is job
        return [context.attempt, context.run, os.environ["JOBQ_RUN"], os.environ["JOBQ_SLOT"], context.log.name]

    assert json.loads(answer(handler, attempts=4, run=9))["result"] == [5, 9, "9", "3", "jobq.handler"]


def test_enqueueing_opens_one_queue(monkeypatch):
    opened = []

    class Queue:
        def enqueue(self, **fields):
            return make_job("child", **fields)

        @classmethod
        def open(cls):
            opened.append(cls())
            return opened[0]

    monkeypatch.setattr("jobq.queue.Queue", Queue)

    def handler(job, context):
        return [context.enqueue(command="true").id for _ in range(2)]

    assert json.loads(answer(handler))["result"] == ["child", "child"]
    assert len(opened) == 1


def test_reasons_are_short_and_clean(capfd):
    def handler(job, context):
        raise ValueError("\ud800" + "x" * 5000 + "\nmore")

    message = json.loads(answer(handler))
    assert message["failed"].startswith("ValueError: ?xxx")
    assert len(message["failed"]) == child.REASON_LIMIT
    assert "Traceback" in capfd.readouterr().err


def test_an_exception_without_text(capfd):
    class Odd(Exception):
        pass

    def handler(job, context):
        raise Odd

    assert json.loads(answer(handler)) == {"failed": "Odd", "exception": "Odd"}
    assert "Odd" in capfd.readouterr().err


def test_a_traceback_that_cannot_be_printed(monkeypatch, capfd):
    def fail(*args, **options):
        raise RecursionError

    monkeypatch.setattr("traceback.print_exception", fail)

    def handler(job, context):
        raise ValueError("x")

    assert json.loads(answer(handler))["failed"] == "ValueError: x"
    assert capfd.readouterr().err == "ValueError, whose traceback cannot be printed\n"
