"""Settings of hypothesis for the unit tests: the same examples every time, and none that fails for being slow."""

import hypothesis

hypothesis.settings.register_profile("jobq", deadline=None, max_examples=60, derandomize=True, database=None)
hypothesis.settings.load_profile("jobq")
