"""Which ids are taken, as sorted hashes in a line of the sorted run: that one is free is told without a search.

The line stands between the last job and the footer:

    {"jobq":"ids","stale":0,"hashes":"00a1b2c3…","crc":"…"}

It has the crc32 of every id in the run and in the archive, eight hexadecimal digits each. The hash of an id that was
deleted stays until all are collected anew, and two ids may share one: what is not there is free, what is there has to
be searched for. Where a run has no such line, or a damaged one, everything is searched for.
"""

from __future__ import annotations

import re
import sys
from array import array
from bisect import bisect_left
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING
from zlib import crc32

from jobq.errors import StoreError
from jobq_json.lines import SUFFIX, seal, sound
from jobq_json.search import each_id

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jobq_json.mapped import Mapped
    from jobq_json.view import View

_BEGINNING = re.compile(rb'\{"jobq":"ids","stale":(\d+),"hashes":"')
_DIGITS = 8
_STALE = 10_000
"""Hashes of deleted ids beyond which all are collected anew, once they may also be half of all."""


class Taken:
    """The hashes of one line, sorted.

    Args:
        digits: the hashes.
        stale: how many of them may be of ids that were deleted.
    """

    def __init__(self, digits: bytes, stale: int) -> None:
        self._digits, self.stale = digits, stale

    def __len__(self) -> int:
        return len(self._digits) // _DIGITS

    def __getitem__(self, index: int) -> bytes:
        return self._digits[index * _DIGITS : (index + 1) * _DIGITS]

    def may_have(self, job_id: str) -> bool:
        """False only where the id stands neither in the run nor in the archive."""
        wanted = b"%08x" % crc32(job_id.encode())
        at = bisect_left(self, wanted)
        return at < len(self) and self[at] == wanted

    def hashes(self) -> array[int]:
        """The hashes as numbers."""
        return _big_endian(array("I", bytes.fromhex(self._digits.decode("ascii"))))


def taken_in(run: Mapped, end: int) -> Taken | None:
    """The hashes that a sorted run has behind its last job, at `end`; None where there are none to be trusted."""
    line = run.line(end)[0]
    match = _BEGINNING.match(line)
    if match is None or not sound(line):
        return None
    return Taken(line[match.end() : -SUFFIX - 1], int(match[1]))


def taken_line(view: View, *, afresh: bool) -> bytes:
    """The line, with its line feed, for the run that is made of a view; empty where its archive cannot be read.

    `afresh`: the hashes in the old run are not to be trusted, and are collected anew.
    """
    old = None if afresh else taken_in(view.run, view.end)
    gone = {job_id.encode() for job_id, kept in view.delta.items() if kept is None}
    known = sorted(crc32(job_id.encode()) for job_id, kept in view.delta.items() if kept is not None)
    stale = len(gone) + (0 if old is None else old.stale)
    if old is None or stale > max(_STALE, len(old) // 2):
        try:
            known += [crc32(job_id) for job_id in _stored(view) if job_id not in gone]
        except (StoreError, FileNotFoundError):
            return b""
        stale = 0
    else:
        known += old.hashes()
    known.sort()
    hashes = _big_endian(array("I", map(itemgetter(0), groupby(known))))
    return seal(f'{{"jobq":"ids","stale":{stale},"hashes":"{hashes.tobytes().hex()}"}}') + b"\n"


def wrong_in(view: View) -> str:
    """What is wrong with the hashes, "" for nothing. That a run has none is not wrong."""
    run = view.run
    if run.line_before(run.size)[1] <= view.end:
        return ""
    taken = taken_in(run, view.end)
    if taken is None:
        return f"{run.name}: its list of ids is damaged; ids are searched for instead"
    for each in _stored(view):
        job_id = each.decode("latin-1")  # a damaged one may be anything; it is nowhere to be located
        if not taken.may_have(job_id) and view.locate((job_id,)):
            return f"{run.name}: job {job_id} is not in its list of ids, and could be added again"
    return ""


def _stored(view: View) -> Iterator[bytes]:
    yield from each_id(view.run.data, view.run.first, view.end)
    for name, segment in view.archive.segments.items():
        yield from each_id(view.archive.mapped(name).data, segment.start, segment.size)


def _big_endian(hashes: array[int]) -> array[int]:
    """To or from the order of bytes in which hexadecimal digits sort as numbers do."""
    if sys.byteorder == "little":
        hashes.byteswap()
    return hashes
