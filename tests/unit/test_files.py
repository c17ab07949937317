"""Files and directories that only their owner may touch."""

import errno
import fcntl
import gc
import os
import socket
import stat

import pytest

from jobq.errors import StoreUnavailable, UnsafeHome
from jobq.files import (
    check_directory,
    open_private,
    private_directory,
    read_private,
    replace,
    sync,
    sync_directory,
    unavailable,
    write_all,
)

CREATE = os.O_RDWR | os.O_CREAT
ROOT = os.geteuid() == 0


@pytest.fixture(params=[0, 0o022, 0o777], ids=oct)
def umask(request):
    old = os.umask(request.param)
    yield request.param
    os.umask(old)


def mode(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def touch(path, content=b"old", permissions=0o600):
    path.write_bytes(content)
    path.chmod(permissions)
    return path


def test_a_directory_is_private_whatever_the_umask(tmp_path, umask):
    private_directory(tmp_path / "d")
    assert mode(tmp_path / "d") == 0o700
    private_directory(tmp_path / "d")


def test_a_file_is_private_whatever_the_umask(tmp_path, umask):
    descriptor = open_private(tmp_path / "f", CREATE | os.O_EXCL)
    try:
        assert mode(tmp_path / "f") == 0o600
        assert fcntl.fcntl(descriptor, fcntl.F_GETFD) & fcntl.FD_CLOEXEC
    finally:
        os.close(descriptor)


def test_a_file_opened_to_be_written_is_closed_to_others(tmp_path):
    path = touch(tmp_path / "f", permissions=0o644)
    os.close(open_private(path, os.O_RDONLY))
    assert mode(path) == 0o644, "reading changes nothing"
    os.close(open_private(path, CREATE))
    assert mode(path) == 0o600
    assert path.read_bytes() == b"old"


def test_flags_say_what_a_missing_or_present_file_is(tmp_path):
    with pytest.raises(FileNotFoundError):
        open_private(tmp_path / "f", os.O_RDONLY)
    touch(tmp_path / "f")
    with pytest.raises(FileExistsError):
        open_private(tmp_path / "f", CREATE | os.O_EXCL)


@pytest.mark.parametrize(("flags", "left"), [(os.O_EXCL, []), (0, ["f"])], ids=["made in the call", "there perhaps"])
def test_a_new_file_that_cannot_be_looked_at_is_not_left(tmp_path, monkeypatch, flags, left):
    def refuse(_descriptor):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", refuse)
        with pytest.raises(StoreUnavailable, match="f: Input/output error"):
            open_private(tmp_path / "f", os.O_WRONLY | os.O_CREAT | flags)
    assert os.listdir(tmp_path) == left


def test_a_file_below_an_open_directory(tmp_path):
    touch(tmp_path / "f")
    directory = os.open(tmp_path, os.O_RDONLY)
    try:
        descriptor = open_private("f", os.O_RDONLY, directory=directory)
        assert os.read(descriptor, 10) == b"old"
        os.close(descriptor)
    finally:
        os.close(directory)


def link(path):
    path.symlink_to(touch(path.with_name("target")))


def dangling(path):
    path.symlink_to(path.with_name("nothing"))


def listening(path):
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path.parent)  # the whole path may be too long for a socket's address
    try:
        server.bind(path.name)
    finally:
        os.chdir(here)
        server.close()


ODD = {"link": link, "dangling": dangling, "fifo": os.mkfifo, "directory": os.mkdir, "socket": listening}


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR, CREATE, CREATE | os.O_TRUNC])
@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, kind, flags):
    ODD[kind](tmp_path / "f")
    gc.collect()  # what others have left open is not to be closed in between
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(UnsafeHome, match="f is not a regular file"):
        open_private(tmp_path / "f", flags)
    assert len(os.listdir("/dev/fd")) == before, "no descriptor is left open"
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("kind", ["link", "dangling", "fifo", "socket"])
def test_what_is_no_directory_is_refused(tmp_path, kind):
    ODD[kind](tmp_path / "d")
    for check in (private_directory, check_directory):
        with pytest.raises(UnsafeHome, match="d is not a real directory"):
            check(tmp_path / "d")


def test_a_link_to_a_directory_is_refused(tmp_path):
    private_directory(tmp_path / "real")
    (tmp_path / "d").symlink_to(tmp_path / "real")
    with pytest.raises(UnsafeHome, match="not a real directory"):
        private_directory(tmp_path / "d")


@pytest.mark.parametrize("permissions", [0o750, 0o701, 0o777, 0o720])
def test_a_directory_open_to_others_is_refused_with_the_way_out(tmp_path, permissions):
    path = tmp_path / "d"
    path.mkdir()
    path.chmod(permissions)
    with pytest.raises(UnsafeHome, match=rf"mode {permissions:04o}.*chmod 700 .*d"):
        private_directory(path)
    path.chmod(0o700)
    private_directory(path)


