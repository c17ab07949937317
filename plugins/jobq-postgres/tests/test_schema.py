"""The schema: made once, brought up to date, refused where it is too new, and enough for a role with few rights."""

import secrets
import threading
from urllib.parse import urlsplit

import psycopg
import pytest

from jobq.errors import NewerFormat, StoreUnavailable, StoreUnreadable
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, finish, ids, success
from jobq_postgres import schema as schemas
from jobq_postgres.address import parse


@pytest.fixture
def address(url):
    return parse(url.partition(":")[2])


def test_many_at_once_make_it_once(open_on, sql, schema):
    troubles = []

    def first_use(number):
        try:
            open_on(f"home{number}").add(new(make_job(f"job-{number}")), now=START)
        except Exception as error:
            troubles.append(error)

    threads = [threading.Thread(target=first_use, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert troubles == []
    assert sql(f'SELECT version FROM "{schema}".versions ORDER BY 1') == [(step,) for step, _ in schemas.steps()]
    assert sql(f'SELECT count(*) FROM "{schema}".jobs') == [(6,)]


def test_the_command_migrates_twice(url, schema, jobq_home, jobq_cli):
    assert jobq_cli("--store", url, "postgres", "migrate").stdout == f"{schema}: version {schemas.newest()}\n"
    assert "already" in jobq_cli("--store", url, "postgres", "migrate").stdout
    jobq_cli("--store", url, "add", "--", "true")


def test_an_older_one_is_brought_up_to_date_by_the_command_alone(
    url, schema, sql, jobq_home, jobq_cli, server_url, address
):
    with psycopg.connect(server_url, autocommit=True) as connection, pytest.MonkeyPatch.context() as patch:
        patch.setattr(schemas, "steps", lambda: schemas_steps[:1])
        schemas.migrate(connection, address)
    answer = jobq_cli("--store", url, "status", code=5)
    assert "jobq --store URL postgres migrate" in answer.stderr
    assert jobq_cli("--store", url, "postgres", "migrate").stdout == f"{schema}: version {schemas.newest()}\n"
    jobq_cli("--store", url, "status")


schemas_steps = schemas.steps()


def test_a_newer_one_is_used_as_long_as_it_may_be(open_on, sql, schema):
    open_on().add(new(make_job("one")), now=START)
    sql(f'INSERT INTO "{schema}".versions (version, oldest) VALUES (99, {schemas.newest()})')
    assert open_on().get("one").id == "one", "an old worker works on"
    sql(f'UPDATE "{schema}".versions SET oldest = 99 WHERE version = 99')
    with pytest.raises(NewerFormat, match="version 99"):
        open_on().get("one")


def test_the_printed_schema_is_the_one_that_is_made(url, schema, sql, jobq_home, jobq_cli):
    printed = jobq_cli("--store", url, "postgres", "schema").stdout
    for statement in printed.split("\n\n", 1)[0].split(";"):
        if statement.strip():
            sql(statement)
    sql_all(sql, printed)
    assert "already" in jobq_cli("--store", url, "postgres", "migrate").stdout
    jobq_cli("--store", url, "add", "--", "true")
    assert jobq_cli("--store", url, "postgres", "schema", "--above", str(schemas.newest())).stdout.count("BEGIN;") == 0


def sql_all(sql, text):
    with psycopg.connect(sql.url, autocommit=True) as connection:
        connection.execute(text.encode())


@pytest.fixture
def role(sql, url, schema, jobq_home, jobq_cli):
    """A role that has what `jobq postgres role` grants, and a URL with it."""
    name, password = f"worker_{secrets.token_hex(4)}", secrets.token_hex(8)
    jobq_cli("--store", url, "postgres", "migrate")
    sql_all(sql, jobq_cli("--store", url, "postgres", "role", name).stdout)
    sql_all(sql, jobq_cli("--store", url, "postgres", "role", name).stdout)
    sql(f"ALTER ROLE \"{name}\" PASSWORD '{password}'")
    parts = urlsplit(url)
    yield name, parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
    sql(f'DROP OWNED BY "{name}"')
    sql(f'DROP ROLE "{name}"')


def test_a_role_with_few_rights_can_work(role, open_on, sql, schema):
    _, address = role
    store = open_on("limited", address=address)
    worker = store.join(make_info())
    store.add(new(*(make_job(f"j{number}") for number in range(60))), now=START)
    finish(store, worker, *map(success, claim(store, worker)))
    sql(f'UPDATE "{schema}".versions SET applied_at = now()')
    from jobq.job import FINISHED

    assert len(store.expire(states=FINISHED, before=START.replace(year=START.year + 1), limit=10)) <= 10
    assert store.prune(states=FINISHED, before=START.replace(year=9000), limit=5)
    assert store.watch(lambda: None)
    store.pause("mail", True, now=START)
    worker.close()


def test_a_role_with_few_rights_can_do_no_more(role, schema):
    _, address = role
    with psycopg.connect(parse(address.partition(":")[2]).conninfo, autocommit=True) as connection:
        for statement in (
            'DROP TABLE "{}".jobs',
            'TRUNCATE "{}".jobs',
            'ALTER TABLE "{}".jobs ADD COLUMN x int',
            'CREATE TABLE "{}".mine (x int)',
            'DELETE FROM "{}".versions',
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format(schema))


def test_a_role_that_may_make_no_schema_is_told_what_to_run(sql, url, open_on):
    name, password = f"nobody_{secrets.token_hex(4)}", secrets.token_hex(8)
    sql(f"CREATE ROLE \"{name}\" LOGIN PASSWORD '{password}'")
    parts = urlsplit(url)
    address = parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
    with pytest.raises(StoreUnavailable, match="postgres migrate") as caught:
        open_on(address=address).get("one")
    assert password not in str(caught.value)
    sql(f'DROP ROLE "{name}"')


def test_a_schema_that_is_gone_is_no_empty_queue(open_on, sql, schema):
    store = open_on()
    store.add(new(make_job("one")), now=START)
    sql(f'DROP SCHEMA "{schema}" CASCADE')
    with pytest.raises(StoreUnreadable, match=schema):
        store.counts(now=START)


def test_several_queues_share_a_database(server_url, open_on, schema):
    from .conftest import with_parameter

    stores = [open_on(address=with_parameter(server_url, f"schema={schema}{suffix}")) for suffix in ("", "_b")]
    for store in stores:
        store.add(new(make_job("same")), now=START)
    workers = [store.join(make_info()) for store in stores]
    assert [ids(claim(store, worker)) for store, worker in zip(stores, workers, strict=True)] == [["same"], ["same"]]
    for worker in workers:
        worker.close()
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(f'DROP SCHEMA "{schema}_b" CASCADE')


@pytest.mark.parametrize(
    ("address", "shown", "name"),
    [
        ("//u:secret@h:1/d", "postgresql://u@h:1/d", "jobq"),
        ("//u@h/d?schema=other&sslmode=verify-full", "postgresql://u@h/d?schema=other&sslmode=verify-full", "other"),
        ("//h/d?password=secret&user=u", "postgresql://h/d?user=u", "jobq"),
        ("///d?host=/run/pg", "postgresql:///d?host=/run/pg", "jobq"),
        ("//u:se%40cret@h1:1,h2:2/d", "postgresql://u@h1:1,h2:2/d", "jobq"),
        ("//", "postgresql://", "jobq"),
    ],
)
def test_addresses(address, shown, name):
    parsed = parse(address)
    assert (parsed.url, parsed.schema) == (shown, name)
    assert "secret" not in parsed.url
    assert "schema" not in parsed.conninfo
    psycopg.conninfo.conninfo_to_dict(parsed.conninfo)


@pytest.mark.parametrize(
    "address", ["", "/d", "//h/d?schema=", "//h/d?schema=a'b", "//h/d?schema=pg_x", "//h/d?x", "//u:p#q@h/d"]
)
def test_addresses_that_are_none(address):
    from jobq.errors import InvalidInput

    with pytest.raises(InvalidInput) as caught:
        parse(address)
    assert "p#q" not in str(caught.value)


def test_a_queue_is_the_same_by_whatever_address_and_another_one_in_another_schema(open_on, url, schema, sql):
    here = open_on().identity()
    assert open_on("elsewhere", url.replace("127.0.0.1", "localhost")).identity() == here
    try:
        assert open_on(address=url.replace(schema, f"{schema}_2")).identity() != here
    finally:
        sql(f'DROP SCHEMA IF EXISTS "{schema}_2" CASCADE')
