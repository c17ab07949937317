"""The settings: where a value comes from, what is refused, and what is read again."""

import os
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.config import config_reader
from jobq.errors import InvalidInput, UnknownKey
from jobq.options import KERNEL_OPTIONS
from jobq.providers import Option
from jobq.settings import MOST_SIZE, Settings, parse, shown
from jobq.testing import make_settings

OPTIONS = {option.name: option for option in KERNEL_OPTIONS}
KINDS = {
    "integer": st.integers(-(2**63), 2**63 - 1),
    "number": st.floats(-1e17, 1e17),
    "boolean": st.booleans(),
    "duration": st.integers(0, 10**12).map(lambda count: timedelta(milliseconds=count)),
    "size": st.integers(0, MOST_SIZE),
    "text": st.text(max_size=10),
    "list": st.lists(st.from_regex(r"[A-Za-z_*/.]{1,8}", fullmatch=True)).map(tuple),
}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "config.toml"


def read(file, *, environ=None, flags=None):
    return Settings(KERNEL_OPTIONS, config_reader(file), environ=environ or {}, flags=flags)


def rewrite(file, text):
    """Replace the file as an editor does, so that its inode differs."""
    other = file.with_name("config.new")
    other.write_text(text, encoding="utf-8")
    other.rename(file)


def test_every_default_is_of_its_kind():
    kinds = {
        "integer": int,
        "number": float,
        "boolean": bool,
        "duration": timedelta,
        "size": int,
        "text": str,
        "list": tuple,
    }
    for option in KERNEL_OPTIONS:
        assert option.default is None or type(option.default) is kinds[option.kind], option.name
        if option.default is not None:
            assert parse(option, shown(option.default)) == option.default, option.name


def test_nothing_set_means_defaults(file):
    settings = read(file)
    assert {name: settings[name] for name in settings} == {name: option.default for name, option in OPTIONS.items()}
    assert (settings.sources, settings.unknown, settings.handlers) == ({}, (), {})


def test_flags_win_over_the_environment_over_the_file(file):
    file.write_text('kill-grace = 1\npoll-interval = "2s"\nmax-losses = 5\ntimeout = 9\n', encoding="utf-8")
    environ = {"JOBQ_KILL_GRACE": "3", "JOBQ_POLL_INTERVAL": "4s", "JOBQ_TIMEOUT": "", "KILL_GRACE": "99"}
    settings = read(file, environ=environ, flags={"kill_grace": "5s"})
    assert settings["kill-grace"] == timedelta(seconds=5)
    assert settings["poll-interval"] == timedelta(seconds=4)
    assert settings["max-losses"] == 5
    assert settings["timeout"] == timedelta(seconds=9), "an empty variable is none"
    assert settings.sources == {
        "kill-grace": "command line",
        "poll-interval": "JOBQ_POLL_INTERVAL",
        "max-losses": "config.toml",
        "timeout": "config.toml",
    }


def test_keys_are_known_by_all_their_names(file):
    file.write_text("max_retries = 7\n[plugins]\nblock = ['log']\nstrict = true\n", encoding="utf-8")
    settings = read(file)
    assert settings["max-attempts"] == 7
    assert (settings["plugins.block"], settings["plugins.strict"]) == (("log",), True)
    assert read(file, environ={"JOBQ_MAX_RETRIES": "4"})["max-attempts"] == 4
    assert read(file, environ={"JOBQ_PLUGINS_BLOCK": "a, b"})["plugins.block"] == ("a", "b")
    for key in ("max-retries", "max_retries", "MAX_ATTEMPTS", "max-attempts"):
        assert settings.canonical(key) == "max-attempts"


def test_an_unknown_key_is_refused_with_what_comes_close():
    settings = make_settings()
    with pytest.raises(UnknownKey, match=r"kill-grase.*did you mean kill-grace"):
        settings.canonical("kill-grase")
    with pytest.raises(UnknownKey, match="config list"):
        settings.canonical("zzzzzz")
    with pytest.raises(UnknownKey):
        Settings(KERNEL_OPTIONS, lambda: ({}, None), environ={}, flags={"zzzzzz": "1"})


def test_unknown_keys_of_the_file_are_told_not_refused(file):
    file.write_text("kill-grase = 5\n[other]\nkey = 1\n[handlers]\nresize = 'images:resize'\n", encoding="utf-8")
    settings = read(file)
    assert settings.unknown == ("kill-grase", "other.key")
    assert settings.handlers == {"resize": "images:resize"}


