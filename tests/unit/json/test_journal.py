"""The journal's end: torn, whole, damaged; read by those who write and those who only look."""

import errno
import os
import shutil

import pytest

from jobq import files
from jobq.errors import JobqError, StoreUnavailable, StoreUnreadable
from jobq.store import Wanted
from jobq.testing import START, make_info
from jobq_json import journal


def recorded(kit):
    """A store's journal of several records, and what is there after each: by the position where the record ends."""
    store = kit.open()
    kit.add(store, "one", "two")
    path = kit.file("journal")
    data = kit.journal()
    after = {data.index(b"\n") + 1: [], len(data): kit.jobs(store)}
    for act in (
        lambda: kit.work(store),
        lambda: store.delete([store.get("two")]),
        lambda: kit.add(store, "three", payload={"x": '}\n"{"}'}, handler="h"),
    ):
        act()
        after[len(kit.journal())] = kit.jobs(store)
    store.close()
    data = kit.journal()
    claimed = data.index(b"\n", data.index(b'"op":"claim"')) + 1  # `work` made two records: the first of them
    path.write_bytes(data[:claimed])
    after[claimed] = kit.jobs(kit.open())
    return data, after


@pytest.mark.parametrize("room", [0, 2000])
def test_a_journal_cut_anywhere_gives_its_longest_valid_prefix(kit, room):
    journal, after = recorded(kit)
    path = kit.file("journal")
    header = min(after)
    for size in range(len(journal) + 1):
        kit.overwrite(path, journal[:size] + bytes(room))
        store = kit.open(durability="normal")
        if size < header - 1:
            with pytest.raises(StoreUnreadable):
                kit.jobs(store)
            with pytest.raises(StoreUnreadable):
                kit.add(store, "more")
        else:
            assert kit.jobs(store) == after[max(end for end in after if end <= max(size, header))], size
            whole = max(end for end in after if end <= size + 1)  # a writer adds the line feed that a record lacks
            kit.add(store, "more")
            assert [job for job in kit.jobs(store) if job.id != "more"] == after[whole], size
            assert store.check() == []
        store.close()
    assert kit.warned == []


def test_what_stands_behind_the_last_line_is_cut_by_the_next_writer(kit):
    store = kit.open()
    kit.add(store, "one")
    kit.write_behind(b'{"op":"add","sizes":[9000],"jobs":[{"id":"torn"' + b"torn" * 2000)
    reader = kit.open()
    assert [job.id for job in kit.jobs(reader)] == ["one"]
    kit.add(store, "two")
    assert [job.id for job in kit.jobs(reader)] == ["one", "two"]
    assert b"torn" not in kit.file("journal").read_bytes()


def test_a_reader_does_not_believe_a_record_that_is_cut_off_again(kit, monkeypatch):
    store, reader = kit.open(), kit.open()
    kit.add(store, "one")
    assert len(kit.jobs(reader)) == 1
    real = os.pwrite

    def refuse(descriptor, data, *, at):
        assert [job.id for job in kit.jobs(reader)] == ["one"]
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(journal.os, "pwrite", lambda descriptor, data, at: real(descriptor, bytes(data)[:-1], at))
    monkeypatch.setattr(files, "write_all", refuse)
    with pytest.raises(StoreUnavailable):
        kit.add(store, "never")
    monkeypatch.undo()
    kit.add(store, "two" + "x" * 50)
    assert kit.jobs(reader) == kit.jobs(kit.open())
    assert kit.warned == []


def test_zeros_at_the_end_are_torn(kit):
    store = kit.open()
    kit.add(store, "one")
    with kit.file("journal").open("ab") as file:
        file.write(bytes(5000))
    kit.add(store, "two")
    assert [job.id for job in kit.jobs(kit.open())] == ["one", "two"]
    assert store.check() == []


def test_a_damaged_last_record_gives_no_number_away_twice(kit):
    store = kit.open()
    kit.add(store, "one", "two")
    kit.add(store, "three")
    data = bytearray(kit.journal())
    data[-40] ^= 1
    kit.file("journal").write_bytes(data)
    writer = kit.open()
    kit.add(writer, "four")
    view = kit.open().access.look()
    assert view.delta["four"].seq > view.delta["two"].seq + 1
    assert view.damaged == 1


def test_a_record_larger_than_what_is_read_at_once(kit):
    store = kit.open()
    names = [f"job-{n}" for n in range(2000)]
    kit.add(store, *names, payload={"large": "x" * 5000}, handler="h")
    assert kit.file("journal").stat().st_size > 8 << 20
    reader = kit.open()
    assert [job.id for job in kit.jobs(reader)] == names
    kit.add(reader, "last")
    assert reader.get("last").id == "last"


def test_a_journal_that_became_shorter_is_read_anew(kit):
    store = kit.open()
    kit.add(store, "one")
    size = len(kit.journal())
    kit.add(store, "two")
    reader = kit.open()
    assert len(kit.jobs(reader)) == 2
    with kit.file("journal").open("r+b") as file:
        file.truncate(size)
    assert [job.id for job in kit.jobs(reader)] == ["one"]


def test_every_flipped_byte_is_noticed_and_nothing_false_is_shown(kit, tmp_path):
    shown = kit.furnish()
    exact = {repr(job) for job in shown}
    essence = {job.id: (job.command, job.handler, job.payload, job.queue, job.priority) for job in shown}
    whole = tmp_path / "whole"
    shutil.copytree(kit.queue, whole)

    def noticed():
        store = kit.open()
        try:
            found = kit.jobs(store)
            for job in found:
                assert essence[job.id] == (job.command, job.handler, job.payload, job.queue, job.priority)
            assert len({job.id for job in found}) == len(found)
            if store.counts(now=START).damaged == 0:
                assert exact.issuperset(map(repr, found))
            store.next_due(Wanted(), now=START)
            return bool(store.check())
        except JobqError:
            return True
        finally:
            store.close()

    assert not noticed()
    for path in sorted(whole.glob("*.json*")):
        data = path.read_bytes()
        size = len(data.rstrip(b"\0"))
        for place in range(size):
            flipped = bytearray(data)
            flipped[place] ^= 0x01 if place % 2 else 0x20
            kit.overwrite(kit.queue / path.name, flipped)
            torn = path.name.startswith("journal") and place == size - 1  # the last line feed
            assert noticed() != torn, (path.name, place)
        kit.overwrite(kit.queue / path.name, data)


def test_a_flipped_byte_is_claimed_by_nobody(kit, tmp_path):
    store = kit.open()
    kit.add(store, "one", payload={"amount": 1000}, handler="pay")
    kit.compact(store)
    kit.add(store, "two", payload={"amount": 1000}, handler="pay")
    for kind in ("jobs", "journal"):
        data = kit.file(kind).read_bytes()
        kit.file(kind).write_bytes(data.replace(b'"amount":1000', b'"amount":9000'))
    reader = kit.open()
    presence = reader.join(make_info())
    assert reader.claim(presence, wanted=Wanted(), limit=5, now=START).claims == []
    assert reader.counts(now=START).damaged == 2
    assert reader.counts(now=START).states["pending"] == 0
    presence.close()
