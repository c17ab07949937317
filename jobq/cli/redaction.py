"""What looks like a secret in a job's record, left out: by names, by the shape of texts, and wherever it comes again.

It goes by what people call secrets (`masked` in jobq.cli.text); what nothing tells of stays.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from jobq.cli.text import MASK, masked

if TYPE_CHECKING:
    from collections.abc import Mapping

LEAST = 4
"""Characters of a variable's value that is left out wherever it stands; a shorter one is in too many words."""

_NAMED = re.compile(r"(?<![\w-])(--?[A-Za-z][\w-]*(?:=|\s+)|[A-Za-z][\w-]*=)[^\s&\"']+")
_HEADER = re.compile(r"(?i)\b(authorization|proxy-authorization|cookie|[\w-]*(?:key|token|secret))(\s*:\s*)[^\"'\n]+")


def redacted(record: Mapping[str, Any]) -> dict[str, Any]:
    """The record of a job, as `Job.full_record` has it, with `***` in place of what looks like a secret."""
    secrets = [value for name, value in record["env"].items() if len(value) >= LEAST and masked(name, value) != value]
    made: dict[str, Any] = _value(dict(record), "", sorted(secrets, key=len, reverse=True))
    return made


def _value(value: Any, name: str, secrets: list[str]) -> Any:
    if value is not None and _is_secret(name):
        return MASK
    if isinstance(value, dict):
        return {key: _value(each, key, secrets) for key, each in value.items()}
    if isinstance(value, list):
        before = ["", *(each[2:] if isinstance(each, str) and each.startswith("--") else "" for each in value)]
        return [_value(each, option, secrets) for each, option in zip(value, before, strict=False)]
    return _text(value, secrets) if isinstance(value, str) else value


def _text(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return _NAMED.sub(_named, _HEADER.sub(rf"\1\2{MASK}", masked("", text)))


def _named(match: re.Match[str]) -> str:
    """`NAME=VALUE` and `--name VALUE`, masked where the name says so."""
    return f"{match[1]}{MASK}" if _is_secret(match[1].strip("-= \t\n")) else match[0]


def _is_secret(name: str) -> bool:
    return masked(name.replace("-", "_"), "") == MASK
