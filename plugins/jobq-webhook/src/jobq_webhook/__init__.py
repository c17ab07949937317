"""The plugin `webhook`: tells others of jobs by signed webhooks, each delivered as a job; silent unless set.

What is sent, and how it is signed, follows the Standard Webhooks specification, version 1.0.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import hookimpl
from jobq_webhook.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from jobq.events import Event
    from jobq.providers import Option
    from jobq.settings import Settings

__version__ = "0.1.0"


@hookimpl
def jobq_options() -> Iterable[Option]:
    """The settings `webhook.…`."""
    return OPTIONS


@hookimpl
def jobq_commands() -> Iterable[click.Command]:
    """The commands `jobq webhook test` and `jobq webhook secret`."""
    from jobq_webhook.commands import webhook_command

    return [webhook_command]


@hookimpl
def jobq_notify(event: Event, settings: Settings) -> None:
    """Enqueue the delivery of one event to each URL, where the settings want it."""
    from jobq_webhook.announcing import announce

    announce(event, settings)
