"""One process's view of a generation: what its manifest, sorted run and journal add up to.

In memory are the jobs that the journal touched and those that run; the rest stays in the files. The view follows the
journal, without a lock, and is a function of the files alone: every process arrives at the same.
"""

from __future__ import annotations

import gc
import weakref
from bisect import bisect_right
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

from jobq.job import Change, Job
from jobq_json import search
from jobq_json.archive import Archive
from jobq_json.kept import FINISHED, PENDING, PROCESSING, WAITING, Kept, of_job, of_line, of_whole_line
from jobq_json.lanes import Lanes
from jobq_json.mapped import Mapped
from jobq_json.replay import replay

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from jobq.job import State
    from jobq_json.directory import Directory
    from jobq_json.journal import Journal
    from jobq_json.manifest import Manifest
    from jobq_json.sections import Section

Place = int | list[Any] | None
"""Where a job's line is before the journal touches it: an offset in the sorted run, [segment, offset], or unknown."""

_numbers = partial(defaultdict[str, int], int)  # counts as a Counter does, at half the cost


class View:
    """A view of one generation.

    Args:
        directory: where the files are.
        manifest: of the generation.
        journal: its journal.
        warn: is told of every damaged record, in one sentence.

    Attributes:
        run: the sorted run.
        end: the offset behind its last job.
        archive: the archive.
        delta: the jobs that the journal touched, and those that run; None for those deleted.
        finished: those of them that are finished, in order of finishing.
        held: those that run, by worker and id.
        counts: jobs by queue and state.
        paused: paused queues and why.
        touched: offsets of the lines of the sorted run that `delta` replaces.
        touched_due: the `run_at` of those of them that were pending.
        archived: offsets of archived lines that `delta` replaces, by segment.
        seq: the number of the next job.
        position: how far the journal has been read.
        damaged_lines: what was found damaged, in the files of this generation.
        pruning: what `pruning.batch` has yet to give out, and of which question.
    """

    def __init__(self, directory: Directory, manifest: Manifest, journal: Journal, warn: Callable[[str], None]) -> None:
        self.manifest, self.journal = manifest, journal
        self._warn = warn
        self.run = Mapped(directory, manifest.jobs_file, "jobs", manifest.size)
        self.end = manifest.end_of_jobs(self.run.first)
        self.archive = Archive(directory, manifest.archive)
        self.delta: dict[str, Kept | None] = {}
        self.finished: dict[str, Kept] = {}
        self.held: dict[str, dict[str, Kept]] = {}
        self.counts = defaultdict(_numbers, {queue: _numbers(counts) for queue, counts in manifest.counts.items()})
        self.paused = dict(manifest.paused)
        self.touched: list[int] = []
        self.touched_due: list[str] = []
        self.archived: dict[str, set[int]] = {}
        self.seq = manifest.seq
        self.position = 0
        self.damaged_lines: list[bytes] = []
        self.pruning: tuple[tuple[frozenset[State], datetime], Iterator[tuple[Kept, Place]]] | None = None
        self._damaged_places: set[tuple[str, int]] = set()
        self.lanes = Lanes(self.delta)
        self._starts = [section.start for section in manifest.sections]
        # Not by itself: a view that is over is freed at once, and with it all that it has in memory
        read = partial(View.read, weakref.proxy(self), make=of_whole_line)
        for section in manifest.sections:
            if section.state == PROCESSING:
                self._load(section)
            elif section.state in WAITING:
                self.lanes.lane(section.lane).add_section(section, read)
        collecting = gc.isenabled()
        gc.disable()  # all that a journal makes is kept; to look for garbage meanwhile takes an eighth of a long one's time
        try:
            self.refresh()
        finally:
            if collecting:
                gc.enable()

    @property
    def damaged(self) -> int:
        """How many records were found damaged, in this generation and before."""
        return self.manifest.damaged + len(self.damaged_lines)

    def refresh(self) -> None:
        """Follow the journal to its end.

        Raises:
            NewerFormat: a newer jobq wrote to it what this one does not know.
            StoreUnreadable: it is shorter than it was, or damaged at its beginning.
        """
        for line, position in self.journal.read(self.position):
            if not replay(self, line):
                if not self.journal.still_has(line, position):  # it is being written
                    return
                self.note_damage(self.journal.name, self.position, line)
            self.position = position

    def read(
        self, offset: int, section: Section | None = None, make: Callable[[bytes, int], Kept | None] = of_line
    ) -> tuple[Kept | None, int]:
        """The job of a line of the sorted run, None where it is damaged; and the offset of the next."""
        line, following = self.run.line(offset)
        kept = make(line, offset)
        if kept is None:
            self.note_damage(self.run.name, offset, line, section or self.section_at(offset))
        return kept, following

    def jobs_of(self, section: Section) -> Iterator[Kept]:
        """The jobs of the lines of a section, those that the journal touched too."""
        offset = section.start
        while offset < section.end:
            kept, offset = self.read(offset, section)
            if kept is not None:
                yield kept

    def section_at(self, offset: int) -> Section | None:
        """The section of the sorted run in which an offset lies."""
        index = bisect_right(self._starts, offset) - 1
        sections = self.manifest.sections
        return sections[index] if index >= 0 and offset < sections[index].end else None

    def note_damage(self, file: str, offset: int, line: bytes, section: Section | None = None) -> None:
        """Set a damaged line aside: count it once, and no longer as a job of its section."""
        if (file, offset) in self._damaged_places:
            return
        self._damaged_places.add((file, offset))
        self.damaged_lines.append(line)
        self._warn(f"a record in {file} is damaged (at byte {offset}) and set aside; `jobq doctor` tells more")
        if file in self.archive.segments:
            self.archived.setdefault(file, set()).add(offset)
        elif section is not None and offset not in self.touched:
            self.touched.append(offset)
            self.counts[section.lane.queue][section.state] -= 1
            if section.state == PENDING:
                self.touched_due.append(section.first)

    def locate(self, ids: Collection[str]) -> dict[str, tuple[Kept, Place]]:
        """The jobs of those of the ids that are taken, and where their lines are."""
        found: dict[str, tuple[Kept, Place]] = {}
        missing = []
        for job_id in ids:
            if job_id not in self.delta:
                missing.append(job_id)
            elif (kept := self.delta[job_id]) is not None:
                found[job_id] = kept, None
        if not missing:
            return found
        start, end = self.run.first, self.end
        for job_id, offset in search.locate(self.run.data, missing, start=start, end=end).items():
            base = self.read(offset)[0]
            if base is not None:
                found[job_id] = base, offset
        missing = [job_id for job_id in missing if job_id not in found]
        if missing:
            for job_id, (segment, archived) in self.archive.locate(missing).items():
                found[job_id] = archived, [segment, archived.offset]
        return found

    def former(self, job_id: str, place: Place) -> tuple[Kept, Place] | None:
        """A job as it is before a change, and the place of its line; `place` is a hint, checked by the id."""
        if job_id in self.delta:
            kept = self.delta[job_id]
            return None if kept is None else (kept, None)
        hinted: Kept | None = None
        if isinstance(place, int):
            if self.run.first <= place < self.end:
                hinted = of_line(self.run.line(place)[0], place)
        elif place is not None:
            hinted = self.archive.read(place[0], place[1])
        if hinted is not None and hinted.id == job_id:
            return hinted, place
        return self.locate((job_id,)).get(job_id)

    def change(self, kept: Kept, place: Place, change: Change, now: datetime) -> Job:
        """A job changes; the job after it."""
        job = kept.job.changed(change, now=now)
        self.replace(kept, of_job(job, kept.seq), place)
        return job

    def pause(self, queue: str, paused: bool, reason: str) -> None:
        """A queue is paused or goes on."""
        if paused:
            self.paused[queue] = reason
        else:
            self.paused.pop(queue, None)

    def is_current(self, kept: Kept) -> bool:
        """Whether a job that was read from this view is still as it was then."""
        return self.delta.get(kept.id, kept) is kept

    def replace(self, old: Kept | None, new: Kept | None, place: Place = None) -> None:
        """A job is new, becomes another, or is no more. `place`: of the old one's line, where `delta` has none."""
        if isinstance(place, int):
            self.touched.append(place)
            if old is not None and old.state == PENDING:
                self.touched_due.append(old.run_at)
        elif place is not None:
            self.archived.setdefault(place[0], set()).add(place[1])
        if old is not None:
            self.counts[old.queue][old.state] -= 1
            self.delta[old.id] = new
            if old.state == PROCESSING:
                self._let_go(old)
            elif old.state in FINISHED:
                self.finished.pop(old.id, None)
        if new is not None:
            self.delta[new.id] = new
            self.counts[new.queue][new.state] += 1
            if new.state in WAITING:
                self.lanes.push(new)
            elif new.state == PROCESSING:
                self.held.setdefault(new.worker or "", {})[new.id] = new
            elif new.state in FINISHED:
                self.finished[new.id] = new

    def note_unknown(self, job_id: str, line: bytes) -> None:
        """The journal changes a job that is not there: its own record must have been damaged."""
        key = (f"{self.journal.name} {job_id}", self.position)
        if key not in self._damaged_places:
            self._damaged_places.add(key)
            self.damaged_lines.append(line)
            self._warn(f"{self.journal.name} changes job {job_id}, whose own record is damaged or missing")

    def _let_go(self, kept: Kept) -> None:
        held = self.held[kept.worker or ""]
        del held[kept.id]
        if not held:
            del self.held[kept.worker or ""]

    def _load(self, section: Section) -> None:
        for kept in self.jobs_of(section):
            self.touched.append(kept.offset)
            kept.worker = kept.job.worker
            self.delta[kept.id] = kept
            self.held.setdefault(kept.worker or "", {})[kept.id] = kept
