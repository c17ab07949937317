"""What attempts print, captured and bounded."""

import errno
import gc
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq import output
from jobq.errors import StoreUnavailable, UnsafeHome
from jobq.output import TAIL_LIMIT, Capture, Reading, remove

LIMIT = 1000
RING_HEADER = 24
HALF = LIMIT // 2


@pytest.fixture
def home(tmp_path):
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return home


@pytest.fixture
def capture(home):
    captures = []

    def begin(job_id="x", run=1, limit=LIMIT):
        captures.append(Capture(home, job_id, run, limit))
        return captures[-1]

    yield begin
    for each in captures:
        each.close()


def kept(home, job_id="x", run=1):
    return b"".join(Reading(home, job_id, run).read())


def files(home):
    return sorted(path for path in home.rglob("*") if path.is_file())


def numbered(count):
    """Bytes of which every piece tells where it stood."""
    return b"".join(b"%06d\n" % number for number in range(count // 7 + 1))[:count]


def expected(data, limit=LIMIT):
    """What is kept of `data`: the head, and the latest bytes of the rest."""
    head, rest = data[: limit // 2], data[limit // 2 :]
    size = limit - limit // 2
    if len(rest) <= size:
        return data
    return head + b"\n[jobq: %d bytes left out]\n" % (len(rest) - size) + rest[-size:]


def test_nothing_is_created_without_output(home, capture):
    quiet = capture()
    quiet.write(b"")
    quiet.close()
    assert list(home.iterdir()) == []
    assert kept(home) == b""
    assert quiet.tail() == ""


@pytest.mark.parametrize("size", [1, HALF - 1, HALF, HALF + 1, LIMIT - 1, LIMIT, LIMIT + 1, 3 * LIMIT, 100 * LIMIT + 3])
@pytest.mark.parametrize("piece", [7, 64, HALF, 10**6])
def test_head_and_tail_are_kept_within_the_limit(home, capture, size, piece):
    data = numbered(size)
    taken = capture()
    for start in range(0, size, piece):
        taken.write(data[start : start + piece])
    assert kept(home) == expected(data), "as long as it is written"
    taken.close()
    assert kept(home) == expected(data)
    assert sum(path.stat().st_size for path in files(home)) <= LIMIT + RING_HEADER


@given(st.integers(1, 60), st.lists(st.binary(max_size=70), max_size=12))
def test_any_bytes_in_any_pieces(tmp_path_factory, half, pieces):
    home = tmp_path_factory.mktemp("home", numbered=True)
    home.chmod(0o700)
    limit = 2 * half + 1
    taken = Capture(home, "x", 1, limit)
    for piece in pieces:
        taken.write(piece)
    taken.close()
    assert kept(home) == expected(b"".join(pieces), limit)
    assert taken.tail() == b"".join(pieces).decode("utf-8", "replace").replace("\0", "␀")


@pytest.mark.parametrize("step", [1, 3, 40, 333])
def test_it_can_be_followed_while_it_is_written(home, capture, step):
    data = numbered(LIMIT)
    taken, follower = capture(), Reading(home, "x", 1)
    seen = list(follower.read())
    for start in range(0, LIMIT, step):
        taken.write(data[start : start + step])
        seen += follower.read()
    assert b"".join(seen) == data
    assert list(follower.read()) == []


def test_a_follower_that_keeps_up_misses_nothing_of_a_long_output(home, capture):
    data = numbered(20 * LIMIT)
    taken, follower, seen = capture(), Reading(home, "x", 1), b""
    for start in range(0, len(data), 100):
        taken.write(data[start : start + 100])
        seen += b"".join(follower.read())
    assert seen == data


def test_a_follower_that_comes_late_is_told_what_it_missed(home, capture):
    data = numbered(5 * LIMIT)
    taken, follower = capture(), Reading(home, "x", 1)
    taken.write(data[:LIMIT])
    assert b"".join(follower.read()) == data[:LIMIT]
    taken.write(data[LIMIT:])
    missed = 4 * LIMIT - HALF
    assert b"".join(follower.read()) == b"\n[jobq: %d bytes left out]\n" % missed + data[-HALF:]


def test_what_is_written_between_the_files_comes_in_order(home, capture, monkeypatch):
    data = numbered(LIMIT)
    taken, follower = capture(), Reading(home, "x", 1)
    taken.write(data[:100])
    pread, more = os.pread, [data[100:]]

    def written_at_the_end_of_the_head(descriptor, size, offset):
        piece = pread(descriptor, size, offset)
        if not piece and more:
            taken.write(more.pop())
        return piece

    monkeypatch.setattr(output.os, "pread", written_at_the_end_of_the_head)
    seen = b"".join(follower.read())
    seen += b"".join(follower.read())
    assert more == []
    assert seen == data


def test_runs_and_jobs_are_kept_apart(home, capture):
    for job_id, run in (("x", 1), ("x", 2), ("X", 1), ("x.1", 1)):
        capture(job_id, run).write(f"{job_id} {run}".encode())
    for job_id, run in (("x", 1), ("x", 2), ("X", 1), ("x.1", 1)):
        assert kept(home, job_id, run) == f"{job_id} {run}".encode()
    assert kept(home, "x", 3) == b""


def test_a_second_capture_of_a_run_begins_anew(home, capture):
    capture().write(numbered(3 * LIMIT))
    capture().write(b"again")
    assert kept(home).startswith(b"again")


def test_removing_takes_every_run_of_one_job(home, capture):
    for job_id, run in (("x", 1), ("x", 2), ("x", 10), ("y", 1)):
        capture(job_id, run).write(numbered(3 * LIMIT))
    remove(home, "x")
    assert kept(home, "x", 1) == kept(home, "x", 2) == kept(home, "x", 10) == b""
    assert len(files(home)) == 2
    assert kept(home, "y", 1) == expected(numbered(3 * LIMIT))
    remove(home, "x")
    remove(home, "never-there")


def test_no_file_name_is_made_from_an_id(home, capture):
    for number, job_id in enumerate(("a" * 128, "A:b@c.ring", "..", "x/../../y")):
        capture(job_id).write(b"1")
        assert len(files(home)) == number + 1
    for path in files(home):
        directory, name = path.parent.name, path.name
        assert path.parent.parent == home / "output"
        assert len(directory) == 2
        assert set(directory + name.removesuffix(".1")) <= set("0123456789abcdef")


def test_the_files_are_for_their_owner_alone(home, capture):
    old = os.umask(0)
    try:
        capture().write(numbered(3 * LIMIT))
    finally:
        os.umask(old)
    assert {path.stat().st_mode & 0o777 for path in files(home)} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in home.rglob("*") if path.is_dir()} == {0o700}


@pytest.mark.parametrize(
    ("data", "tail"),
    [
        (b"one\ntwo\n", "one\ntwo\n"),
        (b"\xff\xfeabc\n", "\ufffd\ufffdabc\n"),
        (b"a\0b", "a␀b"),
        (b"x" * 5000, "x" * TAIL_LIMIT),
        (b"y" * 3000 + b"\nlast line\n", "last line\n"),
    ],
)
@pytest.mark.parametrize("piece", [1000, 10_000])
def test_the_tail_is_the_last_lines_as_text(capture, data, tail, piece):
    taken = capture()
    for start in range(0, len(data), piece):
        taken.write(data[start : start + piece])
    assert taken.tail() == tail
    taken.close()
    assert taken.tail() == tail


def refuse(*_given):
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["write", "pwrite", "mkdir", "open"])
def test_a_disk_that_refuses_costs_output_never_the_job(home, capture, monkeypatch, call):
    taken = capture()
    with monkeypatch.context() as patch:
        patch.setattr(output.os, call, lambda *given, **_named: refuse(*given))
        taken.write(numbered(3 * LIMIT))
    taken.write(b"the end")
    assert taken.tail().endswith("the end")
    taken.close()
    assert len(kept(home)) <= HALF


@pytest.mark.parametrize("obstacle", ["file", "link", "open to others"])
def test_an_unsafe_place_costs_output_never_the_job(home, capture, tmp_path, obstacle):
    place = home / "output"
    if obstacle == "file":
        place.write_bytes(b"")
    elif obstacle == "link":
        place.symlink_to(tmp_path)
    else:
        place.mkdir()
        place.chmod(0o777)
    taken = capture()
    taken.write(b"hello")
    assert taken.tail() == "hello"
    taken.close()
    assert [path for path in files(home) if path.stat().st_size] == []


def test_a_link_in_place_of_output_is_not_followed(home, capture, tmp_path):
    capture().write(b"hello")
    (path,) = files(home)
    path.unlink()
    secret = tmp_path / "secret"
    secret.write_bytes(b"secret")
    path.symlink_to(secret)
    with pytest.raises(UnsafeHome):
        kept(home)


def test_a_reader_that_the_writer_overtakes_says_what_is_missing_and_shows_nothing_half_new(home, capture, monkeypatch):
    data = numbered(20 * LIMIT)
    taken = capture()
    taken.write(data[: 2 * LIMIT])
    reading = Reading(home, "x", 1)
    b"".join(reading.read())
    taken.write(data[2 * LIMIT : 2 * LIMIT + 100])
    pread = os.pread

    def slow(descriptor, length, offset):
        piece = pread(descriptor, length, offset)
        if offset and os.readlink(f"/proc/self/fd/{descriptor}").endswith(".ring"):
            monkeypatch.setattr(os, "pread", pread)
            taken.write(data[2 * LIMIT + 100 :])
        return piece

    monkeypatch.setattr(os, "pread", slow)
    assert b"".join(reading.read()) == f"\n[jobq: {100} bytes left out]\n".encode()
    later = b"".join(reading.read())
    assert later.endswith(data[-HALF:])
    taken.close()


def test_nothing_of_a_job_that_had_the_same_id_is_kept(home, capture):
    first = capture()
    first.write(numbered(3 * LIMIT))
    first.close()
    assert len(files(home)) == 2
    second = capture()
    second.write(b"short")
    assert kept(home) == b"short"
    second.write(numbered(3 * LIMIT))
    assert kept(home) == expected(b"short" + numbered(3 * LIMIT))


def test_what_a_full_disk_did_not_take_is_told(home, capture, monkeypatch):
    full = capture()
    full.write(b"first\n")
    assert full.error is None

    def refuse(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(output, "write_all", refuse)
    full.write(b"second\n")
    monkeypatch.undo()
    full.write(b"third\n")
    assert full.error == "No space left on device"
    assert kept(home) == b"first\n", "no hole in what is kept"
    assert full.tail() == "first\nsecond\nthird\n"


def test_a_place_that_is_not_ours_is_told(home, capture):
    unsafe = capture()
    (home / "output").symlink_to("/tmp")
    unsafe.write(b"data")
    assert "output" in unsafe.error


def test_an_output_that_was_removed_while_it_was_written_is_told(home, capture):
    written = capture()
    written.write(b"printed")
    (path,) = files(home)
    path.unlink()
    written.close()
    assert written.error == "its file was removed while it was written"


@pytest.mark.parametrize("call", ["fstat", "close"])
def test_a_disk_that_is_gone_at_the_end_costs_nothing(home, capture, monkeypatch, call):
    def gone(descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    written = capture()
    written.write(b"x" * (LIMIT + 1))
    with monkeypatch.context() as context:
        context.setattr(os, call, gone)
        written.close()
    assert call == "close" or len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(("blocks", "free", "taken"), [(1 << 20, 1023, False), (1 << 20, 1024, True), (0, 0, True)])
def test_the_last_of_a_disk_is_left_to_others(home, capture, monkeypatch, blocks, free, taken):
    """Some file systems tell no size, and have no end."""
    disk = os.statvfs_result((4096, 4096, blocks, free, free, 0, 0, 0, 0, 255))
    monkeypatch.setattr(os, "fstatvfs", lambda descriptor: disk)
    written = capture()
    written.write(b"printed")
    assert written.error == (None if taken else "the disk is nearly full")
    assert kept(home) == (b"printed" if taken else b"")
    assert written.tail() == "printed"


def test_output_that_cannot_be_removed_is_told(home, capture, monkeypatch):
    kept_one = capture()
    kept_one.write(b"x")
    kept_one.close()

    def refuse(_path):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(os, "listdir", refuse)
        with pytest.raises(StoreUnavailable, match="Too many open files"):
            remove(home, "x")
