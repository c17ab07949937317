"""A handler that cannot be had: it takes the process that imports it down with SIGSEGV."""

import ctypes

ctypes.string_at(0)


def run(job, context):
    """Never called."""
