"""`config`: read and change the settings of this home."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from jobq.cli.base import Globals, Group, with_globals
from jobq.cli.streams import show_json
from jobq.cli.survey import Value, survey
from jobq.cli.text import masked, one_line
from jobq.errors import InvalidInput, UnknownKey
from jobq.files import read_private, replace
from jobq.settings import parse, shown
from jobq.spec import is_handler_name
from jobq.times import seconds_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from tomlkit import TOMLDocument

    from jobq.cli.survey import Survey
    from jobq.providers import Option

_HANDLERS = "handlers."
_TARGET = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")


@click.group("config", cls=Group, short_help="Read and change settings.")
def config_command() -> None:
    """Read and change settings.

    A value comes from the command line, else from a variable (JOBQ_MAX_ATTEMPTS), else from config.toml in the home,
    else it is the default. Hyphens and underscores in keys are alike.
    """


@config_command.command("set", short_help="Set one, in config.toml.")
@click.argument("key")
@click.argument("value")
@with_globals
def set_(state: Globals, key: str, value: str) -> None:
    """Set a setting in config.toml of the home; comments and layout there stay.

    \b
    jobq config set max-attempts 5
    jobq config set handlers.resize images:resize     a handler, named by module and function
    """
    found = survey(state)
    if key.startswith(_HANDLERS):
        name, option = key, None
        written: Any = _handler(key, value)
    else:
        option = _option(found, key)
        name, written = option.name, _written(option, value)
        if name in ("store", "executor", "backoff"):
            found.plugins.provider(name, value.partition(":")[0])
    state.app.create_home()
    with _editing(state.app.home.path) as document:
        _put(document, name, written, () if option is None else _spellings(option))
    text = _text(written) if option is None else masked(name, _text(written))
    state.note(f"{name.replace('-', '_') if option is not None else name}={one_line(text)}")
    if option is None:
        state.note("it counts for workers that are started from now on")
    else:
        _notes(state, found, option)


@config_command.command("unset", short_help="Let one have its default again.")
@click.argument("key")
@with_globals
def unset(state: Globals, key: str) -> None:
    """Remove a setting from config.toml, so that its default is in force again."""
    found = survey(state)
    names: tuple[str, ...] = (key,)
    if not key.startswith(_HANDLERS):
        try:
            names = _spellings(_option(found, key))
        except UnknownKey:
            # One that no plugin has any more may be removed all the same.
            names = (key, key.replace("_", "-"), key.replace("-", "_"))
            if not state.app.home.exists() or not _is_set(_read(state.app.home.path / "config.toml"), names):
                raise
    if not state.app.home.exists():
        state.note(f"{key} was not set")
        return
    with _editing(state.app.home.path) as document:
        removed = _remove(document, names)
    state.note(f"{key} {'is no longer set' if removed else 'was not set'}")


@config_command.command("get", short_help="Print one.")
@click.argument("key")
@click.option("-v", "--verbose", is_flag=True, help="Say where it comes from, on stderr.")
@click.option("--json", "as_json", is_flag=True, help="Print the value as JSON.")
@with_globals
def get(state: Globals, key: str, verbose: bool, as_json: bool) -> int:
    """Print the value of a setting that is in force here."""
    found = survey(state)
    if key.startswith(_HANDLERS):
        handler = found.handlers.get(key.removeprefix(_HANDLERS))
        if handler is None:
            raise UnknownKey(key, "`jobq handlers` shows what there is")
        text, json_value, source = handler.target, handler.target, handler.distribution
    else:
        option = _option(found, key)
        (value,) = (value for value in found.values if value.option.name == option.name)
        if value.problem:
            raise InvalidInput("", option.name, f"is not well set: {value.problem}")
        text, json_value, source = value.text, _json(value), value.source
    if as_json:
        show_json(json_value)
    else:
        click.echo(text)
    if verbose:
        state.note(f"from: {source}")
    return _tell(state, found.home_problems)


@config_command.command("list", short_help="Print all.")
@click.option("-v", "--verbose", is_flag=True, help="Say where each comes from, and what it is for.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object; with -v each value with its source.")
@with_globals
def list_(state: Globals, verbose: bool, as_json: bool) -> int:
    """Print every setting and its value, as KEY=VALUE."""
    found = survey(state)
    rows = [(value.option.name.replace("-", "_"), value) for value in found.values]
    handlers = [h for h in found.handlers.values() if h.distribution == "config.toml"]
    if as_json:
        listed: dict[str, Any] = {}
        for name, value in rows:
            listed[name] = {"value": _json(value), "source": value.source} if verbose else _json(value)
        for handler in handlers:
            target = handler.target
            listed[_HANDLERS + handler.name] = {"value": target, "source": "config.toml"} if verbose else target
        show_json(listed)
    else:
        for name, value in rows:
            if verbose:
                click.echo(f"# {value.option.help} ({value.option.kind}; from: {value.source})")
            click.echo(f"{name}={one_line(value.listed)}")
        for handler in handlers:
            click.echo(one_line(f"{_HANDLERS}{handler.name}={handler.target}"))
    return _tell(state, [*found.home_problems, *found.config_problems])


@config_command.command("path", short_help="Print where config.toml is.")
@with_globals
def path_(state: Globals) -> None:
    """Print the path of this home's config.toml, whether or not it is there."""
    click.echo(state.app.config_path)


