"""What a new job may say, and every refusal, with the field, the value and the rule."""

import json
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.errors import InvalidInput
from jobq.job import State
from jobq.spec import META_LIMIT, Intake
from jobq.strictjson import MAX_DEPTH, check_json, loads
from jobq.testing import START, make_settings

HANDLERS = ("resize", "mail.send")


def made(spec, *, handlers=HANDLERS, directory="/srv", **values):
    settings = make_settings(values={name.replace("_", "-"): value for name, value in values.items()})
    return Intake(settings, now=START, directory=directory).job(spec, handlers=handlers)


def refused(spec, **keywords):
    with pytest.raises(InvalidInput) as caught:
        made(spec, **keywords)
    assert "\n" not in str(caught.value)
    return caught.value


class TestAccepted:
    def test_a_command_alone(self):
        new = made({"command": "make && make install"})
        job = new.job
        assert new.generated
        assert (job.command, job.cwd, job.queue, job.priority, job.state) == (
            "make && make install",
            "/srv",
            "default",
            0,
            State.PENDING,
        )
        assert (job.attempts, job.max_attempts, job.timeout, job.run_at) == (0, 3, None, START)
        assert len(job.id) == 16

    def test_ids_that_are_drawn_differ(self):
        assert len({made({"command": "true"}).job.id for _ in range(100)}) == 100

    def test_an_argv(self):
        assert made({"command": ["echo", "", "a b"]}).job.command == ("echo", "", "a b")

    def test_a_handler_with_its_payload_and_no_directory(self):
        job = made({"handler": "resize", "payload": [1, {"a": None}]}).job
        assert (job.handler, job.payload, job.cwd) == ("resize", [1, {"a": None}], None)

    def test_a_payload_may_be_null_and_is_an_empty_object_if_not_said(self):
        assert made({"handler": "resize", "payload": None}).job.payload is None
        assert made({"handler": "resize"}).job.payload == {}

    def test_everything_a_person_may_set(self):
        new = made(
            {
                "id": "Nightly.1:a@b-c_d",
                "command": "true",
                "queue": "mail",
                "priority": -1000,
                "max_attempts": 1,
                "run_at": "2030-01-01T01:00:00+01:00",
                "timeout": 1.5,
                "cwd": "sub/../other",
                "env": {"A": "", "B": "x=y"},
                "tags": ["a", "b", "a"],
                "on_lost": "dead",
                "retry_on": [1, "3-5", "timeout", "signal"],
                "no_retry_on": [255],
                "meta": {"web.user": 1},
            }
        )
        job = new.job
        assert not new.generated
        assert job.run_at == datetime(2030, 1, 1, tzinfo=UTC)
        assert (job.timeout, job.cwd, job.env) == (timedelta(seconds=1.5), "/srv/other", {"A": "", "B": "x=y"})
        assert (job.tags, job.on_lost, job.no_retry_on) == (("a", "b"), "dead", (255,))
        assert job.retry_on == (1, "3-5", "timeout", "signal")
        assert job.meta == {"web.user": 1}

    def test_max_retries_is_the_same_number(self):
        assert made({"command": "true", "max_retries": 7}).job.max_attempts == 7

    def test_settings_are_captured(self):
        job = made({"command": "true"}, max_attempts=9, timeout=60).job
        assert (job.max_attempts, job.timeout) == (9, timedelta(seconds=60))

    def test_what_is_retried_is_captured_too(self):
        settings = {"retry_on": ["ValueError", 1, "3-5", "timeout"], "no_retry_on": "KeyError"}
        handler = made({"handler": "resize"}, **settings).job
        assert (handler.retry_on, handler.no_retry_on) == (("ValueError", 1, "3-5", "timeout"), ("KeyError",))
        command = made({"command": "true"}, **settings).job
        assert (command.retry_on, command.no_retry_on) == ((1, "3-5", "timeout"), ())

    def test_what_a_job_says_itself_goes_before_the_settings_even_if_that_is_nothing(self):
        settings = {"retry_on": [1], "no_retry_on": [2]}
        job = made({"command": "true", "retry_on": [7]}, **settings).job
        assert (job.retry_on, job.no_retry_on) == ((7,), (2,))
        job = made({"handler": "resize", "retry_on": [], "no_retry_on": []}, **settings).job
        assert (job.retry_on, job.no_retry_on) == ((), ())

    def test_an_exit_code_written_as_text_is_that_exit_code(self):
        job = made({"command": "true", "retry_on": ["7", "3-5"]}).job
        assert job.retry_on == (7, "3-5")

    def test_null_takes_a_timeout_away(self):
        assert made({"command": "true", "timeout": None}, timeout=60).job.timeout is None

    def test_a_delay_counts_from_now_and_is_rounded_up(self):
        assert made({"command": "true", "delay": 0.0001}).job.run_at == START + timedelta(milliseconds=1)
        assert made({"command": "true", "delay": 0}).job.run_at == START
        assert made({"command": "true", "delay": timedelta(hours=1)}).job.run_at == START + timedelta(hours=1)

    def test_python_values_for_times(self):
        there = datetime(2030, 1, 1, 3, tzinfo=timezone(timedelta(hours=3)))
        job = made({"command": "true", "run_at": there, "timeout": timedelta(minutes=1)}).job
        assert (job.run_at, job.run_at.tzinfo, job.timeout) == (there, UTC, timedelta(minutes=1))

    def test_an_unknown_handler_where_any_is_allowed(self):
        assert made({"handler": "elsewhere"}, handlers=None).job.handler == "elsewhere"

    @pytest.mark.parametrize("length", [1, 128])
    def test_ids_up_to_the_limit(self, length):
        assert made({"command": "true", "id": "x" * length}).job.id == "x" * length


