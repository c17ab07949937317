"""Text that others wrote, made fit to be shown."""

from __future__ import annotations


def one_line(text: str, limit: int) -> str:
    """The first line that is not empty, with blanks for what steers a terminal; of at most `limit` characters."""
    line = next((line for line in text.splitlines() if line.strip()), "")[: 4 * limit]
    clean = " ".join("".join(each if each.isprintable() else " " for each in line).split())
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"
