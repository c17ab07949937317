"""The backoff reads its settings each time it is asked."""

from datetime import timedelta

import jobq_exponential
from jobq.executor import Kind, Outcome
from jobq.options import KERNEL_OPTIONS
from jobq.settings import Settings
from jobq.testing import FixedRandom, make_context


def test_new_settings_hold_for_the_next_failure(tmp_path):
    content = {"backoff-initial": 1, "backoff-jitter": False}
    version = [0]
    settings = Settings(KERNEL_OPTIONS, lambda: (dict(content), version[0]), environ={})
    (provider,) = jobq_exponential.jobq_backoffs()
    assert provider.name == "exponential"
    backoff = provider.make(settings, make_context(tmp_path / "home"))
    outcome = Outcome(kind=Kind.FAILURE)

    def delays():
        return [backoff.delay(attempt=n, outcome=outcome, random=FixedRandom(0.5)).total_seconds() for n in (1, 2, 3)]

    assert delays() == [1, 2, 4]
    content |= {"backoff-base": 10, "backoff-cap": 50}
    version[0] += 1
    assert settings.refresh() is None
    assert delays() == [1, 10, 50]
    content["backoff-jitter"] = True
    version[0] += 1
    assert settings.refresh() is None
    assert delays() == [0.75, 7.5, 37.5]
    assert backoff.delay(attempt=10_000, outcome=outcome, random=FixedRandom(0)) == timedelta(seconds=25)
