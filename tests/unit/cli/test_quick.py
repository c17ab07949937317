"""The commands that do without click: what they take they read as click does, and the rest they leave to it."""

import contextlib
import io

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobq.cli import quick, submitting
from jobq.cli.entry import main
from jobq.cli.options import ADD, ENQUEUE, GLOBAL
from jobq.cli.root import run
from jobq.cli.state import Globals
from jobq.errors import Misuse

VALUES = st.one_of(
    st.sampled_from(["", "x", "-", "--", "-x", "5", "05", "-5", "1_0", "¹", "retry", "dead", "none", "a=b", "=", "{}"]),
    st.text(max_size=5),
)
TABLES = {"enqueue": (GLOBAL, ENQUEUE), "add": (GLOBAL, ADD)}


def options(*tables):
    """One option as it may be written: whole, with its value behind it or joined to it, shortened, alone."""
    names = [name for table in tables for declarations, _ in table for name in declarations if name[0] == "-"]
    return st.tuples(st.sampled_from([*names, "--unknown", "-x", "--help"]), VALUES, st.integers(0, 9)).map(written)


def written(option):
    name, value, how = option
    if how == 0:
        return [f"{name}={value}"]
    if how == 1:
        return [name + value]
    if how == 2:
        return [name[:-1]]
    return [name, value] if how < 8 else [name]


def joined(words):
    return [word for group in words for word in group]


@st.composite
def command_lines(draw):
    command = draw(st.sampled_from(["enqueue", "add"]))
    first = draw(st.lists(options(GLOBAL), max_size=2))
    word = VALUES.map(lambda value: [value])
    rest = draw(st.lists(st.one_of(options(*TABLES[command]), options(*TABLES[command]), word), max_size=6))
    behind = draw(st.one_of(st.just([]), st.lists(VALUES, max_size=3).map(lambda words: ["--", *words])))
    return [*joined(first), command, *joined(rest), *behind]


class Recorded:
    """What was to be done, in place of doing it."""

    def __init__(self):
        self.calls = []

    def __call__(self, state, **values):
        told = {name: getattr(state, name) for name in ("home", "store", "plugins", "quiet", "debug")}
        values["words"] = tuple(values.get("words", ()))
        self.calls.append((told, values))
        return 0


@pytest.fixture(scope="module")
def recorded():
    with pytest.MonkeyPatch.context() as patch:
        made = {name: Recorded() for name in TABLES}
        for name, act in made.items():
            patch.setattr(submitting, name, act)
        yield made


def by_click(args, recorded):
    for act in recorded.values():
        act.calls.clear()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = run(list(args), Globals())
    return code, {name: list(act.calls) for name, act in recorded.items()}


def by_itself(args, recorded):
    for act in recorded.values():
        act.calls.clear()
    act = quick.taken(list(args), Globals())
    if act is None:
        return None
    return act(), {name: list(act.calls) for name, act in recorded.items()}


@given(args=command_lines())
@example(args=["--quiet", "enqueue", "{}", "--json"])
@example(args=["enqueue", "--home", "a", "--home", "b", "{}"])
@example(args=["--home", "a", "-p", "x", "add", "-p", "y", "--home", "b", "--", "true"])
@example(args=["add", "--id", "--", "true"])
@example(args=["add", "--priority=5", "-q", "mail", "-t", "a", "-t", "b", "resize", "{}"])
@settings(max_examples=1500)
def test_what_it_takes_it_reads_as_click_does(recorded, args):
    taken = by_itself(args, recorded)
    if taken is not None:
        assert taken == by_click(args, recorded)


@pytest.mark.parametrize(
    "args",
    [
        ["enqueue", '{"command": "true"}'],
        ["--quiet", "enqueue", "-"],
        ["enqueue", "--file", "jobs.jsonl", "--if-absent"],
        ["add", "--", "true"],
        ["--home", "h", "add", "--quiet", "--", "rm", "-rf", "--", "x"],
        ["add", "-q", "mail", "--priority", "5", "--tag=a", "resize", '{"width": 10}'],
        ["add", "--shell", "make && make install", "--delay", "10m", "-e", "A=b", "-C", "/tmp"],
    ],
)
def test_a_day_s_command_lines_are_taken(recorded, args):
    assert by_itself(args, recorded) == by_click(args, recorded)


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["status"],
        ["--version"],
        ["enqueue", "--help"],
        ["enqueue", "-h"],
        ["enqueue", "{}", "{}"],
        ["enqueue", "--fil", "x"],
        ["enqueue", "--file"],
        ["enqueue", "--", "{}"],
        ["--", "enqueue", "{}"],
        ["enqueue", "--home", "", "{}"],
        ["add", "-qmail", "--", "true"],
        ["add", "-wf", "--", "true"],
        ["add", "--wait", "--", "true"],
        ["add", "resize", "-"],
        ["add", "--payload-file", "x", "resize"],
        ["add", "--env-file", "x", "--", "true"],
        ["add", "--priority", "five", "--", "true"],
        ["add", "--on-lost", "forget", "--", "true"],
        ["add", "--id", "a", "--id", "b", "--", "true"],
    ],
)
def test_whatever_click_would_have_a_word_to_say_about_is_left_to_it(recorded, args):
    assert by_itself(args, recorded) is None


def test_a_shell_that_asks_for_completions_asks_click(recorded, monkeypatch):
    monkeypatch.setenv("_JOBQ_COMPLETE", "bash_complete")
    assert by_itself(["enqueue", "{}"], recorded) is None


@pytest.mark.parametrize("begun", [True, False])
def test_what_has_begun_is_not_begun_again_by_click(monkeypatch, tmp_path, capsys, begun):
    """What is called misuse after an app was made is a plugin's word, and not about the command line."""
    calls = []

    def add(state, **_values):
        calls.append(state.app if begun else None)
        raise Misuse("not like this")

    monkeypatch.setenv("JOBQ_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(submitting, "add", add)
    with pytest.raises(SystemExit) as end:
        main(["add", "--", "true"])
    assert end.value.code == 1
    told = capsys.readouterr().err
    if begun:
        assert (len(calls), told) == (1, "jobq: not like this\n")
    else:
        assert len(calls) == 2
        assert told.startswith("Usage: jobq add")
        assert told.endswith("Error: not like this\n")
