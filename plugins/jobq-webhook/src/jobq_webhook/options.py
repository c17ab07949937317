"""The table of the settings. All are live: a worker and the deliveries it runs take what the file says now."""

from __future__ import annotations

from datetime import timedelta

from jobq.providers import Option

OPTIONS = (
    Option(
        name="webhook.url",
        kind="list",
        default=None,
        live=True,
        activates=True,
        help="Where to send messages; several URLs get each message.",
    ),
    Option(
        name="webhook.secret",
        kind="list",
        default=None,
        live=True,
        help="What messages are signed with, whsec_…; several while one replaces another.",
    ),
    Option(
        name="webhook.events",
        kind="list",
        default=("completed", "dead", "cancelled"),
        live=True,
        help="The kinds of events that are told.",
    ),
    Option(
        name="webhook.include",
        kind="list",
        default=("error",),
        live=True,
        help="What of a job is told beside its bare facts: any of command, error, payload, result.",
    ),
    Option(
        name="webhook.queue",
        kind="text",
        default="notifications",
        live=True,
        help="The queue in which messages wait; events of its own jobs are not told.",
    ),
    Option(
        name="webhook.timeout",
        kind="duration",
        default=timedelta(seconds=15),
        least=0.1,
        most=600,
        live=True,
        help="The longest that one try to deliver a message may take.",
    ),
    Option(
        name="webhook.max-attempts",
        kind="integer",
        default=60,
        least=1,
        most=10_000,
        live=True,
        help="How many tries make a message dead; captured when it is enqueued.",
    ),
    Option(
        name="webhook.allow-private",
        kind="boolean",
        default=False,
        live=True,
        help="Send to loopback and private addresses too, and there without TLS.",
    ),
    Option(
        name="webhook.ca-file",
        kind="text",
        default=None,
        live=True,
        help="A PEM file, relative to the home, of the only authorities whose certificates are accepted.",
    ),
)
