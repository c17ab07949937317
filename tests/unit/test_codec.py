"""JSON without `json`: it reads and writes what that does, also in a process that has not imported it."""

import json
import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobq.codec import encode, loads, scan
from jobq.errors import InvalidInput
from jobq.strictjson import loads as strict

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda values: st.lists(values) | st.dictionaries(st.text(), values),
)
NONE = [
    "",
    " ",
    "{",
    '{"a',
    '{"a":',
    '{"a":1,}',
    "[1,",
    "[1 2]",
    '"abc',
    '"\n"',
    '"\\x"',
    "nul",
    "-",
    "1e",
    "01",
    "NaN",
    "}",
]


@given(value=VALUES)
def test_what_is_written_is_what_json_writes_compactly_and_is_read_again(value):
    text = encode(value)
    assert text == json.dumps(value, separators=(",", ":"))
    assert loads(text) == loads(text.encode()) == json.loads(text)
    assert scan(text + " ", 0) == (json.loads(text), len(text))


@given(text=st.text(st.sampled_from('{}[]":,\\ue1-+.0tfn \n'), max_size=12))
def test_what_is_no_json_is_none_here(text):
    try:
        expected = json.loads(text, parse_constant=pytest.fail)
    except ValueError:
        with pytest.raises(ValueError, match="JSON"):
            loads(text)
    else:
        assert loads(text) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_neither_written_nor_read(value):
    with pytest.raises(ValueError, match="JSON"):
        encode(value)
    with pytest.raises(ValueError, match="JSON"):
        loads(json.dumps(value))


def test_what_json_has_not_is_not_written():
    with pytest.raises(TypeError, match="no JSON"):
        encode({1, 2})


STUB = """
import json, sys, types
stub = types.ModuleType("_json")
{body}
sys.modules["_json"] = stub
from jobq import codec
print(codec.encode({{"a": [1.5, None, "é"]}}), codec.loads('{{"a": [1, true]}}'))
"""


@pytest.mark.parametrize(
    "body",
    [
        "",
        "def refuse(*given): raise TypeError\nstub.make_scanner = stub.make_encoder = refuse\nstub.encode_basestring_ascii = repr",
        "def make(context): return context.something_new\nstub.make_scanner = make",
        "stub.make_scanner = lambda context: lambda text, at: text.something_new",
    ],
)
def test_a_python_that_makes_its_reader_otherwise_is_read_by_json(body):
    done = subprocess.run([sys.executable, "-c", STUB.format(body=body)], capture_output=True, text=True, check=True)
    assert done.stdout == '{"a":[1.5,null,"\\u00e9"]} {\'a\': [1, True]}\n'


@pytest.mark.parametrize("text", NONE)
def test_it_is_told_alike_in_a_process_that_has_not_imported_json(text):
    with pytest.raises(InvalidInput) as here:
        strict(text)
    script = (
        "import sys; from jobq.strictjson import loads; from jobq.errors import InvalidInput; "
        "assert 'json' not in sys.modules\n"
        "try: loads(sys.argv[1])\n"
        "except InvalidInput as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", script, text], capture_output=True, text=True, check=True)
    assert done.stdout == f"{here.value}\n"
