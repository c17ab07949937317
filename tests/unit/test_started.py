"""The notes of which runs have begun."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from jobq.started import REGION, StartedRuns, noted, path_of

if TYPE_CHECKING:
    from pathlib import Path

LONGEST = "x" * 128


@pytest.fixture
def notes(tmp_path: Path):
    """Makes regions of one file."""
    (tmp_path / "workers").mkdir()
    descriptor = os.open(path_of(tmp_path, "w"), os.O_RDWR | os.O_CREAT, 0o600)
    yield lambda region=0: StartedRuns(descriptor, region)
    os.close(descriptor)


def test_what_was_noted_is_read_after_its_process(notes, tmp_path):
    first, second = notes(0), notes(3)
    first.note("a", 1)
    first.note(LONGEST, 10**19)
    second.note("b", 7)
    assert noted(tmp_path, "w") == {("a", 1), (LONGEST, 10**19), ("b", 7)}


def test_a_region_tells_what_it_has(notes):
    region = notes(1)
    region.note("abc", 12)
    assert region.has("abc", 12)
    for job_id, run in (("abc", 1), ("abc", 2), ("bc", 12), ("ab", 12), ("abc", 112)):
        assert not region.has(job_id, run)
    assert not notes(0).has("abc", 12)


def test_the_next_process_of_a_region_goes_on_behind_the_last(notes, tmp_path):
    for number in range(10):
        notes(0).note("job", number)
    assert noted(tmp_path, "w") == {("job", number) for number in range(10)}


def test_only_the_latest_are_kept(notes, tmp_path):
    region = notes(0)
    for number in range(1000):
        region.note("job", number)
    kept = noted(tmp_path, "w")
    assert {("job", number) for number in range(900, 1000)} <= kept
    assert ("job", 0) not in kept
    assert os.path.getsize(path_of(tmp_path, "w")) == REGION


def test_both_sides_see_the_flag(notes):
    ours, theirs = notes(2), notes(2)
    assert not ours.flag
    theirs.flag = True
    assert ours.flag
    ours.note("a", 1)
    assert theirs.flag
    assert not notes(1).flag


def test_where_nobody_took_notes_nothing_is_known(tmp_path):
    assert noted(tmp_path, "w") is None
    (tmp_path / "workers").mkdir()
    path_of(tmp_path, "w").symlink_to("/etc/passwd")
    assert noted(tmp_path, "w") is None


def test_what_was_cut_short_is_no_note(notes, tmp_path):
    notes(0).note("whole", 1)
    path = path_of(tmp_path, "w")
    data = bytearray(path.read_bytes())
    data[320:323] = b"12 "
    data[480:490] = b"what is it"
    path.write_bytes(data)
    assert noted(tmp_path, "w") == {("whole", 1)}
