"""The configuration file is read once for each of its states, and remembered as it was read."""

import contextlib
import os
import tomllib

import pytest

from jobq import config
from jobq.codec import encode, loads
from jobq.config import config_reader
from jobq.errors import InvalidInput

TEXT = 'timeout = 5\n[handlers]\nresize = "images:resize"\n[log]\nlevels = [1, 2.5, true]\n'


@pytest.fixture
def file(tmp_path):
    file = tmp_path / "home" / "config.toml"
    file.parent.mkdir(mode=0o700)
    return file


@pytest.fixture
def parsed(monkeypatch):
    """What was read as TOML."""
    parsed, parse = [], tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parsed.append(text) or parse(text))
    return parsed


@pytest.fixture
def settled(monkeypatch):
    """Files are old enough."""
    monkeypatch.setattr(config, "_SETTLED_SECONDS", -1.0)


def read(file):
    """As another process would."""
    return config_reader(file)()[0]


def cache(file):
    return file.parent / "cache" / "config.json"


@pytest.mark.parametrize("text", ["", TEXT, 'odd = "\\u0000 é \\U0001f600"\nlarge = 9223372036854775807\n'])
def test_it_is_parsed_once_and_known_to_all_others(file, parsed, settled, text):
    file.write_text(text, encoding="utf-8")
    assert read(file) == read(file) == tomllib.loads(text)
    assert parsed == [text, text], "once by the first, once here"


def test_a_reader_looks_again_and_reads_only_what_changed(file, parsed):
    file.write_text("timeout = 5\n", encoding="utf-8")
    reader = config_reader(file)
    first = reader()
    assert reader() is first
    os.utime(file, ns=(0, 0))
    assert (reader()[0], reader()[1] == first[1], len(parsed)) == ({"timeout": 5}, False, 2)


def test_a_changed_file_is_read_again(file, parsed, settled):
    file.write_text("timeout = 5\n", encoding="utf-8")
    assert read(file) == {"timeout": 5}
    stamp = file.stat()
    file.write_text("timeout = 6\n", encoding="utf-8")
    os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert read(file) == {"timeout": 6}, "whatever its time stamp says"
    other = file.with_name("new")
    other.write_text("timeout = 7\n", encoding="utf-8")
    other.rename(file)
    assert read(file) == {"timeout": 7}
    file.unlink()
    assert read(file) == {}
    assert len(parsed) == 3


def test_one_that_was_changed_just_now_is_not_remembered(file, parsed):
    file.write_text(TEXT, encoding="utf-8")
    assert read(file) == read(file)
    assert len(parsed) == 2
    assert not cache(file).exists()


@pytest.mark.parametrize("text", ["at = 2026-07-11\n", "most = inf\n", "least = nan\n"])
def test_what_json_has_not_is_read_each_time(file, parsed, settled, text):
    file.write_text(text, encoding="utf-8")
    assert [repr(read(file)), repr(read(file))] == [repr(tomllib.loads(text))] * 2
    assert len(parsed) == 3
    assert not cache(file).exists()


@pytest.mark.parametrize("text", [None, "timeout = 5\n", "timeout = \n"])
def test_what_the_file_says_no_longer_is_kept_no_longer(file, settled, monkeypatch, text):
    file.write_text('secret = "s3cr3t"\n', encoding="utf-8")
    read(file)
    assert "s3cr3t" in cache(file).read_text()
    monkeypatch.setattr(config, "_SETTLED_SECONDS", 3600.0)
    if text is None:
        file.unlink()
    else:
        file.write_text(text, encoding="utf-8")
    with contextlib.suppress(InvalidInput):
        read(file)
    assert not cache(file).exists()


@pytest.mark.parametrize("spoil", [lambda path: path.write_text("timeout = "), lambda path: path.mkdir()])
def test_the_path_is_told_however_long_it_is(tmp_path, spoil):
    path = tmp_path / ("long" * 20) / ("longer" * 20) / "config.toml"
    path.parent.mkdir(parents=True)
    spoil(path)
    for given in (path, str(path)):
        with pytest.raises(InvalidInput, match=f"^{path} "):
            config_reader(given)()


def test_what_is_no_toml_is_refused_each_time_and_not_remembered(file, parsed, settled):
    file.write_text("timeout = \n", encoding="utf-8")
    for _ in range(2):
        with pytest.raises(InvalidInput, match="valid TOML"):
            read(file)
    assert len(parsed) == 2
    assert not cache(file).exists()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("[" * 100_000),
        lambda path: path.write_bytes(b"\xff"),
        lambda path: path.write_text(encode(loads(path.read_text()) | {"jobq": "0.0.1"})),
        lambda path: path.write_text(encode(loads(path.read_text()) | {"content": ["timeout"]})),
        lambda path: path.write_text(encode({"version": loads(path.read_text())["version"]})),
        lambda path: path.unlink(),
        lambda path: (path.rename(path.with_name("x")), path.symlink_to("x")),
    ],
)
def test_what_is_remembered_and_is_not_to_be_used_is_not(file, parsed, settled, spoil):
    file.write_text(TEXT, encoding="utf-8")
    expected = read(file)
    spoil(cache(file))
    assert read(file) == expected
    assert len(parsed) == 2


def test_a_home_that_cannot_be_written_to_costs_only_time(file, parsed, settled, monkeypatch):
    def refuse(*_given):
        raise PermissionError(13, "Permission denied")

    file.write_text(TEXT, encoding="utf-8")
    monkeypatch.setattr(os, "mkdir", refuse)
    assert read(file) == read(file) == tomllib.loads(TEXT)


def test_what_is_remembered_is_its_owners_alone(file, settled):
    file.write_text(TEXT, encoding="utf-8")
    read(file)
    assert cache(file).stat().st_mode & 0o777 == 0o600
    assert cache(file).parent.stat().st_mode & 0o777 == 0o700
