"""The plugin `sqlite`: a store in one SQLite database, which many processes of one machine share."""

from __future__ import annotations

from jobq.hooks import hookimpl
from jobq.providers import Provider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Store

__version__ = "0.1.0"


@hookimpl
def jobq_stores() -> Iterable[Provider[Store]]:
    """The store `sqlite`: HOME/queue.sqlite3, or the file its URL names, relative to the home."""
    return [Provider(name="sqlite", summary="one SQLite database; no server, one machine", make=_make)]


def _make(settings: Settings, context: Context) -> Store:
    from jobq_sqlite.store import open_store

    return open_store(settings, context)
