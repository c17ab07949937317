"""Adding jobs without a view of the store: nothing is replayed, however large the queue is.

Ids made in the same call are not looked for. Those chosen by a person are searched for in the bytes of the files,
first without the lock in what never changes, then under it in what came since.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from jobq_json.lines import job_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from mmap import mmap

    from jobq.store import NewJob
    from jobq_json.directory import Directory
    from jobq_json.journal import Journal
    from jobq_json.manifest import Manifest

_MANY = 16
_IDS = re.compile(rb'\{"id":"([^"]+)"')


def record_of(new: Sequence[NewJob], seq: int) -> str:
    """The text of the journal record that adds the jobs, numbered from `seq`."""
    lines = [job_line(item.job, number) for number, item in enumerate(new, seq)]
    sizes = ",".join(str(len(line)) for line in lines)
    return f'{{"op":"add","sizes":[{sizes}],"jobs":[{b",".join(lines).decode("ascii")}]}}'


def repeated(new: Sequence[NewJob]) -> list[str]:
    """The ids that come more than once."""
    ids = [item.job.id for item in new]
    if len(set(ids)) == len(ids):
        return []
    seen: set[str] = set()
    return list(dict.fromkeys(job_id for job_id in ids if job_id in seen or seen.add(job_id)))  # type: ignore[func-returns-value]


class Finder:
    """Finds which ids may be taken, in one generation; a view says whether they are.

    A few ids are searched for in the raw bytes; for many, or time and again, the set of all ids is kept.

    Args:
        directory: the store's.
        manifest: of the generation.
        journal: its journal.
    """

    def __init__(self, directory: Directory, manifest: Manifest, journal: Journal) -> None:
        self._directory, self._manifest, self._journal = directory, manifest, journal
        self._parts: list[tuple[mmap, int, int]] | None = None
        self._searches = 0
        self._base: set[bytes] | None = None
        self._changed: set[bytes] = set()
        self._position = 0
        self._looked_for: tuple[Sequence[str], set[str]] = (), set()

    def look_for(self, ids: Sequence[str]) -> None:
        """Look for ids where nothing ever changes: in the sorted run and the archive. Needs no lock.

        Raises:
            FileNotFoundError: the generation is over.
        """
        self._looked_for = ids, self._in_base(ids)

    def found(self, ids: Sequence[str]) -> set[str]:
        """Those of the ids that stand anywhere. Under the lock; quicker if they were looked for before.

        Raises:
            FileNotFoundError: the generation is over.
        """
        before, present = self._looked_for
        return (present if before is ids else self._in_base(ids)) | self._in_journal(ids)

    def _in_base(self, ids: Sequence[str]) -> set[str]:
        from jobq_json.search import ids_of, locate

        parts = self._files()
        self._searches += len(ids)
        if self._base is None and self._searches > _MANY:
            self._base = set()
            for data, start, end in parts:
                self._base |= ids_of(data, start=start, end=end)
        if self._base is not None:
            return {job_id for job_id in ids if job_id.encode() in self._base}
        return {job_id for data, start, end in parts for job_id in locate(data, ids, start=start, end=end)}

    def _in_journal(self, ids: Sequence[str]) -> set[str]:
        if self._searches <= _MANY:
            needles = [(job_id, b'{"id":"%b"' % job_id.encode()) for job_id in ids]
            return {job_id for line, _ in self._journal.read(0) for job_id, needle in needles if line.find(needle) >= 0}
        for line, position in self._journal.read(self._position):
            self._changed.update(_IDS.findall(line))
            self._position = position
        return {job_id for job_id in ids if job_id.encode() in self._changed}

    def _files(self) -> list[tuple[mmap, int, int]]:
        if self._parts is None:
            from jobq_json.mapped import Mapped

            manifest = self._manifest
            run = Mapped(self._directory, manifest.jobs_file, "jobs", manifest.size)
            end = manifest.sections[-1].end if manifest.sections else run.first
            self._parts = [(run.data, run.first, end)]
            for segment in manifest.archive:
                mapped = Mapped(self._directory, segment.file, "done", segment.size)
                self._parts.append((mapped.data, segment.start, segment.size))
        return self._parts
