"""Plugins at their worst: the sources of distributions, and how to look at what became of them."""

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "{name}"
version = "{version}"
description = "caf\u00e9"

[tool.hatch.build.targets.wheel]
only-include = ["{package}"]

[project.entry-points.jobq]
"""

BROKEN = {
    "raises": ("raise RuntimeError('no\\nluck')", "RuntimeError: no luck"),
    "exits": ("import sys\nsys.exit('leaving')", "SystemExit: leaving"),
    "leaves": ("class Leave(BaseException): pass\nraise Leave('at once')", "Leave: at once"),
    "lacking": ("import mischief_nowhere", "ModuleNotFoundError: No module named 'mischief_nowhere'"),
    "misspelt": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_notfy(event): pass",
        "it implements jobq_notfy (did you mean jobq_notify?), which this version of jobq does not know",
    ),
    "newer": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_frobnicate(): pass",
        "it implements jobq_frobnicate, which this version of jobq does not know; one newer than",
    ),
    "arguments": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_notify(event, colour): pass",
        "hookimpl definition: jobq_notify(event, colour) Argument(s) {'colour'}",
    ),
    "unmarked": ("def jobq_notify(event): pass", "jobq_notify must be marked with @jobq.hookimpl"),
    "awaited": (
        "from jobq import hookimpl\n@hookimpl\nasync def jobq_notify(event): pass",
        "its jobq_notify is async, and nobody would await it",
    ),
    "wrapping": (
        "from jobq import hookimpl\n@hookimpl(wrapper=True)\ndef jobq_notify(event): yield",
        "its jobq_notify is a wrapper of hooks",
    ),
    "mistyped": (
        "from jobq import hookimpl\n@hookimpl\ndef jobq_stores(): return ['json']",
        "jobq_stores handed over 'json', which is no Provider",
    ),
    "unnamable": (
        (
            "from jobq import Provider, hookimpl\n@hookimpl\ndef jobq_stores():"
            " return [Provider(name='Big Store', summary='', make=print)]"
        ),
        "'Big Store' is no name",
    ),
    "clash-one": (
        (
            "from jobq import Provider, hookimpl\n@hookimpl\ndef jobq_backoffs():"
            " return [Provider(name='same', summary='', make=print)]"
        ),
        "the backoff 'same' is offered by clash-two (mischief 0.3) too",
    ),
    "clash-two": (
        (
            "from jobq import Provider, hookimpl\n@hookimpl\ndef jobq_backoffs():"
            " return [Provider(name='same', summary='', make=print)]"
        ),
        "the backoff 'same' is offered by clash-one (mischief 0.3) too",
    ),
    "key-one": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='shared.key', kind='text', default=None, help='')]"
        ),
        "the setting 'shared.key' is offered by key-two (mischief 0.3) too",
    ),
    "key-two": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='shared.key', kind='text', default=None, help='')]"
        ),
        "the setting 'shared.key' is offered by key-one (mischief 0.3) too",
    ),
    "key-of-jobq": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='timeout', kind='duration', default=None, help='')]"
        ),
        "its setting 'timeout' must be in a table of its own",
    ),
    "default": (
        (
            "from jobq import Option, hookimpl\n@hookimpl\ndef jobq_options():"
            " return [Option(name='mischief.size', kind='integer', default=-1, least=0, help='')]"
        ),
        "its setting 'mischief.size' does not take its own default",
    ),
    "shadow": (
        (
            "import click\nfrom jobq import hookimpl\n@hookimpl\ndef jobq_commands():"
            " return [click.Command('status', callback=lambda: click.echo('replaced'))]"
        ),
        "the core command 'status' cannot be replaced",
    ),
}
"""What fails as soon as it is looked at: the module of a plugin, and why."""

MODULES = {
    "prints": """
import os, subprocess, sys, warnings
from jobq import hookimpl

print("one")
sys.__stdout__.write("two\\n")
os.write(1, b"three\\n")
subprocess.run(["echo", "four"])
warnings.warn("it is old")

@hookimpl
def jobq_commands():
    os.write(1, b"five\\n")
    return []
""",
    "hangs": """
import os
from jobq import hookimpl

if "MISCHIEF_GATE" in os.environ:
    open(os.environ["MISCHIEF_GATE"]).read()

@hookimpl
def jobq_commands():
    return []
""",
    "moody": """
import os
from jobq import Option, hookimpl

if "MISCHIEF_MOODY" in os.environ:
    raise RuntimeError("not today")

@hookimpl
def jobq_options():
    return [Option(name="moody.on", kind="boolean", default=None, activates=True, help="Listen.")]

@hookimpl
def jobq_notify(event): pass
""",
    "twin": """
from jobq import Provider, hookimpl

@hookimpl
def jobq_stores():
    return [Provider(name="{package}-twin", summary="forgets", make=print)]
""",
    "commands": """
import click
from jobq import hookimpl

@hookimpl
def jobq_commands():
    @click.command("stumble")
    def stumble():
        raise ZeroDivisionError("no luck")
    return [stumble]
