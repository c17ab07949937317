"""Whose trouble an error of the system is: that of the answer, or of something else."""

import contextlib
import errno
import os

import click
import pytest

from jobq import files
from jobq.cli.streams import is_unwritable


def refused(call, *args):
    with pytest.raises(OSError, match="No space left on device") as caught:
        call(*args)
    return caught.value


def test_an_answer_that_cannot_be_written_is_told_from_a_store_that_cannot(monkeypatch):
    def fail(_descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    assert not is_unwritable(refused(files.sync_directory, "/"))
    full = open("/dev/full", "w")  # noqa: SIM115 - it cannot be closed either
    assert is_unwritable(refused(click.echo, "answer", full))
    with contextlib.suppress(OSError):
        full.close()
