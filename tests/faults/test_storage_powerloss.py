"""The power is cut after every call: what was acknowledged is there, and the rest is there whole or not at all."""

from dataclasses import dataclass

import pytest

from jobq.errors import JobqError

from .capabilities import need
from .homes import UNREADABLE, State, goes_on, opened, state_of
from .injecting import Call, Fault, noted
from .powerloss import Disk
from .sizes import SIZE, rounds
from .stores import JSON, SQLITE

LARGE = "".join(
    f'{{"id": "large-{number}", "handler": "unknown", "payload": {{"text": "{"x" * 150_000}"}}}}\n'
    for number in range(8)
)
BATCH = "".join(f'{{"id": "batch-{number}", "command": "true"}}\n' for number in range(5))

STORY = (
    (("add", "--id", "one", "--shell", "true"), None),
    (("add", "--id", "two", "--max-attempts", "1", "--shell", "exit 3"), None),
    (("enqueue", "-"), BATCH),
    (("cancel", "batch-4"), None),
    (("worker", "start", "--until-empty"), None),
    (("retry", "two"), None),
    (("worker", "start", "--until-idle"), None),
    (("enqueue", "--allow-unknown-handler", "-"), LARGE),
    (("pause", "other"), None),
    (("prune", "--older-than", "0.001"), None),
    (("dlq", "purge", "two"), None),
)
"""What is done in a home that is not there at first; a compaction comes with `pause`."""


@dataclass(frozen=True)
class Step:
    """One command, with what the store held before and after it."""

    words: tuple[str, ...]
    calls: list[Call]
    before: State
    after: State

    def allows(self, found: State, answered: bytes) -> bool:
        """Whether a store may hold that after a power cut, when the command had answered so much."""
        if self.words[0] != "worker":
            return found == self.after or (not answered and found == self.before)
        return found.keys() == self.before.keys() == self.after.keys() and all(
            found[job_id] == self.after[job_id]
            or (
                f"  {job_id}  " not in answered.decode()
                and (found[job_id] == self.before[job_id] or found[job_id][0] == "processing")
            )
            for job_id in found
        )


def tell(directory, cli, store):
    """Give the commands of `STORY`: the home in which they were given, and each with the calls that it made."""
    cli.environ["PYTHONSAFEPATH"] = "1"
    cli.home.mkdir(mode=0o700)
    store.choose(cli.home)
    steps: list[Step] = []
    before: State = {}
    for number, (words, stdin) in enumerate(STORY if store is JSON or SIZE != "short" else STORY[:3]):
        notes = directory / f"notes-{number}"
        cli(*words, input=stdin, env=Fault(()).environ(cli.home, notes))
        after = state_of(cli.home)
        steps.append(Step(words, noted(notes), before, after))
        before = after
    assert not (cli.home / "queue" / "journal-1.jsonl").exists()
    return cli.home, steps


@pytest.fixture(scope="module")
def stories():
    """Those that have been told, by the store."""
    return {}


@pytest.fixture
def story(stories, store, tmp_path_factory, new_cli):
    """What `tell` answers, told once for each store."""
    need("compiler")
    if store not in stories:
        directory = tmp_path_factory.mktemp("story")
        stories[store] = tell(directory, new_cli(directory / "cli"), store)
    return stories[store]


class Lab:
    """Cuts the power after every call of a story, and looks at what is left.

    Args:
        control: whether one that is wrong is enough.

    Attributes:
        cuts: how many there were.
        wrong: those that lost or altered anything, one sentence each.
    """

    def __init__(self, story, directory, disk, store, *, control=False):
        self._store, (self._origin, steps) = store, story
        self._place = directory / "cut"
        self.cuts, self.wrong, self._seen = 0, [], set()
        for step in steps:
            for cut in disk.cuts(step.calls):
                self.cuts += 1
                self._look(step, cut)
                if control and self.wrong:
                    return

    def _look(self, step, cut):
        key = hash((step.words, cut.answered, *sorted(cut.files.items())))
        if key in self._seen:
            return
        self._seen.add(key)
        cut.restore(self._origin, self._place)
        self._store.choose(self._place)
        home = self._place
        try:
            found = state_of(home)
            if found == UNREADABLE and step.before == {} and not cut.answered:  # zeros for the store's first files
                with opened(home) as store:
                    store.repair()
                found = state_of(home)
            told = "" if step.allows(found, cut.answered) else f"it holds {found}"
            if found and not told:
                goes_on(home)
        except (JobqError, AssertionError) as error:
            told = f"{type(error).__name__}: {error}"
        if told:
            where = f"{cut.kind} after {cut.after.name} {cut.after.path}"
            self.wrong.append(f"jobq {' '.join(step.words)}: {where}: {told}"[:600])


def test_nothing_is_lost_that_was_acknowledged(story, tmp_path, store, figure):
    lab = Lab(story, tmp_path, Disk(by_chance=rounds(short=0, full=10, long=100)), store)
    assert lab.wrong == []
    figure("F21", f"{lab.cuts} simulated power cuts: 0 acknowledged lost, 0 unreadable stores")


@pytest.mark.parametrize(
    ("store", "ignored"),
    [
        pytest.param(JSON, ("fsync", "/queue"), id="the directory"),
        pytest.param(JSON, ("fdatasync", "/queue/journal-"), id="the journal"),
        pytest.param(JSON, ("fdatasync", "/queue/jobs-"), id="the sorted run"),
        pytest.param(JSON, ("fdatasync", "/queue/done-"), id="the archive"),
        pytest.param(JSON, ("fdatasync", "/queue/.queue.json"), id="the manifest"),
        pytest.param(SQLITE, ("fdatasync", "/queue.sqlite3-wal"), id="the log of SQLite"),
        pytest.param(SQLITE, ("fdatasync", "/queue.sqlite3"), id="the database"),
    ],
    indirect=["store"],
)
def test_the_lab_finds_a_sync_that_is_missing(story, tmp_path, store, ignored):
    assert Lab(story, tmp_path, Disk(ignored=[ignored]), store, control=True).wrong != []
