"""The bundled executor is an executor, for commands and for handlers."""

import pytest

import jobq_subprocess
from jobq.clock import SystemClock
from jobq.testing import make_context, make_settings
from jobq.testing.contracts import ExecutorContract


class TestSubprocess(ExecutorContract):
    @pytest.fixture
    def executor(self, home):
        (provider,) = jobq_subprocess.jobq_executors()
        assert provider.name == "subprocess"
        executor = provider.make(make_settings(), make_context(home, clock=SystemClock()))
        yield executor
        executor.close()