REFUSED = {
    "a list": ([1], "", "JSON object, not a list"),
    "a text": ("echo", "", "JSON object, not a string"),
    "true": (True, "", "JSON object, not a boolean"),
    "a number": (1.5, "", "JSON object, not a number"),
    "null": (None, "", "JSON object, not null"),
    "no JSON at all": ((), "", "JSON object, not a tuple"),
    "neither command nor handler": ({"queue": "a"}, "", "not neither"),
    "both": ({"command": "true", "handler": "resize"}, "", "not both"),
    "an empty command": ({"command": ""}, "command", "empty"),
    "a blank command": ({"command": " \t\n"}, "command", "empty"),
    "an empty argv": ({"command": []}, "command", "empty"),
    "an argv without a program": ({"command": ["", "a"]}, "command", "empty"),
    "an argv with a number": ({"command": ["sleep", 1]}, "command", "list of texts"),
    "a command that is a number": ({"command": 1}, "command", "text"),
    "a command that is null": ({"command": None}, "command", "text"),
    "NUL in a command": ({"command": "a\0b"}, "command", "NUL"),
    "NUL in an argv": ({"command": ["a", "b\0"]}, "command", "NUL"),
    "a lone surrogate": ({"command": "a\ud800"}, "command", "surrogates"),
    "an unknown key": ({"command": "true", "colour": 1}, "colour", "no field"),
    "a key meant otherwise": ({"command": "true", "piority": 1}, "piority", "did you mean priority"),
    "a field of the record that nobody sets": ({"command": "true", "attempts": 0}, "attempts", "no field"),
    "a state": ({"command": "true", "state": "completed"}, "state", "no field"),
    "both names of one field": (
        {"command": "true", "max_retries": 1, "max_attempts": 1},
        "max_retries",
        "two names of one field",
    ),
    "an empty id": ({"command": "true", "id": ""}, "id", "begin with a letter or digit"),
    "an id that is a path": ({"command": "true", "id": "../x"}, "id", "letters, digits"),
    "an id with a slash": ({"command": "true", "id": "a/b"}, "id", "letters, digits"),
    "an id with a newline at its end": ({"command": "true", "id": "a\n"}, "id", "letters, digits"),
    "an id with a space": ({"command": "true", "id": "a b"}, "id", "letters, digits"),
    "an id of other letters": ({"command": "true", "id": "naïve"}, "id", "letters, digits"),
    "an id too long": ({"command": "true", "id": "x" * 129}, "id", "at most 128"),
    "an id that is a number": ({"command": "true", "id": 7}, "id", "letters, digits"),
    "an id that is null": ({"command": "true", "id": None}, "id", "letters, digits"),
    "a queue too long": ({"command": "true", "queue": "x" * 65}, "queue", "at most 64"),
    "a queue that is null": ({"command": "true", "queue": None}, "queue", "letters, digits"),
    "a priority too high": ({"command": "true", "priority": 1001}, "priority", "-1000 to 1000"),
    "a priority too low": ({"command": "true", "priority": -1001}, "priority", "-1000 to 1000"),
    "a priority that is a float": ({"command": "true", "priority": 1.0}, "priority", "whole number"),
    "a priority that is true": ({"command": "true", "priority": True}, "priority", "whole number"),
    "no attempts": ({"command": "true", "max_attempts": 0}, "max_attempts", "from 1"),
    "negative attempts": ({"command": "true", "max_retries": -1}, "max_retries", "from 1"),
    "attempts as text": ({"command": "true", "max_attempts": "3"}, "max_attempts", "whole number"),
    "attempts that are null": ({"command": "true", "max_attempts": None}, "max_attempts", "whole number"),
    "a naive time": ({"command": "true", "run_at": "2030-01-01T00:00:00"}, "run_at", "offset"),
    "a naive datetime": ({"command": "true", "run_at": datetime(2030, 1, 1)}, "run_at", "offset"),  # noqa: DTZ001 - that is the point
    "no time": ({"command": "true", "run_at": "tomorrow"}, "run_at", "RFC 3339"),
    "a date": ({"command": "true", "run_at": "2030-01-01"}, "run_at", "RFC 3339"),
    "a time as a number": ({"command": "true", "run_at": 1893456000}, "run_at", "RFC 3339"),
    "a time that is null": ({"command": "true", "run_at": None}, "run_at", "RFC 3339"),
    "a time beyond all years": ({"command": "true", "run_at": "9999-12-31T23:59:59-23:00"}, "run_at", "RFC 3339"),
    "a negative delay": ({"command": "true", "delay": -1}, "delay", "at least 0"),
    "a delay of ages": ({"command": "true", "delay": 1e18}, "delay", "100 years"),
    "a delay as text": ({"command": "true", "delay": "10m"}, "delay", "number of seconds"),
    "a delay that is null": ({"command": "true", "delay": None}, "delay", "number of seconds"),
    "a delay without end": ({"command": "true", "delay": float("inf")}, "delay", "number of seconds"),
    "a delay that is no number": ({"command": "true", "delay": float("nan")}, "delay", "number of seconds"),
    "a delay and a time": (
        {"command": "true", "delay": 1, "run_at": "2030-01-01T00:00:00Z"},
        "delay",
        "exclude one another",
    ),
    "a timeout of 0": ({"command": "true", "timeout": 0}, "timeout", "more than 0"),
    "a negative timeout": ({"command": "true", "timeout": -5}, "timeout", "at least 0"),
    "a timeout as text": ({"command": "true", "timeout": "1h"}, "timeout", "number of seconds"),
    "a timeout that is true": ({"command": "true", "timeout": True}, "timeout", "number of seconds"),
    "a payload with a command": ({"command": "true", "payload": {}}, "payload", "is for handlers"),
    "env with a handler": ({"handler": "resize", "env": {}}, "env", "is for commands"),
    "cwd with a handler": ({"handler": "resize", "cwd": "/"}, "cwd", "is for commands"),
    "an unknown handler": ({"handler": "resise"}, "handler", "not installed here; did you mean resize"),
    "a handler that is a path to import": ({"handler": "os/system"}, "handler", "letters, digits"),
    "a handler that is null": ({"handler": None}, "handler", "letters, digits"),
    "a cwd that is empty": ({"command": "true", "cwd": ""}, "cwd", "not empty"),
    "NUL in cwd": ({"command": "true", "cwd": "/a\0"}, "cwd", "NUL"),
    "env as a list": ({"command": "true", "env": ["A=1"]}, "env", "object of names"),
    "env with a number": ({"command": "true", "env": {"A": 1}}, "env.A", "must be a text"),
    "env with = in a name": ({"command": "true", "env": {"A=B": "1"}}, "env.A=B", "no = in its name"),
    "env with an empty name": ({"command": "true", "env": {"": "1"}}, "env", "without a name"),
    "NUL in env": ({"command": "true", "env": {"A": "\0"}}, "env.A", "NUL"),
    "tags as a text": ({"command": "true", "tags": "a,b"}, "tags", "list of texts"),
    "a tag with a space": ({"command": "true", "tags": ["a b"]}, "tags", "letters, digits"),
    "a tag that is a number": ({"command": "true", "tags": [1]}, "tags", "letters, digits"),
    "meta as a list": ({"command": "true", "meta": []}, "meta", "object"),
    "meta too large": ({"command": "true", "meta": {"a": "x" * META_LIMIT}}, "meta", f"larger than {META_LIMIT}"),
    "on_lost of its own": ({"command": "true", "on_lost": "ignore"}, "on_lost", "retry or dead"),
    "on_lost that is null": ({"command": "true", "on_lost": None}, "on_lost", "retry or dead"),
    "retry_on as a text": ({"command": "true", "retry_on": "timeout"}, "retry_on", "must be a list"),
    "a condition beyond exit codes": ({"command": "true", "retry_on": [256]}, "retry_on", "exit code"),
    "a condition that is true": ({"command": "true", "no_retry_on": [True]}, "no_retry_on", "exit code"),
    "an exception for a command": ({"command": "true", "retry_on": ["ValueError"]}, "retry_on", "no exceptions"),
    "an exception of a module": (
        {"handler": "resize", "retry_on": ["a.Error"]},
        "retry_on",
        "the name of an exception",
    ),
    "a range the wrong way round": ({"command": "true", "retry_on": ["5-1"]}, "retry_on", "range"),
    "success as a condition": ({"command": "true", "retry_on": [0]}, "retry_on", "from 1 to 255"),
    "a condition that is none": ({"command": "true", "no_retry_on": ["a b"]}, "no_retry_on", "exit code"),
}


