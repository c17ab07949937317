"""The archive: finished jobs in order of finishing, in segments that only a compaction writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jobq import files
from jobq.errors import StoreUnreadable
from jobq_json import search
from jobq_json.kept import Kept, of_line
from jobq_json.lines import encode, seal
from jobq_json.manifest import FORMAT, WAY_OUT, Segment
from jobq_json.mapped import Mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from jobq_json.directory import Directory

SEGMENT_SIZE = 64 << 20
"""A segment that is larger gets no more jobs."""

HEADER = seal(encode({"jobq": "done", "format": FORMAT})) + b"\n"


class Archive:
    """The segments that a manifest names, each mapped when first looked into.

    Args:
        directory: where they are.
        segments: the oldest first.
    """

    def __init__(self, directory: Directory, segments: Sequence[Segment]) -> None:
        self._directory = directory
        self.segments = {segment.file: segment for segment in segments}
        self._mapped: dict[str, Mapped] = {}

    def mapped(self, name: str) -> Mapped:
        """A segment's bytes.

        Raises:
            StoreUnreadable: it is truncated, or something else.
            FileNotFoundError: it is gone, with its generation.
        """
        mapped = self._mapped.get(name)
        if mapped is None:
            mapped = self._mapped[name] = Mapped(self._directory, name, "done", self.segments[name].size)
        return mapped

    def open_all(self) -> None:
        """Map every segment, so that what is read later is the state of now.

        Raises:
            FileNotFoundError: the generation is over.
        """
        for name in self.segments:
            self.mapped(name)

    def locate(self, ids: Collection[str]) -> dict[str, tuple[str, Kept]]:
        """The jobs of those of the ids that are here, and the segments they are in."""
        found: dict[str, tuple[str, Kept]] = {}
        left = list(ids)
        for name, segment in reversed(self.segments.items()):
            mapped = self.mapped(name)
            for job_id, offset in search.locate(mapped.data, left, start=segment.start, end=segment.size).items():
                kept = of_line(mapped.line(offset)[0], offset)
                if kept is not None:
                    found[job_id] = name, kept
            left = [job_id for job_id in left if job_id not in found]
            if not left:
                break
        return found

    def read(self, name: str, offset: int) -> Kept | None:
        """The job of the line at an offset of a segment; None where there is none."""
        segment = self.segments.get(name)
        if segment is None or not segment.start <= offset < segment.size:
            return None
        return of_line(self.mapped(name).line(offset)[0], offset)

    def latest_first(
        self, damaged: Callable[[str, int, bytes], None], gone: Mapping[str, Collection[int]]
    ) -> Iterator[Kept]:
        """All jobs but those at the offsets `gone`, backwards; `damaged` is told of lines that are."""
        for name, segment in reversed(self.segments.items()):
            mapped = self.mapped(name)
            skipped = gone.get(name, ())
            offset = segment.size
            while offset > segment.start:
                line, offset = mapped.line_before(offset)
                if offset in skipped:
                    continue
                kept = of_line(line, offset)
                if kept is None:
                    damaged(name, offset, line)
                else:
                    yield kept

    def oldest_first(self, damaged: Callable[[str, int, bytes], None]) -> Iterator[tuple[str, Kept]]:
        """All jobs and the segments they are in; `damaged` is told of lines that are."""
        for name, segment in self.segments.items():
            mapped = self.mapped(name)
            offset = segment.start
            while offset < segment.size:
                start = offset
                line, offset = mapped.line(offset)
                kept = of_line(line, start)
                if kept is None:
                    damaged(name, start, line)
                else:
                    yield name, kept


class Appender:
    """Writes finished jobs behind the last segment of a manifest, in new segments where it is full.

    Args:
        directory: where.
        segments: as the manifest names them.
        next_segment: the number of the next new segment.
    """

    def __init__(self, directory: Directory, segments: Sequence[Segment], next_segment: int) -> None:
        self._directory = directory
        self.segments = list(segments)
        self.next_segment = next_segment
        self._buffer: list[bytes] = []
        self._descriptor = -1
        self._size = 0

    def append(self, line: bytes) -> tuple[str, int]:
        """Add a line (without line feed); its segment and its offset there."""
        if self._descriptor < 0 or self._size >= SEGMENT_SIZE:
            self._open()
        place = self.segments[-1].file, self._size
        self._buffer.append(line + b"\n")
        self._size += len(line) + 1
        if len(self._buffer) >= 1000:
            self._flush()
        return place

    def finish(self) -> None:
        """Bring everything to the disk.

        Raises:
            StoreUnavailable: the system refused; the archive is as it was.
        """
        if self._descriptor < 0:
            return
        try:
            self._flush()
            files.sync(self._descriptor)
        except OSError as error:
            raise files.unavailable(error, self._directory.path / self.segments[-1].file) from None
        finally:
            os.close(self._descriptor)
            self._descriptor = -1
        last = self.segments[-1]
        self.segments[-1] = Segment(last.file, last.start, self._size, last.sifted and self._size == last.size)

    def _open(self) -> None:
        if self._descriptor >= 0:
            self.finish()
        last = self.segments[-1] if self.segments else None
        if last is not None and last.size < SEGMENT_SIZE:
            self._descriptor = files.open_private(self._directory.path / last.file, os.O_WRONLY | os.O_APPEND)
            if os.fstat(self._descriptor).st_size < last.size:
                raise StoreUnreadable(f"{self._directory.path / last.file} is truncated; {WAY_OUT}")
            os.ftruncate(self._descriptor, last.size)
            self._size = last.size
            return
        name = f"done-{self.next_segment}.jsonl"
        self.next_segment += 1
        self._descriptor = self._directory.create(name)
        self._buffer = [HEADER]
        self._size = len(HEADER)
        self.segments.append(Segment(name, self._size, self._size))

    def _flush(self) -> None:
        try:
            files.write_all(self._descriptor, b"".join(self._buffer))
        except OSError as error:
            raise files.unavailable(error, self._directory.path / self.segments[-1].file) from None
        self._buffer = []
