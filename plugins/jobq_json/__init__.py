"""The bundled plugin `json`: the default store, JSON files in one directory that many processes share."""

from __future__ import annotations

from jobq.hooks import hookimpl
from jobq.providers import Provider

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.providers import Context
    from jobq.settings import Settings
    from jobq.store import Store


@hookimpl
def jobq_stores() -> Iterable[Provider[Store]]:
    """The store `json`: HOME/queue, or the directory its URL names, relative to the home."""
    return [Provider(name="json", summary="JSON files in one directory; no server, one machine", make=_make)]


def _make(settings: Settings, context: Context) -> Store:
    from jobq_json.store import JsonStore

    return JsonStore(settings, context)
