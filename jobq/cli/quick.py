"""The two commands that a shell loop runs, `enqueue` and `add`, without click, whose import costs more than they do.

It reads the very table of options that click reads, and takes a command line only where there is nothing to tell
about it: every option written out as it stands there, with a value of its own. Whatever else there may be, help,
mistakes, options run together, is handed over to click, before anything was done.
"""

from __future__ import annotations

import os

from jobq.cli.options import ADD, ENQUEUE, GLOBAL, destination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from jobq.cli.options import Table
    from jobq.cli.state import Globals

_COMPLETE = "_JOBQ_COMPLETE"
"""The variable by which a shell asks click for completions."""

_SLOW = ("wait", "follow", "payload_file", "env_file")
"""What waits for a job, or may read standard input before a mistake is told, is click's."""


class _NotTaken(Exception):
    """Click is to read the command line."""


class _Options:
    """The options of one table or several, and what is said of them."""

    def __init__(self, *tables: Table) -> None:
        self.values: dict[str, Any] = {}
        self._known: dict[str, tuple[str, dict[str, Any]]] = {}
        for table in tables:
            for declarations, attributes in table:
                name = destination(declarations)
                many, flag = attributes.get("multiple"), attributes.get("is_flag")
                self.values[name] = () if many else False if flag else None
                for declaration in declarations:
                    self._known[declaration] = name, attributes

    def read(self, word: str, words: Iterator[str]) -> None:
        """Take an option, and its value from the words behind it.

        Raises:
            _NotTaken: it is none, or click would have to say something about it.
        """
        declaration, equals, value = word.partition("=")
        if declaration not in self._known or not declaration.startswith("-") or (equals and word[1] != "-"):
            raise _NotTaken
        name, attributes = self._known[declaration]
        if attributes.get("is_flag"):
            if equals:
                raise _NotTaken
            self.values[name] = True
            return
        if not equals:
            value = next(words, "")
        if value == "" or value.startswith("-"):
            raise _NotTaken
        if attributes.get("multiple"):
            self.values[name] += (value,)
        elif self.values[name] is not None:
            raise _NotTaken
        else:
            self.values[name] = _typed(value, attributes.get("type"))


def _typed(value: str, kind: Any) -> Any:
    if kind is int:
        if not (value.isascii() and value.isdigit() and len(value) < 10):
            raise _NotTaken
        return int(value)
    if isinstance(kind, tuple) and value not in kind:
        raise _NotTaken
    return value


def taken(args: list[str], state: Globals) -> Callable[[], int] | None:
    """What does what a command line asks for, with `state` told its global options; None where click is to read it."""
    if _COMPLETE in os.environ:
        return None
    try:
        words = iter(args)
        first = _Options(GLOBAL)
        word = next(words, "")
        while word.startswith("-"):
            first.read(word, words)
            word = next(words, "")
        read = {"enqueue": _enqueue, "add": _add}.get(word)
        if read is None:
            return None
        act, values = read(list(words))
    except _NotTaken:
        return None
    for name in first.values:
        given = values.pop(name)
        if name == "plugins":
            state.plugins = [*first.values[name], *given]
        else:
            setattr(state, name, given or first.values[name] or getattr(state, name))
    return lambda: act(state, **values)


def _enqueue(args: list[str]) -> tuple[Callable[..., int], dict[str, Any]]:
    options, words = _read(args, GLOBAL, ENQUEUE)
    if len(words) > 1:
        raise _NotTaken
    from jobq.cli.submitting import enqueue

    return enqueue, options.values | {"spec": words[0] if words else None}


def _add(args: list[str]) -> tuple[Callable[..., int], dict[str, Any]]:
    argv = None
    if "--" in args:
        place = args.index("--")
        args, argv = args[:place], args[place + 1 :]
    options, words = _read(args, GLOBAL, ADD)
    if "-" in words or any(options.values[name] for name in _SLOW):
        raise _NotTaken
    from jobq.cli.submitting import add

    return add, options.values | {"words": tuple(words), "argv": argv}


def _read(args: list[str], *tables: Table) -> tuple[_Options, list[str]]:
    options, words = _Options(*tables), []
    rest = iter(args)
    for word in rest:
        if word.startswith("-") and word != "-":
            options.read(word, rest)
        else:
            words.append(word)
    return options, words
