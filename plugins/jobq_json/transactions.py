"""What is decided under the writers' lock: each function applies a change to a view and answers with its record.

The record is the text of the journal line, without what the journal adds. A view whose record could not be written
is dropped by the caller, so nothing here has to be undone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.codec import encode
from jobq.errors import HIDDEN, InvalidInput
from jobq.job import Change, State
from jobq.lifecycle import claimed, settled
from jobq.store import Claim, Claimed
from jobq.times import format_time
from jobq_json.kept import of_claim, of_completion
from jobq_json.splicing import claimed_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from jobq.job import Job
    from jobq.members import Presence
    from jobq.store import Ended, Wanted
    from jobq_json.kept import Kept
    from jobq_json.view import Place, View


def claim(
    view: View,
    worker: Presence,
    *,
    wanted: Wanted,
    limit: int,
    ended: Sequence[Ended],
    unsure: Mapping[tuple[str, int], bool],
    now: datetime,
) -> tuple[Claimed, str, bool]:
    """Record what ended, then claim, as `Store.claim` says.

    `unsure` has job and run of ends that were written but could not be acknowledged, and whether a cancel had changed
    them; said again, they are no news.

    Returns:
        The answer of the store, the record ("" where nothing changed), and whether others should be woken.

    Raises:
        InvalidInput: an end cannot be written; the view is to be dropped.
    """
    written = format_time(now)
    refused: list[Claim] = []
    cancelled: list[Claim] = []
    changes: list[str] = []
    ring = False
    for item in ended:
        kept = view.delta.get(item.claim.job.id)
        if kept is None or not item.claim.holds(kept.job):
            written_before = unsure.get((item.claim.job.id, item.claim.run))
            if written_before is None:
                refused.append(item.claim)
            elif written_before:
                cancelled.append(item.claim)
            continue
        change = item.change
        if kept.job.cancel_requested_at is not None:
            change = settled(kept.job, change)
            if change is not item.change:
                cancelled.append(item.claim)
        changes.append(_end(view, kept, change, now, written))
        ring = ring or change.fields["state"] is not State.COMPLETED
    claims: list[Claim] = []
    taken: list[list[Any]] = []
    worker_id = encode(worker.id)
    for kept in view.lanes.choose(wanted, view.paused, limit=limit, now=written):
        place = None if kept.id in view.delta else kept.offset
        job = kept.job.changed(claimed(kept.job, worker.id, now=now), now=now)
        view.replace(kept, of_claim(kept, worker.id, job=job), place)
        claims.append(Claim(job, worker.id, worker.host, claimed_text(kept, job, worker=worker_id, at=written)))
        taken.append([job.id, job.run, place])
    answer = Claimed(claims, refused, cancelled)
    if not changes and not claims:
        return answer, "", False
    head = f'"op":"claim","worker":{worker_id},"at":"{written}"'
    return answer, f'{{{head},"ended":[{",".join(changes)}],"claims":{encode(taken)}}}', ring


def change(view: View, changes: Sequence[tuple[Kept, Place, Change]], *, now: datetime) -> tuple[list[Job], str]:
    """Jobs change; the jobs after it, and the record, "" where there are none."""
    if not changes:
        return [], ""
    jobs = [view.change(kept, place, new, now) for kept, place, new in changes]
    entries = [_entry(kept.id, new, place) for kept, place, new in changes]
    return jobs, encode({"op": "set", "at": format_time(now), "jobs": entries})


def delete(view: View, found: Sequence[tuple[Kept, Place]]) -> str:
    """Jobs are deleted; the record, "" where there are none."""
    if not found:
        return ""
    for kept, place in found:
        view.replace(kept, None, place)
    return encode({"op": "del", "jobs": [[kept.id, place] for kept, place in found]})


def pause(view: View, queue: str, paused: bool, reason: str) -> str:
    """A queue is paused or goes on; the record, "" where it was so already."""
    if view.paused.get(queue) == (reason if paused else None):
        return ""
    view.pause(queue, paused, reason)
    return encode({"op": "pause", "queue": queue, "paused": paused, "reason": reason})


def _end(view: View, kept: Kept, new: Change, now: datetime, at: str) -> str:
    """A run of a job ends; the text of its entry. Each is written by itself: so it is known which of them cannot be."""
    fields = new.record()
    try:
        changed = encode(fields)
        run = "null" if new.run is None else encode(new.run.record())
        after = of_completion(kept, fields, run, at=at)
    except (RecursionError, ValueError, TypeError) as error:
        raise InvalidInput("result", HIDDEN, f"of job {kept.id} cannot be written as JSON ({error})") from None
    if after is None:
        view.change(kept, None, new, now)
    else:
        view.replace(kept, after)
    return f'["{kept.id}",{changed},{run},null]'


def _entry(job_id: str, new: Change, place: Place) -> list[Any]:
    return [job_id, new.record(), None if new.run is None else new.run.record(), place]
