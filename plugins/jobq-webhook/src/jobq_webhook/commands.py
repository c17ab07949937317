"""`jobq webhook`: try whether messages arrive, and make a secret."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

import click

from jobq.cli.base import Globals, Group, with_globals
from jobq.errors import HIDDEN, InvalidInput
from jobq.times import floor_ms, format_time
from jobq_webhook.errors import NotAllowed, NotDelivered
from jobq_webhook.messages import Message
from jobq_webhook.targets import parse, targets


@click.group("webhook", cls=Group, short_help="Try webhooks, and make a secret for them.")
def webhook_command() -> None:
    """Signed webhooks tell others what became of jobs; the settings webhook.… say whom and of what."""


@webhook_command.command("test", short_help="Send a message now, and say what came back.")
@click.option("--url", metavar="URL", help="Send it there instead of to every URL that is set.")
@with_globals
def test(state: Globals, url: str | None) -> int:
    """Send one signed message of the type webhook.test, and print what came back, one line a URL.

    Exit code 0 when every receiver took it, 5 when one did not, 1 when it was not allowed to be sent.
    """
    from jobq_webhook.sending import send

    settings = state.app.settings
    chosen = targets(settings) if url is None else [parse(url)]
    if not chosen:
        raise InvalidInput("webhook.url", HIDDEN, "must be set, or --url given")
    now = format_time(floor_ms(datetime.now(UTC)))
    message = Message(f"msg_{secrets.token_hex(16)}", "webhook.test", now, {"message": "jobq says hello"})
    code = 0
    for target in chosen:
        try:
            answer = send(message, target, settings)
            said = f"{target.host} answered {answer}"
            code = code or (0 if answer.is_success else NotDelivered.exit_code)
        except (NotAllowed, NotDelivered) as error:
            said = str(error)
            code = code or error.exit_code
        click.echo(said)
    return code


@webhook_command.command("secret", short_help="Print a new secret.")
@with_globals
def secret(_state: Globals) -> None:
    """Print a new random secret for webhook.secret; it is kept nowhere.

    The receiver needs the same one. It belongs into config.toml of the home: variables are seen by every job.
    """
    from jobq_webhook.signing import new_secret

    click.echo(new_secret())
