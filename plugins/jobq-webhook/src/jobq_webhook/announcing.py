"""Makes jobs of events: for one that is wanted, a job for each URL, which delivers it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from jobq.errors import InvalidInput
from jobq.events import EventKind
from jobq_webhook.messages import of_event
from jobq_webhook.outbox import OUTBOX
from jobq_webhook.signing import secrets
from jobq_webhook.targets import targets

if TYPE_CHECKING:
    from collections.abc import Collection

    from jobq.events import Event
    from jobq.settings import Settings

HANDLER = "webhook"
KINDS = tuple(kind.value for kind in EventKind)
INCLUDED = ("command", "error", "payload", "result")
_HANGING = timedelta(seconds=30)


def announce(event: Event, settings: Settings) -> None:
    """Enqueue the deliveries of one event, if it is wanted; nothing goes over the network here.

    What happens to deliveries themselves is never told: each message would make the next one.

    Raises:
        InvalidInput: a setting of the plugin is missing or wrong.
        StoreError: the store cannot be used.
    """
    job = event.job
    if job.handler == HANDLER or job.queue == settings["webhook.queue"]:
        return
    if event.kind.value not in _chosen(settings, "webhook.events", KINDS):
        return
    wanted = targets(settings)
    if not wanted:
        return
    secrets(settings)
    message = of_event(event, _chosen(settings, "webhook.include", INCLUDED))
    common = {
        "handler": HANDLER,
        "queue": settings["webhook.queue"],
        "max_attempts": settings["webhook.max-attempts"],
        # Above what a try gives itself, which a resolver that hangs knows nothing of
        "timeout": 4 * settings["webhook.timeout"] + _HANGING,
        "retry_on": [],
        "no_retry_on": [],
    }
    specs = [
        common
        | {
            "id": f"{message.id}.{target.name.rpartition('/')[2]}",
            "payload": {"target": target.name, **message.record()},
        }
        for target in wanted
    ]
    OUTBOX.enqueue(specs, settings)


def _chosen(settings: Settings, name: str, there: Collection[str]) -> tuple[str, ...]:
    chosen: tuple[str, ...] = settings[name]
    for each in chosen:
        if each not in there:
            raise InvalidInput(name, each, f"must be of {', '.join(there)}")
    return chosen
