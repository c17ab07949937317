"""Writing a data file of a new generation."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobq import files

if TYPE_CHECKING:
    from mmap import mmap

_FLUSH = 1 << 22
_SYNC = 1 << 25


class FileWriter:
    """Appends to a file through a buffer. After an error it is closed.

    Args:
        descriptor: of the file, open for appending; closed by this object.
        path: where the file is.
        offset: its size.

    Attributes:
        offset: where the next bytes go.
    """

    def __init__(self, descriptor: int, path: str, *, offset: int = 0) -> None:
        self._descriptor, self._path = descriptor, path
        self.offset = offset
        self._buffer: list[bytes] = []
        self._buffered = self._unsynced = 0

    def put(self, data: bytes) -> None:
        """Append bytes.

        Raises:
            StoreUnavailable: the system refused.
        """
        self._buffer.append(data)
        self._buffered += len(data)
        self.offset += len(data)
        if self._buffered >= _FLUSH:
            self._flush(sync=self._unsynced >= _SYNC)  # bit by bit: a long sync would hold up the journal's writers

    def copy(self, data: mmap, start: int, end: int) -> None:
        """Append what lies between two offsets of another file, bit by bit.

        Raises:
            StoreUnavailable: the system refused.
        """
        for at in range(start, end, _FLUSH):
            self.put(data[at : min(end, at + _FLUSH)])

    def finish(self) -> None:
        """Bring everything to the disk, and close the file.

        Raises:
            StoreUnavailable: the system refused.
        """
        if self._descriptor >= 0:
            self._flush(sync=True)
            self.close()

    def close(self) -> None:
        """Free the descriptor, whether or not everything was written."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _flush(self, *, sync: bool) -> None:
        try:
            files.write_all(self._descriptor, b"".join(self._buffer))
            self._unsynced += self._buffered
            if sync:
                files.sync(self._descriptor)
                self._unsynced = 0
        except OSError as error:
            self.close()
            raise files.unavailable(error, self._path) from None
        self._buffer, self._buffered = [], 0
