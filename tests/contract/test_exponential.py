"""The bundled backoff is a backoff."""

import pytest

import jobq_exponential
from jobq.testing import make_context, make_settings
from jobq.testing.contracts import BackoffContract


class TestExponential(BackoffContract):
    @pytest.fixture(params=[{}, {"backoff-jitter": False}, {"backoff-base": 1e9, "backoff-cap": "36500d"}])
    def backoff(self, request, tmp_path):
        (provider,) = jobq_exponential.jobq_backoffs()
        return provider.make(make_settings(values=request.param), make_context(tmp_path / "home"))
