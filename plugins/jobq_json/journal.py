"""The journal of one generation: every change since its start, one line one atomic transaction, append-only.

A line ends in `,"seq":N,"crc":"xxxxxxxx"}`, N being the number of the next job that is added, so that a writer needs
only the last line to go on. Readers take no lock: they read up to the last line feed. Bytes behind it are room, or a
write under way, or one that was torn; the next writer cuts that off, unless it is a whole record.
"""

from __future__ import annotations

import os

from jobq import files
from jobq.errors import StoreUnreadable
from jobq_json.directory import check_header
from jobq_json.lines import SUFFIX, seal, sound
from jobq_json.room import MOST, SECTOR, data_end, room_behind

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq_json.directory import Directory
    from jobq_json.manifest import Manifest

_FIRST, _MOST_AT_ONCE = 1 << 12, 1 << 24
_TAIL = 1 << 12
_SKIP = 1_000_000
"""How many numbers a damaged last record may have given to new jobs: they are not given again."""


class Journal:
    """The journal that a manifest names.

    Args:
        directory: where it is.
        manifest: the one that names it.
        writing: whether it will be written to.
        durable: whether what is written will be synced.

    Attributes:
        name, path: of the file.
        end: where its last line ends, as `tail` or `append` left it.
        seq: the number of the next job, likewise.
        lost: whether a sync has failed: what is on the disk is unknown, and no later sync says otherwise.

    Raises:
        FileNotFoundError: the generation is over, and its files are gone.
    """

    def __init__(
        self, directory: Directory, manifest: Manifest, *, writing: bool = False, durable: bool = False
    ) -> None:
        self.generation = manifest.generation
        self.name = manifest.journal_file
        self.path = f"{directory.path}/{self.name}"
        self._fd = files.open_private(self.path, os.O_RDWR if writing else os.O_RDONLY)
        self._writable, self._durable = writing, durable
        self.end, self.seq, self.lost = -1, 0, False
        self._size = 0

    @property
    def size(self) -> int:
        """The length of its file in bytes, room and all, as it is now.

        Who asks for it by `fstat` is told times too: Linux then notes a finer one at the next write, and has that to sync.
        """
        return os.lseek(self._fd, 0, os.SEEK_END)

    def read(self, position: int) -> Iterator[tuple[bytes, int]]:
        """The lines from a position on (without line feeds), each with the position behind it.

        What stands behind the last line feed is not among them, be it whole: its writer may yet fail and cut it off.
        The header, at position 0, is checked and left out.
        """
        left, start = b"", position
        for chunk in self._chunks(position):
            data = left + chunk
            offset = 0
            while (feed := data.find(b"\n", offset)) >= 0:
                line = data[offset:feed]
                offset = feed + 1
                if start + offset == len(line) + 1:
                    check_header(line, "journal", self.name)
                elif line:
                    yield line, start + offset
            start += offset
            left = data[offset:]
        if start == 0:
            check_header(left, "journal", self.name)

    def still_has(self, line: bytes, position: int) -> bool:
        """Whether the line (without line feed) that ends at a position is what `read` answered.

        Without the lock it may have been read while it was being written.
        """
        return os.pread(self._fd, len(line) + 1, position - len(line) - 1) == line + b"\n"

    def tail(self) -> None:
        """Under the lock: cut what is torn off the end, and find out `end` and `seq`.

        Raises:
            StoreUnreadable: no line of the journal is sound.
        """
        if not self._writable:
            descriptor, self._fd = self._fd, files.open_private(self.path, os.O_RDWR)
            os.close(descriptor)
            self._writable = True
        self._size = self.size
        if self._size == self.end or (self._size > self.end >= 0 and os.pread(self._fd, 1, self.end) == b"\0"):
            return
        end = self._data_end()
        lines = self._lines_from_end(end)
        torn = next(lines)
        if torn and sound(torn):
            self._write(end, b"\n")
            self._ends_with(torn, end + 1)
            return
        if torn:
            end -= len(torn)
            self._cut(end)
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
            OSError: the disk failed; the journal is `lost`.
        """
        try:
            files.sync(self._fd)
        except OSError:
            self.lost = True
            raise

    def close(self) -> None:
        """Free the descriptor."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _write(self, end: int, data: bytes) -> None:
        """Write all of `data` behind `end`, with room behind it where there is too little, or restore the old end."""
        try:
            room = 0
            if end + len(data) > self._size:
                self._cut(end)
                room = room_behind(end, len(data)) if self._durable else 0
            written = os.pwrite(self._fd, data + bytes(room), end)
            if written < len(data):
                files.write_all(self._fd, data[written:], at=end + written)
            self._size = max(self._size, end + len(data), end + written)
        except OSError as error:
            self.end = -1
            self._cut(end)
            raise files.unavailable(error, self.path) from None

    def _cut(self, end: int) -> None:
        """Cut off what stands behind `end`.

        What stands before it is on the disk from then on: so a hole is never further from the end than there was room.
        """
        if self.size > end:
            self.sync()
            os.ftruncate(self._fd, end)
        self._size = end

    def _chunks(self, position: int) -> Iterator[bytes]:
        """The data from a position on, bit by bit."""
        size = _FIRST
        while chunk := os.pread(self._fd, size - position % SECTOR, position):
            end = data_end(chunk, position)
            yield chunk[:end]
            if end < len(chunk):
                return
            position += end
            size = min(size * 16, _MOST_AT_ONCE)

    def _data_end(self) -> int:
        """Where the data end. What stands behind a hole is cut off."""
        size = self._size
        if 0 <= self.end < size:  # what others have written since
            return self.end + sum(map(len, self._chunks(self.end)))
        start = max(0, size - MOST)
        data = os.pread(self._fd, size - start, start)
        while not (end := data_end(data, start)) and start:
            start = max(0, start - MOST)
            data = os.pread(self._fd, size - start, start)
        if data[end:].strip(b"\0"):
            self._cut(start + end)
        return start + end

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