@pytest.mark.parametrize(
    "text", ["handlers = 5", "[handlers]\nx = 5", "[handlers]\nx = 'module'", "[handlers]\nx = 'a:b:c'"]
)
def test_a_handlers_table_of_another_form_is_refused(file, text):
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput, match="handlers"):
        read(file)


def test_a_plugin_has_options_of_its_own():
    option = Option(name="log.file", kind="text", default=None, help="Where.")
    assert make_settings(option)["log.file"] is None
    assert make_settings(option, values={"log": {"file": "x"}})["log.file"] == "x"
    settings = Settings((option,), lambda: ({}, None), environ={"JOBQ_LOG_FILE": "y"})
    assert settings["log.file"] == "y"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("max-attempts", "5", 5),
        ("max-attempts", " +5 ", 5),
        ("backoff-base", 2, 2.0),
        ("backoff-base", "1.5", 1.5),
        ("backoff-jitter", "off", False),
        ("backoff-jitter", "YES", True),
        ("timeout", "none", None),
        ("timeout", "", None),
        ("timeout", 1.5, timedelta(seconds=1.5)),
        ("kill-grace", "1h30m", timedelta(minutes=90)),
        ("kill-grace", 0, timedelta()),
        ("output-limit", "10MiB", 10 << 20),
        ("output-limit", "64k", 64 << 10),
        ("output-limit", "1 GB", 1 << 30),
        ("output-limit", 5000, 5000),
        ("plugins.block", "a,, b ", ("a", "b")),
        ("plugins.block", ["a", "b"], ("a", "b")),
        ("plugins.block", "", ()),
        ("retry-on", "1, 3-5,timeout,ValueError", (1, "3-5", "timeout", "ValueError")),
        ("retry-on", [75, "signal", "7"], (75, "signal", 7)),
        ("no-retry-on", "none", ()),
        ("no-retry-on", "", ()),
        ("child-max-jobs", "20", 20),
        ("child-max-memory", "512M", 512 << 20),
        ("child-max-memory", "none", None),
    ],
)
def test_values_become_what_their_kind_says(name, value, expected):
    parsed = parse(OPTIONS[name], value)
    assert parsed == expected
    assert type(parsed) is type(expected)


HUGE = 10**5000
"""More digits than Python writes."""

NONSENSE = {
    "integer": ["", "five", "1.5", 1.5, True, [], "²", "٣", "+-5", "1" * 5000, HUGE, 2**63, -(2**63) - 1],
    "number": ["", "x", "nan", "inf", 10**400, "1e400", float("nan"), True, []],
    "boolean": ["", "maybe", 2, []],
    "duration": ["", "soon", -1, "-1s", float("nan"), float("inf"), 10**400, True, [], "9" * 400],
    "size": [
        "",
        "x",
        "-1",
        -1,
        1.5,
        True,
        "1.5M",
        "²",
        "M",
        "5 parsecs",
        "٣",
        [],
        "9" * 5000,
        "9" * 20 + "G",
        HUGE,
        MOST_SIZE + 1,
    ],
    "text": [5, True, [], 1.5],
    "list": [5, [1], [["a"]], True],
}
BY_KIND = [
    (
        next(option.name for option in reversed(KERNEL_OPTIONS) if option.kind == kind and option.default is not None),
        value,
    )
    for kind, refused in NONSENSE.items()
    for value in refused
]


@pytest.mark.parametrize(("name", "value"), BY_KIND, ids=lambda value: "huge" if value is HUGE else repr(value)[:20])
def test_nonsense_is_refused_with_the_name_and_where_it_stood(name, value):
    with pytest.raises(InvalidInput) as caught:
        parse(OPTIONS[name], value, where="config.toml")
    assert str(caught.value).startswith(f"{name} (config.toml): ")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max-attempts", 0),
        ("backoff-base", 0.5),
        ("timeout", "0"),
        ("poll-interval", "1ms"),
        ("output-limit", "4095"),
        ("max-losses", "-1"),
        ("child-max-jobs", "0"),
    ],
)
def test_what_is_too_little_is_refused(name, value):
    with pytest.raises(InvalidInput, match="at least"):
        parse(OPTIONS[name], value)


