"""The notes of which runs have begun."""

from __future__ import annotations

import errno
import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from jobq.errors import StoreUnavailable
from jobq.started import REGION, StartedRuns, noted, path_of
from jobq.testing import START, make_job

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = "x" * 128


def run(job_id, number, created_at=START):
    return make_job(job_id, run=number, created_at=created_at)


def has(home, *runs):
    """Which of these the notes of the worker have."""
    notes = noted(home, "w")
    return [notes.has(each) for each in runs]


@pytest.fixture
def notes(tmp_path: Path):
    """Makes regions of one file."""
    (tmp_path / "workers").mkdir()
    descriptor = os.open(path_of(tmp_path, "w"), os.O_RDWR | os.O_CREAT, 0o600)
    yield lambda region=0: StartedRuns(descriptor, region)
    os.close(descriptor)


def test_what_was_noted_is_read_after_its_process(notes, tmp_path):
    first, second = notes(0), notes(3)
    noted_runs = run("a", 1), run(LONGEST, 10**19), run("b", 7)
    first.note(noted_runs[0])
    first.note(noted_runs[1])
    second.note(noted_runs[2])
    assert has(tmp_path, *noted_runs) == [True, True, True]
    assert has(tmp_path, run("a", 2), run("b", 1), run("c", 7)) == [False, False, False]


def test_a_region_tells_what_it_has(notes):
    region = notes(1)
    region.note(run("abc", 12))
    assert region.has(run("abc", 12))
    for job_id, number in (("abc", 1), ("abc", 2), ("bc", 12), ("ab", 12), ("abc", 112)):
        assert not region.has(run(job_id, number))
    assert not notes(0).has(run("abc", 12))


def test_a_run_of_another_job_that_had_the_same_id_is_another_run(notes, tmp_path):
    region = notes(0)
    region.note(run("a", 1))
    later = run("a", 1, START + timedelta(milliseconds=1))
    assert not region.has(later)
    assert has(tmp_path, run("a", 1), later) == [True, False]


def test_the_next_process_of_a_region_goes_on_behind_the_last(notes, tmp_path):
    runs = [run("job", number) for number in range(10)]
    for each in runs:
        notes(0).note(each)
    assert all(has(tmp_path, *runs))


def test_only_the_latest_are_kept(notes, tmp_path):
    region = notes(0)
    for number in range(1000):
        region.note(run("job", number))
    assert all(has(tmp_path, *(run("job", number) for number in range(900, 1000))))
    assert has(tmp_path, run("job", 0)) == [False]
    assert os.path.getsize(path_of(tmp_path, "w")) == REGION


def test_the_file_has_no_holes(notes, tmp_path):
    notes(2)
    facts = os.stat(path_of(tmp_path, "w"))
    assert facts.st_size == 3 * REGION
    assert facts.st_blocks * 512 >= facts.st_size


def test_where_there_is_no_room_for_notes_none_can_be_taken(notes, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OSError, match="No space left"):
        notes(0)


def test_both_sides_see_the_flag(notes):
    ours, theirs = notes(2), notes(2)
    assert not ours.flag
    theirs.flag = True
    assert ours.flag
    ours.note(run("a", 1))
    assert theirs.flag
    assert not notes(1).flag


def test_where_nobody_took_notes_nothing_is_known(tmp_path):
    assert noted(tmp_path, "w") is None
    (tmp_path / "workers").mkdir()
    path_of(tmp_path, "w").symlink_to("/etc/passwd")
    assert noted(tmp_path, "w") is None


def test_what_was_cut_short_is_no_note(notes, tmp_path):
    notes(0).note(run("whole", 1))
    path = path_of(tmp_path, "w")
    data = bytearray(path.read_bytes())
    data[352:355] = b"12 "
    data[528:538] = b"what is it"
    path.write_bytes(data)
    assert has(tmp_path, run("whole", 1), run("what", 12)) == [True, False]


def test_notes_that_cannot_be_read_now_are_not_taken_for_none(notes, tmp_path, monkeypatch):
    notes(0)

    def full(*_args, **_options):
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(StoreUnavailable):
        noted(tmp_path, "w")
