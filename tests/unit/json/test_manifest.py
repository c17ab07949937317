"""The manifest as a file."""

import json

import pytest

from jobq.errors import NewerFormat, StoreUnreadable
from jobq_json import manifest
from jobq_json.manifest import Manifest
from jobq_json.sections import Lane, Section, Segment

FULL = Manifest(
    generation=7,
    written="2026-07-11T20:57:58.316Z",
    seq=42,
    counts={"default": {"pending": 2, "dead": 1}, "mail": {"completed": 5}},
    paused={"mail": 'because "so"'},
    size=900,
    archive=(Segment("done-1.jsonl", 40, 500), Segment("done-3.jsonl", 40, 60)),
    next_segment=4,
    damaged=1,
    damaged_files=("damaged-5.jsonl",),
    sections=(
        Section("pending", Lane("default", 5, None, alone=False), 40, 400, 2, "2026", "2027"),
        Section("dead", Lane("mail", -1, "sénd", alone=True), 400, 900, 1, "2026", "2026"),
    ),
)


@pytest.mark.parametrize("value", [FULL, manifest.first("2026-07-11T20:57:58.316Z")])
def test_it_survives_its_file(value):
    assert manifest.read(value.dump()) == value


def test_it_is_json_that_a_person_can_read():
    text = FULL.dump().decode()
    record = json.loads(text)
    assert record["counts"]["default"]["pending"] == 2
    assert record["jobs"] == {"file": "jobs-7.jsonl", "size": 900}
    assert record["journal"] == "journal-7.jsonl"
    assert '\n  "generation": 7,\n' in text
    assert max(map(len, text.splitlines())) < 200


def test_it_names_every_file_of_its_generation():
    assert manifest.read(FULL.dump()).files == {
        "queue.json",
        "jobs-7.jsonl",
        "journal-7.jsonl",
        "done-1.jsonl",
        "done-3.jsonl",
        "damaged-5.jsonl",
    }


def test_every_truncation_is_an_error_with_a_way_out():
    whole = FULL.dump()
    for size in range(len(whole)):
        with pytest.raises(StoreUnreadable, match="doctor --repair"):
            manifest.read(whole[:size])


def test_every_flipped_byte_is_an_error():
    whole = FULL.dump()
    for place in range(len(whole)):
        flipped = bytearray(whole)
        flipped[place] ^= 0x20
        with pytest.raises(StoreUnreadable):
            manifest.read(bytes(flipped))


def sealed(record):
    from zlib import crc32

    body = json.dumps(record, indent=2).encode()[:-2]
    return b'%b,\n  "crc": "%08x"\n}\n' % (body, crc32(body))


def test_a_newer_format_is_refused_as_such():
    with pytest.raises(NewerFormat, match="format 99"):
        manifest.read(sealed(FULL.record() | {"format": 99}))


def test_something_else_is_refused():
    with pytest.raises(StoreUnreadable, match="not the manifest"):
        manifest.read(sealed({"format": 1}))
