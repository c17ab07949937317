"""Lets Sphinx read docstrings as they are written here: plain text, with names as the sources have them."""

from __future__ import annotations

import builtins
import re
from typing import TYPE_CHECKING, Any

from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.addnodes import pending_xref
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

FOREIGN = {
    "AbstractContextManager",
    "Any",
    "Callable",
    "ClassVar",
    "Generic",
    "Iterable",
    "Iterator",
    "Mapping",
    "Path",
}
FOREIGN |= {"Self", "Sequence", "T", "TracebackType", "datetime", "timedelta"}
"""What the sources import by its bare name from Python's library: it is shown and leads nowhere."""
INTERNAL = {"App", "HeldUp", "Plugin", "StrPath", "Watched", "Wrapping"}
"""Classes that signatures name and nobody outside needs."""
NO_LITERAL = re.compile(r"<(?:factory|function [^<>]*(?:<\w+>[^<>]*)*)>|datetime\.datetime\([^)]*\)")
MEMBER = re.compile(r"<(\w+\.\w+): '\w+'>")
SECTIONS = ("Args:", "Attributes:", "Raises:")
BEFORE_NAPOLEON = 400


def plain(_app: Sphinx, _what: str, _name: str, _thing: object, _options: object, lines: list[str]) -> None:
    """Write an indented block as code, and what stands for several names at once for each of them."""
    section = ""
    written: list[str] = []
    for number, line in enumerate(lines):
        section = line if re.match(r"\S", line) else section
        names = re.match(r"( {4})(\w+(?:, \w+)+): (.*)", line)
        begins = not line and lines[number - 1][:1].strip() and "".join(lines[number + 1 : number + 2]).startswith(" ")
        if section in SECTIONS and names:
            text = [names[3]]
            for more in lines[number + 1 :]:
                if not more.startswith(" " * 8):
                    break
                text.append(more.strip())
            written += [f"    {name}: {' '.join(text)}" for name in names[2].split(", ")][:-1]
            written.append(f"    {names[2].split(', ')[-1]}: {names[3]}")
        elif begins and section not in SECTIONS:
            written += ["", "::", ""]
        else:
            written.append(line)
    lines[:] = written


def readable(
    _app: Sphinx, _what: str, _name: str, _thing: object, _options: object, signature: str | None, returned: str | None
) -> tuple[str | None, str | None]:
    """Write members by name, and defaults without a literal form as dots: Sphinx cannot read the signature otherwise."""
    if signature is not None:
        signature = NO_LITERAL.sub("...", MEMBER.sub(r"\1", signature))
    return signature, returned


def resolve(app: Sphinx, env: BuildEnvironment, node: pending_xref, content: nodes.TextElement) -> Any:
    """Find a name that the sources import: the one documented class that is called so, or what is not ours."""
    target = node["reftarget"]
    root, _, rest = target.partition(".")
    name = target.rpartition(".")[2]
    if node.get("refdomain") != "py":
        return None
    if name in INTERNAL or (rest and root != "jobq") or target in FOREIGN or hasattr(builtins, target):
        return content
    classes = [
        (full, found)
        for full, found in env.domains.python_domain.objects.items()
        if full.rpartition(".")[2] == name and found.objtype in ("class", "exception") and not found.aliased
    ]
    if not classes:
        return None
    full, found = min(classes, key=lambda item: item[0].count("."))
    return make_refnode(app.builder, node["refdoc"], found.docname, found.node_id, [content], full)


def setup(app: Sphinx) -> dict[str, bool]:
    """Listen to autodoc and to the resolving of references."""
    app.connect("autodoc-process-docstring", plain, priority=BEFORE_NAPOLEON)
    app.connect("autodoc-process-signature", readable)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True}
