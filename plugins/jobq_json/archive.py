"""The archive: finished jobs in order of finishing, in segments that only a compaction writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq_json import search
from jobq_json.kept import Kept, of_line
from jobq_json.mapped import Mapped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from jobq_json.directory import Directory
    from jobq_json.sections import Segment


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
            for offset, line in self.mapped(name).lines(segment.start, segment.size):
                kept = of_line(line, offset)
                if kept is None:
                    damaged(name, offset, line)
                else:
                    yield name, kept
