"""`jobq doctor` in places where not all is well."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from jobq_json.lines import seal

from .capabilities import need
from .injecting import Fault

GOLDEN = Path(__file__).parent.parent / "golden"


def told(output):
    """What each check says: its problems, or else its facts."""
    return {check["name"]: "\n".join(check["problems"]) or check["facts"] for check in json.loads(output)["checks"]}


def test_it_tells_what_it_found_where_all_is_well(jobq):
    jobq.add("--", "true")
    found = told(jobq("doctor", "--json").out)
    assert "locks, syncs, renames and maps work" in found["file system"]
    assert "MiB" in found["space"]
    assert not list(jobq.home.glob(".doctor*"))


@pytest.mark.parametrize(
    ("calls", "error", "sentence"),
    [
        (("flock",), "ENOLCK", "locks do not work"),
        (("fdatasync", "fsync"), "EIO", "cannot be synced"),
        (("rename",), "EIO", "files cannot be replaced"),
        (("create",), "EROFS", "nothing can be written"),
    ],
)
def test_what_does_not_work_there_is_told_because_it_was_tried(jobq, calls, error, sentence):
    need("compiler")
    jobq.add("--", "true")
    fault = Fault(calls, 1, error, on=True)
    answer = jobq("doctor", "--json", code=5, env=fault.environ(jobq.home))
    assert sentence in told(answer.out)["file system"]


def inside(jobq, script, *words):
    """Run a command in a mount namespace of its own, after a script that is told the home; its output."""
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", f'{script} && exec "$@"', str(jobq.home), *jobq.command(*words)],
        check=False,
        capture_output=True,
        env=jobq.environ,
        cwd=jobq.directory,
        stdin=subprocess.DEVNULL,
    ).stdout


def test_a_small_file_system_is_told_by_its_type_its_room_and_the_files_that_it_can_take(jobq):
    need("mounts")
    jobq.home.mkdir(mode=0o700)
    mount = 'mount -t tmpfs -o size=2m,nr_inodes=99,mode=700 none "$0"'
    made = inside(jobq, f'{mount} && mkdir -m 700 "$0/workers"', "doctor", "--json")
    found = told(made)
    assert found["file system"].startswith("tmpfs")
    assert "MiB are free" in found["space"]
    assert "more files can be made" in found["space"]


def test_a_store_on_another_file_system_is_looked_at_too(jobq):
    need("mounts")
    jobq.add("--", "true")
    elsewhere = jobq.home / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    mount = 'mount -t tmpfs -o size=2m,mode=700 none "$0/elsewhere"'
    found = told(inside(jobq, mount, "--store", "json:elsewhere", "doctor", "--json"))
    assert str(elsewhere) in found["space"]
    assert "tmpfs" in found["file system"]


def test_a_home_that_is_read_only_is_told_as_such(jobq):
    need("mounts")
    jobq.add("--", "true")
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
    found = told(inside(jobq, mount, "doctor", "--json"))
    assert "Read-only file system" in found["file system"]
    assert found["store"].endswith("jobs: 1")


def test_what_a_dead_worker_left_running_is_named(jobq, start_worker, eventually):
    need("proc")
    worker = start_worker()
    job = jobq.add(shell="setsid sleep 300 & echo $!; wait")
    eventually(lambda: jobq("logs", job).out.endswith(b"\n"))
    pid = int(jobq("logs", job).out)
    worker.kill()
    worker.wait()
    workers = told(jobq("doctor", "--json", code=5).out)["workers"]
    assert f"still holds {job}" in workers
    assert str(pid) in workers.partition("still runs (pid ")[2]
    assert Path(f"/proc/{pid}").exists(), "it only looks"
    jobq("cancel", job)
    assert told(jobq("doctor", "--json").out)["workers"] == "0 at work"


def test_a_newer_format_is_told_as_such_and_not_mended(jobq):
    jobq.add("--", "true")
    for path in (GOLDEN / "format-1" / "queue").iterdir():
        shutil.copy(path, jobq.home / "queue")
    for path in (jobq.home / "queue").iterdir():
        path.chmod(0o600)
    journal = jobq.home / "queue" / "journal-2.jsonl"
    with journal.open("ab") as file:
        file.write(seal('{"op":"fold","seq":99}') + b"\n")
    before = journal.read_bytes()
    assert "written by a newer jobq" in told(jobq("doctor", "--json", code=5).out)["store"]
    assert "written by a newer jobq" in jobq("doctor", "--repair", code=5).stderr
    assert journal.read_bytes() == before
