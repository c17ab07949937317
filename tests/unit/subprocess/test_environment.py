"""What is started carries its marker and its store, and nothing of an outer job."""

from datetime import timedelta
from pathlib import Path

from jobq.executor import Attempt
from jobq.output import Capture
from jobq.testing import make_job
from jobq_subprocess.environment import Environment, encode, markers


def attempt(**fields):
    job = make_job(**{"worker": "w", "run": 4, "attempts": 1, "queue": "mail"} | fields)
    home = Path("/häme")
    return Attempt(
        job=job,
        home=home,
        slot=2,
        jobs_fd=None,
        output=Capture(home, job.id, 4, 1000),
        kill_grace=timedelta(seconds=5),
        result_limit=1000,
    )


def test_the_marker_is_in_the_environment():
    one = attempt()
    environ = Environment({}, "json:").of_command(one, progress=7, more={})
    entries = {name + b"=" + value for name, value in environ.items()}
    assert set(markers(one)) <= entries
    assert len(markers(one)) == 3


def test_what_the_job_names_goes_over_what_plugins_add_and_that_over_what_the_worker_has():
    environ = Environment({b"A": b"1", b"B": b"\xff"}, "json:").of_command(
        attempt(env={"A": "ünï", "C": "\udcfe"}), progress=7, more={"A": "x", "B": "ü", "D": "d"}
    )
    assert environ[b"A"] == "ünï".encode()
    assert environ[b"B"] == "ü".encode()
    assert environ[b"D"] == b"d"
    assert environ[b"C"] == b"\xfe"


def test_jobqs_own_variables_cannot_be_forged():
    one = attempt(env={"JOBQ_WORKER": "x", "JOBQ_HOME": "x", "JOBQ_JOB_ID": "x", "JOBQ_PROGRESS_FD": "x"})
    environ = Environment({}, "json:elsewhere").of_command(one, progress=7, more={})
    assert environ[b"JOBQ_WORKER"] == b"w"
    assert environ[b"JOBQ_JOB_ID"] == one.job.id.encode()
    assert environ[b"JOBQ_HOME"] == "/häme".encode()
    assert environ[b"JOBQ_STORE"] == b"json:elsewhere"
    assert environ[b"JOBQ_PROGRESS_FD"] == b"7"


def test_an_outer_job_leaves_no_trace():
    outer = dict.fromkeys(Environment({}, "json:").of_command(attempt(), progress=7, more={}), b"outer")
    del outer[b"PYTHONUNBUFFERED"]
    outer[b"JOBQ_KILL_GRACE"] = b"3"
    environ = Environment(outer, "json:").of_child(Path("/home"), "w")
    assert environ == {
        b"JOBQ_KILL_GRACE": b"3",
        b"JOBQ_STORE": b"json:",
        b"JOBQ_HOME": b"/home",
        b"JOBQ_WORKER": b"w",
    }


def test_text_is_utf8_and_what_was_undecodable_stays_as_it_was():
    assert encode("ü\udcff") == b"\xc3\xbc\xff"
