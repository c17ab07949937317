"""A data file mapped into memory, and the jobs of its lines."""

from __future__ import annotations

import mmap
import os
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

from jobq import files
from jobq.errors import StoreUnreadable
from jobq_json.directory import check_header
from jobq_json.manifest import WAY_OUT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from jobq_json.directory import Directory


class Mapped:
    """The first `size` bytes of a data file: a header line, then one job a line. They never change.

    The map is freed when nothing refers to it any more; whoever iterates keeps it.

    Args:
        directory: where the file is.
        name: its name.
        kind: what its header says it is.
        size: how many of its bytes are data.

    Raises:
        FileNotFoundError: the generation is over, and its files are gone.
        StoreUnreadable: the file is truncated, or something else.
    """

    def __init__(self, directory: Directory, name: str, kind: str, size: int) -> None:
        self.name, self.size = name, size
        descriptor = files.open_private(f"{directory.path}/{name}", os.O_RDONLY)
        try:
            if os.fstat(descriptor).st_size < size:
                raise StoreUnreadable(f"{directory.path}/{name} is truncated; {WAY_OUT}")
            self.data = mmap.mmap(descriptor, size, prot=mmap.PROT_READ)
        except OSError as error:
            raise files.unavailable(error, f"{directory.path}/{name}") from None
        finally:
            os.close(descriptor)
        self.first = self.data.find(b"\n") + 1
        check_header(self.data[: max(0, self.first - 1)], kind, name)

    def line(self, offset: int) -> tuple[bytes, int]:
        """The line at an offset (without line feed), and the offset behind it."""
        end = self.data.find(b"\n", offset)
        if end < 0:
            end = self.size
        return self.data[offset:end], min(end + 1, self.size)

    def line_before(self, offset: int) -> tuple[bytes, int]:
        """The line that ends right before `offset` (without line feed), and its own offset."""
        start = self.data.rfind(b"\n", 0, offset - 1) + 1
        return self.data[start : offset - 1], start

    def lines(self, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """The lines between two offsets, each with its own."""
        while start < end:
            line, following = self.line(start)
            yield start, line
            start = following

    def bisect(self, start: int, end: int, before: Callable[[bytes], bool]) -> int:
        """The offset of the first line between two offsets for which `before` does not hold; `end` if it always does.

        The lines for which it holds come before the others.
        """
        while start < end:
            middle = max(start, self.data.rfind(b"\n", start, (start + end) // 2) + 1)
            line, following = self.line(middle)
            if before(line):
                start = following
            else:
                end = middle
        return start

    def stretches(self, start: int, end: int, left_out: Sequence[int]) -> Iterator[tuple[int, int]]:
        """What lies between two offsets, without the lines at the offsets `left_out` (sorted): from where to where."""
        for offset in left_out[bisect_left(left_out, start) : bisect_left(left_out, end)]:
            if start < offset:
                yield start, offset
            start = self.data.find(b"\n", offset) + 1 or self.size
        if start < end:
            yield start, end


class Shifts:
    """Where the stretches of a file are in another one, to which they were copied in their order."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._shifts: list[int] = []

    def note(self, start: int, new: int) -> None:
        """A stretch that began at `start` begins at `new`."""
        self._starts.append(start)
        self._shifts.append(new - start)

    def moved(self, offset: int) -> int | None:
        """Where what was at an offset is, if it was copied; None if it lay before everything that was."""
        index = bisect_right(self._starts, offset) - 1
        return None if index < 0 else offset + self._shifts[index]
