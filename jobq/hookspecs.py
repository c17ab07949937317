"""The hooks of jobq, version 1: what a plugin may implement, each with `@jobq.hookimpl`.

A plugin is a module (or object) that an installed distribution names under the entry-point group `jobq`:

    [project.entry-points.jobq]
    example = "jobq_example"

It implements any of the hooks below, and nothing has to be inherited or registered elsewhere. The hooks that hand
something over are called once per process; what they return is chosen by name in the settings. A plugin that raises
is reported by name and left out; the others go on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pluggy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    import click

    from jobq.backoff import Backoff
    from jobq.events import Event
    from jobq.executor import Executor
    from jobq.job import Job
    from jobq.providers import Option, Provider
    from jobq.settings import Settings
    from jobq.store import Store
    from jobq.wrapping import AttemptWrapper

hookspec = pluggy.HookspecMarker("jobq")


@hookspec
def jobq_stores() -> Iterable[Provider[Store]]:  # type: ignore[empty-body]
    """Stores that this plugin can make; `--store NAME:…` and the setting `store` choose one by its name."""


@hookspec
def jobq_executors() -> Iterable[Provider[Executor]]:  # type: ignore[empty-body]
    """Executors that this plugin can make; the setting `executor` chooses one by its name."""


@hookspec
def jobq_backoffs() -> Iterable[Provider[Backoff]]:  # type: ignore[empty-body]
    """Backoffs that this plugin can make; the setting `backoff` chooses one by its name."""


@hookspec
def jobq_options() -> Iterable[Option]:  # type: ignore[empty-body]
    """Settings of this plugin, named `TABLE.key` with a table of its own.

    `patience.wait` is `wait` under `[patience]` in config.toml, `JOBQ_PATIENCE_WAIT` in the environment, and
    `settings["patience.wait"]` for the plugin, which looks a `live` one up each time. The settings of a blocked plugin
    stay valid.
    """


@hookspec
def jobq_commands() -> Iterable[click.Command]:  # type: ignore[empty-body]
    """Commands to add to `jobq`. A core command cannot be replaced: a plugin that tries is refused.

    `click.pass_obj` gives a command an object whose `queue` is the `jobq.Queue` of the home and store that stood before
    it on the command line, and whose `note(text)` talks on stderr unless `--quiet`. A `jobq.JobqError` that it raises
    is told in one sentence, and its exit code is used.
    """


@hookspec
def jobq_notify(event: Event, settings: Settings) -> None:
    """Hear of one change after it has become durable.

    Called one event after the other, in the order of the changes that this process made; in a worker, in a thread of
    its own behind a queue of 10,000 events. A command waits at most 2 seconds for notifiers at its end. Delivery is at
    most once: do not build a ledger on it. An implementation that raises is reported and
    called again for the next event; one that takes over 5 seconds is reported and no longer called. A plugin with
    options that `activate` it is told of nothing while none of them has a value. Files of its own belong below
    `settings.home`.
    """


@hookspec
def jobq_meta(new: Job, settings: Settings) -> Mapping[str, Any] | None:
    """What to add to the `meta` of a job that is about to be enqueued; called in the process that enqueues it.

    Each key goes into `meta` as `PLUGIN.KEY`, PLUGIN being the name of the plugin; what the job has under that name
    already stays. Values are JSON, and all of `meta` is at most 4 KiB. It cannot refuse a job: an implementation that
    raises, or answers what does not fit, is reported, and the job goes without. A plugin with options that `activate`
    it is asked for nothing while none of them has a value.
    """


@hookspec
def jobq_wrappers() -> Iterable[Provider[AttemptWrapper]]:  # type: ignore[empty-body]
    """What is to be done around every attempt, in the process that executes it; all that there are, by name.

    They are made once in each process: in a handlers' child when it starts, in a worker before its first command. A
    plugin with options that `activate` it is left out while none of them has a value.
    """
