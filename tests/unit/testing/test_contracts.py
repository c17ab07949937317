"""The suites for notifiers and plugins are tested themselves; and what a failure, a skip and a missing tool look like."""

import itertools
import textwrap

import pytest

from jobq.testing.contracts import StoreContract
from jobq.testing.store_fixtures import StoreFixtures

pytest_plugins = ["pytester"]

NUMBERS = itertools.count()

NOTIFIERS = {
    "raises for a kind": ("if event.kind == 'lost': raise OSError('gone')", "test_it_bears_every_kind_of_event"),
    "takes every job for a handler's": ("event.job.handler.upper()", "test_it_bears_odd_jobs"),
    "writes in an encoding of its own": ("event.job.what.encode('latin-1')", "test_it_bears_odd_jobs"),
    "formats with what it is told": ("str(event.job.payload) % ()", "test_it_bears_odd_jobs"),
    "counts the days in 32 bits": ("event.time.timestamp().__int__().to_bytes(4)", "test_it_bears_times_far_away"),
    "hides secrets where they are kept": ("event.job.env.clear()", "test_it_changes_nothing_of_what_it_is_told"),
    "sorts what it is told": ("object.__setattr__(event, 'run', -1)", "test_it_changes_nothing_of_what_it_is_told"),
    "dawdles": ("import time; time.sleep(0.05)", "test_it_returns_long_before_it_is_given_up"),
}
NOTIFIER_SUITE = """
import pytest

from jobq import hookimpl
from jobq.testing.contracts import NotifierContract


@hookimpl
def jobq_notify(event):
    {body}


class TestNotifier(NotifierContract):
    @pytest.fixture
    def notify(self, monkeypatch):
        monkeypatch.setattr("jobq.testing.notifier_contract.SLOW_SECONDS", 0.08)
        return jobq_notify
"""

BACKOFF = """
@hookimpl
def jobq_backoffs():
    {before}
    return [Provider(name={name}, summary={summary}, make=make)]
"""


def backoff(before="pass", name="'mine'", summary="'one of its own'"):
    return BACKOFF.format(before=before, name=name, summary=summary)


PLUGINS = {
    "an unknown hook": ("@hookimpl\ndef jobq_frobnicate(): pass", "test_it_is_loaded"),
    "an unknown argument": ("@hookimpl\ndef jobq_notify(event, colour): pass", "test_it_is_loaded"),
    "no hook": ("x = 1", "test_it_is_loaded"),
    "no record": ("@hookimpl\ndef jobq_stores(): return ['json']", "test_it_is_loaded"),
    "a name that no setting can say": (backoff(name="'Big One'"), "test_it_is_loaded"),
    "a default of another kind": (
        "@hookimpl\ndef jobq_options(): return [Option(name='my.size', kind='size', default='x', help='A size.')]",
        "test_it_is_loaded",
    ),
    "a setting without help": (
        "@hookimpl\ndef jobq_options(): return [Option(name='my.size', kind='size', default=1, help='')]",
        "test_its_settings_stand_beside_those_of_jobq",
    ),
    "a command without help": (
        "import click\n@hookimpl\ndef jobq_commands(): return [click.Command('mine', callback=lambda: None)]",
        "test_its_commands_say_what_they_do",
    ),
    "no summary": (backoff(summary="''"), "test_every_provider_says_what_it_is"),
    "a summary of two lines": (backoff(summary="'one\\n two'"), "test_every_provider_says_what_it_is"),
    "what it makes when it is listed": (backoff("make(None, None)"), "test_nothing_is_made_by_being_listed"),
    "other names each time": (
        backoff("global calls; calls += 1", name="f'mine-{calls}'"),
        "test_it_offers_the_same_each_time",
    ),
    "a name that is taken": (backoff(name="'exponential'"), "test_none_of_its_names_is_taken"),
    "a greeting": (backoff() + "print('hello')", "test_importing_it_is_quiet_and_brings_no_bundled_plugin"),
    "a warning": (
        backoff() + "import sys, warnings\nif 'pytest' not in sys.modules: warnings.warn('old')",
        "test_importing_it_is_quiet_and_brings_no_bundled_plugin",
    ),
    "another plugin": (
        backoff() + "import jobq_json",
        "test_importing_it_is_quiet_and_brings_no_bundled_plugin",
    ),
}
PLUGIN_HEAD = """
from jobq import Option, Provider, hookimpl

calls = 0


def make(settings, context):
    return None

"""
PLUGIN_SUITE = """
import pytest

import {module}
from jobq.testing.contracts import PluginContract


class TestPlugin(PluginContract):
    @pytest.fixture
    def plugin(self):
        return {module}
"""
STORE_SUITE = """
import pytest

from jobq.testing import MemoryStorage, MemoryStore
from jobq.testing.contracts import StoreContract


class Backwards(MemoryStore):
    def add(self, new, *, now):
        return super().add(new[::-1], now=now)


class TestStore(StoreContract):
    @pytest.fixture
    def open_store(self):
        storage = MemoryStorage()
        return lambda: Backwards(storage)
"""


