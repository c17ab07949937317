"""That an id is free is told by the hashes in the sorted run; what they are not sure of is searched for."""

from itertools import count
from zlib import crc32

import pytest

from jobq.errors import DuplicateJob
from jobq_json import compaction, search, taken

NAMES = [f"job-{number}" for number in range(30)]


@pytest.fixture
def store(kit):
    """Jobs in the sorted run and in the archive, and hashes of their ids."""
    store = kit.open()
    kit.add(store, *NAMES)
    assert kit.work(store, limit=10) == NAMES[:10]
    kit.compact(store)
    return store


def hashes(store):
    view = store.access.look()
    return taken.taken_in(view.run, view.end)


def without_job_7(line, *, sealed):
    """A line of hashes in which another one stands twice, and in the place of that of job-7."""
    body = line[: -taken.SUFFIX]
    at = body.index(b"%08x" % crc32(b"job-7"))
    body = body[:at] + body[at - 8 : at] + body[at + 8 :]
    return taken.seal(body.decode() + "}") if sealed else body + line[-taken.SUFFIX :]


def test_a_free_id_is_added_without_a_search(kit, store, monkeypatch):
    def search_for(*_arguments, **_options):
        raise AssertionError("nothing is to be searched for")

    monkeypatch.setattr(search, "locate", search_for)
    monkeypatch.setattr(search, "each_id", search_for)
    writer = kit.open()
    for number in range(40):
        kit.add(writer, f"own-{number}")
    kit.add(writer, *(f"bulk-{number}" for number in range(40)))
    monkeypatch.undo()
    for name in ("own-3", "bulk-3", NAMES[0], NAMES[29]):
        with pytest.raises(DuplicateJob):
            kit.add(kit.open(), name)


def test_the_hashes_are_those_of_every_id_that_is_taken(kit, store):
    kit.add(store, "late", "deleted")
    kit.work(store, limit=5)
    store.delete([store.get("deleted"), store.get(NAMES[0]), store.get(NAMES[29])])
    kit.compact(store)
    found = hashes(store)
    assert all(found.may_have(job.id) for job in kit.jobs(store))
    assert found.stale == 3
    assert not found.may_have("fresh")
    assert store.check() == []


def test_an_id_that_shares_its_hash_with_another_is_free(kit, store):
    seen = {}
    for number in count():
        second = f"{number * 2654435761 % (1 << 40):x}"
        if (first := seen.setdefault(crc32(second.encode()), second)) != second:
            break
    kit.add(store, first)
    kit.compact(store)
    assert hashes(store).may_have(second)
    kit.add(kit.open(), second)
    assert store.get(second).id == second


def test_ids_deleted_long_ago_are_left_out_in_the_end(kit, store, monkeypatch):
    store.delete([store.get(name) for name in NAMES[:20]])
    kit.compact(store)
    assert (len(hashes(store)), hashes(store).stale) == (30, 20)
    monkeypatch.setattr(taken, "_STALE", 10)
    store.delete([store.get(NAMES[20])])
    kit.compact(store)
    assert (len(hashes(store)), hashes(store).stale) == (9, 0)
    with pytest.raises(DuplicateJob):
        kit.add(kit.open(), NAMES[21])
    kit.add(kit.open(), NAMES[20], NAMES[0])
    assert store.check() == []


def test_a_run_without_hashes_is_searched_and_the_next_one_has_them(kit, monkeypatch):
    monkeypatch.setattr(compaction, "taken_line", lambda view, afresh: b"")
    store = kit.open()
    kit.add(store, *NAMES)
    kit.compact(store)
    monkeypatch.undo()
    assert hashes(store) is None
    assert store.check() == []
    kit.add(kit.open(), "fresh")
    with pytest.raises(DuplicateJob):
        kit.add(kit.open(), NAMES[7])
    kit.compact(store)
    assert len(hashes(store)) == 31


@pytest.mark.parametrize("byte", [b"\xff", b"x"])
def test_a_damaged_id_is_not_told_as_missing_from_the_hashes(kit, store, byte):
    path = kit.file("jobs")
    kit.overwrite(path, path.read_bytes().replace(b'{"id":"job-17"', b'{"id":"job-1' + byte + b'"', 1))
    (wrong,) = kit.open().check()
    assert "is damaged" in wrong


@pytest.mark.parametrize(
    ("sealed", "told"), [(False, "its list of ids is damaged"), (True, "job job-7 is not in its list of ids")]
)
def test_hashes_that_are_wrong_are_told_and_made_again(kit, store, sealed, told):
    path = kit.file("jobs")
    *lines, line, footer, _ = path.read_bytes().split(b"\n")
    kit.overwrite(path, b"\n".join((*lines, without_job_7(line, sealed=sealed), footer, b"")))
    other = kit.open()
    (wrong,) = other.check()
    assert told in wrong
    if not sealed:
        with pytest.raises(DuplicateJob):
            kit.add(other, "job-7")
    (done,) = other.repair()
    assert told in done
    assert other.check() == []
    assert len(kit.jobs(other)) == len(NAMES)
    with pytest.raises(DuplicateJob):
        kit.add(kit.open(), "job-7")
