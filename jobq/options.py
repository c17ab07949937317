"""The table of jobq's own settings; plugins add theirs through `jobq_options`."""

from __future__ import annotations

from jobq.light import timedelta
from jobq.providers import Option

CAPTURED = (
    "PATH",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "CONDA_DEFAULT_ENV",
    "PYTHONPATH",
    "LD_LIBRARY_PATH",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
)

MOST_COUNT = 2**31 - 1
"""What a database column of 32 bits holds."""

KERNEL_OPTIONS = (
    Option(
        name="max-attempts",
        kind="integer",
        default=3,
        least=1,
        most=MOST_COUNT,
        aliases=("max-retries",),
        help="How many failed attempts make a job dead; captured when a job is enqueued.",
    ),
    Option(name="timeout", kind="duration", default=None, least=0.001, help="The longest an attempt may take."),
    Option(
        name="retry-on",
        kind="list",
        default=(),
        help="Only these failures are retried, if there are any: `1,3-5,timeout,signal,ValueError`; captured when a "
        "job is enqueued that names none. Names of exceptions count for handlers.",
    ),
    Option(name="no-retry-on", kind="list", default=(), help="Failures that are not retried, likewise."),
    Option(
        name="store", kind="text", default="json:", help="Where jobs are kept: a store's name, a colon, its address."
    ),
    Option(name="executor", kind="text", default="subprocess", help="What runs attempts."),
    Option(name="backoff", kind="text", default="exponential", help="What chooses the wait after a failure."),
    Option(
        name="backoff-initial",
        kind="duration",
        default=timedelta(seconds=2),
        live=True,
        help="The wait after the first failure.",
    ),
    Option(
        name="backoff-base",
        kind="number",
        default=2.0,
        least=1,
        live=True,
        help="Each further wait is this many times the one before.",
    ),
    Option(
        name="backoff-cap", kind="duration", default=timedelta(hours=1), live=True, help="No wait is longer than this."
    ),
    Option(
        name="backoff-jitter",
        kind="boolean",
        default=True,
        live=True,
        help="Draw each wait from between its half and its whole.",
    ),
    Option(
        name="poll-interval",
        kind="duration",
        default=timedelta(seconds=1),
        least=0.01,
        live=True,
        help="The longest a worker waits before it looks at the store again.",
    ),
    Option(
        name="stop-grace",
        kind="duration",
        default=None,
        help="How long a worker that was told to stop lets running jobs finish; unset: without limit.",
    ),
    Option(
        name="kill-grace",
        kind="duration",
        default=timedelta(seconds=5),
        help="How long a job's processes have between TERM and KILL.",
    ),
    Option(
        name="max-losses",
        kind="integer",
        default=3,
        least=1,
        most=MOST_COUNT,
        help="How many workers in a row a job may take down before it is dead.",
    ),
    Option(
        name="child-max-jobs",
        kind="integer",
        default=10_000,
        least=1,
        most=MOST_COUNT,
        help="How many attempts a handler's process runs before it is replaced.",
    ),
    Option(
        name="child-max-memory",
        kind="size",
        default=None,
        help="Replace a handler's process that holds more than this after an attempt.",
    ),
    Option(name="payload-limit", kind="size", default=1 << 20, help="The largest payload, as JSON."),
    Option(name="result-limit", kind="size", default=1 << 20, help="The largest result of a handler, as JSON."),
    Option(
        name="output-limit",
        kind="size",
        default=10 << 20,
        least=4096,
        live=True,
        help="How much output of an attempt is kept; of more, the head and the tail.",
    ),
    Option(
        name="keep-completed",
        kind="duration",
        default=timedelta(days=7),
        live=True,
        help="How long completed jobs are kept.",
    ),
    Option(
        name="keep-cancelled",
        kind="duration",
        default=timedelta(days=7),
        live=True,
        help="How long cancelled jobs are kept.",
    ),
    Option(
        name="capture-env",
        kind="list",
        default=CAPTURED,
        help="The variables that `jobq add` takes along from the shell it is typed in.",
    ),
    Option(
        name="handlers-path",
        kind="list",
        default=(),
        help="Directories, relative to the home's parent, from which [handlers] of config.toml may import.",
    ),
    Option(
        name="durability",
        kind="text",
        default="full",
        choices=("full", "normal"),
        help="full: nothing acknowledged is lost with the power. normal: the last second may be.",
    ),
    Option(name="plugins.block", kind="list", default=(), help="Plugins that are not to be loaded."),
    Option(
        name="plugins.strict", kind="boolean", default=False, help="Refuse to work when any plugin cannot be loaded."
    ),
)
