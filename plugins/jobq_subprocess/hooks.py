"""What the plugin hands over. Apart from the package itself, which the children import and which so brings nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobq.hooks import hookimpl
from jobq.providers import Provider

if TYPE_CHECKING:
    from collections.abc import Iterable

    from jobq.executor import Executor
    from jobq.providers import Context
    from jobq.settings import Settings


@hookimpl
def jobq_executors() -> Iterable[Provider[Executor]]:
    """The executor `subprocess`."""
    return [Provider(name="subprocess", summary="processes of this machine; handlers in warm ones", make=_make)]


def _make(settings: Settings, context: Context) -> Executor:
    from jobq_subprocess.executor import SubprocessExecutor

    return SubprocessExecutor(settings, context)
