"""Plugins of other distributions: found, listed, chosen and blocked by name."""

import subprocess

import pytest

ACME = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "jobq-acme"
version = "2.1"
dependencies = ["jobq"]

[project.entry-points.jobq]
acme = "jobq_acme"

[project.entry-points."jobq.handlers"]
acme-greet = "jobq_acme.handlers:greet"
acme-broken = "jobq_acme.handlers:broken"
""",
    "jobq_acme/__init__.py": '''
"""A plugin of every kind, as somebody else would write it: only what jobq exports is used."""

from datetime import timedelta

import click

from jobq import Backoff, Executor, Kind, Option, Outcome, Provider, Recovered, Running, hookimpl


class Patient(Backoff):
    def __init__(self, settings):
        self.wait = settings["acme.wait"]

    def delay(self, *, attempt, outcome, random):
        return self.wait


class Done(Running):
    def stop(self, grace):
        pass


class Pretend(Executor):
    """Runs nothing: what says `fail` fails."""

    def start(self, attempt, ended):
        attempt.output.write(b"pretended\\n")
        attempt.output.close()
        failed = "fail" in attempt.job.command
        ended(Outcome(kind=Kind.FAILURE, reason="pretended") if failed else Outcome(kind=Kind.SUCCESS, exit_code=0))
        return Done()

    def recover(self, worker):
        return Recovered(clean=True)

    def close(self):
        pass


def make_store(settings, context):
    from jobq.testing import MemoryStore

    return MemoryStore()


@hookimpl
def jobq_stores():
    return [Provider(name="acme", summary="forgets", make=make_store)]


@hookimpl
def jobq_executors():
    return [Provider(name="acme", summary="pretends", make=lambda settings, context: Pretend())]


@hookimpl
def jobq_backoffs():
    return [Provider(name="acme", summary="is patient", make=lambda settings, context: Patient(settings))]


@hookimpl
def jobq_options():
    return [
        Option(name="acme.file", kind="text", default=None, activates=True, help="Where events go."),
        Option(name="acme.wait", kind="duration", default=timedelta(milliseconds=1), help="How patient."),
    ]


@hookimpl
def jobq_commands():
    @click.command("acme")
    def acme():
        """Say hello."""
        click.echo("hello from acme")

    return [acme]


@hookimpl
def jobq_notify(event, settings):
    with open(settings["acme.file"], "a", encoding="utf-8") as file:
        file.write(f"{event.kind} {event.job.id}\\n")
''',
    "jobq_acme/handlers.py": """
def greet(job, context):
    return {"hello": job.payload["name"], "attempt": context.attempt}


def broken(job, context):
    raise ValueError("no such size")
""",
}


@pytest.fixture(scope="module")
def acme(make_environment, make_wheel):
    """An environment with a plugin of every kind."""
    environment = make_environment("acme")
    environment.install(make_wheel(ACME))
    return environment


def listed(environment, *args):
    return {plugin["name"]: plugin for plugin in environment.json(*args, "plugins", "--json")}


class TestGood:
    def test_it_is_found_and_listed_with_what_it_offers(self, acme):
        plugin = listed(acme)["acme"]
        assert (plugin["distribution"], plugin["version"], plugin["status"], plugin["error"]) == (
            "jobq-acme",
            "2.1",
            "ok",
            None,
        )
        assert plugin["offers"] == [
            "store acme",
            "executor acme",
            "backoff acme",
            "command acme",
            "notifier",
            "setting acme.file",
            "setting acme.wait",
        ]
        assert "acme-greet" in {handler["name"] for handler in acme.json("handlers", "--json")}

    def test_its_command_is_one_of_jobqs(self, acme):
        assert acme.run("acme").stdout == "hello from acme\n"
        assert "acme" in acme.run("--help").stdout

    def test_its_handler_runs_by_its_name(self, acme):
        good = acme.run("add", "acme-greet", '{"name": "Ada"}', home="handler").stdout.strip()
        bad = acme.run("add", "--max-attempts", "1", "acme-broken", home="handler").stdout.strip()
        acme.run("worker", "start", "--until-empty", home="handler")
        good, bad = (acme.json("show", "--json", job_id, home="handler") for job_id in (good, bad))
        assert (good["state"], good["result"]) == ("completed", {"hello": "Ada", "attempt": 1})
        assert bad["state"] == "dead"
        assert bad["last_error"].startswith("ValueError: no such size")

    def test_its_executor_and_backoff_are_chosen_by_name_and_its_notifier_hears(self, acme, tmp_path):
        heard = tmp_path / "events"
        env = {"JOBQ_EXECUTOR": "acme", "JOBQ_BACKOFF": "acme", "JOBQ_ACME_FILE": str(heard)}
        acme.run("add", "--id", "well", "--", "run", home="chosen", env=env)
        acme.run("add", "--id", "ill", "--max-attempts", "2", "--", "fail", home="chosen", env=env)
        acme.run("worker", "start", "--until-empty", home="chosen", env=env)
        assert acme.run("logs", "well", home="chosen").stdout == "pretended\n"
        assert acme.json("show", "--json", "ill", home="chosen")["last_error"].splitlines()[0] == "pretended"
        lines = heard.read_text().splitlines()
        assert [line for line in lines if line.endswith("well")] == ["enqueued well", "started well", "completed well"]
        ill = ["enqueued ill", "started ill", "failed ill", "started ill", "dead ill"]
        assert [line for line in lines if line.endswith("ill")] == ill

    def test_its_store_is_chosen_by_name(self, acme):
        code = (
            "from jobq import Queue\n"
            "with Queue.open(store='acme:', executor='acme') as queue:\n"
            "    job = queue.enqueue(command='x')\n"
            "    print(queue.run_until_empty(), queue.get(job.id).state, type(queue._app.store).__name__)\n"
        )
        environ = {**acme.environ, "JOBQ_HOME": str(acme.path / "store")}
        done = subprocess.run([acme.python, "-c", code], check=False, capture_output=True, text=True, env=environ)
        assert done.stdout == "(1, 0) completed MemoryStore\n", done.stderr
        assert not (acme.path / "store" / "queue").exists()

    def test_it_is_blocked_by_name_however_one_says_it(self, acme):
        assert listed(acme, "-p", "no:acme")["acme"]["status"] == "blocked"
        done = acme.run("-p", "no:acme", "add", "--", "true", env={"JOBQ_STORE": "acme:"}, code=6, home="refused")
        assert "acme" in done.stderr
        assert "blocked" in done.stderr
        done = acme.run("acme", env={"JOBQ_PLUGINS_BLOCK": "acme"}, code=1)
        assert "No such command 'acme'" in done.stderr

    def test_its_settings_are_settings(self, acme):
        acme.run("config", "set", "acme.wait", "5s", home="settings")
        assert acme.run("config", "get", "acme.wait", home="settings").stdout == "5s\n"
        assert "duration" in acme.run("config", "set", "acme.wait", "soon", home="settings", code=1).stderr