@pytest.mark.parametrize(("spec", "field", "rule"), REFUSED.values(), ids=REFUSED)
def test_refused_with_the_field_and_the_rule(spec, field, rule):
    error = refused(spec)
    assert error.field == field
    assert rule in str(error)
    assert error.exit_code == 1


def test_a_payload_over_the_limit_is_refused_with_both_sizes():
    assert "1048578 bytes; the limit is 1048576" in str(refused({"handler": "resize", "payload": "x" * (1 << 20)}))
    assert made({"handler": "resize", "payload": "x" * ((1 << 20) - 2)}).job.payload
    assert "limit is 10 " in str(refused({"handler": "resize", "payload": "x" * 10}, payload_limit=10))


@pytest.mark.parametrize(
    "value", [{1, 2}, b"x", {1: 2}, object(), [float("nan")], {"a": -float("inf")}, 2**63, -(2**63) - 1]
)
def test_a_payload_that_is_no_json_is_refused(value):
    assert refused({"handler": "resize", "payload": value}).field in ("payload", "a")


def nested(depth):
    value = 0
    for _ in range(depth):
        value = [value]
    return value


def test_depth_is_bounded():
    check_json("payload", nested(MAX_DEPTH))
    with pytest.raises(InvalidInput, match="deeper than 100"):
        check_json("payload", nested(MAX_DEPTH + 1))
    with pytest.raises(InvalidInput, match="deeper than 100"):
        loads(json.dumps(nested(MAX_DEPTH + 1)))


