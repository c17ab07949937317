"""The real command line and its workers, from two homes as from two hosts."""

import signal
from pathlib import Path

import pytest

from .conftest import wait_for


@pytest.fixture
def host(new_host, url):
    """`host("a")`: runs jobq with a home of its own; `.start()` a worker."""
    return lambda name: new_host(name, url)


def test_what_one_host_enqueues_another_runs(host, tmp_path):
    here, there = host("here"), host("there")
    here("add", "--id", "one", "--", "touch", str(tmp_path / "ran"))
    there("worker", "start", "--until-empty")
    assert (tmp_path / "ran").exists()
    assert "completed" in here("show", "one")
    assert "jobs: 1" in here("doctor")


def test_a_killed_worker_costs_its_job_no_attempt(host):
    here = host("here")
    here("add", "--id", "rude", "--shell", "test $JOBQ_RUN -gt 1 || kill -9 $PPID")
    here("worker", "start", "--until-empty", code=-signal.SIGKILL)
    here("worker", "start", "--until-empty")
    shown = here("show", "rude", "--json")
    assert '"attempts":0' in shown.replace(" ", "")
    assert shown.count('"lost"') == 1


def test_orphans_of_a_killed_worker_are_ended_before_their_job_runs_again(host, tmp_path):
    here = host("here")
    note = tmp_path / "runs"
    here("add", "--id", "long", "--shell", f"echo $$ >> {note}; test $JOBQ_RUN -gt 1 || sleep 600")
    worker = here.start()
    wait_for(lambda: note.exists() and note.read_text().strip())
    first = int(note.read_text().split()[0])
    worker.kill()
    worker.wait()
    here("worker", "start", "--until-empty")
    assert len(note.read_text().split()) == 2
    assert not alive(first)


def test_a_running_job_is_cancelled_from_another_host(host, tmp_path):
    here, there = host("here"), host("there")
    note = tmp_path / "started"
    here("add", "--id", "long", "--shell", f"touch {note}; sleep 600")
    worker = there.start()
    wait_for(note.exists)
    here("cancel", "long")
    wait_for(lambda: "cancelled" in here("show", "long", "--json"))
    worker.terminate()
    assert worker.wait(30) == 0


def test_a_worker_that_is_cut_off_ends_what_it_runs(host, tmp_path, proxy, proxied):
    here, there = host("here"), host("there")
    config = f'store = "{proxied}"\npoll-interval = "0.2s"\n[postgresql]\nlease = "4s"\n'
    (there.home / "config.toml").write_text(config)
    note = tmp_path / "runs"
    here("add", "--id", "long", "--shell", f"echo $$ >> {note}; sleep 600")
    there.start()
    wait_for(lambda: note.exists() and note.read_text().strip())
    pid = int(note.read_text().split()[0])
    proxy.stall()
    wait_for(lambda: not alive(pid))
    proxy.go_on()
    wait_for(lambda: len(note.read_text().split()) == 2)
    shown = here("show", "long", "--json").replace(" ", "")
    assert '"attempts":0' in shown
    assert '"losses":0' in shown


def alive(pid):
    """Whether there is such a process that has not ended; one that nobody has reaped has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_password_is_never_shown(host, url, server_url):
    import psycopg

    password = psycopg.conninfo.conninfo_to_dict(server_url).get("password")
    if not password:
        pytest.skip("this server asks for no password")
    here = host("here")
    for words in (["status"], ["status", "--json"], ["doctor"], ["config", "list"]):
        assert password not in here(*words)
