"""The plugin keeps the contracts, and what it offers works with the real command line."""

import json
import signal

import pytest

import jobq_example
from jobq.files import replace
from jobq.store import NewJob, Wanted
from jobq.testing import make_context, make_info, make_job, make_settings
from jobq.testing.contracts import BackoffContract, NotifierContract, PluginContract, StoreContract
from jobq_example.store import DocumentStore

pytest_plugins = ["jobq.testing.fixtures"]


class TestPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return jobq_example


class TestDocument(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        return lambda: DocumentStore(tmp_path / "document.json", tmp_path / "workers", durable=True)

    def die(self, presence):
        presence.close(clean=False)


class TestFixed(BackoffContract):
    @pytest.fixture
    def backoff(self, tmp_path):
        (provider,) = jobq_example.jobq_backoffs()
        return provider.make(make_settings(*jobq_example.jobq_options()), make_context(tmp_path))


class TestShout(NotifierContract):
    @pytest.fixture
    def options(self):
        return jobq_example.jobq_options()

    @pytest.fixture
    def values(self):
        return {"shout.file": "shouts.txt"}

    @pytest.fixture
    def notify(self):
        return jobq_example.jobq_notify


def test_a_worker_that_is_alive_is_not_lost_even_if_what_it_told_is_gone(tmp_path):
    store = DocumentStore(tmp_path / "document.json", tmp_path / "workers", durable=True)
    job, info = make_job("one"), make_info()
    store.add([NewJob(job, generated=False)], now=job.created_at)
    worker = store.join(info)
    assert store.claim(worker, wanted=Wanted(), limit=1, now=job.created_at).claims
    (tmp_path / "workers" / f"{info.id}.json").unlink()
    assert store.lost(now=job.created_at) == []
    worker.close()
    ((_, claims),) = store.lost(now=job.created_at)
    assert [claim.job.id for claim in claims] == ["one"]


@pytest.fixture
def document(jobq_home, monkeypatch):
    monkeypatch.setenv("JOBQ_STORE", "document:")
    return jobq_home / "document.json"


def test_jobs_run_from_a_document(document, jobq_cli):
    jobq_cli("add", "--id", "hello", "--", "true")
    jobq_cli("worker", "start", "--until-empty", process=True)
    (job,) = json.loads(document.read_bytes())["jobs"]
    assert (job["id"], job["state"]) == ("hello", "completed")


def test_a_killed_worker_costs_its_job_no_attempt(document, jobq_cli):
    jobq_cli("add", "--id", "rude", "--shell", "test $JOBQ_RUN -gt 1 || kill -9 $PPID")
    jobq_cli("worker", "start", "--until-empty", process=True, code=-signal.SIGKILL)
    jobq_cli("worker", "start", "--until-empty", process=True)
    job = jobq_cli("show", "rude", "--json").json
    assert (job["state"], job["run"], job["attempts"]) == ("completed", 2, 0)
    assert [run["outcome"] for run in job["history"]] == ["lost", "completed"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{}",
        b'{"format": "jobq-example 2", "paused": {}, "jobs": []}',
        b'{"format": "jobq-example 1", "jobs',
    ],
)
def test_a_lost_or_damaged_document_is_no_empty_queue(document, jobq_cli, content):
    jobq_cli("add", "--", "true")
    document.unlink()
    if content is not None:
        document.write_bytes(content)
    for command in (["status"], ["add", "--", "true"], ["doctor"]):
        answer = jobq_cli(*command, code=5)
        assert str(document) in answer.stdout + answer.stderr
    assert not document.exists() if content is None else document.read_bytes() == content


@pytest.mark.parametrize("address", ["/elsewhere/queue.json", "../queue.json", "queues/mine.json", "."])
def test_the_document_is_in_the_home(jobq_home, jobq_cli, address):
    assert "document:NAME" in jobq_cli("--store", f"document:{address}", "status", code=1).stderr


def test_no_change_is_no_write(document, jobq_cli):
    jobq_cli("pause", "default")
    before = document.stat().st_ino
    jobq_cli("worker", "start", "--until-idle", process=True)
    assert document.stat().st_ino == before


def test_what_a_killed_writer_began_is_removed_by_the_next_one(document, jobq_cli):
    jobq_cli("add", "--", "true")
    unfinished = document.with_name(f".{document.name}.0123.new")
    unfinished.touch()
    jobq_cli("add", "--", "true")
    assert not unfinished.exists()


@pytest.mark.parametrize(("setting", "durable"), [("full", True), ("normal", False)])
def test_writes_are_as_durable_as_the_setting_says(document, jobq_cli, monkeypatch, setting, durable):
    writes = []

    def spy(path, data, *, durable):
        writes.append(durable)
        replace(path, data, durable=False)

    monkeypatch.setattr("jobq_example.document.replace", spy)
    monkeypatch.setenv("JOBQ_DURABILITY", setting)
    jobq_cli("add", "--", "true")
    assert writes == [durable, durable], "once to begin, once to add"


def test_the_dead_are_shouted_after_fixed_waits(jobq_home, jobq_cli, monkeypatch):
    monkeypatch.setenv("JOBQ_BACKOFF", "fixed")
    monkeypatch.setenv("JOBQ_FIXED_WAIT", "0.01s")
    monkeypatch.setenv("JOBQ_SHOUT_FILE", "shouts.txt")
    jobq_cli("add", "--id", "flop", "--", "false")
    jobq_cli("worker", "start", "--until-empty", process=True)
    assert (jobq_home / "shouts.txt").read_text() == "DEAD! flop: exit code 1\n"
