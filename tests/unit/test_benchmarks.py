"""What benchmarks are made of: rows and their targets, what is kept of a run, and how two runs are compared."""

import ast
import json
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(BENCHMARKS)
    import compare
    import measuring
    import plot
    import report
    import run as running


def row(name="store.add", samples=(2.0, 4.0, 6.0), *, better="lower", **more):
    return measuring.row(name, "adding", list(samples), unit="ms", better=better, **more)


def kept(*rows, **more):
    facts = {"cpu": "a", "cores": 2, "kernel": "Linux 6", "python": "CPython 3", "filesystem": "ext4"}
    return measuring.Run(date="2026-07-11T20:57:58+00:00", commit=None, machine=facts, jobq="0.1.0", rows=rows, **more)


@pytest.fixture
def files(tmp_path):
    """Writes runs, and gives their paths."""

    def write(*runs):
        paths = [str(tmp_path / f"{number}.json") for number in range(len(runs))]
        for path, one in zip(paths, runs, strict=True):
            one.write(path)
        return paths

    return write


def test_a_row_has_the_medians_and_the_median_of_the_pairs():
    one = row(samples=[1.0, 10.0, 3.0], floor="bare", beside=[1.0, 2.0, 3.0])
    assert (one.figure, one.floor_figure, one.ratio) == (3.0, 2.0, 1.0)
    assert one.samples == {"figure": [1.0, 10.0, 3.0], "floor": [1.0, 2.0, 3.0]}


def test_without_pairs_it_is_the_ratio_of_the_medians():
    assert row(floor="bare", beside=[8.0]).ratio == 0.5


def test_a_row_may_be_of_another_percentile():
    of = partial(measuring.percentile, share=0.99)
    one = row(samples=range(1, 101), floor="bare", beside=range(2, 202, 2), of=of)
    assert (one.figure, one.floor_figure, one.ratio) == (99, 198, 0.5)


@pytest.mark.parametrize(("share", "expected"), [(0, 1), (0.5, 2), (0.51, 3), (0.99, 4), (1, 4)])
def test_a_percentile_is_a_sample(share, expected):
    assert measuring.percentile([4, 2, 3, 1], share) == expected


def test_a_row_without_a_floor_has_no_ratio():
    one = row()
    assert (one.floor, one.floor_figure, one.ratio, one.target, one.met) == (None, None, None, "", None)


@pytest.mark.parametrize(
    ("better", "target", "text", "met"),
    [
        ("lower", measuring.figure(4), "<= 4 ms", True),
        ("lower", measuring.figure(3.9), "<= 3.9 ms", False),
        ("higher", measuring.figure(4), ">= 4 ms", True),
        ("higher", measuring.figure(12_000), ">= 12,000 ms", False),
        ("lower", measuring.ratio(2), "<= 2 x", True),
        ("higher", measuring.ratio(2.01), ">= 2.01 x", False),
    ],
)
def test_a_target_is_a_bound_in_the_direction_that_is_better(better, target, text, met):
    one = row(better=better, target=target, floor="bare", beside=[2.0])
    assert (one.target, one.met) == (text, met)


def test_nobody_can_miss_a_ratio_to_what_was_not_measured():
    assert row(target=measuring.ratio(2)).met is None


def test_every_second_round_goes_the_other_way():
    calls = []
    acts = {name: lambda name=name: calls.append(name) or float(len(calls)) for name in "ab"}
    assert measuring.in_turn(acts, 3) == {"a": [1.0, 4.0, 5.0], "b": [2.0, 3.0, 6.0]}
    assert "".join(calls) == "abbaab"


def test_polling_ends_with_what_was_found_or_in_time():
    assert measuring.until(iter([0, "", "there"]).__next__, every=0) == "there"
    with pytest.raises(TimeoutError, match=r"within 0\.0 s"):
        measuring.until(lambda: False, within=0.0, every=0)


def test_what_is_started_has_no_settings_of_ours(monkeypatch):
    for name in ("JOBQ_HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH"):
        monkeypatch.setenv(name, "1")
    assert measuring.environ(MORE="2").items() >= {("PYTHONSAFEPATH", "1"), ("MORE", "2")}
    assert not measuring.environ().keys() & {"JOBQ_HOME", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH"}


def test_a_function_of_a_driver_runs_in_a_new_process():
    assert measuring.in_new_process(measuring.shown, 12_345.6) == "12,300"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.05449, "0.0545"),
        (1, "1"),
        (99.96, "100"),
        (456.7, "457"),
        (999.9, "1000"),
        (1_234_567, "1,230,000"),
    ],
)
def test_numbers_have_three_digits(value, text):
    assert measuring.shown(value) == text


