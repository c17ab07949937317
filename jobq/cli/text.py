"""Text for people: harmless on a terminal, in local time, in columns that fit."""

from __future__ import annotations

import codecs
import os
import re
from datetime import timedelta
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobq.job import Job

# C0 but tab and newline, DEL, C1, bidi controls and marks, and what is not seen but hides or joins other text:
# soft hyphen, zero-width and format characters, tags; and lone surrogates, which no encoding can write.
_UNSAFE = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
_SECRETIVE = (
    r"(?i)password|passwd|passphrase|pgpass|(^|_)pass(_|$)|_pwd(_|$)|(^|_)pw(_|$)|secret|token|credential|(^|_)auth(_|$)"
    r"|(^|_)(api|access)?key(_|$)|private|cookie|dsn$"
)
_IN_URL = r"(://[^/\s:@]*:)[^/\s]+(?=@)"
_COLOURS = {
    "completed": "32",
    "processing": "36",
    "failed": "33",
    "dead": "31",
    "cancelled": "90",
}
MASK = "***"
PADDED = 80
"""Columns that a cell is padded to at most where the output is no terminal."""


def visible(text: str) -> str:
    """The text with everything that steers a terminal written as an escape: what you see is what is there."""
    return re.sub(_UNSAFE, lambda match: _escape(match.group()), text)


def one_line(text: str) -> str:
    """The text on one line, harmless: newlines and tabs are shown as escapes too."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


class VisibleBytes:
    """Turns bytes that come in pieces into harmless text: UTF-8, every byte that is none as an escape."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """The text of `data`; a character that is not yet whole is kept back unless it is `final`."""
        return visible(self._decoder.decode(data, final))


def coloured(text: str, state: str, stream: IO[str]) -> str:
    """The text in the colour of a job's state, on a terminal that has colours (`NO_COLOR` is honoured)."""
    if state not in _COLOURS or not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return f"\x1b[{_COLOURS[state]}m{text}\x1b[0m"


def local_time(moment: datetime | None) -> str:
    """An instant as a person here would say it, to the second; `-` for none."""
    return "-" if moment is None else moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


def in_words(duration: timedelta) -> str:
    """A wait for people: `8 s`, `1 m 30 s`, `2 h 5 m`, `3 d`: whole seconds, rounded up; the two largest units."""
    rest = max(0, -int(-duration.total_seconds() // 1))
    parts = []
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, rest = divmod(rest, size)
        if count:
            parts.append(f"{count} {unit}")
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def state_text(job: Job, now: datetime, *, progress: str = "") -> str:
    """A job's state, and what a person wants to know with it: when it is tried again, whether it is being stopped.

    `progress` is how far a running one has come, as `3/10 (30%)`; "" where that is not known.
    """
    wait = job.run_at - now
    when = "due" if wait <= timedelta() else f"in {in_words(wait)}"
    if job.state == "failed":
        return f"failed (retry {job.attempts + 1}/{job.max_attempts} {when})"
    if job.state == "pending" and when != "due":
        return f"pending (due {when})"
    if job.state == "processing" and job.cancel_requested_at is not None:
        return "processing (being cancelled)"
    if job.state == "processing" and progress:
        return f"processing {progress}"
    return str(job.state)


def reason(job: Job) -> str:
    """Why the latest attempt did not go well, on one line; "" where it did, or there was none."""
    return one_line(job.last_error.partition("\n")[0]) if job.last_error else ""


def masked(name: str, value: str) -> str:
    """The value of an environment variable as it may be shown: `***` in place of what looks like a secret."""
    return MASK if re.search(_SECRETIVE, name) else _without_passwords(value)


def width(text: str) -> int:
    """How many columns of a terminal the text takes: wide characters two, combining ones none."""
    return len(text) if text.isascii() else sum(map(_character_width, text))


def cut(text: str, room: int) -> str:
    """The text, with `…` in place of what does not fit into `room` columns."""
    if width(text) <= room:
        return text
    used = 1
    for index, character in enumerate(text):
        used += _character_width(character)
        if used > room:
            return text[:index] + "…"
    return text


def columns(
    rows: Sequence[Sequence[str]],
    stream: IO[str],
    *,
    flexible: int | None = None,
    states: tuple[int, Sequence[str]] | None = None,
) -> list[str]:
    """Rows as lines in aligned columns; passwords in URLs are `***`.

    Args:
        rows: the cells, as many in each row.
        stream: where the lines will go.
        flexible: the column that is cut on a terminal so that each line fits; elsewhere nothing is ever cut.
        states: a column, and the state of each row, in whose colour that column is shown.
    """
    if not rows:
        return []
    cells = [[one_line(_without_passwords(cell)) for cell in row] for row in rows]
    widths = [max(width(row[index]) for row in cells) for index in range(len(cells[0]))]
    if flexible is not None and stream.isatty():
        from shutil import get_terminal_size

        room = get_terminal_size().columns - sum(widths) - 2 * (len(widths) - 1) + widths[flexible]
        widths[flexible] = max(8, min(widths[flexible], room))
        for row in cells:
            row[flexible] = cut(row[flexible], widths[flexible])
    elif widths:  # one huge cell must not make every line as long
        widths = [min(wide, PADDED) for wide in widths]
    lines = []
    for number, row in enumerate(cells):
        padded = [cell + " " * (wide - width(cell)) for cell, wide in zip(row, widths, strict=True)]
        padded[-1] = padded[-1].rstrip()
        if states is not None:
            column, of_rows = states
            padded[column] = coloured(padded[column], of_rows[number], stream)
        lines.append("  ".join(padded).rstrip())
    return lines


def pairs(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Labels and harmless texts as aligned lines; further lines of a text stand below its first.

    Passwords in URLs are `***`.
    """
    indent = max((len(label) for label, _ in rows), default=0) + 2
    lines = []
    for label, text in rows:
        first, *others = visible(_without_passwords(text)).split("\n")
        lines.append(f"{label:<{indent}}{first}".rstrip())
        lines += [f"{'':<{indent}}{other}".rstrip() for other in others]
    return lines


def _without_passwords(text: str) -> str:
    return re.sub(_IN_URL, rf"\1{MASK}", text) if "://" in text else text


def _character_width(character: str) -> int:
    if character.isascii():
        return 1
    import unicodedata

    if unicodedata.category(character) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1


def _escape(character: str) -> str:
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
