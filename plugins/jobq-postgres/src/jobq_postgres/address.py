"""The address of a store: a libpq URL, and in it the parameter `schema`, which is jobq's own."""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from jobq.errors import HIDDEN, InvalidInput

DEFAULT_SCHEMA = "jobq"
_SCHEMA = r"(?a)[A-Za-z_][A-Za-z0-9_-]{0,62}"
_SECRET = frozenset({"password", "sslpassword", "oauth_client_secret"})


@dataclass(frozen=True, slots=True)
class Address:
    """Where a store is.

    Attributes:
        conninfo: what libpq takes, with the password if there is one; not to be shown.
        schema: the name of the schema that the tables are in.
        url: what `--store` would say, without a password.
    """

    conninfo: str
    schema: str
    url: str

    @property
    def name(self) -> str:
        """The schema's name as SQL has it."""
        return f'"{self.schema}"'

    @property
    def space(self) -> int:
        """A number of 32 bits, with a sign, of the store's own among advisory locks, which schemas do not tell apart."""
        number = zlib.crc32(f"jobq {self.schema}".encode())
        return number - (1 << 32) if number >= 1 << 31 else number

    @property
    def channel(self) -> str:
        """What is listened to."""
        return f"jobq_{self.space & 0xFFFFFFFF:08x}"

    def sql(self, text: str) -> str:
        """A statement with the schema's name in place of `@schema@`, and its number in place of `@space@`."""
        return text.replace("@schema@", self.name).replace("@space@", str(self.space))


def parse(url: str) -> Address:
    """The address that stands behind the scheme: `//user@host:5432/database?schema=jobq&sslmode=verify-full`.

    Raises:
        InvalidInput: it is no such URL. What it says is not shown, for it may have a password.
    """
    if not url.startswith("//"):
        raise InvalidInput("store", HIDDEN, "must be a URL, as postgresql://user@host/database?schema=jobq")
    parts = urlsplit(f"postgresql:{url}")
    try:
        pairs = parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query), errors="strict")
    except ValueError:
        raise InvalidInput("store", HIDDEN, "has parameters that are not written as name=value&name=value") from None
    if parts.fragment:
        raise InvalidInput("store", HIDDEN, "has a # in it; where it belongs to a password, write %23")
    schemas = [value for name, value in pairs if name == "schema"]
    schema = schemas[-1] if schemas else DEFAULT_SCHEMA
    if not re.fullmatch(_SCHEMA, schema) or schema.startswith("pg_"):
        raise InvalidInput("schema", schema, "must be letters, digits, _ and -, at most 63, and not begin with pg_")
    others = [(name, value) for name, value in pairs if name != "schema"]
    shown = [(name, value) for name, value in pairs if name not in _SECRET]
    return Address(
        conninfo=_url(parts.netloc, parts.path, others),
        schema=schema,
        url=_url(_without_password(parts.netloc), parts.path, shown),
    )


def _without_password(netloc: str) -> str:
    user, at, host = netloc.rpartition("@")
    return f"{user.partition(':')[0]}{at}{host}"


def _url(netloc: str, path: str, pairs: list[tuple[str, str]]) -> str:
    query = urlencode(pairs, quote_via=quote, safe="/")
    return f"postgresql://{netloc}{path}" + (f"?{query}" if query else "")
