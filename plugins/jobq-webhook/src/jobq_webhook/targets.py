"""Where messages go: URLs, taken from the settings alone and checked before anything is sent."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from jobq.errors import HIDDEN, InvalidInput

if TYPE_CHECKING:
    from jobq.settings import Settings

_FIELD = "webhook.url"
_PRINTABLE = r"[!-~]+"
_HOST = r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}"
_PORTS = {"https": 443, "http": 80}
_DIGITS = 16


@dataclass(frozen=True, slots=True)
class Target:
    """One URL.

    Attributes:
        scheme: `https` or `http`.
        host: a name or an address, an IPv6 one without brackets.
        port: from 1.
        path: what is asked for, with the query; it may hold a secret.
        name: what jobs call it: the host, and digits by which this very URL is known. It betrays nothing of the path.
    """

    scheme: str
    host: str
    port: int
    path: str
    name: str

    @property
    def authority(self) -> str:
        """The value of the header `Host`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def parse(url: str) -> Target:
    """The target of a URL.

    Raises:
        InvalidInput: it is none that messages may be sent to. The URL is not shown: its path may hold a secret.
    """
    if not re.fullmatch(_PRINTABLE, url):  # urlsplit would drop some of what is not, and see another host
        raise InvalidInput(_FIELD, HIDDEN, "must be of printable ASCII; a name of other letters is written as xn--…")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise InvalidInput(_FIELD, HIDDEN, "is no URL") from None
    if parts.scheme not in _PORTS:
        raise InvalidInput(_FIELD, HIDDEN, "must begin with https:// (or http://, with webhook.allow-private)")
    if "@" in parts.netloc:
        raise InvalidInput(_FIELD, HIDDEN, "must not hold a user or a password")
    host = parts.hostname or ""
    if not re.fullmatch(_HOST, host):
        raise InvalidInput(_FIELD, HIDDEN, "has no host that is a name or an address")
    if port == 0:
        raise InvalidInput(_FIELD, HIDDEN, "has the port 0")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    digits = hashlib.sha256(url.encode()).hexdigest()[:_DIGITS]
    return Target(parts.scheme, host, port or _PORTS[parts.scheme], path, f"{host}/{digits}")


def targets(settings: Settings) -> list[Target]:
    """The targets that the settings name, each once.

    Raises:
        InvalidInput: a URL is none, or may not be used.
    """
    found = [parse(url) for url in dict.fromkeys(settings[_FIELD] or ())]
    for target in found:
        if target.scheme != "https" and not settings["webhook.allow-private"]:
            raise InvalidInput(_FIELD, HIDDEN, "must begin with https://, unless webhook.allow-private is true")
    return found
