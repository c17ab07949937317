"""Plugins around real attempts: in the child of a handler, in the worker of a command, and what they add to a job."""

import json

import pytest

PLUGIN = """
import contextlib, contextvars, json, os
import jobq

current = contextvars.ContextVar("current", default=None)


class Noting(jobq.AttemptWrapper):
    @contextlib.contextmanager
    def around(self, job):
        self.note(job, "enters")
        token = current.set(job.meta.get("noting.token"))
        try:
            yield {"NOTED": job.id, "PATH": "replaced"}
        except BaseException as error:
            self.note(job, f"sees {type(error).__name__}: {error}")
            raise
        else:
            self.note(job, "leaves")
        finally:
            current.reset(token)
        if job.id == "grudge":
            raise RuntimeError("a grudge")

    def note(self, job, text):
        with open(os.environ["NOTES"], "a") as file:
            file.write(json.dumps([job.id, job.run, os.getpid(), text]) + "\\n")


@jobq.hookimpl
def jobq_wrappers():
    return [jobq.Provider(name="noting", summary="notes", make=lambda settings, context: Noting())]


@jobq.hookimpl
def jobq_meta(new, settings):
    if new.id == "unlucky":
        raise RuntimeError("no luck")
    return {"token": f"t-{new.id}"}
"""

HANDLERS = """
import asyncio, os, sys

def current():
    (plugin,) = (module for module in sys.modules.values() if hasattr(module, "Noting"))
    return plugin.current.get()

def sync(job, context):
    return {"token": current(), "pid": os.getpid()}

async def asynchronous(job, context):
    await asyncio.sleep(0)
    return {"token": current(), "pid": os.getpid()}

def raises(job, context):
    raise ValueError("no such size")

def fails(job, context):
    context.fail("for good")

def snoozes(job, context):
    if job.run == 1:
        context.snooze(0)
    return "awake"

def leaves(job, context):
    sys.exit(0)

def enqueues(job, context):
    context.enqueue(id="child", command="true")
"""


@pytest.fixture
def noted(jobq, tmp_path):
    """A command line with the plugin and handlers; called, it answers with what was noted of a job."""
    (tmp_path / "noting.py").write_text(PLUGIN)
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "shop.py").write_text(HANDLERS)
    jobq("config", "set", "handlers-path", "modules")
    names = ("sync", "asynchronous", "raises", "fails", "snoozes", "leaves", "enqueues")
    with (jobq.home / "config.toml").open("a") as config:
        config.write("\n[handlers]\n" + "".join(f'{name} = "shop:{name}"\n' for name in names))
    jobq.environ["NOTES"] = str(tmp_path / "notes")
    jobq.plugin = ("-p", str(tmp_path / "noting.py"))

    def notes(job_id):
        lines = [json.loads(line) for line in (tmp_path / "notes").read_text().splitlines()]
        return [(run, text) for noted_id, run, pid, text in lines if noted_id == job_id]

    return notes


def add(jobq, *args):
    return jobq("add", *jobq.plugin, *args).id


def work(jobq):
    return jobq("worker", "start", *jobq.plugin, "--until-empty")


def test_a_handler_runs_inside_in_its_child(jobq, noted, tmp_path):
    first, second = add(jobq, "sync"), add(jobq, "asynchronous")
    third = add(jobq, "asynchronous")
    work(jobq)
    for job_id in (first, second, third):
        assert noted(job_id) == [(1, "enters"), (1, "leaves")]
        result = jobq.job(job_id)["result"]
        assert result["token"] == f"t-{job_id}"
        pids = {line[2] for line in map(json.loads, (tmp_path / "notes").read_text().splitlines()) if line[0] == job_id}
        assert pids == {result["pid"]}


@pytest.mark.parametrize(
    ("handler", "sees", "state"),
    [
        ("raises", "sees ValueError: no such size", "dead"),
        ("fails", "sees Failed: for good", "dead"),
        ("leaves", "sees SystemExit: 0", "completed"),
    ],
)
def test_it_sees_how_a_handler_ends_and_changes_nothing(jobq, noted, handler, sees, state):
    job_id = add(jobq, "--max-attempts", "1", handler)
    work(jobq)
    assert noted(job_id) == [(1, "enters"), (1, sees)]
    assert jobq.state(job_id) == state


def test_each_attempt_is_wrapped(jobq, noted):
    job_id = add(jobq, "snoozes")
    work(jobq)
    assert [text.split(":")[0] for _, text in noted(job_id)] == ["enters", "sees Snoozed", "enters", "leaves"]
    assert [run for run, _ in noted(job_id)] == [1, 1, 2, 2]


def test_a_command_runs_inside_and_gets_its_environment(jobq, noted):
    job_id = add(jobq, "--shell", 'echo "$NOTED"; command -v sh > /dev/null && exit 3', "--max-attempts", "1")
    work(jobq)
    assert jobq("logs", job_id).stdout == f"{job_id}\n"  # the job's own PATH goes before the plugin's
    assert noted(job_id) == [(1, "enters"), (1, "sees AttemptFailed: exit code 3")]


def test_one_that_fails_is_told_of_by_name_and_costs_nothing(jobq, noted, tmp_path):
    add(jobq, "--id", "grudge", "sync")
    work(jobq)
    assert jobq.state("grudge") == "completed"
    reported = f"wrapper noting of plugin noting ({tmp_path}/noting.py) failed: RuntimeError: a grudge"
    assert reported in jobq("logs", "grudge").stdout
    jobq("delete", "grudge")
    add(jobq, "--id", "grudge", "--shell", "true")
    assert reported in work(jobq).stderr
    assert jobq.state("grudge") == "completed"


def test_what_it_adds_to_a_job_is_in_its_meta(jobq, noted):
    job_id = add(jobq, "sync")
    assert jobq.job(job_id)["meta"] == {"noting.token": f"t-{job_id}"}
    lines = "\n".join(json.dumps({"command": "true", "id": f"b{number}"}) for number in range(3))
    jobq("enqueue", *jobq.plugin, "-", input=lines)
    assert jobq.job("b2")["meta"] == {"noting.token": "t-b2"}


def test_it_cannot_refuse_a_job(jobq, noted):
    answer = jobq("add", *jobq.plugin, "--id", "unlucky", "sync")
    assert "RuntimeError: no luck" in answer.stderr
    assert jobq.job("unlucky")["meta"] == {}


def test_a_handlers_own_jobs_are_added_to_as_well(jobq, noted):
    add(jobq, "enqueues")
    work(jobq)
    assert jobq.job("child")["meta"] == {"noting.token": "t-child"}
