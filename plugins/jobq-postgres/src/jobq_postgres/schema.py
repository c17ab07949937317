"""The schema in the database: made, brought up to date, and found to be what this version can use."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING, Any

from psycopg import errors

from jobq.errors import NewerFormat, StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from jobq_postgres.address import Address

OLDEST = 1
"""The oldest version of this plugin's schema whose programs work on with the one that is made now."""

_LOCK = 1
_VERSIONS = """
CREATE SCHEMA IF NOT EXISTS @schema@;
CREATE TABLE IF NOT EXISTS @schema@.versions (
    version    integer PRIMARY KEY,
    oldest     integer NOT NULL,  -- programs that know less than this must not use it
    applied_at timestamptz NOT NULL DEFAULT now()
);
"""


def steps() -> list[tuple[int, str]]:
    """The steps that make the schema, by number."""
    folder = files("jobq_postgres.migrations")
    named = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [(int(name.partition("_")[0]), folder.joinpath(name).read_text(encoding="utf-8")) for name in named]


def newest() -> int:
    """The version that this program makes and knows."""
    return steps()[-1][0]


def script(address: Address, above: int = 0) -> str:
    """All that brings a schema from a version to the newest, as SQL that psql runs."""
    parts = [address.sql(_VERSIONS).strip()]
    parts += [
        f"BEGIN;\n{address.sql(text).strip()}\n\n{_noted(address, version)};\nCOMMIT;"
        for version, text in steps()
        if version > above
    ]
    return "\n\n".join(parts) + "\n"


def ensure(connection: psycopg.Connection[Any], address: Address) -> None:
    """Find the schema usable; where there is none at all, make it.

    Raises:
        NewerFormat: it was made by a newer version, and is not for this one.
        StoreUnavailable: it is older than what this version needs, or cannot be made by this role.
    """
    version, oldest = found(connection, address)
    if version == 0:
        try:
            with connection.transaction():  # all of it or nothing: nobody sees a part
                migrate(connection, address)
        except (errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction) as error:
            said = error.diag.message_primary
            raise StoreUnavailable(
                f"{address.url} has no schema {address.schema} yet, and it cannot be made here ({said}); "
                "run `jobq --store URL postgres migrate` as a role that may create one"
            ) from None
        return
    if oldest > newest():
        raise NewerFormat(
            f"the schema {address.schema} of {address.url} was made by a newer jobq-postgres "
            f"(version {version}, this one knows {newest()}); use that one"
        )
    if version < newest():
        raise StoreUnavailable(
            f"the schema {address.schema} of {address.url} has version {version}, and this jobq-postgres needs "
            f"{newest()}; run `jobq --store URL postgres migrate`"
        )


def found(connection: psycopg.Connection[Any], address: Address) -> tuple[int, int]:
    """The version of the schema that is there, and the oldest that may use it; 0 and 0 where there is none."""
    (there,) = connection.execute("SELECT to_regclass(%s)", [f"{address.name}.versions"]).fetchone() or (None,)
    if there is None:
        return 0, 0
    row = connection.execute(
        address.sql("SELECT coalesce(max(version), 0), coalesce(max(oldest), 0) FROM @schema@.versions")
    ).fetchone()
    return row or (0, 0)


def migrate(connection: psycopg.Connection[Any], address: Address) -> list[int]:
    """Apply the steps that are missing, one transaction each; their numbers. Several may try at once."""
    return list(_migrate(connection, address))


def _migrate(connection: psycopg.Connection[Any], address: Address) -> Iterator[int]:
    for version, text in steps():
        with connection.transaction():
            connection.execute("SELECT pg_advisory_xact_lock(%s, %s)", [address.space, _LOCK])
            if found(connection, address)[0] >= version:
                continue
            if version == steps()[0][0]:
                connection.execute(address.sql(_VERSIONS).encode())
            connection.execute(address.sql(text).encode())
            connection.execute(_noted(address, version).encode())
        yield version


def _noted(address: Address, version: int) -> str:
    return address.sql(f"INSERT INTO @schema@.versions (version, oldest) VALUES ({version:d}, {OLDEST:d})")  # noqa: S608
