"""The top command as click knows it: it finds core commands by name, then those of plugins."""

from __future__ import annotations

import contextlib
from typing import Any

import click

from jobq import __version__
from jobq.cli.base import GLOBAL_OPTIONS
from jobq.cli.state import Globals
from jobq.cli.streams import NobodyReads, talk
from jobq.errors import JobqError

COMMANDS = {
    "enqueue": "submit",
    "add": "submit",
    "worker": "work",
    "status": "status",
    "list": "see",
    "show": "show",
    "why": "why",
    "logs": "logs",
    "wait": "wait",
    "cancel": "change",
    "retry": "change",
    "delete": "change",
    "prune": "change",
    "pause": "change",
    "resume": "change",
    "dlq": "change",
    "export": "export",
    "import": "imports",
    "move": "move",
    "config": "config",
    "plugins": "install",
    "handlers": "install",
    "doctor": "install",
    "init": "install",
    "completion": "install",
    "demo": "demo",
}
"""The module of each core command."""


_DESTRUCTIVE = ("delete", "prune")
"""What nobody is to be led to by a slip."""

_OTHERS_WORDS = {
    "kill": "cancel",
    "log": "logs",
    "ls": "list",
    "ps": "list",
    "rm": "delete",
    "run": "worker start",
    "start": "worker start",
    "stop": "worker stop",
    "submit": "add",
    "tail": "logs",
    "work": "worker start",
    "workers": "worker list",
}
"""What other tools call what jobq has under another name."""


class Root(click.Group):
    """The top command: finds core commands by name, then those of plugins."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._owners: dict[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The core commands in the order of a day's work, then those of plugins."""
        try:
            offered = self._plugin_commands(ctx)
        except JobqError as error:  # help is given even so
            talk(f"jobq: {error}")
            offered = {}
        return [*COMMANDS, *sorted(offered)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, with its module imported; None where there is none.

        Raises:
            JobqError: it is none of the core, and those of plugins cannot be asked for.
        """
        module = COMMANDS.get(cmd_name)
        if module is None:
            return self._plugin_commands(ctx).get(cmd_name)
        import importlib

        command: click.Command = getattr(importlib.import_module(f"jobq.cli.{module}"), f"{cmd_name}_command")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does; a command that does not exist is told with those it may have meant."""
        name = args[0]
        if self.get_command(ctx, name) is None:
            import difflib

            likely = [each for each in self.list_commands(ctx) if each not in _DESTRUCTIVE]
            meant = _OTHERS_WORDS.get(name)
            near = [meant] if meant else difflib.get_close_matches(name, likely, n=2)
            hint = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {name!r}.{hint}")
        ctx.ensure_object(Globals).plugin = self._owners.get(name, "")
        return super().resolve_command(ctx, args)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """As click does, but that nobody reads any more is told to the entry (click would exit with 1)."""
        try:
            return super().make_context(*args, **kwargs)
        except BrokenPipeError:
            raise NobodyReads from None

    def invoke(self, ctx: click.Context) -> Any:
        """As click does, but that nobody reads any more is told to the entry (click would exit with 1)."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise NobodyReads from None

    def _plugin_commands(self, ctx: click.Context) -> dict[str, click.Command]:
        commands: dict[str, click.Command] = {}
        for plugin, command in ctx.ensure_object(Globals).app.plugins.commands():
            if command.name is not None:
                commands[command.name] = command
                self._owners[command.name] = f"plugin {plugin.title}"
        return commands


@click.group(
    cls=Root,
    params=list(GLOBAL_OPTIONS()),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    invoke_without_command=True,
    subcommand_metavar="COMMAND [ARGS]...",
)
@click.version_option(__version__, message="jobq %(version)s")
@click.pass_context
def root(ctx: click.Context) -> None:
    """A durable background job queue for Python and the shell.

    \b
    jobq add -- CMD [ARG]...     enqueue a command
    jobq worker start            run what is enqueued
    jobq status                  see how it stands
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def run(args: list[str], state: Globals) -> int:
    """Run the command line by click; the exit code.

    Raises:
        NobodyReads: the reader of stdout has closed the pipe.
        JobqError, Exception: what the command raises.
    """
    try:
        answer: Any = root.main(args, "jobq", standalone_mode=False, obj=state)
    except click.exceptions.Exit as exit_:
        return exit_.exit_code
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        return 1
    except click.Abort:
        talk("")
        return 130
    return answer if isinstance(answer, int) else 0
