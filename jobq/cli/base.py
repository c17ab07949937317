"""What the commands share: the options that every command takes, the app behind them, and how they answer.

stdout carries the answer, stderr the talk.
"""

from __future__ import annotations

import sys
from functools import update_wrapper
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.options import GLOBAL
from jobq.cli.state import Globals
from jobq.cli.streams import talk
from jobq.errors import Misuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobq.cli.options import Table


__all__ = [
    "GLOBAL_OPTIONS",
    "Command",
    "Globals",
    "Group",
    "command",
    "confirm",
    "first_failure",
    "options_of",
    "with_globals",
]


def GLOBAL_OPTIONS() -> Iterator[click.Option]:  # noqa: N802 - a constant, but click wants fresh options for each command
    """The options that every command takes."""

    def keep(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        state = ctx.ensure_object(Globals)
        if param.name == "plugins":
            state.plugins += value
        elif value == "":
            raise click.BadParameter("must not be empty", ctx, param)
        elif value:
            setattr(state, str(param.name), value)

    for declarations, attributes in GLOBAL:
        yield click.Option(declarations, expose_value=False, callback=keep, **attributes)


def options_of(table: Table) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command's function the options of a table, in its order."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for declarations, attributes in reversed(table):
            kind = attributes.get("type")
            typed = attributes | {"type": click.Choice(kind)} if isinstance(kind, tuple) else attributes
            function = click.option(*declarations, **typed)(function)
        return function

    return decorate


class Command(click.Command):
    """A command that takes the global options too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.params += GLOBAL_OPTIONS()


class Group(click.Group):
    """A group of commands (`worker start`, `dlq list`): noun, then verb."""

    command_class = Command


def command(name: str, **attributes: Any) -> Callable[[Callable[..., Any]], Command]:
    """Make a function a command; its first argument is the `Globals`."""

    def decorate(function: Callable[..., Any]) -> Command:
        kind: type[Command] = attributes.pop("cls", Command)
        return click.command(name, cls=kind, **attributes)(with_globals(function))

    return decorate


def with_globals(function: Callable[..., Any]) -> Callable[..., Any]:
    """Hand the `Globals` to a command's function as its first argument."""

    def call(*args: Any, **kwargs: Any) -> Any:
        context = click.get_current_context()
        try:
            return function(context.ensure_object(Globals), *args, **kwargs)
        except Misuse as error:
            raise click.UsageError(str(error), context) from None

    return update_wrapper(call, function)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before much is changed; without a terminal nothing is asked, and `--yes` is needed.

    Raises:
        InvalidInput: there is no terminal and no `--yes`.
        click.exceptions.Exit: the answer was no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        from jobq.errors import InvalidInput

        raise InvalidInput("", question, "cannot be asked without a terminal; say --yes")
    if not click.confirm(question, err=True):
        talk("nothing was changed")
        raise click.exceptions.Exit(1)


def first_failure(actions: Iterable[Callable[[], object]]) -> int:
    """Try every action, tell each failure; the exit code of the first one, or 0."""
    from jobq.errors import JobqError

    code = 0
    for action in actions:
        try:
            action()
        except JobqError as error:
            talk(f"jobq: {error}")
            code = code or error.exit_code
    return code
