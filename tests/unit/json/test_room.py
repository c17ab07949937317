"""Room behind the journal's last line: made, written over, cut off, and what a power cut may make of it."""

import errno
import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.errors import StoreUnavailable
from jobq.testing import START
from jobq_json import compaction, journal
from jobq_json.lines import seal
from jobq_json.room import LEAST, MOST, SECTOR, data_end, room_behind

TEXT = st.binary(max_size=3 * SECTOR).map(lambda data: data.replace(b"\0", b"x"))


def size(kit):
    return kit.file("journal").stat().st_size


def names(kit):
    return sorted(job.id for job in kit.jobs(kit.open()))


@given(TEXT, st.integers(0, 3 * SECTOR), st.integers(0, 2 * SECTOR))
def test_data_end_where_room_begins(data, room, offset):
    assert data_end(data + bytes(room), offset) == len(data)


@given(TEXT.filter(bool), st.data(), st.integers(0, 2 * SECTOR))
def test_a_zero_byte_with_more_behind_it_in_its_sector_ends_nothing(data, drawn, offset):
    place = drawn.draw(st.integers(0, len(data) - 1))
    data = data[:place] + b"\0" + data[place + 1 :] + b"}"
    assert data_end(data, offset) == len(data)


def test_data_end_where_a_hole_goes_on_to_the_end_of_its_sector():
    data = b"a" * 500 + bytes(12) + b"b" * 100
    assert data_end(data, 0) == 500
    assert data_end(data, SECTOR) == 500
    assert data_end(data, 20) == len(data)  # no sector ends there
    assert data_end(b"a" * 511 + b"\0" + b"b" * 100, 0) == 612  # one byte alone may be a flipped bit


@pytest.mark.parametrize(
    ("end", "record", "room"),
    [(100, 300, LEAST), (100_000, 300, 100_000), (10 * MOST, 300, MOST), (100, LEAST + 1, 0), (10 * MOST, MOST, MOST)],
)
def test_there_is_as_much_room_as_data_before_it_within_bounds(end, record, room):
    assert room_behind(end, record) == room


def test_what_is_synced_is_written_into_room_until_there_is_none_left(kit):
    store = kit.open()
    kit.add(store, "one")
    first = size(kit)
    assert first == len(kit.journal()) + LEAST
    count = 0
    while size(kit) == first:
        count += 1
        kit.add(store, f"job-{count}")
    assert LEAST // 500 < count < LEAST // 200
    assert LEAST * 0.9 < size(kit) - len(kit.journal()) < len(kit.journal())
    assert len(names(kit)) == count + 1


def test_what_is_not_synced_gets_no_room_and_uses_what_there_is(kit):
    store = kit.open(durability="normal")
    kit.add(store, "one")
    assert size(kit) == len(kit.journal())
    kit.add(kit.open(), "two")
    before = size(kit)
    assert before > len(kit.journal())
    kit.add(store, "three")
    assert size(kit) == before
    kit.add(store, "large", handler="h", payload={"x": "x" * LEAST * 2})
    assert size(kit) == len(kit.journal())
    assert names(kit) == ["large", "one", "three", "two"]


def test_a_large_record_takes_the_place_of_room(kit):
    store = kit.open()
    kit.add(store, "one")
    kit.add(store, "large", handler="h", payload={"x": "x" * LEAST * 3})
    assert size(kit) == len(kit.journal())
    assert names(kit) == ["large", "one"]


