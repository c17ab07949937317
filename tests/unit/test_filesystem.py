"""What a file system is and does, tried and not assumed."""

import errno
import fcntl
import mmap
import os

import pytest

from jobq import files, filesystem


@pytest.fixture
def home(tmp_path):
    (tmp_path / "home").mkdir(mode=0o700)
    return tmp_path / "home"


def test_on_a_sound_one_all_works_and_nothing_is_left(home):
    assert filesystem.trial(home) == []
    assert os.listdir(home) == []


def refuse(number):
    def call(*_given, **_named):
        raise OSError(number, os.strerror(number))

    return call


@pytest.mark.parametrize(
    ("module", "name", "number", "told"),
    [
        (files, "sync", errno.EIO, "files cannot be synced in"),
        (files, "sync_directory", errno.EINVAL, "directories cannot be synced in"),
        (fcntl, "flock", errno.ENOLCK, "locks do not work in"),
        (mmap, "mmap", errno.ENODEV, "maps do not work in"),
        (os, "replace", errno.EXDEV, "files cannot be replaced in"),
        (os, "open", errno.EROFS, "nothing can be written in"),
        (os, "write", errno.ENOSPC, "nothing can be written in"),
    ],
)
def test_what_is_refused_is_told_with_the_place_and_the_reason(home, monkeypatch, module, name, number, told):
    with monkeypatch.context() as patched:
        patched.setattr(module, name, refuse(number))
        (sentence, *_) = [each for each in filesystem.trial(home) if told in each]
    assert str(home) in sentence
    assert os.strerror(number) in sentence
    assert os.listdir(home) == []


def test_locks_that_exclude_nobody_are_told(home, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    (sentence,) = filesystem.trial(home)
    assert "two can hold one at once" in sentence


def test_locks_that_are_not_given_back_are_told(home, monkeypatch):
    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", lambda fd, how: None if how == fcntl.LOCK_UN else real(fd, how))
    (sentence,) = filesystem.trial(home)
    assert "still held" in sentence


def test_maps_that_show_something_else_are_told(home, monkeypatch):
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: real(fd, data.lower(), at))
    (sentence,) = filesystem.trial(home)
    assert "do not show what is written" in sentence


def test_want_of_room_is_told(home, monkeypatch):
    assert filesystem.shortage(home)[0] == []
    facts = os.statvfs(home)
    monkeypatch.setattr(filesystem, "LEAST_FREE", facts.f_bavail * facts.f_frsize * 2)
    monkeypatch.setattr(filesystem, "LEAST_FILES", 1 << 62)
    problems, told = filesystem.shortage(home)
    assert ["MiB are free" in problems[0], "more files can be made" in problems[1]] == [True, True]
    assert "MiB and" in told


def test_the_kind_is_that_of_the_nearest_mount(tmp_path):
    assert filesystem.kind(tmp_path / "not" / "there") == filesystem.kind(tmp_path)
    if os.path.exists("/proc/self/mounts"):
        assert filesystem.kind(tmp_path) != ""
        assert filesystem.kind(os.path.realpath("/proc/self")) == "proc"