@pytest.fixture
def run(pytester):
    """Runs the tests of a file with this content that have this name."""

    def run(content, test, *options):
        pytester.makepyfile(test_it=content)
        return pytester.runpytest_inprocess("-p", "no:cacheprovider", "-k", test, *options)

    return run


@pytest.mark.parametrize("name", NOTIFIERS)
def test_a_faulty_notifier_is_found(run, name):
    body, test = NOTIFIERS[name]
    outcomes = run(NOTIFIER_SUITE.format(body=body), test).parseoutcomes()
    assert outcomes["failed"] >= 1, outcomes


def test_a_sound_notifier_is_not(run):
    run(NOTIFIER_SUITE.format(body="str(event.record())"), "test_it").assert_outcomes(passed=33)


@pytest.fixture
def plugin(pytester, monkeypatch):
    """Writes a module with a plugin; its name, which no other test's has."""

    def plugin(body):
        name = f"mine_{next(NUMBERS)}"
        pytester.makepyfile(**{name: PLUGIN_HEAD + textwrap.dedent(body)})
        monkeypatch.syspath_prepend(pytester.path)
        return PLUGIN_SUITE.format(module=name)

    return plugin


@pytest.mark.parametrize("name", PLUGINS)
def test_a_faulty_plugin_is_found(run, plugin, name):
    body, test = PLUGINS[name]
    outcomes = run(plugin(body), test).parseoutcomes()
    assert outcomes["failed"] == 1, outcomes


def test_a_sound_plugin_is_not(run, plugin):
    run(plugin(backoff()), "test_").assert_outcomes(passed=8)


def test_a_failure_shows_the_values_that_differ(run):
    result = run(STORE_SUITE, "test_jobs_come_back_in_the_order_given")
    result.stdout.fnmatch_lines(["E * assert [[]Job(id='b'*Job(id='c'*", "E *At index 0 diff: *"])


def test_what_a_store_does_not_declare_is_skipped_with_the_reason(run):
    result = run(STORE_SUITE, "test_a_killed_writer", "-rs")
    result.assert_outcomes(skipped=6)
    result.stdout.fnmatch_lines(["SKIPPED*this store does not declare processes, durable"])


def test_without_hypothesis_only_the_histories_are_skipped(pytester):
    pytester.makepyfile(test_it=STORE_SUITE, hypothesis="raise ModuleNotFoundError('none', name='hypothesis')")
    options = ("-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-rs", "-k", "whatever_is_done or ids_differ")
    result = pytester.runpytest_subprocess(*options)
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["SKIPPED*hypothesis, which makes up the histories, is missing"])


def test_no_part_of_the_store_contract_has_its_own_of_a_fixture_that_all_share():
    """It would count in every part: one that skips had nearly all of them skipped for a store without `moves`."""
    shared = [name for name, value in vars(StoreFixtures).items() if "fixture" in type(value).__name__.lower()]
    assert {"store", "other", "worker"} <= set(shared)
    parts = [part for part in StoreContract.__mro__ if part not in (StoreFixtures, StoreContract)]
    assert [(part.__name__, name) for part in parts for name in shared if name in vars(part)] == []
