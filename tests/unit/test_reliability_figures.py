"""The page of figures: what it has stays, unless it is measured anew in the same size or a larger one."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MACHINE = "Linux, 2 CPUs"


@pytest.fixture(scope="module")
def report():
    spec = importlib.util.spec_from_file_location("report", ROOT / "tests" / "faults" / "report.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measured(name="F01 kills", text="7 kills, 0 lost", size="full"):
    return {
        "test": "tests/faults/test_death.py::test_kills[a]",
        "name": name,
        "text": text,
        "size": size,
        "date": "2026-11-30T14:39:35+00:00",
        "commit": "c1185c9298065eaedfe326e369f302aebc681676",
        "machine": MACHINE,
    }


def test_the_page_is_read_as_it_was_written(report):
    figures = {}
    for name, text in (("F01 kills", "7 kills, 0 lost"), ("F02: a | b", "0 | 1"), ("F03 `x`", "a, b (c)")):
        assert report.add(figures, measured(name.replace("|", "/"), text)) == MACHINE
    page = report.written(figures, {MACHINE})
    assert report.figures_of(page) == figures
    assert "| F01 kills | 7 kills, 0 lost | full, 2026-11-30, `c1185c9298` |\n" in page
    assert "0 / 1" in page


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [("full", "full", "new"), ("full", "long", "new"), ("long", "full", "old"), ("full", "short", "old")],
)
def test_a_smaller_size_does_not_take_the_place_of_a_larger_one(report, before, after, kept):
    figures = {}
    report.add(figures, measured(text="old", size=before))
    report.add(figures, measured(text="new", size=after))
    (figure,) = figures.values()
    assert figure["text"] == kept


def test_files_of_other_distributions_are_told_with_their_paths(report):
    figures = {}
    report.add(figures, measured())
    report.add(figures, measured() | {"test": "plugins/jobq-postgres/tests/test_death.py::test_kills"})
    page = report.written(figures, {MACHINE})
    assert "## plugins/jobq-postgres/tests/test_death.py\n" in page
    assert "## test_death.py\n" in page
    assert report.figures_of(page) == figures


def test_every_row_of_the_page_that_there_is_is_read(report):
    page = report.PAGE.read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and "what came of it" not in line]
    assert len(report.figures_of(page)) == len(rows) > 100
    assert report.written(report.figures_of(page), {"x"}).count("\n| ") == page.count("\n| ")
