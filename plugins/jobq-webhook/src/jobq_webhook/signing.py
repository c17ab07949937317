"""Secrets and signatures, after Standard Webhooks 1.0.0, "Signature scheme": HMAC-SHA256, the versions `v1`."""

from __future__ import annotations

import base64
import binascii
import os
from typing import TYPE_CHECKING

from jobq.errors import HIDDEN, InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from jobq.settings import Settings

_FIELD = "webhook.secret"
PREFIX = "whsec_"
LEAST, MOST = 24, 64
"""Bytes of a secret, by the specification."""
_FRESH = 32


def new_secret() -> str:
    """A fresh random secret."""
    return PREFIX + base64.b64encode(os.urandom(_FRESH)).decode()


def secrets(settings: Settings) -> list[bytes]:
    """The secrets that the settings name, the current one first; at least one.

    Raises:
        InvalidInput: there is none, or one is none. No secret is shown.
    """
    words = " ".join(settings[_FIELD] or ()).split()  # by spaces too, as the header has the signatures
    if not words:
        raise InvalidInput(
            _FIELD, HIDDEN, "must be set: nothing is sent unsigned; `jobq webhook secret` prints a new one"
        )
    return [_decoded(word) for word in words]


def signed(keys: Sequence[bytes], message_id: str, body: bytes, now: datetime) -> dict[str, str]:
    """The headers that go with a body: who it is, when it is sent, and a signature by each key.

    Args:
        keys: as `secrets` has them.
        message_id: without dots.
        body: the very bytes that are sent; ASCII.
        now: the moment of this try (aware UTC), which a receiver compares with its own clock.
    """
    from standardwebhooks import Webhook

    text = body.decode("ascii")
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": " ".join(Webhook(key).sign(message_id, now, text) for key in keys),
    }


def _decoded(word: str) -> bytes:
    try:
        key = base64.b64decode(word.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not word.startswith(PREFIX) or not LEAST <= len(key) <= MOST:
        raise InvalidInput(
            _FIELD, HIDDEN, f"must be {PREFIX} and {LEAST} to {MOST} bytes in base64; or several of these"
        )
    return key
