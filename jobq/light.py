"""What an enqueue needs of `contextlib`, `datetime`, `enum` and `functools`, without what importing those costs: half of
Python's own start.

Each does here what it does there, as far as jobq needs it; to a type checker they are those. Those of `datetime` are the
very same: up to Python 3.11 that module brings them in C, and all of it in Python besides.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import contextmanager, suppress
    from datetime import UTC, datetime, timedelta
    from enum import StrEnum
    from functools import cached_property
    from types import TracebackType
    from typing import Any

__all__ = ["UTC", "StrEnum", "cached_property", "contextmanager", "datetime", "suppress", "timedelta"]


class _CachedProperty:
    """A property that is made when it is first asked for, and stays."""

    def __init__(self, make: Callable[[Any], Any]) -> None:
        self._make, self._name, self.__doc__ = make, make.__name__, make.__doc__

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        made = instance.__dict__[self._name] = self._make(instance)
        return made


class _Suppress:
    """A context in which these errors end what is done, and nothing more."""

    def __init__(self, *kinds: type[BaseException]) -> None:
        self._kinds = kinds

    def __enter__(self) -> None:
        return

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        return kind is not None and issubclass(kind, self._kinds)


class _Generated:
    """The context that a generator makes: until its `yield`, and from there on."""

    def __init__(self, generator: Any) -> None:
        self._generator = generator

    def __enter__(self) -> Any:
        try:
            return next(self._generator)
        except StopIteration:
            raise RuntimeError("the generator of a context yields nothing") from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        try:
            if error is None:
                next(self._generator)
            else:
                self._generator.throw(error)
        except StopIteration as end:
            return error is not None and end is not error
        except BaseException as raised:
            # A StopIteration that is thrown in comes out as the cause of a RuntimeError (PEP 479)
            if raised is not error and not (isinstance(error, StopIteration) and raised.__cause__ is error):
                raise
            error.__traceback__ = trace
            return False
        raise RuntimeError("the generator of a context goes on behind its end")


def _context_manager(make: Callable[..., Iterator[Any]]) -> Callable[..., _Generated]:
    """Make a context of a generator function."""

    def made(*args: Any, **kwargs: Any) -> _Generated:
        return _Generated(make(*args, **kwargs))

    made.__name__, made.__qualname__, made.__doc__ = make.__name__, make.__qualname__, make.__doc__
    made.__module__ = make.__module__
    made.__wrapped__ = make  # type: ignore[attr-defined]
    return made


class _Members(type):
    """The class of an enumeration: what stands in its body as text becomes its members."""

    _members: dict[str, Any]

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        texts = {key: value for key, value in body.items() if isinstance(value, str) and not key.startswith("_")}
        made: Any = super().__new__(cls, name, bases, {key: value for key, value in body.items() if key not in texts})
        members: dict[str, Any] = {}
        for key, text in texts.items():
            member: Any = str.__new__(made, text)
            member.__dict__.update(_name_=key, _value_=text, name=key, value=text)
            members[key] = member
            type.__setattr__(made, key, member)
        type.__setattr__(made, "_members", members)
        return made

    def __setattr__(cls, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to {cls.__name__}.{name}: what it consists of is fixed")

    def __call__(cls, value: object) -> Any:
        for member in cls._members.values():
            if member == value:
                return member
        raise ValueError(f"{value!r} is not a valid {cls.__qualname__}")

    def __iter__(cls) -> Iterator[Any]:
        return iter(cls._members.values())

    def __reversed__(cls) -> Iterator[Any]:
        return reversed(cls._members.values())

    def __len__(cls) -> int:
        return len(cls._members)

    def __contains__(cls, value: object) -> bool:
        return any(member == value for member in cls)

    def __getitem__(cls, name: str) -> Any:
        return cls._members[name]

    @property
    def __members__(cls) -> dict[str, Any]:
        return dict(cls._members)


class _StrEnum(str, metaclass=_Members):  # noqa: SLOT000 - each has a name
    """An enumeration whose members are texts."""

    name: str
    value: str

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to {name} of {self!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.value,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: object) -> Any:
        return self


if not TYPE_CHECKING:
    try:
        from _datetime import datetime, timedelta, timezone
    except ImportError:  # another Python
        from datetime import datetime, timedelta, timezone

    UTC = timezone.utc  # noqa: UP017 - that is what the alias is of
    cached_property, contextmanager, suppress, StrEnum = _CachedProperty, _context_manager, _Suppress, _StrEnum