@pytest.mark.skipif(not ROOT, reason="only root can give files away")
def test_what_belongs_to_somebody_else_is_refused(tmp_path):
    path = touch(tmp_path / "f")
    os.chown(path, 12345, 12345)
    with pytest.raises(UnsafeHome, match="f belongs to user 12345, not to the one running this"):
        open_private(path, os.O_RDONLY)
    private_directory(tmp_path / "d")
    os.chown(tmp_path / "d", 12345, 12345)
    with pytest.raises(UnsafeHome, match="d belongs to user 12345"):
        private_directory(tmp_path / "d")


@pytest.mark.skipif(ROOT, reason="to root nothing of the system is foreign")
def test_what_belongs_to_the_system_is_refused():
    with pytest.raises(UnsafeHome, match="belongs to user 0"):
        open_private("/etc/passwd", os.O_RDONLY)
    with pytest.raises(UnsafeHome, match="belongs to user 0"):
        check_directory("/etc")


def test_a_missing_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        check_directory(tmp_path / "d")
    with pytest.raises(StoreUnavailable, match="No such file"):
        private_directory(tmp_path / "d" / "e")
    touch(tmp_path / "f")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        private_directory(tmp_path / "f" / "e")
    with pytest.raises(StoreUnavailable, match="Not a directory"):
        open_private(tmp_path / "f" / "e", os.O_RDONLY)
    with pytest.raises(StoreUnavailable, match="too long"):
        open_private(tmp_path / ("x" * 300), CREATE)


@pytest.mark.parametrize("durable", [True, False])
def test_a_file_is_replaced_as_a_whole(tmp_path, umask, durable):
    path = tmp_path / "f"
    replace(path, b"first", durable=durable)
    old = os.open(path, os.O_RDONLY)
    replace(path, b"second", durable=durable)
    assert path.read_bytes() == b"second"
    assert os.read(old, 100) == b"first", "who had it open sees the old content"
    os.close(old)
    assert mode(path) == 0o600
    assert os.listdir(tmp_path) == ["f"]


def test_a_replaced_link_is_replaced_not_followed(tmp_path):
    link(tmp_path / "f")
    replace(tmp_path / "f", b"new", durable=False)
    assert not (tmp_path / "f").is_symlink()
    assert (tmp_path / "target").read_bytes() == b"old"


@pytest.mark.parametrize("call", ["write", "fdatasync", "replace", "fsync"])
def test_a_replacement_that_fails_is_told_and_the_old_content_stands(tmp_path, monkeypatch, call):
    path = touch(tmp_path / "f")

    def refuse(*_given, **_named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, call, refuse)
    with pytest.raises(StoreUnavailable, match="f: No space left on device"):
        replace(path, b"new", durable=True)
    monkeypatch.undo()
    assert path.read_bytes() == (b"new" if call == "fsync" else b"old")
    assert os.listdir(tmp_path) == ["f"], "nothing half written is left"
    replace(path, b"newer", durable=True)
    assert os.listdir(tmp_path) == ["f"]


def test_a_replacement_is_written_to_a_file_that_was_not_there(tmp_path, monkeypatch):
    opened = []
    real = os.open
    monkeypatch.setattr(
        os,
        "open",
        lambda path, flags, *rest, **named: opened.append((path, flags)) or real(path, flags, *rest, **named),
    )
    for _ in range(2):
        replace(tmp_path / "f", b"new", durable=False)
    assert all(flags & os.O_EXCL for _, flags in opened)
    assert len({path for path, _ in opened}) == 2


def test_a_file_is_read_whole_and_only_if_it_is_one(tmp_path):
    assert read_private(touch(tmp_path / "f", b"x" * 100_000)) == b"x" * 100_000
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnsafeHome, match="not a regular file"):
        read_private(tmp_path / "fifo")


def test_a_durable_replacement_is_synced_before_and_after_the_rename(tmp_path, monkeypatch):
    calls = []
    for name in ("fdatasync", "replace", "fsync"):
        call = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, _call=call, _name=name: (calls.append(_name), _call(*given)))
    replace(tmp_path / "f", b"new", durable=True)
    assert calls == ["fdatasync", "replace", "fsync"]
    replace(tmp_path / "f", b"new", durable=False)
    assert calls[3:] == ["replace"]


def test_everything_is_written_however_little_at_a_time(tmp_path, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, bytes(data[:3])))
    descriptor = open_private(tmp_path / "f", CREATE)
    write_all(descriptor, b"0123456789")
    write_all(descriptor, b"")
    sync(descriptor)
    os.close(descriptor)
    sync_directory(tmp_path)
    assert (tmp_path / "f").read_bytes() == b"0123456789"


def test_the_systems_error_names_its_file(tmp_path):
    assert str(unavailable(OSError(13, "Permission denied"), tmp_path / "f")) == f"{tmp_path}/f: Permission denied"
    assert str(unavailable(OSError("odd"), "f")) == "f: odd"


def test_a_directory_that_cannot_be_looked_at_is_an_error_of_the_store(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "lstat", refuse)
        with pytest.raises(StoreUnavailable, match="Input/output error"):
            check_directory(tmp_path)
