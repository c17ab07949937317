"""What a command does not need it does not import: start-up is what a person and a shell loop pay for."""

import subprocess
import sys

import pytest

HEAVY = {
    "asyncio",
    "concurrent.futures",
    "ctypes",
    "email",
    "importlib.metadata",
    "jobq.worker",
    "jobq_exponential",
    "jobq_json",
    "jobq_log",
    "jobq_subprocess",
    "logging",
    "multiprocessing",
    "socket",
    "sqlite3",
    "subprocess",
    "tomlkit",
    "tomllib",
}


def imported(code):
    """The modules that are there after `code`, run in a process of its own, beyond those of an empty one."""
    script = f"import sys\nbefore = set(sys.modules)\n{code}\nprint(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split())


def run(*args):
    return f"""
from jobq.cli import main
try:
    main({list(args)!r})
except SystemExit as end:
    assert not end.code, end.code
"""


def test_the_command_line_imports_nothing_heavy():
    assert imported("import jobq.cli") & HEAVY == set()


def test_the_package_imports_next_to_nothing():
    extra = imported("import jobq")
    assert extra & (HEAVY | {"click", "pluggy", "filelock", "json", "dataclasses"}) == set()


@pytest.mark.parametrize("args", [["--version"], ["list", "--help"], ["why", "--help"]])
def test_what_touches_no_queue_loads_neither_plugins_nor_the_app(args, tmp_path, monkeypatch):
    monkeypatch.setenv("JOBQ_HOME", str(tmp_path / "home"))
    assert imported(run(*args)) & (HEAVY | {"jobq.app", "jobq.queue", "pluggy", "filelock"}) == set()


def test_a_reading_command_brings_no_event_loop_and_no_database(tmp_path, monkeypatch):
    monkeypatch.setenv("JOBQ_HOME", str(tmp_path / "home"))
    modules = imported(run("list", "--json"))
    assert "jobq_json" in modules
    assert modules & {"asyncio", "sqlite3", "multiprocessing", "jobq.worker", "jobq_subprocess.executor"} == set()


def test_every_command_is_found_and_has_a_help_text():
    import click

    from jobq import cli

    context = click.Context(cli.root, obj=cli.Globals())
    for name in cli._COMMANDS:
        command = cli.root.get_command(context, name)
        assert command is not None, name
        assert command.get_short_help_str(), name
        assert {"--home", "--store", "-p", "--quiet", "--debug"} <= {
            option for each in _leaves(command) for param in each.params for option in param.opts
        }, name


def _leaves(command):
    commands = getattr(command, "commands", None)
    return [command] if commands is None else list(commands.values())
