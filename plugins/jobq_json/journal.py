"""The journal of one generation: every change since its start, one line one atomic transaction, append-only.

A line ends in `,"seq":N,"crc":"xxxxxxxx"}`, N being the number of the next job that is added, so that a writer needs
only the last line to go on. Readers take no lock: they read up to the last line feed. Bytes behind it are a write
under way, or one that was torn; the next writer cuts them off, unless they are a whole record.
"""

from __future__ import annotations

import os

from jobq import files
from jobq.errors import StoreUnreadable
from jobq_json.directory import check_header
from jobq_json.lines import SUFFIX, seal, sound

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq_json.directory import Directory
    from jobq_json.manifest import Manifest

_WRITING = os.O_RDWR | os.O_APPEND
_CHUNK = 1 << 22
_TAIL = 1 << 12
_SKIP = 1_000_000
"""How many numbers a damaged last record may have given to new jobs: they are not given again."""


class Journal:
    """The journal that a manifest names.

    Args:
        directory: where it is.
        manifest: the one that names it.
        writing: whether it will be written to.

    Attributes:
        name, path: of the file.
        end: its length in bytes, as `tail` or `append` left it.
        seq: the number of the next job, likewise.

    Raises:
        FileNotFoundError: the generation is over, and its files are gone.
    """

    def __init__(self, directory: Directory, manifest: Manifest, *, writing: bool = False) -> None:
        self.generation = manifest.generation
        self.name = manifest.journal_file
        self.path = f"{directory.path}/{self.name}"
        self._fd = files.open_private(self.path, _WRITING if writing else os.O_RDONLY)
        self._writable = writing
        self.end, self.seq = -1, 0

    @property
    def size(self) -> int:
        """Its length in bytes, as it is now."""
        return os.fstat(self._fd).st_size

    def read(self, position: int) -> Iterator[tuple[bytes, int]]:
        """The lines from a position on (without line feeds), each with the position behind it.

        What stands behind the last line feed is not among them, be it whole: its writer may yet fail and cut it off.
        The header, at position 0, is checked and left out.
        """
        left, size = b"", _CHUNK
        start = position
        while chunk := os.pread(self._fd, size, start + len(left)):
            data = left + chunk
            offset = 0
            while (end := data.find(b"\n", offset)) >= 0:
                line = data[offset:end]
                offset = end + 1
                if start + offset == len(line) + 1:
                    check_header(line, "journal", self.name)
                elif line:
                    yield line, start + offset
            start += offset
            left = data[offset:]
            size = max(_CHUNK, len(left))  # of a line longer than that no byte is looked at over and over
        if start == 0:
            check_header(left, "journal", self.name)

    def tail(self) -> None:
        """Under the lock: cut what is torn off the end, and find out `end` and `seq`.

        Raises:
            StoreUnreadable: no line of the journal is sound.
        """
        if not self._writable:
            descriptor, self._fd = self._fd, files.open_private(self.path, _WRITING)
            os.close(descriptor)
            self._writable = True
        end = os.fstat(self._fd).st_size
        if end == self.end:
            return
        lines = self._lines_from_end(end)
        torn = next(lines)
        if torn and sound(torn):
            self._write(end, b"\n")
            self._ends_with(torn, end + 1)
            return
        if torn:
            end -= len(torn)
            os.ftruncate(self._fd, end)
        for damaged, line in enumerate(lines):
            if sound(line):
                self._ends_with(line, end)
                self.seq += damaged * _SKIP
                return
        raise StoreUnreadable(f"{self.path} has no readable line")

    def append(self, body: str, *, next_seq: int) -> int:
        """Under the lock, after `tail`: write one record; the position behind it.

        Args:
            body: the text of its JSON object, with its closing brace, without `seq` and checksum.
            next_seq: the number of the next job after this record.

        Raises:
            StoreUnavailable: nothing was written.
        """
        line = seal(f'{body[:-1]},"seq":{next_seq}}}') + b"\n"
        self._write(self.end, line)
        self.end += len(line)
        self.seq = next_seq
        return self.end

    def sync(self) -> None:
        """Bring what was appended to the disk.

        Raises:
            OSError: the disk failed; what is on it is unknown, and no later sync of this file says otherwise.
        """
        files.sync(self._fd)

    def close(self) -> None:
        """Free the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, end: int, data: bytes) -> None:
        """Append all of `data`, or restore the old end."""
        try:
            written = os.write(self._fd, data)
            if written < len(data):
                files.write_all(self._fd, data[written:])
        except OSError as error:
            self.end = -1
            os.ftruncate(self._fd, end)
            raise files.unavailable(error, self.path) from None

    def _ends_with(self, line: bytes, end: int) -> None:
        body = line[:-SUFFIX]
        self.end, self.seq = end, int(body[body.rindex(b'"seq":') + 6 :])

    def _lines_from_end(self, end: int) -> Iterator[bytes]:
        """What stands behind the last line feed (perhaps nothing), then the lines before it, backwards."""
        data, start, size = b"", end, _TAIL
        while True:
            cut = data.rfind(b"\n")
            if cut >= 0:
                yield data[cut + 1 :]
                data = data[:cut]
            elif start == 0:
                yield data
                return
            else:
                size = min(size, start)
                start -= size
                data = os.pread(self._fd, size, start) + data
                size *= 4
