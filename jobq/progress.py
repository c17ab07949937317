"""How far a running job says it has come. It is presence, not job state: only the last of an attempt is kept."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

NOTE_LIMIT = 200
"""The most characters of a note that are kept."""
LARGEST = sys.float_info.max
LINE_LIMIT = 1024
"""The most bytes of a line that are looked at."""

_NUMBER = rb"(\d{1,15}(?:\.\d{1,15})?)"
_LINE = re.compile(_NUMBER + rb"(?:/" + _NUMBER + rb")?(?:\s+(.*))?\s*", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Progress:
    """What a job last reported.

    Attributes:
        done: how much is done, in the job's own unit, at least 0.
        total: how much there is to do in that unit, above 0; None where the job does not know.
        note: what it is at, one line of at most `NOTE_LIMIT` printable characters.
    """

    done: float
    total: float | None = None
    note: str = ""

    @staticmethod
    def of(done: float, total: float | None = None, note: str = "") -> Progress:
        """What a job reports, made fit to be kept and shown.

        Raises:
            ValueError, TypeError: a number is none, or negative, or not finite.
        """
        return Progress(_number(done), None if total is None else _number(total) or None, _line(note))

    @property
    def fraction(self) -> float | None:
        """How much is done, from 0 to 1; None where the total is not known."""
        return None if self.total is None else min(1.0, self.done / self.total)

    def text(self) -> str:
        """For people: `3/10 resizing`."""
        done = f"{self.done:.12g}" if self.total is None else f"{self.done:.12g}/{self.total:.12g}"
        return f"{done} {self.note}" if self.note else done

    def record(self) -> dict[str, Any]:
        """The JSON object."""
        return {"done": self.done, "total": self.total, "note": self.note}

    @staticmethod
    def from_record(record: Mapping[str, Any]) -> Progress:
        """The progress of a JSON object.

        Raises:
            KeyError, TypeError, ValueError: it is none.
        """
        return Progress.of(record["done"], record.get("total"), record.get("note") or "")


def parse(line: bytes) -> Progress | None:
    """What a line says that a command wrote to `$JOBQ_PROGRESS_FD`: `3/10 resizing`, `3/10`, `7`; None for others."""
    found = _LINE.fullmatch(line[:LINE_LIMIT].strip())
    if found is None:
        return None
    done, total, note = found.groups()
    return Progress.of(float(done), None if total is None else float(total), (note or b"").decode("utf-8", "replace"))


def _number(value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    if not 0 <= value <= LARGEST:  # NaN is not
        raise ValueError(f"{value!r} is not a finite number of at least 0")
    whole = int(value)
    return whole if whole == value else value


def _line(text: str) -> str:
    printable = "".join(letter if letter.isprintable() else " " for letter in str(text)[: 2 * NOTE_LIMIT])
    return " ".join(printable.split())[:NOTE_LIMIT]
