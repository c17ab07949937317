"""Jobs by their ids, wherever they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobq_postgres.rows import LIVE, archived, live

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from jobq.job import Job
    from jobq_postgres.address import Address

_LIVE = f"SELECT {LIVE} FROM @schema@.jobs WHERE id = ANY (%s) ORDER BY id"  # noqa: S608 - of constants alone
_ARCHIVED = "SELECT id, record::text FROM @schema@.archive WHERE id = ANY (%s)"


def jobs(connection: psycopg.Connection[Any], address: Address, ids: Iterable[str]) -> dict[str, Job]:
    """Those jobs of these ids that there are, by id."""
    return _found(connection, address, list(ids), "")


def locked(connection: psycopg.Connection[Any], address: Address, ids: Iterable[str]) -> dict[str, Job]:
    """As `jobs`, and nobody else changes them before this transaction ends."""
    return _found(connection, address, sorted(ids), " FOR UPDATE")


def _found(connection: psycopg.Connection[Any], address: Address, ids: list[str], lock: str) -> dict[str, Job]:
    """One that moves between the two looks is looked for again: first where jobs end, it cannot be missed both times."""
    sql = address.sql
    found = {row[0]: live(row) for row in connection.execute(sql(_LIVE + lock), [ids], binary=True)}
    missing = [job_id for job_id in ids if job_id not in found]
    if missing:
        rows = connection.execute(sql(_ARCHIVED + lock), [missing])
        found |= {job_id: archived(text) for job_id, text in rows}
    missing = [job_id for job_id in missing if job_id not in found]
    if missing:  # retried between the two looks
        found |= {row[0]: live(row) for row in connection.execute(sql(_LIVE + lock), [missing], binary=True)}
    return found
