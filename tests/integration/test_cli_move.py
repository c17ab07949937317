"""`move`, `import`, and workers that go on in the new store: real processes."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from .terminals import Terminal


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory, new_cli):
    """A queue with a job in every state but processing, a paused queue, and the output of what ran."""
    jobq = new_cli(tmp_path_factory.mktemp("filled"))
    for name, words in {
        "done": ["--", "echo", "hello"],
        "dead": ["--max-attempts", "1", "--", "false"],
        "failed": ["--max-attempts", "3", "--", "false"],
    }.items():
        jobq("add", "--id", name, *words)
    jobq("worker", "start", "--until-idle")
    for name in ("waits", "never"):
        jobq("add", "--id", name, "-q", "mail", "--priority", "3", "-t", "x", "--", "true")
    jobq("cancel", "never")
    jobq("pause", "mail", "--reason", "because")
    return jobq


@pytest.fixture
def filled(jobq, filled_once):
    """A copy of that queue."""
    shutil.copytree(filled_once.home, jobq.home)
    return jobq


def export(jobq, *words):
    return jobq(*words, "export").stdout


def other(jobq):
    return f"json:{jobq.directory / 'elsewhere'}"


def workers(jobq, *words):
    return jobq(*words, "worker", "list", "--json").json


def test_everything_moves_and_the_new_store_is_the_default(filled):
    jobq, url, before = filled, other(filled), export(filled)
    assert "would move 5 jobs from json: to" in jobq("move", "--to", url, "--dry-run").stderr
    assert export(jobq) == before
    answer = jobq("move", "--to", url)
    assert answer.stdout == ""
    assert f"5 jobs moved to {url}" in answer.stderr
    assert f"store={url} is in config.toml now" in answer.stderr
    assert export(jobq) == before
    assert jobq("config", "get", "store").stdout.strip() == url
    assert jobq("status", "--json").json["queues"]["mail"]["reason"] == "because"
    assert jobq("logs", "done").stdout == "hello\n"
    assert "is in" in jobq("move", "--to", url).stderr, "once more is no error"
    for words in (["list"], ["status"], ["add", "--", "true"], ["enqueue", '{"command": "true"}'], ["doctor"]):
        answer = jobq("--store", "json:", *words, code=5)
        assert f"the queue has moved to {url}; use --store {url}" in answer.stdout + answer.stderr
    assert jobq("doctor").code == 0


def test_where_the_old_store_was_named_it_is_said_what_to_do(filled):
    url = other(filled)
    answer = filled("--store", "json:", "move", "--to", url)
    assert "--store chose the old store" in answer.stderr
    assert filled("config", "get", "store").stdout.strip() == "json:"
    assert "JOBQ_STORE chose" in filled("move", "--to", url, env={"JOBQ_STORE": "json:"}).stderr
    assert f"store={url} is in config.toml now" in filled("move", "--to", url).stderr


def test_it_moves_back(filled):
    before, url = export(filled), other(filled)
    filled("move", "--to", url)
    filled("delete", "dead")
    filled("move", "--to", "json:")
    assert export(filled).splitlines() == [line for line in before.splitlines() if '"id":"dead"' not in line]
    assert "has moved to json:" in filled("--store", url, "list", code=5).stderr


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["move"], 1, "say where: --to URL"),
        (["move", "--abort"], 1, "no move is under way"),
        (["move", "--to", "x:", "--dry-run", "--abort"], 1, "exclude one another"),
        (["move", "--to", "x:", "--force"], 1, "--force is for --abort"),
        (["move", "--to", ""], 1, ""),
        (["move", "--to", ":"], 1, "store"),
        (["move", "--to", "nosuch:"], 6, "nosuch"),
    ],
)
def test_what_cannot_be_done_is_told(jobq, words, code, said):
    answer = jobq(*words, code=code)
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_a_store_with_jobs_is_refused_and_what_to_do_is_said(filled):
    url = other(filled)
    filled("--store", url, "add", "--id", "its-own", "--", "true")
    for words in (["--dry-run"], []):
        answer = filled("move", "--to", url, *words, code=4)
        assert f"1 job is in {url} already" in answer.stderr
        assert "jobq import" in answer.stderr
    filled.add("--id", "more", shell="true")


@pytest.mark.parametrize("url", ["json:workers", "json:output/x", "json:cache", "json:.", "json:config.toml"])
def test_what_the_home_has_for_other_things_is_no_store(filled, url):
    before = export(filled)
    assert "is for other things of this home" in filled("move", "--to", url, code=1).stderr
    assert export(filled) == before


INTERRUPTED = """
import sys
from jobq.app import App
from jobq.moving import Move

