"""Text for people: harmless on a terminal, in local time, in columns that fit."""

from __future__ import annotations

import os
import re
import shutil
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

# C0 but tab and newline, DEL, C1, bidi controls and marks, zero-width and other format characters that hide text.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff]"
)
_COLOURS = {
    "completed": "32",
    "processing": "36",
    "failed": "33",
    "dead": "31",
    "cancelled": "90",
    "pending": "0",
}


def visible(text: str) -> str:
    """The text with everything that steers a terminal written as an escape: what you see is what is there."""
    return _UNSAFE.sub(lambda match: _escape(match.group()), text)


def safe(text: str, stream: IO[str]) -> str:
    """`visible` where the stream is a terminal; unchanged otherwise."""
    return visible(text) if stream.isatty() else text


def one_line(text: str) -> str:
    """The text on one line, harmless: newlines and tabs are shown as escapes too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def coloured(text: str, state: str, stream: IO[str]) -> str:
    """The text in the colour of a state, on a terminal that has colours (`NO_COLOR` is honoured)."""
    if not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or state not in _COLOURS:
        return text
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def local_time(moment: datetime | None) -> str:
    """An instant as a person here would say it, to the second; `-` for none."""
    return "-" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def columns(rows: Sequence[Sequence[str]], stream: IO[str], *, flexible: int | None = None) -> list[str]:
    """Rows as lines in aligned columns.

    On a terminal the `flexible` column is cut so that each line fits; elsewhere nothing is ever cut.
    """
    if not rows:
        return []
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(row[index]) for row in cells) for index in range(len(cells[0]))]
    if stream.isatty() and flexible is not None:
        room = shutil.get_terminal_size().columns - sum(widths) - 2 * (len(widths) - 1) + widths[flexible]
        widths[flexible] = max(8, min(widths[flexible], room))
        for row in cells:
            if len(row[flexible]) > widths[flexible]:
                row[flexible] = row[flexible][: widths[flexible] - 1] + "…"
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells]


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
