"""What a command writes to its pipe for progress, and what is told of it."""

import contextlib
import os
import time

import pytest

from jobq.progress import Progress
from jobq_subprocess.progress import Reports


@pytest.fixture
def told():
    return []


@pytest.fixture
def reports(told):
    reports = Reports(told.append)
    yield reports
    reports.close()


def write(reports, *pieces):
    for piece in pieces:
        os.write(reports.inherited, piece)
        assert reports.read()


def test_each_line_is_told(reports, told):
    write(reports, b"3/10 resizing\n", b"4/10\n", b"7\n", b"0.5/1.5\n")
    assert told == [Progress(3, 10, "resizing"), Progress(4, 10), Progress(7), Progress(0.5, 1.5)]


def test_of_one_reading_the_last_line_counts(reports, told):
    write(reports, b"".join(b"%d/5000\n" % n for n in range(5001)))
    assert told == [Progress(5000, 5000)]


def test_a_line_may_come_in_pieces(reports, told):
    write(reports, b"1", b"2/", b"20 half", b" way\n13/2", b"0 on\n")
    assert told == [Progress(12, 20, "half way"), Progress(13, 20, "on")]


@pytest.mark.parametrize(
    "line", [b"", b"hello", b"-1/3", b"1/-3", b"1e9/2", b"nan", b"\xff\xfe", b"1//2", b"\0" * 5000]
)
def test_what_is_no_progress_is_passed_over(reports, told, line):
    write(reports, line + b"\n", b"1/2\n")
    assert told == [Progress(1, 2)]


def test_a_line_without_end_takes_no_room(reports, told):
    for _ in range(100):
        write(reports, b"5/6 " + b"x" * 60_000)
    assert len(reports._rest) <= 1024
    write(reports, b"\n1/2\n")
    assert told == [Progress(1, 2)]


def test_a_note_is_one_line_of_text(reports, told):
    write(reports, b"1/2 \x1b[31m\xff caf\xc3\xa9 \x00\r\x07end " + b"y" * 3000 + b"\n")
    (progress,) = told
    assert progress.note.isprintable()
    assert progress.note.startswith("[31m\N{REPLACEMENT CHARACTER} café end yyy")
    assert len(progress.note) == 200


def test_nothing_to_read_is_not_waited_for(reports, told):
    start = time.monotonic()
    assert reports.read()
    assert time.monotonic() - start < 5
    assert told == []


def test_at_the_end_the_last_line_is_told_even_unended(reports, told):
    os.write(reports.inherited, b"x\n" * 20_000 + b"9/10\n10/10 done")
    reports.started()
    reports.finish()
    assert told[-1] == Progress(10, 10, "done")


def test_a_pipe_that_somebody_keeps_and_fills_is_not_listened_to_for_ever(reports, told):
    keeper = os.dup(reports.inherited)
    os.set_blocking(keeper, False)
    try:
        with contextlib.suppress(BlockingIOError):
            while True:
                os.write(keeper, b"1/2\n" * 1000)
        reports.started()
        reports.finish()
        assert told == [Progress(1, 2)]
    finally:
        os.close(keeper)


def test_the_end_is_told(reports):
    reports.started()
    assert not reports.read()