app = App(home=sys.argv[1])
target = app.store_at(sys.argv[2])
move = Move(app, target, note=print)
post = move._ends.post

def dying(store, notice, before):
    if (notice.state if notice else "open") == sys.argv[3]:
        raise SystemExit
    post(store, notice, before)

move._ends.post = dying
move.run()
"""
"""A move that ends before it puts up a notice of this state, or the last one is taken down."""


def interrupted(jobq, url, before):
    subprocess.run([sys.executable, "-c", INTERRUPTED, str(jobq.home), url, before], check=True, env=jobq.environ)


def on_terminal(jobq, *words):
    """A command on a terminal; its exit code."""
    terminal = Terminal(jobq.command(*words), env=jobq.environ, cwd=jobq.directory)
    try:
        return terminal.process.wait(60), terminal.written.decode()
    finally:
        terminal.close()


@pytest.mark.parametrize("before", ["leaving", "left", "open"])
def test_a_move_that_was_interrupted_goes_on_on_a_terminal(filled, before):
    url, listed = other(filled), export(filled)
    interrupted(filled, url, before)
    code, said = on_terminal(filled, "move", "--to", url)
    assert code == 0, said
    assert export(filled) == listed
    assert filled("config", "get", "store").stdout.strip() == url
    assert on_terminal(filled, "move", "--to", url)[0] == 0


def test_where_the_old_store_is_gone_what_doctor_says_opens_the_new_one(filled):
    url, listed = other(filled), export(filled)
    interrupted(filled, url, "open")
    assert f"would open {url}" in filled("move", "--to", url, "--dry-run").stderr
    shutil.rmtree(filled.home / "queue")
    filled("move", "--to", url, code=5)
    says = f"jobq --store {url} move --abort --force"
    assert f"`{says}` opens this one" in filled("--store", url, "doctor", code=5).stdout
    assert says in filled("--store", url, "move", "--abort", code=4).stderr
    answer = filled(*says.split()[1:])
    assert f"{url} is open, with the 5 jobs that had arrived" in answer.stderr
    assert "would run twice" in answer.stderr
    assert export(filled, "--store", url) == listed
    assert filled("--store", url, "doctor").code == 0


def test_where_the_old_store_is_not_gone_the_new_one_is_not_opened(filled):
    url = other(filled)
    interrupted(filled, url, "left")
    answer = filled("--store", url, "move", "--abort", "--force", code=4)
    assert "the store json: is not gone: what has arrived here would run twice" in answer.stderr
    assert f"`jobq --store json: move --to {url} --abort` takes it back" in answer.stderr
    filled("--store", "json:", "move", "--to", url, "--abort")
    assert export(filled, "--store", url) == ""
    filled("--store", url, "add", "--", "true")


def test_where_the_new_store_cannot_be_opened_the_move_is_taken_back_by_who_insists(filled):
    interrupted(filled, other(filled), "left")
    leave = NOTICE.replace('state="left"', 'state="leaving"')
    filled("move", "--abort")
    subprocess.run([sys.executable, "-c", leave, str(filled.home), "nosuch:"], check=True, env=filled.environ)
    filled("add", "--", "true", code=5)
    assert "nosuch" in filled("move", "--abort", code=6).stderr
    assert "the move is taken back" in filled("move", "--abort", "--force").stderr
    filled("add", "--", "true")


def test_the_same_store_under_another_name_is_refused(filled):
    before = export(filled)
    (filled.home / "link").symlink_to("queue")
    for url in ("json:queue", "json:link", f"json:{filled.home}/queue"):
        for words in (["--dry-run"], []):
            answer = filled("move", "--to", url, *words, code=1)
            assert "is the store that the queue is in" in answer.stderr
    assert export(filled) == before


def test_a_move_that_stands_is_told_and_taken_back(filled, eventually, start_worker):
    url = other(filled)
    start_worker()
    gate = filled.directory / "gate"
    running = filled.add(shell=f"while [ ! -e {gate} ]; do sleep 0.02; done")
    eventually(lambda: filled.state(running) == "processing")
    move = filled.start("move", "--to", url)
    eventually(lambda: filled("status", "--json").json["notice"] is not None)
    assert filled("status", "--json").json["notice"] == {"state": "leaving", "url": url}
    assert f"being moved to {url}" in filled("status").stderr
    assert "being moved to" in filled("doctor", code=5).stdout
    assert f"being moved to {url}; try again" in filled("add", "--", "true", code=5).stderr
    assert "jobs are being moved here from json:" in filled("--store", url, "add", "--", "true", code=5).stderr
    assert "another `jobq move` is at work" in filled("move", "--to", url, code=4).stderr
    eventually(lambda: "waiting: the queue is being moved" in workers(filled)[0]["state"])
    assert filled.stop(move, signal.SIGINT) == 130
    assert filled("status", "--json").json["notice"] is not None
    filled("move", "--abort")
    assert filled("status", "--json").json["notice"] is None
    gate.touch()
    last = filled("add", "-w", "--", "true").id
    assert filled.state(last) == filled.state(running) == "completed"
    assert filled("--store", url, "export").stdout == ""


@pytest.mark.parametrize("how", ["default", "flag", "variable", "flag first"])
@pytest.mark.parametrize("detached", [False, True])
def test_workers_go_on_in_the_new_store(jobq, start_worker, eventually, how, detached):
    url = other(jobq)
    named = {"flag": ["--store", "json:"]}.get(how, [])
    env = {"JOBQ_STORE": "json:"} if how == "variable" else {}
    if detached:
        first = ["--store=json:"] if how == "flag first" else []
        jobq(*first, "worker", "start", "--detach", "--name", "the one", *named, env=env)
    else:
        process = start_worker("--name", "the one", *named, env=env)
    (before,) = workers(jobq)
    jobq("add", "--id", "before", "-w", "--", "true")
    jobq("--store", "json:", "move", "--to", url)
    try:
        jobq("--store", url, "add", "--id", "after", "-w", "--", "true")
        (after,) = workers(jobq, "--store", url)
        assert (after["name"], after["pid"]) == ("the one", before["pid"]), "the same process"
        assert after["id"] != before["id"]
        jobq("--store", url, "move", "--to", "json:back")
        jobq("--store", "json:back", "add", "--id", "last", "-w", "--", "true")
        assert {line["id"] for line in map(json.loads, export(jobq, "--store", "json:back").splitlines())} == {
            "before",
            "after",
            "last",
        }
        if detached:
            said = jobq("--store", "json:back", "worker", "logs", "the one").stdout
            for what in (
                "before",
                "after",
                "last",
                f"the queue has moved to {url}",
                "the queue has moved to json:back",
            ):
                assert what in said
            assert len(list((jobq.home / "workers").glob("*.log"))) == 1
    finally:
        if detached:
            jobq("--store", "json:back", "worker", "stop", "--wait")
    if not detached:
        assert jobq.stop(process) == 0


@pytest.mark.parametrize(
    ("number", "thread"),
    [
        pytest.param(signal.SIGTERM, False, id="SIGTERM"),
        pytest.param(signal.SIGINT, False, id="SIGINT"),
        pytest.param(signal.SIGHUP, False, id="SIGHUP"),
        pytest.param(signal.SIGQUIT, True, id="another thread takes it"),
    ],
)
def test_a_worker_that_is_stopped_while_it_goes_over_to_the_new_store_stops(jobq, eventually, number, thread):
    program = [sys.executable, "-c", STOPPED, str(int(number)), str(int(thread))]
    process = subprocess.Popen(program, env=jobq.environ, stderr=subprocess.PIPE, text=True)
    jobq.processes.append(process)
    eventually(lambda: len(workers(jobq)) == 1)
    jobq("move", "--to", other(jobq))
    _, said = process.communicate(timeout=30)
    assert process.returncode == 0, said
    assert said.count("Ctrl-C stops it") == 2, "it was stopped before"


STOPPED = """
import os, signal, sys, threading
from jobq.__main__ import main
number, thread = signal.Signals(int(sys.argv[1])), sys.argv[2] == "1"
go, gone, close = threading.Event(), threading.Event(), os.closerange
def stop():
    go.wait()
    if thread:
        signal.pthread_kill(threading.get_ident(), number)
    gone.set()
