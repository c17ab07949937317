"""The rules that make every part a plugin: the kernel imports none, and one module alone touches pluggy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import jobq

KERNEL = Path(jobq.__file__).parent
SOURCES = sorted(KERNEL.rglob("*.py"))
PLUGINS = ("jobq_json", "jobq_subprocess", "jobq_exponential", "jobq_log")
PLUGGY = {"pluginloader.py", "hookspecs.py", "hooks.py"}  # the last for type checkers alone


def imported(tree):
    """The modules that a source imports, by statement or by a name in a text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("jobq_"):
            yield node.value


def names_a_plugin(tree):
    return [name for name in imported(tree) if name.split(".")[0] in PLUGINS]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(KERNEL)))
def test_the_kernel_imports_no_plugin(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    assert names_a_plugin(tree) == []
    if path.name not in PLUGGY:
        assert "pluggy" not in imported(tree)


@pytest.mark.parametrize(
    "source",
    [
        "import jobq_json",
        "def f():\n    from jobq_log.sinks import log",
        "import importlib\nimportlib.import_module('jobq_subprocess.child')",
    ],
)
def test_the_look_itself_sees_one(source):
    assert names_a_plugin(ast.parse(source)) != []


def test_importing_all_of_the_kernel_brings_no_plugin():
    modules = [".".join(path.relative_to(KERNEL.parent).with_suffix("").parts) for path in SOURCES]
    modules = [name.removesuffix(".__init__") for name in modules if not name.endswith("__main__")]
    code = f"import importlib, sys\nfor name in {modules}: importlib.import_module(name)\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert "jobq.worker" in loaded
    assert [name for name in loaded if name.split(".")[0] in PLUGINS] == []
