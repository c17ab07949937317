"""Shortens what sphinx-click writes of a command: options that many commands share stand once, examples are code."""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING

import click

from jobq.cli.base import GLOBAL_OPTIONS
from jobq.cli.root import root
from jobq.cli.selection import selection

if TYPE_CHECKING:
    from sphinx.application import Sphinx


@click.command()
@selection
def selections() -> None:
    """Ids, or conditions that are joined by and."""


def __getattr__(name: str) -> click.Command:
    """The core command of this name: `worker_start` is `jobq worker start`, wherever its code is."""
    found: click.Command | None = None if name.startswith("_") else root
    for word in name.split("_"):
        found = found.get_command(click.Context(found), word) if isinstance(found, click.Group) else None
    if found is None:
        raise AttributeError(name)
    return found


GLOBAL = {option.name for option in GLOBAL_OPTIONS()}
SELECTION = {parameter.name for parameter in selections.params}


def examples_as_code(_app: Sphinx, _ctx: click.Context, lines: list[str]) -> None:
    """Write as code what click leaves unwrapped, which sphinx-click makes a line block."""
    written: list[str] = []
    for is_block, block in groupby(lines, lambda line: line.startswith("| ")):
        content = list(block)
        written += [".. code-block:: sh", "", *(f"   {line[2:]}" for line in content), ""] if is_block else content
    lines[:] = written


def own_options(_app: Sphinx, ctx: click.Context, lines: list[str]) -> None:
    """Keep the options that only this command takes, with their values as its help shows them."""
    by_option = {option: parameter for parameter in ctx.command.params for option in parameter.opts}
    selects = ctx.command is not selections and {each.name for each in ctx.command.params} >= SELECTION
    shared = (GLOBAL if ctx.command is not root else set()) | (SELECTION if selects else set())
    written = ["Takes a :ref:`selection <selections>`.", ""] if selects else []
    for block in re.split(r"^(?=\.\. option:: )", "\n".join(lines), flags=re.MULTILINE):
        declared = re.match(r"\.\. option:: ([^,\s]+)[^<\n]*(<.*>)?", block)
        if declared is None or by_option[declared[1]].name in shared:
            continue
        value = by_option[declared[1]].make_metavar(ctx)
        shown = block.replace(declared[2], value, 1) if declared[2] else block
        written += [line for line in shown.splitlines() if not line.startswith("    :options: ")]
    lines[:] = written


def no_arguments(_app: Sphinx, _ctx: click.Context, lines: list[str]) -> None:
    """Leave arguments to the line of usage, which names them, and to the text."""
    lines.clear()


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to sphinx-click."""
    app.setup_extension("sphinx_click")
    app.connect("sphinx-click-process-description", examples_as_code)
    app.connect("sphinx-click-process-options", own_options)
    app.connect("sphinx-click-process-arguments", no_arguments)
    return {"parallel_read_safe": True}
