"""What a job's line begins with, read without the rest of it."""

from __future__ import annotations

import re
from typing import NamedTuple

from jobq.codec import NO_JSON, scan

_HEAD = re.compile(
    r'\{"id":"([^"]+)","seq":(\d+),"run_at":"([^"]+)","state":"([a-z]+)","queue":"([^"]+)","priority":(-?\d+)'
    r',"losses":(\d+)(?:,"handler":("(?:[^"\\]|\\.)*"))?[,}]'
)


class Head(NamedTuple):
    """What a job's line begins with. `run_at` is the written form, which sorts as the instants do."""

    id: str
    seq: int
    run_at: str
    state: str
    queue: str
    priority: int
    losses: int
    handler: str | None


def head_of(line: bytes) -> Head | None:
    """The beginning of a job's line; None where it has none. Says nothing about the rest of the line."""
    try:
        match = _HEAD.match(line.decode("ascii"))
        if match is None:
            return None
        job_id, seq, run_at, state, queue, priority, losses, handler = match.groups()
        name = None if handler is None else scan(handler, 0)[0]
        return Head(job_id, int(seq), run_at, state, queue, int(priority), int(losses), name)
    except NO_JSON:
        return None
