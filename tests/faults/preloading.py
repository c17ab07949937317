"""Libraries that are preloaded into the programs under test, to make what they ask of the system go another way."""

import atexit
import functools
import shutil
import subprocess
import tempfile
from pathlib import Path


@functools.cache
def library(name: str) -> Path:
    """The library of the source NAME.c, compiled once for each process that tests."""
    directory = Path(tempfile.mkdtemp(prefix=f"{name}-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    made = directory / f"{name}.so"
    source = Path(__file__).with_name(f"{name}.c")
    subprocess.run(["gcc", "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", made, source, "-ldl"], check=True)
    return made
