"""Sends one message to one target, by the settings of this moment: what deliveries and `jobq webhook test` share."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from jobq.errors import InvalidInput
from jobq_webhook import __version__
from jobq_webhook.addresses import resolve
from jobq_webhook.posting import Deadline, post
from jobq_webhook.signing import secrets, signed

if TYPE_CHECKING:
    from jobq.settings import Settings
    from jobq_webhook.messages import Message
    from jobq_webhook.posting import Answer
    from jobq_webhook.targets import Target


def send(message: Message, target: Target, settings: Settings) -> Answer:
    """Send a message, signed with every secret that is set, and answer with what came back, whatever the status.

    Raises:
        InvalidInput: the settings lack a secret, or what they name is none.
        NotAllowed: the target's host has an address where nothing is sent.
        NotDelivered: nobody answered in time.
    """
    keys = secrets(settings)
    ca_file = _ca_file(settings)
    body = message.body()
    deadline = Deadline(settings["webhook.timeout"])
    addresses = resolve(target, allow_private=settings["webhook.allow-private"])
    headers = {
        "Content-Type": "application/json",
        "User-Agent": f"jobq-webhook/{__version__}",
        **signed(keys, message.id, body, datetime.now(UTC)),
    }
    return post(target, addresses, body, headers, deadline=deadline, ca_file=ca_file)


def _ca_file(settings: Settings) -> str | None:
    """The file of authorities, if one is set.

    Raises:
        InvalidInput: it cannot be read.
    """
    name = settings["webhook.ca-file"]
    if name is None:
        return None
    path = (settings.home or Path()) / name
    if not os.access(path, os.R_OK):
        raise InvalidInput("webhook.ca-file", path, "cannot be read")
    return str(path)
