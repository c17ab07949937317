"""What jobs report of how far they are."""

from __future__ import annotations

import pytest

from jobq.progress import LINE_LIMIT, NOTE_LIMIT, Progress, parse


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"3/10 resizing", Progress(3, 10, "resizing")),
        (b"3/10", Progress(3, 10)),
        (b" 7 \r\n", Progress(7)),
        (b"7 files", Progress(7, None, "files")),
        (b"0.5/1.5  two  words ", Progress(0.5, 1.5, "two words")),
        (b"3/0", Progress(3)),
        (b"12/10 over", Progress(12, 10, "over")),
        (b"1/2 \xff\x1b[31mred\x07", Progress(1, 2, "\N{REPLACEMENT CHARACTER} [31mred")),
        (b"1/2 " + b"x" * 5000, Progress(1, 2, "x" * NOTE_LIMIT)),
    ],
)
def test_a_line_tells_done_total_and_a_note(line: bytes, expected: Progress) -> None:
    assert parse(line) == expected


@pytest.mark.parametrize(
    "line", [b"", b"half", b"-1/3", b"1/", b"/3", b"1e999/2", b"nan", b"3/10resizing", b"9" * LINE_LIMIT]
)
def test_anything_else_is_ignored(line: bytes) -> None:
    assert parse(line) is None


def test_numbers_stay_whole_where_they_are() -> None:
    assert Progress.of(3.0, 10.0).record() == {"done": 3, "total": 10, "note": ""}
    assert repr(Progress.of(3.0).done) == "3"


@pytest.mark.parametrize("number", [-1, float("nan"), float("inf"), True, "3"])
def test_what_is_no_number_is_refused(number: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        Progress.of(number)  # type: ignore[arg-type]


def test_it_is_shown_as_done_of_total_and_the_note() -> None:
    assert Progress(3, 10, "resizing").text() == "3/10 resizing"
    assert Progress(7).text() == "7"
    assert Progress(1234567.5, 123456789).text() == "1234567.5/123456789"
    assert Progress(3, 10).fraction == 0.3
    assert Progress(20, 10).fraction == 1.0
    assert Progress(7).fraction is None


def test_the_record_is_read_back() -> None:
    progress = Progress(3, 10, "resizing")
    assert Progress.from_record(progress.record()) == progress
