"""Compaction: a new generation whose sorted run has in place what the journal of the old one said.

Nearly all of it happens without the writers' lock, while others go on writing to the old journal; under the lock only
what they wrote at last is carried over and the new manifest put in place. A compaction that fails leaves the old
generation as it was.
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from filelock import lock_descriptor

from jobq import files
from jobq.codec import encode
from jobq.errors import StoreLocked
from jobq_json import locking
from jobq_json.archiving import ArchiveWriter
from jobq_json.directory import COMPACT_LOCK
from jobq_json.lines import parse, seal, sound
from jobq_json.manifest import Manifest, journal_header
from jobq_json.taken import taken_line
from jobq_json.writing import RunWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jobq.notices import Notice
    from jobq_json.directory import Directory
    from jobq_json.view import Place, View

_CATCH_UP = 1 << 16
"""Bytes of journal that may be left to carry over under the lock."""


def worth_it(view: View, journal_size: int, *, least: int) -> bool:
    """Whether the journal has grown enough: beyond `least` bytes and a quarter of the run, or 8 MiB."""
    return journal_size > max(least, min(view.manifest.size // 4, 8 << 20))


def worth_it_now(view: View, journal_size: int, *, least: int) -> bool:
    """Whether there is more in the journal (bytes) than is left of the sorted run: for when there is nothing else to do."""
    lines = sum(section.lines for section in view.manifest.sections)
    left = view.manifest.size * (lines - len(view.touched)) // max(1, lines)
    return journal_size > max(least, left)


@contextlib.contextmanager
def only_one(directory: Directory) -> Iterator[bool]:
    """Hold the lock of the one process that compacts; answers with whether it could be had. Never waits."""
    descriptor = files.open_private(f"{directory.path}/{COMPACT_LOCK}", os.O_RDWR | os.O_CREAT)
    try:
        yield lock_descriptor(descriptor, blocking=False)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def nobody_else(directory: Directory) -> Iterator[None]:
    """Hold the lock of the one process that compacts. Waits for it; never under the writers' lock, which comes second.

    Raises:
        StoreLocked: somebody held it for longer than `LOCK_LIMIT`.
    """
    limit = locking.LOCK_LIMIT
    end = time.monotonic() + limit
    while True:
        with only_one(directory) as alone:
            if alone:
                yield
                return
        if time.monotonic() > end:
            raise StoreLocked(f"another process has held {directory.path}/{COMPACT_LOCK} for {limit:g} s")
        time.sleep(0.01)


def compact(directory: Directory, view: View) -> bool:
    """Make a new generation of what `view` shows, unless somebody else is about it; whether it was made.

    The view is over afterwards.

    Raises:
        StoreError: it could not be made; the old generation stands.
    """
    with only_one(directory) as alone:
        current = directory.current() if alone else None
        if current is None or current.generation != view.manifest.generation:  # somebody was faster
            return False
        return publish(directory, view, view.manifest.notice)


def publish(directory: Directory, view: View, notice: Notice | None) -> bool:
    """Make a new generation of what `view` shows, with this notice; False where one came into force meanwhile.

    The caller holds the lock of the one process that compacts, and not the writers' lock. The view is over afterwards.

    Raises:
        StoreError: it could not be made; the old generation stands.
    """
    view.refresh()
    made = _Generation(directory, view, alone=True, notice=notice)
    try:
        made.write()
        made.catch_up()
        with directory.locked() as latest:
            if latest.generation != view.manifest.generation:
                made.discard()
                return False
            made.publish()
            made.sweep()
    except BaseException:
        made.discard()
        raise
    return True


def give_back_memory() -> None:
    """Let the system have what a view and a compaction used; glibc keeps it otherwise (half of a busy worker's)."""
    import ctypes

    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def compact_locked(directory: Directory, view: View, *, alone: bool, afresh: bool = False) -> None:
    """As `compact`, under the writers' lock, which the caller holds, and whether or not somebody else is about it.

    For when the journal cannot be trusted with another record. `alone`: the caller holds the lock of the one process
    that compacts too. Without it no file is touched that the other process may touch, and nothing is swept. `afresh`:
    nothing is taken over that can be made out of the jobs.
    """
    made = _Generation(directory, view, alone=alone, afresh=afresh, notice=view.manifest.notice)
    try:
        made.write()
        made.publish()
        if alone:
            made.sweep()
    except BaseException:
        made.discard()
        raise


class _Generation:
    """A generation in the making."""

    def __init__(
        self, directory: Directory, view: View, *, alone: bool, notice: Notice | None, afresh: bool = False
    ) -> None:
        generation = view.manifest.generation + (1 if alone else 2)  # 2: the other one's files have the name between
        self._directory, self._view, self._generation = directory, view, generation
        self._position = view.position
        self._seq = view.seq
        self._archived: dict[str, tuple[str, int]] = {}
        self._journal_fd = -1
        self._prepared = ""
        self._afresh, self._notice = afresh, notice
        self._synced = self._in_force = False
        self._archive = ArchiveWriter(directory, view.manifest.next_segment, alone=alone)
        self._run = RunWriter(
            directory,
            generation,
            old=view.run,
            sections=view.manifest.sections,
            touched=view.touched,
            changed=[kept for kept in view.delta.values() if kept is not None],
        )

    def write(self) -> None:
        """Write everything but the end of the journal, synced."""
        view, old = self._view, self._view.manifest
        counts = {queue: live for queue, states in view.counts.items() if (live := _positive(states))}
        self._archive.keep(view.archive, view.archived)
        for kept in view.finished.values():
            self._archived[kept.id] = self._archive.append(kept.line)
        self._archive.finish()
        damaged_files = tuple(name for name in old.damaged_files if self._directory.has(name))
        damaged = view.damaged if damaged_files else len(view.damaged_lines)  # removed: somebody has seen to them
        if view.damaged_lines:
            name = f"damaged-{self._generation}.jsonl"
            self._directory.write(name, [b"".join(line + b"\n" for line in view.damaged_lines)])
            damaged_files += (name,)
        self._run.write()
        self.manifest = Manifest(
            generation=self._generation,
            written=self._directory.time(),
            seq=self._seq,
            counts=counts,
            paused=dict(view.paused),
            archive=tuple(self._archive.segments),
            next_segment=self._archive.next_segment,
            damaged=damaged,
            damaged_files=damaged_files,
            sections=tuple(self._run.sections),
            notice=self._notice,
        )
        footer = self.manifest.record() | {"jobq": "end", "from": [old.generation, self._position]}
        self.manifest = replace(
            self.manifest, size=self._run.finish(taken_line(view, afresh=self._afresh) + seal(encode(footer)) + b"\n")
        )
        self._prepared = self._directory.prepare(self.manifest)
        self._journal_fd = self._directory.create(self.manifest.journal_file)
        self._append([journal_header(self._generation, self._seq, self._notice)])

    def catch_up(self) -> None:
        """Carry over what was written meanwhile, until little of it is left."""
        while self._carry_over() > _CATCH_UP:
            pass
        self._sync_journal()

    def publish(self) -> None:
        """Under the lock: carry over the rest, and put the new manifest in place."""
        self._view.journal.tail()
        if self._carry_over() or not self._synced:
            self._sync_journal()
        self._directory.put_in_force(self._prepared)
        self._in_force = True
        self._close()
        self._directory.sync()

    def sweep(self) -> None:
        """Under the lock: remove what is of no generation, or of a former one."""
        current = self._directory.current()
        if current is not None and current.generation == self._generation:
            self._directory.sweep(current.files)

    def discard(self) -> None:
        """Remove what was made, as far as that is possible. What it leaves is swept by the next compaction."""
        self._close()
        if self._in_force:
            return
        number = self._generation
        for name in (self._prepared, f"jobs-{number}.jsonl", f"journal-{number}.jsonl", f"damaged-{number}.jsonl"):
            with contextlib.suppress(OSError):
                if name:
                    os.unlink(f"{self._directory.path}/{name}")

    def _carry_over(self) -> int:
        """Take over what the old journal has more than when it was last read; how many bytes that is."""
        journal, start, lines = self._view.journal, self._position, []
        for line, position in journal.read(start):
            if not sound(line) and not journal.still_has(line, position):  # it is being written
                break
            lines.append(self._translated(line) + b"\n")
            self._position = position
        self._append(lines)
        return self._position - start

    def _translated(self, line: bytes) -> bytes:
        """A journal line with the places of jobs as they are in the new generation."""
        if line.startswith(b'{"op":"add"') or (record := parse(line)) is None:
            return line
        for key, index in (("ended", 3), ("claims", 2), ("jobs", 3 if record["op"] == "set" else 1)):
            for change in record.get(key, ()):
                change[index] = self._moved(change[0], change[index])
        return seal(encode(record))

    def _moved(self, job_id: str, place: Place) -> Place:
        if job_id in self._archived:
            return list(self._archived[job_id])
        if job_id in self._run.places:
            return self._run.places[job_id]
        if isinstance(place, int):
            return self._run.moved.moved(place)
        return None if place is None else self._archive.moved(place)

    def _append(self, lines: list[bytes]) -> None:
        try:
            files.write_all(self._journal_fd, b"".join(lines))
        except OSError as error:
            raise files.unavailable(error, f"{self._directory.path}/{self.manifest.journal_file}") from None

    def _sync_journal(self) -> None:
        try:
            files.sync(self._journal_fd)
        except OSError as error:
            raise files.unavailable(error, f"{self._directory.path}/{self.manifest.journal_file}") from None
        self._synced = True

    def _close(self) -> None:
        self._run.close()
        self._archive.close()
        if self._journal_fd >= 0:
            os.close(self._journal_fd)
            self._journal_fd = -1


def _positive(states: Mapping[str, int]) -> dict[str, int]:
    return {state: number for state, number in states.items() if number > 0}
