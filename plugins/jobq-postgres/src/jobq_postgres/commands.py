"""`jobq postgres`: make the schema, print it, and print what a role needs."""

from __future__ import annotations

import click

from jobq.cli.base import Globals, Group, with_globals
from jobq.errors import InvalidInput
from jobq_postgres.address import Address, parse


@click.group("postgres", cls=Group, short_help="Make the schema of a PostgreSQL store.")
def postgres_command() -> None:
    """Make the schema that `--store postgresql://…` uses, print it, and print what a role needs."""


@postgres_command.command("migrate", short_help="Make the schema, or bring it up to date.")
@with_globals
def migrate(state: Globals) -> None:
    """Make the schema of the store, or bring it up to date, and say which steps were taken.

    Each step is one transaction; whoever migrates at the same time waits. Workers of earlier versions work on unless
    a release says otherwise.
    """
    from jobq_postgres import schema
    from jobq_postgres.connecting import Line

    address = _address(state)
    line = Line(address, name="jobq postgres migrate", silence=30)
    try:
        with line.use() as connection:
            done = schema.migrate(connection, address)
    finally:
        line.close()
    click.echo(f"{address.schema}: " + (f"version {done[-1]}" if done else f"is at version {schema.newest()} already"))


@postgres_command.command("schema", short_help="Print the schema as SQL.")
@click.option("--above", type=click.IntRange(min=0), default=0, metavar="N", help="Only the steps above version N.")
@with_globals
def schema(state: Globals, above: int) -> None:
    """Print all that `migrate` does as SQL for psql; for who applies it by other means."""
    from jobq_postgres.schema import script

    click.echo(script(_address(state), above), nl=False)


@postgres_command.command("role", short_help="Print what a role needs, as SQL.")
@click.argument("name")
@with_globals
def role(state: Globals, name: str) -> None:
    """Print the SQL that lets the role NAME enqueue and work, and do nothing else.

    It is to be run by the owner of the schema, after `migrate`, and again after a later one.
    """
    from jobq_postgres.roles import script

    click.echo(script(_address(state), name), nl=False)


def _address(state: Globals) -> Address:
    scheme, _, url = state.app.settings["store"].partition(":")
    if scheme not in ("postgresql", "postgres"):
        raise InvalidInput("store", f"{scheme}:", "is no PostgreSQL store; say --store postgresql://…")
    return parse(url)
