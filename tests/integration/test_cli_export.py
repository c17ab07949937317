"""`jobq export`: jobs with all their fields, for their owner's eyes."""

import json
import os
import stat
import subprocess

import pytest


@pytest.fixture
def jobs(jobq):
    """One job that died, one that waits; the first has secrets in what was given with it."""
    spec = {
        "id": "dead",
        "command": ["curl", "https://me:hunter2@example.org/"],
        "env": {"API_TOKEN": "hunter2", "LANG": "C"},
        "max_attempts": 1,
        "meta": {"x-password": 5, "x-list": ["postgresql://me:hunter2@localhost/"], "x-key": None},
    }
    jobq("enqueue", json.dumps(spec), input="")
    jobq("cancel", "dead")
    jobq.add("--id", "waits", "-t", "night", shell="true")
    return jobq


def test_every_job_is_written_as_list_shows_it(jobs):
    lines = jobs("export").stdout.splitlines()
    assert [json.loads(line) for line in lines] == jobs("list", "--json").json
    assert [json.loads(line)["id"] for line in lines] == ["waits", "dead"]


def test_those_that_are_selected_are_written(jobs):
    for selection in (["waits"], ["-s", "pending"], ["-t", "night"]):
        (line,) = jobs("export", *selection).stdout.splitlines()
        assert json.loads(line)["id"] == "waits"
    answer = jobs("export", "nosuch", "waits", code=3)
    assert json.loads(answer.stdout)["id"] == "waits"


def test_without_a_home_there_is_nothing(jobq):
    assert jobq("export").stdout == ""
    assert not jobq.home.exists()


@pytest.mark.parametrize("umask", [0, 0o777])
def test_a_file_is_its_owners_alone_and_replaced_as_a_whole(jobs, umask):
    path = jobs.directory / "jobs.jsonl"
    path.write_text("old")
    path.chmod(0o644)
    command = jobs.command("export", "--file", str(path))
    options = {"env": jobs.environ, "cwd": jobs.directory, "umask": umask}
    done = subprocess.run(command, check=False, capture_output=True, text=True, **options)
    assert (done.returncode, done.stdout) == (0, "")
    assert "2 jobs written to " in done.stderr
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text() == jobs("export").stdout
    assert [each.name for each in path.parent.glob(".*.new")] == []


def test_a_store_that_cannot_be_read_leaves_the_old_file(jobs):
    path = jobs.directory / "jobs.jsonl"
    path.write_text("old")
    (jobs.home / "queue" / "queue.json").write_text("{")
    jobs("export", "--file", str(path), code=5)
    assert path.read_text() == "old"
    assert [each.name for each in path.parent.glob(".*.new")] == []


def test_where_no_file_can_be_it_is_said(jobs):
    (jobs.directory / "link").symlink_to("elsewhere")
    os.mkfifo(jobs.directory / "pipe")
    for name in ("nosuch/jobs.jsonl", ".", "link", "pipe"):
        answer = jobs("export", "--file", name, code=1)
        assert answer.stderr.splitlines()[-1].startswith("Error: "), name
    assert not (jobs.directory / "elsewhere").exists()


def test_where_nothing_is_found_the_file_is_left_alone(jobs):
    path = jobs.directory / "jobs.jsonl"
    path.write_text("old")
    assert "nosuch" in jobs("export", "--file", str(path), "nosuch", code=3).stderr
    answer = jobs("--home", str(jobs.directory / "elsewhere"), "export", "--file", str(path), code=3)
    assert "there is no queue in" in answer.stderr
    assert path.read_text() == "old"
    assert jobs("export", "--file", "-").stdout == jobs("export").stdout


def test_secrets_are_left_out_if_asked_for(jobs):
    assert "hunter2" in jobs("export").stdout
    answer = jobs("export", "--redact")
    assert "hunter2" not in answer.stdout
    (record,) = (json.loads(line) for line in answer.stdout.splitlines() if '"dead"' in line)
    assert record["command"] == ["curl", "https://me:***@example.org/"]
    assert record["env"] == {"API_TOKEN": "***", "LANG": "C"}
    assert record["meta"] == {"x-password": "***", "x-list": ["postgresql://me:***@localhost/"], "x-key": None}