def _tell(state: Globals, problems: Sequence[str]) -> int:
    for problem in problems:
        state.warn(problem)
    return 1 if problems else 0


def _option(found: Survey, key: str) -> Option:
    """The option that a key means; UnknownKey, with those that come close, where there is none."""
    wanted = key.replace("_", "-").lower()
    names = {name: value.option for value in found.values for name in (value.option.name, *value.option.aliases)}
    if wanted not in names:
        import difflib

        near = difflib.get_close_matches(wanted, names, n=3)
        raise UnknownKey(key, f"did you mean {' or '.join(near)}?" if near else "")
    return names[wanted]


def _handler(key: str, value: str) -> str:
    name = key.removeprefix(_HANDLERS)
    if not is_handler_name(name):
        raise InvalidInput(key, name, "is no name of a handler: letters, digits and _.:@-, at most 128")
    if not _TARGET.fullmatch(value):
        raise InvalidInput(key, value, "must be MODULE:FUNCTION")
    return value


def _written(option: Option, value: str) -> Any:
    """The value as TOML has it, after a check that the setting takes it."""
    parsed = parse(option, value)
    if parsed is None or option.kind in ("duration", "size", "text"):
        number = re.fullmatch(r"\d+", value) if option.kind != "text" else None
        return int(value) if number else value
    return list(parsed) if option.kind == "list" else parsed


def _text(written: Any) -> str:
    return shown(tuple(written) if isinstance(written, list) else written)


def set_store(state: Globals, url: str) -> str:
    """Make a store the one that config.toml names; what goes before config.toml, and then nothing is changed."""
    found = survey(state)
    (before,) = (value for value in found.values if value.option.name == "store")
    if before.source not in ("default", "config.toml"):
        return "--store" if before.source == "command line" else before.source
    with _editing(state.app.home.path) as document:
        _put(document, "store", url, _spellings(before.option))
    return ""


def _notes(state: Globals, found: Survey, option: Option) -> None:
    """What a person should know after a change: what hides it, and when it counts."""
    (before,) = (value for value in found.values if value.option.name == option.name)
    if before.source not in ("default", "config.toml"):
        state.note(f"but {before.source} is set, and goes before config.toml")
    elif not option.live:
        state.note("it counts for what is started or enqueued from now on; running workers keep the old value")


def _json(value: Value) -> Any:
    if isinstance(value.value, timedelta):
        return seconds_of(value.value)
    if isinstance(value.value, tuple):
        return list(value.value)
    return value.listed if isinstance(value.value, str) else value.value


def _spellings(option: Option) -> tuple[str, ...]:
    """Every way in which a configuration file may write the option's key."""
    names = (option.name, *option.aliases)
    return tuple(dict.fromkeys(spelt for name in names for spelt in (name, name.replace("-", "_"))))


def _read(path: Path) -> TOMLDocument:
    import tomlkit

    try:
        return tomlkit.parse(read_private(path).decode())
    except FileNotFoundError:
        return tomlkit.document()
    except (ValueError, RecursionError) as error:  # ParseError is one; so is an integer of thousands of digits
        raise InvalidInput("", path, f"is no valid TOML; mend it with an editor: {error}") from None


@contextlib.contextmanager
def _editing(home: Path) -> Iterator[TOMLDocument]:
    """The content of config.toml, written back as a whole if it was changed; one editor at a time."""
    path = home / "config.toml"
    lock = os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        document = _read(path)
        before = document.as_string()
        yield document
        after = document.as_string()
        if after != before:
            replace(path, after.encode(), durable=True)
    finally:
        os.close(lock)


def _put(document: TOMLDocument, name: str, written: Any, spellings: Sequence[str]) -> None:
    """Set a value under whichever spelling the file has; the other spellings go."""
    there = [spelt for spelt in spellings if _is_set(document, (spelt,))]
    _remove(document, there[1:])
    table: Any = document
    *tables, key = _steps(there[0] if there else name)
    for step in tables:
        if not isinstance(table.get(step, {}), dict):
            raise InvalidInput("config.toml", step, "must be a table")
        table = table.setdefault(step, {})
    table[key] = written


def _remove(document: TOMLDocument, names: Sequence[str]) -> bool:
    removed = False
    for name in names:
        if _is_set(document, (name,)):
            table: Any = document
            *tables, key = _steps(name)
            for step in tables:
                table = table[step]
            del table[key]
            removed = True
    return removed


def _is_set(document: TOMLDocument, names: Sequence[str]) -> bool:
    for name in names:
        table: Any = document
        for step in _steps(name):
            if not isinstance(table, dict) or step not in table:
                break
            table = table[step]
        else:
            return True
    return False


def _steps(name: str) -> list[str]:
    """The tables and the key of a setting; a handler's name may hold dots and is one key."""
    return ["handlers", name.removeprefix(_HANDLERS)] if name.startswith(_HANDLERS) else name.split(".")
