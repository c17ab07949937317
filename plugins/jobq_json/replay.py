"""What a line of the journal does to a view: the one meaning of every record, for all processes alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.errors import NewerFormat
from jobq.job import Change, Job, Run, read_fields
from jobq.lifecycle import claimed
from jobq.times import parse_time
from jobq_json.kept import Kept, of_change, of_claim, of_line
from jobq_json.lines import parse, sound

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from jobq_json.view import View

_ADD = b'{"op":"add","sizes":['
_JOBS = b'],"jobs":['


def replay(view: View, line: bytes) -> bool:
    """Apply a line of the journal; False where it is damaged. If it speaks of jobs that are not there, that is noted.

    Raises:
        NewerFormat: the kind of change is unknown.
    """
    if line.startswith(_ADD) and (added := _added(line)) is not None:
        for kept in added:
            view.replace(None, kept)
        view.seq = max(view.seq, added[-1].seq + 1)
        return True
    record = parse(line)
    if record is None:
        return False
    match record.get("op"):
        case "claim":
            now = parse_time(record["at"])
            _change(view, record["ended"], now, line)
            _claim(view, record["claims"], record["worker"], now, line)
        case "set":
            _change(view, record["jobs"], parse_time(record["at"]), line)
        case "del":
            for job_id, place in record["jobs"]:
                if (found := view.former(job_id, place)) is not None:
                    view.replace(found[0], None, found[1])
                else:
                    view.note_unknown(job_id, line)
        case "pause":
            view.pause(record["queue"], record["paused"], record["reason"])
        case unknown:
            raise NewerFormat(f"{view.journal.path} holds a change of kind {unknown!r}, written by a newer jobq")
    view.seq = max(view.seq, record["seq"])
    return True


def _claim(view: View, claims: Sequence[Any], worker: str, now: datetime, line: bytes) -> None:
    for job_id, run, place in claims:
        if (found := view.former(job_id, place)) is not None:
            view.replace(found[0], of_claim(found[0], worker, change=(_taken, worker, run, now)), found[1])
        else:
            view.note_unknown(job_id, line)


def _change(view: View, changes: Sequence[Any], now: datetime, line: bytes) -> None:
    for job_id, fields, run, place in changes:
        if (found := view.former(job_id, place)) is not None:
            view.replace(found[0], of_change(found[0], fields, (_changed, fields, run, now)), found[1])
        else:
            view.note_unknown(job_id, line)


def _taken(job: Job, worker: str, run: int, now: datetime) -> Job:
    """The job after a claim; what counts is the run in the record, should an earlier record be damaged."""
    change = claimed(job, worker, now=now)
    return job.changed(Change({**change.fields, "run": run}), now=now)


def _changed(job: Job, fields: Mapping[str, Any], run: Mapping[str, Any] | None, now: datetime) -> Job:
    change = Change(read_fields(fields, job.extra), None if run is None else Run.from_record(run))
    return job.changed(change, now=now)


def _added(line: bytes) -> list[Kept] | None:
    """The jobs of an `add` record, None where it is damaged. The sizes in it say where each job's line ends."""
    if not sound(line):
        return None
    end = line.index(b"]", len(_ADD))
    offset = end + len(_JOBS)
    added = []
    for size in line[len(_ADD) : end].split(b","):
        kept = of_line(line[offset : offset + int(size)], checked=True)
        if kept is None:
            return None
        added.append(kept)
        offset += int(size) + 1
    return added
