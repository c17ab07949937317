"""Nothing that a job, a queue or an error is called or says can steer a terminal."""

import io
import itertools
import os
import shutil
import unicodedata
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.cli import text
from jobq.cli.streams import safe
from jobq.job import State
from jobq.testing.builders import make_job
from jobq.testing.clock import START


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    return Terminal()


def steering(shown):
    """The characters of a text that a terminal, or a reader's eye, would not see as themselves."""
    return [
        character
        for character in shown
        if character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    ]


ATTACKS = {
    "title": "\x1b]0;you have been had\x07",
    "clipboard": "\x1b]52;c;cm0gLXJmIH4=\x1b\\",
    "device control": "\x1bP$q\x1b\\",
    "report": "\x1b[6n\x1b[c\x05",
    "c1 csi": "\x9b31m",
    "c1 osc": "\x9d0;t\x9c",
    "overwritten": "rm -rf /\recho fine",
    "backspaces": "evil\b\b\b\bgood",
    "bidi": "\u202eabc\u202c \u2066x\u2069 \u200f",
    "zero width": "a\u200bb\u200dc\u2060d\ufeff",
    "tags": "x\U000e0041\U000e007f",
    "line separators": "a\u2028b\u2029c\x85d",
    "surrogate": "\udc80",
}


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
@pytest.mark.parametrize("show", [text.visible, text.one_line, lambda shown: safe(shown, Terminal())])
def test_no_attack_survives(attack, show):
    shown = show(attack)
    assert steering(shown) == []
    assert "\\" in shown


@pytest.mark.parametrize("byte", range(256))
def test_every_byte_of_output_is_shown_as_itself_or_as_an_escape(byte):
    shown = text.VisibleBytes().feed(bytes([byte]), final=True)
    if byte in (9, 10) or 32 <= byte < 127:
        assert shown == chr(byte)
    else:
        assert shown == f"\\x{byte:02x}"


@given(st.binary(max_size=40), st.lists(st.integers(0, 40), max_size=5))
def test_output_in_pieces_is_shown_as_output_in_one_piece(data, cuts):
    whole = text.VisibleBytes().feed(data, final=True)
    decoder = text.VisibleBytes()
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    pieces = [decoder.feed(data[start:end]) for start, end in itertools.pairwise(edges)]
    assert "".join([*pieces, decoder.feed(b"", final=True)]) == whole
    assert steering(whole) == []


def test_a_character_cut_between_pieces_waits_for_its_rest():
    decoder = text.VisibleBytes()
    assert decoder.feed("é".encode()[:1]) == ""
    assert decoder.feed("é".encode()[1:]) == "é"
    assert decoder.feed(b"\xe2\x82") == ""
    assert decoder.feed(b"", final=True) == "\\xe2\\x82"


@given(st.text())
def test_no_text_at_all_steers(shown):
    assert steering(text.visible(shown)) == []
    assert "\n" not in text.one_line(shown)
    assert "\t" not in text.one_line(shown)


def test_harmless_text_is_left_alone():
    harmless = "Grüße, 漢字, naïve e\u0301, 🎉\n\ttab"
    assert text.visible(harmless) == harmless


def test_what_goes_into_a_file_is_not_touched():
    assert safe(ATTACKS["title"], io.StringIO()) == ATTACKS["title"]


def test_colours_only_on_a_terminal_that_wants_them(terminal, monkeypatch):
    assert text.coloured("dead", "dead", terminal) == "\x1b[31mdead\x1b[0m"
    assert text.coloured("dead", "dead", io.StringIO()) == "dead"
    monkeypatch.setenv("NO_COLOR", "1")
    assert text.coloured("dead", "dead", terminal) == "dead"
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert text.coloured("dead", "dead", terminal) == "dead"


def test_columns_align_wide_and_combining_characters():
    lines = text.columns([["漢字", "x"], ["e\u0301", "y"], ["abcd", "z"]], io.StringIO())
    assert lines == ["漢字  x", "e\u0301     y", "abcd  z"]


