"""Directives for tables that the code has: `jobq-settings` and `jobq-exit-codes`."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from sphinx.util.docutils import SphinxDirective

from jobq import errors
from jobq.options import KERNEL_OPTIONS
from jobq.plugins import Plugins
from jobq.settings import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from docutils import nodes
    from sphinx.application import Sphinx

    from jobq.providers import Option

UNITS = {"duration": "duration, in seconds where no unit is given", "size": "size, in bytes where no unit is given"}


def setting(option: Option) -> Iterator[str]:
    """What is to be known of a setting, in reStructuredText."""
    yield f".. confval:: {option.name}"
    yield f"   :type: {UNITS.get(option.kind, option.kind)}"
    yield f"   :default: {f'`{shown(option.default)}`' if option.default != () else 'an empty list'}"
    yield ""
    yield f"   {option.help}"
    facts = []
    if option.live:
        facts.append("Live: running workers take a new value.")
    if option.least is not None:
        facts.append(f"At least {option.least:.15g}.")
    if option.most is not None:
        facts.append(f"At most {option.most:.15g}.")
    if option.choices:
        facts.append(f"One of {', '.join(f'`{choice}`' for choice in option.choices)}.")
    if option.aliases:
        facts.append(f"Also {', '.join(f'`{alias}`' for alias in option.aliases)}.")
    if option.activates:
        facts.append("Its plugin does nothing while it is unset.")
    variable = "JOBQ_" + option.name.upper().replace("-", "_").replace(".", "_")
    yield ""
    yield f"   {' '.join([*facts, f'In the environment: `{variable}`.'])}"
    yield ""


class Settings(SphinxDirective):
    """The settings of the kernel, or with an argument those of the bundled plugin of that name."""

    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Write one `confval` each.

        Raises:
            ValueError: the plugin is not there or has no settings.
        """
        if not self.arguments:
            return self.parse_text_to_nodes("\n".join(line for each in KERNEL_OPTIONS for line in setting(each)))
        ours = [plugin for plugin in Plugins().all if plugin.distribution == "jobq"]
        options = [option for plugin in ours if plugin.name == self.arguments[0] for option in plugin.options]
        if not options:
            raise ValueError(f"no bundled plugin {self.arguments[0]} with settings")
        return self.parse_text_to_nodes("\n".join(line for each in options for line in setting(each)))


class ExitCodes(SphinxDirective):
    """The exit codes of jobq's errors, each with the classes that have it."""

    def run(self) -> list[nodes.Node]:
        """Write a table, the lowest code first."""
        found = [each for each in vars(errors).values() if inspect.isclass(each)]
        classes = [each for each in found if issubclass(each, errors.JobqError) and each is not errors.JobqError]
        lines = [".. list-table::", "   :header-rows: 1", "   :widths: 10 50 40", ""]
        lines += ["   * - code", "     - when", "     - in Python"]
        for code in sorted({each.exit_code for each in classes}):
            having = [each for each in classes if each.exit_code == code]
            when = (inspect.getdoc(having[0]) or "").partition("\n")[0]
            names = ", ".join(f":py:exc:`~jobq.errors.{each.__name__}`" for each in having)
            lines += [f"   * - {code}", f"     - {when}", f"     - {names}"]
        return self.parse_text_to_nodes("\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the directives."""
    app.add_directive("jobq-settings", Settings)
    app.add_directive("jobq-exit-codes", ExitCodes)
    return {"parallel_read_safe": True}
