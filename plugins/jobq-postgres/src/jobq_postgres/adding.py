"""New jobs: a few by one statement in one round trip, many by COPY; all of them or none."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import errors
from psycopg.rows import tuple_row

from jobq.errors import HIDDEN, DuplicateJob, InvalidInput, StoreMoved
from jobq_postgres import reading
from jobq_postgres.rows import COPIED, copied, documents
from jobq_postgres.trouble import FORBIDDEN, TAKEN, told

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from jobq.job import Job
    from jobq.store import NewJob
    from jobq_postgres.address import Address
    from jobq_postgres.connecting import Line
    from jobq_postgres.transactions import Transactions

    Connection = psycopg.Connection[Any]

FEW = 50
"""Jobs up to which one statement is as quick as COPY."""

_ADD = "SELECT @schema@.add_jobs(%s::json, %s::json)"
_COPY = f"COPY @schema@.jobs (era, {COPIED}) FROM STDIN"
_DATABASE = "SELECT oid, pg_postmaster_start_time()::text FROM pg_database WHERE datname = current_database()"
_SEES_ALL = "SELECT current_setting('transaction_isolation') IN ('read committed', 'read uncommitted')"
_ARCHIVED = "SELECT id FROM @schema@.archive WHERE id = ANY (%s)"
_NOTICE = "SELECT state, url FROM @schema@.notice"


def add(transactions: Transactions, new: Sequence[NewJob]) -> None:
    """Store jobs in a transaction of their own.

    Raises:
        DuplicateJob: naming every id that is taken or comes twice.
        StoreMoved: a notice forbids it.
    """
    address = transactions.address
    with transactions.line.use() as connection:
        _refuse_repeated(connection, address, new)
        if len(new) > FEW:
            _copy(transactions, connection, new)
            return
        with _refusals():
            transactions.run(connection, [*transactions.beginning, _added(new), *transactions.ending(rings=True)])


class Within:
    """Stores jobs in transactions of the application.

    A pooler may have no connection to the server left for the store before such a transaction is over: the store's own
    is used for no more than what cannot be asked there.

    Args:
        line: the store's connection.
    """

    def __init__(self, line: Line, address: Address) -> None:
        self._line, self._address = line, address
        self._database: list[Any] = []

    def add(self, theirs: Connection, new: Sequence[NewJob]) -> None:
        """Store jobs in the transaction that is under way on a connection of the application.

        Raises:
            DuplicateJob, StoreMoved: as `add`; the transaction can go on.
            InvalidInput: there is no transaction, or it is one of another database.
            StoreError: either connection was lost, or the server refused.
        """
        if theirs.autocommit and theirs.info.transaction_status == 0:
            raise InvalidInput("connection", HIDDEN, "is in no transaction: use `with connection.transaction():`")
        if _repeated(new):
            with self._line.use() as own:
                _refuse_repeated(own, self._address, new)
        try:
            # It also begins the transaction where it has not begun: what follows is to be a savepoint in it, not all of it
            if not self._is_ours(_asked(theirs, _DATABASE)):
                raise InvalidInput("connection", HIDDEN, "is to another database than the store's")
            with theirs.transaction():
                with _refusals():
                    statement, values = _added(new)
                    theirs.execute(self._address.sql(statement), values)
                if _asked(theirs, _SEES_ALL) == [(True,)]:
                    self._refuse_taken(theirs, new)
                else:
                    with self._line.use() as own:
                        self._refuse_taken(own, new)
                theirs.execute("SELECT pg_notify(%s, '')", [self._address.channel])
        except psycopg.Error as error:
            raise told(error, self._address) from None

    def _is_ours(self, database: list[Any]) -> bool:
        if database != self._database:  # asked anew where the server has started again
            with self._line.use() as own:
                self._database = _asked(own, _DATABASE)
        return database == self._database

    def _refuse_taken(self, connection: Connection, new: Sequence[NewJob]) -> None:
        """Look at what others have committed."""
        chosen = [item.job.id for item in new if not item.generated]
        taken = [row[0] for row in _asked(connection, self._address.sql(_ARCHIVED), chosen)] if chosen else []
        if taken:
            raise DuplicateJob(taken)
        notice = _asked(connection, self._address.sql(_NOTICE))
        if notice:
            raise StoreMoved(*notice[0])


def _asked(connection: Connection, statement: str, *values: Any) -> list[Any]:
    """The rows, whatever the connection makes of rows by default."""
    with connection.cursor(row_factory=tuple_row) as cursor:
        return cursor.execute(statement, values or None).fetchall()


def _added(new: Sequence[NewJob]) -> tuple[str, list[str]]:
    jobs, chosen = [item.job for item in new], [not item.generated for item in new]
    return _ADD, documents(jobs, chosen=chosen)


def _copy(transactions: Transactions, connection: Connection, new: Sequence[NewJob]) -> None:
    address = transactions.address
    chosen = [item.job.id for item in new if not item.generated]
    try:
        with connection.pipeline():
            transactions.begin(connection)
            notice = connection.execute(address.sql("SELECT * FROM @schema@.enter()"))
            opened = connection.execute(address.sql("SELECT @schema@.open_era()"))
        found = notice.fetchone()
        if found is not None and found[0] is not None:
            connection.execute("ROLLBACK")
            raise StoreMoved(*found)
        (era,) = opened.fetchone() or (0,)
        with connection.cursor() as cursor, cursor.copy(address.sql(_COPY).encode()) as copy:
            for item in new:
                copy.write_row((era, *copied(item.job)))
        if chosen:
            taken = connection.execute(address.sql(_ARCHIVED), [chosen]).fetchall()
            if taken:
                connection.execute("ROLLBACK")
                raise DuplicateJob(_in_order(new, {row[0] for row in taken} | _taken(connection, address, chosen)))
        with connection.pipeline():
            transactions.commit(connection, rings=True)
    except errors.UniqueViolation:
        connection.execute("ROLLBACK")
        taken_ids = _taken(connection, address, [item.job.id for item in new])
        raise DuplicateJob(_in_order(new, taken_ids)) from None


def _refuse_repeated(connection: Connection, address: Address, new: Sequence[NewJob]) -> None:
    if repeated := _repeated(new):
        raise DuplicateJob(_in_order(new, repeated | _taken(connection, address, [item.job.id for item in new])))


def _repeated(new: Sequence[NewJob]) -> set[str]:
    ids = [item.job.id for item in new]
    return {job_id for job_id, times in Counter(ids).items() if times > 1} if len(set(ids)) < len(ids) else set()


def _taken(connection: Connection, address: Address, ids: Iterable[str]) -> set[str]:
    return reading.jobs(connection, address, ids).keys() | set()


def _in_order(new: Sequence[NewJob], ids: set[str]) -> list[str]:
    return list(dict.fromkeys(item.job.id for item in new if item.job.id in ids))


@contextmanager
def _refusals() -> Iterator[None]:
    """What the function of the schema raises, as jobq's errors."""
    try:
        yield
    except psycopg.Error as error:
        said = error.diag.message_primary or ""
        if error.sqlstate == FORBIDDEN:
            raise StoreMoved(*said.split(" ", 1)) from None
        if error.sqlstate == TAKEN:
            raise DuplicateJob(said.split()) from None
        raise


def is_stored(stored: dict[str, Job], new: Sequence[NewJob]) -> bool:
    """Whether what is stored under the ids of these jobs are these very ones, as they were added."""
    return all(
        there is not None and (there.created_at, there.what, there.payload) == (job.created_at, job.what, job.payload)
        for job, there in ((item.job, stored.get(item.job.id)) for item in new)
    )
