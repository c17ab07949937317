"""Framing, requests and answers."""

import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.executor import Attempt, Kind
from jobq.job import Job, State
from jobq.output import Capture
from jobq.progress import Progress
from jobq.testing import START, make_job
from jobq_subprocess import protocol


@given(st.lists(st.binary().filter(lambda line: b"\n" not in line)), st.data())
def test_lines_come_out_however_they_are_cut(lines, data):
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=10)))
    cutter = protocol.Lines()
    found = []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        if start < end:
            found += cutter.feed(stream[start:end])
    assert found == lines


def test_a_request_is_one_line_with_the_whole_job():
    job = make_job(
        handler="resize", payload={"text": "a\nb\u2028ü"}, state=State.PROCESSING, run=2, worker="w", tags=("x",)
    )
    home = Path("/home")
    attempt = Attempt(
        job=job,
        home=home,
        slot=3,
        jobs_fd=None,
        output=Capture(home, job.id, 2, 1000),
        kill_grace=timedelta(seconds=5),
        result_limit=77,
    )
    line = protocol.request(attempt, 3, "0f")
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    message = json.loads(line)
    assert (message["slot"], message["limit"], message["key"]) == (3, 77, "0f")
    assert Job.from_record(message["job"]) == job
    ready = replace(attempt, text=json.dumps(job.record() | {"queue": "as it was written"}))
    assert json.loads(protocol.request(ready, 3, "0f"))["job"]["queue"] == "as it was written"


def test_a_greeting_is_one_line():
    line = protocol.greeting({"a": "m:f"}, ["/x\ny"], 77, asked=("./a.py", "no:log"), wrapped=True)
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "handlers": {"a": "m:f"},
        "path": ["/x\ny"],
        "memory": 77,
        "asked": ["./a.py", "no:log"],
        "wrapped": True,
    }


@given(st.integers(0, 5 * protocol.MESSAGE_LIMIT))
def test_messages_are_a_line_in_pieces(length):
    line = b"x" * length + b"\n"
    pieces = protocol.messages(line)
    assert b"".join(pieces) == line
    assert all(0 < len(piece) <= protocol.MESSAGE_LIMIT for piece in pieces)


def test_progress_is_read_and_nonsense_is_none():
    assert protocol.progress(b'~{"done":3,"total":10,"note":"n"}') == Progress(3, 10, "n")
    for nonsense in (b"~", b"~3", b"~[]", b'~{"done":"x"}', b"~{}", b"~\xff"):
        assert protocol.progress(nonsense) is None


def test_the_shortest_answer():
    answer = protocol.Answer(b'0f 1500 {"result":null}')
    assert (answer.key, answer.seconds, answer.waits) == ("0f", 0.0015, False)
    assert (answer.sound, answer.left, answer.retire) == (True, False, False)
    assert answer.outcome("").result is None


def test_an_answer_that_waits():
    assert protocol.Answer(b'0f 0! {"result":null}').waits


def test_a_snooze():
    outcome = protocol.Answer(b'0f 1 {"released":1.5}').outcome("tail", START)
    assert (outcome.kind, outcome.delay, outcome.tail) == (Kind.RELEASED, timedelta(seconds=1.5), "tail")
    assert outcome.started == START


def test_an_answer_with_a_result_is_a_success_with_it():
    answer = protocol.Answer('0f 12! {"left":true,"result":{"ü":1}}'.encode())
    assert (answer.left, answer.retire) == (True, False)
    outcome = answer.outcome("tail")
    assert (outcome.kind, outcome.result, outcome.tail) == (Kind.SUCCESS, {"ü": 1}, "tail")


def test_a_failure():
    answer = protocol.Answer(b'0f 12 {"retire":true,"failed":"ValueError: no","exception":"ValueError"}')
    assert (answer.left, answer.retire) == (False, True)
    outcome = answer.outcome("")
    assert (outcome.kind, outcome.reason, outcome.exception) == (Kind.FAILURE, "ValueError: no", "ValueError")


@pytest.mark.parametrize(
    "body", [b"", b"what", b"1 []", b'1 "x"', b"1 \xff", b"1 " + b"[" * 100_000, b'{"result":null}', b"-1 {}"]
)
@pytest.mark.parametrize("key", [b"", b"\xff ", b"0f "])
def test_nonsense_is_a_failure(key, body):
    answer = protocol.Answer(key + body)
    assert not answer.sound
    outcome = answer.outcome("")
    assert outcome.kind is Kind.FAILURE
    assert outcome.reason.startswith("the handler's process said what nobody understands")
