"""`plugins`, `handlers`, `doctor`, `init` and `completion`: what acts on the installation, not on jobs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobq import __version__
from jobq.cli.base import Globals, command
from jobq.cli.streams import safe, show_json
from jobq.cli.text import columns, one_line

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.pluginscan import Plugin


@command("plugins", short_help="List plugins, and what is wrong with any.")
@click.option(
    "-v", "--verbose", is_flag=True, help="Say more of each: what it offers, hooks, import time, where it is."
)
@click.option("--requirements", is_flag=True, help="Print DISTRIBUTION==VERSION lines, for pip install -r.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def plugins_command(state: Globals, verbose: bool, requirements: bool, as_json: bool) -> int:
    """List the installed plugins, what each offers, and why any cannot be used.

    Works whatever is broken or blocked, and imports each one that is not blocked, whatever is remembered of it.
    -p no:NAME, or the setting plugins.block, blocks a plugin. --debug shows the traceback of one that fails.
    """
    from jobq.cli.survey import survey

    if requirements and (as_json or verbose):
        raise click.UsageError("--requirements goes with neither --json nor --verbose")
    found = survey(state, afresh=True)
    if requirements:
        for pin in _pins(found.plugins.all):
            click.echo(pin)
    elif as_json:
        show_json([_record(plugin) for plugin in found.plugins.all])
    else:
        rows = [
            (p.name, f"{p.distribution} {p.version}".strip() or p.target, p.status, ", ".join(_offers_of(p)))
            for p in found.plugins.all
        ]
        for line, plugin in zip(columns(rows, sys.stdout), found.plugins.all, strict=True):
            click.echo(line)
            if verbose:
                for name, text in _details(plugin):
                    click.echo(f"    {name}: {one_line(text)}")
        if not rows:
            state.note("no plugins are installed")
    for report in found.plugins.reports(full=state.debug):
        state.warn(report)
    for problem in (*found.home_problems, *found.config_problems):
        state.warn(problem)
    if found.asked is not None:
        state.warn(str(found.asked))
        return found.asked.exit_code
    return 0


@command("handlers", short_help="List handlers that jobs can name.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list.")
def handlers_command(state: Globals, as_json: bool) -> int:
    """List the handlers that jobs can name here: name, module and function, and who brought it.

    Nothing is imported: a listed handler may still fail when it runs.
    """
    from jobq.cli.survey import survey

    found = survey(state)
    handlers = sorted(found.handlers.values(), key=lambda handler: handler.name)
    if as_json:
        show_json([{"name": h.name, "distribution": h.distribution, "target": h.target} for h in handlers])
    else:
        for line in columns([(h.name, h.target, h.distribution) for h in handlers], sys.stdout):
            click.echo(line)
        if not handlers:
            state.note("no handlers; `jobq config set handlers.NAME MODULE:FUNCTION` adds one")
    for handler in found.plugins.ambiguous:
        if handler.name not in found.handlers:
            state.warn(
                f"handler {handler.name} ({handler.distribution}): another distribution offers that name too; "
                f"`jobq config set handlers.{handler.name} MODULE:FUNCTION` chooses one"
            )
    for problem in (*found.home_problems, *found.config_problems):
        state.warn(problem)
    return 1 if found.config_problems and not found.content else 0


@command("doctor", short_help="Check that all is well.")
@click.option("--repair", is_flag=True, help="Mend the store first, as far as that can be.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object.")
def doctor_command(state: Globals, repair: bool, as_json: bool) -> int:
    """Check the home, settings, plugins, permissions, file system, space, clock, store and workers.

    One line a check, `ok` or `problem`; changes nothing without --repair; exit code 5 when anything is not well.
    """
    from jobq.cli.checks import checks
    from jobq.cli.survey import survey

    if repair and state.app.home.exists():
        for done in state.app.store.repair() or ["nothing was to be repaired"]:
            state.note(done)
    found = survey(state, afresh=True)
    results = []
    try:
        for check in checks(found):
            results.append(check)
            if not as_json:
                for problem in check.problems:
                    click.echo(f"problem  {check.name + ':':13} {safe(problem, sys.stdout)}")
                if not check.problems:
                    click.echo(f"ok       {check.name + ':':13} {safe(check.facts, sys.stdout)}".rstrip())
    finally:
        found.close()
    well = not any(check.problems for check in results)
    if as_json:
        listed = [{"name": c.name, "ok": not c.problems, "problems": c.problems, "facts": c.facts} for c in results]
        show_json({"ok": well, "checks": listed})
    return 0 if well else 5


@command("init", short_help="Make a home in this directory.")
@click.option("--trust", metavar="DIR", help="Trust the .jobq there that came from elsewhere: its jobs may run as you.")
def init_command(state: Globals, trust: str | None) -> None:
    """Make a .jobq in this directory: the home of every jobq command here and below.

    It is for this machine and user: one that was cloned, copied or unpacked is not used before `init --trust DIR`.
    """
    from jobq import home
    from jobq.errors import UnsafeHome
    from jobq.files import check_directory, check_parents, private_directory, replace

    if trust is not None:
        path = Path(os.path.abspath(trust))
        if path.name != home.LOCAL_NAME and os.path.lexists(path / home.LOCAL_NAME):
            path /= home.LOCAL_NAME
        try:
            home.trust(path, os.environ)
        except FileNotFoundError:
            raise click.UsageError(f"there is no directory {path}") from None
        state.note(f"{path} is trusted: its jobs may run as you")
        return
    path = Path(os.path.abspath(home.LOCAL_NAME))
    if os.path.lexists(path):
        check_directory(path)
        if not home.is_trusted(path, os.environ):
            raise UnsafeHome(
                f"{path} is there already and was not made here; if its jobs may run as you: --trust {path}"
            )
        state.note(f"{path} is there already")
        return
    check_parents(path)
    private_directory(path)
    replace(path / ".gitignore", b"*\n", durable=False)
    home.trust(path, os.environ)
    state.note(f"{path} is the home of jobq here and below")


@command("completion", short_help="Print a script that completes commands in your shell.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(_state: Globals, shell: str) -> None:
    """Print a script for SHELL that completes jobq's commands and options.

    \b
    jobq completion bash > ~/.local/share/bash-completion/completions/jobq
    jobq completion zsh > "${fpath[1]}/_jobq"
    jobq completion fish > ~/.config/fish/completions/jobq.fish
    """
    from click.shell_completion import get_completion_class

    from jobq.cli.root import root

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click knows no completion for {shell}")
    click.echo(kind(root, {}, "jobq", "_JOBQ_COMPLETE").source())


def _offers_of(plugin: Plugin) -> list[str]:
    """What a plugin brings, in words: `store json`, `notifier`, `setting log.file`."""
    offers = [f"{kind} {name}" for kind, names in plugin.offers.items() for name in names]
    if "jobq_notify" in plugin.hooks:
        offers.append("notifier")
    return offers + [f"setting {option.name}" for option in plugin.options]


def _details(plugin: Plugin) -> list[tuple[str, str]]:
    from jobq.settings import shown

    told = [
        ("why", plugin.error),
        *plugin.summaries.items(),
        *(
            (f"setting {option.name}", f"{option.help} ({option.kind}; default {shown(option.default)})")
            for option in plugin.options
        ),
        ("hooks", ", ".join(plugin.hooks)),
        ("from", plugin.target),
        ("file", plugin.origin),
        *(("note", remark) for remark in plugin.remarks),
        ("imported in", f"{plugin.import_ms:g} ms" if plugin.import_ms else ""),
    ]
    return [(name, text) for name, text in told if text]


def _pins(plugins: Iterable[Plugin]) -> list[str]:
    """What to install to have the same plugins: one line a distribution, jobq too; without those that are blocked."""
    wanted = {plugin.distribution: plugin.version for plugin in plugins if plugin.status != "blocked"}
    wanted["jobq"] = __version__
    return [f"{name}=={version}" for name, version in sorted(wanted.items()) if name and version]


def _record(plugin: Plugin) -> dict[str, Any]:
    return {
        "name": plugin.name,
        "distribution": plugin.distribution,
        "version": plugin.version,
        "status": plugin.status,
        "error": plugin.error or None,
        "import_ms": plugin.import_ms,
        "offers": _offers_of(plugin),
    }
