"""What looks like a secret in a job's record."""

import pytest

from jobq.cli.redaction import redacted
from jobq.testing import make_job


def of(**fields):
    return redacted(make_job("x", **fields).full_record())


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (("curl", "https://me:hunter2@host/"), ["curl", "https://me:***@host/"]),
        (("mysql", "--password", "hunter2", "db"), ["mysql", "--password", "***", "db"]),
        (("x", "--api-key=hunter2", "PASSWORD=hunter2"), ["x", "--api-key=***", "PASSWORD=***"]),
        (("curl", "-H", "Authorization: Bearer hunter2"), ["curl", "-H", "Authorization: ***"]),
        ("curl -H 'X-Api-Key: hunter2' host?token=hunter2&a=b", "curl -H 'X-Api-Key: ***' host?token=***&a=b"),
        ("MYSQL_PASSWORD=hunter2 mysql --password hunter2 db", "MYSQL_PASSWORD=*** mysql --password *** db"),
        ("passwd hunter2; secret keeper; sort --key 2", "passwd hunter2; secret keeper; sort --key ***"),
        (("convert", "a=b", "--width", "10"), ["convert", "a=b", "--width", "10"]),
    ],
)
def test_commands(command, shown):
    assert of(command=command)["command"] == shown


def test_what_a_variable_holds_is_left_out_wherever_it_comes_again():
    record = of(
        command="echo",
        env={"API_TOKEN": "hunter2", "DATABASE_URL": "postgresql://me:hunter3@host/", "PIN_KEY": "1", "LANG": "C"},
        last_error="exit code 1\nbad token hunter2 for postgresql://me:hunter3@host/, 1 C",
    )
    assert record["env"] == {
        "API_TOKEN": "***",
        "DATABASE_URL": "***",
        "PIN_KEY": "***",
        "LANG": "C",
    }
    assert record["last_error"] == "exit code 1\nbad token *** for ***, 1 C"


def test_payloads_by_their_keys():
    payload = {
        "password": {"value": "hunter2"},
        "credentials": [{"v": "hunter2"}],
        "access_key": 7,
        "token": None,
        "list": ["--secret", "hunter2", {"cookie": True}],
        "width": 10,
    }
    assert of(command=None, handler="h", payload=payload)["payload"] == {
        "password": "***",
        "credentials": "***",
        "access_key": "***",
        "token": None,
        "list": ["--secret", "***", {"cookie": "***"}],
        "width": 10,
    }


def test_nothing_else_is_changed():
    job = make_job("x", command="true", tags=("a",), cwd="/home/me", meta={"x.y": [1, 2.5, "z"]})
    assert redacted(job.full_record()) == job.full_record()
