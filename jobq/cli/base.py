"""What the commands share: the options that every command takes, the app behind them, and how they answer.

stdout carries the answer, stderr the talk.
"""

from __future__ import annotations

import json
import os
import sys
from functools import cached_property, update_wrapper
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.streams import talk
from jobq.errors import traceback_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from jobq.app import App
    from jobq.queue import Queue


class Globals:
    """What stood before or after the command: `--home --store -p --quiet --debug`; and the app made of it."""

    def __init__(self) -> None:
        self.home: str | None = None
        self.store: str | None = None
        self.plugins: list[str] = []
        self.flags: dict[str, str] = {}
        self.quiet = False
        self.debug = False
        self.plugin = ""  # the one whose command runs

    @cached_property
    def app(self) -> App:
        """The app; made when it is first needed."""
        from jobq.app import App

        flags = {} if self.store is None else {"store": self.store}
        plugins = self.plugins
        return App(home=self.home, flags=flags | self.flags, plugins=plugins, warn=self.warn, debug=self.debug)

    @cached_property
    def queue(self) -> Queue:
        """What the commands work with, of the home and the store that were asked for."""
        from jobq.queue import Queue

        self.name_home()
        return Queue(self.app)

    def name_home(self) -> None:
        """Say which home is used, where it is not the default one."""
        if self.app.home.source != "default":
            there = "" if self.app.home.exists() else " (nothing is there yet)"
            self.note(f"home: {self.app.home.path}{there}")

    def warn(self, message: str) -> None:
        """Tell of trouble that is no error; with `--debug` also where it came from, if something was raised."""
        talk(f"jobq: {message}")
        error = sys.exception()
        if self.debug and error is not None:
            talk(traceback_of(error))

    def note(self, message: str) -> None:
        """Talk, unless `--quiet`."""
        if not self.quiet:
            talk(message)

    def close(self) -> None:
        """Free what was made."""
        if "app" in self.__dict__:
            self.app.close()


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

    def option(*declarations: str, **attributes: Any) -> click.Option:
        return click.Option(declarations, expose_value=False, callback=keep, **attributes)

    yield option("--home", metavar="DIR", help="The home directory: where jobs and settings are kept.")
    yield option("--store", metavar="URL", help="The store: json:, or NAME:ADDRESS of another one.")
    yield option(
        "-p", "plugins", metavar="PLUGIN", multiple=True, help="Require a plugin: NAME or ./file.py; no:NAME blocks it."
    )
    yield option("--quiet", is_flag=True, help="No notes on stderr, only errors.")
    yield option("--debug", is_flag=True, help="Show the traceback of an error.")


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
        return function(click.get_current_context().ensure_object(Globals), *args, **kwargs)

    return update_wrapper(call, function)


def show_json(value: object) -> None:
    """Print a value as JSON, alone on stdout; ASCII, so that no terminal and no locale can spoil it."""
    click.echo(json.dumps(value, indent=2))


def show_json_lines(values: Iterable[object]) -> None:
    """Print values as JSON, one a line, as they come."""
    for value in values:
        click.echo(json.dumps(value, separators=(",", ":")))


def read_input(path: str, limit: int | None = None) -> bytes:
    """The content of a file, or of standard input for `-`.

    Raises:
        click.UsageError: it cannot be read, or is larger than `limit` bytes.
    """
    try:
        if path == "-":
            data = sys.stdin.buffer.read() if limit is None else sys.stdin.buffer.read(limit + 1)
        else:
            with open(path, "rb") as file:
                data = file.read() if limit is None else file.read(limit + 1)
    except OSError as error:
        raise click.UsageError(f"{path}: {error.strerror}") from None
    if limit is not None and len(data) > limit:
        raise click.UsageError(f"{path} has more than {limit} bytes")
    return data


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


def describe_fault(error: Exception, whose: str) -> str:
    """One sentence for a fault in jobq itself, or in a plugin, and the file that now holds the traceback."""
    import tempfile

    descriptor, path = tempfile.mkstemp(prefix="jobq-fault-", suffix=".txt", text=True)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"jobq {' '.join(sys.argv[1:2])}, Python {sys.version}, {os.uname().sysname}\n\n")
        file.write(f"{traceback_of(error)}\n")
    return f"a fault in {whose} ({type(error).__name__}); the traceback is in {path}"
