"""Putting up the notice at the store's door: a new generation whose manifest has it.

Every process looks at the manifest under the writers' lock before it writes. So once the generation is in force, nobody
writes without heeding the notice, and what was written before is in it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from jobq.codec import encode
from jobq.notices import LEFT
from jobq_json.compaction import publish
from jobq_json.lines import seal
from jobq_json.manifest import Manifest, journal_header, run_header

if TYPE_CHECKING:
    from jobq.notices import Notice
    from jobq_json.directory import Directory
    from jobq_json.view import View


def posted(directory: Directory, view: View, notice: Notice | None) -> bool:
    """Put up the notice, or take it down; False where another generation came into force meanwhile.

    The caller holds the lock of the one process that compacts, and not the writers' lock. The view is over afterwards.

    Raises:
        StoreError: it could not be done; the old notice stands.
    """
    before = view.manifest.notice
    if before == notice:
        directory.sync()  # who put it up may have died before that
        return True
    if before is not None and before.state == LEFT and (notice is None or notice.state != LEFT):
        return _emptied(directory, view, notice)
    return publish(directory, view, notice)


def _emptied(directory: Directory, view: View, notice: Notice | None) -> bool:
    """A new generation in which there are no jobs: they are elsewhere."""
    old = view.manifest
    with directory.locked() as latest:
        if latest.generation != old.generation:
            return False
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
        directory.write(new.journal_file, [journal_header(generation, new.seq)])
        directory.put_in_force(directory.prepare(new))
        directory.sync()
        directory.sweep(new.files)
    return True
