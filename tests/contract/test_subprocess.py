"""The bundled executor is an executor, for commands and for handlers."""

import pytest

from jobq.clock import SystemClock
from jobq.handlers import Handler
from jobq.testing import make_context, make_settings
from jobq.testing.contracts import ExecutorContract
from jobq_subprocess import hooks

HANDLERS = """
import signal
import time

def succeeding(job, context):
    print("hello")

def failing(job, context):
    raise ValueError("oh no")

def endless(job, context):
    time.sleep(1000)

def stubborn(job, context):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(1)
"""


def make(home, **handlers):
    (provider,) = hooks.jobq_executors()
    assert provider.name == "subprocess"
    settings = make_settings(values={"handlers-path": ["."]})
    return provider.make(settings, make_context(home, clock=SystemClock(), handlers=handlers))


class TestCommands(ExecutorContract):
    @pytest.fixture
    def executor(self, home):
        executor = make(home)
        yield executor
        executor.close()


class TestHandlers(ExecutorContract):
    @pytest.fixture
    def executor(self, home):
        names = ("succeeding", "failing", "endless", "stubborn")
        (home.parent / "contract_handlers.py").write_text(HANDLERS, encoding="utf-8")
        handlers = {
            name: Handler(name=name, target=f"contract_handlers:{name}", distribution="config.toml") for name in names
        }
        executor = make(home, **handlers)
        yield executor
        executor.close()

    def succeeding(self):
        return {"handler": "succeeding"}

    def failing(self):
        return {"handler": "failing"}

    def endless(self):
        return {"handler": "endless"}

    def stubborn(self):
        return {"handler": "stubborn"}

    def unstartable(self):
        return {"handler": "nobody-has-this"}