JSON_REFUSED = {
    "nothing": ("", "is no JSON"),
    "half of it": ('{"a": ', "is no JSON: .* at character 7"),
    "two values": ("1 2", "is no JSON"),
    "NaN": ('{"a": NaN}', "NaN"),
    "Infinity": ("[Infinity]", "Infinity"),
    "minus Infinity": ("[-Infinity]", "Infinity"),
    "a number beyond floats": ("[1e999]", "no finite number"),
    "an integer beyond 2^63": ("[9223372036854775808]", "beyond 2\\^63"),
    "an integer of many digits": ("1" * 5000, "beyond 2\\^63"),
    "a key twice": ('{"id": "a", "id": "b"}', "id: 'b' comes twice"),
    "a key twice further in": ('{"a": [{"b": 1, "b": 1}]}', "b: 1 comes twice"),
    "a lone surrogate": ('["\\ud800"]', "surrogates"),
    "a lone surrogate as a key": ('{"\\udfff": 1}', "surrogates"),
    "NUL": ('["a\\u0000"]', "NUL"),
    "a control character": ('["\x01"]', "is no JSON"),
    "no UTF-8": (b'["\xff"]', r"is no UTF-8 \(byte 3\)"),
    "a byte-order mark": (b"\xef\xbb\xbf{}", "BOM"),
    "depths": ("[" * 1_000_000, "nested deeper than 100|is no JSON"),
}


