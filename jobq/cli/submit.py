"""`enqueue` and `add`, as click knows them: new jobs, from programs and from people."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from jobq.cli import submitting
from jobq.cli.base import Command, Globals, command, options_of
from jobq.cli.options import ADD, ENQUEUE

if TYPE_CHECKING:
    from collections.abc import Sequence

_ARGV = "jobq.argv"


@command("enqueue", short_help="Enqueue jobs given as JSON.")
@click.argument("spec", metavar="[JSON | -]", required=False)
@options_of(ENQUEUE)
def enqueue_command(state: Globals, **values: Any) -> int:
    """Enqueue one job given as a JSON object, or many given as JSON Lines.

    \b
    jobq enqueue '{"command": "echo hello"}'
    jobq enqueue '{"handler": "resize", "payload": {"width": 10}, "priority": 3}'
    jobq enqueue --file jobs.jsonl
    generate | jobq enqueue -

    The whole input is checked before anything is stored. Each job's id is printed, in order.
    """
    return submitting.enqueue(state, **values)


class AddCommand(Command):
    """A command whose words behind `--` are kept apart: they are an argv, whatever they look like."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before `--`, and keep the rest in `ctx.meta`."""
        if "--" in args:
            place = args.index("--")
            args, ctx.meta[_ARGV] = args[:place], args[place + 1 :]
        worded = any(not word.startswith("-") for word in args)
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            if worded and _ARGV not in ctx.meta:
                raise click.UsageError(f"{error.format_message()} {submitting.HINT}", ctx) from None
            raise


@command("add", cls=AddCommand, short_help="Enqueue a command or a handler, in words.")
@click.argument("words", nargs=-1, metavar="[HANDLER [PAYLOAD] | -- CMD [ARG]...]")
@options_of(ADD)
def add_command(state: Globals, words: Sequence[str], **values: Any) -> int:
    """Enqueue a handler by its name, or a command after `--`.

    \b
    jobq add -- convert in.png -resize 50% out.png     no shell in between
    jobq add --shell 'make && make install'            a line for /bin/sh
    jobq add resize '{"width": 10}'                    a handler and its payload

    The command runs in this directory, with PATH and the like as they are in this shell.
    """
    argv = click.get_current_context().meta.get(_ARGV)
    return submitting.add(state, words=words, argv=argv, **values)
