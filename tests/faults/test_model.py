"""Whatever is done to a store in whatever order, by whoever lives or dies: it answers as the model does (F62).

The machine is that of the contract (jobq/testing/store_machine.py). Here it lives through more histories, with a third
handle, and a store of JSON files is compacted, and left as those leave it who die while they write.
"""

import os
import shutil
import tempfile
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import hypothesis
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule, run_state_machine_as_test

import jobq_json
from jobq.testing import MemoryStorage, MemoryStore, make_context, make_settings
from jobq.testing.store_machine import StoreMachine, numbers

from .sizes import SIZE, rounds

pytestmark = pytest.mark.skipif(SIZE == "short", reason="in this size the contract does it")

STEPS = 50

SETTINGS = hypothesis.settings(
    max_examples=rounds(short=1, full=100, long=10_000),
    stateful_step_count=STEPS,
    deadline=None,
    database=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(hypothesis.HealthCheck),
)

(PROVIDER,) = jobq_json.jobq_stores()


class Life(StoreMachine):
    """As it is, with three handles; counts what it does.

    Attributes:
        done: how many histories and steps there were, in all lives.
    """

    handles = 3
    done: ClassVar[Counter[str]] = Counter()

    @invariant()
    def counted(self):
        """One more step, or the state at the beginning."""
        self.done["steps"] += 1


class MemoryLife(Life):
    """Of the store in memory."""

    def __init__(self):
        storage = MemoryStorage()
        super().__init__(lambda: MemoryStore(storage), lambda presence: presence.die())
        self.done["histories"] += 1


def refuse(sentence):
    raise AssertionError(sentence)


class JsonLife(Life):
    """Of a store of JSON files, which no writer may find damaged."""

    def __init__(self):
        self._directory = Path(tempfile.mkdtemp(prefix="life-"))
        self._queue = self._directory / "home" / "queue"
        context = replace(make_context(self._directory / "home"), warn=refuse)
        settings = make_settings(values={"durability": "normal"})
        super().__init__(lambda: PROVIDER.make(settings, context), self._die)
        self.done["histories"] += 1

    @rule(via=numbers)
    def compact(self, via):
        """Whoever it falls to compacts."""
        store = self._store(via)
        assert store.access.compact() or store.access.look() is None
        self.done["compactions"] += 1

    @rule(kept=st.floats(0, 1), zeros=st.sampled_from((False, False, True)))
    def tear(self, kept, zeros):
        """A writer dies in the middle of a write: a part of a record, or zeros after loss of power."""
        if journal := self._journal():
            written = journal.read_bytes().rstrip(b"\0")
            *_, record = written.splitlines()
            part = record[: int(kept * (len(record) - 1))]
            with journal.open("r+b") as file:
                file.seek(len(written))
                file.write(bytes(len(part)) if zeros else part)
            self.done["torn writes"] += 1

    @rule(what=st.sampled_from(("jobs", "journal", "done", "damaged")), ahead=st.sampled_from((1, 1, 2)))
    def leave(self, what, ahead):
        """Somebody dies in a compaction, and leaves a file of a generation that never comes into force."""
        if journal := self._journal():
            number = int(journal.name.split("-")[1].split(".")[0]) + ahead
            if what == "done":
                number += len(list(self._queue.glob("done-*")))
            path = self._queue / f"{what}-{number}.jsonl"
            if not path.exists():
                path.write_bytes(b'{"jobq":"')
                path.chmod(0o600)
                self.done["files left behind"] += 1

    def teardown(self):
        try:
            super().teardown()
        finally:
            shutil.rmtree(self._directory)

    def _journal(self):
        """The one in force, which is the only one with a readable header."""
        if not (self._queue / "queue.json").exists():
            return None
        with (self._queue / "queue.json").open() as file:
            (line,) = [line for line in file if '"journal"' in line]
        return self._queue / line.split('"')[3]

    @staticmethod
    def _die(presence):
        os.close(presence._lock_fd)
        os.close(presence.jobs_fd)
        presence._lock_fd, presence.jobs_fd = -1, None


class EagerLife(JsonLife):
    """Of one that compacts after nearly every change."""


@pytest.mark.parametrize("life", [MemoryLife, JsonLife, EagerLife])
def test_a_store_answers_as_the_model_does_whatever_is_done(monkeypatch, figure, life):
    Life.done.clear()
    if life is EagerLife:
        monkeypatch.setattr("jobq_json.access.LEAST", 600)
        monkeypatch.setattr("jobq_json.access.BLIND_LIMIT", 1800)
    run_state_machine_as_test(life, settings=SETTINGS)
    done = Life.done
    histories = done.pop("histories")
    what_was_done = ", ".join(f"{number} {what}" for what, number in sorted(done.items()))
    figure(
        f"F62 {life.__name__}",
        f"{histories} histories of up to {STEPS} steps, {what_was_done}; 0 differences from the model",
    )
    assert histories >= SETTINGS.max_examples
