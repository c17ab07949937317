"""Every public class and function says what it is for, in which units, and what it raises; and all of that is there."""

import ast
import builtins
import re
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from jobq import errors

ROOT = Path(__file__).parents[2]
SOURCES = sorted(
    path
    for place in ("jobq", "plugins")
    for path in (ROOT / place).rglob("*.py")
    if not {"tests", "build"} & set(path.relative_to(ROOT).parts)
)
ERRORS = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
FILLER = frozenset(
    re.findall(r"\w+", "a an and are as at be by for from in is it its of on one or that the this to with")
)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Class:
    """A class of the sources: its own docstring, its methods, the names of its bases."""

    doc: str
    bases: list[str]
    methods: dict[str, str] = field(default_factory=dict)


def name_of(node):
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def doc_of(node):
    return ast.get_docstring(node) or ""


def is_public(name):
    return not name.startswith(("_", "test_"))


CLASSES = {}
for source in SOURCES:
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef):
            bases = [ast.unparse(base.value if isinstance(base, ast.Subscript) else base) for base in node.bases]
            methods = {each.name: doc_of(each) for each in node.body if isinstance(each, DEFINITIONS)}
            CLASSES[node.name] = Class(doc_of(node), bases, methods)


def ancestors(name):
    """The classes of the sources that a class derives from."""
    known = CLASSES.get(name)
    for base in known.bases if known else []:
        if base in CLASSES:
            yield CLASSES[base]
            yield from ancestors(base)


def inherited(owner, method):
    """What the ancestors of a class say of a method and of themselves."""
    found = list(ancestors(owner))
    return "\n".join(base.methods[method] for base in found if method in base.methods), "\n".join(b.doc for b in found)


def public_definitions():
    """Each public class and function, and each public method of a public class: (place, its class, node)."""
    for source in SOURCES:
        place = source.relative_to(ROOT)
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            if not isinstance(node, (ast.ClassDef, *DEFINITIONS)) or not is_public(node.name):
                continue
            yield pytest.param("", node, id=f"{place}:{node.name}")
            for method in node.body if isinstance(node, ast.ClassDef) else ():
                named = isinstance(method, DEFINITIONS) and (is_public(method.name) or method.name == "__init__")
                if named and not any(name_of(each) in ("setter", "overload") for each in method.decorator_list):
                    yield pytest.param(node.name, method, id=f"{place}:{node.name}.{method.name}")


DEFINED = list(public_definitions())
FUNCTIONS = [each for each in DEFINED if isinstance(each.values[1], DEFINITIONS)]
CLASSES_DEFINED = [each for each in DEFINED if isinstance(each.values[1], ast.ClassDef)]
DURATION = re.compile(r"(?:\w+_)?(?:timeout|delay|wait|pause|grace|interval|within|age|after|before)")
SIZE = re.compile(r"(?:\w+_)?size|\w+_limit")
PYTHON_ERRORS = {
    name
    for name, value in vars(builtins).items()
    if isinstance(value, type) and issubclass(value, Exception) and value is not NotImplementedError
}


def is_command(node):
    """Whether a docstring is the help of a command, which is written for its users."""
    calls = [each.func if isinstance(each, ast.Call) else each for each in getattr(node, "decorator_list", ())]
    return any(name_of(call) in ("command", "group") for call in calls)


def parameters(node):
    """The names of a function's parameters."""
    given = node.args
    named = (*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg)))
    return {each.arg: "" if each.annotation is None else ast.unparse(each.annotation) for each in named}


def fields_of(node):
    """The annotated names in the body of a class."""
    annotated = (each for each in node.body if isinstance(each, ast.AnnAssign))
    return {each.target.id: ast.unparse(each.annotation) for each in annotated}


def attributes(node):
    """The names that instances of a class have by its own doing."""
    stored = (each for each in ast.walk(node) if isinstance(each, ast.Attribute) and isinstance(each.ctx, ast.Store))
    methods = {each.name for each in node.body if isinstance(each, DEFINITIONS)}
    return fields_of(node).keys() | methods | {each.attr for each in stored if name_of(each.value) == "self"}


def listed(doc):
    """What a docstring has under each of its headings: `{"Args": {name: text}}`."""
    found, heading, names = {}, "", []
    for line in doc.splitlines():
        if re.match(r"\S", line):
            heading = line[:-1] if re.fullmatch(r"[A-Z]\w+:", line) else ""
            names = []
            found.update({heading: {}} if heading else {})
        elif heading and (entry := re.match(r" {4}([*\w.]+(?:, [*\w.]+)*): (.*)", line)):
            names = [name.lstrip("*") for name in entry[1].split(", ")]
            found[heading].update(dict.fromkeys(names, entry[2]))
        elif heading:
            found[heading].update({name: f"{found[heading][name]} {line.strip()}" for name in names})
    return found


def raised(node, known=ERRORS):
    """The errors of jobq, or those of `known`, that a function's own body raises."""
    pending, found = list(node.body), set()
    while pending:
        each = pending.pop()
        if isinstance(each, (ast.ClassDef, ast.Lambda, *DEFINITIONS)):
            continue
        if isinstance(each, ast.Raise) and each.exc is not None:
            name = name_of(each.exc.func if isinstance(each.exc, ast.Call) else each.exc)
            found |= {name} & set(known)
        pending += ast.iter_child_nodes(each)
    return found


def says(doc, error):
    """Whether a docstring has the error, or the branch of the tree that it is on, under `Raises:`."""
    _, section, listed = doc.partition("Raises:")
    names = {base.__name__ for base in ERRORS[error].__mro__ if issubclass(base, errors.JobqError)}
    return bool(section) and bool(names & set(re.findall(r"\w+", listed)))


