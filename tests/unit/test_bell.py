"""The bell: written to, for ever as long, and no trouble to whoever rings it."""

import os

import pytest

from jobq.bell import CONTENT, Bell
from jobq.errors import UnsafeHome


@pytest.fixture
def bell(tmp_path):
    made = Bell(tmp_path / "bell")
    yield made
    made.close()


def test_a_ring_is_a_write_that_leaves_the_file_as_it_was(bell, tmp_path):
    bell.ring()
    path = tmp_path / "bell"
    os.utime(path, ns=(0, 0))
    bell.ring()
    assert path.read_bytes() == CONTENT
    assert path.stat().st_mtime_ns > 0
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_bell_that_cannot_be_rung_is_nobodys_trouble(tmp_path):
    Bell(tmp_path / "missing" / "bell").ring()


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "bell").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeHome):
        Bell(tmp_path / "bell").ring()
    assert not (tmp_path / "elsewhere").exists()


def test_it_may_be_closed_twice_and_rung_again(bell, tmp_path):
    bell.close()
    bell.ring()
    bell.close()
    bell.close()
    assert (tmp_path / "bell").read_bytes() == CONTENT