@pytest.mark.parametrize(("text", "why"), JSON_REFUSED.values(), ids=JSON_REFUSED)
def test_text_that_is_no_sound_json_is_refused(text, why):
    with pytest.raises(InvalidInput, match=why) as caught:
        loads(text)
    assert len(str(caught.value)) < 300


def test_a_pair_of_surrogates_is_one_character():
    assert loads('"\\ud83d\\ude00"') == "\N{GRINNING FACE}"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(
    spec=st.dictionaries(st.sampled_from(["id", "command", "handler", "payload", "delay", "env", "tags", "x"]), JSON)
)
def test_whatever_comes_a_job_is_made_or_the_input_refused(spec):
    try:
        job = made(spec).job
    except InvalidInput:
        return
    assert json.dumps(job.record(), allow_nan=False)


@given(value=JSON)
def test_what_is_accepted_as_json_survives_it(value):
    try:
        check_json("payload", value)
    except InvalidInput:
        return
    assert loads(json.dumps(value)) == value


@pytest.mark.parametrize("field", ["retry_on", "no_retry_on"])
@pytest.mark.parametrize(
    "condition", ["²", "1²", "1-²", "٣", "5-", "-5", "1-2-3", "1" * 5000, pytest.param(10**5000, id="huge"), -1, ""]
)
def test_what_only_looks_like_an_exit_code_is_none(field, condition):
    error = refused({"handler": "resize", field: [condition]})
    assert (error.field, error.value) == (field, condition)


@pytest.mark.parametrize("field", ["delay", "timeout"])
@pytest.mark.parametrize(
    "value", [10**400, pytest.param(10**5000, id="huge"), -(10**400), float("inf"), float("nan"), 1e308]
)
def test_numbers_beyond_any_duration_are_refused(field, value):
    assert refused({"command": "true", field: value}).field == field


def test_a_directory_whose_name_is_no_utf8_is_refused():
    error = refused({"command": "true"}, directory="/work\udcff")
    assert error.field == "cwd"
    assert "no UTF-8" in error.rule
    assert made({"command": "true", "cwd": "/tmp"}, directory="/work\udcff").job.cwd == "/tmp"
    assert made({"handler": "resize"}, directory="/work\udcff").job.cwd is None
