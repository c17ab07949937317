"""How the documentation is built: `sphinx-build -W -n docs OUT`. No network is needed."""

import sys
from pathlib import Path

import jobq

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "jobq"
version = release = jobq.__version__
html_title = f"jobq {version}"
html_show_copyright = False
html_theme = "furo"
html_theme_options = {"navigation_with_keys": True}

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_click",
    "jobq_click",
    "jobq_docstrings",
    "jobq_tables",
]
exclude_patterns = ["_*"]
default_role = "code"  # docstrings write `this` for what is code
smartquotes = False  # `--` is an option, not a dash
pygments_dark_style = "monokai"

myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # a page that is mostly generated may begin with any heading

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_inherit_docstrings = False  # what an interface says is said there
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
maximum_signature_line_length = 100
