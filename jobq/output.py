"""What attempts print: captured byte for byte, bounded, in files of their own below HOME/output.

Of each attempt there is at most one file with the head of its output and, where that grew over half of
`output-limit`, a second one that keeps the latest bytes as a ring. Both are on disk at every moment, so they survive
the worker and can be followed. File names are made from a hash of the job's id, never from the id.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import hashlib
import os
from typing import TYPE_CHECKING

from jobq.errors import StoreError
from jobq.files import open_private, private_directory, unavailable, write_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TAIL_LIMIT = 2048
_NUMBER = 8
_HEADER = 3 * _NUMBER
"""A ring begins with its size, how many bytes were ever announced to be written to it, and how many were."""
_CHUNK = 1 << 16
_LEFT_FREE = 4 << 20
"""Bytes of the disk that no output takes: the store, which may be on the same one, has more use for them."""


class Capture:
    """Where one attempt's output is written. Used by one thread at a time; nothing is created before the first byte.

    A disk that refuses costs output, never the job: from there on nothing more of the attempt is kept but its tail.

    Attributes:
        error: why not all was kept that the bound leaves; None: it was.

    Args:
        home: the home directory.
        job_id, run: which attempt.
        limit: the most bytes kept: half of it from the beginning, half from the end.
    """

    def __init__(self, home: Path, job_id: str, run: int, limit: int) -> None:
        self._where = home, job_id, run
        self._room = limit // 2
        self._ring_size = limit - self._room
        self._head = self._ring = -1
        self._ring_total = 0
        self._last = b""
        self.error: str | None = None

    @functools.cached_property
    def _head_path(self) -> Path:
        return _path(*self._where)  # made for the first byte: most attempts print nothing

    def write(self, data: bytes) -> None:
        """Keep `data`, or what of it the bound leaves."""
        self._last = data[-TAIL_LIMIT:] if len(data) >= TAIL_LIMIT else (self._last + data)[-TAIL_LIMIT:]
        if self.error is not None or not data:
            return
        try:
            self._store(data)
        except OSError as error:
            self.error = error.strerror or type(error).__name__
        except StoreError as error:
            self.error = str(error)

    def tail(self) -> str:
        """The last lines written, at most 2 KiB of text; what is no UTF-8 is replaced."""
        text = self._last.decode("utf-8", "replace").replace("\0", "\N{SYMBOL FOR NULL}")
        if len(self._last) == TAIL_LIMIT and "\n" in text[:-1]:
            text = text[text.index("\n") + 1 :]
        return text

    def close(self) -> None:
        """Close the files. It raises nothing: a disk that is gone costs output, never the job."""
        with contextlib.suppress(OSError):
            if self._head >= 0 and self.error is None and not os.fstat(self._head).st_nlink:
                self.error = "its file was removed while it was written"
        for descriptor in (self._head, self._ring):
            with contextlib.suppress(OSError):
                if descriptor >= 0:
                    os.close(descriptor)
        self._head = self._ring = -1

    def _store(self, data: bytes) -> None:
        if self._room:
            if self._head < 0:
                private_directory(self._head_path.parent.parent)
                private_directory(self._head_path.parent)
                # Under an id that was used before, an old ring would be read as the end of this output.
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(_ring_path(self._head_path))
                self._head = open_private(self._head_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            fits = data[: self._room]
            _leave_room(self._head)
            write_all(self._head, fits)
            self._room -= len(fits)
            data = data[len(fits) :]
        if not data:
            return
        if self._ring < 0:
            self._ring = open_private(_ring_path(self._head_path), os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        if self._ring_total < self._ring_size:
            _leave_room(self._ring)
        total = self._ring_total + len(data)
        data = data[-self._ring_size :]
        start = (total - len(data)) % self._ring_size
        os.pwrite(self._ring, self._ring_size.to_bytes(_NUMBER, "big") + total.to_bytes(_NUMBER, "big"), 0)
        first = data[: self._ring_size - start]
        _pwrite_all(self._ring, first, _HEADER + start)
        _pwrite_all(self._ring, data[len(first) :], _HEADER)
        os.pwrite(self._ring, total.to_bytes(_NUMBER, "big"), 2 * _NUMBER)
        self._ring_total = total


class Reading:
    """Reads one attempt's output, also while it is still written.

    `read` answers with what is new since the last call. Where the bound swallowed bytes, one line stands in for them.
    """

    def __init__(self, home: Path, job_id: str, run: int) -> None:
        self._head_path = _path(home, job_id, run)
        self._head_position = 0
        self._ring_position = 0

    def read(self) -> Iterator[bytes]:
        """The new bytes, in pieces."""
        try:  # before the head is read: where there is a ring, the head is complete, and nothing gets between the two
            ring = open_private(_ring_path(self._head_path), os.O_RDONLY)
        except FileNotFoundError:
            yield from self._read_head()
            return
        try:
            yield from self._read_head()
            yield from self._read_ring(ring)
        finally:
            os.close(ring)

    def _read_head(self) -> Iterator[bytes]:
        try:
            descriptor = open_private(self._head_path, os.O_RDONLY)
        except FileNotFoundError:
            return
        try:
            while piece := os.pread(descriptor, _CHUNK, self._head_position):
                self._head_position += len(piece)
                yield piece
        finally:
            os.close(descriptor)

    def _read_ring(self, descriptor: int) -> Iterator[bytes]:
        size, _, written = _ring_header(descriptor)
        while self._ring_position < written:
            start = self._ring_position % size
            wanted = min(_CHUNK, size - start, written - self._ring_position)
            piece = os.pread(descriptor, wanted, _HEADER + start)
            _, announced, _ = _ring_header(descriptor)
            gone = min(announced - size, written) - self._ring_position
            if gone > 0:  # the writer has overtaken: what was read may be half new
                yield f"\n[jobq: {gone} bytes left out]\n".encode()
                self._ring_position += gone
            elif not piece:
                return
            else:
                self._ring_position += len(piece)
                yield piece


def remove(home: Path, job_id: str) -> None:
    """Delete the output of every attempt of a job.

    Raises:
        StoreUnavailable: the system refused.
    """
    stem = _path(home, job_id, 0)
    prefix = stem.name.partition(".")[0] + "."
    try:
        for name in os.listdir(stem.parent):
            if name.startswith(prefix):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(stem.parent / name)
    except FileNotFoundError:
        return
    except OSError as error:
        raise unavailable(error, stem.parent) from None


def _path(home: Path, job_id: str, run: int) -> Path:
    digest = hashlib.sha256(job_id.encode()).hexdigest()
    return home / "output" / digest[:2] / f"{digest[2:34]}.{run}"


def _ring_path(head: Path) -> Path:
    return head.with_name(head.name + ".ring")


def _ring_header(ring: int) -> tuple[int, int, int]:
    """The size of a ring, how many bytes were announced to be written to it, and how many are."""
    header = os.pread(ring, _HEADER, 0)
    size, announced, written = (header[start : start + _NUMBER] for start in range(0, _HEADER, _NUMBER))
    return int.from_bytes(size, "big"), int.from_bytes(announced, "big"), int.from_bytes(written, "big")


def _leave_room(descriptor: int) -> None:
    """Refuse, as a full disk does, where this file's disk is nearly full; some have no end and tell no size."""
    disk = os.fstatvfs(descriptor)
    if disk.f_blocks and disk.f_bavail * disk.f_frsize < _LEFT_FREE:
        raise OSError(errno.ENOSPC, "the disk is nearly full")


def _pwrite_all(descriptor: int, data: bytes, offset: int) -> None:
    while data:
        written = os.pwrite(descriptor, data, offset)
        data, offset = data[written:], offset + written
