"""Records: classes that are made of their fields, as `dataclasses` makes them, without its price.

Importing `dataclasses` costs more than Python's own start, and making a class with it as much as importing a module.
What an enqueue needs is made here instead: `record` and `field` do what `dataclass` and `field` do there, as far as
jobq needs it, and to a type checker they are those. What `dataclasses` does with its own it does with a record too:
`replace`, `fields`, `asdict`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["REQUIRED", "defaults_of", "field", "made_defaults_of", "record"]

_FEW = 200
"""So many records of a class are made before it gets a faster `__init__`, for which `dataclasses` is imported."""

REQUIRED = object()
"""Stands for the default of a field that has none."""


class _Factory:
    """A default that is made anew for each record."""

    __slots__ = ("default_factory",)

    def __init__(self, default_factory: Callable[[], Any]) -> None:
        self.default_factory = default_factory


def _field(*, default_factory: Callable[[], Any]) -> _Factory:
    """The default of a field whose value is made by a call."""
    return _Factory(default_factory)


def _record(*, frozen: bool = False, slots: bool = False, kw_only: bool = False) -> Callable[[type], type]:
    """Make a class a record: its annotated names are its fields, what they are given there their defaults.

    It has no fields but its own: none of a record that it is derived from.
    """
    return lambda cls: _made(cls, frozen=frozen, slots=slots, kw_only=kw_only)


if TYPE_CHECKING:
    from dataclasses import dataclass as record
    from dataclasses import field
else:
    record, field = _record, _field


def defaults_of(cls: Any) -> dict[str, Any]:
    """What each field of a record is where it is not given, by name, in their order."""
    return {name: cls.__defaults__.get(name, REQUIRED) for name in cls.__fields__} | made_defaults_of(cls)


def made_defaults_of(cls: Any) -> dict[str, Any]:
    """Those of the defaults that are made anew for each record, made now."""
    return {
        name: default.default_factory() for name, default in cls.__defaults__.items() if isinstance(default, _Factory)
    }


class _AsDataclass:
    """What `dataclasses` and `inspect` look for on a class of the former's making, made when they do."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type) -> Any:
        cls: Any = next(each for each in owner.__mro__ if "__fields__" in each.__dict__)
        if self._name == "__signature__":
            return _signature(cls, owner)
        found = getattr(_dataclass_of(cls), self._name)
        setattr(cls, self._name, found)
        return found


def _signature(cls: Any, owner: Any) -> object:
    if owner.__init__ is not cls.__init__:
        raise AttributeError("__signature__")
    import inspect

    return inspect.signature(_dataclass_of(cls))


def _dataclass_of(cls: Any) -> Any:
    """A dataclass of the same fields."""
    import dataclasses

    def field(name: str) -> Any:
        default = cls.__defaults__.get(name, dataclasses.MISSING)
        if isinstance(default, _Factory):
            return dataclasses.field(default_factory=default.default_factory)
        return dataclasses.field(default=default)

    fields = [(name, kind, field(name)) for name, kind in cls.__annotations__.items()]
    return dataclasses.make_dataclass(cls.__name__, fields, **cls.__options__)


_FIELDS, _PARAMS, _SIGNATURE = map(_AsDataclass, ("__dataclass_fields__", "__dataclass_params__", "__signature__"))


def _made(cls: Any, *, frozen: bool, slots: bool, kw_only: bool) -> Any:
    names = tuple(cls.__annotations__)
    own = cls.__dict__
    defaults = {name: own[name] for name in names if name in own}
    added: dict[str, Any] = {
        "__fields__": names,
        "__defaults__": defaults,
        "__options__": {"frozen": frozen, "kw_only": kw_only},
        "__match_args__": () if kw_only else names,
        "__repr__": _repr,
        "__eq__": _eq,
        "__replace__": _replaced,
        "__hash__": _hash if frozen else None,
        "__dataclass_fields__": _FIELDS,
        "__dataclass_params__": _PARAMS,
        "__signature__": _SIGNATURE,
    }
    if frozen:
        added |= {"__setattr__": _refuse_set, "__delattr__": _refuse_delete}
    if slots:
        added |= {"__slots__": names, "__getstate__": _values, "__setstate__": _restore}
        kept = {name: own[name] for name in own if name not in defaults and name not in ("__dict__", "__weakref__")}
        cls = type(cls)(cls.__name__, cls.__bases__, added | kept | {"__qualname__": cls.__qualname__})
    else:
        for name, value in added.items():
            if name not in own:
                setattr(cls, name, value)
        for name, default in defaults.items():
            if isinstance(default, _Factory):
                delattr(cls, name)
    few = iter(range(_FEW))

    def first(self: Any, *args: Any, **kwargs: Any) -> None:
        """Make the first few records; then, or to say what is wrong with a call, the `__init__` of a dataclass."""
        if next(few, None) is None or (args and kw_only) or not _fill(self, args, kwargs):
            cls.__init__ = _dataclass_of(cls).__init__
            cls.__init__(self, *args, **kwargs)

    cls.__init__ = first
    return cls


def _fill(record: Any, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
    """Give a record its values; False where the call is not one of it."""
    names, defaults = record.__fields__, record.__defaults__
    values = dict(zip(names, args, strict=False))
    if len(args) > len(names) or not values.keys().isdisjoint(given):
        return False
    values.update(given)
    known = 0
    for name in names:
        if name in values:
            value = values[name]
            known += 1
        elif name in defaults:
            value = defaults[name]
            if isinstance(value, _Factory):
                value = value.default_factory()
        else:
            return False
        object.__setattr__(record, name, value)
    return known == len(values)


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, name) for name in record.__fields__)


def _restore(record: Any, values: tuple[Any, ...]) -> None:
    for name, value in zip(record.__fields__, values, strict=True):
        object.__setattr__(record, name, value)


def _repr(record: Any) -> str:
    shown = ", ".join(f"{name}={getattr(record, name)!r}" for name in record.__fields__)
    return f"{type(record).__qualname__}({shown})"


def _replaced(record: Any, /, **changes: Any) -> Any:
    """What `copy.replace` makes of it."""
    return type(record)(**{name: getattr(record, name) for name in record.__fields__} | changes)


def _eq(record: Any, other: object) -> bool:
    return _values(record) == _values(other) if type(other) is type(record) else NotImplemented


def _hash(record: Any) -> int:
    return hash(_values(record))


def _refuse_set(record: Any, name: str, value: object) -> None:
    from dataclasses import FrozenInstanceError

    del record, value
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(record: Any, name: str) -> None:
    from dataclasses import FrozenInstanceError

    del record
    raise FrozenInstanceError(f"cannot delete field {name!r}")
