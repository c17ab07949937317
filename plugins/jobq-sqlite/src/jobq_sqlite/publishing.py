"""A database is made under another name, and put in force by a rename: nobody ever sees one that is not whole."""

from __future__ import annotations

import os

from jobq.errors import StoreUnavailable
from jobq.files import open_private, sync, sync_directory
from jobq.light import suppress
from jobq_sqlite import schema
from jobq_sqlite.connecting import open_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from jobq_sqlite.place import Place


def publish(place: Place, fill: Callable[[str], None] | None = None) -> None:
    """With the writers' turn: put a new database in the place of any other; `fill` is given its path before.

    Raises:
        StoreError, OSError, sqlite3.Error: the system refused; what was there stands.
    """
    _sweep(place)
    temporary = f"{_unpublished(place)}{os.urandom(8).hex()}"
    try:
        _make(place, temporary)
        if fill is not None:
            fill(temporary)
        if os.path.lexists(f"{temporary}-wal"):  # SQLite closes without a word where it could not bring it over
            raise StoreUnavailable(f"{place.path} cannot be made: what was written did not all reach the file")
        descriptor = open_private(temporary, os.O_RDWR)
        try:
            sync(descriptor)
        finally:
            os.close(descriptor)
        os.rename(temporary, place.path)
    except BaseException:
        _sweep(place)
        raise
    sync_directory(place.directory)


def _make(place: Place, path: str) -> None:
    os.close(open_private(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))
    connection = open_file(path)
    try:
        schema.create(connection, {} if place.inside else {"home": place.home})
    finally:
        connection.close()


def _unpublished(place: Place) -> str:
    """How the path of a database begins that is not in force."""
    return os.path.join(place.directory, f".{os.path.basename(place.path)}.new.")


def _sweep(place: Place) -> None:
    """Remove what there is of databases that never came into force; whoever makes one has the writers' turn."""
    beginning = os.path.basename(_unpublished(place))
    for name in os.listdir(place.directory):
        if name.startswith(beginning):
            with suppress(OSError):
                os.unlink(os.path.join(place.directory, name))
