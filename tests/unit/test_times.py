"""Instants and durations as text."""

import os
import time
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.errors import InvalidInput
from jobq.times import (
    MAX_DURATION,
    ceil_ms,
    duration_of,
    floor_ms,
    format_duration,
    format_time,
    parse_at,
    parse_duration,
    parse_instant,
    parse_time,
    seconds_of,
)

NOW = datetime(2026, 7, 11, 12, 30, 0, 250_000, tzinfo=UTC)
instants = st.integers(-2_000_000_000_000_000, 200_000_000_000_000_000).map(
    lambda count: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=count)
)
milliseconds = st.integers(0, 10 * 365 * 86_400_000)


@pytest.fixture
def zone(monkeypatch):
    def set_zone(name):
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


@given(instants)
def test_an_instant_survives_its_text_to_the_millisecond(moment):
    text = format_time(moment)
    assert parse_time(text) == floor_ms(moment)
    assert parse_instant("at", text) == floor_ms(moment)
    assert (len(text), text[-1]) == (24, "Z")


@given(instants, instants)
def test_texts_sort_as_instants_do(one, other):
    one, other = floor_ms(one), floor_ms(other)
    assert (format_time(one) < format_time(other)) == (one < other)


@given(instants)
def test_floor_and_ceiling_are_the_nearest_milliseconds(moment):
    low, high = floor_ms(moment), ceil_ms(moment)
    assert low <= moment <= high
    assert high - low == (timedelta() if low == moment else timedelta(milliseconds=1))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-07-11T20:57:58Z", "2026-07-11T20:57:58.000Z"),
        ("2026-07-11T20:57:58.316Z", "2026-07-11T20:57:58.316Z"),
        ("2026-07-11T20:57:58.316001Z", "2026-07-11T20:57:58.317Z"),
        ("2026-07-11T22:57:58+02:00", "2026-07-11T20:57:58.000Z"),
        ("2026-07-11t20:57:58.5z", "2026-07-11T20:57:58.500Z"),
        ("2026-07-11T20:57Z", "2026-07-11T20:57:00.000Z"),
        ("2026-07-11T20:57:58.3160000001Z", "2026-07-11T20:57:58.316Z"),
        ("2026-07-11 20:57:58-00:30", "2026-07-11T21:27:58.000Z"),
    ],
)
def test_instants_with_an_offset_become_utc(text, expected):
    moment = parse_instant("run_at", text)
    assert format_time(moment) == expected
    assert moment.tzinfo is UTC


@pytest.mark.parametrize(
    "value",
    [
        "2026-07-11T20:57:58",
        "2026-07-11",
        "now",
        "",
        "2026-02-30T00:00:00Z",
        "2026-07-11T25:00:00Z",
        "0001-01-01T00:00:00+05:00",
        "9999-12-31T23:59:59.999999Z",
        "9999-12-31T23:59:59-01:00",
        5,
        None,
        ["2026-07-11T20:57:58Z"],
        "2026-07-11T20:57:58Z\0",
        "20260711T205758Z",
        "2026-W28-6T20:57:58Z",
        "2026-07-11T20:57:60Z",
        "٢026-07-11T20:57:58Z",
    ],
)
def test_other_instants_are_refused_by_name(value):
    with pytest.raises(InvalidInput, match="run_at: ") as caught:
        parse_instant("run_at", value)
    assert "2026-07-11T20:57:58Z" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("13:00", "2026-07-11T13:00:00.000Z"),
        ("12:30:01", "2026-07-11T12:30:01.000Z"),
        ("12:30", "2026-07-12T12:30:00.000Z"),
        ("03:00", "2026-07-12T03:00:00.000Z"),
        (" 3:00 ", "2026-07-12T03:00:00.000Z"),
        ("tomorrow 13:00", "2026-07-12T13:00:00.000Z"),
        ("tomorrow 03:00", "2026-07-12T03:00:00.000Z"),
        ("today 13:00", "2026-07-11T13:00:00.000Z"),
        ("2026-07-11T13:00:00Z", "2026-07-11T13:00:00.000Z"),
    ],
)
def test_times_of_day_are_the_next_ones(zone, text, expected):
    zone("UTC")
    assert format_time(parse_at("at", text, NOW)) == expected


def test_times_of_day_are_local(zone):
    zone("XXX-05:30")
    assert format_time(parse_at("at", "18:30", NOW)) == "2026-07-11T13:00:00.000Z"
    assert format_time(parse_at("at", "17:30", NOW)) == "2026-07-12T12:00:00.000Z"
    assert format_time(parse_at("at", "tomorrow 00:00", NOW)) == "2026-07-11T18:30:00.000Z"


