"""What a warm child answers, without the process around it."""

import json
import os
import signal
import threading
from datetime import UTC, datetime, timedelta

import pytest

from jobq.strictjson import MAX_DEPTH
from jobq.testing import make_job
from jobq_subprocess import answers, calling


@pytest.fixture(autouse=True)
def environ(monkeypatch):
    for name in ("JOBQ_JOB_ID", "JOBQ_RUN", "JOBQ_ATTEMPT", "JOBQ_QUEUE", "JOBQ_SLOT"):
        monkeypatch.setenv(name, "before")


class Served:
    """A child that serves one handler, and what it says besides its answers."""

    def __init__(self, handler, *, leftovers=lambda: False, memory=None):
        self.said, self.begun = [], []
        begin = lambda job: self.begun.append((job.id, job.run))  # noqa: E731
        self.child = calling.Child({"h": "m:f"}, leftovers, say=self.said.append, begin=begin, memory=memory)
        self.child._handlers["h"] = handler

    def answer(self, *, limit=1000, **fields):
        job = make_job(handler="h", **fields)
        answer, self.marked = self.child.answer(
            {"job": json.loads(json.dumps(job.record())), "slot": 3, "limit": limit}
        )
        assert b"\n" not in answer
        return answer


def answer(handler, *, leftovers=lambda: False, **fields):
    return Served(handler, leftovers=leftovers).answer(**fields)


def test_the_shortest_answer():
    assert answer(lambda job, context: None) == b'{"result":null}'


def test_a_run_is_noted_before_its_handler_is_called():
    served = Served(lambda job, context: list(map(list, served.begun)))
    assert json.loads(served.answer(job_id="a", run=7)) == {"result": [["a", 7]]}


def test_leftovers_are_told():
    served = Served(lambda job, context: 1, leftovers=lambda: True)
    assert json.loads(served.answer()) == {"left": True, "result": 1}
    assert served.marked


def test_a_child_that_holds_too_much_retires():
    served = Served(lambda job, context: 1, memory=1)
    assert json.loads(served.answer()) == {"retire": True, "result": 1}
    assert served.marked
    served = Served(lambda job, context: 1, memory=1 << 40)
    assert json.loads(served.answer()) == {"result": 1}
    assert not served.marked


def test_a_result_may_be_nested_as_deep_as_any_json_of_a_job():
    assert answers.MAX_DEPTH == MAX_DEPTH

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
        def __init__(self, app):
            opened.append(app)

        def enqueue(self, **fields):
            return make_job("child", **fields)

    monkeypatch.setattr("jobq.queue.Queue", Queue)
    monkeypatch.setattr("jobq.app.App", lambda plugins: ("app", plugins))

    def handler(job, context):
        return [context.enqueue(command="true").id for _ in range(2)]

    assert json.loads(answer(handler))["result"] == ["child", "child"]
    assert opened == [("app", ())]


def test_reasons_are_short_and_clean(capfd):
    def handler(job, context):
        raise ValueError("\ud800" + "x" * 5000 + "\nmore")

    message = json.loads(answer(handler))
    assert message["failed"].startswith("ValueError: ?xxx")
    assert len(message["failed"]) == answers.REASON_LIMIT
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


def test_progress_is_told():
    def handler(job, context):
        for done in range(3):
            context.progress(done, 3, "at \ud800 it")

    served = Served(handler)
    served.answer()
    told = [json.loads(line.removeprefix(b"~")) for line in served.said]
    assert told == [{"done": done, "total": 3, "note": "at it"} for done in range(3)]


@pytest.mark.parametrize("done", [-1, "1", None, float("nan")])
def test_progress_that_is_no_number_is_the_handlers_mistake(done, capfd):
    message = json.loads(answer(lambda job, context: context.progress(done)))
    assert message["exception"] in ("ValueError", "TypeError")


def test_after_its_handler_a_context_tells_nothing():
    kept = []
    served = Served(lambda job, context: kept.append(context))
    served.answer()
    kept[0].progress(1)
    assert served.said == []


@pytest.mark.parametrize(("delay", "seconds"), [(0, 0.0), (1.5, 1.5), (timedelta(minutes=1), 60.0)])
def test_a_snooze(delay, seconds):
    def handler(job, context):
        try:
            context.snooze(delay)
        except Exception:
            return "not an error that a handler should catch"

    assert json.loads(answer(handler)) == {"released": seconds}


@pytest.mark.parametrize("delay", [-1, float("inf"), float("nan"), "soon", timedelta(days=-1)])
def test_a_snooze_for_no_time_is_the_handlers_mistake(delay, capfd):
    message = json.loads(answer(lambda job, context: context.snooze(delay)))
    assert message["exception"] in ("ValueError", "TypeError")


def test_a_failure_for_good_and_one_for_now():
    assert json.loads(answer(lambda job, context: context.fail("no such\ncustomer"))) == {
        "failed": "no such",
        "exception": None,
        "permanent": True,
    }
    assert json.loads(answer(lambda job, context: context.fail("busy", retry=True))) == {
        "failed": "busy",
        "exception": None,
    }


def test_the_deadline():
    def handler(job, context):
        return None if context.deadline is None else (context.deadline - datetime.now(UTC)).total_seconds()

    assert json.loads(answer(handler)) == {"result": None}
    assert 50 < json.loads(answer(handler, timeout=timedelta(seconds=60)))["result"] <= 60


def test_a_handler_that_asks_whether_it_is_cancelled_ends_by_itself():
    def handler(job, context):
        before = context.cancelled()
        os.kill(os.getpid(), signal.SIGTERM)
        return [before, context.cancelled()]

    try:
        assert json.loads(answer(handler)) == {"result": [False, True]}
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_the_next_handler_is_ended_by_a_signal_again():
    served = Served(lambda job, context: context.cancelled())
    assert json.loads(served.answer()) == {"result": False}
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_thread_that_asks_is_told_no():
    def handler(job, context):
        answers = []
        thread = threading.Thread(target=lambda: answers.append(context.cancelled()))
        thread.start()
        thread.join()
        return answers

    assert json.loads(answer(handler)) == {"result": [False]}
