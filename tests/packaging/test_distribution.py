"""What is released: the wheel, the sdist, and what a fresh installation answers with every plugin there or blocked."""

import ast
import configparser
import subprocess
import sys
import tarfile
import tomllib
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PACKAGES = {"jobq", "jobq_json", "jobq_subprocess", "jobq_exponential", "jobq_log"}
BLOCKED = [word for name in PROJECT["entry-points"]["jobq"] for word in ("-p", f"no:{name}")]


def test_the_wheel_holds_the_packages_and_nothing_else(built):
    tops = {name.split("/")[0] for name in built.names}
    assert tops - {f"jobq-{PROJECT['version']}.dist-info"} == PACKAGES
    assert [name for name in built.names if "test_" in name or name.endswith((".pyc", "conftest.py"))] == []


def test_every_module_of_the_tree_is_in_the_wheel(built):
    sources = [path.relative_to(ROOT) for path in (ROOT / "jobq").rglob("*.py")]
    sources += [
        path.relative_to(ROOT / "plugins") for name in PACKAGES for path in (ROOT / "plugins" / name).rglob("*.py")
    ]
    assert len(sources) > 50
    assert {str(path) for path in sources} <= set(built.names)


def test_every_package_says_that_it_is_typed(built):
    assert {f"{name}/py.typed" for name in PACKAGES} <= set(built.names)


def test_the_entry_points_are_those_of_the_project(built):
    parser = configparser.ConfigParser()
    parser.read_string(built.metadata("entry_points.txt"))
    assert dict(parser["console_scripts"]) == PROJECT["scripts"]
    assert dict(parser["jobq"]) == PROJECT["entry-points"]["jobq"]
    assert {target.partition(".")[0] for target in dict(parser["jobq"]).values()} == PACKAGES - {"jobq"}


def test_one_version_everywhere(built):
    tree = ast.parse((ROOT / "jobq" / "__init__.py").read_text(encoding="utf-8"))
    (version,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id == "__version__"
    )
    assert version == PROJECT["version"] == message_from_string(built.metadata())["Version"]


def test_the_licence_comes_along(built):
    assert message_from_string(built.metadata())["License-Expression"] == "MIT"
    assert "Permission is hereby granted" in built.metadata("licenses/LICENSE")


def test_the_sdist_has_what_it_takes_to_test_it(built):
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {"pyproject.toml", "tox.ini", "README.md", "LICENSE", "jobq/__init__.py", "plugins/jobq_log/__init__.py"}
    assert wanted | {f"tests/packaging/{Path(__file__).name}"} <= names
    assert [name for name in names if name.startswith((".tox", ".venv", ".git/", ".ci"))] == []


def test_the_index_would_take_both(built):
    command = [sys.executable, "-m", "twine", "check", "--strict", built.wheel, built.sdist]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_fresh_installation_answers(environment):
    assert environment.run("--version").stdout == f"jobq {PROJECT['version']}\n"
    plugins = environment.json("plugins", "--json")
    assert {plugin["name"]: plugin["status"] for plugin in plugins} == dict.fromkeys(
        PROJECT["entry-points"]["jobq"], "ok"
    )
    assert {(plugin["distribution"], plugin["version"]) for plugin in plugins} == {("jobq", PROJECT["version"])}


def test_a_fresh_installation_runs_a_job(environment):
    job_id = environment.run("add", "--", "echo", "hello", home="runs").stdout.strip()
    environment.run("worker", "start", "--until-empty", home="runs")
    assert environment.run("logs", job_id, home="runs").stdout == "hello\n"


def test_it_is_what_was_built_that_runs(environment):
    code = "import jobq, jobq_json; print(jobq.__file__, jobq_json.__file__)"
    done = subprocess.run(
        [environment.python, "-c", code], check=False, capture_output=True, text=True, cwd=ROOT, env=environment.environ
    )
    assert [Path(name).parents[1] for name in done.stdout.split()] == [environment.site] * 2


@pytest.mark.parametrize("args", [["--version"], ["--help"], ["plugins"], ["config", "list"], ["handlers"]])
def test_the_kernel_alone_answers(environment, args):
    done = environment.run(*BLOCKED, *args)
    assert "Traceback" not in done.stderr


def test_the_kernel_alone_lists_what_is_blocked_and_what_is_not_well(environment):
    plugins = environment.json(*BLOCKED, "plugins", "--json")
    assert {plugin["status"] for plugin in plugins} == {"blocked"}
    report = environment.json(*BLOCKED, "doctor", "--json", code=5)
    troubled = {check["name"] for check in report["checks"] if not check["ok"]}
    assert not report["ok"]
    assert "plugins" in troubled


@pytest.mark.parametrize(
    ("block", "args", "missing"),
    [
        ("json", ["add", "--", "true"], "store 'json'"),
        ("subprocess", ["worker", "start", "--until-empty"], "executor 'subprocess'"),
        ("exponential", ["worker", "start", "--until-empty"], "backoff 'exponential'"),
    ],
)
def test_what_needs_a_blocked_plugin_says_so(environment, block, args, missing):
    done = environment.run("-p", f"no:{block}", *args, code=6, home="blocked")
    assert f"{missing}" in done.stderr
    assert "blocked" in done.stderr
    assert "Traceback" not in done.stderr
