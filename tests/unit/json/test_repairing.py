"""Mending throws nothing away that could hold a job, and says where it is; a check sees what no checksum tells."""

import contextlib
import errno
import os
from dataclasses import replace

import pytest

from jobq import files
from jobq.errors import StoreUnavailable
from jobq_json import compaction
from jobq_json import manifest as manifests
from jobq_json.archive import Archive
from jobq_json.sections import Lane
from jobq_json.view import View


def ids(kit):
    return [job.id for job in kit.jobs(kit.open())]


def damage(path, old, new):
    data = path.read_bytes()
    assert old in data
    path.write_bytes(data.replace(old, new, 1))


@pytest.fixture
def left_over(kit):
    """The files of a generation that ended, left over beside those of the one in force."""
    store = kit.open()
    kit.add(store, "one", "two")
    kit.compact(store)
    old = {path: path.read_bytes() for path in kit.queue.glob("j*-2.jsonl")}
    kit.compact(store)
    store.close()
    for path, content in old.items():
        path.write_bytes(content)
        path.chmod(0o600)
    return kit


@pytest.fixture
def two_generations(left_over):
    """As `left_over`, with a job damaged in the one in force."""
    damage(left_over.queue / "jobs-3.jsonl", b'"command":"true"', b'"command":"evil"')
    return left_over


def told_of(kit, done):
    """The files that mending said something is kept in."""
    return {path.name for path in kit.queue.iterdir() if any(sentence.endswith(f" {path}") for sentence in done)}


@pytest.mark.parametrize("with_manifest", [True, False])
def test_what_is_left_of_another_generation_is_kept(two_generations, with_manifest):
    """It was swept with the rest, although it held a good copy of the job that is damaged in the one in force."""
    kit = two_generations
    if not with_manifest:
        (kit.queue / "queue.json").unlink()
    done = kit.open().repair()
    kept = {"unused-jobs-2.jsonl", "unused-journal-2.jsonl", kit.file("damaged").name}
    assert told_of(kit, done) == kept
    assert b'"id":"one"' in (kit.queue / "unused-jobs-2.jsonl").read_bytes()
    kit.compact(kit.open())
    assert kept <= {path.name for path in kit.queue.iterdir()}


def test_without_a_manifest_what_was_not_chosen_is_kept(left_over):
    """The next compaction swept it, although a newer one may have been chosen that had never been in force."""
    (left_over.queue / "queue.json").unlink()
    done = left_over.open().repair()
    kept = {"unused-jobs-2.jsonl", "unused-journal-2.jsonl"}
    assert told_of(left_over, done) == kept
    left_over.compact(left_over.open())
    assert kept <= {path.name for path in left_over.queue.iterdir()}


def test_a_name_that_is_taken_is_not_written_over(two_generations):
    kit = two_generations
    (kit.queue / "unused-jobs-2.jsonl").write_bytes(b"of another day")
    assert "unused-1-jobs-2.jsonl" in told_of(kit, kit.open().repair())
    assert (kit.queue / "unused-jobs-2.jsonl").read_bytes() == b"of another day"


def test_records_that_were_set_aside_before_outlive_the_manifest(kit):
    """They were swept where no generation was complete and the manifest was gone, as nothing named their file."""
    store = kit.open()
    kit.add(store, "one", "two")
    kit.compact(store)
    store.close()
    damage(kit.file("jobs"), b'"command":"true"', b'"command":"evil"')
    kit.open().repair()
    (kit.queue / "queue.json").unlink()
    damage(kit.file("journal"), b'{"jobq"', b'~"jobq"')
    done = kit.open().repair()
    (aside,) = [path for path in kit.queue.iterdir() if b"evil" in path.read_bytes()]
    assert aside.name in told_of(kit, done)
    assert ids(kit) == ["two"]


def test_a_newer_generation_that_never_came_into_force_is_not_taken_for_all_there_is(kit):
    """Without a manifest and with no generation complete, what jobs were only in the older one was thrown away."""
    store = kit.open()
    kit.add(store, "one", "two")
    kit.compact(store)
    store.close()
    damage(kit.queue / "journal-2.jsonl", b'{"jobq"', b'~"jobq"')
    (kit.queue / "jobs-3.jsonl").write_bytes(manifests.run_header(3))  # as far as a compaction came
    (kit.queue / "jobs-3.jsonl").chmod(0o600)
    (kit.queue / "queue.json").unlink()
    done = kit.open().repair()
    assert ids(kit) == ["one", "two"]
    assert told_of(kit, done) == {"unused-jobs-3.jsonl"}


def test_a_manifest_that_cannot_be_read_is_kept(kit):
    store = kit.open()
    kit.add(store, "one")
    store.close()
    damage(kit.queue / "queue.json", b'"seq"', b'"sea"')
    before = (kit.queue / "queue.json").read_bytes()
    done = kit.open().repair()
    assert told_of(kit, done) == {"unused-queue.json"}
    assert (kit.queue / "unused-queue.json").read_bytes() == before
    assert kit.open().check() == []


def test_where_there_is_nothing_but_a_manifest_that_cannot_be_read_it_never_becomes_no_store_at_all(kit, monkeypatch):
    kit.add(kit.open(), "one")
    for path in kit.queue.glob("*.jsonl"):
        path.unlink()
    damage(kit.queue / "queue.json", b'"seq"', b'"sea"')
    before = (kit.queue / "queue.json").read_bytes()

    def refuse(*_):
        raise AssertionError

    with monkeypatch.context() as patched:
        patched.setattr(View, "__init__", refuse)
        with pytest.raises(AssertionError):
            kit.open().repair()
    assert (kit.queue / "queue.json").read_bytes() == before


