"""Texts of a job that has only been claimed and completed since it was enqueued, made out of its own line.

Nearly every job is one of these, and to write out its fields again costs as much as all else that the store does for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq.codec import encode
from jobq.times import format_time
from jobq_json.lines import SUFFIX, seal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobq.job import Job
    from jobq_json.kept import Kept

_CHANGES = frozenset(
    {
        "attempts",
        "cancel_requested_at",
        "exit_code",
        "finished_at",
        "history",
        "last_error",
        "result",
        "rev",
        "run",
        "started_at",
        "worker",
    }
)
"""The fields that have a value of their own only once something has happened to a job."""

_UPDATED = b',"updated_at":"'
_LENGTH = len(_UPDATED) + len('2026-07-11T20:57:58.316Z"')
_COMPLETION = frozenset({"state", "worker", "cancel_requested_at", "started_at", "finished_at", "result", "exit_code"})


def rest_of(line: bytes, record: Mapping[str, Any]) -> str | None:
    """What stands in the line of a job between its state and `updated_at`, its last field; None where more follows.

    Args:
        line: a sound one.
        record: its object.
    """
    if record["losses"] or not _CHANGES.isdisjoint(record):
        return None
    end = len(line) - SUFFIX - _LENGTH
    if line[end : end + len(_UPDATED)] != _UPDATED:  # fields that this jobq does not know
        return None
    return line[line.index(b'","queue":"') : end].decode("ascii")


def claimed_text(kept: Kept, job: Job, *, worker: str, at: str) -> str | None:
    """The JSON text of the record of `job`, which `kept` is once it is claimed; None where that takes encoding it.

    Args:
        kept: the job before that.
        job: the job after it.
        worker: the JSON text of the worker's id.
        at: when, as written.
    """
    if kept.rest is None:
        return None
    return (
        f'{{"id":"{kept.id}","run_at":"{kept.run_at}","state":"processing{kept.rest},"run":{job.run},"rev":{job.rev},'
        f'"worker":{worker},"updated_at":"{at}","started_at":"{at}"}}'
    )


def completed_line(kept: Kept, fields: Mapping[str, Any], run: str, *, at: str) -> bytes | None:
    """The line of a claimed job once it is completed; None where that takes encoding it.

    Args:
        kept: the job before that.
        fields: what changes, in its JSON form.
        run: the text of the run that has ended.
        at: when, as written.
    """
    if kept.rest is None or fields["state"] != "completed" or not fields.keys() <= _COMPLETION:
        return None
    job = kept.job
    started = fields.get("started_at") or (job.started_at and format_time(job.started_at))
    result, exit_code = fields.get("result"), fields.get("exit_code")
    returned = "" if result is None else f',"result":{encode(result)}'
    if exit_code is not None:
        returned += f',"exit_code":{exit_code}'
    return seal(
        f'{{"id":"{kept.id}","seq":{kept.seq},"run_at":"{kept.run_at}","state":"completed{kept.rest}'
        f',"run":{job.run},"rev":{job.rev + 1}{returned},"history":[{run}],"updated_at":"{at}"'
        f',"started_at":"{started}","finished_at":"{fields["finished_at"]}"}}'
    )
