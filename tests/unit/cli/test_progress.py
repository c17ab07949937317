"""Progress as people see it, and how fast jobs end."""

from __future__ import annotations

import pytest

from jobq.cli.progress import bar, in_full, in_short, line, of_all, progress_of, reported
from jobq.cli.watch import Rate
from jobq.job import State
from jobq.members import RunningJob
from jobq.progress import Progress
from jobq.store import Counts
from jobq.testing import START, make_info


@pytest.mark.parametrize(
    ("progress", "short", "full"),
    [
        (Progress(3, 10, "resizing"), "3/10 (30%)", "3/10 (30%) resizing"),
        (Progress(3, 10), "3/10 (30%)", "3/10 (30%)"),
        (Progress(7), "7", "7"),
        (Progress(7, None, "files"), "7", "7 files"),
        (Progress(999, 1000), "999/1000 (99%)", "999/1000 (99%)"),
        (Progress(12, 10), "12/10 (100%)", "12/10 (100%)"),
        (Progress(0.5, 2), "0.5/2 (25%)", "0.5/2 (25%)"),
        (Progress(1, 2, "a\x1b[2J\n\u202eb"), "1/2 (50%)", "1/2 (50%) a\\x1b[2J\\n\\u202eb"),
    ],
)
def test_progress_in_short_and_in_full(progress, short, full):
    assert (in_short(progress), in_full(progress)) == (short, full)


def test_a_bar_is_full_only_at_the_end():
    assert bar(0) == "[------------------------]   0%"
    assert bar(0.25) == "[######------------------]  25%"
    assert bar(0.999) == "[#######################-]  99%"
    assert bar(1) == "[########################] 100%"
    assert bar(0.29) == "[######------------------]  29%", "0.29 * 100 is below 29"


def test_a_line_has_a_bar_where_the_total_is_known():
    assert line(Progress(1, 4, "one")) == f"{bar(0.25)}  1/4 one"
    assert line(Progress(7, None, "files")) == "7 files"


@pytest.mark.parametrize(
    "record", [None, {}, {"done": None}, {"done": "3"}, {"done": -1}, {"done": 1, "total": "x"}, {"done": True}]
)
def test_what_is_no_progress_is_none(record):
    assert progress_of(record) is None


def test_what_workers_report_is_found_by_id_and_run():
    running = (
        RunningJob(job="a", run=2, started=START, progress={"done": 1, "total": 2, "note": "n"}),
        RunningJob(job="b", run=1, started=START),
    )
    assert reported([make_info(running=running), make_info()]) == {("a", 2): Progress(1, 2, "n")}


def test_one_bar_for_all_counts_ended_jobs_whole_and_running_ones_in_part():
    progress = {("a", 1): Progress(1, 2, "half"), ("b", 3): Progress(5), ("other", 1): Progress(1, 1)}
    assert of_all(["a", "b", "c"], 1, progress) == f"{bar(1.5 / 4)}  1 of 4 jobs  1/2 half, 5"
    assert of_all(["c", "d"], 0, progress) == f"{bar(0)}  0 of 2 jobs"
    assert of_all([], 2, progress) == f"{bar(1)}  2 of 2 jobs"


def test_one_job_alone_is_shown_as_what_it_reports():
    progress = {("a", 1): Progress(1, 2, "half")}
    assert of_all(["a"], 0, progress) == f"{bar(0.5)}  1/2 half"
    assert of_all(["b"], 0, progress) == ""


def counts(completed=0, dead=0):
    states = {**dict.fromkeys(State, 0), State.COMPLETED: completed, State.DEAD: dead}
    return Counts(queues={"default": states}, paused={}, later=0)


def test_the_rate_is_that_of_the_last_ten_seconds():
    rate = Rate()
    rate.see(counts(completed=100), 0.0)
    assert rate.text() == ""
    rate.see(counts(completed=104, dead=1), 2.0)
    assert rate.text() == "finished 2.5 a second"
    for second in range(3, 13):
        rate.see(counts(completed=104, dead=1), float(second))
    assert rate.text() == "finished 0.0 a second"


def test_jobs_that_are_deleted_do_not_lower_the_rate():
    rate = Rate()
    rate.see(counts(completed=100), 0.0)
    rate.see(counts(completed=110), 1.0)
    rate.see(counts(completed=0), 2.0)
    rate.see(counts(completed=10), 4.0)
    assert rate.text() == "finished 5.0 a second"
