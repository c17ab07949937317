"""Every public class and function says what it is for, and which of jobq's errors it raises."""

import ast
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


def is_command(node):
    """Whether a docstring is the help of a command, which is written for its users."""
    calls = [each.func if isinstance(each, ast.Call) else each for each in getattr(node, "decorator_list", ())]
    return any(name_of(call) in ("command", "group") for call in calls)


def raised(node):
    """The errors of jobq that a function's own body raises."""
    pending, found = list(node.body), set()
    while pending:
        each = pending.pop()
        if isinstance(each, (ast.ClassDef, ast.Lambda, *DEFINITIONS)):
            continue
        if isinstance(each, ast.Raise) and each.exc is not None:
            name = name_of(each.exc.func if isinstance(each.exc, ast.Call) else each.exc)
            found |= {name} & set(ERRORS)
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


@pytest.mark.parametrize(("owner", "node"), [each for each in DEFINED if isinstance(each.values[1], DEFINITIONS)])
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


def test_there_is_something_to_check():
    names = {each.id for each in DEFINED}
    assert {"jobq/store.py:Store", "jobq/store.py:Store.claim", "jobq/times.py:parse_at"} <= names
    assert any(raised(each.values[1]) for each in DEFINED if isinstance(each.values[1], DEFINITIONS))
    assert not says("It raises InvalidInput.", "InvalidInput")
    assert not says("Raises:\n    KeyError: it is none.", "InvalidInput")
    assert says("Raises:\n    StoreError: any.", "StoreUnavailable")
