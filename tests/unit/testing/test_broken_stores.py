"""The store contract is tested itself: a store with one fault fails the very tests that are there to find it."""

import os
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent
TIMEOUT = 120
SUITE = """
import os

import pytest

import broken_stores
from file_store import FileStore
from jobq.testing import MemoryStorage, MemoryStore
from jobq.testing.contracts import StoreContract


@pytest.fixture(autouse=True)
def impatience(monkeypatch):
    monkeypatch.setattr("jobq.testing.store_members.WOKEN_WITHIN", 1.0)
    monkeypatch.setattr("jobq.testing.store_sharing.SAID_WITHIN", 1.0)


class Suite(StoreContract):
    @pytest.fixture
    def open_store(self, tmp_path):
        storage = tmp_path / "store" if issubclass(self.tested, FileStore) else MemoryStorage()
        return lambda: self.tested(storage)

    def die(self, presence):
        presence.die()


class TestSound(Suite):
    tested = MemoryStore


class TestSoundInAFile(Suite):
    tested = FileStore

    def die(self, presence):
        os.close(presence._lock_fd)
        os.close(presence.jobs_fd)
        presence._lock_fd, presence.jobs_fd = -1, None


for name, fault in broken_stores.FAULTS.items():
    globals()[f"Test{name}"] = type(f"Test{name}", (Suite,), {"tested": fault.store})
"""
sys.path.insert(0, str(HERE))
from broken_stores import FAULTS, FileStore  # noqa: E402 - a module beside this one, which is in no package

sys.path.remove(str(HERE))
TABLE = [(name, test) for name, fault in FAULTS.items() for test in fault.found_by]
LINE = re.compile(r"^(PASSED|FAILED) test_suite\.py::Test(\w+)::(test_\w+)", re.MULTILINE)


def sound_one(name):
    """The suite of the store that this one is but for its fault."""
    return "SoundInAFile" if issubclass(FAULTS[name].store, FileStore) else "Sound"


def results(directory):
    """How the tests that must find something ended: (fault, test) -> `PASSED` and `FAILED`, of all parameters."""
    (directory / "test_suite.py").write_text(SUITE, encoding="utf-8")
    chosen = [*TABLE, *{(sound_one(name), test): None for name, test in TABLE}]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rA", "--tb=no", "--show-capture=no"]
        + [f"test_suite.py::Test{name}::{test}" for name, test in chosen],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])},
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    ended = defaultdict(set)
    for how, name, test in LINE.findall(done.stdout):
        ended[name, test].add(how)
    return ended


def test_each_fault_is_found_and_soundness_is_not_taken_for_one(tmp_path):
    """All in one, since all of it is run at once: it begins but one more interpreter, in whatever process this runs."""
    ended = results(tmp_path)
    assert [f"{name}: {test}" for name, test in TABLE if "FAILED" not in ended[name, test]] == []
    sound = {(sound_one(name), test) for name, test in TABLE}
    assert {each: ended[each] for each in sound if ended[each] != {"PASSED"}} == {}


def test_every_fault_says_what_finds_it():
    assert len(FAULTS) >= 50
    assert all(fault.found_by for fault in FAULTS.values())
