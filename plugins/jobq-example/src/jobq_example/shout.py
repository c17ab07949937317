"""A notifier that shouts: a line in a file for every job that is dead."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import Option, hookimpl

if TYPE_CHECKING:
    from jobq import Event, Settings

FILE = Option(
    name="shout.file",
    kind="text",
    default=None,
    live=True,
    activates=True,
    help="Append a line to this file, relative to the home, for every job that is dead.",
)


@hookimpl
def jobq_notify(event: Event, settings: Settings) -> None:
    """Append the line; the file is private, as the home is."""
    if event.kind != "dead":
        return
    reason = (event.job.last_error or "no reason given").splitlines()[0]
    with open(settings.home / settings[FILE.name], "a", encoding="utf-8") as file:
        file.write(f"DEAD! {event.job.id}: {reason}\n")
