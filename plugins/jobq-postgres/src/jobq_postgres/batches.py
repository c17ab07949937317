"""Several statements as one message: one round trip, and less to do for each than a pipeline takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psycopg

from jobq.job import EPOCH
from jobq.light import timedelta

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    Statement = tuple[str, Sequence[Any]]


def run(connection: psycopg.Connection[Any], statements: Iterable[Statement]) -> list[list[tuple[Any, ...]]]:
    """Execute statements, each with its values, in their order; the rows of each.

    What fails ends all of it. Values are written into the text by libpq's own rules, and instants come as text or as
    numbers, as the statement says.
    """
    with psycopg.ClientCursor(connection) as cursor:
        texts = [cursor.mogrify(text, values) if values else text for text, values in statements]
        cursor.execute("; ".join(texts).encode())
        rows = []
        while True:
            rows.append(cursor.fetchall() if cursor.description else [])
            if not cursor.nextset():
                return rows


def milliseconds(column: str) -> str:
    """SQL for an instant as a number that `moment` reads."""
    return f"(extract(epoch FROM {column}) * 1000)::bigint"


def moment(number: int | str | None) -> datetime | None:
    """An instant from what such SQL answers."""
    return None if number is None else EPOCH + timedelta(milliseconds=int(number))