def test_columns_are_cut_on_a_terminal_only(terminal, monkeypatch):
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((30, 24)))
    rows = [["id", "a command that is much longer than that", "dead"], ["id2", "漢" * 30, "pending"]]
    cut = text.columns(rows, terminal, flexible=1)
    assert [text.width(line) <= 30 for line in cut] == [True, True]
    assert all("…" in line for line in cut)
    assert cut[0].endswith("dead")
    whole = text.columns(rows, io.StringIO(), flexible=1)
    assert rows[0][1] in whole[0]
    assert rows[1][1] in whole[1]


def test_a_cell_cannot_make_a_line_of_its_own():
    (line,) = text.columns([["id", "true\nfake  completed", "a\tb"]], io.StringIO())
    assert line == "id  true\\nfake  completed  a\\tb"


def test_pairs_keep_the_lines_of_a_text_below_one_another():
    assert text.pairs([("id", "x"), ("error", "exit code 1\nsecond\x1b[2J")]) == [
        "id     x",
        "error  exit code 1",
        "       second\\x1b[2J",
    ]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 s"),
        (-3, "0 s"),
        (0.2, "1 s"),
        (8, "8 s"),
        (90, "1 m 30 s"),
        (3600, "1 h"),
        (7530, "2 h 5 m"),
        (3e5, "3 d 11 h"),
    ],
)
def test_waits_in_words(seconds, shown):
    assert text.in_words(timedelta(seconds=seconds)) == shown


@pytest.mark.parametrize(
    ("fields", "shown"),
    [
        ({}, "pending"),
        ({"run_at": START + timedelta(minutes=10)}, "pending (due in 10 m)"),
        ({"state": State.FAILED, "attempts": 1, "run_at": START + timedelta(seconds=8)}, "failed (retry 2/3 in 8 s)"),
        ({"state": State.FAILED, "attempts": 2}, "failed (retry 3/3 due)"),
        ({"state": State.PROCESSING}, "processing"),
        ({"state": State.PROCESSING, "cancel_requested_at": START}, "processing (being cancelled)"),
        ({"state": State.DEAD, "run_at": START + timedelta(hours=1)}, "dead"),
    ],
)
def test_states_in_words(fields, shown):
    assert text.state_text(make_job(**fields), START) == shown


def test_the_reason_is_one_line():
    assert text.reason(make_job(last_error="exit code 1\nlast\nlines")) == "exit code 1"
    assert text.reason(make_job(last_error="\x1b[2Jboom\tx")) == "\\x1b[2Jboom\\tx"
    assert text.reason(make_job()) == ""


@pytest.mark.parametrize(
    "name",
    ["PASSWORD", "PGPASSWORD", "DB_PASS", "AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "API_KEY", "apikey", "SSH_KEY", "AUTH",
     "COOKIE", "CREDENTIALS", "SENTRY_DSN"],
)  # fmt: skip
def test_values_of_secrets_are_masked(name):
    assert text.masked(name, "hunter2") == "***"


@pytest.mark.parametrize(
    "name", ["PATH", "PWD", "OLDPWD", "LANG", "KEYBOARD", "MONKEY", "COMPASS", "AUTHOR", "BYPASSED"]
)
def test_other_values_are_shown(name):
    assert text.masked(name, "/usr/bin:/bin") == "/usr/bin:/bin"


def test_a_password_in_an_url_is_masked_whatever_the_name():
    assert text.masked("DATABASE", "postgres://me:hunter2@db:5432/x") == "postgres://me:***@db:5432/x"


def test_a_password_is_masked_to_its_end():
    assert text.masked("A", "http://me:hun@ter2@db/a@b") == "http://me:***@db/a@b"
    assert text.masked("A", "http://me@db:80/a:b@c") == "http://me@db:80/a:b@c"


@pytest.mark.parametrize("stream", [Terminal(), io.StringIO()])
def test_passwords_in_urls_are_masked_in_tables(stream):
    (line,) = text.columns([("id", "curl http://me:hunter2@host/x", "dead")], stream, flexible=1)
    assert line.split("  ") == ["id", "curl http://me:***@host/x", "dead"]
    assert text.pairs([("command", "curl http://me:hunter2@host/x\nhttp://me:hunter2@host/y")]) == [
        "command  curl http://me:***@host/x",
        "         http://me:***@host/y",
    ]
