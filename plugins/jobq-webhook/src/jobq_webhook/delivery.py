"""The handler `webhook`: delivers one message to one URL. jobq tries again what failed, and keeps what died."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from jobq.config import CONFIG_NAME, config_reader
from jobq.errors import InvalidInput
from jobq.settings import Settings
from jobq_webhook.errors import NotAllowed, NotDelivered
from jobq_webhook.messages import Message
from jobq_webhook.options import OPTIONS
from jobq_webhook.sending import send
from jobq_webhook.targets import targets

if TYPE_CHECKING:
    from jobq.handlers import HandlerContext
    from jobq.job import Job
    from jobq_webhook.posting import Answer

GONE = 410
THROTTLED = frozenset({429, 502, 503, 504})
"""The answers whose `Retry-After` is followed."""
LONGEST_WAIT = timedelta(hours=1)
MOST_WAITS = 10
"""Waits at a receiver's wish are not counted as failures, so there must be an end to them."""


def deliver(job: Job, context: HandlerContext) -> dict[str, Any]:
    """Send the message that a job carries; the status that came back is the result.

    The URL is the one of the settings that the payload names, so that no payload can choose another; the secret is
    theirs too, as of now.

    Raises:
        Failed: for good if the receiver is gone (410), the URL is no longer set, its address is not allowed, or the
            payload is no message; to be tried again in every other case.
        Snoozed: the receiver asks to wait.
    """
    try:
        message = Message.from_record(job.payload)
    except InvalidInput as error:
        context.fail(str(error))
    try:
        settings = current_settings()
        found = [target for target in targets(settings) if target.name == job.payload.get("target")]
    except InvalidInput as error:
        context.fail(str(error), retry=True)  # somebody will mend the settings
    if not found:
        context.fail("the URL that this message was for is no longer in webhook.url")
    (target,) = found
    try:
        answer = send(message, target, settings)
    except NotAllowed as error:
        context.fail(str(error))
    except (InvalidInput, NotDelivered) as error:
        context.fail(str(error), retry=True)
    if not answer.is_success:
        _give_back(answer, f"{target.host} answered {answer}", context)
    return {"status": answer.status}


def _give_back(answer: Answer, reason: str, context: HandlerContext) -> NoReturn:
    """End the try after an answer that is no success, as Standard Webhooks 1.0.0 advises for its status."""
    if answer.status == GONE:
        context.fail(f"{reason}; it wants no more: take it out of webhook.url")
    if answer.status in THROTTLED and answer.retry_after is not None and context.run - context.attempt < MOST_WAITS:
        wait = min(answer.retry_after, LONGEST_WAIT)
        context.log.info("%s; it asks to wait for %d s", reason, wait.total_seconds())
        context.snooze(wait)
    context.fail(reason, retry=True)


def current_settings() -> Settings:
    """The settings of this plugin in the home that this process serves, as they stand in its file now.

    Raises:
        InvalidInput: the file, or a value, is wrong.
    """
    home = Path(os.environ["JOBQ_HOME"])  # every handler has it
    return Settings(OPTIONS, config_reader(home / CONFIG_NAME), environ=os.environ, home=home)