def test_room_is_cut_off_only_after_a_sync(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    calls = []
    for name in ("pwrite", "ftruncate", "fdatasync"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *args, real=real, name=name: calls.append(name) or real(*args))
    kit.add(store, "large", handler="h", payload={"x": "x" * LEAST * 3})
    assert calls[:3] == ["fdatasync", "ftruncate", "pwrite"]
    calls.clear()
    (kit.queue / "bell").unlink()
    kit.add(store, "two")
    assert "ftruncate" not in calls


def test_a_writer_that_knows_nothing_of_room_cuts_it_off_and_is_understood(kit):
    """As jobq did before there was room: what is no line is torn, what is written is appended."""
    store, other = kit.open(), kit.open()
    kit.add(store, "one")
    kit.add(other, "two")
    line = kit.journal().rsplit(b"\n", 2)[1]
    with kit.file("journal").open("r+b") as file:
        file.truncate(len(kit.journal()))
    kit.write_behind(line.replace(b'"two"', b'"old"')[:-18].replace(b'"seq":3', b'"seq":4') + b"}")
    data = kit.journal()
    kit.overwrite(kit.file("journal"), data[: data.rindex(b"\n") + 1] + seal(data.rsplit(b"\n", 1)[1].decode()) + b"\n")
    for each, name in ((store, "three"), (other, "four"), (store, "five")):
        kit.add(each, name)
    assert names(kit) == ["five", "four", "old", "one", "three", "two"]
    assert store.check() == []


def test_room_that_goes_on_for_longer_than_any_is_made(kit):
    store = kit.open()
    kit.add(store, "one")
    with kit.file("journal").open("ab") as file:
        file.write(bytes(3 * MOST))
    kit.add(kit.open(), "two")
    assert names(kit) == ["one", "two"]


def test_a_space_that_became_zero_is_damage_and_hides_nothing_behind_it(kit):
    store = kit.open()
    kit.add(store, "one", command="echo hello")
    kit.add(store, *(f"job-{number}" for number in range(20)))
    data = kit.file("journal").read_bytes()
    kit.overwrite(kit.file("journal"), data.replace(b"echo hello", b"echo\0hello"))
    assert len(names(kit)) == 20
    kit.add(kit.open(), "last")
    assert len(names(kit)) == 21
    assert kit.open().counts(now=START).damaged == 1


def test_what_a_power_cut_leaves_of_unsynced_sectors_is_a_prefix(kit):
    chance = random.Random(7)
    store = kit.open()
    kit.add(store, *(f"a{number}" for number in range(3)))
    old = kit.file("journal").read_bytes()
    for number in range(12):
        kit.add(store, f"b{number:02}", handler="h", payload={"x": "x" * chance.randrange(900)})
    new = kit.file("journal").read_bytes()
    assert len(old) == len(new)
    store.close()
    kept = set()
    sectors = range(len(old.rstrip(b"\0")) // SECTOR, len(new.rstrip(b"\0")) // SECTOR + 1)
    for _ in range(100):
        left = bytearray(old)
        for sector in sectors:
            if chance.random() < 0.8:
                left[sector * SECTOR : (sector + 1) * SECTOR] = new[sector * SECTOR : (sector + 1) * SECTOR]
        kit.overwrite(kit.file("journal"), left)
        reader = kit.open()
        found = [job.id for job in kit.jobs(reader)]
        behind = [f"b{number:02}" for number in range(12)]
        if kit.warned:  # one byte of a record stood at the end of a sector: that is not told from a flipped bit
            assert found[:3] == ["a0", "a1", "a2"]
            kit.warned.clear()
            reader.close()
            continue
        assert found == ["a0", "a1", "a2", *behind[: len(found) - 3]]
        kept.add(len(found))
        kit.add(reader, "next")
        found.append("next")
        assert [job.id for job in kit.jobs(reader)] == found
        assert names(kit) == sorted(found)
        assert reader.check() == []
        reader.close()
    assert len(kept) > 5


def read_while_it_is_written(monkeypatch):
    """Have the first read of job "two" miss some of it; a list that is empty until then."""
    real = os.pread
    torn = []

    def pread(descriptor, count, at):
        data = real(descriptor, count, at)
        if not torn and b'"two"' in data:
            torn.append(True)
            return data.replace(b'"two"', b"\0\0\0\0\0")
        return data

    monkeypatch.setattr(journal.os, "pread", pread)
    return torn


def test_a_line_that_is_being_written_is_no_damage(kit, monkeypatch):
    """What is read while it is written may have later bytes before earlier ones."""
    writer, reader = kit.open(), kit.open()
    kit.add(writer, "one")
    assert [job.id for job in kit.jobs(reader)] == ["one"]
    kit.add(writer, "two")
    kit.add(writer, "three")
    torn = read_while_it_is_written(monkeypatch)
    assert [job.id for job in kit.jobs(reader)] == ["one"]
    assert torn
    assert [job.id for job in kit.jobs(reader)] == ["one", "two", "three"]
    assert kit.warned == []


def test_a_compaction_takes_over_no_line_that_is_being_written(kit, monkeypatch):
    writer, other = kit.open(), kit.open()
    kit.add(writer, "one")
    kit.jobs(writer)
    real = compaction._Generation.write
    torn = []

    def write(self):
        real(self)
        kit.add(other, "two")
        torn.append(read_while_it_is_written(monkeypatch))

    monkeypatch.setattr(compaction._Generation, "write", write)
    kit.compact(writer)
    assert torn[0]
    assert names(kit) == ["one", "two"]
    assert kit.warned == []


def test_a_sync_that_fails_before_room_is_cut_off_ends_the_journal(kit, monkeypatch):
    store = kit.open()
    kit.add(store, "one")
    before = kit.file("journal").name
    real = os.fdatasync
    failed = []

    def fail(descriptor):
        if not failed:
            failed.append(True)
            raise OSError(errno.EIO, "Input/output error")
        real(descriptor)

    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(StoreUnavailable, match="Input/output"):
        kit.add(store, "large", handler="h", payload={"x": "x" * LEAST * 3})
    assert names(kit) == ["one"]
    kit.add(store, "two")
    assert names(kit) == ["one", "two"]
    assert kit.file("journal").name != before
