"""Writing the archive: jobs that finished come in at its end, those that were deleted or retried are left out."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from jobq import files
from jobq.codec import encode
from jobq.errors import StoreUnreadable
from jobq_json.filewriter import FileWriter
from jobq_json.lines import seal
from jobq_json.manifest import FORMAT, WAY_OUT
from jobq_json.mapped import Shifts
from jobq_json.sections import Segment

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from jobq_json.archive import Archive
    from jobq_json.directory import Directory
    from jobq_json.mapped import Mapped

SEGMENT_SIZE = 64 << 20
"""A segment that is larger gets no more jobs."""

MENDED = ".mended.jsonl"
"""What the name of a copy ends in that mending made and that only the mending reads."""

HEADER = seal(encode({"jobq": "done", "format": FORMAT})) + b"\n"


class ArchiveWriter:
    """Makes the archive of the next generation out of that of the present one, which stays as it is.

    Args:
        directory: where it is.
        next_segment: the number of the next new segment.
        alone: whether nobody else compacts; else all that is added goes to segments of its own.

    Attributes:
        segments: the oldest first; right once `finish` returned.
        next_segment: the number of the next new segment.
    """

    def __init__(self, directory: Directory, next_segment: int, *, alone: bool) -> None:
        self._directory, self._alone = directory, alone
        self.segments: list[Segment] = []
        self.next_segment = next_segment
        self._file: FileWriter | None = None
        self._moved: dict[str, tuple[str, Shifts]] = {}

    def keep(self, archive: Archive, gone: Mapping[str, Collection[int]]) -> None:
        """Keep what there is but for the lines at the offsets `gone`, by segment.

        Where they are the first ones of a segment, its start moves forward; else it is written again under a new name,
        and so is a copy that mending made.

        Raises:
            StoreUnavailable: the system refused.
        """
        for name, segment in archive.segments.items():
            copy = name.endswith(MENDED)
            if not gone.get(name) and not copy:
                self.segments.append(segment)
                continue
            mapped = archive.mapped(name)
            stretches = list(mapped.stretches(segment.start, segment.size, sorted(gone.get(name, ()))))
            if not copy and len(stretches) == 1 and stretches[0][1] == segment.size:
                self.segments.append(segment._replace(start=stretches[0][0]))
            elif stretches:
                self._write_again(mapped, stretches)

    def append(self, line: bytes) -> tuple[str, int]:
        """Add a job's line (without line feed); its segment and its offset there.

        Raises:
            StoreUnavailable: the system refused.
            StoreUnreadable: the last segment is truncated.
        """
        if self._file is None or self._file.offset >= SEGMENT_SIZE:
            self.finish()
            self._file = self._last() or self._new()
        place = self.segments[-1].file, self._file.offset
        self._file.put(line + b"\n")
        return place

    def finish(self) -> None:
        """Bring everything to the disk.

        Raises:
            StoreUnavailable: the system refused.
        """
        if self._file is not None:
            self._file.finish()
            self.segments[-1] = self.segments[-1]._replace(size=self._file.offset)
            self._file = None

    def close(self) -> None:
        """Free the descriptor, whether or not everything was written."""
        if self._file is not None:
            self._file.close()

    def moved(self, place: list[Any]) -> list[Any] | None:
        """Where the line is that was at [segment, offset]; None if it was before all that was kept."""
        if place[0] not in self._moved:
            return place
        name, shifts = self._moved[place[0]]
        offset = shifts.moved(place[1])
        return None if offset is None else [name, offset]

    def _write_again(self, mapped: Mapped, stretches: list[tuple[int, int]]) -> None:
        file, shifts = self._new(), Shifts()
        try:
            for start, end in stretches:
                shifts.note(start, file.offset)
                file.copy(mapped.data, start, end)
            file.finish()
        finally:
            file.close()
        self.segments[-1] = self.segments[-1]._replace(size=file.offset)
        self._moved[mapped.name] = self.segments[-1].file, shifts

    def _new(self) -> FileWriter:
        descriptor = -1
        while descriptor < 0:  # a name that is taken may be another process's
            name = f"done-{self.next_segment}.jsonl"
            self.next_segment += 1
            with contextlib.suppress(FileExistsError):
                descriptor = self._directory.create(name, again=False)
        file = FileWriter(descriptor, f"{self._directory.path}/{name}")
        file.put(HEADER)
        self.segments.append(Segment(name, file.offset, file.offset))
        return file

    def _last(self) -> FileWriter | None:
        """The last segment, cut to its size; None where it is full, there is none, or another process may write to it."""
        last = self.segments[-1] if self.segments and self._alone else None
        if last is None or last.size >= SEGMENT_SIZE:
            return None
        path = f"{self._directory.path}/{last.file}"
        descriptor = files.open_private(path, os.O_WRONLY | os.O_APPEND)
        try:
            if os.fstat(descriptor).st_size < last.size:
                raise StoreUnreadable(f"{path} is truncated; {WAY_OUT}")
            os.ftruncate(descriptor, last.size)
        except BaseException as error:
            os.close(descriptor)
            if isinstance(error, OSError):
                raise files.unavailable(error, path) from None
            raise
        return FileWriter(descriptor, path, offset=last.size)
