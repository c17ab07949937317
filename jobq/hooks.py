"""The mark of what implements a hook."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pluggy

MARK = "jobq_hookimpl"
"""The attribute of a marked function that holds what it was marked with."""


def _mark(function: Any = None, **options: Any) -> Any:
    """Mark a function as the implementation of the hook of its name; `options` are those of pluggy's marker.

    pluggy itself is imported when a plugin is looked at: one that is remembered is not.
    """

    def mark(function: Any) -> Any:
        setattr(function, MARK, options)
        return function

    return mark if function is None else mark(function)


if TYPE_CHECKING:
    hookimpl = pluggy.HookimplMarker("jobq")
else:
    hookimpl = _mark


def implementation(loaded: object, hook: str) -> Callable[[], Any] | None:
    """What of a plugin's module or object implements a hook that takes nothing; None where that takes pluggy to tell."""
    function: Any = getattr(loaded, hook, None)
    return function if getattr(function, MARK, None) == {} else None
