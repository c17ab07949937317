"""Jobs that are enqueued in the application's own transaction, and new jobs in general."""

import psycopg
import pytest

from jobq.errors import DuplicateJob, InvalidInput, JobNotFound, NotSupported, StoreMoved
from jobq.notices import LEAVING, Notice
from jobq.queue import Queue
from jobq.testing import START, make_info, make_job, new
from jobq.testing.store_fixtures import claim, finish, ids, success


@pytest.fixture
def queue(jobq_home, url):
    with Queue.open(store=url) as opened:
        opened.counts()
        yield opened


@pytest.fixture
def application(server_url, sql, schema):
    """A connection of an application, and its table."""
    sql(f'CREATE SCHEMA IF NOT EXISTS "{schema}_app"')
    sql(f'CREATE TABLE "{schema}_app".orders (id int)')
    with psycopg.connect(server_url) as connection:
        connection.execute(f'SET search_path = "{schema}_app"')
        connection.commit()
        yield connection
    sql(f'DROP SCHEMA "{schema}_app" CASCADE')


def orders(sql, schema):
    return len(sql(f'SELECT id FROM "{schema}_app".orders'))


@pytest.mark.parametrize("level", list(psycopg.IsolationLevel))
@pytest.mark.parametrize("committed", [True, False])
def test_the_job_is_there_if_and_only_if_the_row_is(queue, application, sql, schema, committed, level):
    application.isolation_level = level
    application.execute("INSERT INTO orders VALUES (1)")
    job = queue.enqueue(command="true", connection=application)
    with pytest.raises(JobNotFound):
        queue.get(job.id)
    application.commit() if committed else application.rollback()
    assert orders(sql, schema) == committed
    assert (job.id in queue.get_many([job.id])) is committed


def test_the_first_statement_of_a_transaction_may_be_the_job(queue, application):
    job = queue.enqueue(command="true", connection=application)
    assert queue.get_many([job.id]) == {}
    application.rollback()
    assert queue.get_many([job.id]) == {}


def test_a_connection_may_make_dictionaries_of_rows(queue, application):
    application.row_factory = psycopg.rows.dict_row
    job = queue.enqueue(command="true", connection=application, id="chosen")
    application.commit()
    assert queue.get(job.id) == job


def test_a_connection_to_another_database_is_refused(queue, server_url, sql, schema):
    sql(f'CREATE DATABASE "{schema}_other"')
    try:
        with psycopg.connect(server_url, dbname=f"{schema}_other") as elsewhere:
            with pytest.raises(InvalidInput, match="another database"):
                queue.enqueue(command="true", connection=elsewhere)
            assert elsewhere.execute("SELECT 1").fetchone() == (1,), "the transaction can go on"
    finally:
        sql(f'DROP DATABASE "{schema}_other"')


def test_many_are_enqueued_in_a_transaction(queue, application):
    with application.transaction():
        jobs = queue.enqueue_many([{"command": "true"}] * 1500, connection=application)
    assert len(queue.get_many([job.id for job in jobs])) == 1500


def test_a_taken_id_ends_no_transaction(queue, application, sql, schema, open_on):
    queue.enqueue(id="waiting", command="true")
    store = open_on()
    worker = store.join(make_info())
    finish(store, worker, *map(success, claim(store, worker, now=store.get("waiting").run_at)))
    worker.close()
    queue.enqueue(id="there", command="true")
    application.execute("INSERT INTO orders VALUES (1)")
    for taken in ("waiting", "there"):
        with pytest.raises(DuplicateJob):
            queue.enqueue(id=taken, command="true", connection=application)
    with pytest.raises(DuplicateJob):
        queue.enqueue_many(
            [{"id": "mine", "command": "true"}, {"id": "there", "command": "true"}], connection=application
        )
    queue.enqueue(id="mine", command="true", connection=application)
    with pytest.raises(DuplicateJob):
        queue.enqueue_many([{"id": "mine", "command": "true"}], if_absent=True, connection=application)
    application.commit()
    assert orders(sql, schema) == 1
    assert queue.get("mine").state == "pending"


def test_a_connection_that_cannot_be_used_is_refused(queue, server_url, jobq_home):
    with psycopg.connect(server_url, autocommit=True) as connection:
        with pytest.raises(InvalidInput, match="in no transaction"):
            queue.enqueue(command="true", connection=connection)
        with connection.transaction():
            job = queue.enqueue(command="true", connection=connection)
        assert queue.get(job.id).id == job.id
    with pytest.raises(InvalidInput, match="must be a connection of psycopg 3"):
        queue.enqueue(command="true", connection=object())
    with Queue.open(store="json:") as other, pytest.raises(NotSupported, match="cannot add jobs in a transaction"):
        other.enqueue(command="true", connection=object())


def test_no_event_is_told_of_what_may_never_be(queue, application, tmp_path):
    told = []
    queue._app.tell = lambda kind, job, **facts: told.append((kind, job.id))
    queue.enqueue(command="true", connection=application)
    application.rollback()
    job = queue.enqueue(command="true")
    assert told == [("enqueued", job.id)]


def test_a_notice_waits_for_transactions_that_enqueue(queue, application, open_on):
    store = open_on()
    queue.enqueue(command="true", connection=application)
    from jobq.errors import StoreLocked

    with pytest.raises(StoreLocked):
        store.post(Notice(state=LEAVING, url="json:"), before=store.notice(), now=START)
    application.commit()
    store.post(Notice(state=LEAVING, url="json:"), before=store.notice(), now=START)
    with pytest.raises(StoreMoved):
        queue.enqueue(command="true", connection=application)
    application.rollback()


@pytest.mark.parametrize("count", [3, 200])
def test_every_taken_id_is_named_however_many_there_are(open_on, count):
    store = open_on()
    worker = store.join(make_info())
    store.add(new(make_job("j0")), now=START)
    finish(store, worker, *map(success, claim(store, worker)))
    store.add(new(make_job("j2")), now=START)
    with pytest.raises(DuplicateJob) as caught:
        store.add(new(*(make_job(f"j{number}") for number in range(count))), now=START)
    assert set(caught.value.ids) == {"j0", "j2"}
    store.add(new(*(make_job(f"k{number}") for number in range(count))), now=START)
    assert ids(claim(store, worker)) == ["j2", *(f"k{number}" for number in range(count))]
    worker.close()


def test_an_id_is_taken_while_its_job_is_being_archived(open_on, server_url, schema):
    """The job ends in a transaction that is not yet committed, when its id is to be used again."""
    import threading

    store = open_on()
    worker = store.join(make_info())
    store.add(new(make_job("one")), now=START)
    (held,) = claim(store, worker)
    with psycopg.connect(server_url) as other:
        other.execute(f"SELECT FROM \"{schema}\".jobs WHERE id = 'one' FOR UPDATE")
        caught = []

        def end():
            finish(open_on("ending"), worker, success(held))

        def add():
            try:
                open_on("adding").add(new(make_job("one")), now=START)
            except DuplicateJob as error:
                caught.append(error)

        threads = [threading.Thread(target=end), threading.Thread(target=add)]
        for thread in threads:
            thread.start()
        other.rollback()
    for thread in threads:
        thread.join()
    assert len(caught) == 1
    assert store.check() == []
    worker.close()
