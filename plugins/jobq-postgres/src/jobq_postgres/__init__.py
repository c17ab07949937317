"""The plugin `postgres`: a store in a PostgreSQL database, for the workers of many machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq import Provider, hookimpl
from jobq_postgres.options import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Iterable

    import click

    from jobq.providers import Context, Option
    from jobq.settings import Settings
    from jobq.store import Store

__version__ = "0.1.0"


@hookimpl
def jobq_stores() -> Iterable[Provider[Store]]:
    """The store `postgresql`, also called `postgres`: its address is a libpq URL."""
    summary = "a PostgreSQL database; many machines"
    return [Provider(name=name, summary=summary, make=_make) for name in ("postgresql", "postgres")]


@hookimpl
def jobq_options() -> Iterable[Option]:
    """The settings `postgresql.…`."""
    return OPTIONS


@hookimpl
def jobq_commands() -> Iterable[click.Command]:
    """The commands `jobq postgres migrate`, `schema` and `role`."""
    from jobq_postgres.commands import postgres_command

    return [postgres_command]


def _make(settings: Settings, context: Context) -> Store:
    from jobq_postgres.store import PostgresStore

    return PostgresStore(settings, context)