@pytest.mark.parametrize(("owner", "node"), DEFINED)
def test_it_says_more_than_its_name(owner, node):
    doc = doc_of(node)
    if owner and not doc:
        if node.name == "__init__" or re.search(rf"^ *(\w+, )*{node.name}(, \w+)*: ", CLASSES[owner].doc, re.MULTILINE):
            return  # the class says it, under its arguments and attributes
        doc, _ = inherited(owner, node.name)
        unknown = [base for base in CLASSES[owner].bases if base not in CLASSES]
        foreign = [base for base in unknown if base not in ("ABC", "Protocol", "Generic", "Exception")]
        if not doc and foreign:
            return  # what it overrides is documented by whoever wrote it
    name = set(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", node.name).replace("_", " ").lower()))
    words = set(re.findall(r"[a-z]+", doc.lower()))
    assert words - name - FILLER, f"{node.name} has no docstring that says more than its name"


@pytest.mark.parametrize(("owner", "node"), FUNCTIONS)
def test_it_says_which_errors_it_raises(owner, node):
    if is_command(node):
        return
    own = doc_of(node)
    about = CLASSES[owner].doc if owner else ""
    method, base = inherited(owner, node.name)
    for error in raised(node):
        names = {each.__name__ for each in ERRORS[error].__mro__} - {
            "JobqError",
            "Exception",
            "BaseException",
            "object",
        }
        in_general = any(f"`{each}`" in base for each in names)
        told = says(own, error) or says(method, error) or (node.name == "__init__" and says(about, error))
        assert told or in_general, f"{node.name} raises {error} and does not say so under `Raises:`"


@pytest.mark.parametrize(("owner", "node"), FUNCTIONS)
def test_it_says_which_errors_of_python_it_raises(owner, node):
    if is_command(node):
        return
    docs = (doc_of(node), inherited(owner, node.name)[0], CLASSES[owner].doc if node.name == "__init__" else "")
    assert raised(node, PYTHON_ERRORS) <= set(re.findall(r"\w+", " ".join(doc.partition("Raises:")[2] for doc in docs)))


@pytest.mark.parametrize(("owner", "node"), DEFINED)
def test_its_first_paragraph_is_a_sentence(owner, node):
    doc = doc_of(node)
    assert not doc or doc.partition("\n\n")[0].endswith((".", ":"))


@pytest.mark.parametrize(("owner", "node"), DEFINED)
def test_what_it_lists_is_there(owner, node):
    found = listed(doc_of(node))
    assert found.keys() <= {"Args", "Attributes", "Raises", "Returns"}
    if isinstance(node, ast.ClassDef):
        making = [each for each in node.body if isinstance(each, DEFINITIONS) and each.name == "__init__"]
        given = set().union(*(parameters(each) for each in making)) or fields_of(node).keys()
        assert found.get("Attributes", {}).keys() <= attributes(node)
    else:
        given = parameters(node).keys()
    assert found.get("Args", {}).keys() <= given
    known = {*ERRORS, *CLASSES, *vars(builtins)}
    assert {name for name in found.get("Raises", {}) if "." not in name} <= known


@pytest.mark.parametrize(("owner", "node"), CLASSES_DEFINED)
def test_of_the_fields_it_lists_all_or_none(owner, node):
    told = listed(doc_of(node)).get("Attributes")
    if told is not None:
        elsewhere = set().union(*(listed(base.doc).get("Attributes", {}) for base in ancestors(node.name)))
        assert {name for name in fields_of(node) if is_public(name)} <= told.keys() | elsewhere


@pytest.mark.parametrize(("owner", "node"), FUNCTIONS)
def test_a_number_has_a_unit(owner, node):
    if any(name_of(getattr(each, "func", each)) == "rule" for each in node.decorator_list):
        return  # a step of a test
    told = f"{doc_of(node)}\n{inherited(owner, node.name)[0]}\n{CLASSES[owner].doc if owner else ''}"
    for name, annotation in parameters(node).items():
        if DURATION.fullmatch(name) and re.fullmatch(r"(timedelta \| )?float( \| None)?", annotation):
            assert "second" in told, f"the unit of {name}"
        if SIZE.fullmatch(name) and "int" in annotation:
            assert re.search("byte|character", told), f"the unit of {name}"
    if node.returns is not None and re.fullmatch(r"float( \| None)?", ast.unparse(node.returns)):
        assert re.search(r"[Ss]econd|0 to 1|\[0, 1\)|number", told), "the unit of what it returns"


@pytest.mark.parametrize(("owner", "node"), CLASSES_DEFINED)
def test_a_field_that_is_a_number_has_a_unit(owner, node):
    told = listed(doc_of(node)).get("Attributes", {})
    for name, annotation in fields_of(node).items():
        if "float" in annotation and is_public(name) and not name.endswith(("_ms", "seconds")):
            assert re.search("second|unit", told.get(name, "")), f"the unit of {name}"


def test_there_is_something_to_check():
    names = {each.id for each in DEFINED}
    assert {"jobq/store.py:Store", "jobq/store.py:Store.claim", "jobq/times.py:parse_at"} <= names
    assert any(raised(each.values[1]) for each in FUNCTIONS)
    assert any(raised(each.values[1], PYTHON_ERRORS) for each in FUNCTIONS)
    assert any(DURATION.fullmatch(name) for each in FUNCTIONS for name in parameters(each.values[1]))
    assert listed("It.\n\nArgs:\n    a, b: one\n        more.\n    c: two.") == {
        "Args": {"a": "one more.", "b": "one more.", "c": "two."}
    }
    assert not says("It raises InvalidInput.", "InvalidInput")
    assert not says("Raises:\n    KeyError: it is none.", "InvalidInput")
    assert says("Raises:\n    StoreError: any.", "StoreUnavailable")
