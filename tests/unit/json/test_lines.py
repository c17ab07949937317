"""Lines and their checksums."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.errors import StoreUnreadable
from jobq.job import State
from jobq.store import ALONE_LOSSES
from jobq.testing import make_job
from jobq.times import format_time
from jobq_json import kept, lines
from jobq_json.heads import head_of

NAMES = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._:@-]{0,20}", fullmatch=True)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
JOBS = st.builds(
    make_job,
    NAMES,
    handler=TEXTS.filter(bool),
    queue=NAMES,
    priority=st.integers(-1000, 1000),
    losses=st.integers(0, 3),
    state=st.sampled_from(list(State)),
    payload=st.dictionaries(TEXTS, TEXTS | st.lists(st.dictionaries(TEXTS, TEXTS))),
    last_error=st.none() | TEXTS,
)


@given(JOBS, st.integers(0, 10**12))
def test_a_job_survives_its_line(job, seq):
    line = lines.job_line(job, seq)
    assert lines.job_of(line) == job
    assert b"\n" not in line
    assert json.loads(line)["seq"] == seq


@given(JOBS, st.integers(0, 10**12))
def test_the_head_says_what_the_line_says(job, seq):
    head = head_of(lines.job_line(job, seq))
    assert head == (job.id, seq, format_time(job.run_at), job.state, job.queue, job.priority, job.losses, job.handler)
    assert kept.of_line(lines.job_line(job, seq)).lane.alone == (job.losses >= ALONE_LOSSES)


def test_the_id_comes_first_and_the_checksum_last():
    assert lines.job_line(make_job("one"), 1).startswith(b'{"id":"one","seq":1,')
    assert list(json.loads(lines.job_line(make_job("one"), 1)))[-1] == "crc"


def test_a_command_is_no_handler():
    assert head_of(lines.job_line(make_job("one"), 1)).handler is None


def test_every_flipped_byte_is_noticed():
    line = lines.job_line(make_job("one", payload={"deep": [1, "two"]}, handler="h"), 7)
    for place in range(len(line)):
        for bit in range(8):
            flipped = bytearray(line)
            flipped[place] ^= 1 << bit
            assert not lines.sound(bytes(flipped))
            assert lines.job_of(bytes(flipped)) is None
            assert kept.of_line(bytes(flipped)) is None


def test_every_truncation_is_noticed():
    line = lines.job_line(make_job("one"), 7)
    assert lines.sound(line)
    assert not any(lines.sound(line[:size]) for size in range(len(line)))


@pytest.mark.parametrize("text", ['{"a":1} ', "[1]", '{"a":', '"a"', "{]}"])
def test_what_is_no_object_is_no_record(text):
    assert lines.parse(lines.seal(text + "}")) is None
    assert lines.job_of(lines.seal(text + "}")) is None


@pytest.mark.parametrize("value", ["[" * 100_000 + "]" * 100_000, "1" * 5000])
def test_what_is_sound_but_cannot_be_read_is_no_damage(value):
    with pytest.raises(StoreUnreadable):
        lines.parse(lines.seal(f'{{"a":{value}}}'))


def test_a_sound_line_without_a_job_is_no_job():
    assert lines.job_of(lines.seal('{"id":5}')) is None
    assert lines.job_of(lines.seal('{"state":"pending"}')) is None
    assert lines.job_of(lines.seal('{"id":"a","state":"unheard-of"}')) is None


@pytest.mark.parametrize("seq", ["abc", [1], None, -5, 99])
def test_a_field_of_a_job_that_is_called_as_one_of_the_store_is_not_taken_for_it(seq):
    job = make_job("one", handler="x", extra={"seq": seq})
    found = kept.of_whole_line(lines.job_line(job, 7), 0)
    assert (found.seq, found.id, found.offset) == (7, "one", 0)