@pytest.mark.parametrize(
    "value", ["0", "256", "5-3", "no such", "1;2", "²", "9" * 5000, 5, True, [0], [True], [1.5], [[1]], {"a": 1}]
)
@pytest.mark.parametrize("name", ["retry-on", "no-retry-on"])
def test_conditions_of_retries_are_checked_as_those_of_a_job(name, value):
    with pytest.raises(InvalidInput, match=rf"{name} \(config.toml\): "):
        parse(OPTIONS[name], value, where="config.toml")


def test_conditions_of_retries_are_shown_as_they_are_written():
    option = OPTIONS["retry-on"]
    for conditions in ((), (1, "3-5", "timeout"), ("ValueError", 255)):
        assert parse(option, shown(conditions)) == conditions


@pytest.mark.parametrize("value", [2**31, "2147483648"])
@pytest.mark.parametrize("name", ["max-attempts", "max-losses", "child-max-jobs"])
def test_what_is_too_much_is_refused(name, value):
    with pytest.raises(InvalidInput, match="must be at most 2147483647"):
        parse(OPTIONS[name], value)
    assert parse(OPTIONS[name], 2**31 - 1) == 2**31 - 1


def test_the_most_of_a_duration_is_in_seconds():
    option = Option(name="x.y", kind="duration", default=None, help="", least=1, most=60)
    assert parse(option, "1m") == timedelta(minutes=1)
    with pytest.raises(InvalidInput, match="must be at most 60"):
        parse(option, "61s")


def test_a_bad_value_of_the_environment_names_its_variable(file):
    with pytest.raises(InvalidInput, match=r"kill-grace \(JOBQ_KILL_GRACE\)"):
        read(file, environ={"JOBQ_KILL_GRACE": "soon"})


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_a_shown_value_is_read_back_as_it_was(kind, data):
    value = data.draw(KINDS[kind])
    option = Option(name="x", kind=kind, default=value, help="")
    assert parse(option, shown(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "none"),
        (True, "true"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(seconds=3661), "3661s"),
        (2.0, "2"),
        (0.1, "0.1"),
        (("a", "b"), "a,b"),
        ((1, "3-5"), "1,3-5"),
        (1 << 20, "1048576"),
    ],
)
def test_values_are_shown_as_a_person_writes_them(value, text):
    assert shown(value) == text


def test_live_settings_are_read_again_and_no_others(file):
    file.write_text("poll-interval = 1\nkill-grace = 1\n", encoding="utf-8")
    settings = read(file, flags={"backoff-base": "3"})
    assert settings.refresh() is None
    rewrite(file, "poll-interval = 2\nkill-grace = 2\nbackoff-base = 9\n")
    assert settings.refresh() is None
    assert settings["poll-interval"] == timedelta(seconds=2)
    assert settings["kill-grace"] == timedelta(seconds=1)
    assert settings["backoff-base"] == 3
    file.unlink()
    assert settings.refresh() is None
    assert settings["poll-interval"] == timedelta(seconds=1), "the default"


@pytest.mark.parametrize("text", ["poll-interval = 'soon'\n", "poll-interval = \n", "poll-interval = 0\n"])
def test_an_invalid_file_changes_nothing_and_is_told_once(file, text):
    file.write_text("poll-interval = 3\n", encoding="utf-8")
    settings = read(file)
    rewrite(file, text + "backoff-cap = 5\n")
    assert settings.refresh()
    assert settings["poll-interval"] == timedelta(seconds=3)
    assert settings["backoff-cap"] == timedelta(hours=1)


@pytest.mark.parametrize(
    "content", [b"a = ", b"\xff", b"a = " + b"[" * 100_000, b"x = 1\nx = 2", b"x = " + b"9" * 5000]
)
def test_what_is_no_toml_is_refused_by_its_path(file, content):
    file.write_bytes(content)
    with pytest.raises(InvalidInput, match=r"config\.toml.* is no valid TOML"):
        read(file)


def test_a_file_that_cannot_be_read_is_refused_by_its_path(tmp_path):
    directory = tmp_path / "config.toml"
    directory.mkdir()
    with pytest.raises(InvalidInput, match=r"config\.toml.* cannot be read"):
        read(directory)
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(directory / ("x" * 300))


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_what_stands_in_its_place_and_is_no_file_holds_nobody_up(file, make):
    file.write_text("poll-interval = 3\n", encoding="utf-8")
    settings = read(file)
    file.unlink()
    make(file)
    with pytest.raises(InvalidInput, match=r"cannot be read: .*is not a regular file"):
        read(file)
    assert "not a regular file" in settings.refresh()
    assert settings["poll-interval"] == timedelta(seconds=3)
