"""What a server refuses, and what becomes of a connection, as errors of the store."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
from psycopg import errors

from jobq.errors import StoreError, StoreLocked, StoreUnavailable, StoreUnreadable

if TYPE_CHECKING:
    from jobq_postgres.address import Address

FORBIDDEN, TAKEN = "JQ001", "JQ002"
"""What the functions of the schema raise: a notice forbids it, ids are taken."""


class NotConnected(StoreUnavailable):
    """There is no connection, and nothing was sent."""


class NoDay(StoreUnavailable):
    """The archive has no part for this day."""


def told(error: psycopg.Error, address: Address, *, connected: bool = True) -> StoreError:
    """The error of the store that this one of the server or the connection is.

    Args:
        connected: whether there was a connection that could be used.
    """
    said = " ".join((error.diag.message_primary or str(error)).split()) or type(error).__name__
    where = address.url
    if isinstance(error, errors.CheckViolation) and "partition" in said:
        return NoDay(f"{where}: {said}")
    if isinstance(error, (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName)):
        return StoreUnreadable(
            f"{where}: {said}; the schema {address.schema} is not, or no longer, what `jobq postgres migrate` makes"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreUnavailable(f"{where}: {said}; `jobq postgres role NAME` prints what a role needs")
    if isinstance(error, (errors.LockNotAvailable, errors.DeadlockDetected)):
        return StoreLocked(f"{where}: {said}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreUnavailable(f"{where}: the server is read-only now ({said})")
    return (StoreUnavailable if connected else NotConnected)(f"{where}: {said}")
