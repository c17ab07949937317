"""The bundled plugin `log`: tells of every event through `logging`, in a file, or both; silent unless set."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.hooks import hookimpl
from jobq.providers import Option

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.events import Event
    from jobq.settings import Settings


@hookimpl
def jobq_options() -> Iterable[Option]:
    """The settings `log.level` and `log.file`."""
    return [
        Option(
            name="log.level",
            kind="text",
            default=None,
            choices=("info", "warning", "error"),
            activates=True,
            help="Log events of at least this level as the logger jobq.events; on stderr where logging is not set up.",
        ),
        Option(
            name="log.file",
            kind="text",
            default=None,
            activates=True,
            help="Append every event to this file, relative to the home, as one JSON object a line.",
        ),
    ]


@hookimpl
def jobq_notify(event: Event, settings: Settings) -> None:
    """Log one event where the settings say."""
    from jobq_log import sinks

    if settings["log.level"] is not None:
        sinks.log(event, settings["log.level"])
    if settings["log.file"] is not None:
        sinks.append(event, settings.home, settings["log.file"])