""",
    "makes": """
from jobq import Provider, hookimpl

def fail(settings, context):
    raise OSError("no such server")

def leave(settings, context):
    raise SystemExit("leaving")

@hookimpl
def jobq_stores():
    return [
        Provider(name="failing", summary="", make=fail),
        Provider(name="leaving", summary="", make=leave),
        Provider(name="other", summary="", make=lambda settings, context: "a store"),
    ]

@hookimpl
def jobq_executors():
    return [Provider(name="failing", summary="", make=fail)]
""",
    "waits": """
from datetime import timedelta
from jobq import Backoff, Provider, hookimpl

class Odd(Backoff):
    def __init__(self, answer):
        self.answer = answer

    def delay(self, *, attempt, outcome, random):
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

ANSWERS = {
    "raising": ZeroDivisionError("no luck"),
    "leaving": SystemExit(3),
    "negative": timedelta(seconds=-1),
    "nan": float("nan"),
    "two-centuries": timedelta(days=73_000),
    "year": timedelta(days=365),
    "none": None,
}

@hookimpl
def jobq_backoffs():
    return [
        Provider(name=name, summary="", make=lambda settings, context, answer=answer: Odd(answer))
        for name, answer in ANSWERS.items()
    ]
""",
    "deaf": """
import os, time
from jobq import Option, hookimpl

@hookimpl
def jobq_options():
    return [
        Option(name="deaf.how", kind="text", choices=("raises", "leaves", "hangs", "slow"), default=None,
               activates=True, help="What is wrong with it."),
    ]

@hookimpl
def jobq_notify(event, settings):
    how = settings["deaf.how"]
    if how == "raises":
        raise LookupError("nobody is there")
    if how == "leaves":
        raise SystemExit(3)
    if how == "slow":
        time.sleep(0.1)
    else:
        open(os.environ["MISCHIEF_SIGN"], "w").close()
        time.sleep(3600)
""",
}
"""What is found sound when it is looked at, and goes wrong when it is used, or where a variable says so."""

FINE = """
import click
from jobq import Option, Provider, hookimpl
from jobq.testing import MemoryStore

@hookimpl
def jobq_stores():
    return [Provider(name="fine", summary="forgets it all", make=lambda settings, context: MemoryStore())]

@hookimpl
def jobq_options():
    return [Option(name="fine.file", kind="text", default=None, activates=True, help="Where events go.")]

@hookimpl
def jobq_notify(event, settings):
    with open(settings["fine.file"], "a", encoding="utf-8") as file:
        file.write(f"{event.kind}\\n")

@hookimpl
def jobq_commands():
    @click.command("fine")
    def fine():
        \"\"\"Say that all is well.\"\"\"
        click.echo("all is well")
    return [fine]

def greet(job, context):
    return "hello"
"""


def distribution_of(name, version, modules, points=None, handlers=""):
    """The files of a distribution, each of whose modules is a plugin of that name, or what `points` say."""
    package = name.replace("-", "_")
    points = points or {module: f"{package}.{module.replace('-', '_')}" for module in modules}
    lines = [f'{point} = "{target}"' for point, target in points.items()]
    project = PROJECT.format(name=name, version=version, package=package) + "\n".join(lines)
    return {
        "pyproject.toml": project + f'\n\n[project.entry-points."jobq.handlers"]\n{handlers}',
        f"{package}/__init__.py": "",
        **{
            f"{package}/{module.replace('-', '_')}.py": text.replace("{package}", package)
            for module, text in modules.items()
        },
    }


MISCHIEF = {**{name: source for name, (source, _) in BROKEN.items()}, **MODULES}
NOWHERE = "AttributeError: module 'mischief' has no attribute 'nowhere'"
REASONS = {**{name: why for name, (_, why) in BROKEN.items()}, "nowhere": NOWHERE}


CORE = (
    ("--version",),
    ("--help",),
    ("status",),
    ("list",),
    ("config", "list"),
)


def listed(environment, *args, **options):
    return {(p["name"], p["distribution"]): p for p in environment.json(*args, "plugins", "--json", **options)}


def failed(environment, *args, **options):
    return {
        name: p["error"] for (name, _), p in listed(environment, *args, **options).items() if p["status"] == "failed"
    }


def do_everything(environment, home, env=None, doctor=0):
    """Use every core command, and a good plugin beside; none may fail but the doctor."""
    answers = [environment.run(*words, home=home, env=env) for words in CORE]
    job_id = environment.run("add", "--", "true", home=home, env=env).stdout.strip()
    answers.append(environment.run("worker", "start", "--until-empty", home=home, env=env))
    assert environment.json("show", "--json", job_id, home=home, env=env)["state"] == "completed"
    answers.append(environment.run("doctor", home=home, env=env, code=doctor))
    assert "active workers" in answers[CORE.index(("status",))].stdout, "a plugin's own status has not"
    assert "Traceback" not in "".join(answer.stderr for answer in answers)
