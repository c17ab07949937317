"""Putting up the notice at the store's door: a new generation whose manifest has it.

Every process looks at the manifest under the writers' lock before it writes. So once the generation is in force, nobody
writes without heeding the notice, and what was written before is in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.codec import encode
from jobq.notices import empties
from jobq_json.compaction import publish
from jobq_json.lines import seal
from jobq_json.manifest import Manifest, journal_header, run_header

if TYPE_CHECKING:
    from jobq.notices import Notice
    from jobq_json.directory import Directory
    from jobq_json.view import View


def posted(directory: Directory, view: View, notice: Notice | None, before: Notice | None, url: str) -> bool:
    """Put up the notice in place of `before`, or take it down; False where another generation came into force meanwhile.

    The caller holds the lock of the one process that compacts, and not the writers' lock. The view is over afterwards.

    Raises:
        NoticeChanged, NotEmpty: as `jobq.notices.empties` says.
        StoreError: it could not be done; the old notice stands.
    """

    def emptied() -> bool:
        view.refresh()
        jobs = sum(sum(states.values()) for states in view.counts.values())
        return empties(notice, before=before, stands=view.manifest.notice, jobs=jobs, url=url)

    if emptied():
        with directory.locked() as latest:
            if latest.generation != view.manifest.generation:
                return False
            emptied()  # what was added meanwhile is in the journal now, and no more can come
            _empty(directory, view, notice)
        return True
    if notice == before:
        directory.sync()  # who put it up may have died before that
        return True
    return publish(directory, view, notice)


def _empty(directory: Directory, view: View, notice: Notice | None) -> None:
    """Under the lock: put a generation in force in which there are no jobs."""
    old = view.manifest
    generation = old.generation + 1
    new = Manifest(
        generation=generation,
        written=directory.time(),
        seq=view.seq,
        next_segment=old.next_segment,
        damaged=old.damaged,
        damaged_files=old.damaged_files,
        notice=notice,
    )
    footer = new.record() | {"jobq": "end", "from": [old.generation, view.position]}
    run = run_header(generation) + seal(encode(footer)) + b"\n"
    new = replace(new, size=len(run))
    directory.write(new.jobs_file, [run])
    directory.write(new.journal_file, [journal_header(generation, new.seq, notice)])
    directory.put_in_force(directory.prepare(new))
    directory.sync()
    directory.sweep(new.files)
