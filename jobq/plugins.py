"""Finds, checks and loads plugins; the one module that touches pluggy."""

from __future__ import annotations

import pluggy

hookimpl = pluggy.HookimplMarker("jobq")
