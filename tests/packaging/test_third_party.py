"""Plugins of other distributions: found, listed, chosen and blocked by name; a broken one breaks only itself."""

import json
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

MISCHIEF = {
    "pyproject.toml": """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "mischief"
version = "0.3"

[project.entry-points.jobq]
raises = "mischief.raises"
exits = "mischief.exits"
missing = "mischief.missing"
unknown = "mischief.unknown"
arguments = "mischief.arguments"
clash-one = "mischief.clash_one"
clash-two = "mischief.clash_two"
replaces = "mischief.replaces"
late = "mischief.late"

[project.entry-points."jobq.handlers"]
gone = "mischief.gone:run"
""",
    "mischief/__init__.py": "",
    "mischief/raises.py": "raise RuntimeError('no luck')",
    "mischief/exits.py": "import sys\nsys.exit('leaving')",
    "mischief/unknown.py": "from jobq import hookimpl\n@hookimpl\ndef jobq_frobnicate(): pass",
    "mischief/arguments.py": "from jobq import hookimpl\n@hookimpl\ndef jobq_notify(event, colour): pass",
    "mischief/clash_one.py": """
from jobq import Provider, hookimpl

@hookimpl
def jobq_backoffs():
    return [Provider(name="same", summary="", make=print)]
""",
    "mischief/clash_two.py": """
from jobq import Provider, hookimpl

@hookimpl
def jobq_backoffs():
    return [Provider(name="same", summary="", make=print)]
""",
    "mischief/replaces.py": """
import click
from jobq import hookimpl

@hookimpl
def jobq_commands():
    return [click.Command("status", callback=lambda: click.echo("replaced"))]
""",
    "mischief/late.py": """
from jobq import Provider, hookimpl

def make(settings, context):
    raise OSError("no such server")

@hookimpl
def jobq_stores():
    return [Provider(name="late", summary="", make=make)]
""",
}

REASONS = {
    "raises": "RuntimeError: no luck",
    "exits": "SystemExit: leaving",
    "missing": "ModuleNotFoundError: No module named 'mischief.missing'",
    "unknown": "it implements jobq_frobnicate, which this version of jobq does not know",
    "arguments": "colour",
    "clash-one": "the backoff 'same' is offered by clash-two (mischief 0.3) too",
    "clash-two": "the backoff 'same' is offered by clash-one (mischief 0.3) too",
}


@pytest.fixture(scope="module")
def acme(make_environment, make_wheel):
    """An environment with a plugin of every kind."""
    environment = make_environment("acme")
    environment.install(make_wheel(ACME))
    return environment


@pytest.fixture(scope="module")
def mischief(make_environment, make_wheel):
    """An environment with plugins that are broken in every way, and a good one."""
    environment = make_environment("mischief")
    environment.install(make_wheel(MISCHIEF), make_wheel(ACME))
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


class TestBroken:
    def test_each_is_reported_with_its_distribution_and_why(self, mischief):
        plugins = listed(mischief)
        assert {name for name, plugin in plugins.items() if plugin["status"] == "failed"} == set(REASONS)
        for name, why in REASONS.items():
            assert why in plugins[name]["error"]
        stderr = mischief.run("plugins").stderr.splitlines()
        for name, why in REASONS.items():
            (line,) = (line for line in stderr if line.startswith(f"jobq: {name} (mischief 0.3): "))
            assert why in line

    def test_the_others_go_on(self, mischief):
        job_id = mischief.run("add", "acme-greet", '{"name": "Ada"}').stdout.strip()
        mischief.run("worker", "start", "--until-empty")
        assert mischief.json("show", "--json", job_id)["state"] == "completed"
        assert mischief.run("--version").stderr == ""
        assert mischief.run("acme").stdout == "hello from acme\n"

    @pytest.mark.parametrize("name", sorted(REASONS))
    def test_only_asking_for_it_fails(self, mischief, name):
        done = mischief.run("-p", name, "status", code=6)
        assert f"{name} (mischief 0.3): " in done.stderr
        assert "Traceback" not in done.stderr

    def test_the_core_commands_cannot_be_replaced(self, mischief):
        assert "replaced" not in mischief.run("status").stdout
        assert "the core command 'status' cannot be replaced" in mischief.run("--help").stderr

    def test_a_clash_is_over_when_one_is_blocked(self, mischief):
        plugins = listed(mischief, "-p", "no:clash-one")
        assert plugins["clash-two"]["status"] == "ok"

    def test_a_provider_that_fails_when_it_is_used_is_no_fault_in_jobq(self, mischief):
        done = mischief.run("--store", "late:", "add", "--", "true", code=6)
        assert "the store 'late' cannot be made: OSError: no such server" in done.stderr

    def test_a_handler_that_cannot_be_imported_is_a_failed_attempt(self, mischief):
        job_id = mischief.run("add", "--max-attempts", "1", "gone").stdout.strip()
        mischief.run("worker", "start", "--until-empty")
        job = mischief.json("show", "--json", job_id)
        assert job["state"] == "dead"
        assert "mischief.gone" in json.dumps(job)

    def test_strict_refuses_to_work_with_any_of_them_but_still_tells(self, mischief):
        env = {"JOBQ_PLUGINS_STRICT": "true"}
        assert "mischief 0.3" in mischief.run("status", env=env, code=6).stderr
        assert set(REASONS) <= {plugin["name"] for plugin in mischief.json("plugins", "--json", env=env)}

    def test_doctor_is_not_content(self, mischief):
        report = mischief.json("doctor", "--json", code=5)
        (check,) = (check for check in report["checks"] if check["name"] == "plugins")
        assert len(check["problems"]) == len(REASONS)
