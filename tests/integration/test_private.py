"""What jobq leaves on the disk is its user's alone, and what others may have put there neither misleads nor holds it up."""

import os
import shutil
import stat
import subprocess
import sys
import time

import pytest


def below(path):
    """The mode of everything below a directory."""
    return {found: stat.S_IMODE(found.lstat().st_mode) for found in (path, *path.rglob("*"))}


@pytest.mark.parametrize("mask", [0, 0o777])
def test_all_of_a_home_is_private_whatever_the_umask(jobq, mask):
    """From the first job to a dead one, its output, a handler's result and a setting; also what is made above."""
    jobq.home = jobq.directory / "a" / "b" / "home"
    jobq.environ["JOBQ_HOME"] = str(jobq.home)

    def run(*words):
        done = subprocess.run(
            jobq.command(*words),
            check=False,
            capture_output=True,
            text=True,
            env=jobq.environ,
            cwd=jobq.directory,
            stdin=subprocess.DEVNULL,
            umask=mask,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("config", "set", "output-limit", "4096")
    run("add", "--id", "long", "--shell", "head -c 10000 /dev/zero")
    run("add", "--id", "dead", "--max-attempts", "1", "--", "false")
    run("worker", "start", "--until-empty")
    assert "completed    1\n" in run("status")
    run("worker", "start", "--detach")
    try:
        modes = below(jobq.home)
    finally:
        run("worker", "stop", "--wait")
    modes |= below(jobq.home) | {path: stat.S_IMODE(path.stat().st_mode) for path in list(jobq.home.parents)[:2]}
    wrong = {str(path): oct(mode) for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)}
    assert wrong == {}
    names = {path.name for path in modes}
    assert {"config.toml", "output", "workers", "queue"} <= names
    assert any(name.endswith(".ring") for name in names)
    assert any(name.endswith(".log") for name in names)


@pytest.mark.parametrize("place", ["config.toml", "cache"])
def test_a_fifo_that_was_planted_holds_no_command_up(jobq, place):
    jobq("add", "--", "true")
    jobq("config", "set", "kill-grace", "1")
    if place == "cache":
        os.utime(jobq.directory, (time.time() - 60,) * 2)  # it is on sys.path; what changed just now is not kept
        jobq("plugins")
        planted = list((jobq.home / "cache").glob("*.json"))
        if not planted:
            pytest.skip("what is installed changed just now")
    else:
        planted = [jobq.home / place]
    for path in planted:
        path.unlink()
        os.mkfifo(path)
    answer = jobq("status", code=1 if place == "config.toml" else 0)
    assert ("is not a regular file" in answer.stderr) is (place == "config.toml")
    assert "Traceback" not in answer.stderr


def test_the_processes_that_it_starts_import_nothing_from_where_they_are_started(jobq):
    """A detached worker, one started from inside a job, and the demo are jobq itself, not a file of that name."""
    jobq.environ.pop("PYTHONSAFEPATH", None)
    planted = jobq.directory / "planted"
    planted.mkdir()
    for name in ("jobq", "json", "click"):
        (planted / f"{name}.py").write_text(f"open({str(jobq.directory / 'ran')!r}, 'w')\nraise SystemExit(9)\n")
    safe = [sys.executable, "-P", "-m", "jobq"]
    for words in (("worker", "start", "--detach"), ("demo",)):
        done = subprocess.run(
            [*safe, *words],
            check=False,
            capture_output=True,
            text=True,
            env=jobq.environ,
            cwd=planted,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    jobq("add", "--id", "outer", "-w", "-C", str(planted), "--", *safe, "worker", "start", "--until-empty", "-q", "x")
    jobq("worker", "stop", "--wait")
    assert jobq.state("outer") == "completed"
    assert not (jobq.directory / "ran").exists()


def test_the_log_of_a_living_worker_is_not_old(jobq):
    """However long it said nothing; that of one which is gone is deleted a week after its last word."""
    jobq("worker", "start", "--detach")
    workers = jobq.home / "workers"
    try:
        (alive,) = workers.glob("*.log")
        gone = workers / "gone.log"
        gone.touch(0o600)
        for path in (alive, gone):
            os.utime(path, (time.time() - 30 * 86400,) * 2)
        jobq("worker", "start", "--detach")
        assert alive.exists()
        assert not gone.exists()
    finally:
        jobq("worker", "stop", "--wait")


def test_passwords_in_urls_are_not_shown_but_in_json(jobq):
    url = "http://me:hunter2@localhost/x"
    job_id = jobq("add", "--max-attempts", "1", "--", "false", url).id
    for words in (("list",), ("show", job_id)):
        answer = jobq(*words)
        assert "http://me:***@localhost/x" in answer.stdout
        assert "hunter2" not in answer.stdout + answer.stderr
    jobq.run_all()
    assert "hunter2" not in jobq("dlq", "list").stdout
    assert jobq.job(job_id)["command"] == ["false", url]


def test_a_password_is_not_echoed_when_it_is_set(jobq):
    answer = jobq("config", "set", "store", "json://me:hunter2@host", code=None)
    assert "store=json://me:***@host" in answer.stderr
    assert "hunter2" not in answer.stdout + answer.stderr
    assert "hunter2" in (jobq.home / "config.toml").read_text()


class TestInit:
    @pytest.fixture
    def project(self, jobq):
        del jobq.environ["JOBQ_HOME"]
        project = jobq.directory / "project"
        project.mkdir()
        return project

    def test_what_is_unpacked_in_the_place_of_a_home_is_not_trusted(self, jobq, project):
        """Even with a token of its own, or the one that was there before, of which somebody had a copy."""
        jobq("init", cwd=project)
        old = (project / ".jobq" / "token").read_text()
        shutil.rmtree(project / ".jobq")
        (project / ".jobq").mkdir(0o700)
        (project / ".jobq" / "config.toml").touch(0o600)
        for token in (None, "0" * 32):
            if token is not None:
                (project / ".jobq" / "token").write_text(token)
            assert "--trust" in jobq("status", cwd=project, code=5).stderr
        jobq("init", "--trust", ".", cwd=project)
        jobq("status", cwd=project)
        (project / ".jobq" / "token").write_text(old)
        assert "--trust" in jobq("status", cwd=project, code=5).stderr

    def test_a_link_that_leads_nowhere_is_refused(self, jobq, project):
        (project / ".jobq").symlink_to("nowhere")
        for words in (("status",), ("init",), ("add", "--", "true")):
            answer = jobq(*words, cwd=project, code=5)
            assert ".jobq is not a real directory" in answer.stderr

    def test_a_directory_whose_name_is_no_utf8(self, jobq, project):
        odd = project / os.fsdecode(b"odd\xff\x85")
        odd.mkdir()
        jobq("init", cwd=odd)
        jobq("status", cwd=odd)
        refused = jobq("add", "--", "true", cwd=odd, code=1)
        assert "cwd:" in refused.stderr
        assert "no UTF-8" in refused.stderr
        job_id = jobq("add", "--cwd", "/", "--", "true", cwd=odd).id
        jobq("worker", "start", "--until-empty", cwd=odd)
        assert jobq("show", "--json", job_id, cwd=odd).json["state"] == "completed"
        for words in (("doctor",), ("config", "path"), ("status", "--json"), ("config", "list")):
            jobq(*words, cwd=odd)

    def test_where_everybody_may_exchange_it_none_is_made(self, jobq, project):
        project.chmod(0o777)
        assert "may be changed by everybody" in jobq("init", cwd=project, code=5).stderr
        assert not (project / ".jobq").exists()
