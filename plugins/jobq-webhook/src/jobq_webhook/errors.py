"""Why a message was not delivered."""

from __future__ import annotations

from jobq.errors import JobqError


class NotAllowed(JobqError):
    """The rules forbid to send there; trying again changes nothing."""

    exit_code = 1


class NotDelivered(JobqError):
    """Nobody answered, or not in time; a later try may do better."""

    exit_code = 5