def closerange(low, high):
    go.set()
    gone.wait()
    if not thread:
        signal.pthread_kill(threading.get_ident(), number)
    close(low, high)
threading.Thread(target=stop, daemon=True).start()
os.closerange = closerange
sys.argv[1:] = ["worker", "start"]
main()
"""
"""A worker that is sent a signal when it is about to become a new process."""


def test_a_worker_that_is_started_on_the_old_store_is_told_where_the_queue_is(filled):
    url = other(filled)
    filled("--store", "json:", "move", "--to", url)
    assert f"use --store {url}" in filled("worker", "start", code=5).stderr


def test_a_worker_waits_for_a_store_that_cannot_be_reached_yet(jobq, start_worker, eventually):
    """As one whose password only the configuration will have."""
    process = start_worker()
    place = jobq.directory / "elsewhere"
    place.mkdir(mode=0o700)
    (place / "queue.json").touch(mode=0o600)
    subprocess.run([sys.executable, "-c", NOTICE, str(jobq.home), other(jobq)], check=True, env=jobq.environ)
    log = jobq.directory / "worker-0.log"
    eventually(lambda: "cannot be used yet, trying again" in log.read_text())
    (place / "queue.json").unlink()
    eventually(lambda: len(workers(jobq, "--store", other(jobq))) == 1)
    jobq("--store", other(jobq), "add", "-w", "--", "true")
    assert jobq.stop(process) == 0


NOTICE = """
import sys
from jobq.app import App
from jobq.notices import Notice
app = App(home=sys.argv[1])
app.store.post(Notice(state="left", url=sys.argv[2]), before=app.store.notice(), now=app.clock.now())
"""
"""Has the store of a home left by its queue."""


def test_an_export_is_imported_as_it_was(filled, new_cli):
    before = export(filled)
    fresh = new_cli(filled.directory / "second")
    answer = fresh("import", "-", input=before)
    assert (answer.stdout, "5 jobs imported" in answer.stderr) == ("", True)
    assert export(fresh) == before
    assert "0 jobs imported, 5 were there already" in fresh("import", input=before).stderr
    path = filled.directory / "jobs.jsonl"
    path.write_text(before)
    fresh("import", str(path))
    fresh("resume", "mail", code=None)
    fresh("retry", "waits", code=None)
    fresh("delete", "dead")
    assert "1 job imported, 4 were there already" in fresh("import", str(path)).stderr


def test_what_cannot_be_imported_stores_nothing(filled, new_cli):
    lines = export(filled).splitlines()
    fresh = new_cli(filled.directory / "second")
    broken = json.dumps(json.loads(lines[2]) | {"state": "done"})
    answer = fresh("import", "-", input="\n".join([*lines[:2], "", broken]), code=1)
    assert "line 4: state: 'done' must be" in answer.stderr
    assert "line 2: id:" in fresh("import", "-", input="\n".join([lines[0], lines[0]]), code=1).stderr
    assert "line 1:" in fresh("import", "-", input="{", code=1).stderr
    assert "nosuch" in fresh("import", "nosuch", code=1).stderr
    assert "holds no jobs" in fresh("import", "-", input="").stderr
    assert fresh("export").stdout == ""
    fresh("import", "-", input="\n".join(lines))
    fresh("retry", "dead")
    answer = fresh("import", "-", input="\n".join(lines), code=4)
    assert "job dead exists already, with another version" in answer.stderr


def test_a_job_that_was_processing_waits_again(jobq, new_cli, worker, eventually):
    job_id = jobq.add(shell="sleep 1000")
    eventually(lambda: jobq.state(job_id) == "processing")
    fresh = new_cli(jobq.directory / "second")
    answer = fresh("import", "-", input=export(jobq))
    assert "1 job imported" in answer.stderr
    assert "1 that was processing is waiting again" in answer.stderr
    assert (fresh.state(job_id), fresh.job(job_id)["attempts"]) == ("pending", 0)
