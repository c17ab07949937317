import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from jobq.errors import InvalidInput
from jobq_opentelemetry.prometheus import parse_address

TIMEOUT = 30.0
"""Seconds that anything a test waits for may take at most; on a sound system it takes a fraction."""

JOBS, OLDEST = "jobq_jobs", "jobq_queue_oldest_wait_seconds"


def eventually(condition):
    """Ask again until the answer is true; that answer."""
    deadline = time.monotonic() + TIMEOUT
    while not (answer := condition()):
        assert time.monotonic() < deadline, f"not so within {TIMEOUT:g} s"
        time.sleep(0.01)
    return answer


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def fetch(address):
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=TIMEOUT) as answer:
        return families(answer.read().decode())


def labelled(family, **labels):
    """The value of the one sample with these labels, among others."""
    (value,) = [s.value for s in family.samples if labels.items() <= s.labels.items() and "bucket" not in s.name]
    return value


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("localhost:0", ("localhost", 0)),
        ("[::1]:9464", ("::1", 9464)),
    ],
)
def test_an_address_is_a_port_at_the_loopback_or_a_host_and_a_port(text, address):
    assert parse_address("--serve", text) == address


@pytest.mark.parametrize("text", ["", ":", ":1", "host", "host:", "1:65536", "1:-1", "1:٣", "http://h"])
def test_what_is_none_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_address("--serve", text)


def test_metrics_prints_how_the_queues_stand(jobq_cli):
    jobq_cli("add", "--queue", "q", "--", "true")
    jobq_cli("add", "--queue", "q", "--delay", "1h", "--", "true")
    told = families(jobq_cli("metrics").stdout)
    assert set(told) == {JOBS, OLDEST}
    assert labelled(told[JOBS], messaging_destination_name="q", jobq_job_state="pending") == 2
    assert labelled(told[JOBS], messaging_destination_name="q", jobq_job_state="dead") == 0
    assert labelled(told[OLDEST], messaging_destination_name="q") > 0


def test_it_does_so_before_anything_was_enqueued_and_creates_nothing(jobq_cli, jobq_home):
    jobq_home.rmdir()
    assert families(jobq_cli("metrics").stdout) == {}
    assert not jobq_home.exists()


def test_a_store_that_cannot_be_used_is_an_error_and_no_empty_answer(jobq_cli, jobq_home):
    jobq_cli("add", "--", "true")
    for path in (jobq_home / "queue").iterdir():
        path.write_bytes(b"no store of jobq")
    assert jobq_cli("metrics", code=5).stdout == ""


def test_without_the_exporter_it_says_what_to_install(jobq_cli, monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.prometheus", None)
    answer = jobq_cli("metrics", code=6)
    assert "pip install 'jobq-opentelemetry[prometheus]'" in answer.stderr


def test_an_address_that_is_none_or_taken_is_an_error(jobq_cli):
    assert "HOST:PORT" in jobq_cli("metrics", "--serve", "nowhere", code=1).stderr
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "Address already in use" in jobq_cli("metrics", "--serve", port, code=5).stderr


@pytest.fixture
def start(jobq_home):
    """Starts `jobq` and gives its process, which ends with the test, and what tells what it has said."""
    started = []

    def start(*words):
        said = jobq_home.parent / f"said-{len(started)}"
        with said.open("wb") as out:
            process = subprocess.Popen([sys.executable, "-m", "jobq", *words], stdout=out, stderr=out, env=os.environ)
        started.append(process)
        return process, said.read_text

    yield start
    for process in started:
        process.kill()
        process.wait()


def test_it_goes_on_serving(jobq_cli, start):
    jobq_cli("add", "--", "true")
    process, told = start("metrics", "--serve", "0")
    url = eventually(lambda: "/metrics" in told() and told().split("http://")[1].split("/metrics")[0])
    assert url.startswith("127.0.0.1:")
    assert labelled(fetch(url)[JOBS], jobq_job_state="pending") == 1
    jobq_cli("add", "--", "true")
    eventually(lambda: labelled(fetch(url)[JOBS], jobq_job_state="pending") == 2)
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 130
    assert "Traceback" not in told()


def test_a_worker_serves_what_it_measures(jobq_cli, start, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    jobq_cli("config", "set", "opentelemetry.prometheus", address)
    job_id = jobq_cli("add", "--", "true").stdout.strip()
    start("worker", "start")

    def measured():
        try:
            told = fetch(address)
        except OSError:
            return None
        return told if "messaging_process_duration_seconds" in told else None

    told = eventually(measured)
    assert labelled(told["jobq_events"], jobq_event="completed", jobq_job_handler="command") == 1
    assert set(told) == {
        "target_info",
        "jobq_events",
        "jobq_job_wait_seconds",
        "messaging_process_duration_seconds",
        JOBS,
        OLDEST,
    }
    assert labelled(told["target_info"], service_name="jobq") == 1
    assert job_id not in repr(told)