@pytest.mark.skipif(not os.path.exists("/usr/share/zoneinfo/Europe/Berlin"), reason="no time zone data here")
def test_a_time_of_day_is_taken_on_the_day_the_clocks_change(zone):
    zone("Europe/Berlin")
    eve = datetime(2026, 10, 24, 20, 0, tzinfo=UTC)
    assert format_time(parse_at("at", "06:00", eve)) == "2026-10-25T05:00:00.000Z"


@pytest.mark.parametrize(
    "text",
    [
        "24:00",
        "12:60",
        "12:00:61",
        "noon",
        "yesterday 03:00",
        "3",
        "",
        "12:00 today",
        "٠٣:00",
        "0001-01-01 00:00",
    ],
)
def test_other_times_of_day_are_refused(text):
    with pytest.raises(InvalidInput, match="at: "):
        parse_at("at", text, NOW)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("90", 90),
        ("1.5", 1.5),
        ("1.5s", 1.5),
        ("250ms", 0.25),
        ("10m", 600),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        ("2d", 172_800),
        ("1w", 604_800),
        ("1m1s1ms", 61.001),
        ("0.0001s", 0.001),
        (" 5s ", 5),
        ("16.1s", 16.1),
    ],
)
def test_durations_of_people(text, seconds):
    assert parse_duration("timeout", text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "-5s", "5 parsecs", "1e3", "nan", "inf", "5s!", "36501d", "9" * 400, "٣s", "٣", "²"]
)
def test_other_durations_are_refused(text):
    with pytest.raises(InvalidInput, match="timeout: "):
        parse_duration("timeout", text)


@pytest.mark.parametrize("seconds", [-0.001, float("nan"), float("inf"), -float("inf"), 1e300, 10**400])
def test_seconds_out_of_range_are_refused(seconds):
    with pytest.raises(InvalidInput, match="at least 0 and at most 100 years"):
        duration_of("delay", seconds, seconds)


@given(milliseconds)
def test_whole_milliseconds_are_exact(count):
    duration = timedelta(milliseconds=count)
    assert duration_of("delay", count, count / 1000) == duration
    assert duration_of("delay", count, seconds_of(duration)) == duration
    assert parse_duration("delay", f"{count / 1000:f}") == duration
    assert parse_duration("delay", f"{count}ms") == duration


@given(st.floats(0, MAX_DURATION.total_seconds()))
def test_what_is_below_a_millisecond_is_rounded_up(seconds):
    duration = duration_of("delay", seconds, seconds)
    assert duration % timedelta(milliseconds=1) == timedelta()
    assert timedelta() <= duration - timedelta(seconds=seconds) < timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "0.25s"),
        (8, "8s"),
        (9.9996, "10s"),
        (59.6, "1m"),
        (90, "1m30s"),
        (3600, "1h"),
        (7500, "2h5m"),
        (3605, "1h"),
        (273_600, "3d4h"),
        (86_400 * 400, "400d"),
    ],
)
def test_durations_for_people(seconds, text):
    assert format_duration(timedelta(seconds=seconds)) == text


@given(milliseconds)
def test_a_shown_duration_is_near_and_can_be_read_back(count):
    duration = timedelta(milliseconds=count)
    again = parse_duration("delay", format_duration(duration))
    assert abs(again - duration) <= max(duration / 20, timedelta(milliseconds=1))


@pytest.mark.parametrize(("seconds", "expected", "kind"), [(5, 5, int), (0.5, 0.5, float), (0, 0, int)])
def test_json_has_whole_seconds_where_they_are(seconds, expected, kind):
    number = seconds_of(timedelta(seconds=seconds))
    assert number == expected
    assert type(number) is kind


@pytest.mark.parametrize("text", ["2027-03-28 02:30", "tomorrow 02:30"])
def test_a_local_time_over_which_clocks_are_set_on_is_so_much_later(zone, text):
    zone("CET-1CEST,M3.5.0,M10.5.0/3")
    now = datetime(2027, 3, 27, 12, tzinfo=UTC)
    assert parse_at("at", text, now) == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
    assert parse_at("at", text.replace("02:30", "01:30"), now) == datetime(2027, 3, 28, 0, 30, tzinfo=UTC)
    assert parse_at("at", text.replace("02:30", "03:30"), now) == datetime(2027, 3, 28, 1, 30, tzinfo=UTC)
