"""What a command does not need it does not import: start-up is what a person and a shell loop pay for."""

import contextlib
import subprocess
import sys

import pytest

from jobq.presence import FilePresence
from jobq.testing import make_info

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
from jobq.cli.entry import main
try:
    main({list(args)!r})
except SystemExit as end:
    assert not end.code, end.code
"""


def test_the_command_line_imports_nothing_heavy():
    assert imported("import jobq.cli.root") & HEAVY == set()


LEFT_OUT = {"click", "dataclasses", "filelock", "inspect", "json", "pathlib", "pluggy", "re", "threading", "typing"}
"""Each costs a tenth of Python's own start or more; all of them together several times that."""


@pytest.mark.parametrize("args", [["enqueue", '{"command": "true"}'], ["add", "--", "true"]])
def test_what_a_shell_loop_runs_imports_next_to_nothing(args, tmp_path, monkeypatch):
    """In a home whose plugins and settings are remembered, and with a worker that serves the queue."""
    monkeypatch.setenv("JOBQ_HOME", str(tmp_path / "home"))
    settled = "from jobq import config, plugincache\nconfig._SETTLED_SECONDS = plugincache._SETTLED_SECONDS = -1\n"
    imported(settled + run(*args))
    (tmp_path / "home" / "config.toml").write_text("max-attempts = 7\n")
    imported(settled + run(*args))
    with contextlib.closing(FilePresence(tmp_path / "home" / "workers", make_info("w1"))):
        assert imported(run(*args)) & (HEAVY - {"jobq_json"} | LEFT_OUT) == set()


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

    from jobq.cli.base import Globals
    from jobq.cli.root import COMMANDS, root

    context = click.Context(root, obj=Globals())
    for name in COMMANDS:
        command = root.get_command(context, name)
        assert command is not None, name
        assert command.get_short_help_str(), name
        assert {"--home", "--store", "-p", "--quiet", "--debug"} <= {
            option for each in _leaves(command) for param in each.params for option in param.opts
        }, name


def _leaves(command):
    commands = getattr(command, "commands", None)
    return [command] if commands is None else list(commands.values())