@pytest.mark.parametrize("kind", ["jobs", "journal", "done"])
def test_the_file_of_what_cannot_be_read_is_named(kit, kind):
    kit.furnish()
    path = kit.file(kind)
    damage(path, b'"command":"true"', b'"command":"evil"')
    done = kit.open().repair()
    assert told_of(kit, done) == {kit.file("damaged").name}
    assert b"evil" in kit.file("damaged").read_bytes()


def test_a_generation_that_cannot_be_read_for_now_is_not_taken_for_incomplete(two_generations, monkeypatch):
    """The one before was put in force instead, without what had come since."""
    kit = two_generations
    (kit.queue / "queue.json").unlink()
    before = {path.name: path.read_bytes() for path in kit.queue.iterdir()}
    real = files.open_private

    def open_private(path, flags, **named):
        if str(path).endswith("jobs-3.jsonl"):
            raise StoreUnavailable(f"{path}: Input/output error")
        return real(path, flags, **named)

    with monkeypatch.context() as patched:
        patched.setattr(files, "open_private", open_private)
        with pytest.raises(StoreUnavailable, match="jobs-3"):
            kit.open().repair()
    assert {name: (kit.queue / name).read_bytes() for name in before} == before


@pytest.mark.parametrize("kind", ["done", "damaged"])
def test_a_file_that_the_system_does_not_tell_of_is_not_taken_for_missing(kit, monkeypatch, kind):
    """The new generation did without it, and it was removed with the old one."""
    kit.furnish()
    damage(kit.file("jobs"), b'"command":"true"', b'"command":"evil"')
    kit.open().repair()
    kit.add(kit.open(), "later")
    damage(kit.file("jobs"), b'"command":"true"', b'"command":"evil"')
    if kind == "done":
        damage(kit.file("journal"), b'{"jobq"', b'~"jobq"')
    path, jobs, real = kit.file(kind), ids(kit) if kind == "damaged" else [], os.lstat

    def lstat(place, **named):
        if os.fspath(place) == str(path):
            raise OSError(errno.EIO, "Input/output error")
        return real(place, **named)

    with monkeypatch.context() as patched:
        patched.setattr(os, "lstat", lstat)
        with contextlib.suppress(StoreUnavailable):
            kit.open().repair()
    assert path.exists()
    kit.open().repair()
    assert not jobs or ids(kit) == jobs
    assert path.exists() or kind == "done"


def test_an_archive_that_cannot_be_opened_for_now_is_not_counted_as_empty(kit, monkeypatch):
    """The manifest that mending made counted no finished job from then on."""
    kit.furnish()
    path = kit.file("jobs")
    path.write_bytes(path.read_bytes()[:-100])
    before = kit.file("done").read_bytes()

    def refuse(*_):
        raise StoreUnavailable("done-1.jsonl: Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(Archive, "oldest_first", refuse)
        with pytest.raises(StoreUnavailable):
            kit.open().repair()
    assert kit.file("done").read_bytes() == before
    kit.open().repair()
    assert all("set aside before" in problem for problem in kit.open().check())


def test_the_copy_of_a_segment_that_was_being_made_gives_no_job_twice(kit, monkeypatch):
    """Without a manifest, mending that was interrupted took what it had made of the archive for more of it."""
    kit.furnish()
    for kind in ("jobs", "journal"):
        damage(kit.file(kind), f'{{"jobq":"{kind}"'.encode(), f'~"jobq":"{kind}"'.encode())
    damage(kit.file("done"), b'"command":"true"', b'"command":"evil"')
    (kit.queue / "queue.json").unlink()

    def refuse(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(compaction._Generation, "publish", refuse)
        patched.setattr(compaction._Generation, "discard", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            kit.open().repair()
    (kit.queue / "jobs-3.jsonl").unlink()  # as if it had been interrupted before that
    kit.open().repair()
    assert len(set(ids(kit))) == len(ids(kit))
    assert all("set aside before" in problem for problem in kit.open().check())


def with_manifest(kit, change):
    """Put another manifest in force, with a checksum that is right."""
    path = kit.queue / "queue.json"
    path.write_bytes(change(manifests.read(path.read_bytes())).dump())


def swapped(found):
    first, second, *rest = found.sections
    return replace(found, sections=(second, first, *rest))


def with_a_gap(found):
    return replace(found, sections=found.sections[1:])


def overlapping(found):
    first, second, *rest = found.sections
    return replace(found, sections=(first, second._replace(start=first.start), *rest))


def with_another_lane(found):
    first, *rest = found.sections
    return replace(found, sections=(first._replace(lane=Lane("elsewhere", 0, None, alone=False)), *rest))


def with_a_number_given_twice(found):
    return replace(found, seq=1)


def miscounted(found):
    return replace(found, counts={"default": {"pending": 7}})


def with_more_lines(found):
    first, *rest = found.sections
    return replace(found, sections=(first._replace(lines=9), *rest))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (swapped, "out of order"),
        (with_a_gap, "in no section"),
        (overlapping, "in no section, or in two"),
        (with_another_lane, "in a section that is not its own"),
        (with_a_number_given_twice, "the next one is to be 1"),
        (miscounted, "counts 7 pending jobs in queue default, but"),
        (with_more_lines, "counts 9 lines in a section"),
    ],
)
def test_a_manifest_that_is_sound_and_wrong_is_told(kit, change, told):
    kit.furnish()
    kit.compact(kit.open())
    assert kit.open().check() == []
    with_manifest(kit, change)
    assert told in "\n".join(kit.open().check())


def test_a_store_in_which_all_is_well_is_told_nothing_of(kit):
    kit.furnish()
    for number in range(3):
        assert kit.open().check() == []
        kit.add(kit.open(), f"more-{number}", queue="other", priority=-number)
        kit.compact(kit.open())