def test_the_table_has_a_line_a_row():
    lines = measuring.table([row(), row("b", target=measuring.figure(1), floor="bare", beside=[1.0])]).splitlines()
    assert lines[0].split() == list(measuring.HEADS)
    assert lines[1].split() == ["store.add", "adding", "4", "ms"]
    assert lines[2].split() == ["b", "adding", "4", "ms", "bare", "1", "ms", "4.00", "<=", "1", "ms", "NO"]


def test_a_run_is_read_as_it_was_written(files):
    written = kept(row(), row("b", target=measuring.figure(1), settings={"durability": "full"}), small=True)
    (path,) = files(written)
    assert measuring.Run.read(path) == written
    assert json.loads(Path(path).read_text(encoding="utf-8"))["rows"][1]["settings"] == {"durability": "full"}


def test_a_run_says_where_it_was(tmp_path):
    here = measuring.Run.here([row()], tmp_path)
    assert here.machine.keys() == {"cpu", "cores", "kernel", "python", "filesystem"}
    assert here.machine["python"].endswith(".".join(map(str, sys.version_info[:3])))


@pytest.mark.parametrize(
    ("better", "before", "after", "worse"),
    [("lower", 1.0, 1.2, 20), ("lower", 1.0, 0.8, -20), ("higher", 1.0, 0.8, 20), ("higher", 1.0, 1.2, -20)],
)
def test_worse_is_up_or_down(better, before, after, worse):
    old, new = (row(samples=[value], better=better) for value in (before, after))
    assert compare.Difference(old, new).worse == worse


def test_a_slower_machine_is_no_worse():
    old = row(samples=[2.0], floor="bare", beside=[1.0])
    new = row(samples=[20.0], floor="bare", beside=[10.0])
    assert compare.Difference(old, new).worse == 0
    assert compare.Difference(old, replace(new, ratio=None)).worse == 900


@pytest.mark.parametrize(("after", "worse"), [(0.0, 0), (0.1, float("inf"))])
def test_nothing_is_no_divisor(after, worse):
    assert compare.Difference(row(samples=[0.0]), row(samples=[after])).worse == worse


@pytest.mark.parametrize(("by", "code"), [([], 1), (["--by", "20"], 1), (["--by", "21"], 0)])
def test_rows_that_got_worse_are_named(files, capsys, by, code):
    old = kept(row("a", [10.0]), row("b", [10.0]), row("gone"))
    new = kept(row("a", [12.0]), row("b", [11.9], settings={"count": 1}), row("new"))
    assert compare.main([*files(old, new), *by]) == code
    told = capsys.readouterr().out
    assert f"% or more: {'a' if code else 'none'}\n" in told
    assert "in one run only: gone, new\n" in told
    assert told.count("WORSE") == code
    assert told.count("(with other settings)") == 1


def test_machines_that_differ_are_told(files, capsys):
    old, new = kept(row()), replace(kept(row(), small=True), machine={"cpu": "another"})
    assert compare.main(files(old, new)) == 0
    told = capsys.readouterr().out
    assert "not the same machine" in told
    assert "its figures mean nothing" in told


def test_the_page_is_rewritten_between_its_marks():
    one = row("store.add", floor="a | b", beside=[1.0], target=measuring.figure(1))
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    written = report.written(page, report.text(kept(one, row("other.b"))))
    assert written.startswith(f"before\n{report.BEGIN}\n")
    assert written.endswith(f"{report.END}\nafter\n")
    assert "old" not in written
    assert "0 of 1 targets met" in written
    assert "### store\n" in written
    assert "### other\n" in written
    assert "| `add` | adding | 4 ms | 1 ms, a \\| b | 4.00 | <= 1 ms | no |\n" in written
    assert report.written(written, "again") == report.written(page, "again")


@pytest.mark.parametrize("page", ["", report.BEGIN, f"{report.END}{report.BEGIN}", f"{report.BEGIN}{report.END * 2}"])
def test_a_page_without_marks_is_left_alone(page):
    with pytest.raises(ValueError, match="once each"):
        report.written(page, "text")


def test_the_page_that_is_there_has_its_marks():
    page = report.PAGE.read_text(encoding="utf-8")
    assert report.written(page, "text") != page


def test_curves_go_by_the_number_of_live_jobs():
    rows = [row(f"growing.add.{live}", settings={"operation": "add", "live": live}) for live in (1000, 10, 100)]
    found = plot.curves(kept(*rows, row("other")))
    assert {name: [one.settings["live"] for one in points] for name, points in found.items()} == {
        "add": [10, 100, 1000]
    }


@pytest.mark.parametrize("name", [*running.DRIVERS, *running.OTHER_STORES])
def test_every_driver_has_rows(name):
    tree = ast.parse((BENCHMARKS / f"{name}.py").read_text(encoding="utf-8"))
    assert "rows" in [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
