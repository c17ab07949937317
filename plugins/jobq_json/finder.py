"""Finding which ids may be taken, without a view of the store.

Those chosen by a person are searched for in the bytes of the files, first without the lock in what never changes, then
under it in what came since.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from mmap import mmap

    from jobq_json.directory import Directory
    from jobq_json.journal import Journal
    from jobq_json.manifest import Manifest
    from jobq_json.mapped import Mapped
    from jobq_json.taken import Taken

_MANY = 16
_IDS = re.compile(rb'\{"id":"([^"]+)"')


class Finder:
    """Finds which ids may be taken, in one generation; a view says whether they are.

    Most ids are free, which the hashes in the run tell. Others are searched for in the raw bytes, as are those that the
    journal may hold; for many, or time and again, the set of all ids is kept.

    Args:
        directory: the store's.
        manifest: of the generation.
        journal: its journal.
    """

    def __init__(self, directory: Directory, manifest: Manifest, journal: Journal) -> None:
        self._directory, self._manifest, self._journal = directory, manifest, journal
        self._run: Mapped | None = None
        self._taken: Taken | None = None
        self._base: set[bytes] | None = None
        self._searched = self._asked = 0
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
        from jobq_json.search import each_id, locate

        run = self._opened()
        if self._taken is not None:
            ids = [job_id for job_id in ids if self._taken.may_have(job_id)]
        if not ids:
            return set()
        self._searched += len(ids)
        if self._base is None and self._searched > _MANY:
            self._base = {job_id for data, start, end in self._parts(run) for job_id in each_id(data, start, end)}
        if self._base is not None:
            return {job_id for job_id in ids if job_id.encode() in self._base}
        return {job_id for data, start, end in self._parts(run) for job_id in locate(data, ids, start=start, end=end)}

    def _in_journal(self, ids: Sequence[str]) -> set[str]:
        self._asked += len(ids)
        if self._asked <= _MANY:
            needles = [(job_id, b'{"id":"%b"' % job_id.encode()) for job_id in ids]
            return {job_id for line, _ in self._journal.read(0) for job_id, needle in needles if line.find(needle) >= 0}
        for line, position in self._journal.read(self._position):
            self._changed.update(_IDS.findall(line))
            self._position = position
        return {job_id for job_id in ids if job_id.encode() in self._changed}

    def _opened(self) -> Mapped:
        if self._run is None:
            from jobq_json.mapped import Mapped
            from jobq_json.taken import taken_in

            self._run = Mapped(self._directory, self._manifest.jobs_file, "jobs", self._manifest.size)
            self._taken = taken_in(self._run, self._manifest.end_of_jobs(self._run.first))
        return self._run

    def _parts(self, run: Mapped) -> Iterator[tuple[mmap, int, int]]:
        """The bytes in which there are jobs, and from where to where."""
        from jobq_json.mapped import Mapped

        yield run.data, run.first, self._manifest.end_of_jobs(run.first)
        for segment in self._manifest.archive:
            mapped = Mapped(self._directory, segment.file, "done", segment.size)
            yield mapped.data, segment.start, segment.size
