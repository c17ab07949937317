"""Faults are planted in a copy of jobq, one at a time; the test that guards against each must fail (F64)."""

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.util import cache_from_source
from pathlib import Path
from queue import SimpleQueue

import pytest

from .mutants import MUTANTS
from .sizes import SIZE, rounds

ROOT = Path(__file__).parents[2]

SQLITE = "plugins/jobq-sqlite/src/jobq_sqlite"
"""Where that plugin lies, which is a distribution of its own."""

AT_ONCE = 2

QUICK = ("the checksum of a line", "the identity of who is signalled")
"""Those that are planted in the short size."""

WITNESS = """\
import importlib
import json
import os
from pathlib import Path

HERE = Path(__file__).parent
told = {"modules": [], "failed": [], "passed": [], "skipped": [], "broken": []}


def pytest_configure(config):
    for name in ("jobq", "jobq_json", *os.environ["WITNESS_MODULES"].split()):
        module = importlib.import_module(name)
        assert HERE in Path(module.__file__).parents, f"{name} comes from {module.__file__}"
        told["modules"].append(name)


def pytest_runtest_logreport(report):
    if report.when == "call" or report.skipped:
        told[report.outcome].append(report.nodeid)
    elif report.failed:
        told["broken"].append(report.nodeid)


def pytest_unconfigure(config):
    Path(os.environ["WITNESS"]).write_text(json.dumps(told))
"""
"""A plugin of pytest in the copy: that it is the copy which is tested, and what has become of the tests."""


class Copy:
    """A copy of jobq and its plugins in which tests can be run, and faults be planted."""

    def __init__(self, directory):
        self._directory, self._runs = directory, 0
        for path in (ROOT / "jobq", *(ROOT / "plugins").glob("jobq_*"), ROOT / SQLITE):
            shutil.copytree(path, directory / path.relative_to(ROOT))
        (directory / "witness.py").write_text(WITNESS)

    def run(self, tests, modules=()):
        """Run tests on it; what was witnessed, and what was printed."""
        self._runs += 1
        place = self._directory / f"run-{self._runs}"
        place.mkdir()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "JOBQ"))}
        environ = kept | {
            "PYTHONPATH": os.pathsep.join(str(self._directory / each) for each in ("", "plugins", Path(SQLITE).parent)),
            "PYTHONSAFEPATH": "1",
            "WITNESS": str(place / "told"),
            "WITNESS_MODULES": " ".join(modules),
        }
        options = ["-c", ROOT / "pyproject.toml", "--rootdir", ROOT, "--basetemp", place / "tmp", "-q", "--tb=short"]
        plugins = ["-p", "no:cacheprovider", "-p", "no:xdist", "-p", "witness"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *options, *plugins, *(str(ROOT / test) for test in tests)],
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            cwd=place,
            env=environ,
        )
        told = json.loads((place / "told").read_text()) if (place / "told").exists() else {}
        shutil.rmtree(place, ignore_errors=True)
        return told, done.stdout

    def plant(self, mutant):
        """Plant a fault and run the test that must find it: "caught", "skipped", or else what was printed."""
        path = self._directory / mutant.file
        sound = path.read_text()
        assert sound.count(mutant.old) == 1
        package = mutant.file.removeprefix(str(Path(SQLITE).parent) + "/").removeprefix("plugins/")
        module = package.removesuffix(".py").replace("/", ".")
        try:
            self._write(path, sound.replace(mutant.old, mutant.new))
            told, printed = self.run([mutant.test], [module])
        finally:
            self._write(path, sound)
        if told.get("failed"):  # a test, and nothing that is only made ready for it
            return "caught"
        return "skipped" if told.get("skipped") and not told["passed"] else printed

    @staticmethod
    def _write(path, text):
        path.write_text(text)
        Path(cache_from_source(path)).unlink(missing_ok=True)


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    """As many copies as are tested at once, and those who take one."""
    free = SimpleQueue()
    for number in range(1 if SIZE == "short" else AT_ONCE):
        free.put(Copy(tmp_path_factory.mktemp(f"copy-{number}")))
    return free


def chosen():
    """The faults that are planted in this size."""
    if SIZE == "short":
        return [mutant for mutant in MUTANTS if mutant.what in QUICK]
    return MUTANTS[:: rounds(short=0, full=4, long=1)]


def test_no_two_faults_have_the_same_name():
    names = [mutant.what for mutant in MUTANTS]
    assert sorted(names) == sorted(set(names))
    assert set(QUICK) < set(names)


@pytest.mark.parametrize("file", sorted({mutant.file for mutant in MUTANTS}))
def test_each_fault_can_still_be_planted(file):
    text = (ROOT / file).read_text()
    for mutant in MUTANTS:
        if mutant.file == file:
            assert text.count(mutant.old) == 1, f"{mutant.what}: it is not there once any more"
            compile(text.replace(mutant.old, mutant.new), file, "exec")


def test_the_tests_pass_where_no_fault_is_planted(copies):
    copy = copies.get()
    told, printed = copy.run(sorted({mutant.test for mutant in chosen()}))
    copies.put(copy)
    assert told.get("passed"), printed
    assert not told["failed"] + told["broken"], printed


def test_each_planted_fault_is_found(copies, figure):
    def plant(mutant):
        copy = copies.get()
        try:
            return copy.plant(mutant)
        finally:
            copies.put(copy)

    mutants = chosen()
    with ThreadPoolExecutor(copies.qsize()) as pool:
        results = list(pool.map(plant, mutants))
    missed = [
        f"{mutant.what} ({mutant.file}), by {mutant.test}:\n{result}"
        for mutant, result in zip(mutants, results, strict=True)
        if result not in ("caught", "skipped")
    ]
    skipped = results.count("skipped")
    assert not missed, f"{len(missed)} not found\n" + "\n".join(missed)
    figure(
        "F64 planted faults",
        f"caught {results.count('caught')} of {len(mutants) - skipped}"
        + (f"; {skipped} by tests that this machine cannot run" if skipped else ""),
    )
